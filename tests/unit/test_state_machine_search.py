"""Exhaustive search of the pure state machine: what no sequence of events and no route of the engine can do."""

from __future__ import annotations

from itertools import product

import pytest

from readback.domain.action.action import Action
from readback.domain.events import Event, EventKind
from readback.domain.recovery.rule import Row
from readback.domain.recovery.table import DEFAULT_TABLE, RecoveryAction, situations_of
from readback.domain.state import TERMINAL, TRANSITIONS, State, can
from readback.engine.engine import S
from readback.engine.recovery.transition_paths import path_through, shortest_path
from readback.engine.stages.escalate import TO_REVIEW
from readback.errors import InvariantError, StoreCorruptError

pytestmark = pytest.mark.slow

HANDS = {State.REVIEW_REQUIRED}
"""States that only a person reopens."""
AT_WORK = (
    State.EXECUTING,
    State.ACCEPTED,
    State.PENDING,
    State.UNKNOWN,
)
"""Where the engine stands when it judges."""


def reach(start: State, *, without: frozenset[State] = frozenset(), by_hand: bool = True) -> set[State]:
    """Every state that can follow, however long it takes, without passing through some."""
    seen, todo = {start}, [start]
    while todo:
        state = todo.pop()
        if state in without or (not by_hand and state in TERMINAL):
            continue
        for step in TRANSITIONS[state]:
            if step.to not in seen:
                seen.add(step.to)
                todo.append(step.to)
    return seen


@pytest.mark.requirement("STATE-RULE-way-on")
@pytest.mark.parametrize("state", [s for s in State if s not in TERMINAL], ids=lambda s: s.value)
def test_every_state_that_is_no_end_has_a_way_to_one_without_a_person(state: State) -> None:
    assert reach(state, by_hand=False) & TERMINAL


def test_ends_do_not_leave_by_themselves() -> None:
    closed = TERMINAL - HANDS - {State.FAILED}
    for state in closed:
        assert TRANSITIONS[state] == ()
    assert {step.to for step in TRANSITIONS[State.FAILED]} == {State.VALIDATED}
    assert all(step.ours for step in TRANSITIONS[State.REVIEW_REQUIRED])


@pytest.mark.requirement("STATE-RULE-success-needs-reading")
def test_success_is_reached_only_from_where_a_reading_was_judged() -> None:
    before = {state for state in State if can(state, State.RECONCILED_SUCCESS)}
    assert before == {State.COMMITTED, State.UNKNOWN, State.FORWARD_RECOVERY}
    # Before the effect was read, nothing leads there.
    unread = reach(State.PROPOSED, without=frozenset({State.COMMITTED, State.UNKNOWN, State.FORWARD_RECOVERY}))
    assert State.RECONCILED_SUCCESS not in unread


def test_unknown_reaches_another_execution_only_through_a_failure_a_person_or_an_honoured_key() -> None:
    gates = frozenset({State.FAILED, State.REVIEW_REQUIRED, State.PENDING})  # PENDING: under an honoured key
    assert State.EXECUTING not in reach(State.UNKNOWN, without=gates)
    assert State.VALIDATED not in reach(State.UNKNOWN, without=gates)
    assert State.EXECUTING not in reach(State.UNKNOWN, without=gates | {State.UNKNOWN})
    only = {state for state in State if can(state, State.EXECUTING)}
    assert only == {State.VALIDATED, State.PENDING}
    assert {state for state in State if can(state, State.VALIDATED)} == {
        State.PROPOSED,
        State.FAILED,
        State.REVIEW_REQUIRED,
    }


# --- the table may lead nowhere else ------------------------------------------------------------------------------


def _rows() -> list[tuple[Row, object]]:
    return [
        (DEFAULT_TABLE.decide(finding, situation), situation)
        for finding in {row.finding for row in DEFAULT_TABLE.rows}
        for situation in situations_of(tuple(r for r in DEFAULT_TABLE.rows if r.finding is finding))
    ]


