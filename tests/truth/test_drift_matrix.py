"""The drift matrix: what becomes of a verified state, seen by every path, against what really was at every moment.

Never a retraction without a strong reading that refutes, always one with it; never a second execution; and back only by
a reading as strong. A failing cell names itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Final

import pytest

from readback.audit.checks.ledger import audit
from readback.canon import Json
from readback.domain.action.claim import ClaimKind, ClaimStatus, last_event_of
from readback.domain.context import Context
from readback.domain.events import EventKind
from readback.domain.side_effect import Consistency
from readback.domain.state import State
from readback.domain.verification.reading import Reading
from readback.testing.runtime_virtual import START_US
from tests.lifecycle.house import HIGH, MEDIUM, STAMPED, TENANT, House

Args = Mapping[str, Any]
Row = dict[str, Json]
DAY: Final = 86_400.0
DAYS: Final = 12
OURS: Final = {**STAMPED["identity"], "actor": "authoritative.author"}
CLASSES: Final[dict[str, dict[str, Any]]] = {
    "low": {"identity": OURS},
    "medium": {**MEDIUM, "identity": OURS},
    "high": {**HIGH, "identity": {**OURS, "account": "not_offered"}},
}
TWO: Final = (("session", "other_client", "near"), ("strong", "other_client", "orders"))
ONE: Final = (("strong", "other_client", "orders"),)


@dataclass(slots=True)
class Past:
    """The one record, and all that it was. `None`: it is not there."""

    house: House
    told: list[tuple[float, Row | None]] = field(default_factory=list)

    def keep(self) -> None:
        row = self.house.shop.rows.get("o-1")
        self.told.append((self.house.shop.now(), None if row is None else dict(row)))

    def at(self, moment: float) -> Row | None:
        found = self.told[0][1]
        for since, row in self.told:
            if since <= moment:
                found = row
        return found

    def write(self, **fields: Json) -> None:
        rows = self.house.shop.rows
        old = rows.get("o-1") or {"id": "o-1", "tenant": TENANT, "version": 40, "stamp": "", "author": "seed"}
        version = old["version"]
        assert isinstance(version, int)
        rows["o-1"] = {**old, "version": version + 1, **fields}
        self.keep()

    def remove(self) -> None:
        self.house.shop.rows.pop("o-1", None)
        self.keep()


def shown(row: Row | None) -> Reading:
    if row is None:
        return Reading.absent()
    version, stamp = row["version"], row["stamp"]
    assert isinstance(version, int)
    return Reading.of(dict(row), version=version, stamp=str(stamp) or None, author=str(row["author"]))


# --- what happens, and by which path it is seen --------------------------------------------------------------------

DRIFTS: Final[dict[str, Callable[[Past, int], None]]] = {
    "nothing": lambda past, day: None,
    "beside": lambda past, day: past.write(note=str(day)) if day == 3 else None,
    "drift": lambda past, day: past.write(status="lost") if day == 3 else None,
    "other actor": lambda past, day: past.write(status="lost", author="agent:b", stamp="rb-b") if day == 3 else None,
    "deleted": lambda past, day: past.remove() if day == 3 else None,
    "back": lambda past, day: past.write(status={3: "lost", 7: "shipped"}[day]) if day in (3, 7) else None,
    "flap": lambda past, day: past.write(status="lost" if day % 2 else "shipped") if day > 2 else None,
    "other and other": lambda past, day: past.write(status=f"lost {day}") if day in (3, 6, 9) else None,
    "made again": lambda past, day: past.remove() if day == 3 else past.write(status="shipped") if day == 6 else None,
}


def _lags(past: Past, ctx: Context) -> Reading:
    """Two days behind."""
    return shown(past.at(past.house.shop.now() - 2 * DAY))


def _lowered(past: Past, ctx: Context) -> Reading:
    return replace(_lags(past, ctx), consistency=Consistency.SESSION)


def _down(past: Past, ctx: Context) -> Reading:
    raise ConnectionError("down")


def _sometimes(past: Past, ctx: Context) -> Reading:
    if len(past.house.shop.looks) % 3 == 0:
        raise ConnectionError("down")
    return shown(past.at(past.house.shop.now()))


def _true(past: Past, ctx: Context) -> Reading:
    return shown(past.at(past.house.shop.now()))


PATHS: Final[dict[str, tuple[Any, Callable[[Past, Context], Reading], bool]]] = {
    "true": (ONE, _true, True),
    "true, two readers": (TWO, _true, True),
    "sometimes down": (ONE, _sometimes, True),
    "the near one lags": (TWO, lambda past, ctx: _true(past, ctx) if ctx.strong else _lags(past, ctx), False),
    "a replica answers": (ONE, _lowered, False),
    "down": (ONE, _down, False),
    "incomplete": (ONE, lambda past, ctx: Reading.absent(complete=False), False),
    "not visible": (ONE, lambda past, ctx: Reading.not_visible("404"), False),
    "another's": (ONE, lambda past, ctx: Reading.of({"id": "o-9", "tenant": "globex", "status": "lost"}), False),
    "no reading": (ONE, lambda past, ctx: {"status": "lost"}, False),  # type: ignore[dict-item, return-value]
}
"""Readers, what they show after the success, and whether whatever is strong there sees everything."""
UNSEEN: Final = frozenset({"a replica answers", "down", "incomplete", "not visible", "another's", "no reading"})
"""Paths by which nothing strong is seen: nothing may ever be said of a claim."""


@dataclass(frozen=True, slots=True)
class Played:
    house: House
    past: Past
    action_id: str


def play(kind: str, name: str, drift: str, path: str) -> Played:
    """One cell: a success, then so many days, each with what happens on it."""
    house = House()
    readers, eyes, _ = PATHS[path]
    options: dict[str, Any] = {**CLASSES[name], "kind": kind, "readers": readers}
    if kind == "create":
        house.shop.rows.clear()
    house.shop.runtime.advance(5 * DAY)  # so that a reading that lags has something to lag behind
    past = Past(house)
    past.keep()
    told = house.run(house.action(watch={"every": "12h", "for": "20d"}, **options))
    assert told.verified, (told.state, told.detail)
    past.keep()
    house.shop.eyes = lambda ctx, args: eyes(past, ctx)
    for day in range(1, DAYS + 1):
        DRIFTS[drift](past, day)
        house.work(house.shop.now() + DAY)
    return Played(house, past, told.id)


def faults(played: Played, *, sees: bool) -> Iterator[str]:
    """What is wrong with a cell."""
    house, past, action_id = played.house, played.past, played.action_id
    if len(house.shop.calls) != 1:
        yield f"it was called {len(house.shop.calls)} times"
    report = audit(house.store)
    if not report.ok:
        yield str(report.faults)
    last: dict[str, Json] = {}
    for event in house.events(action_id):
        at = (event.at_us - START_US) / 1_000_000
        row = past.at(at)
        holds = row is not None and row["status"] == "shipped"
        if event.kind is EventKind.READ:
            last = event.data
        if event.kind is EventKind.CLAIM_RETRACTED and (holds or last.get("consistency") != "strong"):
            yield f"withdrawn on day {at / DAY:.1f} without a strong reading of a drift"
        if event.kind is EventKind.CLAIM_REINSTATED and (not holds or last.get("consistency") != "strong"):
            yield f"reinstated on day {at / DAY:.1f} without a strong reading that it holds"
    yield from _at_the_end(played, sees=sees)


def _at_the_end(played: Played, *, sees: bool) -> Iterator[str]:
    house, action_id = played.house, played.action_id
    row = house.shop.rows.get("o-1")
    holds = row is not None and row["status"] == "shipped"
    action = house.folded(action_id)
    said = last_event_of(action.claims, ClaimKind.HOLDS)
    told = house.get(action_id)
    if told.state is not State.RECONCILED_SUCCESS or last_event_of(action.claims, ClaimKind.HAPPENED) is not None:
        yield "that it happened was touched"
    fallen = said is not None and said.status is ClaimStatus.RETRACTED
    if sees and fallen is holds:
        yield f"at the end it {'holds' if holds else 'drifted'}, and its claim is {said.status if said else 'whole'}"
    if told.standing is fallen or (told.review == "drift") is not fallen:
        yield f"standing {told.standing}, in review for {told.review!r}, claim {said.status if said else 'whole'}"
    if "completed" in told.message and fallen:
        yield "a drift was told as completed"


@pytest.mark.requirement("WATCH-drift", "WATCH-undetermined", "WATCH-strong", "WATCH-back", "PRINCIPLE-tell-reconciled")
@pytest.mark.parametrize("name", ["low", *(pytest.param(name, marks=pytest.mark.slow) for name in ("medium", "high"))])
@pytest.mark.parametrize("path", PATHS)
def test_a_claim_falls_by_a_strong_refutation_always_and_by_nothing_else_ever(path: str, name: str) -> None:
    found = []
    for kind, drift in product(("set", "create"), DRIFTS):
        played = play(kind, name, drift, path)
        found += [f"play{(kind, name, drift, path)!r}: {fault}" for fault in faults(played, sees=PATHS[path][2])]
        if path in UNSEEN and played.house.folded(played.action_id).claims:
            found.append(f"play{(kind, name, drift, path)!r}: something was said, and nothing strong was seen")
    assert not found, "\n".join(found[:12])


def test_the_matrix_has_what_it_is_about() -> None:
    """Falls and returns are really met, so that the rules above are not empty."""
    met = {True: 0, False: 0}
    for drift in DRIFTS:
        kinds = (played := play("set", "low", drift, "true")).house.kinds(played.action_id)
        met[EventKind.CLAIM_RETRACTED in kinds] += 1
        assert (EventKind.CLAIM_REINSTATED in kinds) is (drift in ("back", "flap", "made again")), drift
    assert met == {True: 7, False: 2}
