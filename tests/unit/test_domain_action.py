"""The fold: what each event makes of an action, field by field. Resume and audit stand on nothing else."""

from __future__ import annotations

from dataclasses import asdict
from itertools import product
from typing import Any

import pytest

from readback.canon import Json
from readback.domain.action.action import Action
from readback.domain.action.action_state import Judgement
from readback.domain.action.approval_record import RequestedApproval
from readback.domain.action.claim import ClaimEvent, ClaimKind, ClaimStatus, Reason
from readback.domain.action.key_release import KeyRelease
from readback.domain.events import Event, EventKind
from readback.domain.idempotency import Resolution
from readback.domain.state import TERMINAL, State
from readback.errors import StoreCorruptError

K, S = EventKind, State


def fields(**named: Any) -> dict[str, Any]:
    """Fields and what they hold, several on a line."""
    return named


NOTHING_JUDGED: dict[str, Any] = {
    "verdict": "not_checked",
    "why": "",
    "finding": "",
    "discrepancy": "",
    "attribution": "unknown",
    "row": "",
    "table": "",
    "recovery": "",
    "level": 1,
    "effect_shown": False,
    "dead": False,
    "done": (),
    "undone": (),
    "detail": "",
    "ref": "",
}
NEW: dict[str, Any] = {
    **fields(erased=(), erased_us=0),
    **fields(id="act-1", tenant="acme", version=0, head="", state=S.PROPOSED, principal=""),
    **fields(contract="", contract_version="", contract_hash="", kind="", side_effect="", target=""),
    **fields(
        operation="", wrapper="", key_hash="", request_hash="", asked_hash="", stamp="", context={}, request_ref=""
    ),
    **fields(contract_ref="", before=None, before_ref="", attempts=0, attempt_open=False, timeout_us=0),
    **fields(ended_us=0, observation=None, observation_ref="", reading=None, reading_ref="", lookup=""),
    **fields(left_before=False, release=None, engine="", first_executed_us=0, first_ended_us=0),
    **fields(sighted=False, seen=False),
    **fields(polls=0, late_polls=0, held_since_us=0, looked_us=0, due_us=None, judgement=NOTHING_JUDGED),
    **fields(
        compensation_id="", rollback_done=False, commit_open=False, cancelled=False, contested=False, hold="", code=""
    ),
    **fields(approval=None, gated=False, key_kept_us=30 * 24 * 3600 * 1_000_000),
    **fields(
        incidents=(),
        frozen=(),
        resolution="",
        decision="",
        reserved=False,
        restored=False,
        maker="",
        unproved=False,
        place="",
    ),
    **fields(mode="", would_refuse="", shadow=None),
    **fields(break_glass="", review="", incident="", created_us=0, updated_us=0, validated_us=0, executed_us=0),
    **fields(verified_us=0, reconciled_us=0, commit_open=False, claims=(), claimed_us=0, watch=None),
}


def busy(state: State = S.PENDING) -> Action:
    """An action in the middle of its life, with something in every field that an event may clear."""
    action = Action("act-1", "acme", version=7, head="aa", state=state)
    action.context, action.before, action.before_ref = {"step": "1"}, {"role": "before"}, "b0"
    action.attempts, action.attempt_open, action.timeout_us, action.ended_us = 1, True, 5, 6
    action.observation, action.observation_ref = {"status": "success"}, "o0"
    action.reading, action.reading_ref, action.lookup = {"role": "check"}, "r0", "pending"
    action.polls, action.late_polls, action.held_since_us, action.looked_us, action.due_us = 3, 4, 8, 9, 10
    action.compensation_id, action.hold, action.code = "act-0", "frozen", "old-code"
    action.review, action.incident = "earlier review", "earlier incident"
    action.incidents, action.frozen = ("inc-act-1-2",), ("resource:a", "tool:b")
    action.resolution, action.decision = "attested_done", "verify_again"
    action.approval = RequestedApproval("ap-1", "n-1", "p0", "policy-1", 900, 800, 2)
    action.claims, action.claimed_us = (ClaimEvent(**{**SAID, **OF_THEIR_OWN}),), 17
    action.created_us, action.updated_us, action.validated_us = 11, 12, 13
    action.executed_us, action.verified_us, action.reconciled_us = 14, 15, 16
    return action


