"""Approvals from end to end under virtual time: nothing is called before they count, and nothing twice after."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from readback.audit.checks.ledger import audit
from readback.canon import parse_json, sha256_hex
from readback.domain.contract.approval import Decision, Policy
from readback.domain.events import EventKind
from readback.domain.state import State
from readback.engine import coordinator
from readback.engine.compiled_contract import CallerContext
from readback.engine.effects import Commit
from readback.engine.people import approvals as countersign
from readback.engine.stages import submit
from readback.engine.stages.approve import NO_APPROVALS
from readback.errors import ApprovalError, NotFoundError, PayloadConflictError
from readback.ports.storage.store import ActionFilter
from readback.testing.driver_virtual import VirtualDriver
from readback.testing.runtime_virtual import START_US
from readback.testing.signer_memory import MemorySigner
from tests.lifecycle.approving import ASKED, BOTH, CRITICAL, approve, deny, listed, people, record, request, token
from tests.lifecycle.house import TENANT, House
from tests.lifecycle.reviewing import resolve

pytestmark = pytest.mark.slow

HOUR = 3600.0


@pytest.fixture
def house(house: House) -> House:
    return listed(house)


def refused(house: House, action_id: str, given: Any, decision: Decision = Decision.APPROVE) -> str:
    """The code with which a token is refused; nothing of it is kept."""
    before = house.store.events(action_id)
    with pytest.raises(ApprovalError) as caught:
        record(house, action_id, given, decision)
    assert house.store.events(action_id) == before
    return caught.value.code


def sound(house: House) -> None:
    """The ledger agrees with itself, and every attempt stands on approvals that count."""
    report = audit(house.store, approvals=house.engine.approvals)
    assert report.unchecked == ()
    nobody_named = "signatures of approvals not checked: no list of approvers was given"
    assert set(audit(house.store).unchecked) <= {nobody_named}
    assert bool(audit(house.store).unchecked) is (report.approved > 0)
    assert not report.faults, report.faults


# --- waiting ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("TRUTH-hold-approval", "STRATEGY-fail-closed-hold", "CLASS-critical-mutation")
@pytest.mark.parametrize("options", [ASKED, CRITICAL, {"approval": "required"}, {"approval": {"people": 2}}])
def test_what_needs_an_approval_is_validated_held_and_not_called(house: House, options: dict[str, Any]) -> None:
    held = house.run(house.action(**options))
    assert (held.state, held.hold, held.code, held.review) == (
        State.VALIDATED,
        "approval",
        "approval.required",
        "approval",
    )
    assert held.exit_code == 4
    assert house.shop.calls == []
    assert "has not been executed. It waits for an approval." in held.message
    assert "do not propose this action again" in held.for_model()
    assert held.approval.startswith("ap-")
    assert not held.may_repeat
    house.work(600)
    assert house.shop.calls == []
    sound(house)


@pytest.mark.requirement("TRUTH-hold-approval", "LEDGER-approval")
def test_an_approved_action_is_gone_on_with_by_a_worker_and_verified(house: House) -> None:
    held = house.run(house.action(**ASKED))
    approve(house, held.id)
    assert house.shop.calls == []
    house.work(1)
    told = house.get(held.id)
    assert told.verified
    assert (told.approval, told.approved_by) == (held.approval, ("alice",))
    assert len(house.shop.calls) == 1
    assert (told.hold, told.code, told.review) == ("", "", "")
    attempt = next(e for e in house.events(held.id) if e.kind is EventKind.ATTEMPTED)
    assert attempt.data["approval"] == [held.approval]
    asked, signed = (
        next(e for e in house.events(held.id) if e.kind is kind)
        for kind in (EventKind.APPROVAL_REQUESTED, EventKind.APPROVED)
    )
    assert (signed.data["approver"], signed.data["payload"]) == ("alice", asked.data["payload"])
    assert asked.data["expires"] == house.folded(held.id).created_us + 3_600_000_000
    sound(house)


@pytest.mark.parametrize("how", ["wait", "the same operation"])
def test_it_is_gone_on_with_by_who_waits_for_it_too(house: House, how: str) -> None:
    made = house.action(**ASKED)
    held = house.run(made)
    approve(house, held.id)
    told = house.wait(held.id) if how == "wait" else house.run(made)
    assert told.verified
    assert told.id == held.id
    assert len(house.shop.calls) == 1
    assert not told.replayed
    assert house.run(made).replayed


@pytest.mark.requirement("CLASS-critical-mutation", "TRUTH-hold-signed")
def test_a_critical_mutation_that_was_approved_was_reviewed_by_that_and_is_executed_once(house: House) -> None:
    held = house.run(house.action(**CRITICAL))
    approve(house, held.id, "bob")
    told = house.wait(held.id)
    assert told.verified
    assert told.review == ""
    assert len(house.shop.calls) == 1
    sound(house)


def test_running_it_again_while_it_waits_says_that_it_waits_and_asks_nobody_twice(house: House) -> None:
    made = house.action(**ASKED)
    held = house.run(made)
    again = house.run(made)
    assert (again.id, again.state, again.hold, again.approval) == (held.id, State.VALIDATED, "approval", held.approval)
    assert house.kinds(held.id).count(EventKind.APPROVAL_REQUESTED) == 1
    with pytest.raises(PayloadConflictError):
        house.run(made, status="lost")
    assert house.shop.calls == []


def test_who_waits_is_told_when_it_is_approved_by_another_process(house: House) -> None:
    held = house.run(house.action(**ASKED))
    house.driver.at(house.runtime.now_us() + 60_000_000, lambda: approve(house, held.id))
    told = house.wait(held.id)
    assert told.verified
    assert house.shop.calls == [pytest.approx(60, abs=1)]


def test_a_condition_over_the_request_says_when_a_person_is_asked(house: House) -> None:
    made = house.action(approval={"when": "requested.status == 'lost'"}, ensure={"there": "authoritative != null"})
    assert house.run(made, "op-1").verified
    assert house.run(made, "op-2", status="lost").hold == "approval"
    house.driver.done.clear()
    assert len(house.shop.calls) == 1
    sound(house)


@pytest.mark.parametrize("condition", ["scope.budget.left > 1", "requested.status > 7", "intended.none == 'x'"])
def test_a_condition_that_cannot_be_told_asks_a_person(house: House, condition: str) -> None:
    assert house.run(house.action(approval={"when": condition})).hold == "approval"


@pytest.mark.requirement("TRUTH-hold-preconditions")
def test_preconditions_are_checked_before_a_person_is_asked_and_again_before_the_call(house: House) -> None:
    made = house.action(require={"open": "before.status == 'open'"}, **ASKED)
    held = house.run(made)
    approve(house, held.id)
    house.shop.rows["o-1"]["status"] = "locked"
    told = house.wait(held.id)
    assert (told.state, told.code) == (State.FAILED, "precondition")
    assert house.shop.calls == []
    assert told.may_repeat
    assert house.run(made, "op-2").code == "precondition"
    sound(house)


# --- denied, expired, cancelled ---------------------------------------------------------------------------------


def test_a_denied_action_ends_closed_and_its_operation_is_not_run_again(house: House) -> None:
    made = house.action(**ASKED)
    held = house.run(made)
    deny(house, held.id, "bob")
    told = house.get(held.id)
    assert (told.state, told.code, told.hold, told.may_repeat) == (State.FAILED, "approval.denied", "", False)
    assert told.exit_code == 1
    assert "An approver denied it." in told.message
    again = house.run(made)
    assert (again.id, again.replayed) == (held.id, True)
    house.work(2 * HOUR)
    assert house.shop.calls == []
    assert refused(house, held.id, token_of_ended(house, held.id)) == "approval.replayed"
    sound(house)


def token_of_ended(house: House, action_id: str) -> bytes:
    """The recorded token of an action that waits no more."""
    asked = house.folded(action_id).approval
    assert asked is not None
    refs = [event.refs["token"] for event in house.events(action_id) if "token" in event.refs]
    found = house.store.evidence(TENANT, action_id, refs[-1])
    assert found is not None
    return found.body


@pytest.mark.requirement("TRUTH-hold-approval")
@pytest.mark.parametrize("how", ["worker", "wait", "the same operation"])
def test_a_request_that_nobody_answers_ends_when_its_time_has_passed_and_may_be_repeated(
    house: House, how: str
) -> None:
    made = house.action(**ASKED)
    held = house.run(made)
    house.work(HOUR - 1)
    assert house.get(held.id).hold == "approval"
    if how == "worker":
        house.work(HOUR + 1)
    elif how == "wait":
        house.wait(held.id)
    else:
        house.driver._jump(house.runtime.now_us() + 2_000_000)
        house.driver.drive(coordinator.advance(house.engine, held.id, TENANT, house.plans.get))
    told = house.get(held.id)
    assert (told.state, told.code, told.may_repeat, told.attempts) == (State.FAILED, "approval.expired", True, 0)
    assert "No approver signed in time." in told.message
    fresh = house.run(made)
    assert fresh.id != held.id
    assert fresh.hold == "approval"
    assert house.shop.calls == []
    sound(house)


@pytest.mark.parametrize(("seconds", "calls"), [(HOUR - 0.001, 1), (HOUR, 0), (HOUR + 1, 0)])
def test_an_approval_counts_until_its_time_and_not_at_it(house: House, seconds: float, calls: int) -> None:
    held = house.run(house.action(**ASKED))
    approve(house, held.id)
    house.driver._jump(house.folded(held.id).created_us + round(seconds * 1_000_000))
    told = house.wait(held.id)
    assert len(house.shop.calls) == calls
    assert told.verified is bool(calls)
    if not calls:
        assert told.code == "approval.expired"
    sound(house)


def test_an_approval_that_runs_out_while_the_world_is_read_is_not_used(house: House) -> None:
    made = house.action(require={"open": "before.status == 'open'"}, **ASKED)
    held = house.run(made)
    approve(house, held.id)
    house.driver._jump(house.folded(held.id).created_us + 3_599_500_000)

    def slowly(ctx: Any, args: Any) -> object:
        house.driver._jump(house.runtime.now_us() + 800_000)
        return house.shop.show(args)

    house.shop.eyes = slowly
    told = house.wait(held.id)
    assert told.code == "approval.expired"
    assert house.shop.calls == []


def test_a_token_that_comes_too_late_is_refused(house: House) -> None:
    held = house.run(house.action(**ASKED))
    given = token(house, held.id)
    house.driver._jump(house.runtime.now_us() + 3_600_000_000)
    assert refused(house, held.id, given) == "approval.expired"


@pytest.mark.requirement("TRUTH-time-cancel")
def test_what_waits_can_be_cancelled_and_then_no_approval_counts(house: House) -> None:
    held = house.run(house.action(**ASKED))
    given = token(house, held.id)
    ended = house.cancel(held.id)
    assert (ended.state, ended.code, ended.hold) == (State.FAILED, "cancelled", "")
    assert refused(house, held.id, given) == "approval.replayed"
    house.work(2 * HOUR)
    assert house.shop.calls == []
    sound(house)


@pytest.mark.requirement(
    "STATE-validated->review-required", "STRATEGY-manual-review", "STATE-review-required->abandoned"
)
def test_one_whose_contract_changes_while_it_waits_goes_to_a_person_and_its_approval_is_of_no_use(house: House) -> None:
    held = house.run(house.action(**ASKED))
    approve(house, held.id)
    house.action(**{**ASKED, "version": "2"})
    house.work(1)
    told = house.get(held.id)
    assert (told.state, told.hold) == (State.REVIEW_REQUIRED, "contract.changed")
    assert house.shop.calls == []
    house.action(**ASKED)
    assert house.cancel(held.id).state is State.ABANDONED


@pytest.mark.requirement("TRUTH-hold-approval")
@pytest.mark.parametrize("signed", [0, 1])
def test_one_that_a_person_reopens_before_it_was_approved_is_held_and_can_be_approved(
    house: House, signed: int
) -> None:
    terms: dict[str, Any] = {"approval": {"people": 2, "expires": "1h"}}
    held = house.run(house.action(**terms))
    if signed:
        approve(house, held.id)
    house.action(**terms, version="2")
    assert house.store.make_due(held.id, house.runtime.now_us())
    house.work(1)
    assert house.get(held.id).state is State.REVIEW_REQUIRED
    house.action(**terms)
    reopened = resolve(house, held.id, "reopen", check=False)
    assert (reopened.state, reopened.hold, reopened.approved_by) == (State.VALIDATED, "approval", ())
    assert reopened.approval != held.approval
    approve(house, held.id, "bob")
    assert house.shop.calls == []
    approve(house, held.id, "alice")
    told = house.wait(held.id)
    assert told.verified
    assert len(house.shop.calls) == 1
    sound(house)


# --- who and what -----------------------------------------------------------------------------------------------


@pytest.mark.requirement("TRUTH-hold-signed", "L18")
def test_l18_a_token_of_another_action_or_of_an_earlier_request_is_refused(house: House) -> None:
    made = house.action(**ASKED)
    one, two = house.run(made, "op-1"), house.run(made, "op-2")
    other = token(house, one.id)
    assert refused(house, two.id, other) == "approval.replayed"
    approve(house, one.id)
    assert refused(house, one.id, other) == "approval.replayed"
    assert house.wait(one.id).verified
    assert refused(house, one.id, other) == "approval.replayed"
    assert len(house.shop.calls) == 1


@pytest.mark.requirement("TRUTH-hold-signed")
def test_the_one_who_asked_cannot_approve_it(house: House) -> None:
    listed(house, people("alice", "ops"))
    held = house.run(house.action(**ASKED))
    assert refused(house, held.id, token(house, held.id, "ops")) == "approval.self"


@pytest.mark.parametrize("name", ["eve", "Alice"])
def test_somebody_who_is_not_listed_cannot_approve(house: House, name: str) -> None:
    held = house.run(house.action(**ASKED))
    assert refused(house, held.id, token(house, held.id, name)) == "approval.unknown-approver"


def test_an_approver_of_another_tenant_cannot_approve(house: House) -> None:
    listed(house, people("alice", tenants=("globex",)))
    held = house.run(house.action(**ASKED))
    assert refused(house, held.id, token(house, held.id)) == "approval.unknown-approver"


@pytest.mark.requirement("L18")
def test_another_tenant_neither_sees_nor_decides_what_waits_for_an_approval(house: House) -> None:
    held = house.run(house.action(**ASKED))
    given, approvals = token(house, held.id), house.engine.approvals
    with pytest.raises(NotFoundError):
        house.driver.drive(countersign.requested(held.id, "globex", approvals))
    with pytest.raises(NotFoundError):
        house.driver.drive(countersign.record(held.id, "globex", given, approvals, Decision.APPROVE))
    with pytest.raises(NotFoundError):
        house.driver.drive(countersign.renew(held.id, "globex", approvals, house.engine.table))
    assert house.folded(held.id).approval.signed == []


def test_a_token_is_taken_for_what_it_says_and_not_for_what_the_caller_wants(house: House) -> None:
    held = house.run(house.action(**ASKED))
    denial = token(house, held.id, decision=Decision.DENY)
    assert refused(house, held.id, denial) == "approval.mismatch"
    assert refused(house, held.id, token(house, held.id), Decision.DENY) == "approval.mismatch"
    assert refused(house, held.id, replace(denial, decision=Decision.APPROVE)) == "approval.forged"
    assert refused(house, held.id, b"{}") == "approval.forged"


def test_what_needs_no_approval_takes_none(house: House) -> None:
    told = house.run(house.action())
    with pytest.raises(ApprovalError) as caught:
        request(house, told.id)
    assert caught.value.code == "approval.not-asked"


@pytest.mark.requirement("L18")
def test_two_people_are_needed_where_the_contract_says_so(house: House) -> None:
    held = house.run(house.action(approval={"people": 2, "expires": "1h"}))
    approve(house, held.id, "alice")
    house.work(60)
    assert house.shop.calls == []
    assert house.get(held.id).review == "approval"
    assert refused(house, held.id, token(house, held.id, "alice")) == "approval.replayed"
    approve(house, held.id, "bob")
    told = house.wait(held.id)
    assert told.verified
    assert told.approved_by == ("alice", "bob")
    sound(house)


def test_the_second_of_two_can_still_deny(house: House) -> None:
    held = house.run(house.action(approval={"people": 2}))
    approve(house, held.id, "alice")
    deny(house, held.id, "bob")
    assert house.get(held.id).code == "approval.denied"
    sound(house)


@pytest.mark.requirement("L18")
def test_the_bytes_that_are_signed_are_those_that_are_kept_and_say_what_would_be_called(house: House) -> None:
    held = house.run(house.action(**ASKED))
    asked = request(house, held.id)
    kept = house.store.evidence(TENANT, held.id, asked.payload)
    assert kept is not None
    assert kept.body == asked.bytes
    assert sha256_hex(asked.bytes) == asked.payload == token(house, held.id).payload
    shown = parse_json(asked.bytes)
    assert isinstance(shown, dict)
    assert shown["requested"] == {"item": "o-1", "status": "shipped"}
    assert (shown["action"], shown["tenant"], shown["principal"]) == (held.id, TENANT, "agent:ops")
    assert shown["policy"] == BOTH.policy.version


# --- what is kept out of the record -----------------------------------------------------------------------------


def test_a_request_with_redacted_values_is_gone_on_with_by_who_knows_them(house: House) -> None:
    made = house.action(redact=["requested.status"], ensure={"there": "authoritative.stamp == scope.stamp"}, **ASKED)
    held = house.run(made, status="sesame-street")
    assert b"sesame-street" not in request(house, held.id).bytes
    approve(house, held.id)
    house.work(60)
    waiting = house.wait(held.id)
    assert (waiting.state, waiting.hold) == (State.VALIDATED, "approval")
    assert house.shop.calls == []
    with pytest.raises(PayloadConflictError):
        house.run(made, status="sesame-avenue")
    house.die()
    told = house.run(made, status="sesame-street")
    assert told.verified
    assert told.id == held.id
    assert house.shop.rows["o-1"]["status"] == "sesame-street"
    sound(house)


def test_the_gate_itself_compares_the_request_that_would_be_executed_with_the_approved_one(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key's check refuses another payload first. Where that check is wrong, the gate is the one that is left."""

    def always(*_: object) -> Any:
        yield from ()
        return True

    made = house.action(redact=["requested.status"], ensure={"there": "authoritative.stamp == scope.stamp"}, **ASKED)
    held = house.run(made, status="sesame-street")
    approve(house, held.id)
    house.work(60)
    house.die()
    monkeypatch.setattr(submit, "same_request", always)
    told = house.run(made, status="sesame-avenue")
    assert (told.id, told.code, told.attempts) == (held.id, "approval.mismatch", 0)
    assert house.shop.calls == []


