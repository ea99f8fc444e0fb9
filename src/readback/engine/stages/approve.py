"""Approve: request an approval, and check it before each attempt.

Called by the engine. The gate verifies the recorded tokens again under the settings of the executing process, over
bytes rebuilt from the actual request. An approval controls attempts alone: every dispatched action is verified, and
reversed if due, regardless of its approval. `people.approvals` records the decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from readback.canon import Json, parse_json
from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.action.approval_record import RequestedApproval
from readback.domain.contract.approval import (
    HOLD,
    NO_APPROVERS,
    ApprovalCode,
    ApprovalToken,
    Approved,
    Bound,
    Policy,
    Refused,
    Verify,
    check_approvals,
    token_of,
)
from readback.domain.events import EventKind
from readback.domain.finding import Finding
from readback.domain.idempotency import request_hash
from readback.domain.predicate import Truth
from readback.domain.recovery.table import RecoveryAction, RecoveryTable, Row
from readback.domain.state import State
from readback.engine.effects import Effects, GetClock, Load
from readback.engine.run import Run
from readback.engine.stages import execute, validate
from readback.engine.stages.evaluate import evaluate
from readback.errors import ApprovalError, StoreCorruptError

_DOUBTS = frozenset({Finding.APPROVAL_MISMATCH.value, Finding.POLICY_VERSION_MISMATCH.value})


def _no_signature(_key: str, _message: bytes, _signature: bytes) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Approvals:
    """The approvers configured in this process, and how a signature is checked.

    `break_glass`: the reason for the emergency override under which this process executes without an approval.
    """

    policy: Policy = NO_APPROVERS
    verify: Verify = _no_signature
    break_glass: str = ""


NO_APPROVALS = Approvals()


def ask(run: Run, approvals: Approvals) -> Effects[bool]:
    """Before the first attempt: return whether an approval is requested now, so that the action waits. Reserves the
    key.
    """
    if not needed(run):
        return False
    yield from _request(run, approvals.policy)
    if not run.action.reserved:
        execute.reserve(run)
    return True


def needed(run: Run) -> bool:
    """Whether an attempt needs an approval. An undetermined condition means yes.

    A reversal needs none, and neither does a process under its own emergency override. An override recorded by another
    process is history only and permits no further attempt.
    """
    terms, action = run.contract.approval, run.action
    if terms is None or action.context.get("reverses") or run.scope.break_glass:
        return False
    condition = run.plan.approval_when
    if condition is None or action.approval is not None:
        return True
    variables = run.variables()
    seen = evaluate(condition, run.plan.predicates.bind(variables), variables, show=False)
    return seen.truth is not Truth.VIOLATED


def gate(run: Run, approvals: Approvals, table: RecoveryTable) -> Effects[tuple[str, ...] | None]:
    """Before any attempt: return the approvals behind the attempt (empty if none is needed), or None if the attempt is
    barred.

    With None the consequence is recorded: the action waits, requests a new approval, or has ended. A crash before the
    commit changes nothing; the next worker repeats the check.
    """
    if run.contract.approval is None:
        return ()
    asked = run.action.approval
    stands_on: tuple[str, ...] = ()
    if needed(run):
        allowed = yield from _allowed(run, asked, approvals, table)
        if allowed is None:
            return None
        stands_on = (allowed.approval,)
    if asked is None or run.action.attempts:
        return stands_on
    refused = yield from validate.check(run)  # the world may have changed since the request
    if refused is not None:
        validate.record_refusal(run, refused, table, run.now_us)
        return None
    if stands_on and run.now_us >= asked.expires_us:  # it expired during the readings
        _refuse(run, Refused(ApprovalCode.EXPIRED), table)
        return None
    return stands_on


def may_send_again(run: Run, approvals: Approvals) -> Effects[bool]:
    """Whether the same request may be sent again. The run stores the answer and the approvals. Records nothing."""
    stands_on: tuple[str, ...] | None = None
    if (yield from validate.relying(run)) is None and (yield from validate.frozen(run)) is None:
        stands_on = yield from still_approved(run, approvals)
    run.barred, run.stands_on = stands_on is None, stands_on or ()
    return not run.barred


def still_approved(run: Run, approvals: Approvals) -> Effects[tuple[str, ...] | None]:
    """The approvals behind an attempt made now; None if the attempt would lack one. Records nothing."""
    if not needed(run):
        return ()
    if run.action.approval is None:
        return None
    said = yield from _checked(run, run.action.approval, approvals, run.now_us)
    return (said.approval,) if isinstance(said, Approved) else None


def _allowed(
    run: Run, asked: RequestedApproval | None, approvals: Approvals, table: RecoveryTable
) -> Effects[Approved | None]:
    """Return the approval of the attempt; else record the consequence and return None."""
    if asked is None:
        yield from _request(run, approvals.policy)
        return None
    said = yield from _checked(run, asked, approvals, run.now_us)
    if isinstance(said, Approved):
        if run.attemptable:
            return said
        again = "through the caller that makes the attempts" if run.outside else "with the complete arguments"
        wait_on(run, asked, f"The action is approved. Run the same operation again, {again}.")
    elif said.code is ApprovalCode.WAITING and waits(run.action):
        wait_on(run, asked, "")
    elif said.code is ApprovalCode.WAITING:  # reopened by a person: the hold is gone, so no approver could sign
        yield from _request(run, approvals.policy)
    elif said.code is ApprovalCode.POLICY_CHANGED:
        yield from _revalidate(run, approvals.policy, table)
    else:
        _refuse(run, said, table)
    return None


def _checked(run: Run, asked: RequestedApproval, approvals: Approvals, at_us: int) -> Effects[Approved | Refused]:
    """Check the recorded tokens against the request to be executed, at that time."""
    action, terms = run.action, run.contract.approval
    assert terms is not None
    bound = bound_of(action, asked, run.kept or {})
    same = bound.payload() == asked.payload and asked.people >= terms.people
    if not run.blind:
        same = same and request_hash(run.contract.kind, action.target, run.requested) == action.request_hash
    tokens: list[ApprovalToken] = []
    for one in asked.signed:
        try:
            tokens.append(token_of((yield from load(action, one.ref))))
        except (ApprovalError, StoreCorruptError):
            return Refused(ApprovalCode.FORGED, one.approver)
    said = check_approvals(bound, approvals.policy, tokens, at_us, approvals.verify)
    in_time = not (isinstance(said, Refused) and said.code in (ApprovalCode.EXPIRED, ApprovalCode.POLICY_CHANGED))
    return said if same or not in_time else Refused(ApprovalCode.MISMATCH)


def doubt(run: Run, approvals: Approvals) -> Effects[Finding | None]:
    """Find a fault in the approval of an executed action, when this process resumes it. Usually there is none.

    Execution without a valid approval is an alarm. A valid approval under another list, by an approver unknown here,
    goes to a person. Verification continues in both cases. The finding is recorded once: a decided action is not
    questioned again.
    """
    action, asked = run.action, run.action.approval
    if action.state is State.REVIEW_REQUIRED or action.judgement.finding in _DOUBTS or action.break_glass:
        return None
    if not needed(run):
        return None
    if asked is None or not asked.used:
        return None if asked is None and action.gated and run.plan.approval_when else Finding.APPROVAL_MISMATCH
    listed = approvals.policy.past(asked.policy)
    said = yield from _checked(run, asked, replace(approvals, policy=listed), action.executed_us)
    if isinstance(said, Approved):
        return None
    elsewhere = asked.policy != approvals.policy.version and said.code is ApprovalCode.UNKNOWN_APPROVER
    return Finding.POLICY_VERSION_MISMATCH if elsewhere else Finding.APPROVAL_MISMATCH


# --- recording ---


def _request(run: Run, policy: Policy, row: Row | None = None, table: str = "") -> Effects[None]:
    """Request an approval, first or renewed: the exact bytes become evidence, and the action waits."""
    terms = run.contract.approval
    assert terms is not None
    first = yield from GetClock(fresh=True)
    second = yield from GetClock(fresh=True)
    run.passed(second.now_us)
    drawn = (first.action_id, second.action_id)
    asked = new_request(policy, drawn, run.now_us, people=terms.people, span_us=terms.expires_us)
    bound = bound_of(run.action, asked, run.kept or {})
    digest = run.keep_bytes(bound.bytes())
    data = request_data(asked, digest, run.action.approval, row, table)
    path = () if run.action.state is State.VALIDATED else (State.VALIDATED,)
    run.record(EventKind.APPROVAL_REQUESTED, run.now_us, path, data, {"approval": digest})


def new_request(policy: Policy, drawn: tuple[str, str], now_us: int, *, people: int, span_us: int) -> RequestedApproval:
    """A request under this policy. `drawn`: two fresh ids, for the name and the nonce."""
    return RequestedApproval(f"ap-{drawn[0]}", drawn[1], "", policy.version, now_us + span_us, span_us, people)


def request_data(
    asked: RequestedApproval, payload: str, before: RequestedApproval | None, row: Row | None, table: str
) -> dict[str, Json]:
    """The event's data. `row`: the recovery row behind a renewed request."""
    who = "an approver" if asked.people == 1 else f"{asked.people} approvers"
    data: dict[str, Json] = {
        "approval": asked.id,
        "nonce": asked.nonce,
        "payload": payload,
        "policy": asked.policy,
        "expires": asked.expires_us,
        "span": asked.span_us,
        "people": asked.people,
        "due": asked.expires_us,
        "hold": HOLD,
        "code": ApprovalCode.WAITING.value,
        "detail": f"It waits for {who}, and nothing was executed.",
        "supersedes": before.id if before is not None else "",
    }
    if row is not None:
        data |= {"row": row.id, "table": table, "recovery": row.action.value, "finding": row.finding.value}
    return data


