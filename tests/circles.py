"""What refers to itself in a circle: Python lets it go only when it looks for garbage, at the cost of some call."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def circles() -> Iterator[list[str]]:
    """Filled at the end: the objects of ours that were left in circles meanwhile."""
    found: list[str] = []
    flags = gc.get_debug()
    with warnings.catch_warnings():
        # Another test's proposal, held in a circle by a caught error, warns here: that warning is not about this test.
        warnings.simplefilter("ignore")
        gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        found += [f"{_whose(each)}.{_name(each)}" for each in gc.garbage if _whose(each).startswith("readback.")]
    finally:
        gc.set_debug(flags)
        gc.garbage.clear()
        gc.enable()


def _whose(each: object) -> str:
    return str(getattr(each, "__module__", None) or type(each).__module__)


def _name(each: object) -> str:
    return str(getattr(each, "__qualname__", None) or type(each).__qualname__)
