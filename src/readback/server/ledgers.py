"""The open ledgers of a server: one client for each caller on one shared session, and a ledger of tests apart.

Every client of a server shares the store, the writer, the contracts and the threads, and differs in its tenant and
principal alone. Tests have a ledger, contracts and a worker of their own, because a worker finds a contract by its
name: the real ledger's worker must never meet a test's action, and the tests' worker knows sandboxes alone.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from readback.bootstrap import MEMORY_URL
from readback.canon import Json, ReadbackError
from readback.client.async_client import AsyncReadback
from readback.client.operations import attempts
from readback.client.operations.worker import Worker, worker_for
from readback.client.proposal import Proposal
from readback.client.session import Session
from readback.client.step import SagaStep
from readback.config import Settings
from readback.contracts.registry import Loadable, Registry
from readback.contracts.sandbox_actions import safe_twin
from readback.domain.outcome.outcome import Outcome
from readback.domain.tracing.trace_context import parse_traceparent
from readback.drivers.driver_async import AsyncDriver
from readback.engine import coordinator, external_attempts
from readback.engine.compiled_contract import CompiledContract
from readback.engine.saga import attend as saga_attend
from readback.errors import DrillRefusedError, NotFoundError, StoreError
from readback.server.access.principal import Caller
from readback.server.access.webhooks import Sender, Senders
from readback.server.errors import NoSandboxError
from readback.server.hub import Hub
from readback.telemetry.fold_reader import LedgerMetrics

LOG: Final = logging.getLogger("readback.server")
ActionHandle = coordinator.ActionHandle
CLIENTS_MAX: Final = 4_096
STORE_AGAIN_S: Final = 5
CHECK_S: Final = 2.0
"""Time limit in seconds of a look at the ledger for a health check."""
METRICS_MAX: Final = 64
"""The number of tenants with remembered metrics."""
POLL_S: Final = 1.0
WORKER_CONCURRENCY: Final = 64


@contextmanager
def consuming(proposals: Sequence[Any]) -> Iterator[None]:
    """Count the proposals as used where the block raises: the caller gets the error, and nothing runs."""
    try:
        yield
    except ReadbackError:
        for each in proposals:
            if not each.used:
                each.mark_run()
        raise


class ServerClient(AsyncReadback):
    """A client in the name of one caller, on the server's session and driver. Closing the ledgers closes the client."""

    def __init__(self, session: Session, driver: AsyncDriver) -> None:
        self._session = session
        self._driver = driver
        self._worker = None

    @property
    def session(self) -> Session:
        """The caller's view of the session."""
        return self._session

    @property
    def driver(self) -> AsyncDriver:
        """The shared driver."""
        return self._driver

    def started(
        self,
        proposal: Proposal,
        ticket: ActionHandle,
        *,
        operation: str,
        wait: float,
        intended: dict[str, Json] | None,
        step: str,
        claims: Sequence[str],
        run: str | None,
    ) -> Coroutine[Any, Any, Outcome]:
        """Run the proposal like `run`. The ticket receives the action's id before the action is recorded.

        The goal is a part of the payload, as the body of a request with an Idempotency-Key is.

        Raises InputError, before the coroutine exists, for a proposal that cannot be run.
        """
        s = self._session
        with consuming([proposal]):
            until_us = s.give_up_us(wait)
            request = replace(s.request(proposal, operation, intended, step, tuple(claims)), binds_goal=True)
        work = coordinator.begin(s.engine, request, s.scope_of(run), s.plan_of, ticket)
        return self._told(work, ticket, until_us, in_turn=not request.plan.hands.execute.is_async)

    def started_saga(
        self, steps: Sequence[SagaStep], ticket: ActionHandle, *, name: str, operation: str, wait: float, run: str
    ) -> Coroutine[Any, Any, Outcome]:
        """Run the steps like `saga`. The ticket receives the saga's id before the saga is recorded."""
        s = self._session
        until_us = s.give_up_us(wait)
        with consuming([each.proposal for each in steps]):
            request = s.saga_request(steps, name, operation)
        return self._told(saga_attend.begin(s.engine, request, s.scope_of(run), s.plan_of, ticket), ticket, until_us)

    async def waited(self, action_id: str, ticket: ActionHandle, wait: float) -> Outcome:
        """Wait like `wait`, for an id of the caller's tenant. The ticket receives the action's id."""
        s = self._session
        ticket.action_id = await self._named(action_id)
        return await self._told(s.stay(ticket.action_id), ticket, s.give_up_us(wait))

    async def reported(
        self, action_id: str, ticket: ActionHandle, value: object, error: str | None, wait: float
    ) -> Outcome:
        """Record a report like `report`, and wait. The ticket receives the action's id."""
        s = self._session
        ticket.action_id = await self._named(action_id)
        said = attempts.report_of(value, error)
        work = external_attempts.complete_external(s.engine, ticket.action_id, s.scope.tenant, s.plan_of, said)
        return await self._told(work, ticket, s.give_up_us(wait))

    def traced(self, traceparent: str) -> ServerClient:
        """Return the same client for one request in a caller's trace. A malformed header counts as none."""
        found = parse_traceparent(traceparent) if traceparent else None
        if found is None:
            return self
        view = copy.copy(self._session)
        view.scope = replace(view.scope, trace=found.trace_id, parent_span=found.span_id, sampled=found.sampled)
        return ServerClient(view, self._driver)


