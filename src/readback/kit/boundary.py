"""The kit's boundary: an exception of a call becomes a result here, and nowhere else in the kit.

Frameworks treat an exception of a tool in many ways: some tell the model to try again, and one runs the tool after all.
So a tool of the kit returns a result for every error. Cancellation, interrupts and exits of the program still pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


def guarded(work: Callable[[], T], failed: Callable[[Exception], T]) -> T:
    """Return the result of the work, or of `failed` with the work's error.

    Example:
        >>> from readback.kit.boundary import guarded
        >>> guarded(lambda: 1 // 0, lambda error: -1)
        -1
    """
    try:
        return work()
    except Exception as error:  # tidy: boundary -- the caller gets a result, never an exception
        return failed(error)


async def aguarded(work: Callable[[], Awaitable[T]], failed: Callable[[Exception], T]) -> T:
    """Return the result of the work, or of `failed` with the work's error, run in a thread.

    Example:
        >>> import asyncio
        >>> from readback.kit.boundary import aguarded
        >>> async def work() -> int:
        ...     raise ValueError
        >>> asyncio.run(aguarded(work, lambda error: -1))
        -1
    """
    try:
        return await work()
    except Exception as error:  # tidy: boundary -- the caller gets a result, never an exception
        return await asyncio.to_thread(failed, error)
