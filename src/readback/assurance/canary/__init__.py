"""The canary: a candidate judges beside the incumbent, on the same evidence and never on an action's path. Public.

`readback gates canary` and `readback worker --canary` use the same functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from readback.assurance.canary.control import start_canary, stop_canary
    from readback.assurance.canary.deciding import decide_by_candidate
    from readback.assurance.canary.follower import CanaryFollower
    from readback.assurance.canary.terms import Stage

__all__ = ["CanaryFollower", "Stage", "decide_by_candidate", "start_canary", "stop_canary"]

_HOMES: Final = {
    "CanaryFollower": "follower",
    "Stage": "terms",
    "decide_by_candidate": "deciding",
    "start_canary": "control",
    "stop_canary": "control",
}


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
