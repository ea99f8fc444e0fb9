"""Wake-ups by procrastinate, on the ledger's PostgreSQL: workers on any number of machines.

Chosen by `bootstrap` for ledgers on PostgreSQL. The store defers a job for a soon-due action in the ledger's own
transaction. This module fetches and ends the jobs, fairly: each tenant and contract version has a queue of its own, so
no worker scans jobs it cannot resume. A sweep of the ledger finds actions due much later, and lost jobs. The queue
decides nothing, and forgetting a job loses nothing: its own transactions need not be durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import cycle, islice
from typing import Any, Final, ParamSpec, TypeVar, cast

import psycopg
import psycopg_pool
from procrastinate import PsycopgConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.manager import JobManager
from procrastinate.schema import SchemaManager
from psycopg import sql

from readback.errors import StoreError
from readback.ports.runtime import Runtime
from readback.ports.storage.batch_reads import BatchReads
from readback.ports.storage.contract_filter import ContractFilter, key_of
from readback.ports.storage.store import LedgerStore
from readback.ports.storage.wakeups import (
    HEARTBEAT_TIMEOUT_US,
    HEARTBEATS_IN_TIMEOUT,
    PART_HEX_DIGITS,
    QUEUE,
    TASK,
    US,
    Wakeup,
    due_in_turn,
    part_of,
    queue_of,
)

P = ParamSpec("P")
T = TypeVar("T")

CONNECTIONS_MAX: Final = 2
"""Connections of one worker for fetching and ending jobs. One more connection listens."""
CONNECT_TIMEOUT_S: Final = 10
SWEEP_EVERY_US: Final = US // 4
"""Interval of the search for due actions without a job. The sweep wakes actions due after a long wait."""
SWEPT_MAX: Final = 256
SWEEPING_SPARED: Final = 19
"""Pause after a sweep, in multiples of its duration. Sweeps take at most a twentieth of the time."""
CANCEL_AGAIN_SECONDS: Final = 0.5
LATER_MS: Final = 500
"""Delay for a job this worker rejects, for all workers, to prevent its immediate return."""
UNREACHABLE: Final = "store.unreachable"

_OWN: Final = """
CREATE TABLE IF NOT EXISTS wakeup_worker (
    worker_id bigint PRIMARY KEY, owner text NOT NULL, since timestamptz NOT NULL DEFAULT now());
CREATE INDEX IF NOT EXISTS wakeup_action ON procrastinate_jobs ((args ->> 'action'));
CREATE INDEX IF NOT EXISTS wakeup_first ON procrastinate_jobs (queue_name, priority DESC, id) WHERE status = 'todo';
"""
_QUEUES: Final = """
WITH RECURSIVE each(name) AS (
    (SELECT queue_name FROM procrastinate_jobs ORDER BY queue_name LIMIT 1)
    UNION ALL
    SELECT (SELECT queue_name FROM procrastinate_jobs WHERE queue_name > each.name ORDER BY queue_name LIMIT 1)
    FROM each WHERE each.name IS NOT NULL)
SELECT name FROM each WHERE name IS NOT NULL
"""
"""The queues with jobs, found by skipping through an index."""
_FETCH: Final = """
WITH found AS MATERIALIZED (
    SELECT first.id
    FROM (SELECT queue, count(*) AS turns FROM unnest(%(queues)s::text[]) AS each(queue) GROUP BY queue) AS asked
    CROSS JOIN LATERAL (
        SELECT id FROM procrastinate_jobs
        WHERE status = 'todo' AND queue_name = asked.queue AND (scheduled_at IS NULL OR scheduled_at <= now())
        ORDER BY priority DESC, id LIMIT asked.turns FOR UPDATE SKIP LOCKED) AS first)
