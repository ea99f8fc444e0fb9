"""Resume due actions while the gateway runs: reads, late-effect checks, compensations, and work of earlier gateways.

Started and stopped by `gateway`. The worker only resumes actions; leases keep two workers apart.
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
"""Most actions resumed at the same time."""
ORPHANS_MAX: Final = 100
"""How many due actions are searched at start for actions without a contract here."""
ORPHANED_US: Final = 60 * US
"""Age of an overdue action after which no other worker seems to have its contract."""
NAMED_MAX: Final = 5
REFUSED_FIRST_US: Final = 5 * US
REFUSED_MAX_US: Final = 600 * US
"""Longest pause before a failed action is tried again. The pause doubles each time."""
REFUSED_KEPT_MAX: Final = 4_096


class DueActionWorker:
    """Resumes due actions of one gateway, on its event loop."""

    def __init__(self, ledger: GatewayClient, say: Callable[[str], None]) -> None:
        self._ledger, self._say = ledger, say
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._refused: dict[str, tuple[int, int]] = {}
        """For each failed action: the time of the next try, and the last pause."""
        self._stirred = asyncio.Event()
        self._poll = slices(ledger.runtime)[1]

    def notify(self) -> None:
        """Notify the worker of a possibly due action."""
        self._stirred.set()

    async def stay(self) -> None:
        """Run until cancelled. Calls in flight are then cancelled and recorded."""
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
            return  # the query for due actions fails too, and reports the fault
        if orphans:
            names = ", ".join(sorted({repr(each.contract) for each in orphans})[:NAMED_MAX])
            self._say(
                f"{len(orphans)} actions are overdue for over a minute without a contract here ({names}):"
                " they wait until a gateway or a worker has these contracts again."
            )

    def _take_up(self) -> None:
        free = AT_ONCE_MAX - len(self._tasks)
        now_us = self._ledger.runtime.now_us()
        left_alone = {*self._tasks, *(each for each, (until_us, _) in self._refused.items() if until_us > now_us)}
        try:  # others may follow behind the deferred ones
            found = self._ledger.each_due(AT_ONCE_MAX + len(left_alone)) if free else iter(())
            due = [*islice((each for each in found if each not in left_alone), free)]
        except StoreError as error:
            self._say(f"Due actions cannot be read: {error}")
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
            self._refuse(action_id, "")  # no progress: the action would be due again at once
        else:
            self._refused.pop(action_id, None)

    def _ended(self, action_id: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(action_id, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._refuse(action_id, f"{type(error).__name__}: {error}")
        self._stirred.set()

    def _refuse(self, action_id: str, why: str) -> None:
        """Defer the action, and report its first failure."""
        known = self._refused.pop(action_id, None)
        pause_us = REFUSED_FIRST_US if known is None else min(2 * known[1], REFUSED_MAX_US)
        self._refused[action_id] = (self._ledger.runtime.now_us() + pause_us, pause_us)
        while len(self._refused) > REFUSED_KEPT_MAX:
            del self._refused[next(iter(self._refused))]
        if known is None and why:
            self._say(f"Action {action_id} cannot be resumed now: {why}")

    async def _pause(self) -> None:
        """Wait until an action ends, a notification arrives, or an action becomes due."""
        runtime = self._ledger.runtime
        next_us = self._ledger.next_due_us()
        ahead = None if next_us is None else max(next_us - runtime.now_us(), 0) / US
        # A due action not taken up is deferred or in flight: another look at once would only spin.
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