def test_one_that_nobody_can_go_on_with_expires_as_any_other(house: House) -> None:
    made = house.action(redact=["requested.status"], ensure={"there": "authoritative != null"}, **ASKED)
    held = house.run(made, status="sesame-street")
    approve(house, held.id)
    house.work(HOUR + 1)
    assert house.get(held.id).code == "approval.expired"


# --- another list of approvers ----------------------------------------------------------------------------------


@pytest.mark.requirement("REC-20")
def test_what_was_approved_under_another_list_is_asked_for_anew(house: House) -> None:
    held = house.run(house.action(**ASKED))
    approve(house, held.id)
    listed(house, people("alice", "bob", "carol"))
    house.work(60)
    waiting = house.get(held.id)
    assert (waiting.state, waiting.hold, waiting.row) == (State.VALIDATED, "approval", "REC-20")
    assert waiting.approval != held.approval
    assert waiting.approved_by == ()
    assert house.shop.calls == []
    approve(house, held.id, "carol")
    told = house.wait(held.id)
    assert told.verified
    assert told.row == "RB-verified"
    events = [e for e in house.events(held.id) if e.kind is EventKind.APPROVAL_REQUESTED]
    assert events[1].data["supersedes"] == held.approval
    sound(house)


def test_a_token_under_another_list_is_refused_and_the_approver_is_asked_anew(house: House) -> None:
    held = house.run(house.action(**ASKED))
    listed(house, people("alice", "carol"))
    assert refused(house, held.id, token(house, held.id)) == "approval.policy-changed"
    house.driver.drive(countersign.renew(held.id, TENANT, house.engine.approvals, house.engine.table))
    assert house.get(held.id).approval != held.approval
    approve(house, held.id)
    assert house.wait(held.id).verified
    sound(house)


