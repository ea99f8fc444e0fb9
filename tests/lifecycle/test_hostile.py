"""What tools, readers, searches and look-ups hand back may be anything: a fault of theirs, and never the engine's.

Each case acts first. Whatever is then handed back, the action ends in a state that the ledger tells, nothing is told as
done that no reading shows, and the next start can go on with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

import pytest

from readback import Context, Outcome, Reading, State, Verdict, action
from readback.domain.verdict import Why
from readback.domain.verification.observation import Observation, ObservationStatus
from readback.domain.verification.reading import Lookup, Presence
from readback.ports.storage.store import Append, AppendResult
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.sdk.given import Desk, opened, ship_of

SHIPPED: Any = {"id": "o-1", "tenant": "acme", "status": "shipped", "carrier": "dhl"}
HALF = "\ud800"
LARGE = "x" * 5_000_000
CYCLE: list[Any] = []
CYCLE.append(CYCLE)


class Mute(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("str")

    __repr__ = __str__


class Mine:
    """Fails whatever it is asked."""

    def __repr__(self) -> str:
        raise RuntimeError("repr")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")

    def __hash__(self) -> int:
        raise RuntimeError("hash")

    def __bool__(self) -> bool:
        raise RuntimeError("bool")

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(name)


def lying(kind: type) -> object:
    """It says that it is of that type."""
    return type("Liar", (), {"__class__": kind})()


def raising(error: BaseException) -> Callable[[Context], object]:
    def call(_ctx: Context) -> object:
        raise error

    return call


def present(**fields: Any) -> Reading:
    return Reading(Presence.PRESENT, **{"value": SHIPPED, **fields})


READINGS: dict[str, object] = {
    **{f"version {n}": present(version=v) for n, v in {"half": 1.5, "list": [1], "long": LARGE, "text": HALF}.items()},
    **{f"version {n}": present(version=v) for n, v in {"mine": Mine(), "yes": True, "wide": 2**80}.items()},
    **{
        f"as of {n}": present(as_of_us=v) for n, v in {"half": 1.5, "nan": math.nan, "wide": 2**60, "text": "x"}.items()
    },
    **{f"stamp {n}": present(stamp=v) for n, v in {"mine": Mine(), "number": 5}.items()},
    **{f"author {n}": present(author=v) for n, v in {"object": object(), "bytes": b"a"}.items()},
    "created": present(created_after_dispatch="no"),
    "token": present(commit_token_honoured=0.5),
    "complete": present(complete=Mine()),
    "consistency": present(consistency="strong"),
    "presence": Reading(cast("Presence", "present"), SHIPPED),
    "value object": present(value=cast("Any", object())),
    "value cycle": present(value=CYCLE),
    "value nan": present(value={**SHIPPED, "x": math.nan}),
    "value text": present(value={**SHIPPED, "x": HALF}),
    "value large": present(value={**SHIPPED, "x": LARGE}),
    "value larger": present(value={**SHIPPED, **{str(n): "x" * 1_000_000 for n in range(5)}}),
    "value mine": present(value={**SHIPPED, "x": cast("Any", Mine())}),
    "liar": lying(Reading),
    "mine": Mine(),
    "detail": Reading(Presence.UNAVAILABLE, detail=cast("str", 5)),
}


class Place(Desk):
    """A desk of which a reader hands back anything, once something was done."""

    read: Callable[[Context], object] | None = None

    def look(self, ctx: Context, order_id: str) -> Reading:
        if self.read is None or not self.calls:
            return super().look(ctx, order_id)
        return cast("Reading", self.read(ctx))


def _hand(call: Callable[[Context], object]) -> Callable[..., Any]:
    return lambda ctx, order_id, carrier: call(ctx)


def _run(
    tool: Callable[[Context], object] | None = None,
    read: Callable[[Context], object] | None = None,
    find: Callable[[Context], object] | None = None,
    lookup: Callable[[Context], object] | None = None,
    **terms: Any,
) -> tuple[Outcome, Outcome]:
    """As `run` tells it, and as another process tells it after it went on with it."""
    desk, store, runtime = Place(), MemoryStore(), VirtualRuntime(owner="process/1")
    if tool is not None:

        def instead(ctx: Context) -> object:
            desk.order().update(status="shipped", carrier="dhl", stamp=ctx.stamp, version=1)
            return tool(ctx)

        desk.instead = instead
    ship = ship_of(desk, find=False, **terms)
    desk.read = read
    if find is not None:
        ship.find(_hand(find))
    if lookup is not None:
        ship.lookup(_hand(lookup))
    with opened(store, runtime) as rb:
        told = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
        assert told.for_model()
        assert told.as_json()
    runtime.declare_gone("process/1")
    runtime.advance(3600)
    with opened(store.reopened(), runtime.sibling("process/2"), actions=[ship]) as rb:
        rb.resume()
        return told, rb.get(told.id)


@pytest.mark.slow
@pytest.mark.parametrize("name", READINGS)
def test_a_reading_of_no_known_types_and_sizes_is_a_fault_of_its_reader(name: str) -> None:
    for outcome in _run(read=lambda _ctx: READINGS[name]):
        assert (outcome.verdict, outcome.why) == (Verdict.UNDETERMINED, Why.VERIFIER_ERROR)
        assert outcome.state in (State.UNKNOWN, State.REVIEW_REQUIRED)
        assert not outcome.may_repeat


@pytest.mark.parametrize("text", [LARGE, HALF, "a\nb\x1b[31m\u202e"], ids=["large", "half", "controls"])
def test_names_and_details_from_outside_are_kept_as_one_bounded_line(text: str) -> None:
    for outcome in _run(read=lambda _ctx: present(author=text, stamp=text)):
        assert outcome.verified
    for reading in (Reading.unavailable(text), Reading.not_visible(text)):
        for outcome in _run(read=lambda _ctx, reading=reading: reading):  # type: ignore[misc]
            assert outcome.verdict is Verdict.UNDETERMINED
            assert len(outcome.detail) <= 300
            assert outcome.detail.isprintable()


@pytest.mark.parametrize(
    "error", [Mute(), Exception(HALF), Exception(LARGE), Exception("a\nb")], ids=["mute", "half", "large", "lines"]
)
def test_an_error_that_cannot_be_told_is_still_the_readers(error: Exception) -> None:
    for outcome in _run(read=raising(error)):
        assert outcome.why is Why.VERIFIER_ERROR
        assert outcome.detail.isprintable()


TOOLS: dict[str, object] = {
    "observation of a liar": lying(Observation),
    "observation": Observation(cast("ObservationStatus", "success"), True, LARGE, HALF, cast("Any", Mine()), None, 0),
    "observation's fields": Observation(ObservationStatus.SUCCESS, True, "x", HALF, None, LARGE, 0, 2**70),
    "mine": Mine(),
    "cycle": CYCLE,
    "number": math.nan,
}


@pytest.mark.parametrize("name", TOOLS)
def test_an_answer_that_cannot_be_looked_at_is_an_observation(name: str) -> None:
    for outcome in _run(tool=lambda _ctx: TOOLS[name]):
        assert outcome.verified
        assert outcome.observation is not None
        assert outcome.observation.dispatched


LOOKUPS: dict[str, object] = {
    "status": Lookup("weird"),
    "status mine": Lookup(cast("str", Mine())),
    "status large": Lookup(LARGE),
    "detail": Lookup("pending", detail=cast("str", Mine())),
    "detail text": Lookup("pending", detail=HALF),
    "liar": lying(Lookup),
}


@pytest.mark.parametrize("name", LOOKUPS)
def test_a_look_up_of_no_known_words_settles_nothing(name: str) -> None:
    for outcome in _run(read=lambda _ctx: Reading.unavailable("down"), lookup=lambda _ctx: LOOKUPS[name]):
        assert outcome.verdict is Verdict.UNDETERMINED
        assert not outcome.may_repeat


FOUND: dict[str, object] = {
    "liar": [lying(Reading)],
    "cycle": CYCLE,
    "value": [present(value=CYCLE)],
    "version": [present(version=Mine())],
    "too much": [Reading.of({"k": "x" * 1_000_000}) for _ in range(5)],
    "too many": [present()] * 65,
    "generator": (each for each in [present()]),
}


@pytest.mark.parametrize("name", FOUND)
def test_a_search_that_cannot_be_looked_at_was_not_made(name: str) -> None:
    opened_still = {**SHIPPED, "status": "open"}
    for outcome in _run(read=lambda _ctx: Reading.of(opened_still), find=lambda _ctx: FOUND[name]):
        assert outcome.state is State.REVIEW_REQUIRED
        assert not outcome.may_repeat


@pytest.mark.parametrize("answer", [Mine(), HALF, LARGE, CYCLE, Mute()], ids=lambda each: type(each).__name__)
def test_a_check_that_answers_nonsense_is_undetermined_and_quotes_none_of_it(answer: object) -> None:
    def nonsense(authoritative: Any) -> object:
        if authoritative["status"] != "shipped":
            return False
        if isinstance(answer, Exception):
            raise answer
        return answer

    for outcome in _run(ensure={"nonsense": nonsense}):
        assert outcome.why is Why.VERIFIER_ERROR
        assert all(len(each.reason) < 100 for each in outcome.postconditions)


# --- what a restart leaves of redacted arguments ---


class Died(BaseException):
    """The process ends here."""


class Mortal(MemoryStore):
    """A store whose process dies: from then on nothing is appended by it."""

    dead = False

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        if self.dead:
            raise Died
        return super().append(batch)


def _after_a_restart(
    look: Callable[[dict[str, str], Any], Reading],
    compensated: list[object] | None = None,
    ensure: str = "authoritative.status == 'sent'",
) -> Outcome:
    """The process died behind the effect; the next one knows `email` as redacted only."""
    letters: dict[str, str] = {}
    store, runtime = Mortal(), VirtualRuntime(owner="process/1")

    @action(
        name="write",
        kind="set",
        side_effect="low_risk_internal",
        target="letter/{requested.number}",
        identity={"target": "authoritative.id", "tenant": "authoritative.tenant"},
        ensure={"sent": ensure},
        redact=["requested.email"],
        within="2s",
        late_window="10s",
        execute={"reversible": True},
    )
    def write(ctx: Context, number: str, email: str) -> object:
        letters[email] = "sent"
        store.dead = True
        return {"ok": True}

    @write.read(source="letters", consistency="strong", independence="other_client")
    def letter(ctx: Context, number: str, email: str) -> Reading:
        return look(letters, email)

    if compensated is not None:

        @write.compensate(name="unwrite", kind="set", ensure={"gone": "authoritative.status == 'gone'"})
        def unwrite(ctx: Context, number: str, email: str) -> object:
            compensated.append(email)
            return {"ok": True}

    with opened(store, runtime) as rb, pytest.raises(Died):
        rb.run(write(number="1", email="a@b.c"), operation="op")
    store.dead = False
    runtime.declare_gone("process/1")
    with opened(store.reopened(), runtime.sibling("process/2"), actions=[write]) as rb:
        for _ in range(4):
            runtime.advance(60)
            rb.resume()
        [outcome] = rb.list(contract="write")
        return outcome


def _letter(status: str | None) -> Reading:
    if status is None:
        return Reading.absent()
    return Reading.of({"id": "1", "tenant": "acme", "status": status, "email": "a@b.c"}, version=1)


def test_a_reader_that_needs_a_redacted_argument_does_not_find_nothing() -> None:
    outcome = _after_a_restart(lambda letters, email: _letter(letters.get(email)))
    assert (outcome.verdict, outcome.why) == (Verdict.UNDETERMINED, Why.VERIFIER_ERROR)
    assert not outcome.may_repeat


def test_a_reader_that_compares_a_redacted_argument_does_not_find_nothing() -> None:
    outcome = _after_a_restart(
        lambda letters, email: _letter(next((v for k, v in letters.items() if k == email), None))
    )
    assert outcome.verdict is Verdict.UNDETERMINED
    assert not outcome.may_repeat


def test_a_reader_that_needs_no_redacted_argument_reads_on() -> None:
    assert _after_a_restart(lambda letters, email: _letter(letters.get("a@b.c"))).verified


@pytest.mark.parametrize(
    "ensure", ["authoritative.email == requested.email", "requested.email in [authoritative.email]"]
)
def test_a_clause_that_asks_for_a_redacted_argument_is_undetermined(ensure: str) -> None:
    outcome = _after_a_restart(lambda letters, email: _letter("sent"), [], ensure)
    assert outcome.verdict is Verdict.UNDETERMINED
    assert not outcome.may_repeat


def test_no_compensation_is_begun_with_redacted_arguments() -> None:
    compensated: list[object] = []
    outcome = _after_a_restart(lambda letters, email: _letter("wrong"), compensated)
    assert outcome.state is State.REVIEW_REQUIRED
    assert compensated == []


# --- whose effect, and whether it may still land ---


def test_a_search_that_lists_what_another_stamped_shows_nothing_of_ours() -> None:
    row: dict[str, Any] = {}

    @action(
        name="make",
        kind="create",
        side_effect="low_risk_internal",
        target="row/x",
        identity={"target": "authoritative.id", "tenant": "authoritative.tenant"},
        ensure={"value": "authoritative.value == requested.value"},
        within="2s",
    )
    def make(ctx: Context, value: str) -> object:
        row.update(id="x", tenant="acme", value=value)  # another actor's: ours never arrives
        raise TimeoutError("lost")

    def found() -> Reading:
        return Reading.of(row, stamp="rb-another") if row else Reading.absent()

    @make.read(source="rows", consistency="strong", independence="other_client", attributes=True)
    def look(ctx: Context, value: str) -> Reading:
        return found()

    @make.find
    def by_target(ctx: Context, value: str) -> list[Reading]:
        return [found()]

    with opened() as rb:
        outcome = rb.run(make(value="n"), operation="op")
        assert not outcome.verified
        assert not outcome.may_repeat


def test_a_staged_commit_without_an_answer_may_still_land() -> None:
    row: dict[str, Any] = {}

    class Staged:
        answer: ClassVar[Any] = {"ok": True}

        def __init__(self, stamp: str) -> None:
            self.stamp = stamp

        def read(self) -> Reading:
            return Reading.of({"id": "x", "tenant": "acme", "value": "n"}, stamp=self.stamp)

        def commit(self) -> None:
            raise TimeoutError("the commit was sent, and no answer came")

        def abandon(self) -> None:
            raise AssertionError("it holds")

    @action(
        name="make",
        kind="create",
        side_effect="ephemeral_write",
        target="row/x",
        identity={"target": "authoritative.id", "tenant": "authoritative.tenant"},
        ensure={"value": "authoritative.value == requested.value"},
        within="2s",
    )
    def make(ctx: Context, value: str) -> object:
        return Staged(ctx.stamp)

    def found(ctx: Context) -> Reading:
        return Reading.of(row, stamp=ctx.stamp) if row else Reading.absent()

    @make.read(source="rows", consistency="strong", independence="other_client", attributes=True)
    def look(ctx: Context, value: str) -> Reading:
        return found(ctx)

    @make.find
    def by_stamp(ctx: Context, value: str) -> list[Reading]:
        return [found(ctx)] if row else []

    runtime = VirtualRuntime()
    with opened(runtime=runtime) as rb:
        outcome = rb.run(make(value="n"), operation="op")
        assert (outcome.state, outcome.may_repeat) == (State.UNKNOWN, False)
        row.update(id="x", tenant="acme", value="n")
        runtime.advance(3600)
        rb.resume()
        assert rb.get(outcome.id).verified


def test_key_fields_name_an_operation_in_one_plain_line() -> None:
    desk = Desk()
    ship = ship_of(desk, key_fields=["carrier"])
    with opened() as rb:
        first = rb.run(ship(order_id="o-1", carrier="a\nb\x1b[2J\u202e" * 60))
        assert first.operation.isprintable()
        assert len(first.operation.encode()) <= 256
        assert rb.run(ship(order_id="o-1", carrier="a\nb\x1b[2J\u202e" * 60)).id == first.id
        assert rb.run(ship(order_id="o-1", carrier="a\nb\x1b[2J\u202e" * 61)).id != first.id