def _revalidate(run: Run, policy: Policy, table: RecoveryTable) -> Effects[None]:
    """The list of approvers has changed: the table decides whether to renew the request or to refuse the action."""
    row = table.decide(Finding.POLICY_VERSION_MISMATCH, validate.unexecuted(run.contract.side_effect))
    if row.action is RecoveryAction.REVALIDATE_APPROVAL:
        yield from _request(run, policy, row, table.version)
        return
    _refuse(run, Refused(ApprovalCode.POLICY_CHANGED), table, Finding.POLICY_VERSION_MISMATCH)


_SAID = {
    ApprovalCode.EXPIRED: "No approval arrived in time, so the action is not executed.",
    ApprovalCode.DENIED: "An approver denied the action.",
    ApprovalCode.FORGED: "A recorded approval does not carry its approver's signature.",
    ApprovalCode.REPLAYED: "A recorded approval was made for another request, or is counted twice.",
    ApprovalCode.MISMATCH: "The planned execution differs from the approved request.",
    ApprovalCode.POLICY_CHANGED: "The list of approvers has changed since the approval.",
    ApprovalCode.UNKNOWN_APPROVER: "The settings of the executing process do not list this approver.",
    ApprovalCode.SELF: "The caller approved its own request.",
    ApprovalCode.WAITING: "The action waits for an approval.",
}


