"""Everything in a ledger that waits for a person or is overdue, the oldest first, with counts.

An action in review is not listed again as unknown. Each group reads a bounded number of rows by an index, for any
number of actions in the ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from readback.canon.frozen import dataclass
from readback.client.session import Session
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
    """The waiting actions of a tenant, its freezes and its open incidents, the oldest first."""

    groups: tuple[Group, ...]
    freezes: tuple[Freeze, ...]
    incidents: tuple[Incident, ...]

    @property
    def total(self) -> int:
        """The number of all waiting actions, freezes and incidents. Each group counts up to COUNT_MAX."""
        return sum(each.count for each in self.groups) + len(self.freezes) + len(self.incidents)


def attention_of(session: Session) -> Attention:
    """Return what waits in the session's tenant. Raises StoreError."""
    session.check_open()
    store, tenant = session.store, session.scope.tenant
    in_review = ActionFilter(tenant, review=True)
    approvals = ActionFilter(tenant, review=True, hold=APPROVAL)
    unknown = ActionFilter(tenant, state=State.UNKNOWN.value)
    groups = (
        Group(
            "reviews",
            _oldest(store, in_review, lambda each: each.hold != APPROVAL),
            _difference(store, in_review, approvals),
        ),
        Group("approvals", _oldest(store, approvals, lambda _: True), _count(store, approvals)),
        Group(
            "unknown",
            _oldest(store, unknown, lambda each: not each.review),
            _difference(store, unknown, replace(unknown, review=True)),
        ),
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
