"""Batch ledger reads of many actions on one event loop, for stores across a network.

Only the async driver and the worker use this module, for stores with batched reads. A local store answers at once on
the loop, quicker than a thread hop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Final, Generic, TypeAlias, TypeVar

from readback.drivers.executor import FallbackExecutor
from readback.drivers.group_commit import call_back, holding
from readback.engine.effects import (
    Lease,
    Leased,
    Load,
    LoadAction,
    LoadCounts,
    LoadPreconditions,
)
from readback.engine.resume import fold, woken
from readback.errors import StoreCorruptError
from readback.ports.runtime import Runtime
from readback.ports.storage.batch_reads import BatchReads, LeaseWanted
from readback.ports.storage.store import (
    Evidence,
    LedgerStore,
    Opened,
    StoredEvent,
    StoredProjection,
)

Q = TypeVar("Q")
A = TypeVar("A")
TOGETHER_MAX: Final = 256
"""Most questions in one batch. A loop with more in flight sends another batch."""
Asked: TypeAlias = LoadPreconditions | LoadAction | Load | LoadCounts | Lease
"""Effects answered here."""
THREADS_MAX: Final = 6
"""One thread for each kind of read, so that no kind waits for another."""


class BatchQueue(Generic[Q, A]):
    """Collects questions while a batch is in flight, and sends the next batch. `ask` answers each question in its
    place.
    """

    def __init__(
        self,
        ask: Callable[[list[Q]], Sequence[A]],
        threads: FallbackExecutor,
        runtime: Runtime,
        on_cancelled: Callable[[Q, A], None] | None = None,
    ) -> None:
        """`on_cancelled`: handles an answer whose task was cancelled before receiving it."""
        self._ask, self._threads, self._runtime, self._on_cancelled = ask, threads, runtime, on_cancelled
        self._queue: list[tuple[Q, asyncio.Future[A]]] = []
        self._busy = False
        self._under_way: tuple[list[Q], Future[Sequence[A | StoreCorruptError]]] | None = None

    async def answer(self, asked: Q) -> A:
        """Return the store's answer. Raises StoreError."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[A] = loop.create_future()
        self._queue.append((asked, future))
        if not self._busy:
            self._busy = True
            loop.call_soon(self._look, loop)  # include questions of this turn
        try:
            return await future
        except asyncio.CancelledError:
            if not future.cancelled() and future.exception() is None:  # the answer arrived in this turn
                self._drop(asked, future.result())
            raise

    def _drop(self, asked: Q, answer: A) -> None:
        on_cancelled = self._on_cancelled
        if on_cancelled is not None:
            self._threads.begin(lambda: on_cancelled(asked, answer))

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        batch, self._queue = self._queue[:TOGETHER_MAX], self._queue[TOGETHER_MAX:]
        if not batch:
            self._busy = False
            return
        hold = holding(self._runtime)
        hold.__enter__()

        def done(finished: Future[Sequence[A | StoreCorruptError]]) -> None:
            call_back(loop, self._settle, loop, batch, finished)
            hold.__exit__(None, None, None)

        questions = [asked for asked, _ in batch]
        work = self._threads.begin(lambda: self._answers(questions))
        self._under_way = questions, work
        work.add_done_callback(done)

    def end(self) -> None:
        """Drop the answers of the last batch, after the threads have ended."""
        if self._under_way is None or self._on_cancelled is None:
            return
        questions, work = self._under_way
        if work.exception() is None:
            for asked, answer in zip(questions, work.result(), strict=True):
                if not isinstance(answer, BaseException):
                    self._on_cancelled(asked, answer)

    def _answers(self, asked: list[Q]) -> Sequence[A | StoreCorruptError]:
        """Answer all questions. A corrupt action fails its own question only."""
        try:
            return self._ask(asked)
        except StoreCorruptError as error:
            if len(asked) == 1:
                return [error]
        return [answer for one in asked for answer in self._answers([one])]

    def _settle(
        self,
        loop: asyncio.AbstractEventLoop,
        batch: list[tuple[Q, asyncio.Future[A]]],
        work: Future[Sequence[A | StoreCorruptError]],
    ) -> None:
        self._under_way = None
        error = work.exception()
        for place, (asked, future) in enumerate(batch):
            answer = error or work.result()[place]
            if future.done():  # its task was cancelled
                if not isinstance(answer, BaseException):
                    self._drop(asked, answer)
            elif isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        loop.call_soon(self._look, loop)


