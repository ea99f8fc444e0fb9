"""What people do to an action, as the fold keeps it: approvals, attestations, holds, and keys broken out of glass."""

from __future__ import annotations

import pytest

from readback.canon import Json
from readback.domain.action.action import Action
from readback.domain.action.approval_record import RequestedApproval
from readback.domain.contract.approval import ApprovalCode
from readback.domain.events import Event, EventKind
from readback.domain.state import State
from readback.errors import StoreCorruptError

K, S = EventKind, State
PROPOSAL: dict[str, Json] = {
    "principal": "agent",
    "contract": "ship",
    "contract_version": "2",
    "contract_hash": "c0ffee",
    "operation_kind": "set",
    "side_effect": "medium_risk_write",
    "target": "order/1",
    "operation": "op-1",
    "stamp": "rb-1",
    "key_hash": "k1",
    "request_hash": "q1",
    "context": {},
}
ASKING: dict[str, Json] = {
    "approval": "ap-1",
    "nonce": "n-1",
    "payload": "p0",
    "policy": "policy-1",
    "expires": 900,
    "span": 800,
    "people": 1,
    "code": "approval.required",
    "detail": "It waits.",
}
ROW: dict[str, Json] = {"row": "REC-07", "table": "t1", "recovery": "hold_and_escalate", "finding": "approval_gap"}


def at(state: State = S.VALIDATED, *events: Event) -> Action:
    """An action in this state, after these events."""
    action = Action("act-1", "acme", version=1, state=state)
    for event in events:
        action.apply(event, "ff")
    return action


def attempt(number: int = 1, **more: Json) -> Event:
    return Event(K.ATTEMPTED, 100, (), {"attempt": number, "timeout": 50, **more})


def asking(when: int = 100, **changes: Json) -> Event:
    return Event(K.APPROVAL_REQUESTED, when, (), {**ASKING, **changes})


def answer(kind: EventKind, approver: str = "alice", **more: Json) -> Event:
    data: dict[str, Json] = {"approval": "ap-1", "approver": approver, "key": f"k-{approver}", "due": 500, **more}
    return Event(kind, 101, (), data, {"token": f"t-{approver}"})


def resolved(**changes: Json) -> Event:
    data: dict[str, Json] = {"decision": "abandon", "resolution": "", "contests": False, "due": None, "reserved": False}
    return Event(K.RESOLVED, 100, (), {**data, **changes})


# --- what is proposed ---


def test_a_proposal_says_how_long_its_key_is_kept_and_who_broke_the_glass() -> None:
    refs = {"request": "r", "contract": "c"}
    proposed = Event(K.PROPOSED, 100, (S.PROPOSED,), {**PROPOSAL, "key_kept": 77, "break_glass": "on fire"}, refs)
    action = Action("act-1", "acme")
    action.apply(proposed, "ff")
    assert (action.key_kept_us, action.break_glass) == (77, "on fire")
    plain = Action("act-1", "acme")
    plain.apply(Event(K.PROPOSED, 100, (S.PROPOSED,), PROPOSAL, refs), "ff")
    assert (plain.key_kept_us, plain.break_glass) == (2_592_000_000_000, "")


# --- attempts ---


@pytest.mark.parametrize(
    ("before", "said", "kept"), [("", "", ""), ("", "b", "b"), ("a", "", "a"), ("a", "b", "a")], ids=repr
)
def test_the_first_reason_to_break_the_glass_is_kept(before: str, said: str, kept: str) -> None:
    action = at()
    action.break_glass = before
    action.apply(attempt(**({"break_glass": said} if said else {})), "ff")
    assert action.break_glass == kept


def test_an_attempt_says_which_approvals_it_stood_on_if_only_that_it_needed_none() -> None:
    assert at(S.VALIDATED, attempt()).gated is False
    assert at(S.VALIDATED, attempt(approval=[])).gated is True
    assert at(S.VALIDATED, attempt(approval=["ap-1"])).gated is True


@pytest.mark.requirement("HS-06")
@pytest.mark.parametrize("code", list(ApprovalCode), ids=lambda code: code.name)
def test_what_was_refused_an_approval_is_not_proposed_again_and_what_waited_too_long_is(code: ApprovalCode) -> None:
    action = at(S.FAILED)
    action.code = code.value
    assert action.may_repeat is (code in (ApprovalCode.EXPIRED, ApprovalCode.WAITING))


def test_an_attestation_of_what_is_unknown_settles_its_key() -> None:
    for state, resolution, settles in (
        (S.UNKNOWN, "attested_done", True),
        (S.UNKNOWN, "", False),
        (S.COMPENSATING, "attested_done", False),
        (S.PENDING, "attested_done", False),
    ):
        action = at(state)
        action.resolution = resolution
        assert action.durable_key_change is settles
        action.version = 0
        assert action.durable_key_change is False


# --- approvals ---


