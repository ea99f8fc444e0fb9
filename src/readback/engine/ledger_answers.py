"""Answers to effects that need the ledger and the clock alone, the same under every driver."""

from __future__ import annotations

from typing import assert_never

from readback.domain.action.action import Action
from readback.engine.effects import (
    AllowEarlyDispatch,
    Load,
    LoadAction,
    LoadActions,
    LoadCounts,
    LoadDependants,
    LoadFreeze,
    LoadKey,
    LoadSaga,
    MakeDue,
    MeasureEvidence,
    ReserveReadSlot,
)
from readback.engine.entries.side_records import oldest_freeze
from readback.engine.resume import fold, woken
from readback.engine.saga_run import fold_saga
from readback.ports.runtime import Runtime
from readback.ports.storage.store import LedgerStore

LedgerEffect = (
    Load
    | LoadKey
    | LoadCounts
    | LoadAction
    | LoadActions
    | LoadDependants
    | LoadSaga
    | LoadFreeze
    | ReserveReadSlot
    | MeasureEvidence
    | MakeDue
    | AllowEarlyDispatch
)


def answer_of_ledger(store: LedgerStore, runtime: Runtime, step: LedgerEffect) -> object:
    """Return the result of an effect. Raises StoreError."""
    match step:
        case LoadKey(tenant, key_hash):
            return store.key(tenant, key_hash)
        case LoadCounts(tenant):
            return {(subject, name): value for subject, name, value in store.counts(tenant)}
        case LoadFreeze(tenant, subjects, by):
            return oldest_freeze(store, tenant, subjects, by)
        case Load(tenant, action_id, digest):
            evidence = store.evidence(tenant, action_id, digest)
            return None if evidence is None else evidence.body
        case LoadAction(action_id):
            stored = store.projection(action_id)
            due_us = stored.projection.due_us if stored is not None else None
            return woken(fold(store.events(action_id)), due_us)
        case LoadActions(ids):
            return _existing(store, ids)
        case LoadDependants(tenant, claim, limit):
            return tuple(store.dependants(tenant, claim, limit))
        case LoadSaga(saga_id):
            stored = store.projection(saga_id)
            due_us = stored.projection.due_us if stored is not None else None
            return fold_saga(store.events(saga_id), due_us)
        case ReserveReadSlot(tenant, wanted_us, per_minute):
            return store.pace(tenant, runtime.now_us(), wanted_us, per_minute)
        case MeasureEvidence(tenant):
            return store.evidence_bytes(tenant)
        case MakeDue(waiting_id):
            store.make_due(waiting_id, runtime.now_us())
            return runtime.now_us()
        case AllowEarlyDispatch():  # only the async driver sends early calls
            return runtime.now_us()
        case _:
            assert_never(step)


def _existing(store: LedgerStore, action_ids: tuple[str, ...]) -> dict[str, Action]:
    """The existing actions among these, in their current state."""
    found: dict[str, Action] = {}
    for action_id in action_ids:
        stored = store.projection(action_id)
        action = None if stored is None else woken(fold(store.events(action_id)), stored.projection.due_us)
        if action is not None:
            found[action_id] = action
    return found