class ReadBatcher:
    """The batch queues of one event loop, one for each kind of read."""

    def __init__(self, store: LedgerStore, runtime: Runtime, give_back: Callable[[Mapping[str, int]], None]) -> None:
        """`give_back`: releases leases, by action, acquired for a task cancelled meanwhile."""
        assert isinstance(store, BatchReads)
        self._store, self._runtime, self._give_back = store, runtime, give_back
        self._threads = threads = FallbackExecutor(THREADS_MAX, "readback-reader")
        self._openings: BatchQueue[LoadPreconditions, Opened] = BatchQueue(self._opened, threads, runtime)
        self._actions: BatchQueue[str, tuple[StoredProjection, list[StoredEvent]] | None] = BatchQueue(
            self._held, threads, runtime
        )
        self._evidence: BatchQueue[tuple[str, str, str], Evidence | None] = BatchQueue(
            store.evidence_of, threads, runtime
        )
        self._counts: BatchQueue[str, list[tuple[str, str, int]]] = BatchQueue(self._counted, threads, runtime)
        self._leases: BatchQueue[Lease, tuple[int | None, int]] = BatchQueue(
            self._leased, threads, runtime, self._on_cancelled
        )
        self._projections: BatchQueue[str, StoredProjection | None] = BatchQueue(self._stand, threads, runtime)

    async def answer(self, step: Asked) -> object:
        """Return the driver's result for this effect. Raises StoreError."""
        match step:
            case LoadPreconditions():
                return await self._openings.answer(step)
            case LoadAction(action_id):
                held = await self._actions.answer(action_id)
                return None if held is None else woken(fold(held[1]), held[0].projection.due_us)
            case Load(tenant, owner, digest):
                evidence = await self._evidence.answer((tenant, owner, digest))
                return None if evidence is None else evidence.body
            case LoadCounts(tenant):
                counts = await self._counts.answer(tenant)
                return {(subject, name): value for subject, name, value in counts}
            case Lease():
                now_us = self._runtime.now_us()
                fence, version = await self._leases.answer(step)
                return Leased(fence, version, now_us)

    async def apart(self, ask: Callable[[], object]) -> object:
        """Return the result of a read or write that has no batch, from a thread. Raises StoreError."""
        return await asyncio.wrap_future(self._threads.begin(ask))

    def _on_cancelled(self, step: Lease, answer: tuple[int | None, int]) -> None:
        fence, _ = answer
        if fence is not None:
            self._give_back({step.action_id: fence})

    async def projection(self, action_id: str) -> StoredProjection | None:
        """Return the store's projection of the action. Raises StoreError."""
        return await self._projections.answer(action_id)

    def close(self) -> None:
        """Wait for reads in flight, and release leases acquired by these reads."""
        self._threads.close()
        self._leases.end()

    # --- in a thread ---

    def _opened(self, steps: list[LoadPreconditions]) -> list[Opened]:
        return self._store.openings([(step.tenant, step.key_hash, step.subjects) for step in steps])

    def _held(self, ids: list[str]) -> list[tuple[StoredProjection, list[StoredEvent]] | None]:
        found = self._store.actions_of(list(dict.fromkeys(ids)))
        return [found.get(each) for each in ids]

    def _stand(self, ids: list[str]) -> list[StoredProjection | None]:
        found = self._store.projections_of(list(dict.fromkeys(ids)))
        return [found.get(each) for each in ids]

    def _counted(self, tenants: list[str]) -> list[list[tuple[str, str, int]]]:
        found = self._store.counts_of(list(dict.fromkeys(tenants)))
        return [found[tenant] for tenant in tenants]

    def _leased(self, steps: list[Lease]) -> list[tuple[int | None, int]]:
        """Return fence and version for each effect.

        If several workers ask for the same action, the first eligible one gets the lease. A caller with an outdated
        version gets no lease, even if the action moved between the reads. The lease of a provably dead owner does not
        count.
        """
        moved = self._versions([step.action_id for step in steps if step.version])
        wanted: dict[str, int] = {}
        taker: dict[str, int] = {}
        for place, step in enumerate(steps):
            if not step.version or moved.get(step.action_id, 0) == step.version:
                wanted.setdefault(step.action_id, step.until_us)
                taker.setdefault(step.action_id, place)
        fences = self._fences(wanted)
        refused = [action_id for action_id in wanted if action_id not in fences]
        if refused:
            fences |= self._fences(wanted, self._of_the_gone(refused))
        versions = self._versions([step.action_id for step in steps])
        asked = {action_id: steps[place].version for action_id, place in taker.items()}
        late = {each: fence for each, fence in fences.items() if asked[each] and versions.get(each, 0) != asked[each]}
        if late:
            self._give_back(late)
            fences = {each: fence for each, fence in fences.items() if each not in late}
        return [
            (
                fences.get(step.action_id) if taker.get(step.action_id) == place else None,
                versions.get(step.action_id, 0),
            )
            for place, step in enumerate(steps)
        ]

    def _fences(self, wanted: dict[str, int], dead: dict[str, str] | None = None) -> dict[str, int]:
        """Return the fences of the leases acquired.

        `dead`: ask for these actions only, each with its known dead owner.
        """
        asked = [
            LeaseWanted(action_id, until_us, (dead or {}).get(action_id, ""))
            for action_id, until_us in wanted.items()
            if dead is None or action_id in dead
        ]
        found = self._store.leases(asked, self._runtime.owner(), self._runtime.now_us()) if asked else []
        return {each.action_id: fence for each, fence in zip(asked, found, strict=True) if fence is not None}

    def _of_the_gone(self, action_ids: list[str]) -> dict[str, str]:
        """Return the dead owner of each action leased by a dead owner."""
        held = self._store.projections_of(action_ids)
        owners = {action_id: stored.projection.lease_owner for action_id, stored in held.items()}
        others = {owner for owner in owners.values() if owner and owner != self._runtime.owner()}
        gone = {owner for owner in others if self._runtime.is_owner_dead(owner)}
        return {action_id: owner for action_id, owner in owners.items() if owner in gone}

    def _versions(self, action_ids: list[str]) -> dict[str, int]:
        found = self._store.projections_of(list(dict.fromkeys(action_ids))) if action_ids else {}
        return {action_id: stored.version for action_id, stored in found.items()}


def projections_of(store: LedgerStore, action_ids: Sequence[str]) -> dict[str, StoredProjection]:
    """Return the projections of the existing actions among these, in one read if the store batches.

    Raises StoreError.
    """
    if isinstance(store, BatchReads):
        return store.projections_of(action_ids) if action_ids else {}
    held = ((action_id, store.projection(action_id)) for action_id in action_ids)
    return {action_id: stored for action_id, stored in held if stored is not None}