@dataclass(slots=True)
class Ledger:
    """One open ledger: the session, the driver, and the worker for due actions."""

    session: Session
    driver: AsyncDriver
    worker: Worker | None = None
    clients: dict[tuple[str, str], ServerClient] = field(default_factory=dict)

    @classmethod
    def open(cls, settings: Settings, url: str, *, tells: bool = True) -> Ledger:
        """Open the ledger at `url` with the settings' approvers, limits and subscribers. Raises as `Session.open`.

        `tells`: False for a ledger whose entries no subscriber receives.
        """
        session = Session.open(
            url,
            tenant=settings.tenant,
            principal=settings.principal,
            run="",
            plan="",
            task_state="",
            boundary="",
            trace="",
            budget=None,
            break_glass="",
            actions=(),
            runtime=None,
            store=None,
            recovery_table=settings.recovery_table or None,
            approvers=settings.approvers,
            tells=tells,
        )
        return cls(session, AsyncDriver(session.store, session.runtime, session.courier, gathers=True))

    def client(self, caller: Caller) -> ServerClient:
        """Return the client of a tenant and principal."""
        key = (caller.tenant, caller.principal)
        found = self.clients.get(key)
        if found is None:
            view = copy.copy(self.session)  # the store, the plans and the courier are shared
            view.scope = replace(view.scope, tenant=caller.tenant, principal=caller.principal)
            found = self.clients[key] = ServerClient(view, self.driver)
            while len(self.clients) > CLIENTS_MAX:
                del self.clients[next(iter(self.clients))]
        return found

    async def work(self) -> None:
        """Process due actions of every tenant until `stop`. Raises StoreError."""
        self.worker = worker_for(
            self.session,
            concurrency=WORKER_CONCURRENCY,
            tenants=(),
            all_tenants=True,
            until_idle=False,
            poll=POLL_S,
            handover=None,
        )
        await self.worker.stay()

    def stop(self) -> None:
        """End `work` after the actions in progress."""
        if self.worker is not None:
            self.worker.stop()

    def close(self) -> None:
        """Release leases of this process, threads and files."""
        self.session.store.release(self.session.runtime.owner())
        self.driver.close()
        self.session.close()


@dataclass(frozen=True, slots=True)
class _Sandbox:
    """The definition behind a test's proposal: the sandbox's own plan."""

    name: str
    plan: CompiledContract


