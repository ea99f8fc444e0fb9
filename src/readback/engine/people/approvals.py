"""Approvals: record the approvers' decisions about a waiting action. Executes nothing.

Called by the clients and by `readback approve` and `deny`. Needs no contract, since the request is in the ledger. An
invalid token is refused with its code and leaves no record. A valid token is checked again before execution.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from readback.canon import Json, sha256_hex
from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.action.approval_record import RequestedApproval
from readback.domain.contract.approval import (
    ApprovalCode,
    ApprovalToken,
    Bound,
    Decision,
    check_token,
    key_id,
    token_of,
)
from readback.domain.events import Event, EventKind, seal
from readback.domain.finding import Finding
from readback.domain.recovery.table import RecoveryAction, RecoveryTable
from readback.domain.side_effect import SideEffect
from readback.domain.state import State
from readback.engine.effects import (
    Commit,
    Effects,
    GetClock,
    Lease,
    LoadAction,
    Wait,
)
from readback.engine.entries.recorder import projection_of, settled_key
from readback.engine.resume import marks
from readback.engine.stages.approve import Approvals, bound_of, load, load_kept, new_request, request_data, waits
from readback.engine.stages.validate import unexecuted
from readback.errors import ApprovalError, NotFoundError
from readback.ports.signer import Signer
from readback.ports.storage.store import Append, Appended, Evidence, SealedEvent

MEDIA: Final = "application/json"
LEASE_US: Final = 15_000_000
LOOK_AGAIN_US: Final = 250_000
TRIES_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """An approval request from the ledger. A token's `payload` is the hash of exactly `bytes`.

    Example:
        >>> from readback import Readback, Reading, action
        >>> @action("lamp", ensure="authoritative.on", approval="required")
        ... def switch_on() -> None: ...
        >>> read_lamp = switch_on.read(strong=True)(lambda: Reading.of({"on": True}))
        >>> with Readback.open("memory:") as rb:
        ...     request = rb.approval(rb.run(switch_on()).id)
        >>> print(request.bound.contract, request.signed_by, request.current)
        switch_on () True
    """

    bound: Bound
    bytes: bytes
    payload: str
    read_us: int
    """The time of reading from the ledger, by this machine's clock."""
    signed_by: tuple[str, ...]
    policy_now: str
    """The policy of this process. If it differs from `bound.policy`, a token counts only after a renewed request."""

    @property
    def current(self) -> bool:
        """Whether the request was made under this process's list of approvers."""
        return self.bound.policy == self.policy_now

    def signed(self, signer: Signer, approver: str, decision: Decision) -> ApprovalToken:
        """This approver's signed token. `signed_at_us` is the time of reading from the ledger."""
        return signed_token(self.bound, signer, approver, decision, self.read_us)


def requested(action_id: str, tenant: str, approvals: Approvals) -> Effects[ApprovalRequest]:
    """The pending request of an action. Raises ApprovalError if there is none, or if the request was changed."""
    action = yield from _find(action_id, tenant)
    asked = _open(action)
    bound = yield from _bound(action, asked)
    begun = yield from GetClock()
    signed = tuple(one.approver for one in asked.signed)
    return ApprovalRequest(bound, bound.bytes(), asked.payload, begun.now_us, signed, approvals.policy.version)


def signed_token(bound: Bound, signer: Signer, approver: str, decision: Decision, at_us: int) -> ApprovalToken:
    """A signed token over exactly these bytes."""
    token = ApprovalToken(
        approver,
        key_id(signer.public_key),
        bound.approval,
        bound.payload(),
        decision,
        at_us,
        bound.expires_us,
        bound.nonce,
    )
    return replace(token, signature=signer.sign(token.statement()))


def record(
    action_id: str, tenant: str, given: bytes | str | Mapping[str, object] | ApprovalToken, approvals: Approvals,
    decision: Decision,
) -> Effects[None]:  # fmt: skip
    """Record a token. Raises ApprovalError for an invalid token; then nothing was recorded."""
    token = given if isinstance(given, ApprovalToken) else token_of(given)
    for _ in range(TRIES_MAX):
        action = yield from _find(action_id, tenant)
        asked = _open(action)
        begun = yield from GetClock()
        bound = yield from _bound(action, asked)
        _check(action, asked, bound, token, decision, approvals, begun.now_us)
        kept = yield from load_kept(action)
        leased = yield from Lease(action.id, begun.now_us + LEASE_US, action.version)
        if leased.fence is not None and leased.version == action.version:
            append = _decided(action, asked, token, kept, leased.now_us, leased.fence)
            committed = yield from Commit(append)
            if isinstance(committed.result, Appended):
                return
        yield from Wait(
            action.id, begun.now_us + LOOK_AGAIN_US
        )  # another worker moved the action on, or holds the lease
    raise ApprovalError(f"Action {action_id} is busy; nothing was recorded.", remedy="Ask again.")


def renew(action_id: str, tenant: str, approvals: Approvals, table: RecoveryTable) -> Effects[None]:
    """Renew a request made under another list of approvers; otherwise do nothing.

    Earlier signatures no longer count. Raises ApprovalError if no request is pending.
    """
    action = yield from _find(action_id, tenant)
    asked = _open(action)
    first = yield from GetClock(fresh=True)
    second = yield from GetClock(fresh=True)
    row = table.decide(Finding.POLICY_VERSION_MISMATCH, unexecuted(SideEffect(action.side_effect)))
    stale = asked.policy != approvals.policy.version and second.now_us < asked.expires_us
    if not stale or row.action is not RecoveryAction.REVALIDATE_APPROVAL:
        return
    yield from _bound(action, asked)
    leased = yield from Lease(action.id, second.now_us + LEASE_US, action.version)
    if leased.fence is None or leased.version != action.version:
        raise ApprovalError(f"Action {action_id} is busy; nothing was recorded.", remedy="Ask again.")
    drawn = (first.action_id, second.action_id)
    fresh = new_request(approvals.policy, drawn, leased.now_us, people=asked.people, span_us=asked.span_us)
    bound = bound_of(action, fresh, (yield from load_kept(action)))
    body = bound.bytes()
    data = request_data(fresh, sha256_hex(body), asked, row, table.version)
    event = Event(EventKind.APPROVAL_REQUESTED, leased.now_us, (), data, {"approval": sha256_hex(body)})
    yield from Commit(_append(action, event, body, leased.fence))


