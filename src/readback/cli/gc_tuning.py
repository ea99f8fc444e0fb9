"""When a process of ours looks for garbage: seldom, since looking costs the more, the more is at work.

Used by the commands that read a whole log, and by those that stay: workers, gateways, the bench. What Python's
reference counts let go is gone at once; this is about what refers to itself in a circle, and the hot path makes none.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

READING: Final = 200_000
"""Values made, less those let go, before garbage is looked for by who reads a whole log."""
SERVING: Final = 10_000
"""The same for who stays, and cannot know what the code of others leaves behind: a few megabytes at most."""


@contextmanager
def undisturbed(made: int) -> Iterator[None]:
    """Looks for garbage once so many more values are there, and never again at what is there already."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(made, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