ASKED: dict[str, Any] = {
    **fields(id="ap-1", nonce="n-1", payload="p0", policy="policy-1", expires_us=900, span_us=800, people=2),
    **fields(signed=[], denied_by="", used=False),
}
ASKING: dict[str, Json] = {
    **fields(approval="ap-2", nonce="n-2", payload="p1", policy="policy-1", expires=900, span=800, people=2),
    **fields(hold="approval", code="approval.required", detail="It waits.", due=900),
}
SIGNING: dict[str, Json] = {"approval": "ap-1", "approver": "alice", "key": "k-a"}


def judged(**changes: Json) -> dict[str, Json]:
    data: dict[str, Json] = {
        **fields(verdict="refuted", why="none", finding="value_mismatch", discrepancy="value_mismatch"),
        **fields(attribution="ours", row="REC-03", table="t1", recovery="compensate", level=2),
        **fields(effect_shown=True, dead=True, done=["a"], undone=["b", "c"], detail="Differs."),
        **fields(polls=5, late_polls=6, held_since=70, due=900, review="look", incident="alarm"),
    }
    data.update(changes)
    return data


def said(**changes: Json) -> dict[str, Json]:
    data: dict[str, Json] = {
        **fields(claim="happened", reason="late_effect", confidence="0.99", recommended="investigate"),
        **fields(who="", note="", signed_by="", dependants=[], more=0),
    }
    return {**data, **changes}


SAID: dict[str, Any] = {
    **fields(kind="happened", status="contested", reason="late_effect", confidence="0.99", advice="investigate"),
    **fields(at_us=100, version=8, who="", note="", signed_by="", dependants=(), more=0),
}


OF_THEIR_OWN = {"kind": ClaimKind.HOLDS, "status": ClaimStatus.CONTESTED, "reason": Reason.REFUTED}
NAMED: dict[str, Any] = {"dependants": ("a9",), "more": 3}
BY_EVE: dict[str, Any] = {"who": "human:eve", "note": "Seen."}


def resolved(**changes: Json) -> dict[str, Json]:
    return {"decision": "abandon", "resolution": "", "contests": False, "due": None, "reserved": False, **changes}


JUDGED: dict[str, Any] = {
    **fields(verdict="refuted", why="none", finding="value_mismatch", discrepancy="value_mismatch"),
    **fields(attribution="ours", row="REC-03", table="t1", recovery="compensate", level=2),
    **fields(effect_shown=True, dead=True, done=("a",), undone=("b", "c"), detail="Differs.", ref="j9"),
}
PROPOSAL: dict[str, Json] = {
    **fields(principal="agent", contract="ship", contract_version="2", contract_hash="c0ffee"),
    **fields(operation_kind="set", side_effect="medium_risk_write", target="order/1", operation="op-1"),
    "wrapper": "2",
    **fields(stamp="rb-1", key_hash="k1", request_hash="q1", context={"step": "2"}),
}


def fold(action: Action, event: Event) -> dict[str, Any]:
    """What the event changed, beside version, head and time."""
    before = asdict(action)
    action.apply(event, "ff")
    after = asdict(action)
    moved_us = before["updated_us"] if event.kind is K.ERASED else event.at_us  # an erasure leaves it where it was
    assert (after["version"], after["head"], after["updated_us"]) == (before["version"] + 1, "ff", moved_us)
    always = ("version", "head", "updated_us")
    return {name: value for name, value in after.items() if name not in always and value != before[name]}


def test_a_new_action_has_done_nothing_and_is_owed_nothing() -> None:
    assert asdict(Action("act-1", "acme")) == NEW
    assert asdict(Judgement()) == NOTHING_JUDGED