UPDATE procrastinate_jobs AS job SET status = 'doing', worker_id = %(worker)s FROM found WHERE job.id = found.id
RETURNING job.queue_name AS queue, job.priority, job.id, job.args ->> 'action' AS action
"""
"""Like the queue's own `procrastinate_fetch_job_v2` for a job without lock, but for many jobs of several queues. The
original scans the jobs of all queues for the first job of one queue.
"""
_SWEEP: Final = """
WITH alone AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(hashtext('readback sweep'), hashtext(%(schema)s)) AS mine)
SELECT procrastinate_defer_jobs_v1(array_agg(
    ROW(queue, %(task)s, 0, NULL, NULL, jsonb_build_object('action', due.action), NULL)::procrastinate_job_to_defer_v1))
FROM alone, unnest(%(ids)s::text[], %(queues)s::text[]) AS due(action, queue)
WHERE mine AND NOT EXISTS (
    SELECT 1 FROM procrastinate_jobs
    WHERE args ->> 'action' = due.action AND queue_name = due.queue AND status IN ('todo', 'doing'))
HAVING count(*) > 0
"""
_SILENT: Final = """
SELECT owner FROM wakeup_worker LEFT JOIN procrastinate_workers ON id = worker_id
GROUP BY owner HAVING bool_and(id IS NULL)
"""
_FORGET: Final = """
DELETE FROM wakeup_worker WHERE since < now() - interval '1 day'
    AND worker_id NOT IN (SELECT id FROM procrastinate_workers) RETURNING owner
"""
_FINISH: Final = """
SELECT procrastinate_finish_job_v1(id, 'succeeded', true) AS done FROM procrastinate_jobs
WHERE id = ANY(%(ids)s) AND status IN ('todo', 'doing')
"""
_PUT_BACK: Final = """
SELECT procrastinate_retry_job_v2(%(id)s, now() + %(ms)s * interval '1 millisecond', NULL, NULL, NULL) AS done
"""
"""By the database's clock: hosts' clocks may differ."""
_PUT_BACK_STALLED: Final = """
WITH stalled AS MATERIALIZED (
    SELECT job.id FROM procrastinate_jobs AS job
    WHERE job.status = 'doing' AND job.task_name = %(task)s AND NOT EXISTS (
        SELECT 1 FROM procrastinate_workers AS worker WHERE worker.id = job.worker_id
        AND worker.last_heartbeat >= now() - %(timeout)s * interval '1 second')
    FOR UPDATE OF job SKIP LOCKED)
SELECT procrastinate_retry_job_v2(id, now(), NULL, NULL, NULL) AS done FROM stalled
"""
"""Puts back all jobs of dead workers in one statement. Of several detecting workers, one does the work."""
_RECALL: Final = """
WITH unheard AS MATERIALIZED (
    SELECT id FROM procrastinate_jobs
    WHERE status = 'doing' AND worker_id = %(worker)s AND id <> ALL(%(known)s) FOR UPDATE SKIP LOCKED)
