"""The tables from states, verdicts and observations to the words of the record: total, and never too good."""

from __future__ import annotations

from itertools import product

import pytest

from readback.domain.action import Action, Judgement
from readback.domain.idempotency import KeyStatus
from readback.domain.observation import Observation, ObservationStatus
from readback.domain.record_status import (
    EXECUTION,
    KEY,
    NEVER_LEFT,
    VERIFICATION,
    Effect,
    effect_of,
    execution_status,
    reconciliation_status,
    verification_status,
)
from readback.domain.state import ExecutionStatus, ReconciliationStatus, State, VerificationStatus
from readback.domain.verdict import Verdict, Why


@pytest.mark.requirement("LEDGER-execution-status")
def test_every_state_with_every_knowledge_of_its_effect_has_one_execution_status() -> None:
    assert EXECUTION.keys() == set(product(State, Effect))
    assert set(EXECUTION.values()) == set(ExecutionStatus)


@pytest.mark.requirement("LEDGER-verification-status")
def test_every_state_with_every_verdict_has_one_verification_status() -> None:
    assert VERIFICATION.keys() == set(product(State, Verdict))


@pytest.mark.requirement("LEDGER-idempotency-status")
def test_every_status_of_a_key_is_one_of_the_records() -> None:
    printed = {"PENDING", "COMPLETED", "FAILED_RETRYABLE", "FAILED_FINAL", "COMPENSATED", "EXPIRED"}
    assert KEY.keys() == set(KeyStatus)
    assert set(KEY.values()) == printed


def test_every_observation_says_whether_anything_left() -> None:
    assert NEVER_LEFT.keys() == set(ObservationStatus)
    assert [status for status, never in NEVER_LEFT.items() if never] == [ObservationStatus.NOT_DISPATCHED]


def at(state: State, verdict: Verdict, why: Why = Why.NONE, *, attempts: int = 1, **judged: bool) -> Action:
    action = Action("a", "t", state=state, attempts=attempts)
    action.judgement = Judgement(verdict=verdict.value, why=why.value, **judged)  # type: ignore[arg-type]
    return action


@pytest.mark.requirement("LEDGER-record-honest")
@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("verdict", Verdict)
def test_nothing_is_verified_that_no_verdict_verified(state: State, verdict: Verdict) -> None:
    for why, attempts, shown, dead in product(Why, (0, 1, 2), (False, True), (False, True)):
        action = at(state, verdict, why, attempts=attempts, effect_shown=shown, dead=dead)
        said = verification_status(action)
        assert said is not VerificationStatus.VERIFIED or verdict is Verdict.VERIFIED
        assert isinstance(execution_status(action), ExecutionStatus)
        assert isinstance(reconciliation_status(action), ReconciliationStatus)
        if execution_status(action) is ExecutionStatus.FAILED and state is not State.ROLLED_BACK:
            assert effect_of(action) is Effect.NONE


@pytest.mark.requirement("LEDGER-record-honest")
@pytest.mark.parametrize("state", State)
def test_what_was_never_attempted_was_not_executed(state: State) -> None:
    said = execution_status(at(state, Verdict.NOT_CHECKED, attempts=0))
    assert said in (ExecutionStatus.NOT_EXECUTED, ExecutionStatus(state.name) if state in IN_FLIGHT else said)


IN_FLIGHT = {State.EXECUTING, State.ACCEPTED, State.PENDING}


@pytest.mark.parametrize(
    ("why", "said"),
    [
        (Why.PROPAGATING, VerificationStatus.TIMEOUT),
        (Why.TIMEOUT, VerificationStatus.TIMEOUT),
        (Why.UNREACHABLE, VerificationStatus.TIMEOUT),
        (Why.SETTLING, VerificationStatus.TIMEOUT),
        (Why.UNVERIFIABLE, VerificationStatus.UNVERIFIABLE),
        (Why.CONFLICTING, VerificationStatus.UNVERIFIABLE),
        (Why.OUT_OF_SCOPE, VerificationStatus.UNVERIFIABLE),
    ],
)
def test_what_stays_unknown_says_whether_more_time_could_have_told(why: Why, said: VerificationStatus) -> None:
    assert verification_status(at(State.UNKNOWN, Verdict.UNDETERMINED, why)) is said


@pytest.mark.requirement("LEDGER-record-honest")
def test_what_is_kept_as_unknown_has_not_failed_while_an_effect_may_still_land() -> None:
    assert verification_status(at(State.UNKNOWN, Verdict.REFUTED)) is VerificationStatus.TIMEOUT
    assert execution_status(at(State.UNKNOWN, Verdict.REFUTED)) is ExecutionStatus.UNKNOWN


def test_what_waits_is_pending_and_what_a_crash_left_is_to_be_verified_still() -> None:
    assert verification_status(at(State.PENDING, Verdict.UNDETERMINED)) is VerificationStatus.PENDING
    assert verification_status(at(State.UNKNOWN, Verdict.NOT_CHECKED)) is VerificationStatus.PENDING
    assert verification_status(at(State.EXECUTING, Verdict.REFUTED, attempts=2)) is VerificationStatus.NOT_STARTED


def test_an_attempt_that_never_left_was_not_executed_and_needs_no_verification() -> None:
    action = at(State.FAILED, Verdict.NOT_CHECKED, dead=True)
    refused = Observation(ObservationStatus.NOT_DISPATCHED, False, "x", "", None, None, 1)
    action.observation = refused.envelope()
    assert effect_of(action) is Effect.NONE_MADE
    assert execution_status(action) is ExecutionStatus.NOT_EXECUTED
    assert verification_status(action) is VerificationStatus.NOT_REQUIRED


@pytest.mark.requirement("LEDGER-record-honest")
def test_a_failure_whose_effect_may_yet_be_there_is_unknown_and_not_failed() -> None:
    """Another actor wrote over it: whether ours landed first, nobody saw."""
    assert execution_status(at(State.FAILED, Verdict.REFUTED)) is ExecutionStatus.UNKNOWN
    assert execution_status(at(State.FAILED, Verdict.REFUTED, dead=True)) is ExecutionStatus.FAILED
    assert execution_status(at(State.REVIEW_REQUIRED, Verdict.REFUTED, effect_shown=True)) is ExecutionStatus.COMMITTED
