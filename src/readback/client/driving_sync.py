"""How the sync client drives the engine's work. All differences from the async client are here."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from readback.client import validation
from readback.client.operations.worker import Worker
from readback.client.raised import catching, with_exception
from readback.client.session import Session
from readback.domain.outcome.outcome import Outcome
from readback.drivers.driver_sync import SyncDriver
from readback.drivers.interpreter import Parked
from readback.engine import coordinator
from readback.engine.effects import Effects
from readback.errors import UnknownOutcomeError

T = TypeVar("T")
P = ParamSpec("P")


class SyncDriving:
    """The sync client's session, driver and lifetime."""

    def __init__(self, session: Session) -> None:
        self._session = validation.opened(session)
        self._driver = SyncDriver(session.store, session.runtime, session.courier)
        self._worker: Worker | None = None

    def _told(
        self,
        work: coordinator.OutcomeWork,
        ticket: coordinator.ActionHandle,
        until_us: int | None,
        *,
        in_turn: bool = False,
    ) -> Outcome:
        """Return the outcome of the work, or the present outcome where the caller's wait ends first.

        `in_turn` concerns event loops alone. A thread has one call.
        """
        with catching() as caught:
            told = self._driven(work, until_us)
        if isinstance(told, Parked):
            told = self._drive(self._session.look(ticket.action_id, replayed=ticket.replayed))
        return with_exception(told, caught)

    def _drive(self, work: Effects[T]) -> T:
        done = self._driven(work)
        assert not isinstance(done, Parked)
        return done

    def _driven(self, work: Effects[T], give_up_us: int | None = None) -> T | Parked:
        try:
            return self._driver.drive(work, give_up_us)
        except UnknownOutcomeError as error:
            self._session.report_unknown_outcome(error)
            raise

    def _named(self, id_or_stamp: str) -> str:
        """Return the id of an action of this tenant."""
        return self._session.action_id(id_or_stamp)

    def _apart(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do blocking work in the caller's thread."""
        return work(*args, **kwargs)

    def _stay(self, worker: Worker) -> int:
        """Run a worker to the end, and return the number of steps."""
        import asyncio  # a program without an event loop does not pay for it

        return asyncio.run(worker.stay()).advanced

    def close(self) -> None:
        """Release files and threads. Unsettled actions stay in the ledger, ready for a later `resume`."""
        self._driver.close()
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
