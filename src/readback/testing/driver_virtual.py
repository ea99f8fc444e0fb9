"""The third driver: the engine under virtual time, with faults. Hours pass in milliseconds, and processes die on order.

For simulations and tests with `VirtualRuntime` and `MemoryStore`. A handler raises an exception for an event without a
return value: a hanging call (`CallHangs`), a dead process (`ProcessDied`), a cancelled caller (`CallerCancelled`).
Never use this driver with real systems and their own time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import field
from functools import lru_cache
from itertools import count
from typing import Any, Final, TypeVar, assert_never, cast

from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.context import Context
from readback.domain.events import open_envelope
from readback.engine.effects import (
    Called,
    CallReader,
    ClockResult,
    Commit,
    Committed,
    Dispatch,
    Effect,
    Effects,
    Ending,
    GetClock,
    Lease,
    Leased,
    LoadAction,
    LoadActions,
    LoadPreconditions,
    ProveEnded,
    ReadKind,
    RunAll,
    Settle,
    Wait,
)
from readback.engine.ledger_answers import answer_of_ledger
from readback.engine.resume import fold_opened, woken
from readback.ports.handlers import Handler
from readback.ports.storage.store import LedgerStore
from readback.testing.runtime_virtual import US_PER_SECOND, VirtualRuntime

T = TypeVar("T")
STEPS_MAX: Final = 20_000
"""More steps than any action or saga needs. A driver at this limit runs in a circle."""

SLICE_US: Final = 250_000
"""The pause of a sleeper with a due action, as in the other drivers."""

_open = lru_cache(maxsize=4096)(open_envelope)
"""Open an entry. Most steps read all entries of their action again, so entries are cached by their bytes."""


class CallHangs(BaseException):
    """Raised by a handler without an answer within its timeout. The effect in the world stays."""


class ProcessDied(BaseException):
    """The process is dead: nothing more is written or reported. The next process has the ledger alone."""


class CallerCancelled(BaseException):
    """Raised by a handler: the caller gave up during the call, as after an interrupt or a cancelled task."""


@dataclass(frozen=True, slots=True)
class Parked:
    """The work needs a longer wait than its caller permits. Everything is durable."""

    action_id: str


@dataclass(slots=True)
class VirtualDriver:
    """Drives work in virtual time. `vanish_at` is the number of the first omitted step, counted from 0."""

    store: LedgerStore
    runtime: VirtualRuntime
    vanish_at: int | None = None
    done: list[str] = field(default_factory=list)
    """The names of the finished steps in order."""
    _agenda: list[tuple[int, int, Callable[[], object]]] = field(default_factory=list)
    _order: Any = field(default_factory=count)

    def at(self, at_us: int, act: Callable[[], object]) -> None:
        """Schedule an act of another party at a moment, if the work waits through it."""
        heapq.heappush(self._agenda, (at_us, next(self._order), act))

    def drive(self, work: Effects[T], give_up_us: int | None = None) -> T | Parked:
        """Drive the work to its end, or to a wait beyond `give_up_us`. Raises ProcessDied at the ordered step."""
        stopped = False
        try:
            step = next(work)
            while True:
                self._count(step)
                if isinstance(step, Wait):
                    if stopped or not self._wait(step, give_up_us):
                        work.close()
                        return Parked(step.action_id)
                    answer: object = self.runtime.now_us()
                else:
                    try:
                        answer = self._do(step)
                    except Exception as error:  # tidy: boundary -- the engine decides what a failed step means
                        step = work.throw(error)
                        continue
                    stopped = stopped or (isinstance(answer, Called) and answer.ending is Ending.CANCELLED)
                step = work.send(answer)
        except StopIteration as stop:
            return cast(T, stop.value)

    def _count(self, step: Effect) -> None:
        if self.vanish_at is not None and len(self.done) >= self.vanish_at:
            raise ProcessDied
        if len(self.done) >= STEPS_MAX:
            raise AssertionError(f"{STEPS_MAX} steps, the last ones {self.done[-6:]}: it turns in a circle")
        self.done.append(type(step).__name__)

    # --- waiting -------------------------------------------------------------------------------------

    def _wait(self, step: Wait, give_up_us: int | None) -> bool:
        """Jump to the moment, or to an earlier change or request of another party."""
        began = self._place_of(step.action_id)
        early = began[1] is not None and began[1] <= self.runtime.now_us()
        until = min(step.until_us, self.runtime.now_us() + SLICE_US) if early else step.until_us
        while True:
            while self._agenda and self._agenda[0][0] <= self.runtime.now_us():
                heapq.heappop(self._agenda)[2]()
            version, due = self._place_of(step.action_id)
            stirred = version != began[0] or (due != began[1] and due is not None and due <= self.runtime.now_us())
            if stirred or self.runtime.now_us() >= until:
                return True
            to_us = min(until, self._agenda[0][0]) if self._agenda else until
            if give_up_us is not None and to_us > give_up_us:
                self._jump(give_up_us)
                return False
            self._jump(to_us)

    def _place_of(self, action_id: str) -> tuple[int, int | None]:
        stored = self.store.projection(action_id)
        return (0, None) if stored is None else (stored.version, stored.projection.due_us)

    def _jump(self, to_us: int) -> None:
        self.runtime.advance(max(to_us - self.runtime.now_us(), 0) / US_PER_SECOND)

    # --- doing ---------------------------------------------------------------------------------------

    def _do(self, step: Effect) -> object:
        match step:
            case Commit(append):
                return Committed(self.store.append((append,))[0], self.runtime.now_us())
            case Dispatch():
                now_us = self.runtime.now_us()
                if now_us > step.not_after_us:
                    return Called(Ending.NOT_MADE, None, None, now_us, now_us)
                return self._call(step.plan.hands.execute, step.context, step.arguments, step.timeout_us)
            case CallReader() | Settle():
                return self._call(_hand(step), step.context, step.arguments, step.timeout_us)
            case RunAll(works):
                return tuple(self.drive(work) for work in works)
            case Wait():
                raise AssertionError("a wait is not done but waited")
            case LoadAction(action_id):
                return self._fold(action_id)
            case LoadActions(ids):
                return {each: a for each in ids if (a := self._fold(each)) is not None}
            case ProveEnded(_, owner):  # one driver does one thing at a time: its own attempt has ended
                return owner == self.runtime.owner() or self.runtime.is_owner_dead(owner)
            case GetClock(fresh):
                now_us, owner = self.runtime.now_us(), self.runtime.owner()
                return ClockResult(now_us, self.runtime.new_id() if fresh else "", owner)
            case LoadPreconditions(tenant, key_hash, subjects):
                return self.store.opening(tenant, key_hash, subjects)
            case Lease():
                return self._lease(step)
            case _:
                return answer_of_ledger(self.store, self.runtime, step)

    def _fold(self, action_id: str) -> Action | None:
        stored = self.store.projection(action_id)
        due_us = stored.projection.due_us if stored is not None else None
        opened = ((_open(stored.envelope), stored.leaf) for stored in self.store.events(action_id))
        return woken(fold_opened(opened), due_us)

    def _lease(self, step: Lease) -> Leased:
        now_us, owner = self.runtime.now_us(), self.runtime.owner()
        held = self.store.projection(step.action_id)
        if step.version and held is not None and held.version != step.version:
            return Leased(None, held.version, now_us)
        other = held.projection.lease_owner if held is not None else ""
        dead = other if other and self.runtime.is_owner_dead(other) else ""
        fence = self.store.lease(step.action_id, owner, now_us, step.until_us, dead=dead)
        stored = self.store.projection(step.action_id)
        return Leased(fence, stored.version if stored is not None else 0, now_us)

    def _call(self, hand: Handler, context: Context, arguments: Mapping[str, object], timeout_us: int) -> Called:
        started = self.runtime.now_us()
        try:
            value = hand.call(context, arguments)
            if hand.is_async:
                value = _awaited(cast("Coroutine[Any, Any, object]", value))
        except CallHangs:
            self._jump(started + timeout_us)
            return Called(Ending.TIMED_OUT, None, None, started, self.runtime.now_us())
        except CallerCancelled as stop:
            return Called(Ending.CANCELLED, None, stop, started, self.runtime.now_us())
        except Exception as error:  # tidy: boundary -- whatever user code raises is evidence, never our failure
            return Called(Ending.RAISED, None, error, started, self.runtime.now_us())
        return Called(Ending.RETURNED, value, None, started, self.runtime.now_us())


def _awaited(coroutine: Coroutine[Any, Any, object]) -> object:
    """Return the result of a coroutine without real waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise AssertionError("An async hand under virtual time may not await real things; use AsyncReadback for that.")


def _hand(step: CallReader | Settle) -> Handler:
    hands = step.plan.hands
    if isinstance(step, Settle):
        if step.staged is None:
            assert hands.rollback is not None
            return hands.rollback
        ending = getattr(step.staged, "commit" if step.commit else "abandon")
        return Handler("staged", lambda _context, _arguments: ending())
    match step.look:
        case ReadKind.READER:
            return hands.readers[step.index]
        case ReadKind.FIND:
            assert hands.find is not None
            return hands.find
        case ReadKind.LOOKUP:
            assert hands.lookup is not None
            return hands.lookup
        case ReadKind.STAGED:
            read = step.staged.read  # type: ignore[attr-defined]
            return Handler("staged", lambda _context, _arguments: read())
        case _:
            assert_never(step.look)