SELECT procrastinate_retry_job_v2(id, now(), NULL, NULL, NULL) AS done FROM unheard
"""
"""Puts back jobs assigned to this worker but unknown here: the reply to a fetch or put-back was lost."""
_STIR: Final = 'SELECT pg_notify(\'procrastinate_any_queue_v1\', \'{"type": "job_inserted", "job_id": 0}\')'
"""Notifies all waiting workers. The queue itself notifies only about new jobs."""


class ProcrastinateWakeups:
    """Implements `Wakeups`. Each worker has its own instance."""

    def __init__(
        self, store: LedgerStore, runtime: Runtime, url: str, schema: str, timeout_us: int = HEARTBEAT_TIMEOUT_US
    ) -> None:
        """`url`: for libpq. `schema`: the schema of the ledger and the queue. `timeout_us`: the heartbeat timeout."""
        self._store, self._runtime = store, runtime
        self._url, self._schema, self._timeout_s = url, schema, timeout_us / US
        self._connector = PsycopgConnector(
            conninfo=url,
            min_size=1,
            max_size=CONNECTIONS_MAX,
            timeout=CONNECT_TIMEOUT_S,
            kwargs={"connect_timeout": CONNECT_TIMEOUT_S},
            configure=self._configure,
        )
        self._jobs = JobManager(self._connector)
        self._worker = 0
        self._listening: asyncio.Task[None] | None = None
        self._stirred = asyncio.Event()
        self._opening = asyncio.Lock()
        self._in_hand: set[int] = set()
        self._over: list[int] = []
        """Finished jobs, not yet reported to the queue."""
        self._unsure = False
        """A statement failed, with unknown effect."""
        self._last = ""
        """The last served queue. The next round begins after this queue."""
        self._sweep_us = 0
        self._able: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
        self._left: set[str] = set()
        """Queues of unknown contract versions whose handover time is over."""
        self._closed = False

    @property
    def beat_every_us(self) -> int:
        return int(self._timeout_s * US / HEARTBEATS_IN_TIMEOUT)

    async def take(
        self,
        tenants: Sequence[str],
        limit: int,
        leave: Collection[str] = (),
        full: Collection[str] = (),
        known: ContractFilter | None = None,
    ) -> list[Wakeup]:
        self._stirred.clear()
        async with self._asked():
            await self._finish()
            await self._recall()
            await self._sweep(tenants, known)
            found: list[Wakeup] = []
            try:
                await self._collect(found, await self._queues(tenants, full, known), limit, set(leave))
            except BaseException:  # no job is taken then: fetched jobs are recalled
                self._in_hand.difference_update(each.ticket for each in found)
                raise
            return found

    async def _collect(self, found: list[Wakeup], waiting: list[str], limit: int, held: set[str]) -> None:
        """Collect up to `limit` jobs of these queues. `held`: actions in progress, or skipped."""
        while waiting and len(found) < limit:
            asked = in_turn(waiting, limit - len(found))
            some = await self._fetch(asked)
            empty = set(asked) - {queue for queue, _ in some}
            waiting = [queue for queue in waiting if queue not in empty]
            for queue, wakeup in some:
                self._last = queue
                self._in_hand.add(wakeup.ticket)
                if wakeup.action_id in held:
                    await self._put_back(wakeup.ticket, LATER_MS)
                    continue
                held.add(wakeup.action_id)
                found.append(wakeup)

    async def done(self, wakeup: Wakeup) -> None:
        """Report the job to the queue at the next access, together with others."""
        self._in_hand.discard(wakeup.ticket)
        self._over.append(wakeup.ticket)

    async def later(self, wakeup: Wakeup, at_us: int) -> None:
        """Put the job back. This worker itself skips the action until `at_us`."""
        async with self._asked():
            await self._put_back(wakeup.ticket, LATER_MS)

    async def beat(self) -> list[str]:
        async with self._asked():
            held = set(await _aside(self._store.owners))
            found = {owner for owner in held if self._runtime.is_owner_dead(owner)}
            if not await self._is_known():
                await self._register()
            await self._jobs.update_heartbeat(self._worker)
            await self._jobs.prune_stalled_workers(self._timeout_s)
            found |= held & {str(row["owner"]) for row in await self._rows(_SILENT)}
            # First the leases: a worker woken for an action must be able to lease the action.
            await _aside(self._release, found)
            if await self._rows(_PUT_BACK_STALLED, task=TASK, timeout=self._timeout_s):
                await self._rows(_STIR)
            await self._rows(_FORGET)
            return sorted(found)

    def _release(self, owners: set[str]) -> None:
        for owner in sorted(owners):
            self._store.release(owner)

    async def next_us(self, tenants: Sequence[str]) -> int | None:
        found = [await _aside(self._store.next_due_us, tenant) for tenant in tenants or ("",)]
        return min((at_us for at_us in found if at_us is not None), default=None)

    async def pause(self, seconds: float) -> None:
        slept = asyncio.ensure_future(self._runtime.sleep_async(seconds))
        stirred = asyncio.ensure_future(self._stirred.wait())
        try:
            await asyncio.wait({slept, stirred}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            slept.cancel()
            stirred.cancel()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._listening is not None:
            await _ended(self._listening)
        if self._worker:
            with suppress(ConnectorException, psycopg.Error):  # the heartbeat finds remaining jobs
                await self._finish()
                for ticket in [*self._in_hand]:
                    await self._put_back(ticket, 0)
                await self._jobs.unregister_worker(self._worker)
                await self._rows(
                    "DELETE FROM wakeup_worker WHERE worker_id = %(worker)s RETURNING 1", worker=self._worker
                )
        await self._connector.close_async()

    # --- what is fetched -----------------------------------------------------------------------------

    async def _queues(self, tenants: Sequence[str], full: Collection[str], known: ContractFilter | None) -> list[str]:
        """Return the queues with jobs for this worker, starting after the last served queue."""
        served, left_out = set(map(part_of, tenants)), set(map(part_of, full))
        able = None if known is None else self._parts(known)
        named = []
        for row in await self._rows(_QUEUES):
            name = str(row["name"])
            tenant, key = parts_of(name)
            if tenant not in left_out and (not served or tenant in served):
                if able is None or key in able or name in self._left:
                    named.append(name)
        return [name for name in named if name > self._last] + [name for name in named if name <= self._last]

    def _parts(self, known: ContractFilter) -> frozenset[str]:
        """Return the parts of queue names for the known contracts. They rarely change."""
        keys = known.keys
        if keys != self._able[0]:
            self._able = (keys, frozenset(map(part_of, keys)))
        return self._able[1]

    async def _fetch(self, queues: list[str]) -> list[tuple[str, Wakeup]]:
        """Fetch the first job of each queue, once for each mention, in one statement. The result has the order of
        `queues`.
        """
        rows = await self._rows(_FETCH, queues=queues, worker=self._worker)
        rows.sort(key=lambda row: (row["priority"], -row["id"]))  # the first job of each queue is last
        by_queue: dict[str, list[Wakeup]] = {}
        for row in rows:
            by_queue.setdefault(str(row["queue"]), []).append(Wakeup(str(row["action"]), int(row["id"])))
        return [(queue, by_queue[queue].pop()) for queue in queues if by_queue.get(queue)]

    async def _sweep(self, tenants: Sequence[str], known: ContractFilter | None) -> None:
        """Create jobs for due actions without a job, after a long wait or a lost job. Takes a small share of the time,
        even with many due actions of other workers.
        """
        began_us = self._runtime.now_us()
        if began_us < self._sweep_us:
            return
        due = await _aside(self._due, tenants, began_us, known)
        if due:
            ids, queues = zip(*due, strict=True)
            await self._rows(_SWEEP, schema=self._schema, task=TASK, ours=QUEUE, ids=list(ids), queues=list(queues))
        # Actions of other versions, still without a worker that knows the version.
        able = None if known is None else self._parts(known)
        self._left = set() if able is None else {queue for _, queue in due if parts_of(queue)[1] not in able}
        now_us = self._runtime.now_us()
        self._sweep_us = now_us + max(SWEEP_EVERY_US, SWEEPING_SPARED * (now_us - began_us))

    def _due(self, tenants: Sequence[str], now_us: int, known: ContractFilter | None) -> list[tuple[str, str]]:
        """Return due actions with their queues."""
        store = self._store
        ids = due_in_turn(store, tenants, now_us, SWEPT_MAX, known)
        if isinstance(store, BatchReads):
            found = store.projections_of(ids) if ids else {}
            held = [found.get(each) for each in ids]
        else:
            held = [store.projection(each) for each in ids]
        stand = [each.projection for each in held if each is not None]
        return [(p.action_id, queue_of(p.tenant, key_of(p))) for p in stand]

    async def _finish(self) -> None:
        """End finished jobs. Another worker ends the jobs taken from this worker as dead."""
        over = self._over[:]
        if over:
            await self._rows(_FINISH, ids=over)
            del self._over[: len(over)]

    async def _recall(self) -> None:
        """Put back jobs unknown to this worker. No other worker gets a living worker's jobs, so they would wait for its
        end.
        """
        if self._unsure:
            self._unsure = False
            await self._rows(_RECALL, worker=self._worker, known=[*self._in_hand, *self._over])

    async def _put_back(self, ticket: int, delay_ms: int) -> None:
        self._in_hand.discard(ticket)
        with suppress(ConnectorException):  # another worker ended the job or put it back, or a recall follows
            await self._rows(_PUT_BACK, id=ticket, ms=delay_ms)

    # --- being there ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def _asked(self) -> AsyncIterator[None]:
        """Open the queue, and translate its errors into store errors."""
        try:
            async with self._opening:
                if not self._worker:
                    await self._open()
            yield
        except (ConnectorException, psycopg.Error, psycopg_pool.PoolTimeout, psycopg_pool.PoolClosed) as error:
            said = f"The wake-up queue of the ledger is unavailable: {error.__cause__ or error}"
            raise StoreError(
                said, remedy="Check the server of the queue. The ledger itself is not affected.", code=UNREACHABLE
            ) from error

    async def _configure(self, connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.set_autocommit(True)
        await connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(self._schema)))
        await connection.execute("SET synchronous_commit TO off")
        # Use the index of waiting jobs, even if the statistics are from an empty table.
        for setting in ("enable_seqscan", "enable_bitmapscan", "jit"):
            await connection.execute(f"SET {setting} TO off")

    async def _open(self) -> None:
        await self._connector.open_async()
        async with self._connector.pool.connection() as connection, connection.transaction():
            await connection.execute(
                "SELECT pg_advisory_xact_lock(hashtext('readback queue'), hashtext(%s))", [self._schema]
            )
            found = await (await connection.execute("SELECT to_regclass('procrastinate_jobs')")).fetchone()
            if found is None or found[0] is None:
                await connection.execute(SchemaManager.get_schema())
            await connection.execute(_OWN)
        await self._register()
        self._listening = asyncio.create_task(self._listen(), name="readback-wakeups")

    async def _register(self) -> None:
        worker = await self._jobs.register_worker()
        await self._rows(
            "INSERT INTO wakeup_worker (worker_id, owner) VALUES (%(worker)s, %(owner)s) RETURNING 1",
            worker=worker,
            owner=self._runtime.owner(),
        )
        self._worker = worker  # only now: the owner of its leases must be on record first

    async def _is_known(self) -> bool:
        """Return whether the queue still knows this worker. False after a silence mistaken for the worker's end."""
        return bool(await self._rows("SELECT 1 FROM procrastinate_workers WHERE id = %(worker)s", worker=self._worker))

    async def _listen(self) -> None:
        async def heard(*, channel: str, notification: object) -> None:
            self._stirred.set()

        while True:
            with suppress(ConnectorException, psycopg.Error, psycopg_pool.PoolTimeout):  # `pause` ends in time
                await self._jobs.listen_for_jobs(on_notification=heard)
            await self._runtime.sleep_async(1.0)

    async def _rows(self, query: str, **values: object) -> list[dict[str, Any]]:
        try:
            found = await self._connector.execute_query_all_async(cast("Any", query), **values)
        except BaseException:
            self._unsure = True
            raise
        return cast("list[dict[str, Any]]", found)


