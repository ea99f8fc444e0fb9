"""Public: decision types. An envelope bounds one action, from its file to its sealed episode.

A name is imported at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from readback.decisions.api import Decided, Decision, DecisionType
    from readback.decisions.model.envelope import Counts, Snapshot
    from readback.decisions.model.verification import VerificationResult

_HOMES = {
    "Counts": "readback.decisions.model.envelope",
    "Decided": "readback.decisions.api",
    "Decision": "readback.decisions.api",
    "DecisionType": "readback.decisions.api",
    "Snapshot": "readback.decisions.model.envelope",
    "VerificationResult": "readback.decisions.model.verification",
}

__all__ = ["Counts", "Decided", "Decision", "DecisionType", "Snapshot", "VerificationResult"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)
