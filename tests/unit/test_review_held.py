"""What a person may decide and why not, to each condition; what he signs; what is asked of an approval on record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from readback.canon import Json, payload_bytes
from readback.domain.action.approval_record import RecordedToken, RequestedApproval, asked, whole
from readback.domain.contract.freezing import FreezeScope, subjects
from readback.domain.events import Event, EventKind
from readback.domain.finding import Finding
from readback.domain.idempotency import Resolution
from readback.domain.people.incident import AT_LEAST, BY_CLASS, Severity, cause_of, severity_of
from readback.domain.people.review import (
    ACTS,
    APPROVAL,
    BREAK_GLASS,
    COMPENSATION_FAILED,
    CONTESTED,
    ENDED,
    NOT_ADMITTED,
    NOT_EXECUTED,
    RESOLUTION_OF,
    WORKED_ON,
    Decision,
    Ending,
    ReviewFacts,
    choice,
    in_queue,
    lift_bytes,
    path_of,
    resolution_bytes,
)
from readback.domain.recovery.action import RecoveryAction
from readback.domain.side_effect import ReviewTrigger, SideEffect
from readback.domain.state import State
from readback.errors import StoreCorruptError

S, D = State, Decision
WAITS = ReviewFacts(S.REVIEW_REQUIRED, "mismatch")
SHOWN = "A reading shows an effect of the action."


# --- the ways -------------------------------------------------------------------------------------------------

PATHS: dict[tuple[Decision, State], tuple[State, ...]] = {
    (D.VERIFY_AGAIN, S.REVIEW_REQUIRED): (S.PENDING,),
    (D.COMPENSATE, S.REVIEW_REQUIRED): (S.COMPENSATING,),
    (D.GO_FORWARD, S.REVIEW_REQUIRED): (S.FORWARD_RECOVERY,),
    (D.ABANDON, S.REVIEW_REQUIRED): (S.ABANDONED,),
    (D.REOPEN, S.REVIEW_REQUIRED): (S.VALIDATED,),
    (D.VERIFY_AGAIN, S.UNKNOWN): (S.PENDING,),
    (D.COMPENSATE, S.UNKNOWN): (S.REVIEW_REQUIRED, S.COMPENSATING),
    (D.GO_FORWARD, S.UNKNOWN): (S.REVIEW_REQUIRED, S.FORWARD_RECOVERY),
    (D.ABANDON, S.UNKNOWN): (S.REVIEW_REQUIRED, S.ABANDONED),
    (D.REOPEN, S.UNKNOWN): (S.REVIEW_REQUIRED, S.VALIDATED),
    (D.ABANDON, S.VALIDATED): (S.FAILED,),
}


def test_a_decision_walks_this_way_and_no_other() -> None:
    for decision in Decision:
        for state in State:
            assert path_of(decision, state) == PATHS.get((decision, state), ()), (decision, state)


def test_a_decision_attests_what_it_says_and_some_have_to_be_gone_on_with() -> None:
    attested = {each.value: word.value for each, word in RESOLUTION_OF.items() if word is not Resolution.NONE}
    assert attested == {"attest_done": "attested_done", "attest_not_done": "attested_not_done"}
    assert set(RESOLUTION_OF) == set(Decision)
    assert {D.VERIFY_AGAIN, D.COMPENSATE, D.GO_FORWARD, D.REOPEN} == ACTS
    assert (BREAK_GLASS, APPROVAL, COMPENSATION_FAILED, CONTESTED) == (
        "break_glass",
        "approval",
        "compensation_failed",
        "contested",
    )


# --- the queue ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [S.FAILED, S.ROLLED_BACK, S.COMPENSATING, S.RECONCILIATION_FAILED])
def test_what_ended_otherwise_and_is_contested_is_in_the_queue(state: State) -> None:
    ending = Ending(state, RecoveryAction.ACCEPT, "mismatch")
    assert in_queue(ending) == ""
    assert in_queue(replace(ending, contested=True)) == CONTESTED
    assert in_queue(replace(ending, trigger=ReviewTrigger.ALWAYS)) == ReviewTrigger.ALWAYS.value


def test_what_stays_unknown_is_in_the_queue_for_its_class_before_what_was_found() -> None:
    ending = Ending(S.UNKNOWN, RecoveryAction.KEEP_UNKNOWN, "timeout")
    assert in_queue(ending) == "timeout"
    assert in_queue(replace(ending, trigger=ReviewTrigger.ALWAYS)) == ReviewTrigger.ALWAYS.value
    reported = replace(ending, recovery=RecoveryAction.REPORT_UNVERIFIED)
    assert in_queue(reported) == ""
    assert in_queue(replace(reported, trigger=ReviewTrigger.ALWAYS)) == ReviewTrigger.ALWAYS.value


@pytest.mark.parametrize("state", [S.ABANDONED, S.PROPOSED, S.VALIDATED, S.EXECUTING, S.ACCEPTED, S.PENDING])
def test_what_is_stopped_or_open_is_not_in_the_queue(state: State) -> None:
    ending = Ending(state, RecoveryAction.KEEP_UNKNOWN, "timeout", ReviewTrigger.ALWAYS, contested=True)
    assert in_queue(ending) == ""


# --- why not --------------------------------------------------------------------------------------------------

ATTESTED = {"resolution": Resolution.ATTESTED_NOT_DONE}
NO_READER = "The contract has no reader."
MAY_BE_DONE = "The action may have been executed. Attest first that it was not done."
WHY_NOT: list[tuple[Decision, dict[str, Any], str]] = [
    (D.ABANDON, {}, ""),
    (D.ATTEST_DONE, {}, ""),
    (D.ATTEST_DONE, {"state": S.UNKNOWN}, ""),
    (D.ATTEST_DONE, {"executed": False}, NOT_EXECUTED),
    (D.ATTEST_NOT_DONE, {}, ""),
    (D.ATTEST_NOT_DONE, {"effect_shown": True}, SHOWN),
    (D.ATTEST_NOT_DONE, {"executed": False}, NOT_EXECUTED),
    (D.VERIFY_AGAIN, {}, ""),
    (D.VERIFY_AGAIN, {"state": S.UNKNOWN}, ""),
    (D.VERIFY_AGAIN, {"executed": False}, NOT_EXECUTED),
    (D.VERIFY_AGAIN, {"readable": False}, NO_READER),
    (
        D.VERIFY_AGAIN,
        {"review": "compensation_failed"},
        "The compensation failed. Verify the compensation, or reverse this action again.",
    ),
    (D.COMPENSATE, {}, "The contract has no compensation."),
    (D.COMPENSATE, {"reversible": True}, "No reading shows an effect to reverse."),
    (D.COMPENSATE, {"reversible": True, "effect_shown": True}, ""),
    (D.COMPENSATE, {"reversible": True, "effect_shown": True, "review": "compensation_failed"}, ""),
    (
        D.COMPENSATE,
        {"reversible": True, "effect_shown": True, "blind": True},
        "The arguments are recorded as redacted only.",
    ),
    (D.GO_FORWARD, {}, "The action is not a workflow, or not past its pivot."),
    (D.GO_FORWARD, {"forward": True}, ""),
    (D.GO_FORWARD, {"forward": True, "executed": False}, ""),
    (D.REOPEN, {}, MAY_BE_DONE),
    (D.REOPEN, ATTESTED, ""),
    (D.REOPEN, {"resolution": Resolution.ATTESTED_DONE}, MAY_BE_DONE),
    (D.REOPEN, {"executed": False}, ""),
    (D.REOPEN, {"executed": False, "effect_shown": True}, SHOWN),
    (D.REOPEN, {**ATTESTED, "admitted": False}, NOT_ADMITTED),
    (D.REOPEN, {"executed": False, "hold": "deferred"}, ""),
    (
        D.REOPEN,
        {"executed": False, "hold": "approval"},
        "The action waits for an approval. Approve the action instead.",
    ),
    (
        D.REOPEN,
        {**ATTESTED, "blind": True},
        "The arguments are recorded as redacted only. Request the operation again.",
    ),
    (D.ABANDON, {"state": S.VALIDATED, "hold": "approval"}, ""),
    (D.ATTEST_DONE, {"state": S.VALIDATED, "hold": "approval"}, NOT_EXECUTED),
    (D.ABANDON, {"state": S.VALIDATED}, WORKED_ON),
    (D.ABANDON, {"state": S.PENDING, "hold": "approval"}, WORKED_ON),
    (D.ABANDON, {"state": S.FAILED}, ""),
    (D.ATTEST_DONE, {"state": S.FAILED}, ""),
    (D.ATTEST_DONE, {"state": S.FAILED, "executed": False}, ENDED),
    (D.ATTEST_NOT_DONE, {"state": S.FAILED}, ENDED),
    (D.ATTEST_DONE, {"state": S.RECONCILED_SUCCESS, "executed": False}, ""),
    (D.ATTEST_NOT_DONE, {"state": S.RECONCILED_SUCCESS}, ""),
    (D.VERIFY_AGAIN, {"state": S.RECONCILED_SUCCESS}, ENDED),
    (D.ATTEST_DONE, {"state": S.COMPENSATED}, ENDED),
]


@pytest.mark.parametrize(("decision", "given", "why_not"), WHY_NOT)
def test_each_decision_is_barred_for_its_own_reason(decision: Decision, given: dict[str, Any], why_not: str) -> None:
    found = choice(decision, replace(WAITS, **given))
    assert (found.why_not, found.open) == (why_not, not why_not)


def test_a_missing_contract_bars_what_goes_on_and_never_takes_the_place_of_a_nearer_reason() -> None:
    gone = replace(WAITS, loaded=False)
    assert choice(D.VERIFY_AGAIN, gone).why_not.startswith("The original contract is not loaded here")
    assert choice(D.VERIFY_AGAIN, replace(WAITS, loaded=True)).open
    assert choice(D.ATTEST_DONE, gone).open
    assert choice(D.VERIFY_AGAIN, replace(gone, readable=False)).why_not == NO_READER


def test_of_an_action_of_which_nothing_more_is_known_it_is_not_said_that_anything_was_attested() -> None:
    assert ReviewFacts(S.UNKNOWN, "timeout") == ReviewFacts(S.UNKNOWN, "timeout", resolution=Resolution.NONE)
    assert WAITS.resolution is Resolution.NONE


# --- what it will do ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decision", "state", "begins"),
    [
        (D.ATTEST_DONE, S.UNKNOWN, "Records your statement that the action was done. The key stays taken"),
        (D.ATTEST_DONE, S.REVIEW_REQUIRED, "Records your statement that the action was done. The key stays taken"),
        (D.ATTEST_DONE, S.PENDING, "Records your statement that the action was done. The key stays taken"),
        (D.ATTEST_DONE, S.RECONCILED_SUCCESS, "Records that a person confirmed the action"),
        (D.ATTEST_DONE, S.FAILED, "Records your statement that the action was done after all"),
        (
            D.ATTEST_NOT_DONE,
            S.RECONCILED_SUCCESS,
            "Records your statement that the action was not done. The reported success",
        ),
        (D.ATTEST_NOT_DONE, S.UNKNOWN, "Records your statement that the action had no effect"),
        (D.ABANDON, S.VALIDATED, "Stops the action for good"),
        (D.ABANDON, S.FAILED, "Closes the review"),
        (D.VERIFY_AGAIN, S.FAILED, "Reads again now"),
        (D.REOPEN, S.FAILED, "Checks the preconditions again"),
    ],
)
def test_what_a_decision_will_do_is_said_for_where_the_action_stands(
    decision: Decision, state: State, begins: str
) -> None:
    assert choice(decision, ReviewFacts(state, "mismatch")).will.startswith(begins)


# --- what is signed -------------------------------------------------------------------------------------------


def test_what_is_signed_is_of_these_bytes() -> None:
    bound: list[Json] = ["readback/resolution/1", "acme", "a1", 3, "abandon", "eve", "why"]
    assert resolution_bytes("a1", "acme", 3, "abandon", "eve", "why") == payload_bytes(bound)
    lifted: list[Json] = ["readback/lift/2", "acme", "tool:pay", [["a1", 7], ["a2", 9]], "eve", "why"]
    assert lift_bytes("acme", "tool:pay", (("a1", 7), ("a2", 9)), "eve", "why") == payload_bytes(lifted)


# --- what is frozen -------------------------------------------------------------------------------------------


def test_what_an_action_does_not_name_is_not_frozen() -> None:
    named = {"tenant": "acme", "principal": "", "contract": "pay", "target": ""}
    assert subjects(FreezeScope, **named) == ("tool:pay", "tenant:acme")


# --- an approval on record ------------------------------------------------------------------------------------

ASKED = RequestedApproval("i", "n", "p", "q", 9, 4, 2)
EVE, TOM = RecordedToken("eve", "k1", "r1"), RecordedToken("tom", "k2", "r2")


@pytest.mark.parametrize(
    ("given", "complete"),
    [
        ({}, False),
        ({"signed": [EVE]}, False),
        ({"signed": [EVE, TOM]}, True),
        ({"signed": [EVE, TOM], "denied_by": "ann"}, False),
        ({"people": 0}, False),
        ({"people": 0, "signed": [EVE]}, True),
        ({"people": 1, "signed": [EVE, TOM]}, True),
    ],
)
def test_an_approval_is_complete_when_enough_people_signed_and_nobody_denied(
    given: dict[str, Any], complete: bool
) -> None:
    assert replace(ASKED, **given).complete is complete


def test_what_was_asked_for_is_read_from_its_entry() -> None:
    data: dict[str, Json] = {
        "approval": "i",
        "nonce": "n",
        "payload": "p",
        "policy": "q",
        "expires": 9,
        "span": 4,
        "people": 2,
    }
    assert asked(Event(EventKind.APPROVAL_REQUESTED, 1, data=data)) == ASKED
    assert whole(0) == 0
    odds: tuple[Json, ...] = ("9", True, None, [1])
    for odd in odds:
        with pytest.raises(StoreCorruptError, match="where a number is required"):
            asked(Event(EventKind.APPROVAL_REQUESTED, 1, data={**data, "expires": odd}))


# --- incidents ------------------------------------------------------------------------------------------------


def test_an_incident_is_this_severe() -> None:
    assert [each.rank for each in Severity] == [0, 1, 2, 3]
    assert [BY_CLASS[each].value for each in SideEffect] == ["low", "low", "medium", "medium", "high", "critical"]
    assert {finding.value: severity.value for finding, severity in AT_LEAST.items()} == {
        "wrong_target": "critical",
        "approval_mismatch": "critical",
        "duplicate_side_effect": "high",
        "hidden_side_effect": "high",
        "compensation_failed": "high",
        "verifier_error": "medium",
    }
    assert severity_of(Finding.VERIFIER_ERROR, SideEffect.READ_ONLY) is Severity.MEDIUM
    assert severity_of(Finding.VERIFIER_ERROR, SideEffect.HIGH_RISK_EXTERNAL) is Severity.HIGH


def test_the_cause_is_the_first_source_or_the_action() -> None:
    assert cause_of(Finding.VERIFIER_ERROR, "a1", ("one", "two")) == "source:one"
    assert cause_of(Finding.WRONG_TARGET, "a1", ("one",)) == "action:a1:wrong_target"
