"""The state machine as data: exactly the specified transitions, total tables, and what can never be reached."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from readback.domain.state import (
    LEFT_OUT,
    NOT_ATTEMPTED,
    STATUS,
    TERMINAL,
    TRANSITIONS,
    ExecutionStatus,
    IllegalTransitionError,
    ReconciliationStatus,
    ReportKey,
    State,
    VerificationStatus,
    can,
    check,
    exit_code,
    status,
    worst_exit,
)
from readback.errors import InvariantError, ReadbackError
from tests.requirements.manifest import requirement_ids

# The specification's "Allowed Transitions", written down a second time so that a slip in one shows.
PRINTED = {
    "proposed": "validated failed",
    "validated": "executing failed review_required",
    "executing": "accepted pending committed failed unknown",
    "accepted": "pending failed unknown",
    "pending": "committed verification_timeout failed unknown",
    "committed": "reconciled_success reconciliation_failed partially_committed",
    "partially_committed": "compensating forward_recovery review_required",
    "reconciled_success": "",
    "reconciliation_failed": "compensating forward_recovery review_required failed",
    "failed": "proposed validated",
    "verification_timeout": "unknown review_required compensating forward_recovery",
    "unknown": "review_required pending reconciliation_failed reconciled_success",
    "compensating": "compensated compensation_failed review_required",
    "compensated": "",
    "compensation_failed": "review_required",
    "forward_recovery": "reconciled_success review_required failed",
    "rolled_back": "",
    "review_required": "",
    "abandoned": "",
}
OURS = {
    ("pending", "executing"),
    ("executing", "rolled_back"),
    ("reconciliation_failed", "rolled_back"),
    ("review_required", "pending"),
    ("review_required", "compensating"),
    ("review_required", "forward_recovery"),
    ("review_required", "validated"),
    ("review_required", "abandoned"),
}


def reachable(start: State, closed: Callable[[State, State], bool] = lambda a, b: False) -> set[State]:
    """States reachable from one, without the steps that are `closed`."""
    seen, waiting = {start}, [start]
    while waiting:
        now = waiting.pop()
        for step in TRANSITIONS[now]:
            if step.to not in seen and not closed(now, step.to):
                seen.add(step.to)
                waiting.append(step.to)
    return seen


def named(requirement_id: str) -> tuple[State, State]:
    before, after = requirement_id.removeprefix("STATE-").split("->")
    return State(before.replace("-", "_")), State(after.replace("-", "_"))


@pytest.mark.parametrize("requirement_id", requirement_ids("TRANSITION"))
def test_each_specified_transition_is_allowed(requirement_id: str) -> None:
    before, after = named(requirement_id)
    assert can(before, after)
    check(before, after)


@pytest.mark.requirement("STATE-RULE-closed")
def test_no_other_transition_exists() -> None:
    specified = {named(requirement_id) for requirement_id in requirement_ids("TRANSITION")}
    assert {(a, b) for a, b in product(State, State) if can(a, b)} == specified


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after"), [(a, b) for a, b in product(State, State) if not can(a, b)], ids=lambda s: s.value
)
def test_an_unlisted_transition_is_refused_with_a_typed_error(before: State, after: State) -> None:
    with pytest.raises(IllegalTransitionError) as caught:
        check(before, after)
    assert isinstance(caught.value, InvariantError)
    assert isinstance(caught.value, ReadbackError)
    assert caught.value.code == "internal.illegal-transition"
    assert caught.value.details == {"from": before.value, "to": after.value}
    assert before.value in str(caught.value)


def test_printed_transitions_stand_as_printed_and_ours_are_marked() -> None:
    printed = {(state.value, step.to.value) for state in State for step in TRANSITIONS[state] if not step.ours}
    ours = {(state.value, step.to.value) for state in State for step in TRANSITIONS[state] if step.ours}
    left_out = {(before.value, after.value) for before, after in LEFT_OUT}
    assert printed.isdisjoint(left_out)
    assert printed | left_out == {(a, b) for a, text in PRINTED.items() for b in text.split()}
    assert all(why.endswith(".") for why in LEFT_OUT.values())
    assert ours == OURS
    assert all(step.why.endswith(".") for steps in TRANSITIONS.values() for step in steps)


@pytest.mark.parametrize("requirement_id", requirement_ids("STATE"))
def test_each_state_has_its_transitions_and_its_meaning(requirement_id: str) -> None:
    state = State(requirement_id.removeprefix("STATE-").replace("-", "_"))
    assert state in TRANSITIONS
    row = STATUS[state]
    assert (row.report is ReportKey.COMPLETED) == (state is State.RECONCILED_SUCCESS)
    assert (row.exit_code == 0) == (state is State.RECONCILED_SUCCESS)


def test_there_are_nineteen_states_and_tables_for_each() -> None:
    assert len(State) == 19
    assert set(TRANSITIONS) == set(STATUS) == set(State)


@pytest.mark.requirement("STATE-RULE-terminal")
def test_terminal_states_are_the_specified_six_and_go_nowhere_by_themselves() -> None:
    assert {state.value for state in TERMINAL} == {
        "reconciled_success",
        "failed",
        "compensated",
        "rolled_back",
        "review_required",
        "abandoned",
    }
    for state in (State.RECONCILED_SUCCESS, State.COMPENSATED, State.ROLLED_BACK, State.ABANDONED):
        assert TRANSITIONS[state] == ()
    assert {step.to for step in TRANSITIONS[State.FAILED]} == {State.VALIDATED}
    assert all(step.ours for step in TRANSITIONS[State.REVIEW_REQUIRED])


@pytest.mark.requirement("STATE-RULE-way-on")
def test_every_state_that_is_not_terminal_has_a_way_to_a_terminal_one() -> None:
    for state in set(State) - TERMINAL:
        assert TRANSITIONS[state], state
        assert reachable(state) & TERMINAL, state


def test_every_state_is_reachable_from_a_proposal() -> None:
    assert reachable(State.PROPOSED) == set(State)


@pytest.mark.requirement("STATE-RULE-success-needs-reading")
def test_success_is_reached_only_from_states_in_which_something_was_read() -> None:
    into = {state for state in State if can(state, State.RECONCILED_SUCCESS)}
    assert into == {State.COMMITTED, State.UNKNOWN, State.FORWARD_RECOVERY}
    # An answer of the tool alone (accepted, pending, a mere execution) is never one step from success.
    assert not into & {State.EXECUTING, State.ACCEPTED, State.PENDING, State.VERIFICATION_TIMEOUT}


@pytest.mark.requirement("STATE-RULE-unknown-not-executed")
def test_unknown_leads_to_execution_only_by_a_person_a_final_failure_or_an_honoured_key() -> None:
    def by_person_final_or_key(before: State, after: State) -> bool:
        honoured = (before, after) == (State.PENDING, State.EXECUTING)
        return honoured or before in (State.REVIEW_REQUIRED, State.FAILED)

    assert not can(State.UNKNOWN, State.EXECUTING)
    assert not can(State.UNKNOWN, State.FAILED)
    assert State.EXECUTING not in reachable(State.UNKNOWN, by_person_final_or_key)


@pytest.mark.requirement(
    "TRUTH-hold-one-table",
    "PRINCIPLE-explicit-states",
    "LEDGER-execution-status",
    "LEDGER-verification-status",
    "LEDGER-reconciliation-status",
)
def test_one_table_gives_each_state_three_statuses_an_exit_code_and_a_text() -> None:
    for state in State:
        for attempted in (True, False):
            row = status(state, attempted=attempted)
            assert isinstance(row.execution, ExecutionStatus)
            assert isinstance(row.verification, VerificationStatus)
            assert isinstance(row.reconciliation, ReconciliationStatus)
            assert isinstance(row.report, ReportKey)
            assert row.exit_code in (0, 1, 3, 4)


@pytest.mark.requirement("LEDGER-execution-status", "LEDGER-verification-status", "LEDGER-reconciliation-status")
def test_every_status_of_the_ledger_schema_has_a_state() -> None:
    assert (len(ExecutionStatus), len(VerificationStatus), len(ReconciliationStatus)) == (7, 7, 8)
    rows = [*STATUS.values(), *NOT_ATTEMPTED.values()]
    assert {row.execution for row in rows} == set(ExecutionStatus)
    assert {row.verification for row in rows} == set(VerificationStatus)
    assert {row.reconciliation for row in rows} == set(ReconciliationStatus)
    assert {row.report for row in rows} == set(ReportKey)


def test_a_status_that_speaks_of_verification_is_never_given_early() -> None:
    rows = [*STATUS.values(), *NOT_ATTEMPTED.values()]
    verified = {row.reconciliation for row in rows if row.verification is VerificationStatus.VERIFIED}
    assert verified == {
        ReconciliationStatus.RECONCILED_SUCCESS,
        ReconciliationStatus.COMPENSATED,
        ReconciliationStatus.ROLLED_BACK,
    }
    success = [row for row in rows if row.reconciliation is ReconciliationStatus.RECONCILED_SUCCESS]
    assert [row.report for row in success] == [ReportKey.COMPLETED]


@pytest.mark.parametrize("state", [State.PROPOSED, State.VALIDATED, *NOT_ATTEMPTED], ids=lambda state: state.value)
def test_without_an_attempt_the_record_says_not_executed(state: State) -> None:
    assert status(state, attempted=False).execution is ExecutionStatus.NOT_EXECUTED


def test_the_distinctions_of_the_specification_are_kept() -> None:
    def told(state: State) -> tuple[object, ...]:
        row = STATUS[state]
        return row.execution, row.verification, row.reconciliation, row.report

    for one, other in (
        (State.COMMITTED, State.PARTIALLY_COMMITTED),
        (State.PARTIALLY_COMMITTED, State.RECONCILED_SUCCESS),
        (State.ACCEPTED, State.COMMITTED),
        (State.UNKNOWN, State.FAILED),
        (State.COMPENSATED, State.ROLLED_BACK),
    ):
        assert told(one) != told(other)


@pytest.mark.requirement("L01", "L10")
@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State.PROPOSED, 3),
        (State.VALIDATED, 3),
        (State.EXECUTING, 3),
        (State.ACCEPTED, 3),
        (State.PENDING, 3),
        (State.COMMITTED, 3),
        (State.PARTIALLY_COMMITTED, 1),
        (State.RECONCILED_SUCCESS, 0),
        (State.RECONCILIATION_FAILED, 1),
        (State.FAILED, 1),
        (State.VERIFICATION_TIMEOUT, 3),
        (State.UNKNOWN, 3),
        (State.COMPENSATING, 3),
        (State.COMPENSATED, 1),
        (State.COMPENSATION_FAILED, 4),
        (State.FORWARD_RECOVERY, 3),
        (State.ROLLED_BACK, 1),
        (State.REVIEW_REQUIRED, 4),
        (State.ABANDONED, 1),
    ],
    ids=lambda value: getattr(value, "value", str(value)),
)
def test_each_state_has_its_exit_code(state: State, expected: int) -> None:
    assert exit_code(state) == expected


def test_a_hold_a_broken_verifier_and_an_asked_for_reversal_have_their_own_codes() -> None:
    assert exit_code(State.VALIDATED, held=True) == 4
    assert exit_code(State.RECONCILED_SUCCESS, held=True) == 0
    assert exit_code(State.UNKNOWN, verifier_error=True) == 5
    assert exit_code(State.FAILED, verifier_error=True) == 1
    assert exit_code(State.REVIEW_REQUIRED, verifier_error=True) == 4
    assert exit_code(State.COMPENSATED, compensation_asked=True) == 0
    assert exit_code(State.COMPENSATED) == 1
    assert exit_code(State.FAILED, compensation_asked=True) == 1


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([], 0),
        ([0, 0], 0),
        ([0, 1], 1),
        ([1, 3, 0], 3),
        ([3, 4, 1], 4),
        ([4, 5, 3], 5),
        ([5, 6, 1], 6),
        ([2, 6], 2),
    ],
)
def test_of_several_actions_the_worst_exit_code_counts(codes: list[int], expected: int) -> None:
    assert worst_exit(codes) == expected
    assert worst_exit(reversed(codes)) == expected
