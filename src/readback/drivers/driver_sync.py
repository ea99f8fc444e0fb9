"""The sync driver: does what the engine asks for, in the caller's thread, one step after another.

One of the two places that may call a tool. It calls it only in answer to a Dispatch step, which the engine yields for
an attempt that is durable.
"""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Generator, Mapping
from typing import Any, Final, TypeVar, cast

from readback.background.dispatcher import OutboxDispatcher
from readback.domain.context import Context
from readback.drivers.call_timeout import CallTimedOut, EventLoopThread, call_with_timeout
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
    AllResults,
    Called,
    CallReader,
    Commit,
    Committed,
    Dispatch,
    Effect,
    EffectResult,
    Ending,
    Lease,
    Leased,
    RunAll,
    Settle,
    Wait,
    Woken,
)
from readback.ports.handlers import Handler
from readback.ports.runtime import Runtime
from readback.ports.storage.store import LedgerStore

_CANCELLED: Final = Ending.CANCELLED
_RETURNED: Final = Ending.RETURNED

T = TypeVar("T")
US = 1_000_000


class SyncDriver:
    """Drives any number of actions, one at a time for each thread that calls it."""

    def __init__(self, store: LedgerStore, runtime: Runtime, courier: OutboxDispatcher | None = None) -> None:
        self._desk = EffectInterpreter(store, runtime, courier)
        self._portal = EventLoopThread()

    def drive(self, work: Generator[Effect, EffectResult, T], give_up_us: int | None = None) -> T | Parked:
        """To the end of the work, or until `give_up_us`, when it would have to wait longer.

        An interrupt during a call is an observation (cancelled), made durable before the interrupt goes on.
        """
        interrupt: BaseException | None = None
        held: dict[str, int] = {}
        """The fences of the leases that this work has had."""
        try:
            step = next(work)
            while True:
                if type(step) is Wait:
                    if interrupt is not None or not self._wait(step, give_up_us):
                        break
                    answer: EffectResult = Woken(self._desk.runtime.now_us())
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
            self._desk.leave(held)  # an attempt of ours goes on no more: its end is proved here
            self._desk.give_back(held)  # whoever repeats the call need not wait for the end of our leases
            raise
        except Exception:
            self._desk.leave(held)
            raise
        work.close()
        if interrupt is not None:
            raise interrupt
        assert isinstance(step, Wait)
        return Parked(step.action_id)

    def _do(self, step: Effect) -> EffectResult:
        desk = self._desk
        # By their types and not by a match: each pattern that does not fit costs a look-up of its own.
        if type(step) is Commit:
            append = step.append
            result = desk.store.append((append,))[0]
            if append.incidents or desk.listens:
                desk.heard(append, result)
            return Committed(result, desk.runtime.now_us())
        if type(step) is CallReader or type(step) is Settle:
            return self._call(hand_of(step), step.context, step.arguments, step.timeout_us)
        if type(step) is Dispatch:
            now_us = desk.runtime.now_us()
            if now_us > step.not_after_us:
                return ended(Ending.NOT_MADE, now_us, now_us)
            return self._call(step.plan.hands.execute, step.context, step.arguments, step.timeout_us, now_us)
        if type(step) is RunAll:
            return AllResults(tuple(self.drive(work) for work in step.works))
        assert type(step) is not Wait, "a wait is not done but waited"
        return desk.answer(cast("Any", step))  # what is left is asked of the desk

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
        except BaseException as error:  # tidy: boundary -- whatever user code raises is evidence, never our failure
            if isinstance(error, Exception) or _is_cancelled_task(error):
                return raised(error, started, now())
            return interrupted(error, started, now())
        return Called(_RETURNED, value, None, started, now())

    def _wait(self, step: Wait, give_up_us: int | None) -> bool:
        """Sleeps until it is time, or somebody moved the action; false if the caller's patience ends first."""
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
        """Leaves no thread behind."""
        self._portal.close()


def _is_cancelled_task(error: BaseException) -> bool:
    """A cancelled task of the tool's own, which is its answer. Nobody raises one who has not imported asyncio."""
    loaded = sys.modules.get("asyncio")
    return loaded is not None and isinstance(error, loaded.CancelledError)
