"""Lists around actions: waiting and overdue actions, and the relations of an action.

An unknown or overdue action may also be in review. Each group reads a bounded number of rows by an index, for any
number of actions in the ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from readback.canon.frozen import dataclass
from readback.client.session import Session
from readback.domain.action.claim import ClaimKind, claim_id
from readback.domain.people.review import APPROVAL
from readback.domain.state import State
from readback.ports.storage.store import (
    ActionFilter,
    Freeze,
    Incident,
    LedgerStore,
    Projection,
    StoredProjection,
)

RELATED_MAX: Final = 10
SEARCHED_MAX: Final = 300
"""Newest actions of the contract in which actions on the same target are searched."""
SHOWN_MAX: Final = 25
"""Rows shown of each group."""
COUNT_MAX: Final = 1_000
"""Counts end here: a larger group has "1000 or more"."""
OVERDUE_US: Final = 60_000_000
"""A due action without a worker is overdue after this time, in microseconds."""
PIECE: Final = 100
PIECES_MAX: Final = 5
"""Rows read at once, and most reads, for the rows of a group."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group of waiting actions, the oldest first. `count` ends at COUNT_MAX."""

    name: str
    rows: tuple[StoredProjection, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Attention:
    """The waiting actions, freezes and open incidents of a tenant, the oldest first."""

    groups: tuple[Group, ...]
    freezes: tuple[Freeze, ...]
    incidents: tuple[Incident, ...]

    @property
    def total(self) -> int:
        """The number of all waiting actions, freezes and incidents. Each group counts up to COUNT_MAX."""
        return sum(each.count for each in self.groups) + len(self.freezes) + len(self.incidents)


def attention_of(session: Session) -> Attention:
    """Return the waiting actions of the session's tenant. Raises StoreError."""
    session.check_open()
    store, tenant = session.store, session.scope.tenant
    in_review = ActionFilter(tenant, review=True)
    # The state leads to its own index. By the review alone, few approvals would be searched among many reviews.
    approvals = ActionFilter(tenant, state=State.VALIDATED.value, review=True, hold=APPROVAL)
    unknown = ActionFilter(tenant, state=State.UNKNOWN.value)
    groups = (
        Group(
            "reviews",
            _oldest(store, in_review, lambda each: each.hold != APPROVAL),
            _difference(store, in_review, approvals),
        ),
        Group("approvals", _oldest(store, approvals, lambda _: True), _count(store, approvals)),
        Group("unknown", _oldest(store, unknown, lambda _: True), _count(store, unknown)),
        _overdue(session),
    )
    incidents = tuple(reversed(store.incidents(tenant, open_only=True)))
    return Attention(groups, tuple(store.freezes(tenant)), incidents)


def _oldest(
    store: LedgerStore, query: ActionFilter, wanted: Callable[[Projection], bool]
) -> tuple[StoredProjection, ...]:
    found: list[StoredProjection] = []
    after = ""
    for _ in range(PIECES_MAX):
        piece = store.page(replace(query, after_id=after, oldest=True, limit=PIECE))
        found += [each for each in piece if wanted(each.projection)]
        if len(piece) < PIECE or len(found) >= SHOWN_MAX:
            break
        after = piece[-1].projection.action_id
    return tuple(found[:SHOWN_MAX])


def _count(store: LedgerStore, query: ActionFilter) -> int:
    return store.counted(replace(query, limit=COUNT_MAX))


def _difference(store: LedgerStore, all_of: ActionFilter, without: ActionFilter) -> int:
    """The number of actions of the first filter outside the second. The first includes the second."""
    left_out = _count(store, without)
    return store.counted(replace(all_of, limit=COUNT_MAX + left_out)) - left_out


def _overdue(session: Session) -> Group:
    """Due actions that no worker has taken for OVERDUE_US, longest due first."""
    store, tenant = session.store, session.scope.tenant
    ids = store.due(session.runtime.now_us() - OVERDUE_US, COUNT_MAX, tenant)
    rows = (store.projection(each) for each in ids[:SHOWN_MAX])
    return Group("overdue", tuple(each for each in rows if each is not None), len(ids))


# --- one action ---


@dataclass(frozen=True, slots=True)
class Related:
    """A relation and the related actions, the newest first."""

    relation: str
    rows: tuple[StoredProjection, ...]


def related_to(session: Session, projection: Projection, compensation: str = "") -> tuple[Related, ...]:
    """Return the relations with at least one other action: target, run, saga, key and claims.

    Actions on the same target are searched among the newest actions of the contract. Raises StoreError.
    """
    store, tenant, here = session.store, projection.tenant, projection.action_id
    of = ActionFilter(tenant, limit=RELATED_MAX + 1)
    key = store.key(tenant, projection.key_hash) if projection.key_hash else None
    near = store.page(ActionFilter(tenant, contract=projection.contract, limit=SEARCHED_MAX))
    dependants = {
        action_id: None
        for kind in ClaimKind
        for action_id in store.dependants(tenant, claim_id(here, kind), RELATED_MAX + 1)
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
    return tuple(Related(name, tuple(rows[:RELATED_MAX])) for name, rows in others if rows)


def _named(session: Session, ids: list[str] | dict[str, None]) -> list[StoredProjection]:
    rows = (session.store.projection(each) for each in ids)
    return [each for each in rows if each is not None and each.projection.tenant == session.scope.tenant]
