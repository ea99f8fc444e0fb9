"""The open ledgers of a server: one client for each caller on one shared session, and a ledger of tests apart.

Every client of a server shares the store, the writer, the contracts and the threads, and differs in its tenant and
principal alone. Tests have a ledger, contracts and a worker of their own, because a worker finds a contract by its
name: the real ledger's worker must never meet a test's action, and the tests' worker knows sandboxes alone.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from readback.bootstrap import MEMORY_URL
from readback.client.async_client import AsyncReadback
from readback.client.operations.worker import Worker, worker_for
from readback.client.session import Session
from readback.config import Settings
from readback.contracts.registry import Registry
from readback.domain.tracing.trace_context import parse_traceparent
from readback.drivers.driver_async import AsyncDriver
from readback.engine.compiled_contract import CompiledContract
from readback.server.access.principal import Caller

CLIENTS_MAX: Final = 4_096
POLL_S: Final = 1.0
WORKER_CONCURRENCY: Final = 64


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
    def open(cls, settings: Settings, url: str) -> Ledger:
        """Open the ledger at `url` with the settings' approvers, limits and subscribers. Raises as `Session.open`."""
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
        )
        return cls(session, AsyncDriver(session.store, session.runtime, session.courier))

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


class Ledgers:
    """The ledger, the ledger of tests, and the contracts of a server.

    Args:
        settings: The ledger's settings.
        registry: The loaded contracts; None for a server that starts no actions.
        test_url: The ledger of tests; the default lives in memory and ends with the server.
    """

    def __init__(self, settings: Settings, registry: Registry | None, test_url: str = MEMORY_URL) -> None:
        self.settings = settings
        self.registry = registry or Registry()
        plans = self.registry.load()
        self.main = Ledger.open(settings, settings.url)
        self._test_url = test_url
        self._tests: Ledger | None = None
        for plan in plans.values():
            self.main.session.know(plan)

    @property
    def plans(self) -> Mapping[str, CompiledContract]:
        """The loaded contracts by name."""
        return self.main.session.plans

    @property
    def runtime(self) -> Any:
        """Clock, sleep and ids."""
        return self.main.session.runtime

    @property
    def tests(self) -> Ledger:
        """The ledger of tests, opened at its first use. Raises StoreError."""
        if self._tests is None:
            self._tests = Ledger.open(replace(self.settings, url=self._test_url), self._test_url)
        return self._tests

    @property
    def has_tests(self) -> bool:
        """Whether the ledger of tests is open."""
        return self._tests is not None

    def client(self, caller: Caller, *, test: bool = False) -> ServerClient:
        """Return the caller's client on the ledger, or on the ledger of tests."""
        return (self.tests if test else self.main).client(caller)

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