class Ledgers:
    """The ledger, the ledger of tests, and the contracts of a server.

    Args:
        settings: The ledger's settings.
        registry: The loaded contracts; None for a server that starts no actions.
        test_url: The ledger of tests; the default lives in memory and ends with the server.
    """

    def __init__(
        self,
        settings: Settings,
        registry: Registry | None,
        *,
        webhooks: Mapping[str, Sender] | None = None,
        test_url: str = MEMORY_URL,
    ) -> None:
        self.settings = settings
        self.registry = registry or Registry()
        plans = self.registry.load()
        self.senders = Senders(webhooks or {})
        self.main = Ledger.open(settings, settings.url)
        self.hub = Hub(self.main.session)
        self._metrics: dict[str, LedgerMetrics] = {}
        self.stopping = False
        self._works = False
        self._workers: list[asyncio.Task[None]] = []
        self._test_url = test_url
        self._tests: Ledger | None = None
        self.in_progress: set[tuple[str, str, str, bool]] = set()
        """Requests in this process that start an action: tenant, contract, operation, and whether a test."""
        self._work: set[asyncio.Task[Any]] = set()
        self._waiting: set[asyncio.Future[None]] = set()
        self._checking: asyncio.Future[int] | None = None
        for plan in plans.values():
            self.main.session.know(plan)

    @property
    def plans(self) -> Mapping[str, CompiledContract]:
        """The loaded contracts by name."""
        return self.main.session.plans

    def definition(self, contract: str) -> Loadable:
        """Return a loaded contract by name. Raises NotFoundError."""
        if contract not in self.registry:
            raise NotFoundError(
                f"The server has no contract {contract!r:.80}.", remedy="See GET /v1/contracts for the contracts."
            )
        return self.registry.get(contract)

    def sandboxed(self, definition: Any, arguments: Mapping[str, Json]) -> Proposal:
        """Return the proposal of a contract's sandbox, and load the sandbox into the ledger of tests.

        Raises NoSandboxError where the contract declares no sandbox for these arguments. ArgumentError, OversizeError.
        """
        try:
            plan, bound, requested = safe_twin(definition, definition.declared_twin, arguments)
        except DrillRefusedError as error:
            raise NoSandboxError(error.message) from error
        self.tests.session.know(plan)
        return Proposal(_Sandbox(plan.contract.name, plan), bound, requested)

    @property
    def runtime(self) -> Any:
        """Clock, sleep and ids."""
        return self.main.session.runtime

    @property
    def tests(self) -> Ledger:
        """The ledger of tests, opened at its first use. Raises StoreError."""
        if self._tests is None:
            self._tests = Ledger.open(replace(self.settings, url=self._test_url), self._test_url, tells=False)
            if self._works:
                self._workers.append(asyncio.get_running_loop().create_task(self._working(self._tests)))
        return self._tests

    def metrics(self, tenant: str) -> LedgerMetrics:
        """Return the reader of one tenant's metrics."""
        found = self._metrics.pop(tenant, None)
        if found is None:
            session = self.main.session
            found = LedgerMetrics(session.store, session.runtime.now_us, tenants=(tenant,))
        self._metrics[tenant] = found
        while len(self._metrics) > METRICS_MAX:
            del self._metrics[next(iter(self._metrics))]
        return found

    def begin_work(self) -> None:
        """Start the worker for due actions of every tenant, and one for tests as soon as there are tests."""
        self._works = True
        self._workers.append(asyncio.get_running_loop().create_task(self._working(self.main)))

    async def _working(self, ledger: Ledger) -> None:
        """Work until the server stops. A store that is away ends the work for a while, and not for good."""
        while self._works:
            try:
                await ledger.work()
            except StoreError as error:
                LOG.error("the worker stopped: %s; it starts again in %d seconds", error.code, STORE_AGAIN_S)
                await ledger.session.runtime.sleep_async(STORE_AGAIN_S)
            else:
                break

    async def check(self) -> None:
        """Read the ledger's last position. Requests at the same time share one look.

        Raises StoreError for a ledger that cannot be read, and for one that does not answer within CHECK_S.
        """
        if self._checking is None or self._checking.done():
            self._checking = asyncio.ensure_future(asyncio.to_thread(self.main.session.store.last_seq))
        done, _ = await asyncio.wait({self._checking}, timeout=CHECK_S)
        if not done:
            said = f"The ledger did not answer within {CHECK_S:.0f} seconds."
            raise StoreError(said, code="store.unreachable", remedy="Check the database and the network to it.")
        self._checking.result()

    def client(self, caller: Caller, *, test: bool = False) -> ServerClient:
        """Return the caller's client on the ledger, or on the ledger of tests."""
        return (self.tests if test else self.main).client(caller)

    async def attended(self, work: Coroutine[Any, Any, Outcome], wait_s: float) -> asyncio.Task[Outcome]:
        """Start the work, and return its task when the work is over, when the wait ends, or when the server stops.

        Work that is not over goes on until `end`.
        """
        loop = asyncio.get_running_loop()
        task, answered = loop.create_task(work), loop.create_future()

        def over(_task: object = None) -> None:
            if not answered.done():
                answered.set_result(None)

        task.add_done_callback(over)
        timer = loop.call_later(wait_s, over)
        self._work.add(task)
        self._waiting.add(answered)
        try:
            await answered
        finally:
            timer.cancel()
            self._waiting.discard(answered)
            if task.done():
                self._work.discard(task)
            else:
                task.add_done_callback(self._left)
        return task

    def _left(self, task: asyncio.Task[Any]) -> None:
        """Work whose request was answered before is over. The ledger holds its result, and so its errors end here."""
        self._work.discard(task)
        if not task.cancelled() and task.exception() is not None:
            LOG.warning("work after its answer ended with %s", type(task.exception()).__name__)

    def answer_waiting(self) -> None:
        """Let every waiting request be answered with the current knowledge, from now on."""
        self.stopping = True
        for each in [*self._waiting]:
            if not each.done():
                each.set_result(None)

    async def end(self) -> None:
        """Cancel the work that is left. Each action records the cancellation, and the next process continues."""
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    async def end_work(self, grace_s: float) -> None:
        """End the workers after their actions in progress; after the grace, cancel them."""
        self._works = False
        self.stop()
        if self._workers:
            _, late = await asyncio.wait(self._workers, timeout=grace_s)
            for each in late:
                each.cancel()
            await asyncio.gather(*self._workers, return_exceptions=True)

    def stop(self) -> None:
        """End the workers after their actions in progress."""
        self.main.stop()
        if self._tests is not None:
            self._tests.stop()

    def close(self) -> None:
        """Close both ledgers. Open attempts are durable, and the next process continues them."""
        self.main.close()
        if self._tests is not None:
            self._tests.close()
