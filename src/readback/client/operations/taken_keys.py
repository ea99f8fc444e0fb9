"""The holder of an operation's key, including keys of an earlier release with composed letters.

Used by the gateway and by delegations before proposing; the engine has its own check.
"""

from __future__ import annotations

from readback.domain.idempotency import former_operation, key_hash
from readback.engine.resume import fold
from readback.engine.stages.submit import COMPOSING
from readback.ports.storage.store import KeyRecord, LedgerStore


def key_of(store: LedgerStore, tenant: str, contract: str, operation: str) -> KeyRecord | None:
    """Return the record of the operation's key; None for a new operation. Raises StoreError."""
    record = store.key(tenant, key_hash(tenant, contract, operation))
    former = former_operation(operation)
    if record is not None or not former:
        return record
    found = store.key(tenant, key_hash(tenant, contract, former))
    action = fold(store.events(found.action_id)) if found is not None else None
    return found if action is not None and action.wrapper in COMPOSING else None
