"""A judgement as an entry tells it: the part of an action's fold that says what was found and decided last.

Used by `action` alone, which folds it, and by whoever reads an action. It decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)  # the standard one: each entry sets fields of it, which costs more in a native one
class Judgement:
    """The last judgement, as recorded. Empty words where there was none."""

    verdict: str = "not_checked"
    why: str = ""
    finding: str = ""
    discrepancy: str = ""
    attribution: str = "unknown"
    row: str = ""
    table: str = ""
    recovery: str = ""
    level: int = 1
    effect_shown: bool = False
    dead: bool = False
    done: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()
    detail: str = ""
    ref: str = ""