@pytest.mark.parametrize(("context", "kept"), [({"step": "2"}, {"step": "2"}), ("odd", {})])
def test_a_proposal_names_the_action(context: Json, kept: Json) -> None:
    action = Action("act-1", "acme")
    event = Event(
        K.PROPOSED,
        100,
        (S.PROPOSED, S.VALIDATED),
        {**PROPOSAL, "context": context},
        {"request": "r1", "contract": "c1"},
    )
    action.apply(event, "ff")
    expected = {
        **NEW,
        **fields(version=1, head="ff", state=S.VALIDATED, principal="agent", contract="ship"),
        **fields(contract_version="2", contract_hash="c0ffee", kind="set", side_effect="medium_risk_write"),
        **fields(target="order/1", operation="op-1", stamp="rb-1", key_hash="k1", request_hash="q1"),
        **fields(wrapper="2", context=kept, request_ref="r1", contract_ref="c1", created_us=100, updated_us=100),
    }
    assert asdict(action) == expected


def test_a_submission_is_due_and_has_taken_its_key() -> None:
    action = Action("act-1", "acme")
    refs = {"request": "r1", "contract": "c1"}
    action.apply(Event(K.PROPOSED, 100, (S.PROPOSED,), {**PROPOSAL, "context": {}, "due": 700}, refs), "ff")
    assert (action.state, action.due_us, action.reserved, action.asked_hash) == (S.PROPOSED, 700, True, "")
    with pytest.raises(StoreCorruptError, match="admitted"):
        action.apply(Event(K.ADMITTED, 100, (), PROPOSAL, refs), "ee")


def test_a_submission_by_name_has_no_terms_until_it_is_admitted() -> None:
    action = Action("act-1", "acme")
    bare: dict[str, Json] = {"contract_version": "", "contract_hash": "", "operation_kind": ""}
    asked: dict[str, Json] = {
        **PROPOSAL,
        **bare,
        "side_effect": "",
        "target": "",
        "context": {"run": "r"},
        "request_hash": "a1",
    }
    action.apply(Event(K.PROPOSED, 100, (S.PROPOSED,), {**asked, "due": 700}, {"request": "r0"}), "ff")
    assert (action.contract, action.contract_ref, action.target) == ("ship", "", "")
    assert (action.request_hash, action.asked_hash, action.due_us) == ("a1", "a1", 700)
    refs = {"request": "r1", "contract": "c1"}
    action.apply(Event(K.ADMITTED, 200, (), PROPOSAL, refs), "ee")
    assert (action.contract_ref, action.request_ref, action.target) == ("c1", "r1", "order/1")
    assert (action.request_hash, action.asked_hash, action.state) == ("q1", "a1", S.PROPOSED)
    assert (action.context, action.created_us, action.due_us) == ({"run": "r"}, 100, 700)


