"""Looks that many new actions of one event loop take together, where a look is a journey over a network.

Called by the async driver alone, for stores that offer it. A store beside us is asked at once, on the loop: that is
quicker than a hop to a thread and back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from readback.lifecycle.steps import LoadOpening
from readback.ports.runtime import Runtime
from readback.ports.store import LooksTogether, Opened
from readback.sdk.group_commit import call_back, holding

TOGETHER_MAX: Final = 256
"""So many are asked in one look; a loop with more in flight asks again."""

Waiting = tuple[LoadOpening, "asyncio.Future[Opened]"]


class Looks:
    """Whatever is asked while a look is on its way goes into the next one."""

    def __init__(self, store: LooksTogether, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._queue: list[Waiting] = []
        self._busy = False
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="readback-reader")

    async def opening(self, step: LoadOpening) -> Opened:
        """What the store answers. Raises StoreError."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Opened] = loop.create_future()
        self._queue.append((step, future))
        if not self._busy:
            self._busy = True
            loop.call_soon(self._look, loop)  # whoever is ready in this turn comes along
        return await future

    def close(self) -> None:
        """Waits for a look that is on its way."""
        self._reader.shutdown(wait=True)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        batch, self._queue = self._queue[:TOGETHER_MAX], self._queue[TOGETHER_MAX:]
        if not batch:
            self._busy = False
            return
        asked = [(step.tenant, step.key_hash, step.subjects) for step, _ in batch]
        hold = holding(self._runtime)
        hold.__enter__()

        def done(finished: Future[list[Opened]]) -> None:
            call_back(loop, self._settle, loop, batch, finished)
            hold.__exit__(None, None, None)

        _submitted(self._reader, lambda: self._store.openings(asked)).add_done_callback(done)

    def _settle(self, loop: asyncio.AbstractEventLoop, batch: list[Waiting], work: Future[list[Opened]]) -> None:
        error = work.exception()
        for place, (_, future) in enumerate(batch):
            if future.done():
                continue  # its task was cancelled
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(work.result()[place])
        loop.call_soon(self._look, loop)


def _submitted(reader: ThreadPoolExecutor, look: Callable[[], list[Opened]]) -> Future[list[Opened]]:
    try:
        return reader.submit(look)
    except RuntimeError as error:  # closed meanwhile
        refused: Future[list[Opened]] = Future()
        refused.set_exception(error)
        return refused