def test_asking_anew_under_the_same_list_changes_nothing(house: House) -> None:
    held = house.run(house.action(**ASKED))
    house.driver.drive(countersign.renew(held.id, TENANT, house.engine.approvals, house.engine.table))
    assert house.get(held.id).approval == held.approval


@pytest.mark.requirement("TRUTH-hold-signed")
def test_a_list_of_the_agents_own_lets_nothing_through(house: House) -> None:
    """The agent's process lists the agent's key; whoever executes by the operator's list asks the operator's people."""
    held = house.run(house.action(**ASKED))
    operators = house.engine.approvals
    listed(house, people("mallory"))
    house.driver.drive(countersign.renew(held.id, TENANT, house.engine.approvals, house.engine.table))
    approve(house, held.id, "mallory")
    listed(house, operators)
    house.work(60)
    waiting = house.get(held.id)
    assert (waiting.hold, waiting.row) == ("approval", "REC-20")
    assert house.shop.calls == []


@pytest.mark.parametrize("approvals", [NO_APPROVALS, people("carol")])
def test_without_a_listed_approver_nothing_can_be_approved(house: House, approvals: Any) -> None:
    listed(house, approvals)
    held = house.run(house.action(**ASKED))
    assert refused(house, held.id, token(house, held.id)) == "approval.unknown-approver"


