"""How the async client drives the engine's work. All differences from the sync client are here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from readback.client import validation
from readback.client.operations.worker import Worker
from readback.client.raised import catching, with_exception
from readback.client.session import Session
from readback.domain.outcome.outcome import Outcome
from readback.drivers.driver_async import AsyncDriver
from readback.drivers.interpreter import Parked
from readback.engine import coordinator
from readback.engine.effects import Effects
from readback.errors import UnknownOutcomeError
from readback.ports.storage.batch_reads import BatchReads

T = TypeVar("T")
P = ParamSpec("P")


class AsyncDriving:
    """The async client's session, driver and lifetime."""

    def __init__(self, session: Session) -> None:
        self._session = validation.opened(session)
        self._driver = AsyncDriver(session.store, session.runtime, session.courier)
        self._worker: Worker | None = None

    @property
    def _is_far(self) -> bool:
        return isinstance(self._session.store, BatchReads)

    async def _told(
        self,
        work: coordinator.OutcomeWork,
        ticket: coordinator.ActionHandle,
        until_us: int | None,
        *,
        in_turn: bool = False,
    ) -> Outcome:
        """Return the outcome of the work, or the present outcome where the caller's wait ends first.

        `in_turn`: the tool is a plain function, so commits of several calls may share one turn of the event loop.
        """
        drive = self._driver.drive_in_turn if in_turn else self._driver.drive
        with catching() as caught:
            try:
                told = await drive(work, until_us)
            except UnknownOutcomeError as error:
                self._session.report_unknown_outcome(error)
                raise
        if isinstance(told, Parked):
            told = await self._drive(self._session.look(ticket.action_id, replayed=ticket.replayed))
        return with_exception(told, caught)

    async def _drive(self, work: Effects[T]) -> T:
        try:
            done = await self._driver.drive(work)
        except UnknownOutcomeError as error:
            self._session.report_unknown_outcome(error)
            raise
        assert not isinstance(done, Parked)
        return done

    async def _named(self, id_or_stamp: str) -> str:
        """Return the id of an action of this tenant. A store over a network is read in a thread."""
        named = self._session.action_id
        if self._is_far:
            return await asyncio.to_thread(named, id_or_stamp)
        return named(id_or_stamp)

    async def _apart(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do blocking work in a thread. The event loop serves other calls meanwhile."""
        return await asyncio.to_thread(work, *args, **kwargs)

    async def _stay(self, worker: Worker) -> int:
        """Run a worker to the end, and return the number of steps. A cancellation also cancels the worker's calls."""
        return (await worker.stay()).advanced

    async def close(self) -> None:
        """Release files and threads. Unsettled actions stay in the ledger, ready for a later `resume`."""
        self._driver.close()
        self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
