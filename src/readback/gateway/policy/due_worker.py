"""Goes on with whatever is due, for as long as the gateway runs: readings, late windows, reversals, and what a gateway
before this one left behind.

Started and ended by `gateway`. It only delivers "go on with action X"; a lease keeps two of them apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Final

from readback.canon import ReadbackError
from readback.drivers.interpreter import slices
from readback.errors import StoreError
from readback.gateway.policy.ledger_client import GatewayClient

US: Final = 1_000_000
AT_ONCE_MAX: Final = 16
"""Actions that are gone on with at the same time."""
ORPHANS_MAX: Final = 100
"""Actions that are looked at, when the gateway begins, for those that no contract here can go on with."""
ORPHANED_US: Final = 60 * US
"""Whoever has their contracts would have taken them up by then."""
NAMED_MAX: Final = 5
REFUSED_FIRST_US: Final = 5 * US
REFUSED_MAX_US: Final = 600 * US
"""An action that cannot be gone on with is tried again ever more seldom."""
REFUSED_KEPT_MAX: Final = 4_096


class DueActionWorker:
    """One gateway's, on its event loop."""

    def __init__(self, ledger: GatewayClient, say: Callable[[str], None]) -> None:
        self._ledger, self._say = ledger, say
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._refused: dict[str, tuple[int, int]] = {}
        """Until when an action is left alone, and for how long the next time."""
        self._stirred = asyncio.Event()
        self._poll = slices(ledger.runtime)[1]

    def stir(self) -> None:
        """Something may have become due."""
        self._stirred.set()

    async def stay(self) -> None:
        """Until it is cancelled; then calls in hand are cancelled too, which is recorded."""
        self._name_orphans()
        try:
            while True:
                self._stirred.clear()
                self._take_up()
                await self._pause()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _name_orphans(self) -> None:
        try:
            orphans = self._ledger.orphans(ORPHANED_US, ORPHANS_MAX)
        except StoreError:
            return  # what is due cannot be looked up either, which is said
        if orphans:
            names = ", ".join(sorted({repr(each.contract) for each in orphans})[:NAMED_MAX])
            self._say(
                f"{len(orphans)} actions are due for over a minute whose contracts are not among those here ({names}):"
                " nobody goes on with them until a gateway or a worker has these contracts again."
            )

    def _take_up(self) -> None:
        free = AT_ONCE_MAX - len(self._tasks)
        now_us = self._ledger.runtime.now_us()
        left_alone = {*self._tasks, *(each for each, (until_us, _) in self._refused.items() if until_us > now_us)}
        try:  # behind as many as are left alone there may be others
            found = self._ledger.each_due(AT_ONCE_MAX + len(left_alone)) if free else iter(())
            due = [*islice((each for each in found if each not in left_alone), free)]
        except StoreError as error:
            self._say(f"What is due cannot be looked up: {error}")
            return
        for action_id in due:
            task = asyncio.create_task(self._advance(action_id), name=f"readback-{action_id}")
            self._tasks[action_id] = task
            task.add_done_callback(partial(self._ended, action_id))

    async def _advance(self, action_id: str) -> None:
        before = self._ledger.version(action_id)
        try:
            await self._ledger.advance(action_id)
        except ReadbackError as error:
            self._refuse(action_id, str(error))
            return
        if self._ledger.version(action_id) == before:
            self._refuse(action_id, "")  # it waits for somebody else, and would be due again at once
        else:
            self._refused.pop(action_id, None)

    def _ended(self, action_id: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(action_id, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._refuse(action_id, f"{type(error).__name__}: {error}")
        self._stirred.set()

    def _refuse(self, action_id: str, why: str) -> None:
        """Left for later, and named when it is met for the first time."""
        known = self._refused.pop(action_id, None)
        pause_us = REFUSED_FIRST_US if known is None else min(2 * known[1], REFUSED_MAX_US)
        self._refused[action_id] = (self._ledger.runtime.now_us() + pause_us, pause_us)
        while len(self._refused) > REFUSED_KEPT_MAX:
            del self._refused[next(iter(self._refused))]
        if known is None and why:
            self._say(f"Action {action_id} cannot be gone on with now: {why}")

    async def _pause(self) -> None:
        """Until something ends, something is stirred, or something becomes due."""
        runtime = self._ledger.runtime
        next_us = self._ledger.next_due_us()
        ahead = None if next_us is None else max(next_us - runtime.now_us(), 0) / US
        # What is due and was not taken up is refused or in hand: looking again at once would only spin.
        seconds = self._poll if not ahead else min(ahead, self._poll)
        waits: set[asyncio.Future[None] | asyncio.Task[None]] = {asyncio.ensure_future(self._hear())}
        if seconds != float("inf"):
            waits.add(asyncio.ensure_future(runtime.sleep_async(seconds)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    async def _hear(self) -> None:
        await self._stirred.wait()