# --- a ledger that was changed ----------------------------------------------------------------------------------


def forge(house: House, action_id: str, **changes: Any) -> None:
    """Writes a token into the ledger as one who has the file can: folded, sealed and hashed as any other."""
    given = replace(token(house, action_id), **{k: v for k, v in changes.items() if k != "signer"})
    if "signer" in changes:
        given = replace(given, signature=MemorySigner(changes["signer"]).sign(given.statement()))
    action = house.folded(action_id)
    asked = action.approval
    assert asked is not None
    fence = house.store.lease(action_id, "forger", house.runtime.now_us(), house.runtime.now_us() + 1)
    assert fence is not None
    append = countersign._decided(action, asked, given, {}, house.runtime.now_us(), fence)
    house.store.append([append])
    house.driver._jump(house.runtime.now_us() + 1_000_000)


@pytest.mark.requirement("REC-21", "L18", "TRUTH-hold-signed")
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"signature": b"\0" * 64}, "approval.forged"),
        ({"approver": "eve", "signer": "eve"}, "approval.unknown-approver"),
        ({"payload": "0" * 64, "signer": "alice"}, "approval.mismatch"),
        ({"approval": "ap-other", "signer": "alice"}, "approval.replayed"),
        ({"nonce": "other", "signer": "alice"}, "approval.replayed"),
        ({"decision": Decision.APPROVE, "signed_at_us": 1}, "approval.forged"),
    ],
)
def test_a_token_that_was_written_past_the_check_fails_closed_at_execution(
    house: House, changes: dict[str, Any], code: str
) -> None:
    made = house.action(**ASKED)
    held = house.run(made)
    forge(house, held.id, **changes)
    told = house.wait(held.id)
    assert (told.state, told.code, told.row, told.may_repeat) == (State.FAILED, code, "REC-21", False)
    assert house.shop.calls == []
    assert "not valid for what would have been executed" in told.message
    assert house.run(made).id == held.id


