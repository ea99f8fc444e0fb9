"""The worker's loop: takes due actions, many at the same time, until stopped or idle.

Behind `readback worker` and the clients' `work`. A wake-up only names a due action. Leases and versions keep several
workers apart, so a lost or doubled wake-up changes nothing. The loop runs on one event loop, so that the worker can
abandon a hanging tool.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field
from itertools import product
from typing import Final, ParamSpec, TypeVar

from readback.bootstrap import wakeups as wakeups_of
from readback.canon import ReadbackError
from readback.canon.frozen import dataclass
from readback.client.operations.tenants import Served
from readback.client.session import Session
from readback.domain.saga.fold import KIND
from readback.domain.state import TERMINAL, State
from readback.drivers.driver_async import AsyncDriver
from readback.drivers.group_commit import call_back
from readback.drivers.read_batching import projections_of
from readback.errors import (
    ContractChangedError,
    InvariantError,
    NotFoundError,
    StoreError,
    StoreVersionError,
    UnknownOutcomeError,
    UsageError,
)
from readback.ports.storage.batch_reads import BatchReads
from readback.ports.storage.contract_filter import ContractFilter
from readback.ports.storage.store import ActionFilter, Projection, StoredProjection
from readback.ports.storage.wakeups import Wakeup, Wakeups

T = TypeVar("T")
P = ParamSpec("P")
US: Final = 1_000_000
CONCURRENCY_DEFAULT: Final = 16
CONCURRENCY_MAX: Final = 4_096
TAKEN_AT_ONCE_MAX: Final = 256
"""The number of actions taken before the first of them starts."""
HANDOVER_US: Final = 600 * US
"""How long to leave an action of another contract version to workers with that version, in microseconds."""
REFUSED_FIRST_US: Final = 5 * US
REFUSED_MAX_US: Final = 600 * US
"""The longest pause between tries of an action that cannot proceed here, in microseconds: another worker may have the
contract.
"""
REFUSED_KEPT_MAX: Final = 10_000
"""The number of refused actions remembered; beyond that, some are tried again sooner, at one look a poll."""
ERRORS_KEPT_MAX: Final = 1_000
UNKNOWN_SAID_MAX: Final = 1_000
UNKNOWN_EVERY_US: Final = 10 * US
"""The pause between two searches for due actions of unknown contracts, in microseconds. Such actions are reported once,
and neither taken nor remembered.
"""
UNKNOWN_LOOKED_AT_MAX: Final = 64
OPEN_LOOKED_AT_MAX: Final = 1_000
CANCEL_AGAIN_S: Final = 0.5
"""After this time in seconds, a remaining heartbeat is cancelled again."""
PASSING: Final = frozenset({"store.locked", "store.unreachable"})
"""Transient store errors: the interrupted work is done a moment later."""
OF_ONE_ACTION: Final = frozenset({"store.corrupt", "store.conflict", "store.lease-lost", "store.lost"})
"""Store errors about one action's entries; other actions are unaffected."""


@dataclass(slots=True)
class Tally:
    """A worker's results: `advanced` steps, the count of each resulting state, and the refused actions by id."""

    advanced: int = 0
    states: Counter[str] = field(default_factory=Counter)
    errors: dict[str, ReadbackError] = field(default_factory=dict)
    last: dict[str, Projection] = field(default_factory=dict)
    """The last state of each action; kept only for a worker that ends when idle."""


@dataclass(frozen=True, slots=True)
class Watching:
    """Receives a worker's events as they happen."""

    said: Callable[[str], None] = lambda _text: None
    advanced: Callable[[Projection], None] = lambda _projection: None
    refused: Callable[[str, ReadbackError], None] = lambda _action_id, _error: None
    """An action that cannot proceed here, reported at first sight."""


@dataclass(slots=True)
class _Refused:
    until_us: int
    pause_us: int
    for_a_moment: bool
    """The obstacle is transient: a worker that waits until idle waits for this action too."""


