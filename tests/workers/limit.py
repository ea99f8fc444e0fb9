"""A limit for whatever waits for a process that a test has started."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE_S = 60


@contextmanager
def killed_after(process: subprocess.Popen[Any], seconds: float = PATIENCE_S) -> Iterator[None]:
    """A process that has not ended or answered by then is killed, so that each read from it and wait for it ends."""
    timer = threading.Timer(seconds, process.kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
