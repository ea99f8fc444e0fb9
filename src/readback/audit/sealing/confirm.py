"""Confirm: the fourth level of trust, for a verified outcome. Computed only on demand.

Called with the entries of one action. An outcome is confirmed by audit under two conditions. Each entry leads to the
root of a checkpoint signed by the log's key. The entries bind the basis of the outcome: the contract by hash, the
recovery table by version, the idempotency key, and a required approval. Missing proof leaves the level unchanged.
Missing data never raises an error here.
"""

from __future__ import annotations

from functools import cache

from readback.audit.sealing.seal import Authority, goes_on_from, opened
from readback.canon.fault import CanonError
from readback.domain.action.action import Action
from readback.domain.side_effect import SideEffect
from readback.domain.state import State
from readback.engine.resume import fold
from readback.errors import StoreCorruptError
from readback.log.checkpoint import Checkpoint
from readback.log.fault import LogError
from readback.log.frontier import StoredTiles
from readback.log.proof import check_inclusion, inclusion_proof
from readback.log.tree import Read, leaf_hash
from readback.ports.storage.store import LedgerStore, StoredEvent


def is_confirmed(store: LedgerStore, action_id: str, authority: Authority) -> bool:
    """Return whether a verified action has level 4. False in doubt. Raises StoreError if nothing can be read."""
    events = store.events(action_id)
    try:
        action = fold(events)
        if action is None or action.id != action_id or not _is_bound(action):
            return False
        head = store.checkpoint()
        if head is None or any(not 0 < event.seq <= head.size for event in events):
            return False
        covering = opened(head, authority).checkpoint
        fetch = cache(store.tile)  # the proofs of one action's entries use the same few tiles
        goes_on_from(authority.stated, covering, fetch)
        return _are_covered(events, covering, StoredTiles(covering.size, fetch).read)
    except (LogError, StoreCorruptError, CanonError):
        return False


def _is_bound(action: Action) -> bool:
    """Return whether the entries name the basis of the outcome. Execution under emergency override has no approval to
    bind.
    """
    judgement, approval = action.judgement, action.approval
    if action.state is not State.RECONCILED_SUCCESS or judgement.verdict != "verified":
        return False
    named = (action.contract_hash, action.contract_version, action.key_hash, action.request_hash, judgement.table)
    if not all(named) or action.contract_ref != action.contract_hash or action.break_glass:
        return False
    if approval is None:  # a compensation is covered by the approval of its effect
        return action.side_effect != SideEffect.CRITICAL_MUTATION or bool(action.context.get("reverses"))
    return approval.used and approval.complete and bool(approval.policy and approval.payload)


def _are_covered(events: list[StoredEvent], covering: Checkpoint, read: Read) -> bool:
    for event in events:
        leaf, index = leaf_hash(event.envelope), event.seq - 1
        path = inclusion_proof(index, covering.size, read)
        check_inclusion(leaf, index, covering.size, path, covering.root)
    return True
