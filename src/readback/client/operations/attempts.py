"""Attempts made by the caller, and the question whether a call would wait for an approval.

Used by both clients. The engine commits an attempt before the hand-out. The caller then makes the call once, and
reports how the call ended.
"""

from __future__ import annotations

from dataclasses import replace

from readback.client.proposal import Proposal
from readback.client.session import Session
from readback.domain.idempotency import KeyStatus, aged, may_replace
from readback.engine.compiled_contract import CallerContext, Request
from readback.engine.effects import ClockResult, Ending
from readback.engine.external_attempts import ExternalAttempt, Report
from readback.engine.resume import fold
from readback.engine.stages import approve, execute
from readback.errors import ToolError

__all__ = ["ExternalAttempt", "Report", "outside", "report_of", "waiting_action", "waits_for"]


def outside(s: Session, proposal: Proposal, operation: str | None, step: str) -> Request:
    """Return the request of an attempt made by the caller. Raises as `Session.request` does."""
    return replace(s.request(proposal, operation, None, step), outside=True)


def report_of(value: object, error: BaseException | str | None) -> Report:
    """Return the report of an ended call: the value, or the error, which is evidence of no failure either."""
    if error is None:
        return Report(Ending.RETURNED, value)
    return Report(Ending.RAISED, error=error if isinstance(error, BaseException) else ToolError(error))


def waiting_action(s: Session, proposal: Proposal, operation: str | None) -> str:
    """Return the id of the action of this very call that is held for an approval, signed or not; "" for none.

    The proposal counts as used. Raises as `Session.request` does.
    """
    request = s.request(proposal, operation, None, "")
    record = s.store.key(s.scope.tenant, _drafted(s, request, s.scope).key_hash)
    begun = None if record is None else fold(s.store.events(record.action_id))
    return begun.id if begun is not None and approve.waits(begun) else ""


def _drafted(s: Session, request: Request, scope: CallerContext) -> execute.Draft:
    return execute.draft(request, scope, ClockResult(s.runtime.now_us(), s.runtime.new_id(), s.runtime.owner()))


def waits_for(s: Session, proposal: Proposal, operation: str | None, run: str | None) -> bool:
    """Return whether this call waits for an approval, by the contract and the ledger. Nothing is recorded.

    The proposal counts as used. An undetermined condition means yes. Raises as `Session.request` does.
    """
    request, scope = s.request(proposal, operation, None, ""), s.scope_of(run)
    if request.plan.contract.approval is None:
        return False
    drafted = _drafted(s, request, scope)
    record = s.store.key(scope.tenant, drafted.key_hash)
    if record is not None:
        begun = fold(s.store.events(record.action_id))
        if begun is not None and approve.waits(begun):
            return begun.approval is None or not begun.approval.complete
        if not may_replace(aged(KeyStatus(record.status), record.expires_us, s.runtime.now_us())):
            return False  # the operation is under way, or has ended: its record answers
    return approve.needed(execute.propose(drafted, s.engine.table.version))
