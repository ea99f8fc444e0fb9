"""What the events of one action amount to, as the store's projection: derived from the fold alone.

Used by audit, which compares it with what the store holds, and by whoever records entries without a contract to ask. A
run derives its own with the contract at hand; that both agree is what the audit shows.
"""

from __future__ import annotations

from readback.domain.action.action import Action
from readback.domain.idempotency import expires_us, key_status
from readback.ports.storage.store import Projection


def projection_of(action: Action, *, lease_owner: str = "", lease_until_us: int = 0) -> Projection:
    """The projection that the events of this action demand."""
    return Projection(
        action_id=action.id,
        tenant=action.tenant,
        principal=action.principal,
        run=str(action.context.get("run", "")),
        contract=action.contract,
        contract_version=action.contract_version,
        contract_hash=action.contract_hash,
        kind=action.kind,
        side_effect=action.side_effect,
        target=action.target,
        operation=action.operation,
        key_hash=action.key_hash,
        stamp=action.stamp,
        state=action.state._value_,
        hold=action.hold,
        verdict=action.judgement.verdict,
        discrepancy=action.judgement.discrepancy,
        row=action.judgement.row,
        created_us=action.created_us,
        updated_us=action.updated_us,
        due_us=action.due_us,
        lease_owner=lease_owner,
        lease_until_us=lease_until_us,
        review=action.review,
        incident=action.incident,
        saga=str(action.context.get("saga", "")),
        claim=action.claim,
    )


def settled_key(action: Action) -> tuple[str, int] | None:
    """What the action's idempotency record has to be now: its status, and when it expires; None where it stays."""
    if not action.durable_key_change:
        return None
    status = key_status(action.state, may_repeat=action.may_repeat, resolution=action.attested)
    return status.value, expires_us(status, action.updated_us, action.key_kept_us)
