"""A coroutine that is begun at once: one that never waits needs no timer.

Called by the async driver. A limit can only end what waits on the loop, so that it is set when the call waits
for the first time; what is over by then costs nothing more.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from types import CoroutineType
from typing import Any


class EagerCoroutine:
    """An awaitable that has run to its first wait, or to its end (`over`, with its `value`).

    What it raises before its first wait is raised where it is made.
    """

    __slots__ = ("_rest", "_waits_for", "over", "value")

    def __init__(self, rest: Any) -> None:
        self._rest, self._waits_for, self.over, self.value = rest, None, False, None
        if type(rest) is not CoroutineType:
            return
        try:
            self._waits_for = rest.send(None)
        except StopIteration as end:
            self.over, self.value = True, end.value

    def __await__(self) -> Generator[Any, Any, object]:
        if type(self._rest) is not CoroutineType:
            return (yield from self._rest.__await__())
        return (yield from self._go_on(self._rest))

    def _go_on(self, rest: Coroutine[Any, Any, object]) -> Generator[Any, Any, object]:
        """Hands on what the coroutine waits for, and hands back what comes of it, until it ends."""
        waits_for = self._waits_for
        while True:
            try:
                try:
                    answer = yield waits_for
                except BaseException as thrown:  # tidy: boundary -- handed on to the coroutine that waits
                    waits_for = rest.throw(thrown)
                else:
                    waits_for = rest.send(answer)
            except StopIteration as end:
                return end.value
