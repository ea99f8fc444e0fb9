"""What each state amounts to for the record, and each class for the recovery table, to the letter."""

from __future__ import annotations

from itertools import combinations

import pytest

from readback.domain.discrepancy import Discrepancy
from readback.domain.discrepancy import most_severe as most_severe_discrepancy
from readback.domain.finding import FINDING_OF, Finding
from readback.domain.finding import most_severe as most_severe_finding
from readback.domain.state import STATUS, State, StatusRow, status, worst_exit
from readback.errors import ExpressionError, NotDispatchedError, NotVerifiedError, UnknownOutcomeError

# state, execution, verification, reconciliation, exit code, statement
AFTER_AN_ATTEMPT = """
    proposed               NOT_EXECUTED  NOT_STARTED   NOT_STARTED         3 not_executed
    validated              NOT_EXECUTED  NOT_STARTED   NOT_STARTED         3 not_executed
    executing              EXECUTING     NOT_STARTED   NOT_STARTED         3 attempted
    accepted               ACCEPTED      PENDING       NOT_STARTED         3 pending
    pending                PENDING       PENDING       NOT_STARTED         3 pending
    committed              COMMITTED     PENDING       NOT_STARTED         3 reconciling
    partially_committed    COMMITTED     FAILED        RECONCILED_PARTIAL  1 partial
    reconciled_success     COMMITTED     VERIFIED      RECONCILED_SUCCESS  0 completed
    reconciliation_failed  COMMITTED     FAILED        RECONCILED_FAILURE  1 failed
    failed                 FAILED        FAILED        RECONCILED_FAILURE  1 failed
    verification_timeout   UNKNOWN       TIMEOUT       UNKNOWN             3 unknown
    unknown                UNKNOWN       UNVERIFIABLE  UNKNOWN             3 unknown
    compensating           COMMITTED     FAILED        RECONCILED_FAILURE  3 reconciling
    compensated            COMMITTED     VERIFIED      COMPENSATED         1 compensated
    compensation_failed    COMMITTED     FAILED        REVIEW_REQUIRED     4 review
    forward_recovery       COMMITTED     PENDING       RECONCILED_PARTIAL  3 reconciling
    rolled_back            FAILED        VERIFIED      ROLLED_BACK         1 rolled_back
    review_required        UNKNOWN       UNVERIFIABLE  REVIEW_REQUIRED     4 review
    abandoned              UNKNOWN       UNVERIFIABLE  UNKNOWN             1 unknown
"""
WITHOUT_AN_ATTEMPT = """
    failed                 NOT_EXECUTED  NOT_REQUIRED  RECONCILED_FAILURE  1 not_executed
    review_required        NOT_EXECUTED  NOT_STARTED   REVIEW_REQUIRED     4 review
    abandoned              NOT_EXECUTED  NOT_REQUIRED  NOT_STARTED         1 not_executed
"""
# class, finding where nothing else decides
FINDINGS = """
    no_op_success          no_op_allowed
    no_op_failure          no_op_failure
    value_mismatch         value_mismatch
    stale_state            stale_state
    partial_application    partial_success
    duplicate_side_effect  duplicate_side_effect
    wrong_target_modified  wrong_target
    target_missing         target_missing
    propagation_delay      propagation_delay
    unverifiable_state     unverifiable
    compensation_required  compensation_required
    unknown_state          unknown
"""


def lines(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().splitlines()]


def written(row: StatusRow) -> list[str]:
    return [row.execution, row.verification, row.reconciliation, str(row.exit_code), row.report]


def test_the_record_says_this_of_each_state() -> None:
    said = [[state.value, *written(row)] for state, row in STATUS.items()]
    assert said == lines(AFTER_AN_ATTEMPT)
    assert [one for one, *_ in said] == list(State)
    assert all(status(state) is row for state, row in STATUS.items())


def test_the_record_says_this_where_nothing_was_sent() -> None:
    special = {name: row for name, *row in lines(WITHOUT_AN_ATTEMPT)}
    for state in State:
        expected = special.get(state.value, written(STATUS[state]))
        assert written(status(state, attempted=False)) == expected


def test_each_class_has_its_finding() -> None:
    assert [[found.value, finding.value] for found, finding in FINDING_OF.items()] == lines(FINDINGS)


def test_of_several_the_most_severe_is_named() -> None:
    for one, other in combinations(Discrepancy, 2):
        assert most_severe_discrepancy({one, other}) is max(one, other, key=lambda each: each.severity)
    for first, second in combinations(Finding, 2):
        assert most_severe_finding({first, second}) is max(first, second, key=lambda each: each.severity)
    assert most_severe_discrepancy(set()) is None
    assert most_severe_finding(set()) is None


def test_the_worst_exit_of_several_is_the_one_that_counts() -> None:
    in_order = [2, 6, 5, 4, 3, 1, 0]
    for better, worse in ((one, other) for at, other in enumerate(in_order) for one in in_order[at:]):
        assert worst_exit([better, worse]) == worse
    assert worst_exit([]) == 0


def test_an_expression_error_without_a_place_has_an_empty_one() -> None:
    error = ExpressionError("bad", details={"limit": 9})
    assert error.details == {"source": "", "column": 0, "limit": 9}
    assert (error.source, error.column) == ("", 0)


@pytest.mark.parametrize("kind", [UnknownOutcomeError, NotVerifiedError])
def test_an_error_with_an_outcome_takes_a_code_of_its_own(
    kind: type[UnknownOutcomeError] | type[NotVerifiedError],
) -> None:
    error = kind("bad", outcome="o", code="outcome.other", details={"a": 1}, remedy="Wait.")
    assert (error.code, error.outcome, error.details) == ("outcome.other", "o", {"a": 1})
    assert str(error) == "bad Next: Wait."


def test_exit_codes_that_are_nobodys_to_change() -> None:
    assert NotVerifiedError("bad").exit_code == 3
    assert NotDispatchedError("bad").exit_code == 1
