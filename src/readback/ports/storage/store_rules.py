"""Common rules of every ledger store: checks of an append before any state, and the due time of an action.

Called by each implementation of the store port, so that all refuse the same appends and agree on the same moments.
Pure: no state, and no rule beyond the port's text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from readback.canon.digest import sha256_hex
from readback.domain.state import TERMINAL, State
from readback.errors import InvariantError, StoreError
from readback.ports.storage.store import Append, KeyRecord, Projection

LEAF_BYTES = 32
MINUTE_US = 60_000_000
PACE_MINUTES_MAX = 24 * 60
"""The longest delay of a read, in minutes."""
PACE = "pace"
"""The subject of a store's counters for reserved reads, by minute. No fault, and left out of `counts`."""
OPEN = "PENDING"
"""The status of a key with an action in progress or unknown: no other action may take the key over."""
SUCCEEDED = "reconciled_success"
"""The state of a verified action under watch: not in flight, and after all other due actions."""
SAGA = "saga"
"""The kind of action for a saga."""
SETTLED = frozenset(state.value for state in TERMINAL - {State.REVIEW_REQUIRED})
"""The states without further change and without a waiting person."""
OPEN_STATES = tuple(sorted({state.value for state in State} - SETTLED))
"""All the others."""
INT64_MAX = 2**63 - 1
"""Every store keeps times and versions in signed 64 bits."""


def refuse_malformed(append: Append) -> None:
    """Raise InvariantError for a contradictory append; nothing was stored.

    The digest of each piece of evidence is computed here, before writing, and again on reading.
    """
    action_id, tenant, projection = append.action_id, append.tenant, append.projection
    if not append.events:
        raise InvariantError(f"An append to {action_id} carries no event.")
    if projection.action_id != action_id or projection.tenant != tenant:
        raise InvariantError(f"The projection of {action_id} names another action or tenant.")
    record = append.reserve
    if record is not None and (record.action_id != action_id or record.tenant != tenant):
        raise InvariantError(f"The reservation of {action_id} names another action or tenant.")
    if append.freezes or append.incidents:
        _refuse_anothers(append)
    for event in append.events:
        if len(event.leaf) != LEAF_BYTES:
            raise InvariantError(f"The leaf hash of an event of {action_id} does not have {LEAF_BYTES} bytes.")
    for item in append.evidence:
        if sha256_hex(item.body) != item.digest:
            raise InvariantError(f"Evidence of {action_id} does not have the digest {item.digest}.")


def _refuse_anothers(append: Append) -> None:
    for freeze in append.freezes:
        if freeze.action_id != append.action_id or freeze.tenant != append.tenant:
            raise InvariantError(f"A freeze of {append.action_id} names another action or tenant.")
    for incident in append.incidents:
        if incident.action_id != append.action_id or incident.tenant != append.tenant:
            raise InvariantError(f"An incident of {append.action_id} names another action or tenant.")


def is_contract(projection: Projection, digest: str) -> bool:
    """Whether evidence is the text of the action's contract, stored once for a tenant. A saga stores its own definition
    instead.
    """
    return digest == projection.contract_hash and projection.kind != SAGA


def may_have_key(item: Append, held: KeyRecord) -> bool:
    """Whether an append may reserve the key of this record: its own record, or the replaced action's record, unless
    open again since the look.
    """
    if held.action_id == item.action_id:
        return True
    return held.action_id == item.replaces and held.status != OPEN


def becomes_due_us(due_us: int | None, lease_owner: str, lease_until_us: int) -> int | None:
    """When a worker may take the action: its due time, or the later end of its lease."""
    if due_us is None or not lease_owner:
        return due_us
    return max(due_us, lease_until_us)


def fairly(ready: Iterable[Iterable[tuple[int, str]]], limit: int) -> list[str]:
    """Ids of several tenants' (time, id) in order: every tenant's first, then every tenant's second."""
    ranked = [(rank, *one) for each in ready for rank, one in enumerate(each)]
    return [action_id for _, _, action_id in sorted(ranked)[: max(limit, 0)]]


def paced(taken: Mapping[int, int], wanted_us: int, per_minute: int) -> int:
    """The moment from `wanted_us` on, in a minute with fewer than `per_minute` reserved reads (`taken`, by minute).

    In a later minute than the wanted minute, reads are spread evenly. After a full day the last minute takes the read:
    a read is delayed, and never dropped.
    """
    first = wanted_us // MINUTE_US
    minute = next((m for m in range(first, first + PACE_MINUTES_MAX) if taken.get(m, 0) < per_minute), None)
    if minute is None:
        minute = first + PACE_MINUTES_MAX - 1
    if minute == first:
        return wanted_us
    place = min(taken.get(minute, 0), per_minute - 1)
    return minute * MINUTE_US + place * (MINUTE_US // per_minute)


def lease_is_live(owner: str, until_us: int, now_us: int) -> bool:
    """A lease ends at `until_us`: in this microsecond it is no longer live."""
    return bool(owner) and until_us > now_us


def interrupted_error() -> StoreError:
    """The error for callers waiting for a change, after a signal ended the thread's work halfway."""
    return StoreError(
        "The process was interrupted during a write: it is unknown whether the change was stored.",
        remedy="Repeat the call; the version check finds a stored change and does not repeat it.",
        code="store.interrupted",
    )


def closed_error() -> StoreError:
    """The error of each call on a closed store."""
    return StoreError(
        "The store is closed.",
        remedy="Use it inside its `with` block, or open it again.",
        code="store.closed",
    )