@pytest.mark.requirement("REC-21", "L18")
@pytest.mark.parametrize("what", ["requested", "target", "people", "expires"])
def test_a_payload_that_was_put_in_place_of_the_approved_one_fails_closed(house: House, what: str) -> None:
    """Everything in the ledger is replaced and hashed anew, but nobody can sign it: the approval is of other bytes."""
    from tests.lifecycle.rewriting import rewritten

    house.shop.rows["o-2"] = {**house.shop.rows["o-1"], "id": "o-2"}
    made = house.action(approval={"people": 1, "expires": "1h"})
    held = house.run(made)
    approve(house, held.id)
    rewritten(house, held.id, what)
    house.work(60)
    told = house.get(held.id)
    assert (told.state, told.code) == (State.FAILED, "approval.mismatch")
    assert house.shop.calls == []


@pytest.mark.requirement("REC-21")
def test_an_approval_of_fewer_people_than_the_contract_asks_for_lets_nothing_through(house: House) -> None:
    """The number was lowered before anybody signed: every signature is of the bytes that the ledger keeps."""
    from tests.lifecycle.rewriting import rewritten

    held = house.run(house.action(approval={"people": 1, "expires": "1h"}))
    rewritten(house, held.id, "people")
    approve(house, held.id)
    house.work(60)
    assert house.shop.calls == []
    assert not house.get(held.id).verified


