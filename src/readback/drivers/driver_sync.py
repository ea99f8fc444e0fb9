"""The sync driver: interpret the engine's effects in the caller's thread, one after another.

Only the two drivers may call a tool. This driver calls a tool only for a `Dispatch` effect, and the engine yields
`Dispatch` only for a durable attempt.
"""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Mapping
from typing import Any, Final, TypeVar, cast

from readback.background.dispatcher import OutboxDispatcher
from readback.domain.context import Context
from readback.drivers import live_span
from readback.drivers.call_timeout import CallTimedOut, EventLoopThread, call_with_timeout
from readback.drivers.commit_log import log_commit
from readback.drivers.interpreter import (
    EffectInterpreter,
    Parked,
    ended,
    hand_of,
    interrupted,
    leaves_nothing_open,
    raised,
    slices,
)
from readback.engine.effects import (
    Called,
    CallReader,
    Commit,
    Committed,
    Dispatch,
    Effect,
    Effects,
    Ending,
    Lease,
    Leased,
    RunAll,
    Settle,
    Wait,
)
from readback.ports.handlers import Handler
from readback.ports.runtime import Runtime
from readback.ports.storage.store import LedgerStore

_CANCELLED: Final = Ending.CANCELLED
_RETURNED: Final = Ending.RETURNED

T = TypeVar("T")
US = 1_000_000


class SyncDriver:
    """Drives any number of actions, one at a time in each calling thread."""

    def __init__(self, store: LedgerStore, runtime: Runtime, courier: OutboxDispatcher | None = None) -> None:
        self._desk = EffectInterpreter(store, runtime, courier)
        self._portal = EventLoopThread()

    def drive(self, work: Effects[T], give_up_us: int | None = None) -> T | Parked:
        """Run the work to its end, or return `Parked` when the work would have to wait past `give_up_us`.

        An interrupt during a call is an observation (cancelled): the driver commits it before raising the interrupt
        again.
        """
        interrupt: BaseException | None = None
        held: dict[str, int] = {}
        """The fences of all leases acquired by this work."""
        try:
            step = next(work)
            while True:
                if type(step) is Wait:
                    if interrupt is not None or not self._wait(step, give_up_us):
                        break
                    answer: object = self._desk.runtime.now_us()
                else:
                    if type(step) is Commit:
                        held[step.append.action_id] = step.append.fence
                    try:
                        answer = self._do(step)
                    except Exception as error:  # tidy: boundary -- the engine decides what a failed step means
                        step = work.throw(error)
                        continue
                    if type(answer) is Leased and answer.fence is not None:
                        held[cast(Lease, step).action_id] = answer.fence
                    elif type(answer) is Called and answer.ending is _CANCELLED:
                        interrupt = answer.error
                    elif interrupt is not None and leaves_nothing_open(step):
                        break
                step = work.send(answer)
        except StopIteration as stop:
            if interrupt is not None:
                raise interrupt from None
            return cast(T, stop.value)
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            self._desk.leave(held)  # proves that no work on these attempts continues here
            self._desk.give_back(held)  # a retry need not wait for the leases to expire
            raise
        except Exception:
            self._desk.leave(held)
            raise
        work.close()
        if interrupt is not None:
            raise interrupt
        assert isinstance(step, Wait)
        return Parked(step.action_id)

    def _do(self, step: Effect) -> object:
        desk = self._desk
        # `type() is` instead of `match`: each pattern without a match costs a look-up.
        if type(step) is Commit:
            append = step.append
            result = desk.store.append((append,))[0]
            log_commit(append, result)
            if append.incidents or desk.has_listeners:
                desk.on_appended(append, result)
            return Committed(result, desk.runtime.now_us())
        if type(step) is CallReader or type(step) is Settle:
            return self._call(hand_of(step), step.context, step.arguments, step.timeout_us)
        if type(step) is Dispatch:
            now_us = desk.runtime.now_us()
            if now_us > step.not_after_us:
                return ended(Ending.NOT_MADE, now_us, now_us)
            desk.start_call(step.context.action_id)
            live, called = live_span.begin(step, now_us), None
            try:
                called = self._call(step.plan.hands.execute, step.context, step.arguments, step.timeout_us, now_us)
                return called
            finally:
                if live is not None:
                    live.end(called)
        if type(step) is RunAll:
            return tuple(self.drive(work) for work in step.works)
        assert type(step) is not Wait, "`drive` handles waits"
        return desk.answer(cast("Any", step))  # the interpreter answers all other effects

    def _call(
        self,
        hand: Handler,
        context: Context,
        arguments: Mapping[str, object],
        timeout_us: int,
        started_us: int | None = None,
    ) -> Called:
        now = self._desk.runtime.now_us
        started = now() if started_us is None else started_us
        seconds = timeout_us / US
        try:
            if hand.is_async:
                value = self._portal.run(
                    lambda: cast("Coroutine[Any, Any, object]", hand.call(context, arguments)), seconds
                )
            else:
                value = call_with_timeout(seconds, hand.call, context, arguments)
        except CallTimedOut:
            return ended(Ending.TIMED_OUT, started, now())
        except BaseException as error:  # tidy: boundary -- an error of user code is evidence, not our failure
            if isinstance(error, Exception) or _is_cancelled_task(error):
                return raised(error, started, now())
            return interrupted(error, started, now())
        return Called(_RETURNED, value, None, started, now())

    def _wait(self, step: Wait, give_up_us: int | None) -> bool:
        """Sleep until the due time or until another worker moves the action. Return False if patience ends first."""
        desk = self._desk
        runtime, version = desk.runtime, desk.version(step.action_id)
        pause, longest = slices(runtime)
        while True:
            now_us = runtime.now_us()
            if now_us >= step.until_us:
                return True
            if give_up_us is not None and now_us >= give_up_us:
                return False
            end = step.until_us if give_up_us is None else min(step.until_us, give_up_us)
            runtime.sleep(min((end - now_us) / US, pause))
            pause = min(pause * 2, longest)
            if desk.stirred(step.action_id, version):
                return True

    def close(self) -> None:
        """Stop the event loop thread."""
        self._portal.close()


def _is_cancelled_task(error: BaseException) -> bool:
    """Return whether the error is a CancelledError of the tool's own task. No program raises one without asyncio
    imported.
    """
    loaded = sys.modules.get("asyncio")
    return loaded is not None and isinstance(error, loaded.CancelledError)