def test_who_waits_for_people_was_validated_once() -> None:
    action = at(S.VALIDATED, asking(100))
    assert (action.hold, action.review, action.code) == ("approval", "approval", "approval.required")
    assert (action.validated_us, action.due_us, action.judgement.row) == (100, 900, "")
    action.apply(asking(200), "ff")
    assert action.validated_us == 100


def test_the_row_that_asks_for_people_is_kept() -> None:
    judgement = at(S.VALIDATED, asking(**ROW)).judgement
    assert {name: getattr(judgement, name) for name in ROW} == ROW


@pytest.mark.parametrize(("people", "signed", "waits"), [(1, 0, True), (1, 1, False), (2, 1, True), (2, 2, False)])
def test_people_are_asked_until_enough_have_signed(people: int, signed: int, waits: bool) -> None:
    names = ("alice", "bob")[:signed]
    action = at(S.VALIDATED, asking(people=people), *(answer(K.APPROVED, name) for name in names))
    assert (action.review, action.hold) == ("approval" if waits else "", "approval")
    assert action.approval is not None
    assert [one.approver for one in action.approval.signed] == [*names]


def test_a_denial_ends_the_waiting() -> None:
    denied = answer(K.DENIED, code="approval.denied", detail="No.")
    action = at(S.VALIDATED, asking(), denied)
    assert (action.hold, action.review, action.code) == ("", "", "approval.denied")
    assert (action.judgement.detail, action.reconciled_us, action.due_us) == ("No.", 101, None)


@pytest.mark.parametrize(("attempts", "row"), [(0, ""), (1, "REC-07")])
@pytest.mark.parametrize(("review", "after"), [("approval", ""), ("look", "look")])
def test_the_end_of_the_waiting_leaves_another_review_and_what_an_attempt_before_was_judged(
    attempts: int, row: str, review: str, after: str
) -> None:
    action = at(S.VALIDATED, asking(**ROW))
    action.attempts, action.review = attempts, review
    action.apply(attempt(attempts + 1), "ff")
    assert (action.hold, action.review, action.judgement.row) == ("", after, row)


@pytest.mark.parametrize("kind", [K.APPROVED, K.DENIED], ids=lambda kind: kind.value)
def test_nobody_answers_where_nobody_was_asked(kind: EventKind) -> None:
    for held in (None, RequestedApproval("ap-0", "n", "p", "q", 900, 800, 1)):
        action = at(S.VALIDATED)
        action.approval = held
        with pytest.raises(StoreCorruptError, match="approval without a request"):
            action.apply(answer(kind, code="x", detail="y"), "ff")


# --- contests, holds, and what a person decides ---


@pytest.mark.parametrize(("before", "after"), [("", "contested"), ("approval", "approval")])
def test_what_a_reading_contests_is_put_before_a_person(before: str, after: str) -> None:
    action = at(S.REVIEW_REQUIRED)
    action.review = before
    data: dict[str, Json] = {
        "claim": "happened",
        "reason": "late_effect",
        "confidence": "0.99",
        "recommended": "investigate",
        "who": "",
        "note": "",
        "signed_by": "",
        "dependants": [],
        "more": 0,
    }
    action.apply(Event(K.CLAIM_CONTESTED, 100, (), data), "ff")
    assert (action.contested, action.review) == (True, after)


def test_a_hold_opens_its_incident_and_freezes_its_subjects() -> None:
    held = Event(K.HELD, 100, (), {"hold": "frozen", "severity": "high", "incident": "alarm", "freeze": ["tool:b"]})
    action = at(S.VALIDATED, held)
    assert (action.incident, action.incidents, action.frozen) == ("alarm", ("inc-act-1-2",), ("tool:b",))


@pytest.mark.parametrize(
    ("before", "resolution", "contests", "after"),
    [
        (False, "", False, False),
        (False, "", True, True),
        (True, "", False, True),
        (True, "attested_done", False, False),
        (True, "attested_done", True, True),
    ],
)
def test_a_contest_lasts_until_a_person_says_how_it_is(
    before: bool, resolution: str, contests: bool, after: bool
) -> None:
    action = at(S.REVIEW_REQUIRED)
    action.contested = before
    action.apply(resolved(resolution=resolution, contests=contests), "ff")
    assert action.contested is after


@pytest.mark.parametrize(("before", "said"), [(False, False), (False, True), (True, False), (True, True)])
def test_a_key_that_was_taken_again_stays_taken(before: bool, said: bool) -> None:
    action = at(S.REVIEW_REQUIRED)
    action.reserved = before
    action.apply(resolved(reserved=said), "ff")
    assert action.reserved is (before or said)


@pytest.mark.parametrize(("due", "kept"), [(900, 900), (None, None), ("soon", None)])
def test_what_a_person_leaves_due_at_no_moment_is_not_due(due: Json, kept: int | None) -> None:
    assert at(S.REVIEW_REQUIRED, resolved(due=due)).due_us == kept
