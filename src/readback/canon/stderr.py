"""Warnings on standard error, if there is one.

A service may have no standard error, and the reader of a pipe may be gone. Neither may replace the caller's own result
or error.
"""

from __future__ import annotations

import sys
from contextlib import suppress


def warn(text: str) -> None:
    """Write one warning. Never raises."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):  # a broken pipe, or a closed stream
            sys.stderr.write(f"readback: {text}\n")
