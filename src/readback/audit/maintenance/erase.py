"""Erase: remove payloads of settled actions from the ledger, and record the erasure in each action.

Called by the clients and by `readback ledger erase`. Entries and proofs stay valid: they bind payloads by digest, and
the digest stays. One append holds the `erased` entry and removes the bytes, so a crash leaves an action either
unchanged or erased. A second run resumes at the first remaining action.

Steps:
1. Select the actions, and skip actions in progress.
2. Find each action's own payloads. Payloads of another action stay, even with the same bytes.
3. Append an entry each, several in one append.
4. Remove the old bytes from the store's own files.

Content of entries (targets, ids, times, sentences) cannot be erased.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Final

from readback.audit.checks.ledger import no_progress
from readback.canon import Json, ReadbackError
from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.action.erasure import DIGESTS_AN_ENTRY_MAX, ErasureOrder, ErasureResult, payloads
from readback.domain.events import Event, EventKind, open_envelope, seal
from readback.domain.saga.fold import Saga
from readback.engine.entries.recorder import projection_of
from readback.engine.resume import fold_opened
from readback.engine.saga_run import fold_saga, projection_of_saga
from readback.errors import ErasureError, NotFoundError, StoreCorruptError, StoreError
from readback.ports.storage.store import (
    Append,
    Appended,
    Erasure,
    LedgerStore,
    Projection,
    SealedEvent,
    StoredProjection,
)
from readback.ports.storage.store_rules import lease_is_live

APPENDS_AT_ONCE_MAX: Final = 64


def erase(
    store: LedgerStore,
    order: ErasureOrder,
    now_us: int,
    *,
    dry_run: bool = False,
    progress: Callable[[int], None] = no_progress,
) -> ErasureResult:
    """Erase the payloads selected by the order. `progress` is called with the number of processed actions.

    Raises NotFoundError for a named action missing in the tenant, and ErasureError for a named action in progress; in
    both cases nothing was erased. Raises StoreError if the store fails; earlier erasures stay.
    """
    result, waiting = ErasureResult(dry_run=dry_run), list[_Candidate]()
    for done, held in enumerate(_chosen(store, order, now_us, result), 1):  # 1
        candidate = _candidate(store, order, held, result)  # 2
        if candidate is not None:
            waiting.append(candidate)
        if len(waiting) == APPENDS_AT_ONCE_MAX:
            _erase(store, order, now_us, waiting, result)  # 3
            waiting.clear()
        progress(done)
    _erase(store, order, now_us, waiting, result)
    if not dry_run:
        result.gone = store.purge()  # 4
    return result


# --- 1. which ---


def _chosen(store: LedgerStore, order: ErasureOrder, now_us: int, result: ErasureResult) -> Iterator[StoredProjection]:
    if order.action_ids:
        named = [_named(store, order.tenant, action_id) for action_id in dict.fromkeys(order.action_ids)]
        for held in named:
            why = why_not(store, held.projection, now_us)
            if why:
                raise ErasureError(f"{held.projection.action_id} is not erased: {why}. Nothing was erased.")
        yield from named
        return
    for held in store.projections(order.tenant):
        p = held.projection
        if order.before_us is not None and p.updated_us >= order.before_us:
            continue
        why = why_not(store, p, now_us)
        if why:
            result.left(p.action_id, why)
        else:
            yield held


def _named(store: LedgerStore, tenant: str, action_id: str) -> StoredProjection:
    held = store.projection(action_id)
    if held is None or held.projection.tenant != tenant:
        raise NotFoundError(f"There is no action {action_id!r} in this tenant.", remedy="See `readback list`.")
    return held


def why_not(store: LedgerStore, p: Projection, now_us: int) -> str:
    """Return why an action may not be erased now, as the end of a sentence. "" if it may."""
    why = _at_work(p, now_us)
    if why or not p.saga:
        return why
    saga = store.projection(p.saga)
    if saga is not None and _at_work(saga.projection, now_us):
        return f"its saga {p.saga} is still in progress, and may have to reverse it"
    return ""


def _at_work(p: Projection, now_us: int) -> str:
    if lease_is_live(p.lease_owner, p.lease_until_us, now_us):
        return "it is in progress"
    if p.review or p.hold:
        return f"a person must review it first ({p.review or p.hold})"
    return "it will be resumed, or read again" if p.due_us is not None else ""


# --- 2. and 3. each ---


@dataclass(frozen=True, slots=True)
class _Candidate:
    """One erasable action, and its payloads with remaining bytes."""

    held: StoredProjection
    record: Action | Saga
    digests: list[str]


def _candidate(
    store: LedgerStore, order: ErasureOrder, held: StoredProjection, result: ErasureResult
) -> _Candidate | None:
    """Return None if nothing is left to erase, or if the action is postponed."""
    action_id = held.projection.action_id
    events = store.events(action_id)
    opened = [open_envelope(each.envelope) for each in events]
    try:
        saga = fold_saga(events) if opened and opened[0].event.kind is EventKind.SAGA_BEGUN else None
        leaves = (each.leaf for each in events)
        record = saga if saga is not None else fold_opened(zip(opened, leaves, strict=True))
    except ReadbackError as error:
        if isinstance(error, StoreError) and not isinstance(error, StoreCorruptError):
            raise
        result.left(action_id, f"its entries cannot be read: {error.message}")
        return None
    if record is None or record.version != held.version:
        result.left(action_id, "it changed just now")
        return None
    gone = frozenset(record.erased)
    every = dict.fromkeys(digest for one in opened for digest in payloads(one.event))
    digests = [digest for digest in every if digest not in gone]
    if not digests:
        result.already += 1
        return None
    return _Candidate(held, record, digests)


def _erase(
    store: LedgerStore, order: ErasureOrder, now_us: int, waiting: list[_Candidate], result: ErasureResult
) -> None:
    """Erase these payloads, or only count them."""
    # A crash before this line leaves these actions unchanged, a crash after this line leaves them erased.
    appends = [] if result.dry_run else [_append(order, now_us, each) for each in waiting]
    answers = store.append(appends) if appends else ()
    for each, answer in zip_longest(waiting, answers):
        if answer is None or isinstance(answer, Appended):
            result.actions += 1
            result.pieces += len(each.digests)
        else:
            result.left(each.record.id, "it changed just now")


def _append(order: ErasureOrder, now_us: int, each: _Candidate) -> Append:
    record, held = each.record, each.held
    events: list[SealedEvent] = []
    for start in range(0, len(each.digests), DIGESTS_AN_ENTRY_MAX):
        named: list[Json] = [*each.digests[start : start + DIGESTS_AN_ENTRY_MAX]]
        data: dict[str, Json] = {"digests": named, "reason": order.reason, "who": order.who}
        event = Event(EventKind.ERASED, now_us, (), data)
        envelope, leaf = seal(event, record.id, record.tenant, record.version + 1, record.head)
        record.apply(event, leaf.hex())
        events.append(SealedEvent(event.kind.value, now_us, envelope, leaf))
    return Append(
        record.id,
        record.tenant,
        held.version,
        held.fence,
        tuple(events),
        projection_of_saga(record) if isinstance(record, Saga) else projection_of(record),
        erases=Erasure(tuple(each.digests)),
    )
