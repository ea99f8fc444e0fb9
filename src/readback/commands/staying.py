"""The worker's loop: takes up whatever is due, any number at once, until it is told to stop or nothing is left.

Called by `readback worker`. It only delivers "go on with action X"; leases and versions keep several workers apart, so
a lost or doubled delivery changes nothing. It drives on one event loop, so that a tool that hangs can be given up.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from readback.canon import ReadbackError
from readback.commands.resume import OF_ONE_ACTION, name_error
from readback.commands.serving import Served
from readback.commands.telling import exit_of, plain, shown_verdict
from readback.commands.terminal import note, safe
from readback.domain.errors import InvariantError, NotFoundError, StoreError, StoreLockedError, UnknownOutcomeError
from readback.domain.state import TERMINAL, State
from readback.ports.store import ActionFilter, Projection, StoredProjection
from readback.sdk.driver_async import AsyncDriver
from readback.sdk.session import Session

US: Final = 1_000_000
REFUSED_FIRST_US: Final = 5 * US
REFUSED_MAX_US: Final = 600 * US
"""An action that cannot be gone on with here is tried again ever more seldom: its contract may be loaded elsewhere."""
ERRORS_KEPT_MAX: Final = 1_000
OPEN_LOOKED_AT_MAX: Final = 1_000


@dataclass(slots=True)
class Tally:
    """What a worker has done."""

    advanced: int = 0
    states: Counter[str] = field(default_factory=Counter)
    errors: dict[str, ReadbackError] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    """The exit code of each action by its last state; kept only until idle, where there is an end."""


@dataclass(slots=True)
class _Refused:
    until_us: int
    pause_us: int
    for_a_moment: bool
    """What is in the way goes away by itself: whoever waits until idle waits for that too."""


class Worker:
    """One worker, for the tenants that it serves."""

    def __init__(
        self, session: Session, *, served: Served, concurrency: int, poll_us: int, until_idle: bool, quiet: bool
    ) -> None:
        self.tally = Tally()
        self._session, self._served, self._share = session, served, served.share(concurrency)
        self._concurrency, self._poll_us, self._until_idle = concurrency, poll_us, until_idle
        self._say: Callable[[str], None] = _silent if quiet else note
        self._driver = AsyncDriver(session.store, session.runtime, session.courier)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._in_hand: Counter[str] = Counter()
        """How many of each tenant's actions are worked on now."""
        self._again: set[str] = set()
        """Those in hand that have succeeded, and are only looked at again."""
        self._refused: dict[str, _Refused] = {}
        self._unknown: set[str] = set()
        self._stop = asyncio.Event()
        self._fatal: StoreError | None = None

    async def stay(self, greeting: str) -> Tally:
        """Until a signal, or until nothing is left to wait for. Raises the StoreError that made going on senseless.

        `greeting` is said once signals are heard: whoever waits for it may send one.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signalled)
        note(greeting)
        try:
            while not self._stop.is_set():
                self._take_up()
                if self._until_idle and not self._tasks and self._idle():
                    break
                await self._pause()
            while self._tasks:
                await asyncio.wait(self._tasks.values())
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
            self._driver.close()
        if self._fatal is not None:
            raise self._fatal
        # Whatever ended in an error still holds its lease: it is given back, so that others need not wait for its end.
        self._session.store.release(self._session.runtime.owner())
        return self.tally

    def _signalled(self) -> None:
        """First: nothing new, and what is in hand is finished. Again: calls in hand are cancelled, on record."""
        if not self._stop.is_set():
            self._say("Stopping: what is in hand is finished first. Once more to cancel it.")
            self._stop.set()
            return
        self._say("Cancelling what is in hand; its effects are unknown until they are read back.")
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)  # a third one ends the process where it stands
        for task in self._tasks.values():
            task.cancel()

    # --- taking up ---

    def _take_up(self) -> None:
        self._session.courier.sweep()
        store, runtime = self._session.store, self._session.runtime
        free = self._concurrency - len(self._tasks)
        if free <= 0:
            return
        try:
            for owner in store.owners():
                if runtime.is_gone(owner):
                    store.release(owner)
            now_us = runtime.now_us()
            due = self._served.due(store, now_us, free + len(self._refused) + len(self._tasks))
        except StoreLockedError as error:
            self._say(f"Warning: {safe(error.message)} Trying again.")
            return
        for action_id in due:
            refused = self._refused.get(action_id)
            if action_id in self._tasks or (refused is not None and refused.until_us > now_us):
                continue
            if free == 0:
                break
            stored = store.projection(action_id)
            tenant = stored.projection.tenant if stored is not None else ""
            if self._in_hand[tenant] >= self._share or not self._knows(action_id, stored):
                continue
            again = stored is not None and stored.projection.state == State.RECONCILED_SUCCESS
            if again and len(self._again) >= max(self._concurrency // 2, 1):
                continue  # looks after success leave room for what becomes due meanwhile
            free -= 1
            self._begin(action_id, tenant, again=again)

    def _begin(self, action_id: str, tenant: str, *, again: bool) -> None:
        def done(_: object) -> None:
            self._tasks.pop(action_id, None)
            self._again.discard(action_id)
            self._in_hand[tenant] -= 1

        self._in_hand[tenant] += 1
        if again:
            self._again.add(action_id)
        task = asyncio.create_task(self._advance(action_id), name=f"readback-{action_id}")
        self._tasks[action_id] = task
        task.add_done_callback(done)

    def _knows(self, action_id: str, stored: StoredProjection | None) -> bool:
        """Whether the action's contract is here. One that is not is named once, not with every action of it."""
        if stored is None or self._session.knows(stored.projection):
            return True
        contract = stored.projection.contract
        error = NotFoundError(
            f"Contract {contract!r} is not loaded here; this action of it, and any other, is left as it is.",
            remedy="Run a worker where the contract is: pass its module with --contracts.",
        )
        self._refuse(action_id, error, say=contract not in self._unknown)
        self._unknown.add(contract)
        return False

    async def _advance(self, action_id: str) -> None:
        session = self._session
        try:
            await self._driver.drive(session.advance(action_id, self._served.one))
        except UnknownOutcomeError as error:
            session.raise_alarm(error)
            self._end(error)
        except StoreLockedError as error:
            self._refuse(action_id, error)
        except StoreError as error:
            if error.code in OF_ONE_ACTION:
                self._refuse(action_id, error)
            else:
                self._end(error)
        except ReadbackError as error:
            self._refuse(action_id, error)
        except Exception as error:  # tidy: boundary -- one action that breaks us must not keep the others waiting
            self._refuse(action_id, InvariantError(f"{type(error).__name__}: {safe(error)}"))
        else:
            self._refused.pop(action_id, None)
            self.tally.errors.pop(action_id, None)
            self._count(action_id)

    def _count(self, action_id: str) -> None:
        stored = self._session.store.projection(action_id)
        if stored is None:
            return
        p = stored.projection
        self.tally.advanced += 1
        self.tally.states[p.state] += 1
        if self._until_idle:
            self.tally.codes[action_id] = exit_of(p)
        self._say(f"{action_id}  {safe(p.contract)} on {safe(p.target)}: {plain(p.state)} ({shown_verdict(p)})")

    def _refuse(self, action_id: str, error: ReadbackError, *, say: bool = True) -> None:
        """Left for later, and named when it is met for the first time."""
        known = self._refused.get(action_id)
        pause_us = REFUSED_FIRST_US if known is None else min(2 * known.pause_us, REFUSED_MAX_US)
        until_us, locked = self._session.runtime.now_us() + pause_us, isinstance(error, StoreLockedError)
        self._refused[action_id] = _Refused(until_us, pause_us, locked)
        if len(self.tally.errors) < ERRORS_KEPT_MAX:
            self.tally.errors[action_id] = error
        if known is None and say:
            name_error(action_id, error)

    def _end(self, error: StoreError) -> None:
        self._fatal = self._fatal or error
        self._stop.set()

    # --- pausing ---

    async def _pause(self) -> None:
        """Until something of ours ends, something becomes due, somebody pokes us, or the poll interval is over."""
        runtime = self._session.runtime
        try:
            next_us = self._served.next_due_us(self._session.store)
        except StoreLockedError:
            next_us = None
        ahead = next_us - runtime.now_us() if next_us is not None else self._poll_us
        # What is due and was not taken up is refused or in hand: looking again at once would only spin.
        seconds = (min(ahead, self._poll_us) if ahead > 0 else self._poll_us) / US
        sleeping = asyncio.create_task(runtime.sleep_async(seconds))
        stopped = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({sleeping, stopped, *self._tasks.values()}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            stopped.cancel()

    def _idle(self) -> bool:
        """Nothing is on its way to a verdict any more. What stays unknown is looked at for hours: that is idle."""
        store = self._session.store
        for tenant, state in product(self._served.tenants or ("",), State):
            if state in TERMINAL or state is State.UNKNOWN:
                continue
            query = ActionFilter(tenant, state.value, limit=OPEN_LOOKED_AT_MAX)
            if any(self._waits(stored.projection) for stored in store.page(query)):
                return False
        due = self._served.due(store, self._session.runtime.now_us(), len(self._refused) + 1)
        return all(self._given_up(action_id) for action_id in due)

    def _waits(self, projection: Projection) -> bool:
        if projection.hold:
            return False  # for a person; what is due of it is when his time is over, or to look whether he has decided
        return projection.due_us is not None and not self._given_up(projection.action_id)

    def _given_up(self, action_id: str) -> bool:
        refused = self._refused.get(action_id)
        return refused is not None and not refused.for_a_moment


def _silent(text: str) -> None:
    """With --json only errors are told on the way."""
