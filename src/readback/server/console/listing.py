"""The list of actions: filters in the URL, and pages by key.

One filter is answered by an index, and the others by examining rows. A page examines at most EXAMINED_MAX rows, so its
cost is bounded for any number of actions; a rare match is found by continuing the search from a link.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

from readback.canon.frozen import dataclass
from readback.client.session import Session
from readback.domain.state import State
from readback.ports.storage.store import ActionFilter, Projection, StoredProjection

ROWS_MAX: Final = 50
EXAMINED_MAX: Final = 1_000
PIECE: Final = 250
TEXTS: Final = ("state", "contract", "target", "run", "principal", "saga", "discrepancy", "hold", "review")
FILTER_MAX_CHARACTERS: Final = 256
US: Final = 1_000_000
CLOCK_MARGIN_US: Final = 300_000_000
"""Clocks of the processes that make ids may differ by five minutes."""
DIGITS: Final = "0123456789abcdefghjkmnpqrstvwxyz"
ID_LENGTH: Final = 26
ID_RANDOM_BITS: Final = 80


@dataclass(frozen=True, slots=True)
class Chosen:
    """The filters of a list. `fault`: what is wrong with a filter, "" where none is."""

    values: Mapping[str, str]
    since_us: int = 0
    until_us: int = 0
    since: str = ""
    until: str = ""
    before: str = ""
    fault: str = ""

    def text(self, name: str) -> str:
        """The value of a filter; "" for none."""
        return self.values.get(name, "")

    @property
    def state(self) -> str:
        """The chosen state."""
        return self.text("state")

    @property
    def review(self) -> bool:
        """Whether only actions in review are listed."""
        return bool(self.text("review"))

    def url(self, before: str = "") -> str:
        """The address of the same list, from an id on."""
        named = {name: value for name, value in self.values.items() if value}
        named |= {name: value for name, value in (("since", self.since), ("until", self.until)) if value}
        if before:
            named["before"] = before
        return f"/actions?{urlencode(named)}" if named else "/actions"


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of the list. `next`: the address of the next page, "" at the end. `full`: the page has all its rows."""

    rows: tuple[StoredProjection, ...]
    next: str
    full: bool
    examined: int
    back_to_us: int


def chosen_of(query: Mapping[str, str]) -> Chosen:
    """Return the filters of a query. An invalid value is named and matches nothing of its own."""
    values = {name: query.get(name, "").strip()[:FILTER_MAX_CHARACTERS] for name in TEXTS}
    fault = ""
    if values["state"] and values["state"] not in tuple(State):
        fault, values["state"] = f"There is no state {values['state']!r}.", ""
    times: dict[str, int] = {}
    for name in ("since", "until"):
        times[name], said = _time(query.get(name, "")[:FILTER_MAX_CHARACTERS])
        fault = fault or said
    before = query.get("before", "")[:FILTER_MAX_CHARACTERS]
    texts = {name: query.get(name, "") if times[name] else "" for name in times}
    return Chosen(values, times["since"], times["until"], texts["since"], texts["until"], before, fault)


def listing_of(session: Session, chosen: Chosen) -> Listing:
    """Return a page of actions, the newest first. Raises StoreError."""
    before = chosen.before or (id_at(chosen.until_us + CLOCK_MARGIN_US) if chosen.until_us else "")
    end = id_at(max(chosen.since_us - CLOCK_MARGIN_US, 0)) if chosen.since_us else ""
    found: list[StoredProjection] = []
    examined, back_to_us = 0, 0
    while examined < EXAMINED_MAX:
        piece = session.store.page(_by_index(session.scope.tenant, chosen, before, end))
        for each in piece:
            examined, before, back_to_us = examined + 1, each.projection.action_id, each.projection.created_us
            if _matches(each.projection, chosen):
                found.append(each)
            if len(found) == ROWS_MAX:
                return Listing(tuple(found), chosen.url(before), True, examined, back_to_us)
        if len(piece) < PIECE:
            return Listing(tuple(found), "", False, examined, back_to_us)
    return Listing(tuple(found), chosen.url(before), False, examined, back_to_us)


def _by_index(tenant: str, chosen: Chosen, before: str, after: str) -> ActionFilter:
    """The query with the most selective of the filters that have an index."""
    base = ActionFilter(tenant, before_id=before, after_id=after, limit=PIECE)
    if chosen.text("saga"):
        return replace(base, saga=chosen.text("saga"))
    if chosen.text("run"):
        return replace(base, run=chosen.text("run"))
    if chosen.review:
        return replace(base, review=True)
    if chosen.state:
        return replace(base, state=chosen.state)
    return replace(base, contract=chosen.text("contract"))


def _matches(held: Projection, chosen: Chosen) -> bool:
    exact = ("state", "contract", "run", "principal", "saga", "discrepancy", "hold")
    return (
        all(not chosen.text(name) or getattr(held, name) == chosen.text(name) for name in exact)
        and (not chosen.review or bool(held.review))
        and chosen.text("target").lower() in held.target.lower()
        and (not chosen.since_us or held.created_us >= chosen.since_us)
        and (not chosen.until_us or held.created_us < chosen.until_us)
    )


def id_at(at_us: int) -> str:
    """The lowest id of this moment: ids begin with the milliseconds since the epoch."""
    number = (at_us // 1_000) << ID_RANDOM_BITS
    return "".join(DIGITS[number >> shift & 31] for shift in range(5 * (ID_LENGTH - 1), -1, -5))


def _time(text: str) -> tuple[int, str]:
    if not text:
        return 0, ""
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * US, ""
    except (ValueError, OverflowError):
        return 0, f"{text!r} is not a time such as 2026-01-31T08:30."
