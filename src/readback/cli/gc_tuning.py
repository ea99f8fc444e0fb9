"""Make garbage collection rare in processes with many live objects, since a collection costs more with each object.

For commands that read a whole log, workers, gateways and the benchmark. Reference counts free most objects at once. The
collector frees only cycles, and the hot path makes no cycles.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

READING: Final = 200_000
"""Net allocations between two collections while a command reads a whole log."""
SERVING: Final = 10_000
"""Net allocations between two collections in a long-lived process. User code may leave a few megabytes of cycles."""


@contextmanager
def undisturbed(made: int) -> Iterator[None]:
    """Collect garbage only after `made` net allocations, and never scan the objects alive at the start."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(made, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