def test_a_broken_glass_that_was_written_into_the_ledger_lets_nothing_through(house: House) -> None:
    from tests.lifecycle.rewriting import rewritten

    held = house.run(house.action(**CRITICAL))
    rewritten(house, held.id, "glass")
    assert house.store.make_due(held.id, house.runtime.now_us())
    house.work(60)
    assert house.get(held.id).hold == "approval"
    assert house.shop.calls == []


# --- another attempt --------------------------------------------------------------------------------------------


def _tried_again(house: House, expires: str = "1h") -> Any:
    """The first attempt has no effect, and is tried again under the same key."""
    from readback.domain.verification.reading import Lookup

    shop = house.shop
    shop.record = lambda ctx, args: Lookup.landed() if len(shop.calls) > 1 else Lookup.failed()
    shop.tool = lambda ctx, args: shop.ship(ctx, args) if len(shop.calls) > 1 else (500, {})
    return house.action(
        lookup=True,
        execute={"timeout": "1s", "honours_key": True, "key_valid_for": "1d"},
        identity={"target": "authoritative.id", "tenant": "authoritative.tenant", "stamp": "authoritative.stamp"},
        approval={"expires": expires},
    )


def test_a_second_attempt_under_the_same_key_stands_on_the_same_approval_while_it_counts(house: House) -> None:
    held = house.run(_tried_again(house))
    approve(house, held.id)
    told = house.wait(held.id)
    assert told.verified
    assert len(house.shop.calls) == 2
    attempts = [e.data["approval"] for e in house.events(held.id) if e.kind is EventKind.ATTEMPTED]
    assert attempts == [[held.approval], [held.approval]]
    sound(house)


def test_a_second_attempt_is_not_made_after_the_approval_has_expired(house: House) -> None:
    held = house.run(_tried_again(house, "5s"))
    approve(house, held.id)
    told = house.wait(held.id)
    assert len(house.shop.calls) == 1
    assert (told.state, told.code) == (State.FAILED, "approval.expired")
    assert not told.may_repeat, "the first attempt left, and nothing shows the whole region"
    assert house.get(held.id).verdict.value == "refuted"
    sound(house)


def test_a_second_attempt_under_another_list_waits_for_its_people(house: House) -> None:
    made = _tried_again(house)
    held = house.run(made)
    approve(house, held.id)
    tool = house.shop.tool
    assert tool is not None

    def changing(ctx: Any, args: Any) -> object:
        listed(house, people("alice", "carol"))
        return tool(ctx, args)

    house.shop.tool = changing
    house.work(60)
    waiting = house.get(held.id)
    assert len(house.shop.calls) == 1
    assert (waiting.state, waiting.hold, waiting.row) == (State.VALIDATED, "approval", "REC-20")
    approve(house, held.id, "carol")
    assert house.wait(held.id).verified
    assert len(house.shop.calls) == 2
    sound(house)


def test_an_approval_binds_neither_verification_nor_the_reversal(house: House) -> None:
    house.shop.rows.clear()
    made = house.action(
        kind="create",
        compensate={"approval": "required"},
        identity={"target": "authoritative.id", "tenant": "authoritative.tenant", "stamp": "authoritative.stamp"},
        approval={"expires": "5s"},
    )
    held = house.run(made)
    approve(house, held.id)
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, status="lost")
    told = house.wait(held.id)
    assert told.state is State.COMPENSATED
    assert len(house.shop.calls) == len(house.shop.undone) == 1
    sound(house)