def _refuse(run: Run, said: Refused, table: RecoveryTable, finding: Finding = Finding.APPROVAL_MISMATCH) -> None:
    """End the action here. An earlier attempt keeps its judgement."""
    if said.code is ApprovalCode.EXPIRED:
        finding = Finding.FAILED_BEFORE_EFFECT
    code, detail = said.code.value, _SAID[said.code]
    if run.action.attempts:
        run.record(EventKind.REJECTED, run.now_us, (State.FAILED,), {"code": code, "detail": detail})
        return
    validate.record_refusal(run, validate.Refusal(code, detail, finding), table, run.now_us)


def wait_on(run: Run, asked: RequestedApproval, detail: str) -> None:
    """Nothing can be done now: wait until the request expires or a person acts."""
    run.record(EventKind.SIGNALLED, run.now_us, (), {"due": asked.expires_us, "detail": detail})


# --- the bytes ---


def bound_of(action: Action, asked: RequestedApproval, kept: Mapping[str, Json]) -> Bound:
    """The content bound by an approval of this action. `kept`: the request as stored in the evidence."""
    return Bound(
        approval=asked.id,
        nonce=asked.nonce,
        action=action.id,
        tenant=action.tenant,
        principal=action.principal,
        contract=action.contract,
        contract_version=action.contract_version,
        contract_hash=action.contract_hash,
        kind=action.kind,
        side_effect=action.side_effect,
        target=action.target,
        operation=action.operation,
        request_hash=action.request_hash,
        requested=kept.get("requested"),
        intended=kept.get("intended"),
        people=asked.people,
        policy=asked.policy,
        expires_us=asked.expires_us,
    )


def waits(action: Action) -> bool:
    """The action is held until approval, denial or expiry."""
    return action.state is State.VALIDATED and action.hold == HOLD


def approved_blind(action: Action) -> bool:
    """The action is approved, and waits for a process with the redacted arguments, or for the external caller.

    Such an action is due at the expiry of its approval. Any other approved action is due from the signature on.
    """
    asked = action.approval
    return waits(action) and asked is not None and asked.complete and action.due_us == asked.expires_us


def goes_on(action: Action) -> bool:
    """The action is approved and due, regardless of the clock: a clock set back may stand before the last signature."""
    asked = action.approval
    return waits(action) and asked is not None and asked.complete and action.due_us != asked.expires_us


def load(action: Action, digest: str) -> Effects[bytes]:
    """Load mandatory evidence. Raises StoreCorruptError."""
    loaded = yield from Load(action.tenant, action.id, digest)
    if loaded is None:
        raise StoreCorruptError(f"The evidence {digest} of an approval is missing.")
    return loaded


def load_kept(action: Action) -> Effects[dict[str, Json]]:
    """The request of an action, as stored."""
    kept = parse_json((yield from load(action, action.request_ref)))
    if not isinstance(kept, dict):
        raise StoreCorruptError(f"The request of action {action.id} has an unexpected form.")
    return kept
