"""The tables from states, verdicts and observations to the words of the record: total, and never too good."""

from __future__ import annotations

from itertools import product

import pytest

from readback.domain.action.action import Action
from readback.domain.action.action_state import Judgement
from readback.domain.action.record_status import (
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
from readback.domain.idempotency import KeyStatus
from readback.domain.state import STATUS, ExecutionStatus, ReconciliationStatus, State, VerificationStatus
from readback.domain.verdict import Verdict, Why
from readback.domain.verification.observation import Observation, ObservationStatus


@pytest.mark.requirement("LEDGER-execution-status")
def test_every_state_with_every_knowledge_of_its_effect_has_one_execution_status() -> None:
    assert EXECUTION.keys() == set(product(State, Effect))
    assert set(EXECUTION.values()) == set(ExecutionStatus)


@pytest.mark.requirement("LEDGER-verification-status")
def test_every_state_with_every_verdict_has_one_verification_status() -> None:
    assert VERIFICATION.keys() == set(product(State, Verdict))


def test_the_words_for_what_is_known_of_an_effect_are_stable() -> None:
    assert [each.value for each in Effect] == ["none_made", "shown", "none", "open"]


COLUMNS = (Effect.NONE_MADE, Effect.SHOWN, Effect.NONE, Effect.OPEN)
EXECUTIONS: dict[State, str] = {
    # nothing was dispatched, the effect was shown, there is none and none can follow, nobody knows
    State.PROPOSED: "not_executed committed failed unknown",
    State.VALIDATED: "not_executed committed failed unknown",
    State.EXECUTING: "executing executing executing executing",
    State.ACCEPTED: "accepted committed accepted accepted",
    State.PENDING: "pending committed pending pending",
    State.COMMITTED: "not_executed committed committed committed",
    State.PARTIALLY_COMMITTED: "not_executed committed committed committed",
    State.RECONCILED_SUCCESS: "not_executed committed committed committed",
    State.RECONCILIATION_FAILED: "not_executed committed failed unknown",
    State.FAILED: "not_executed committed failed unknown",
    State.VERIFICATION_TIMEOUT: "not_executed committed failed unknown",
    State.UNKNOWN: "not_executed committed unknown unknown",
    State.COMPENSATING: "not_executed committed failed unknown",
    State.COMPENSATED: "not_executed committed committed committed",
    State.COMPENSATION_FAILED: "not_executed committed failed unknown",
    State.FORWARD_RECOVERY: "not_executed committed failed unknown",
    State.ROLLED_BACK: "not_executed failed failed failed",
    State.REVIEW_REQUIRED: "not_executed committed failed unknown",
    State.ABANDONED: "not_executed committed failed unknown",
}


@pytest.mark.requirement("LEDGER-execution-status")
@pytest.mark.parametrize("state", State)
def test_each_state_says_of_its_execution_what_is_known_of_its_effect(state: State) -> None:
    said = [EXECUTION[state, effect].lower() for effect in COLUMNS]
    assert said == EXECUTIONS[state].split()


VERDICTS = (Verdict.VERIFIED, Verdict.REFUTED, Verdict.UNDETERMINED, Verdict.NOT_CHECKED)
DECIDED = "verified failed unverifiable unverifiable"
VERIFICATIONS: dict[State, str] = {
    State.PROPOSED: "not_started not_started not_started not_started",
    State.VALIDATED: "not_started not_started not_started not_started",
    State.EXECUTING: "not_started not_started not_started not_started",
    State.ACCEPTED: "pending pending pending pending",
    State.PENDING: "pending pending pending pending",
    State.COMMITTED: "verified failed pending pending",
    State.PARTIALLY_COMMITTED: "verified failed pending pending",
    State.RECONCILED_SUCCESS: DECIDED,
    State.RECONCILIATION_FAILED: DECIDED,
    State.FAILED: DECIDED,
    State.VERIFICATION_TIMEOUT: "verified failed timeout timeout",
    State.UNKNOWN: "timeout timeout unverifiable pending",
    State.COMPENSATING: DECIDED,
    State.COMPENSATED: DECIDED,
    State.COMPENSATION_FAILED: DECIDED,
    State.FORWARD_RECOVERY: "verified failed pending pending",
    State.ROLLED_BACK: DECIDED,
    State.REVIEW_REQUIRED: DECIDED,
    State.ABANDONED: DECIDED,
}


@pytest.mark.requirement("LEDGER-verification-status")
@pytest.mark.parametrize("state", State)
def test_each_state_says_of_its_verification_what_its_verdict_was(state: State) -> None:
    said = [VERIFICATION[state, verdict].lower() for verdict in VERDICTS]
    assert said == VERIFICATIONS[state].split()
    for verdict in VERDICTS:
        assert verification_status(at(state, verdict)) is VERIFICATION[state, verdict]


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


NOT_DISPATCHED, TIMED_OUT = ObservationStatus.NOT_DISPATCHED, ObservationStatus.TIMEOUT


@pytest.mark.requirement("LEDGER-record-honest")
@pytest.mark.parametrize(
    ("status", "dispatched", "attempts", "effect"),
    [
        (NOT_DISPATCHED, False, 1, Effect.NONE_MADE),
        (NOT_DISPATCHED, True, 1, Effect.OPEN),
        (NOT_DISPATCHED, False, 2, Effect.OPEN),
        (TIMED_OUT, False, 1, Effect.OPEN),
        (TIMED_OUT, True, 1, Effect.OPEN),
        (ObservationStatus.ERROR, True, 1, Effect.OPEN),
        (ObservationStatus.SUCCESS, True, 1, Effect.OPEN),
    ],
)
def test_only_a_first_attempt_that_provably_never_left_made_no_effect(
    status: ObservationStatus, dispatched: bool, attempts: int, effect: Effect
) -> None:
    action = at(State.FAILED, Verdict.NOT_CHECKED, attempts=attempts, dead=True)
    action.observation = Observation(status, dispatched, "x", "", None, None, 1).envelope()
    assert effect_of(action) is effect


@pytest.mark.requirement("LEDGER-record-honest")
def test_an_effect_is_known_by_what_shows_it_and_denied_only_where_it_was_looked_for_and_cannot_follow() -> None:
    assert effect_of(at(State.PENDING, Verdict.NOT_CHECKED, effect_shown=True)) is Effect.SHOWN
    assert effect_of(at(State.RECONCILED_SUCCESS, Verdict.VERIFIED)) is Effect.SHOWN
    assert effect_of(at(State.COMPENSATED, Verdict.NOT_CHECKED)) is Effect.SHOWN
    assert effect_of(at(State.COMPENSATING, Verdict.NOT_CHECKED)) is Effect.OPEN
    assert effect_of(at(State.FAILED, Verdict.REFUTED, dead=True)) is Effect.NONE
    assert effect_of(at(State.FAILED, Verdict.REFUTED)) is Effect.OPEN
    assert effect_of(at(State.FAILED, Verdict.UNDETERMINED, dead=True)) is Effect.OPEN
    assert effect_of(at(State.VALIDATED, Verdict.VERIFIED, attempts=0, effect_shown=True)) is Effect.NONE_MADE


@pytest.mark.parametrize(
    ("state", "verification", "reconciliation"),
    [
        (State.PROPOSED, "not_started", "not_started"),
        (State.VALIDATED, "not_started", "not_started"),
        (State.FAILED, "not_required", "reconciled_failure"),
        (State.REVIEW_REQUIRED, "not_started", "review_required"),
        (State.ABANDONED, "not_required", "not_started"),
    ],
)
def test_what_was_never_attempted_has_its_own_words(state: State, verification: str, reconciliation: str) -> None:
    action = at(state, Verdict.NOT_CHECKED, attempts=0)
    assert verification_status(action).lower() == verification
    assert reconciliation_status(action).lower() == reconciliation


@pytest.mark.parametrize("state", State)
def test_what_was_attempted_is_reconciled_as_its_state_says(state: State) -> None:
    assert reconciliation_status(at(state, Verdict.REFUTED)) is STATUS[state].reconciliation


def test_more_time_is_named_only_where_nothing_was_decided() -> None:
    assert verification_status(at(State.FAILED, Verdict.REFUTED, Why.TIMEOUT)) is VerificationStatus.FAILED
    assert verification_status(at(State.COMMITTED, Verdict.UNDETERMINED, Why.SETTLING)) is VerificationStatus.PENDING


@pytest.mark.requirement("LEDGER-record-honest")
def test_a_failure_whose_effect_may_yet_be_there_is_unknown_and_not_failed() -> None:
    """Another actor wrote over it: whether ours landed first, nobody saw."""
    assert execution_status(at(State.FAILED, Verdict.REFUTED)) is ExecutionStatus.UNKNOWN
    assert execution_status(at(State.FAILED, Verdict.REFUTED, dead=True)) is ExecutionStatus.FAILED
    assert execution_status(at(State.REVIEW_REQUIRED, Verdict.REFUTED, effect_shown=True)) is ExecutionStatus.COMMITTED