# --- break-glass ------------------------------------------------------------------------------------------------


@pytest.mark.requirement("CLASS-critical-mutation")
@pytest.mark.parametrize("options", [CRITICAL, ASKED])
def test_break_glass_executes_without_an_approval_and_always_opens_a_review(
    house: House, options: dict[str, Any]
) -> None:
    house.scope = CallerContext(TENANT, "agent:ops", break_glass="the site is down")
    told = house.run(house.action(**options))
    assert told.verified
    assert told.review == "break_glass"
    assert told.approved_by == ()
    assert house.events(told.id)[0].data["break_glass"] == "the site is down"
    sound(house)


def test_the_glass_can_be_broken_while_it_waits_and_preconditions_still_count(house: House) -> None:
    made = house.action(require={"open": "before.status == 'open'"}, **ASKED)
    one, two = house.run(made, "op-1"), house.run(made, "op-2")
    house.scope = replace(house.scope, break_glass="the site is down")
    told = house.run(made, "op-1")
    assert told.id == one.id
    assert told.verified
    assert told.review == "break_glass"
    assert house.folded(one.id).break_glass == "the site is down"
    stopped = house.run(made, "op-2")
    assert (stopped.id, stopped.code) == (two.id, "precondition")
    assert len(house.shop.calls) == 1
    sound(house)


def test_another_processes_broken_glass_lets_nobody_else_act(house: House) -> None:
    """Whoever writes the ledger could write that; only the process that breaks it goes ahead without an approval."""
    house.scope = replace(house.scope, break_glass="the site is down")
    made = _tried_again(house)
    told = house.run(made, wait_s=0)
    assert len(house.shop.calls) == 1
    house.die()
    house.scope = replace(house.scope, break_glass="")
    house.work(60)
    assert len(house.shop.calls) == 1
    waiting = house.get(told.id)
    assert (waiting.state, waiting.hold) == (State.VALIDATED, "approval")
    approve(house, told.id)
    assert house.wait(told.id).verified
    sound(house)


def test_a_word_from_outside_wakes_what_waits_and_decides_nothing(house: House) -> None:
    held = house.run(house.action(**ASKED))
    for _ in range(3):
        assert house.store.make_due(held.id, house.runtime.now_us())
        house.work((house.runtime.now_us() - START_US) / 1e6)
        assert house.get(held.id).hold == "approval"
    assert house.wait(held.id, wait_s=5).hold == "approval"
    assert house.shop.calls == []
    house.work(HOUR + 1)
    assert house.get(held.id).code == "approval.expired"
    sound(house)


# --- crashes, and two processes ---------------------------------------------------------------------------------


@pytest.mark.requirement("TRUTH-hold-approval")
def test_whoever_comes_next_goes_on_after_a_crash_between_approval_and_attempt(house: House) -> None:
    held = house.run(house.action(**ASKED))
    approve(house, held.id)
    house.die()
    assert house.wait(held.id).verified
    assert len(house.shop.calls) == 1


@pytest.mark.parametrize("steps", range(1, 24))
def test_a_process_that_dies_at_any_step_of_going_on_leaves_one_call_at_most(house: House, steps: int) -> None:
    made = house.action(find=True, **ASKED)
    held = house.run(made)
    approve(house, held.id)
    work = coordinator.resume(house.engine, held.id, TENANT, house.plans.get)
    answer: Any = None
    try:
        step = next(work)
        for _ in range(steps):
            answer = house.driver._do(step)
            step = work.send(answer)
    except StopIteration:
        pass
    work.close()
    house.die()
    house.work(HOUR)
    told = house.get(held.id)
    assert len(house.shop.calls) <= 1
    assert told.verified is (len(house.shop.calls) == 1)
    sound(house)


def test_two_processes_that_find_it_approved_make_one_attempt(house: House) -> None:
    made = house.action(**ASKED)
    held = house.run(made)
    approve(house, held.id)
    first = coordinator.resume(house.engine, held.id, TENANT, house.plans.get)
    step = next(first)
    for _ in range(3):
        step = first.send(house.driver._do(step))
    before = len(house.shop.calls)
    second = house.wait(held.id, wait_s=1)
    first.close()
    assert before == 0
    assert len(house.shop.calls) <= 1
    assert second.state in (State.VALIDATED, State.RECONCILED_SUCCESS)
    house.die()
    house.work(HOUR / 2)
    assert house.get(held.id).verified
    assert len(house.shop.calls) == 1


