"""The vocabulary of the recovery table's rows: who and when, and a row as one line.

Called by the modules that hold the rows; it decides nothing.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

from readback.domain.finding import Finding
from readback.domain.recovery.action import RecoveryAction
from readback.domain.recovery.row import Condition, Reversal, Row
from readback.domain.side_effect import SideEffect

YES, NO = (True,), (False,)
LOW = (SideEffect.READ_ONLY, SideEffect.EPHEMERAL_WRITE, SideEffect.LOW_RISK_INTERNAL)
MEDIUM = (SideEffect.MEDIUM_RISK_WRITE,)
HIGH = (SideEffect.HIGH_RISK_EXTERNAL, SideEffect.CRITICAL_MUTATION)
CRITICAL = (SideEffect.CRITICAL_MUTATION,)
READ = (SideEffect.READ_ONLY,)
BELOW_CRITICAL = tuple(one for one in SideEffect if one is not SideEffect.CRITICAL_MUTATION)
WRITES = tuple(one for one in SideEffect if one is not SideEffect.READ_ONLY)
INTERNAL = (SideEffect.READ_ONLY, SideEffect.EPHEMERAL_WRITE)
EXTERNAL = tuple(one for one in SideEffect if one not in INTERNAL)
REVERSIBLE = (Reversal.ROLLBACK_OPEN, Reversal.COMPENSABLE)
ALWAYS: Final[Condition] = MappingProxyType({})
IN_WINDOW: Final[Condition] = {"within_window": YES}
STALE: Final[Condition] = {"maybe_stale": YES}
GONE: Final[Condition] = {"dead": YES, "late_open": NO, "effect_shown": NO}
"""No effect was seen and none can follow."""


TAKE_BACK: Final[Condition] = {"effect_shown": YES, "reversible": REVERSIBLE, "pivot_passed": NO}
NOTHING_SHOWN: Final[Condition] = {"effect_shown": NO, "reversible": REVERSIBLE, "pivot_passed": NO}
NOT_DEAD: Final[tuple[Condition, ...]] = ({"late_open": YES}, {"dead": NO})
MIDWAY_NOT_DEAD: Final[tuple[Condition, ...]] = tuple({"in_progress": YES, **one} for one in NOT_DEAD)
UNSHOWN_NOT_DEAD: Final[tuple[Condition, ...]] = tuple({"effect_shown": NO, **one} for one in NOT_DEAD)

Line = tuple[Any, ...]


def rows(finding: Finding, label: str, *lines: Line) -> tuple[Row, ...]:
    """Lines are (id, action, rationale, conditions...); a number is a row of the specification, a name ours."""
    return tuple(
        row
        for line in lines
        for row in (
            (_row(f"REC-{line[0]:02d}", finding, label, line),) if isinstance(line[0], int) else own_rows(finding, line)
        )
    )


def own_rows(finding: Finding, *lines: Line) -> tuple[Row, ...]:
    """The same, of ours alone: they stand under the finding's name."""
    label = finding.value.replace("_", " ").capitalize()
    return tuple(_row(f"RB-{line[0]}", finding, label, line, ours=True) for line in lines)


def _row(row_id: str, finding: Finding, label: str, line: Line, *, ours: bool = False) -> Row:
    _, action, why, *when = line
    return Row(row_id, finding, tuple(when) or (ALWAYS,), action, label, why, ours)


RESEND: Final[Condition] = {
    "resend_due": YES,
    "key_honoured": YES,
    "effect_shown": NO,
    "side_effect": BELOW_CRITICAL,
}
"""The same request may be sent again under its honoured key. It frees nothing."""


def resend(name: str) -> Line:
    """Comes before the other rows of its finding: the deadline is the bound."""
    why = "The request was lost, nothing of it is seen, and the tool executes one key once."
    return (f"{name}-resend", RecoveryAction.DISPATCH_AGAIN, why, RESEND)


def look_again(name: str) -> tuple[Line, Line]:
    """Re-verify comes before anything else: again within the window, then strongly."""
    return (
        (f"{name}-in-window", RecoveryAction.RETRY_VERIFICATION, "The next reading may say otherwise.", IN_WINDOW),
        (f"{name}-stale", RecoveryAction.FORCE_STRONG_READ, "Only a strong reading settles it.", STALE),
    )
