"""Waiting for a real process, without a clock: ask often, and give up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


def eventually(condition: Callable[[], Any], *, turns: int = 1_000) -> Any:
    """The condition's first true value; asks every 10 ms, and gives up after `turns` (10 s)."""
    pause = threading.Event()
    for _ in range(turns):
        if value := condition():
            return value
        pause.wait(0.01)
    raise AssertionError("it never became true")
