"""Audit of dependencies on claims: each row has its entry, and each entry has its row.

Called by the audit. The status of a claim is a column of the projection, folded and compared like any other column.
"""

from __future__ import annotations

from collections.abc import Iterator

from readback.canon import ReadbackError
from readback.domain.action.action import Action
from readback.domain.events import EventKind, open_envelope
from readback.engine.claims.entries import claims_relied_on, upon_in
from readback.ports.storage.store import LedgerStore


def not_kept(store: LedgerStore, action: Action) -> Iterator[str]:
    """Return the dependencies in the action's entries without a row. A retraction would not name the action."""
    for claim in claims_relied_on(action):
        if not store.relies(action.tenant, claim, action.id):
            yield f"Action {action.id} was planned upon {claim}, and the store has no row for this."


def made_up(store: LedgerStore) -> Iterator[tuple[str, str]]:
    """Yield (action id, fault) for each row without an entry."""
    for tenant, claim, action_id in store.reliances():
        if not _says(store, tenant, claim, action_id):
            yield (
                action_id,
                f"Action {action_id} has a row as planned upon {claim}, and no entry of the action says so.",
            )


def _says(store: LedgerStore, tenant: str, claim: str, action_id: str) -> bool:
    try:
        first = open_envelope(store.events(action_id)[0].envelope)
    except (ReadbackError, LookupError):
        return False
    context = first.event.data.get("context")
    if first.event.kind is not EventKind.PROPOSED or first.tenant != tenant or not isinstance(context, dict):
        return False
    return claim in upon_in(context)
