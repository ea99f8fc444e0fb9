"""The event loops that a gateway may run on: asyncio's own in a program, uvloop's in `readback mcp`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

import uvloop

LOOPS: Final[dict[str, Callable[[], asyncio.AbstractEventLoop]]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
T = TypeVar("T")


def run_on(loop: str, work: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, on the loop of this name."""
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(work)
