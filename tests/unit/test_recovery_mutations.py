"""No table weakens the floor: mutations of the default one are refused, or keep every promise in every situation.

The promises are written here once more, as plain conditions and not as the floor's table, so that one is held against
the other.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readback.domain.finding import Finding
from readback.domain.recovery.floor import FLOOR
from readback.domain.recovery.rule import ALL, DOMAINS, SIZE, Fault, described, having, matching
from readback.domain.recovery.table import DEFAULT_TABLE, RecoveryAction, RecoveryTable, Reversal, Row, Situation
from readback.domain.side_effect import SideEffect
from readback.domain.state import State

F, A, C = Finding, RecoveryAction, SideEffect
OPEN: Final = {
    F.UNKNOWN,
    F.VERIFICATION_TIMEOUT,
    F.PENDING_TIMEOUT,
    F.PROVIDER_OUTAGE,
    F.PROPAGATION_DELAY,
    F.UNVERIFIABLE,
    F.VERIFIER_ERROR,
}
"""What leaves the truth undetermined."""
HIGH: Final = {C.HIGH_RISK_EXTERNAL, C.CRITICAL_MUTATION}
LOW: Final = {C.READ_ONLY, C.EPHEMERAL_WRITE, C.LOW_RISK_INTERNAL}
NEVER_REVERSED: Final = {F.STALE_STATE, F.WRONG_TARGET, F.DUPLICATE_SIDE_EFFECT, F.HIDDEN_SIDE_EFFECT, F.VERIFIED}
BY_ANOTHER_RECORD: Final = {F.STALE_STATE, F.FAILED_BEFORE_EFFECT}


def broken(finding: Finding, s: Situation, row: Row) -> Iterator[str]:
    """The promises that a decision breaks."""
    yield from _success(finding, s, row)
    yield from _repeating(finding, s, row)
    yield from _failure(finding, s, row)
    yield from _reversal(finding, s, row)
    yield from _alarms(finding, s, row)
    yield from _waiting(finding, s, row)


def _success(finding: Finding, s: Situation, row: Row) -> Iterator[str]:
    if row.target_state is not State.RECONCILED_SUCCESS:
        return
    replayed = finding is F.DUPLICATE_SIDE_EFFECT and s.equivalent_duplicate and s.side_effect not in HIGH
    if finding not in (F.VERIFIED, F.NO_OP_ALLOWED) and not replayed:
        yield "a success of what is not verified"


def _repeating(finding: Finding, s: Situation, row: Row) -> Iterator[str]:
    if row.action is not A.RETRY_SAME_KEY:
        return
    dead = s.dead and not s.late_open and not s.effect_shown and not s.maybe_stale
    if finding is not F.REFUTED_DEAD or not dead or not s.key_honoured or s.side_effect is C.CRITICAL_MUTATION:
        yield "a blind retry"


def _failure(finding: Finding, s: Situation, row: Row) -> Iterator[str]:
    if row.target_state is not State.FAILED or finding in BY_ANOTHER_RECORD or not s.executed:
        return
    if finding in OPEN:
        yield "a failure of what is unknown"
    if s.effect_shown or not s.dead or s.late_open:
        yield "a failure, and an effect is shown or may follow"


def _reversal(finding: Finding, s: Situation, row: Row) -> Iterator[str]:
    if row.target_state is State.COMPENSATING:
        if not s.effect_shown or s.pivot_passed or s.reversible is Reversal.NONE:
            yield "a reversal of what is not shown, or cannot be reversed"
        if finding in NEVER_REVERSED:
            yield "a reversal of what is not ours to reverse"
        if s.side_effect in HIGH and finding in (F.VALUE_MISMATCH, F.AUTHORITY_MISMATCH):
            yield "a reversal of high impact without a person"
        if s.side_effect is C.CRITICAL_MUTATION and finding is not F.PARTIAL_SUCCESS:
            yield "a critical reversal without a person"
    if row.target_state is State.FORWARD_RECOVERY and not s.pivot_passed:
        yield "going forward before the pivot"


def _alarms(finding: Finding, s: Situation, row: Row) -> Iterator[str]:
    writes, high = s.side_effect is not C.READ_ONLY, s.side_effect in HIGH
    loud = row.freezes and row.opens_incident and row.opens_review
    if finding is F.WRONG_TARGET and writes and not loud:
        yield "a wrong target that is not frozen"
    if finding is F.DUPLICATE_SIDE_EFFECT and high and not loud:
        yield "a duplicate of high impact that is not frozen"
    if finding is F.DUPLICATE_SIDE_EFFECT and not s.equivalent_duplicate and not row.freezes:
        yield "a duplicate that is not frozen"
    if finding is F.COMPENSATION_FAILED and s.side_effect not in LOW - {C.LOW_RISK_INTERNAL} and not row.opens_incident:
        yield "a failed reversal without an incident"
    if finding is F.UNVERIFIABLE and s.side_effect not in LOW and not row.opens_review:
        yield "an unverifiable result above low risk without review"
    if finding is F.APPROVAL_MISMATCH and (not loud if s.executed else row.action is not A.FAIL_CLOSED):
        yield "an approval that does not fail closed"
    if finding is F.PENDING_TIMEOUT and writes and not (s.key_record or s.within_window or row.freezes):
        yield "a pending execution without a record that is not frozen"


def _waiting(finding: Finding, s: Situation, row: Row) -> Iterator[str]:
    if row.action is A.RETRY_VERIFICATION and not s.within_window:
        yield "looking again for ever"
    if row.action is A.FORCE_STRONG_READ and not s.maybe_stale:
        yield "forcing a strong reading of a strong one"
    if row.action is A.POLL_IDEMPOTENCY_RECORD and not s.key_record:
        yield "polling a record that is not there"
    final = not s.within_window and not s.maybe_stale and not (s.key_record and s.late_open)
    quiet = row.action in (A.KEEP_UNKNOWN, A.REPORT_UNVERIFIED)
    if finding in OPEN - {F.PROPAGATION_DELAY} and s.side_effect in HIGH and quiet and (final or not s.within_window):
        yield "an unknown of high impact without a person"
    if finding is F.PROVIDER_OUTAGE and not s.executed and row.target_state not in (State.FAILED, State.VALIDATED):
        yield "an outage that is executed into"
    if finding is F.PROVIDER_OUTAGE and not s.executed and row.action in (A.REVALIDATE_APPROVAL, A.RETRY_SAME_KEY):
        yield "an outage that is executed into"


# --- the promises and the floor hold of the default table ----------------------------------------------------------

CHANCE: Final = random.Random(20)
SAMPLE: Final = tuple(
    Situation(**{name: CHANCE.choice(values) for name, values in DOMAINS.items()})  # type: ignore[arg-type]
    for _ in range(400)
)


def _promised(table: RecoveryTable, findings: set[Finding], situations: tuple[Situation, ...] = SAMPLE) -> list[str]:
    return [
        f"{table.decide(finding, s).id} for {finding.value} in {s}: {said}"
        for finding in findings
        for s in situations
        for said in broken(finding, s, table.decide(finding, s))
    ]


@pytest.mark.requirement("TABLE-floor")
def test_the_default_table_keeps_the_floor_and_every_promise() -> None:
    assert DEFAULT_TABLE.faults() == ()
    assert _promised(DEFAULT_TABLE, set(Finding)) == []
    assert set(FLOOR) == set(Finding)


# --- one row above all others --------------------------------------------------------------------------------------


@pytest.mark.requirement("TABLE-floor", "REC-RULE-no-blind-retry")
@pytest.mark.parametrize("finding", list(Finding))
@pytest.mark.slow
def test_a_row_above_all_others_is_refused_or_breaks_no_promise(finding: Finding) -> None:
    loaded = 0
    for action in RecoveryAction:
        row = Row("X-1", finding, ({},), action, "Ours", "", ours=True)
        table = RecoveryTable((row, *(one for one in DEFAULT_TABLE.rows if one.finding is not finding)))
        told = [s for s in SAMPLE if any(broken(finding, s, row))]
        if table.faults():
            continue
        loaded += 1
        assert not told, (action, next(broken(finding, told[0], row)), told[0])
    assert loaded <= 6, "a finding for which nearly anything may be done has no floor"


# --- random mutations ----------------------------------------------------------------------------------------------

PLACES = st.integers(0, len(DEFAULT_TABLE.rows) - 1)
SUBSETS = {name: st.lists(st.sampled_from(values), min_size=1, unique=True) for name, values in DOMAINS.items()}


@st.composite
def conditions(draw: st.DrawFn) -> dict[str, tuple[Any, ...]]:
    names = draw(st.lists(st.sampled_from(sorted(DOMAINS)), max_size=4, unique=True))
    return {name: tuple(draw(SUBSETS[name])) for name in names}


@st.composite
def mutated(draw: st.DrawFn) -> tuple[Row, ...]:
    """The default table after a few changes, of the kinds that an operator makes."""
    rows = list(DEFAULT_TABLE.rows)
    for number in range(draw(st.integers(1, 4))):
        place = draw(PLACES) % len(rows)
        row = rows[place]
        match draw(st.sampled_from(["act", "widen", "narrow", "drop", "swap", "insert", "insert", "insert"])):
            case "act":
                rows[place] = replace(row, action=draw(st.sampled_from(RecoveryAction)))
            case "widen":
                name = draw(st.sampled_from(sorted(DOMAINS)))
                when = tuple({key: value for key, value in one.items() if key != name} for one in row.when)
                rows[place] = replace(row, when=when)
            case "narrow":
                more = draw(conditions())
                rows[place] = replace(row, when=tuple({**one, **more} for one in row.when))
            case "drop":
                del rows[place]
            case "swap":
                other = draw(PLACES) % len(rows)
                rows[place], rows[other] = rows[other], rows[place]
            case _:
                action = draw(st.sampled_from(RecoveryAction))
                new = Row(f"X-{number}", row.finding, (draw(conditions()),), action, "Ours", "", ours=True)
                rows.insert(place, new)
    return tuple(rows)


@pytest.mark.requirement("TABLE-floor", "TABLE-total")
@settings(max_examples=300, deadline=None)
@given(mutated(), st.data())
@pytest.mark.slow
def test_a_mutated_table_is_refused_or_keeps_every_promise(rows: tuple[Row, ...], data: st.DataObject) -> None:
    table = RecoveryTable(rows)
    if table.faults():
        return
    drawn = st.builds(Situation, **{name: st.sampled_from(values) for name, values in DOMAINS.items()})
    more = tuple(data.draw(drawn) for _ in range(20))
    changed = {row.finding for row in set(_hashable(rows)) ^ set(_hashable(DEFAULT_TABLE.rows))} or set(Finding)
    assert _promised(table, changed, (*SAMPLE, *more)) == []


class _hashable(list[Any]):  # noqa: N801 -- rows hold mappings; they are told apart by what they say
    def __init__(self, rows: tuple[Row, ...]) -> None:
        super().__init__(_Named(row.finding, repr(row)) for row in rows)


class _Named(tuple[Finding, str]):
    def __new__(cls, finding: Finding, said: str) -> _Named:
        return super().__new__(cls, (finding, said))

    @property
    def finding(self) -> Finding:
        return self[0]


# --- the sets themselves -------------------------------------------------------------------------------------------


def test_the_space_has_every_situation_once() -> None:
    expected = 1
    for values in DOMAINS.values():
        expected *= len(values)
    assert expected == SIZE
    for name, values in DOMAINS.items():
        parts = [having(name, value) for value in values]
        assert sum(part.bit_count() for part in parts) == SIZE
        union = 0
        for part in parts:
            assert not union & part
            union |= part
        assert union == ALL


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(conditions())
def test_a_described_set_is_what_it_says(condition: dict[str, tuple[Any, ...]]) -> None:
    subset = matching(condition)
    said = described(subset)
    for part in filter(None, said.split(" and ")):
        name = part.removeprefix("not ").split(" is ")[0]
        assert name in condition, (said, condition)
    assert bool(said) is (subset != ALL)


@pytest.mark.requirement("TABLE-total")
def test_a_gap_is_told_by_as_few_conditions_as_tell_it() -> None:
    rest = tuple(row for row in DEFAULT_TABLE.rows if row.id != "RB-unknown")
    where = "not late_open and not maybe_stale and not within_window and side_effect is read_only"
    assert RecoveryTable(rest).faults() == (Fault("", f"unknown has no row for {where}.", ""),)


@pytest.mark.requirement("TABLE-total")
def test_a_table_is_checked_over_every_situation_in_less_than_a_second() -> None:
    every: dict[str, tuple[Any, ...]] = {name: values[:1] for name, values in DOMAINS.items()}
    narrow = tuple(
        Row(f"X-{number}", finding, (every,), A.HOLD_AND_ESCALATE, "Ours", "", ours=True)
        for number, finding in enumerate(list(Finding) * 10)
    )
    before = time.process_time()
    RecoveryTable((*narrow, *DEFAULT_TABLE.rows)).faults()
    assert time.process_time() - before < 1
