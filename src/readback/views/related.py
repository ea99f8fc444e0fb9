"""Actions related to one action: the same target, run, saga and key, the claims behind the plan, and the dependants.

Every list is bounded. Actions on the same target are searched among the newest actions of the same contract.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from readback.canon.frozen import dataclass
from readback.client.session import Session
from readback.domain.action.claim import ClaimKind, claim_id
from readback.ports.storage.store import ActionFilter, Projection, StoredProjection

SHOWN_MAX: Final = 10
SEARCHED_MAX: Final = 300
"""Newest actions of the contract in which actions on the same target are searched."""


@dataclass(frozen=True, slots=True)
class Related:
    """One relation and its actions, the newest first."""

    relation: str
    rows: tuple[StoredProjection, ...]


def related_to(session: Session, projection: Projection, compensation: str = "") -> tuple[Related, ...]:
    """Return the relations with at least one action besides this one. Raises StoreError."""
    store, tenant, here = session.store, projection.tenant, projection.action_id
    of = ActionFilter(tenant, limit=SHOWN_MAX + 1)
    key = store.key(tenant, projection.key_hash) if projection.key_hash else None
    near = store.page(ActionFilter(tenant, contract=projection.contract, limit=SEARCHED_MAX))
    dependants = {
        action_id: None
        for kind in ClaimKind
        for action_id in store.dependants(tenant, claim_id(here, kind), SHOWN_MAX + 1)
    }
    found = (
        ("The holder of the key", _named(session, [key.action_id] if key is not None else [])),
        ("The reversal", _named(session, [compensation] if compensation else [])),
        ("The saga", _named(session, [projection.saga] if projection.saga else [])),
        ("Steps of the saga", store.page(replace(of, saga=here))),
        ("Steps of the same saga", store.page(replace(of, saga=projection.saga)) if projection.saga else []),
        ("The same target", [each for each in near if each.projection.target == projection.target]),
        ("The same run", store.page(replace(of, run=projection.run)) if projection.run else []),
        ("Dependants: planned upon a claim of this action", _named(session, dependants)),
    )
    others = ((name, [each for each in rows if each.projection.action_id != here]) for name, rows in found)
    return tuple(Related(name, tuple(rows[:SHOWN_MAX])) for name, rows in others if rows)


def _named(session: Session, ids: list[str] | dict[str, None]) -> list[StoredProjection]:
    rows = (session.store.projection(each) for each in ids)
    return [each for each in rows if each is not None and each.projection.tenant == session.scope.tenant]