def _check(
    action: Action,
    asked: RequestedApproval,
    bound: Bound,
    token: ApprovalToken,
    decision: Decision,
    approvals: Approvals,
    now_us: int,
) -> None:
    code = check_token(bound, approvals.policy, token, now_us, approvals.verify)
    if code is None and token.decision is not decision:
        raise ApprovalError(
            f"The token says {token.decision.value}, and {decision.value} was asked for.",
            code=ApprovalCode.MISMATCH.value,
        )
    if code is None and any(token.approver == one.approver or token.key_id == one.key_id for one in asked.signed):
        code = ApprovalCode.REPLAYED
    if code is not None:
        raise ApprovalError(
            f"This {decision.value} of action {action.id} does not count: {WHY[code]}",
            code=code.value,
            remedy=REMEDIES.get(code, ""),
            details={"action": action.id, "approver": token.approver[:80], "approval": asked.id},
        )


WHY: Final = {
    ApprovalCode.WAITING: "more people have to approve.",
    ApprovalCode.FORGED: "it does not bear the approver's signature.",
    ApprovalCode.EXPIRED: "its time has passed.",
    ApprovalCode.REPLAYED: "it was made for another request, or is counted already.",
    ApprovalCode.MISMATCH: "its signature covers other bytes than the request's.",
    ApprovalCode.POLICY_CHANGED: "it was requested under another list of approvers.",
    ApprovalCode.UNKNOWN_APPROVER: "the settings here list no approver with this name and key.",
    ApprovalCode.SELF: "the approver is the requesting principal.",
    ApprovalCode.DENIED: "it was denied.",
}
_SIGN_AGAIN: Final = "Open the action again, sign exactly the bytes shown there, and hand in the whole new token."
REMEDIES: Final = {
    ApprovalCode.FORGED: _SIGN_AGAIN,
    ApprovalCode.REPLAYED: _SIGN_AGAIN,
    ApprovalCode.MISMATCH: _SIGN_AGAIN,
    ApprovalCode.UNKNOWN_APPROVER: "Sign with the key that the operator's settings list for this approver, "
    "or ask the operator to list the key.",
    ApprovalCode.SELF: "Ask another approver to sign.",
}
"""The next step after a fault, where the general one of ApprovalError says too little."""


def _find(action_id: str, tenant: str) -> Effects[Action]:
    folded = yield from LoadAction(action_id)
    if folded is None or folded.tenant != tenant:
        raise NotFoundError(f"There is no action {action_id!r} in this tenant.")
    return folded


def _open(action: Action) -> RequestedApproval:
    if waits(action) and action.approval is not None:
        return action.approval
    if action.approval is None:
        raise ApprovalError(f"Action {action.id} needs no approval.", code="approval.not-asked")
    raise ApprovalError(
        f"Action {action.id} no longer waits for an approval: it is {action.state.value}.",
        code=ApprovalCode.REPLAYED.value,
    )


def _bound(action: Action, asked: RequestedApproval) -> Effects[Bound]:
    """Rebuild the bytes and compare them with the stored bytes."""
    bound = bound_of(action, asked, (yield from load_kept(action)))
    kept = yield from load(action, asked.payload)
    if bound.bytes() != kept or sha256_hex(kept) != asked.payload:
        raise ApprovalError(
            f"What the ledger holds of action {action.id} is not what its approval was asked for.",
            code=ApprovalCode.MISMATCH.value,
            remedy="Run `readback ledger verify`: the ledger was changed.",
        )
    return bound


def _decided(
    action: Action, asked: RequestedApproval, token: ApprovalToken, kept: Mapping[str, Json], now_us: int, fence: int
) -> Append:
    denied = token.decision is Decision.DENY
    body = token.body()
    data: dict[str, Json] = {
        "approval": asked.id,
        "approver": token.approver,
        "key": token.key_id,
        "payload": token.payload,
        "signed": token.signed_at_us,
        "expires": token.expires_us,
    }
    if denied:
        data |= {"code": ApprovalCode.DENIED.value, "detail": f"{token.approver} denied it."}
    else:
        complete = len(asked.signed) + 1 >= asked.people
        # No worker knows redacted arguments or can make an external attempt. The action continues when the caller runs
        # the same operation again, so it is not due before its expiry.
        blind = any(marks(dict(kept), "")) or bool(action.context.get("outside"))
        data["due"] = now_us if complete and not blind else asked.expires_us
    kind, path = (EventKind.DENIED, (State.FAILED,)) if denied else (EventKind.APPROVED, ())
    return _append(action, Event(kind, now_us, path, data, {"token": sha256_hex(body)}), body, fence)


def _append(action: Action, event: Event, body: bytes, fence: int) -> Append:
    expected = action.version
    envelope, leaf = seal(event, action.id, action.tenant, expected + 1, action.head)
    action.apply(event, leaf.hex())
    return Append(
        action.id,
        action.tenant,
        expected,
        fence,
        (SealedEvent(event.kind.value, event.at_us, envelope, leaf),),
        projection_of(action),
        (Evidence(sha256_hex(body), MEDIA, body),),
        settle=settled_key(action),
    )