STEPS: dict[str, tuple[State, Event, dict[str, Any]]] = {
    "rejected": (
        S.VALIDATED,
        Event(K.REJECTED, 100, (S.FAILED,), {"code": "stale", "detail": "Too old."}),
        {
            **fields(state=S.FAILED, code="stale", judgement={**NOTHING_JUDGED, "detail": "Too old."}),
            **fields(reconciled_us=100, due_us=None),
        },
    ),
    "rejected without a word": (
        S.VALIDATED,
        Event(K.REJECTED, 100, (S.FAILED,)),
        {"state": S.FAILED, "code": "", "reconciled_us": 100, "due_us": None},
    ),
    "rejected with a judgement": (
        S.VALIDATED,
        Event(K.REJECTED, 100, (S.FAILED,), {**judged(), "code": "x"}, {"judgement": "j9"}),
        {"state": S.FAILED, "code": "x", "judgement": JUDGED, "reconciled_us": 100, "due_us": None},
    ),
    "read before": (
        S.VALIDATED,
        Event(K.READ, 100, (), {"role": "before", "started": 90}, {"reading": "b1"}),
        {"before": {"role": "before", "started": 90}, "before_ref": "b1"},
    ),
    "read before, without evidence": (
        S.VALIDATED,
        Event(K.READ, 100, (), {"role": "before"}),
        {"before_ref": ""},
    ),
    "searched": (S.PENDING, Event(K.READ, 100, (), {"role": "find", "started": 90}), {"looked_us": 90}),
    "read": (
        S.PENDING,
        Event(K.READ, 100, (), {"role": "check", "n": 2}, {"reading": "r1"}),
        {"reading": {"role": "check", "n": 2}, "reading_ref": "r1", "verified_us": 100},
    ),
    "read, without evidence": (
        S.PENDING,
        Event(K.READ, 100, (), {"role": "check"}),
        {"reading_ref": "", "verified_us": 100},
    ),
    "attempted": (
        S.VALIDATED,
        Event(K.ATTEMPTED, 100, (S.EXECUTING,), {"attempt": 2, "timeout": 50}),
        {
            **fields(state=S.EXECUTING, attempts=2, timeout_us=50, executed_us=100, ended_us=0, polls=0),
            **fields(late_polls=0, held_since_us=0, looked_us=0, lookup="", observation=None, left_before=True),
            **fields(first_executed_us=100),
            **fields(observation_ref="", due_us=100, resolution="", decision=""),
        },
    ),
    "observed": (
        S.EXECUTING,
        Event(K.OBSERVED, 100, (S.ACCEPTED,), {"ended": 95, "due": 120}, {"observation": "o1"}),
        {
            **fields(state=S.ACCEPTED, observation={"ended": 95, "due": 120}, observation_ref="o1"),
            **fields(attempt_open=False, ended_us=95, first_ended_us=95, due_us=120),
        },
    ),
    "observed, nothing due": (
        S.EXECUTING,
        Event(K.OBSERVED, 100, (S.ACCEPTED,), {"ended": 95}),
        {
            **fields(state=S.ACCEPTED, observation={"ended": 95}, observation_ref=""),
            **fields(attempt_open=False, ended_us=95, first_ended_us=95),
        },
    ),
    "looked up": (S.PENDING, Event(K.LOOKED_UP, 100, (), {"status": "landed"}), {"lookup": "landed"}),
    "judged, and goes on": (
        S.PENDING,
        Event(K.JUDGED, 100, (), judged(), {"judgement": "j9"}),
        {
            **fields(judgement=JUDGED, polls=5, late_polls=6, held_since_us=70, due_us=900),
            **fields(review="look", incident="alarm", decision=""),
        },
    ),
    "judged, and nothing is due": (
        S.PENDING,
        Event(K.JUDGED, 100, (), judged(due=None, review="", incident=""), {"judgement": "j9"}),
        {
            **fields(judgement=JUDGED, polls=5, late_polls=6, held_since_us=70, due_us=None),
            **fields(reconciled_us=100, review="", decision=""),
        },
    ),
    "judged, and freezes and alarms": (
        S.PENDING,
        Event(
            K.JUDGED,
            100,
            (),
            {**judged(), "severity": "high", "freeze": ["resource:c", "tool:b"], "frozen_for": "duplicate"},
        ),
        {
            **fields(judgement={**JUDGED, "ref": ""}, polls=5, late_polls=6, held_since_us=70, due_us=900),
            **fields(review="look", incident="alarm", decision="", incidents=("inc-act-1-2", "inc-act-1-8")),
            **fields(frozen=("resource:a", "tool:b", "resource:c")),
        },
    ),
    "judged, and ends": (
        S.COMMITTED,
        Event(K.JUDGED, 100, (S.RECONCILED_SUCCESS,), judged(), {"judgement": "j9"}),
        {
            **fields(state=S.RECONCILED_SUCCESS, judgement=JUDGED, polls=5, late_polls=6, held_since_us=70),
            **fields(due_us=900, review="look", incident="alarm", reconciled_us=100, decision=""),
        },
    ),
    "resumed in an attempt": (
        S.EXECUTING,
        Event(K.RESUMED, 100),
        {"attempt_open": False, "ended_us": 100, "first_ended_us": 100},
    ),
    "signalled": (S.PENDING, Event(K.SIGNALLED, 100), {"due_us": 100}),
    "signalled, until a time": (S.PENDING, Event(K.SIGNALLED, 100, (), {"due": 500}), {"due_us": 500}),
    "cancelled while it runs": (S.PENDING, Event(K.CANCELLED, 100), {"cancelled": True, "due_us": 100}),
    "cancelled before": (
        S.VALIDATED,
        Event(K.CANCELLED, 100, (S.FAILED,)),
        {
            **fields(state=S.FAILED, cancelled=True, code="cancelled", reconciled_us=100, due_us=None),
            "review": "",
        },
    ),
    "abandoned by a person": (
        S.REVIEW_REQUIRED,
        Event(K.CANCELLED, 100, (S.ABANDONED,)),
        {
            **fields(state=S.ABANDONED, cancelled=True, code="cancelled", reconciled_us=100, due_us=None),
            "review": "",
        },
    ),
    "staged work put back": (
        S.PENDING,
        Event(K.STAGED_SETTLED, 100, (), {"how": "abandoned"}),
        {"rollback_done": True},
    ),
    "staged work left without an answer": (
        S.PENDING,
        Event(K.STAGED_SETTLED, 100, (), {"how": "commit_open"}),
        {"commit_open": True},
    ),
    "staged work not put back": (
        S.PENDING,
        Event(K.STAGED_SETTLED, 100, (), {"how": "abandon_failed"}),
        {"commit_open": True},
    ),
    "staged work kept": (S.PENDING, Event(K.STAGED_SETTLED, 100, (), {"how": "settled"}), {}),
    "compensation begun": (
        S.COMPENSATING,
        Event(K.COMPENSATION, 100, (), {"action": "act-9", "due": 130}),
        {"compensation_id": "act-9", "due_us": 130},
    ),
    "compensation failed": (
        S.COMPENSATING,
        Event(
            K.COMPENSATION,
            100,
            (S.COMPENSATION_FAILED,),
            {"action": "act-9", "review": "by hand", "incident": "it did"},
        ),
        {
            **fields(state=S.COMPENSATION_FAILED, compensation_id="act-9", due_us=None, review="by hand"),
            **fields(incident="it did", reconciled_us=100, decision=""),
        },
    ),
    "contested": (
        S.RECONCILED_SUCCESS,
        Event(K.CLAIM_CONTESTED, 100, (), said()),
        {"contested": True, "claims": (SAID, {**SAID, **OF_THEIR_OWN})},
    ),
    "retracted": (
        S.FAILED,
        Event(K.CLAIM_RETRACTED, 100, (), said(claim="holds", reason="refuted", dependants=["a9"], more=3)),
        {"claims": ({**SAID, "kind": "holds", "status": "retracted", "reason": "refuted", **NAMED},)},
    ),
    "reinstated": (
        S.RECONCILED_SUCCESS,
        Event(K.CLAIM_REINSTATED, 100, (), said(claim="holds", reason="person", who="human:eve", note="Seen.")),
        {"claims": ({**SAID, **fields(kind="holds", status="reinstated", reason="person"), **BY_EVE},)},
    ),
    "held": (
        S.VALIDATED,
        Event(K.HELD, 100, (), {"hold": "deferred", "code": "source-down"}),
        {"hold": "deferred", "review": "deferred", "code": "source-down", "due_us": None},
    ),
    "held without a code": (
        S.VALIDATED,
        Event(K.HELD, 100, (), {"hold": "approval"}),
        {"hold": "approval", "review": "approval", "code": "", "due_us": None},
    ),
    "attested": (
        S.REVIEW_REQUIRED,
        Event(K.RESOLVED, 100, (), resolved(decision="attest_not_done", resolution="attested_not_done", due=700)),
        {
            **fields(decision="attest_not_done", resolution="attested_not_done", review="", hold="", due_us=700),
            **fields(reconciled_us=100),
        },
    ),
    "reopened": (
        S.REVIEW_REQUIRED,
        Event(K.RESOLVED, 100, (S.VALIDATED,), resolved(decision="reopen", due=100, reserved=True)),
        {
            **fields(state=S.VALIDATED, decision="reopen", resolution="", review="", hold="", due_us=100),
            **fields(reserved=True),
        },
    ),
    "reversal ordered": (
        S.REVIEW_REQUIRED,
        Event(K.RESOLVED, 100, (S.COMPENSATING,), resolved(decision="compensate", due=100)),
        {
            **fields(state=S.COMPENSATING, decision="compensate", resolution="", review="", hold="", due_us=100),
            **fields(compensation_id=""),
        },
    ),
    "a success denied": (
        S.RECONCILED_SUCCESS,
        Event(K.RESOLVED, 100, (), resolved(decision="attest_not_done", contests=True)),
        {
            **fields(decision="attest_not_done", resolution="", contested=True, review="", hold="", due_us=None),
            **fields(reconciled_us=100),
        },
    ),
    "approval asked for anew": (
        S.VALIDATED,
        Event(K.APPROVAL_REQUESTED, 100, (), ASKING, {"approval": "p1"}),
        {
            **fields(approval={**ASKED, "id": "ap-2", "nonce": "n-2", "payload": "p1"}, hold="approval"),
            **fields(review="approval", code="approval.required", due_us=900),
            **fields(judgement={**NOTHING_JUDGED, "detail": "It waits."}),
        },
    ),
    "the first of two approved": (
        S.VALIDATED,
        Event(K.APPROVED, 100, (), {**SIGNING, "due": 900}, {"token": "t0"}),
        {"approval": {**ASKED, "signed": [{"approver": "alice", "key_id": "k-a", "ref": "t0"}]}, "due_us": 900},
    ),
    "denied": (
        S.VALIDATED,
        Event(K.DENIED, 100, (S.FAILED,), {**SIGNING, "code": "approval.denied", "detail": "No."}, {"token": "t0"}),
        {
            **fields(state=S.FAILED, approval={**ASKED, "denied_by": "alice"}, code="approval.denied", due_us=None),
            **fields(reconciled_us=100, judgement={**NOTHING_JUDGED, "detail": "No."}),
        },
    ),
    "erased": (
        S.RECONCILED_SUCCESS,
        Event(K.ERASED, 100, (), {"digests": ["d1", "d2"], "who": "human:dpo", "reason": "Asked."}),
        {"erased": ("d1", "d2"), "erased_us": 100},
    ),
    "held after a restore": (
        S.PENDING,
        Event(K.HELD, 100, (S.UNKNOWN, S.REVIEW_REQUIRED), {"hold": "restored", "code": "restored", "detail": ""}),
        {
            **fields(state=S.REVIEW_REQUIRED, hold="restored", review="restored", code="restored", due_us=None),
            **fields(resolution="", decision="", lookup="", restored=True, release=KeyRelease.NONE),
        },
    ),
    "lifted": (S.REVIEW_REQUIRED, Event(K.LIFTED, 100, (), {"lift": ["tool:b"]}), {"frozen": ("resource:a",)}),
    "watched, late": (
        S.FAILED,
        Event(K.WATCHED, 100, (), {"verdict": "undetermined", "why": "", "due": 500, "over": ""}),
        {"due_us": 500, "late_polls": 5, "decision": ""},
    ),
    "watched, for the last time": (
        S.FAILED,
        Event(K.WATCHED, 100, (), {"verdict": "undetermined", "why": "", "due": None, "over": "time", "review": "x"}),
        {"due_us": None, "late_polls": 5, "decision": "", "review": "x"},
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_an_event_records_this_and_nothing_else(name: str) -> None:
    state, event, expected = STEPS[name]
    assert fold(busy(state), event) == expected


def test_every_kind_of_event_is_told_here() -> None:
    of_sagas = {kind for kind in K if kind.value.startswith("saga_")}
    assert {event.kind for _, event, _ in STEPS.values()} | {K.PROPOSED, K.ADMITTED} == set(K) - of_sagas


def test_what_was_not_asked_for_can_be_neither_approved_nor_denied() -> None:
    for kind in (K.APPROVED, K.DENIED):
        action = busy(S.VALIDATED)
        with pytest.raises(StoreCorruptError, match="approval without a request"):
            action.apply(Event(kind, 100, (), {**SIGNING, "approval": "ap-0", "due": 1}, {"token": "t0"}), "ff")


def test_what_waits_for_an_approval_is_released_by_whatever_ends_the_waiting() -> None:
    for event in (
        Event(K.ATTEMPTED, 101, (S.EXECUTING,), {"attempt": 1, "timeout": 50, "approval": ["ap-2"]}),
        Event(K.REJECTED, 101, (S.FAILED,), {}),
        Event(K.CANCELLED, 101, (S.FAILED,)),
    ):
        action = busy(S.VALIDATED)
        action.attempts = 0
        fold(action, Event(K.APPROVAL_REQUESTED, 100, (), ASKING, {"approval": "p1"}))
        fold(action, event)
        assert (action.hold, action.review, action.judgement.detail) == ("", "", "")
        assert action.approval is not None
        assert action.approval.used is (event.kind is K.ATTEMPTED)


def test_another_word_settles_what_a_reading_had_contested() -> None:
    action = busy(S.REVIEW_REQUIRED)
    fold(action, Event(K.CLAIM_CONTESTED, 100, (), said()))
    assert action.attested is Resolution.NONE
    fold(action, Event(K.RESOLVED, 101, (), resolved(decision="attest_done", resolution="attested_done")))
    assert (action.contested, action.attested) == (False, Resolution.ATTESTED_DONE)


@pytest.mark.parametrize(
    ("state", "counts"), [(S.REVIEW_REQUIRED, True), (S.UNKNOWN, True), (S.FAILED, True), (S.VALIDATED, False)]
)
def test_an_attestation_says_whether_the_operation_may_be_repeated_where_it_counts(state: State, counts: bool) -> None:
    action = busy(state)
    action.judgement.effect_shown, action.judgement.dead = False, True
    action.resolution = "attested_not_done"
    assert action.may_repeat is counts
    action.resolution = "attested_done"
    assert action.may_repeat is False
    assert (action.attested is Resolution.ATTESTED_DONE) is counts
    action.contested = True
    assert action.attested is Resolution.NONE


def test_the_first_validation_is_remembered() -> None:
    action = Action("act-1", "acme", version=1, state=S.VALIDATED)
    changed = fold(action, Event(K.ATTEMPTED, 100, (S.EXECUTING,), {"attempt": 1, "timeout": 50}))
    assert changed["validated_us"] == 100
    assert changed["attempt_open"] is True


def test_another_attempt_and_an_answer_close_what_a_commit_left_open() -> None:
    for event in (
        Event(K.ATTEMPTED, 100, (), {"attempt": 2, "timeout": 50}),
        Event(K.STAGED_SETTLED, 100, (), {"how": "committed"}),
    ):
        action = busy(S.VALIDATED)
        action.commit_open = True
        assert fold(action, event)["commit_open"] is False


def test_what_a_reading_showed_to_be_ours_is_known_from_its_judgement_on() -> None:
    action = busy(S.PENDING)
    action.stamp = "rb-1"
    action.apply(Event(K.READ, 100, (), {"role": "check", "stamp": "rb-2"}), "ff")
    assert not action.sighted
    action.apply(Event(K.READ, 100, (), {"role": "check", "stamp": "rb-1"}), "ff")
    assert (action.sighted, action.seen) == (True, False)
    due: dict[str, Json] = {"polls": 1, "late_polls": 0, "held_since": 0, "due": 200, "review": "", "incident": ""}
    action.apply(Event(K.JUDGED, 100, (), due), "ff")
    assert action.seen


@pytest.mark.parametrize("kind", [K.PROPOSED, K.ATTEMPTED, K.READ, K.JUDGED, K.HELD], ids=lambda kind: kind.value)
def test_an_entry_that_lacks_a_field_is_corrupt(kind: EventKind) -> None:
    with pytest.raises(StoreCorruptError, match=f"A {kind.value} entry of action act-1 lacks"):
        busy(S.PENDING).apply(Event(kind, 100), "ff")


def test_a_resumption_between_attempts_ends_nothing() -> None:
    action = busy(S.PENDING)
    action.attempt_open = False
    assert fold(action, Event(K.RESUMED, 100)) == {}


def test_a_judgement_that_says_little_leaves_what_was_said() -> None:
    action = busy(S.PENDING)
    fold(action, Event(K.JUDGED, 100, (), judged(), {"judgement": "j9"}))
    data = judged(done="odd", undone=None)
    del data["detail"]
    assert fold(action, Event(K.JUDGED, 101, (), data))["judgement"] == {
        **JUDGED,
        **fields(done=(), undone=(), detail="", ref=""),
    }
    silent = {name: data[name] for name in ("polls", "late_polls", "held_since", "due", "review", "incident")}
    assert "judgement" not in fold(action, Event(K.JUDGED, 102, (), silent))


def test_what_is_due_at_no_moment_is_not_due() -> None:
    assert fold(busy(S.PENDING), Event(K.JUDGED, 100, (), judged(due="soon")))["due_us"] is None
    begun = Event(K.COMPENSATION, 100, (), {"action": "act-9", "due": "soon"})
    assert fold(busy(S.COMPENSATING), begun)["due_us"] is None


def test_an_entry_with_a_word_where_a_number_belongs_is_corrupt() -> None:
    with pytest.raises(StoreCorruptError, match="number"):
        busy(S.VALIDATED).apply(Event(K.ATTEMPTED, 100, (S.EXECUTING,), {"attempt": "two", "timeout": 50}), "ff")


def test_a_path_that_no_table_has_is_corrupt() -> None:
    with pytest.raises(StoreCorruptError, match="No such transition exists"):
        busy(S.PENDING).apply(Event(K.SIGNALLED, 100, (S.PROPOSED,)), "ff")
    with pytest.raises(StoreCorruptError, match="No such transition exists"):
        busy(S.PROPOSED).apply(Event(K.SIGNALLED, 100, (S.PROPOSED,)), "ff")
    with pytest.raises(StoreCorruptError, match="No such transition exists"):
        Action("act-1", "acme").apply(Event(K.SIGNALLED, 100, (S.EXECUTING,)), "ff")
    with pytest.raises(StoreCorruptError, match="No such transition exists"):
        busy(S.VALIDATED).apply(Event(K.SIGNALLED, 100, (S.EXECUTING, S.VALIDATED)), "ff")


def test_a_path_is_walked_to_its_end() -> None:
    action = busy(S.EXECUTING)
    action.apply(Event(K.SIGNALLED, 100, (S.ACCEPTED, S.PENDING, S.COMMITTED)), "ff")
    assert action.state is S.COMMITTED


def test_an_operation_may_be_proposed_again_only_where_nothing_exists_or_can_follow() -> None:
    for state, attempts, shown, dead, found in product(
        State, (0, 1), (False, True), (False, True), ("", "stale_state")
    ):
        action = Action("act-1", "acme", state=state, attempts=attempts)
        action.judgement = Judgement(effect_shown=shown, dead=dead, discrepancy=found)
        ended = state in (S.FAILED, S.ROLLED_BACK) and not shown
        assert action.may_repeat is (ended and (attempts == 0 or (dead and found == "")))


def test_a_key_is_settled_at_an_end_and_opened_again_by_another_attempt() -> None:
    for state, version, attempts in product(State, (0, 1), (0, 1, 2)):
        action = Action("act-1", "acme", version=version, state=state, attempts=attempts)
        assert action.durable_key_change is (version == 1 and (state in TERMINAL or attempts == 2))


def test_what_never_was_attempted_counts_as_attempted_after_a_restore() -> None:
    """It may have been executed since the backup, and nobody here would know."""
    action = Action("act-1", "acme", version=3, head="aa", state=S.VALIDATED)
    action.apply(Event(K.HELD, 100, (S.REVIEW_REQUIRED,), {"hold": "restored", "code": "restored"}), "ff")
    assert (action.attempts, action.attempt_open, action.executed_us, action.ended_us) == (1, False, 100, 100)
    assert not action.may_repeat


def test_what_is_recorded_again_after_an_erasure_is_the_actions_again() -> None:
    action = busy(S.UNKNOWN)
    action.apply(Event(K.ERASED, 100, (), {"digests": ["d1", "d2"]}), "f1")
    action.apply(Event(K.ERASED, 101, (), {"digests": ["d3", "d2"]}), "f2")
    assert (action.erased, action.erased_us) == (("d1", "d2", "d3"), 101)
    action.apply(Event(K.LOOKED_UP, 102, (), {"status": "unknown"}, {"lookup": "d2"}), "f3")
    assert action.erased == ("d1", "d3")
