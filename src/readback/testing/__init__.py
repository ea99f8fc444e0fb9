"""Public: simulated worlds with a known truth, fakes, conformance suites, drills. This room imports no adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from readback.testing.driver_drill import KeyDrill, drill_key

__all__ = ["KeyDrill", "drill_key"]


def __getattr__(name: str) -> object:
    """Import a drill at its first use, so the other modules need not load contracts."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("readback.testing.driver_drill"), name)