@pytest.mark.requirement("STATE-RULE-unknown-not-executed", "REC-RULE-no-blind-retry")
def test_the_table_executes_again_only_what_is_dead_without_effect_and_keyed() -> None:
    again = [situation for row, situation in _rows() if row.action is RecoveryAction.RETRY_SAME_KEY]
    assert again
    for situation in again:
        assert situation.dead  # type: ignore[attr-defined]
        assert situation.key_honoured  # type: ignore[attr-defined]
        assert not situation.effect_shown  # type: ignore[attr-defined]
        assert not situation.late_open  # type: ignore[attr-defined]


# --- the engine's routes ------------------------------------------------------------------------------------------


def test_a_route_is_legal_step_by_step_or_there_is_none() -> None:
    for now, goal, shown in product(State, State, (False, True)):
        try:
            steps = shortest_path(now, goal, shown)
        except InvariantError:
            continue
        assert now is goal or steps[-1] is goal
        assert all(can(a, b) for a, b in zip((now, *steps), steps, strict=False)), (now, steps)
        assert not {State.REVIEW_REQUIRED, State.EXECUTING} & set(steps[:-1]), (now, steps)


ROUTES = {
    "success": ((S.RECONCILED_SUCCESS,),),
    "look again": ((S.PENDING,), (S.VERIFICATION_TIMEOUT, S.UNKNOWN)),
    "unknown": ((S.UNKNOWN,), (S.VERIFICATION_TIMEOUT, S.UNKNOWN), (S.UNKNOWN, S.REVIEW_REQUIRED)),
    "failure": ((S.FAILED,), (S.RECONCILIATION_FAILED, S.FAILED)),
    "reversal": ((S.RECONCILIATION_FAILED, S.COMPENSATING), (S.RECONCILIATION_FAILED, S.ROLLED_BACK)),
    "retry": ((S.RECONCILIATION_FAILED, S.FAILED, S.VALIDATED),),
    "review": ((S.RECONCILIATION_FAILED, S.REVIEW_REQUIRED), (S.VERIFICATION_TIMEOUT, S.REVIEW_REQUIRED)),
    "never sent": ((S.FAILED,),),
}
"""Where the rows lead, as the engine walks there."""


@pytest.mark.parametrize("name", ROUTES)
@pytest.mark.parametrize("now", AT_WORK, ids=lambda s: s.value)
@pytest.mark.parametrize("shown", [False, True])
def test_from_wherever_the_engine_judges_there_is_a_way_to_whatever_a_row_says(
    name: str, now: State, shown: bool
) -> None:
    for goals in ROUTES[name]:
        if now is State.UNKNOWN and State.VERIFICATION_TIMEOUT in goals:
            continue  # unknown has timed out already
        steps = path_through(now, *goals, effect_shown=shown)
        assert all(can(a, b) for a, b in zip((now, *steps), steps, strict=False))


def test_the_ways_to_review_are_legal() -> None:
    for state, steps in TO_REVIEW.items():
        assert all(can(a, b) for a, b in zip((state, *steps), steps, strict=False)), state
        assert state is State.REVIEW_REQUIRED or steps[-1] is State.REVIEW_REQUIRED
    assert set(TO_REVIEW) == set(State) - (TERMINAL - {State.REVIEW_REQUIRED})


# --- the fold refuses what cannot be ------------------------------------------------------------------------------


def test_the_fold_takes_a_step_exactly_where_the_table_has_it() -> None:
    for before, after in product(State, State):
        action = Action("a", "acme", version=1, state=before)
        event = Event(EventKind.RESUMED, 1, (after,), {"owner": "x"})
        if can(before, after):
            action.apply(event, "")
            assert action.state is after
            continue
        with pytest.raises(StoreCorruptError):
            action.apply(event, "")
        assert (action.state, action.version) == (before, 1)
