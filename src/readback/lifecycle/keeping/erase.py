"""Erase: the payloads of settled actions are taken out of the ledger, and an entry of each action says so.

Called by the clients and by `readback ledger erase`. Entries stay as they are, and so do all proofs: they bind payloads
by digest, and the digest is kept. An entry `erased` and the end of the bytes are one append, so that a crash leaves an
action either as it was or erased; whoever erases again goes on where it stopped.

Steps: 1. choose the actions, and leave those at work. 2. of some thousand at a time, which payloads has each? 3. which
of those does any other action refer to? They are kept. 4. an entry each; the last action that has a payload takes its
bytes along. 5. the store's own files are cleaned of what was there.

What stands in entries (targets, ids, times, sentences) is out of its reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import Final

from readback.canon import Json, ReadbackError
from readback.canon.frozen import dataclass
from readback.domain.action import Action
from readback.domain.erasure import DIGESTS_AN_ENTRY_MAX, Erased, Erasing, let_go_by, payloads
from readback.domain.errors import NotFoundError, StoreCorruptError, StoreError
from readback.domain.errors.erasure import ErasureError
from readback.domain.events import Event, EventKind, Opened, open_envelope, seal
from readback.domain.saga.fold import Saga
from readback.lifecycle.audit.ledger import nobody
from readback.lifecycle.projection import projection_of
from readback.lifecycle.resume import fold_opened
from readback.lifecycle.saga_run import fold_saga, projection_of_saga
from readback.lifecycle.sealing.place import place_all
from readback.ports.store import Append, Appended, Erasure, LedgerStore, Projection, SealedEvent, StoredProjection
from readback.ports.store_rules import lease_is_live

ACTIONS_AT_ONCE_MAX: Final = 4_096
"""So many actions are looked at together; each look reads all other actions of the tenant once."""
APPENDS_AT_ONCE_MAX: Final = 64


def erase(
    store: LedgerStore,
    order: Erasing,
    now_us: int,
    *,
    dry_run: bool = False,
    progress: Callable[[int], None] = nobody,
) -> Erased:
    """Erases what the order names. `progress` is called with the number of actions done.

    Raises NotFoundError for a named action that the tenant does not have and ErasureError for one that is at work, and
    has erased nothing then; StoreError where the store fails, and what was erased by then is erased.
    """
    result, kept, done = Erased(dry_run=dry_run), set[str](), 0
    if not dry_run:
        place_all(store)  # an entry without a place counts as younger than what is looked at here
    for some in _in_pieces(_chosen(store, order, now_us, result)):  # 1
        piece = _Piece(store, order, now_us, result, kept)
        for held in some:
            piece.take(held)
        piece.look_around()  # 3
        if dry_run:
            piece.count()
        else:
            piece.erase()
        done += len(some)
        progress(done)
    result.shared = len(kept)
    if not dry_run:
        result.gone = store.purge()  # 5
    return result


# --- 1. which ---


def _chosen(store: LedgerStore, order: Erasing, now_us: int, result: Erased) -> Iterator[StoredProjection]:
    if order.action_ids:
        named = [_named(store, order.tenant, action_id) for action_id in dict.fromkeys(order.action_ids)]
        for held in named:
            why = why_not(store, held.projection, now_us)
            if why:
                raise ErasureError(f"{held.projection.action_id} is not erased: {why}. Nothing was erased.")
        yield from named
        return
    for held in store.projections():
        p = held.projection
        if p.tenant != order.tenant or (order.before_us is not None and p.updated_us >= order.before_us):
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
    """Why an action may not be erased now, as the end of a sentence; "" where it may."""
    why = _at_work(p, now_us)
    if why or not p.saga:
        return why
    saga = store.projection(p.saga)
    if saga is not None and _at_work(saga.projection, now_us):
        return f"its saga {p.saga} is still at work, and may have to reverse it"
    return ""


def _at_work(p: Projection, now_us: int) -> str:
    if lease_is_live(p.lease_owner, p.lease_until_us, now_us):
        return "it is being worked on"
    if p.review or p.hold:
        return f"a person has to look at it first ({p.review or p.hold})"
    return "it will be gone on with, or looked at again" if p.due_us is not None else ""


def _in_pieces(chosen: Iterable[StoredProjection]) -> Iterator[list[StoredProjection]]:
    some: list[StoredProjection] = []
    for held in chosen:
        some.append(held)
        if len(some) == ACTIONS_AT_ONCE_MAX:
            yield some
            some = []
    if some:
        yield some


# --- 2. to 4. one piece ---


@dataclass(slots=True)
class _Candidate:
    """One action that may be erased, and the payloads whose bytes are still there."""

    held: StoredProjection
    record: Action | Saga
    digests: list[str]
    news: bool
    """Whether any of them is not said to be erased yet."""


@dataclass(slots=True)
class _Piece:
    """Some actions that are erased together, and what is known of their payloads."""

    store: LedgerStore
    order: Erasing
    now_us: int
    result: Erased
    kept: set[str]
    """Payloads of what was erased up to here that stay for another action's sake; a later piece may end that."""
    candidates: list[_Candidate] = field(default_factory=list)
    looked_at: set[str] = field(default_factory=set)
    last: dict[str, str] = field(default_factory=dict)
    """By payload, the last candidate that refers to it: with its entry the bytes go."""
    shared: set[str] = field(default_factory=set)
    """Payloads that another action refers to."""
    as_of: int = 0

    def take(self, held: StoredProjection) -> None:
        """One more candidate, where there is anything left to erase."""
        action_id = held.projection.action_id
        events = self.store.events(action_id)
        self.as_of = self.as_of or self.store.last_seq()
        opened = [open_envelope(each.envelope) for each in events]
        try:
            saga = fold_saga(events) if opened and opened[0].event.kind is EventKind.SAGA_BEGUN else None
            leaves = (each.leaf for each in events)
            record = saga if saga is not None else fold_opened(zip(opened, leaves, strict=True))
        except ReadbackError as error:
            if isinstance(error, StoreError) and not isinstance(error, StoreCorruptError):
                raise
            self.result.left(action_id, f"its entries cannot be read: {error.message}")
            return
        if record is None or record.version != held.version:
            self.result.left(action_id, "it was moved on just now")
            return
        self._candidate(held, record, opened)

    def _candidate(self, held: StoredProjection, record: Action | Saga, opened: list[Opened]) -> None:
        tenant, gone = self.order.tenant, frozenset(record.erased)
        every = dict.fromkeys(digest for one in opened for digest in payloads(one.event))
        digests = [digest for digest in every if digest not in gone or not self.store.erased(tenant, digest)]
        # Bytes that were kept for somebody else's sake, when this one was erased, may have nobody left by now.
        candidate = _Candidate(held, record, digests, any(digest not in gone for digest in digests))
        self.looked_at.add(record.id)
        if not digests:
            self.result.already += 1
            return
        self.candidates.append(candidate)
        for digest in digests:
            self.last[digest] = record.id

    def look_around(self) -> None:
        """Which payloads does any other action refer to, that has not been erased?"""
        if not self.last:
            return
        for held in self.store.projections():
            p = held.projection
            if p.tenant != self.order.tenant or p.action_id in self.looked_at:
                continue
            self.shared |= self._referred(p.action_id)
            if len(self.shared) == len(self.last):
                return

    def _referred(self, action_id: str) -> set[str]:
        opened = [open_envelope(each.envelope) for each in self.store.events(action_id)]
        found = {digest for one in opened for digest in payloads(one.event) if digest in self.last}
        return found - let_go_by(opened) if found else found

    def _catch_up(self) -> None:
        """What was appended since: so that the store has little to look at again inside its transaction."""
        place_all(self.store)
        for stored in self.store.scan(self.as_of):
            self.as_of = stored.seq
            if stored.kind != EventKind.ERASED.value and stored.action_id not in self.looked_at:
                opened = open_envelope(stored.envelope)
                if opened.tenant == self.order.tenant:
                    self.shared.update(digest for digest in payloads(opened.event) if digest in self.last)

    def count(self) -> None:
        """What `erase` would do."""
        for each in self._worth_it():
            self.result.actions += 1
            self._counted(each)

    def erase(self) -> None:
        """An entry each. Bytes that several of these actions have go with the last of them."""
        waiting: list[tuple[_Candidate, Append]] = []
        among: set[str] = set()
        for each in self._worth_it():
            if len(waiting) == APPENDS_AT_ONCE_MAX or not among.isdisjoint(each.digests):
                self._commit(waiting)
                self._catch_up()
                waiting, among = [], set()
            waiting.append((each, self._append(each)))
            among.update(each.digests)
        self._commit(waiting)

    def _worth_it(self) -> Iterator[_Candidate]:
        for each in self.candidates:
            if each.news or any(digest not in self.shared for digest in each.digests):
                yield each
            else:
                self.result.already += 1

    def _goes(self, each: _Candidate) -> list[str]:
        """The payloads whose bytes go with this one's entry."""
        mine = each.record.id
        return [digest for digest in each.digests if self.last[digest] == mine and digest not in self.shared]

    def _counted(self, each: _Candidate) -> None:
        gone = self._goes(each)
        self.result.pieces += len(gone)
        self.kept.difference_update(gone)
        self.kept.update(digest for digest in each.digests if digest in self.shared)

    def _append(self, each: _Candidate) -> Append:
        record, held = each.record, each.held
        events: list[SealedEvent] = []
        for start in range(0, len(each.digests), DIGESTS_AN_ENTRY_MAX):
            named: list[Json] = [*each.digests[start : start + DIGESTS_AN_ENTRY_MAX]]
            data: dict[str, Json] = {"digests": named, "reason": self.order.reason, "who": self.order.who}
            event = Event(EventKind.ERASED, self.now_us, (), data)
            envelope, leaf = seal(event, record.id, record.tenant, record.version + 1, record.head)
            record.apply(event, leaf.hex())
            events.append(SealedEvent(event.kind.value, self.now_us, envelope, leaf))
        return Append(
            record.id,
            record.tenant,
            held.version,
            held.fence,
            tuple(events),
            projection_of_saga(record) if isinstance(record, Saga) else projection_of(record),
            erases=Erasure(tuple(self._goes(each)), self.as_of),
        )

    def _commit(self, waiting: list[tuple[_Candidate, Append]]) -> None:
        if not waiting:
            return
        # A crash before this line leaves these actions as they were, a crash after it leaves them erased.
        results = self.store.append([append for _, append in waiting])
        for (each, _), answer in zip(waiting, results, strict=True):
            if isinstance(answer, Appended):
                self.result.actions += 1
                self._counted(each)
            else:
                # It was moved on meanwhile, and keeps its payloads; who shares them with it must not take them along.
                self.shared.update(each.digests)
                self.result.left(each.record.id, "it was moved on just now")
