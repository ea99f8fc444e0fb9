"""Deliver messages to a callable of the program, sync or async, within a time limit.

Chosen by bootstrap for a subscriber with `tell`. Each call runs in its own thread, because only a thread can be given
up. A hanging call is abandoned, and no further call is made until the abandoned call returns.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from readback.domain.records.message import Message
from readback.errors import SinkError


class CallableSink:
    """Call `tell` with each message. A return, with any value, means accepted."""

    def __init__(self, tell: Callable[[Message], Any], *, timeout_s: float) -> None:
        self._tell, self._timeout_s = tell, timeout_s
        self._lock = threading.Lock()
        self._call: _Call | None = None
        self._stopped = False

    def deliver(self, message: Message) -> None:
        """Raises SinkError for a timeout or an unfinished earlier call. The callable's own errors pass."""
        with self._lock:
            if self._stopped:
                raise SinkError("The subscriber's callable is not called any more.")
            if self._call is not None and self._call.is_alive():
                raise SinkError("The subscriber's callable is not back from the call before.")
            call = self._call = _Call(self._tell, message)
            call.start()
        if not call.over.wait(self._timeout_s):
            raise SinkError(f"The subscriber's callable took over {self._timeout_s:g} s.")
        if not call.returned and call.raised is None:
            raise SinkError("The subscriber's callable was given up.")
        call.join()
        if call.raised is not None:
            raise call.raised

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self._call is not None:
                self._call.over.set()  # release the waiter; the call itself cannot be stopped


class _Call(threading.Thread):
    """One call and its result."""

    def __init__(self, tell: Callable[[Message], Any], message: Message) -> None:
        super().__init__(name="readback-tell", daemon=True)
        self._work, self._message = tell, message
        self.over = threading.Event()
        self.returned = False
        self.raised: Exception | None = None

    def run(self) -> None:
        try:
            answer = self._work(self._message)
            if inspect.isawaitable(answer):
                _await(answer)
            self.returned = True
        except Exception as error:  # tidy: boundary -- user code: any error means not accepted
            self.raised = error
        finally:
            self.over.set()


def _await(answer: Awaitable[object]) -> None:
    import asyncio

    async def awaited() -> None:
        await answer

    asyncio.run(awaited())