async def _aside(look: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Call in a thread, so the event loop keeps running. Without an available thread, call here: a missed heartbeat
    would end the worker.
    """
    try:
        return await asyncio.to_thread(look, *given, **named)
    except RuntimeError:
        return look(*given, **named)


async def _ended(task: asyncio.Task[None]) -> None:
    """Cancel a task until the task has ended.

    Before Python 3.12 a wait with a timeout drops a cancellation that arrives together with the awaited result. A
    single cancellation could then wait forever.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=CANCEL_AGAIN_SECONDS)
    with suppress(asyncio.CancelledError, ConnectorException, psycopg.Error):
        task.result()


def parts_of(queue: str) -> tuple[str, str]:
    """Return the parts for tenant and contract in the name of a queue."""
    return queue[-2 * PART_HEX_DIGITS : -PART_HEX_DIGITS], queue[-PART_HEX_DIGITS:]


def in_turn(queues: Sequence[str], limit: int) -> list[str]:
    """Share turns evenly among tenants, and each tenant's turns among its queues. Return the queues in order."""
    by_tenant: dict[str, list[str]] = {}
    for queue in queues:
        by_tenant.setdefault(parts_of(queue)[0], []).append(queue)
    turns = [cycle(some) for some in by_tenant.values()]
    return [next(each) for each in islice(cycle(turns), limit)]