def worker_for(
    session: Session,
    *,
    concurrency: int,
    tenants: Sequence[str],
    all_tenants: bool,
    until_idle: bool,
    poll: float,
    handover: float | None,
) -> Worker:
    """Return a worker by the clients' parameters; times in seconds. Raises UsageError."""
    session.check_open()
    if type(concurrency) is not int or not 1 <= concurrency <= CONCURRENCY_MAX:
        said = f"concurrency={concurrency!r:.80} is not a whole number from 1 to {CONCURRENCY_MAX}."
        raise UsageError(said, remedy="Pass concurrency=16, say.")
    if poll <= 0:
        raise UsageError(f"poll={poll!r} is not a number of seconds.")
    left_us = (0 if until_idle else HANDOVER_US) if handover is None else int(handover * US)
    return Worker(
        session,
        served=Served.of(tenants, session.scope.tenant, everybody=all_tenants),
        concurrency=concurrency,
        poll_us=int(poll * US),
        until_idle=until_idle,
        handover_us=left_us,
    )


class Worker:
    """A worker for its served tenants. `handover_us`: see HANDOVER_US."""

    def __init__(
        self,
        session: Session,
        *,
        served: Served,
        concurrency: int = CONCURRENCY_DEFAULT,
        poll_us: int = US,
        until_idle: bool = False,
        handover_us: int = HANDOVER_US,
        watching: Watching = Watching(),  # noqa: B008 - it is frozen
        wakeups: Wakeups | None = None,
    ) -> None:
        self.tally = Tally()
        self._session, self._served, self._share = session, served, served.share(concurrency)
        self._concurrency, self._poll_us, self._until_idle = concurrency, poll_us, until_idle
        self._handover_us, self._watching = handover_us, watching
        self._wakeups = wakeups_of(session.store, session.runtime) if wakeups is None else wakeups
        self._driver = AsyncDriver(session.store, session.runtime, session.courier, apart=True, threads=concurrency)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._is_far = isinstance(session.store, BatchReads)
        self._in_hand: Counter[str] = Counter()
        """The number of each tenant's actions in progress."""
        self._again: set[str] = set()
        """Actions in progress that succeeded already, and are only read again."""
        self._refused: dict[str, _Refused] = {}
        self._unknown: set[str] = set()
        """Unknown contracts and versions reported already."""
        self._unknown_us = 0
        self._stop = asyncio.Event()
        self._fatal: StoreError | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def stay(self) -> Tally:
        """Work until stopped or idle. Raises the StoreError that makes further work useless.

        Actions in progress are finished first. After the death of a process, another worker continues its unfinished
        actions: nothing is lost, and nothing is executed twice.
        """
        self._loop = asyncio.get_running_loop()
        heart = asyncio.create_task(self._live(), name="readback-heart")
        try:
            while not self._stop.is_set():
                more = await self._take_up()
                if self._until_idle and not self._tasks and self._idle():
                    break
                await self._pause(at_once=more)
            while self._tasks:
                await asyncio.wait(self._tasks.values())
        except asyncio.CancelledError:
            self.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            raise
        finally:
            await _stopped(heart)
            self._driver.close()
            await self._wakeups.close()
        if self._fatal is not None:
            raise self._fatal
        # Whatever ended in an error still holds its lease: it is given back, so that others need not wait for its end.
        with suppress(StoreVersionError):  # a newer release brought the schema up: then the leases run out
            self._session.store.release(self._session.runtime.owner())
        return self.tally

    def stop(self) -> None:
        """Start no new action, and finish the actions in progress. Callable from any thread."""
        if self._loop is None:
            self._stop.set()
        else:
            call_back(self._loop, self._stop.set)

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def cancel(self) -> None:
        """Cancel the calls in progress, on record: a later worker reads their effects back."""
        self._stop.set()
        for task in self._tasks.values():
            task.cancel()

    # --- living ---

    async def _live(self) -> None:
        """Record that this worker is alive, and end the leases of dead workers."""
        while self._wakeups.beat_every_us:
            await self._bury()
            await self._session.runtime.sleep_async(self._wakeups.beat_every_us / US)

    async def _bury(self) -> None:
        try:
            for owner in await self._wakeups.beat():
                await self._apart(self._session.store.release, owner)
        except StoreError as error:
            if isinstance(error, StoreVersionError):
                self._end(error)
            else:
                self._watching.said(f"Warning: {error.message} Trying again.")

    async def _apart(self, look: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """Use the store, in a thread where the store is far: a silent network must not stop the event loop."""
        if self._is_far:
            return await asyncio.to_thread(look, *given, **named)
        return look(*given, **named)

    # --- taking up ---

    async def _take_up(self) -> bool:
        """Take due actions, and return whether more may be available at once."""
        try:
            return await self._take_what_is_due()
        except StoreError as error:
            if error.code not in PASSING:
                self._end(error)  # what is in hand is finished all the same
                return False
            self._watching.said(f"Warning: {error.message} Trying again.")
            return False

    async def _take_what_is_due(self) -> bool:
        self._session.courier.sweep()
        free = self._concurrency - len(self._tasks)
        if free <= 0:
            return False
        if not self._wakeups.beat_every_us:
            await self._bury()
        now_us = self._session.runtime.now_us()
        leave = {*self._tasks, *(each for each, refused in self._refused.items() if refused.until_us > now_us)}
        full = [tenant for tenant, number in self._in_hand.items() if number >= self._share]
        limit, before = min(free, TAKEN_AT_ONCE_MAX), len(self._tasks)
        known = self._known(now_us)
        if now_us >= self._unknown_us:
            self._unknown_us = now_us + UNKNOWN_EVERY_US
            await self._apart(self._name_unknown, known, UNKNOWN_LOOKED_AT_MAX)
        found = await self._wakeups.take(self._served.tenants, limit, leave, full, known)
        await self._take_each(found)
        crowded = len(self._refused) >= REFUSED_KEPT_MAX
        return len(found) == limit and before < len(self._tasks) < self._concurrency and not crowded

    def _known(self, now_us: int) -> ContractFilter:
        return self._session.known(now_us - self._handover_us)

    async def _take_each(self, found: Sequence[Wakeup]) -> None:
        """Start each action, or release it: the wake-up of a living worker reaches no other worker."""
        left = deque(found)
        try:
            held = await self._apart(projections_of, self._session.store, [wakeup.action_id for wakeup in found])
            while left:
                await self._take(left[0], held.get(left[0].action_id))
                left.popleft()
        except StoreError:
            for wakeup in left:
                with suppress(StoreError):
                    await self._wakeups.later(wakeup, 0)
            raise

    async def _take(self, wakeup: Wakeup, stored: StoredProjection | None) -> None:
        action_id = wakeup.action_id
        if action_id in self._tasks:
            await self._wakeups.done(wakeup)  # it is looked at as it is when it ends; if it is due then, that is said
            return
        tenant = stored.projection.tenant if stored is not None else ""
        if stored is not None and not self._is_due(stored.projection):
            await self._wakeups.done(wakeup)  # out of date: another worker has processed the action
            return
        if self._in_hand[tenant] >= self._share:
            await self._wakeups.later(wakeup, 0)
            return
        if not self._knows(action_id, stored):
            await self._wakeups.later(wakeup, self._refused[action_id].until_us)
            return
        again = stored is not None and stored.projection.state == State.RECONCILED_SUCCESS
        if again and len(self._again) >= max(self._concurrency // 2, 1):
            await self._wakeups.later(wakeup, 0)  # looks after success leave room for what becomes due meanwhile
            return
        self._begin(wakeup, stored, again=again)

    def _is_due(self, projection: Projection) -> bool:
        return projection.due_us is not None and projection.due_us <= self._session.runtime.now_us()

    def _begin(self, wakeup: Wakeup, stored: StoredProjection | None, *, again: bool) -> None:
        action_id, tenant = wakeup.action_id, stored.projection.tenant if stored is not None else ""

        def over(_: object) -> None:
            self._tasks.pop(action_id, None)
            self._again.discard(action_id)
            self._in_hand[tenant] -= 1
            if not self._in_hand[tenant]:
                del self._in_hand[tenant]

        self._in_hand[tenant] += 1
        if again:
            self._again.add(action_id)
        task = asyncio.create_task(self._work(wakeup, stored), name=f"readback-{action_id}")
        self._tasks[action_id] = task
        task.add_done_callback(over)

    async def _work(self, wakeup: Wakeup, stored: StoredProjection | None) -> None:
        try:
            await self._advance(wakeup.action_id, stored)
        finally:
            refused = self._refused.get(wakeup.action_id)
            try:
                if self._fatal is not None:
                    await self._wakeups.later(wakeup, 0)  # for another worker
                elif refused is None:
                    await self._wakeups.done(wakeup)
                else:
                    await self._wakeups.later(wakeup, refused.until_us)
            except StoreError as error:
                self._watching.said(f"Warning: {error.message} The wake-up comes again.")

    def _name_unknown(self, known: ContractFilter, limit: int) -> None:
        """Report due actions of unknown contracts: each contract once, not each action."""
        due = self._served.due(self._session.store, self._session.runtime.now_us(), limit)
        for action_id, stored in projections_of(self._session.store, due).items():
            if not known.covers(stored.projection):
                error, name = self._why_not(stored.projection)
                self._say(action_id, error, name)

    def _why_not(self, p: Projection) -> tuple[ReadbackError, str]:
        """Return why another worker has to continue the action, and the unknown contract or version."""
        if self._session.plan_of(p.contract) is None or p.kind == KIND:
            error: ReadbackError = NotFoundError(
                f"Contract {p.contract!r} is not loaded here. This worker leaves the contract's actions unchanged.",
                remedy="Run a worker with the contract: pass the contract's module with --contracts.",
            )
            return error, p.contract
        error = ContractChangedError(
            f"Action {p.action_id} began with version {p.contract_version} of contract {p.contract!r}. This worker has "
            "another version, and leaves the action to a worker of the first version.",
            remedy="Run a worker of that version until these actions have ended. Without one, they go to review.",
        )
        return error, p.contract_hash

    def _say(self, action_id: str, error: ReadbackError, name: str) -> None:
        if len(self.tally.errors) < ERRORS_KEPT_MAX:
            self.tally.errors.setdefault(action_id, error)
        if name not in self._unknown and len(self._unknown) < UNKNOWN_SAID_MAX:
            self._unknown.add(name)
            self._watching.refused(action_id, error)

    def _knows(self, action_id: str, stored: StoredProjection | None) -> bool:
        """Return whether this process has the action's contract in the starting version. Unknown actions are not
        delivered; this check is for sagas, whose steps name their contracts, and for changes since the delivery.
        """
        if stored is None:
            return True
        p = stored.projection
        covered = self._known(self._session.runtime.now_us()).covers(p)
        if covered and self._session.knows(p):
            return True
        error, name = self._why_not(p)
        until_us = p.due_us + self._handover_us if p.due_us is not None and not covered else 0
        self._refuse(action_id, error, say=False, until_us=until_us)
        self._say(action_id, error, name)
        return False

    async def _advance(self, action_id: str, stored: StoredProjection | None) -> None:
        session = self._session
        try:
            await self._driver.drive(session.advance(action_id, self._served.one, stored))
            left = await self._driver.projection(action_id)
        except UnknownOutcomeError as error:
            if isinstance(error.__cause__, StoreVersionError):
                self._end(error.__cause__)  # the attempt is on record: a worker of the newer release reads it back
            else:
                session.report_unknown_outcome(error)
                self._end(error)
        except StoreError as error:
            if error.code in OF_ONE_ACTION | PASSING:
                self._refuse(action_id, error)
            else:
                self._end(error)
        except ReadbackError as error:
            self._refuse(action_id, error)
        except Exception as error:  # tidy: boundary -- one action that breaks us must not keep the others waiting
            self._refuse(action_id, InvariantError(f"{type(error).__name__}: {error}"))
        else:
            self._refused.pop(action_id, None)
            self.tally.errors.pop(action_id, None)
            self._count(left)

    def _count(self, left: StoredProjection | None) -> None:
        if left is None:
            return
        p = left.projection
        self.tally.advanced += 1
        self.tally.states[p.state] += 1
        if self._until_idle:
            self.tally.last[p.action_id] = p
        self._watching.advanced(p)

    def _refuse(self, action_id: str, error: ReadbackError, *, say: bool = True, until_us: int = 0) -> None:
        """Leave an action for later, and report the first refusal.

        `until_us`: the time of the next unconditional try.
        """
        known = self._refused.get(action_id)
        pause_us = REFUSED_FIRST_US if known is None else min(2 * known.pause_us, REFUSED_MAX_US)
        again_us = self._session.runtime.now_us() + pause_us
        moment = error.code in PASSING or isinstance(error, ContractChangedError)
        self._refused.pop(action_id, None)
        while len(self._refused) >= REFUSED_KEPT_MAX:
            del self._refused[next(iter(self._refused))]  # refused longest ago: it is tried again the soonest
        self._refused[action_id] = _Refused(min(again_us, until_us or again_us), pause_us, moment)
        if len(self.tally.errors) < ERRORS_KEPT_MAX:
            self.tally.errors[action_id] = error
        if known is None and say:
            self._watching.refused(action_id, error)

    def _end(self, error: StoreError) -> None:
        self._fatal = self._fatal or error
        self._stop.set()

    # --- pausing ---

    async def _pause(self, *, at_once: bool) -> None:
        """Wait until an own action ends, an action is due, a notification arrives, or the poll interval is over."""
        if at_once:
            await self._session.runtime.sleep_async(0)  # what was begun gets its turn
            return
        try:
            next_us = await self._wakeups.next_us(self._served.tenants)
        except StoreError as error:
            if error.code not in PASSING:
                self._end(error)
                return
            next_us = None
        ahead = next_us - self._session.runtime.now_us() if next_us is not None else self._poll_us
        # What is due and was not taken up is refused or in hand: looking again at once would only spin.
        seconds = (min(ahead, self._poll_us) if ahead > 0 else self._poll_us) / US
        sleeping = asyncio.create_task(self._wakeups.pause(seconds))
        stopped = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({sleeping, stopped, *self._tasks.values()}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            stopped.cancel()

    def _idle(self) -> bool:
        """Return whether no action is on its way to a verdict. Hours of watching an unknown state count as idle."""
        store, now_us = self._session.store, self._session.runtime.now_us()
        known = self._known(now_us)
        for tenant, state in product(self._served.tenants or ("",), State):
            if state in TERMINAL or state is State.UNKNOWN:
                continue
            query = ActionFilter(tenant, state.value, limit=OPEN_LOOKED_AT_MAX)
            if any(self._waits(stored.projection, known) for stored in store.page(query)):
                return False
        due = self._served.due(store, now_us, len(self._refused) + 1, known)
        if not all(self._given_up(action_id) for action_id in due):
            return False
        self._name_unknown(known, ERRORS_KEPT_MAX)
        return True

    def _waits(self, p: Projection, known: ContractFilter) -> bool:
        if p.hold:
            return False  # for a person; what is due of it is when his time is over, or to look whether he has decided
        if p.due_us is None or self._given_up(p.action_id):
            return False
        # What another version began is waited for until it is left to us.
        return known.covers(p) or (p.contract in known.names and self._handover_us > 0)

    def _given_up(self, action_id: str) -> bool:
        refused = self._refused.get(action_id)
        return refused is not None and not refused.for_a_moment


async def _stopped(heart: asyncio.Task[None]) -> None:
    """Cancel the heartbeat until it has ended. A query cut off at its answer drops the cancellation, and the next query
    would find the wake-ups closed.
    """
    while not heart.done():
        heart.cancel()
        await asyncio.wait({heart}, timeout=CANCEL_AGAIN_S)
