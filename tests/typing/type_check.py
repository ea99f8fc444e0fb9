"""mypy over a short program, in this process, so that what is known of the package is used again."""

from __future__ import annotations

import gc

from mypy import api


def type_check(program: str) -> tuple[str, int]:
    """mypy's report and exit code. mypy makes collections rare for good, and later tests count on them."""
    before = gc.get_threshold()
    try:
        said, _, code = api.run(["-c", program])
    finally:
        gc.set_threshold(*before)
    return said, code