def test_two_approvers_at_once_are_both_counted(house: House) -> None:
    held = house.run(house.action(approval={"people": 2, "expires": "1h"}))
    one, two = token(house, held.id, "alice"), token(house, held.id, "bob")
    record(house, held.id, one)
    record(house, held.id, two)
    assert house.get(held.id).approved_by == ("alice", "bob")


# --- executed without one that counts ---------------------------------------------------------------------------


def _lost_in_flight(house: House) -> str:
    """Executed and not yet judged: the next process goes on with it."""
    held = house.run(house.action(polls=["30s"], within="60s", **ASKED))
    approve(house, held.id)
    house.wait(held.id, wait_s=1)
    assert len(house.shop.calls) == 1
    return held.id


def test_what_was_executed_by_somebody_elses_people_goes_to_a_person(house: House) -> None:
    action_id = _lost_in_flight(house)
    house.die()
    listed(house, people("carol"))
    house.work(120)
    told = house.get(action_id)
    assert (told.state, told.row) == (State.REVIEW_REQUIRED, "RB-policy-after")
    assert not told.verified


def test_a_longer_list_of_approvers_changes_nothing_about_what_was_executed(house: House) -> None:
    action_id = _lost_in_flight(house)
    house.die()
    listed(house, people("alice", "bob", "carol"))
    house.work(120)
    assert house.get(action_id).verified


def test_somebody_who_approves_no_more_stays_listed_for_what_was_approved_before(house: House) -> None:
    action_id = _lost_in_flight(house)
    house.die()
    listed(house, people("alice", "carol", tenants=()))
    house.work(120)
    assert house.get(action_id).verified
    sound(house)
    listed(house, people("carol"))
    assert {fault.code for fault in audit(house.store, approvals=house.engine.approvals).faults} == {"approval"}
    held = house.run(house.action(**ASKED), "op-2")
    listed(house, people("alice", tenants=()))
    house.driver.drive(countersign.renew(held.id, TENANT, house.engine.approvals, house.engine.table))
    assert refused(house, held.id, token(house, held.id)) == "approval.unknown-approver"


def test_what_nobody_signed_and_was_executed_all_the_same_raises_the_alarm(house: House) -> None:
    action_id = _lost_in_flight(house)
    house.die()
    listed(house, replace(house.engine.approvals, verify=lambda key, message, signature: False))
    house.work(120)
    told = house.get(action_id)
    assert (told.state, told.row) == (State.REVIEW_REQUIRED, "RB-approval-after")
    assert told.incident
    report = audit(house.store, approvals=house.engine.approvals)
    assert {fault.code for fault in report.faults} == {"approval"}


# --- the queue --------------------------------------------------------------------------------------------------


def test_what_waits_for_a_person_is_in_the_queue_until_it_is_decided(house: House) -> None:
    made = house.action(**ASKED)
    one, two = house.run(made, "op-1"), house.run(made, "op-2")
    queue = ActionFilter(TENANT, review=True)
    assert {stored.projection.action_id for stored in house.store.page(queue)} == {one.id, two.id}
    approve(house, one.id)
    deny(house, two.id)
    assert house.store.page(queue) == []


def test_policy_of_nobody_is_a_policy() -> None:
    assert Policy.of(()).version == NO_APPROVALS.policy.version


def test_the_glass_that_is_broken_while_an_approver_has_it_in_hand_is_broken_a_moment_later(house: House) -> None:
    """Whoever breaks it would be told that it waits, and nobody would execute it."""
    made = house.action(approval={"people": 2, "expires": "1h"})
    held = house.run(made)
    given = token(house, held.id)
    twin = listed(House(store=house.store, runtime=house.runtime, plans=house.plans))
    twin.scope = CallerContext(TENANT, "agent:ops", break_glass="the site is down")
    twin.shop, twin.driver = house.shop, VirtualDriver(house.store, house.runtime.sibling("virtual/99"))
    work = countersign.record(held.id, TENANT, given, house.engine.approvals, Decision.APPROVE)
    step = next(work)
    while not isinstance(step, Commit):
        step = work.send(house.driver._do(step))

    def recorded() -> None:
        with suppress(StopIteration):
            work.send(house.driver._do(step))

    twin.driver.at(house.runtime.now_us() + 300_000, recorded)
    told = twin.run(made)
    assert house.folded(held.id).approval is not None
    assert (told.verified, told.review) == (True, "break_glass")
    assert EventKind.APPROVED in house.kinds(held.id)
    assert len(house.shop.calls) == 1
    sound(house)


def test_a_clock_that_is_set_back_behind_the_last_signature_keeps_nobody_waiting_who_asks(house: House) -> None:
    held = house.run(house.action(**ASKED))
    approve(house, held.id)
    house.runtime._clock.now_us -= 600_000_000
    told = house.wait(held.id, 5)
    assert (told.verified, told.attempts) == (True, 1)
    sound(house)
