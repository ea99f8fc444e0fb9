"""Recovery rows: situations, conditions over situations, and the row type.

`recovery.rule` builds tables of rows and checks each table against the floor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from readback.canon.frozen import dataclass
from readback.domain.finding import Finding
from readback.domain.recovery.action import EFFECTS, RecoveryAction
from readback.domain.side_effect import SideEffect
from readback.domain.state import State


class Reversal(StrEnum):
    """Ways to reverse the effect."""

    NONE = "none"
    ROLLBACK_OPEN = "rollback_open"
    """A local transaction is open and can be rolled back."""
    COMPENSABLE = "compensable"
    """Another action reverses the effect."""


@dataclass(frozen=True, slots=True)
class Situation:
    """The inputs of the rows. All fields are small closed sets, so that a table can be proven total."""

    side_effect: SideEffect
    within_window: bool
    """A later reading may change the result: the window is open and no verdict is final."""
    maybe_stale: bool
    """The deciding reading was weaker than strong."""
    reversible: Reversal
    pivot_passed: bool
    effect_shown: bool
    """A reading shows an effect of ours."""
    executed: bool
    """An attempt may have reached the tool."""
    key_record: bool
    """The result of the attempt can be looked up under its key, durably."""
    key_honoured: bool
    """The contract declares that the tool executes a key once."""
    dead: bool
    """The attempt can have no later effect."""
    equivalent_duplicate: bool
    """The duplicate leaves an equivalent state, and the contract allows that."""
    repeated: bool
    """The counter of consecutive faults of this contract or source is at its limit."""
    late_open: bool
    """An effect may still land late."""
    searched: bool = False
    """A search or look-up covered all other places of the effect."""
    in_progress: bool = False
    """The answer was accepted or pending, or the contract calls the state intermediate."""
    resend_due: bool = False
    """The request was lost, no effect is visible, the tool honours the key, and the backoff is over."""


ConditionValue = bool | SideEffect | Reversal
Condition = Mapping[str, tuple[ConditionValue, ...]]
"""Field of the situation -> its allowed values; unnamed fields may have any value."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row. Applies where any of its conditions is met (`({},)`: always).

    `label` is the specification's discrepancy type, or our own for `ours`.
    """

    id: str
    finding: Finding
    when: tuple[Condition, ...]
    action: RecoveryAction
    label: str
    rationale: str
    ours: bool

    @property
    def target_state(self) -> State:
        """The state after the action."""
        return EFFECTS[self.action].target_state

    @property
    def opens_review(self) -> bool:
        """Whether the action needs a review."""
        return EFFECTS[self.action].opens_review

    @property
    def opens_incident(self) -> bool:
        """Whether the action opens an incident."""
        return EFFECTS[self.action].opens_incident

    @property
    def freezes(self) -> bool:
        """Whether the action freezes the target against further actions."""
        return EFFECTS[self.action].freezes

    def matches(self, situation: Situation) -> bool:
        """Whether any condition of the row is met."""
        for condition in self.when:
            for name, allowed in condition.items():
                if getattr(situation, name) not in allowed:
                    break
            else:
                return True
        return False


_BOOLS: Final[tuple[ConditionValue, ...]] = (False, True)
DOMAINS: Final[Mapping[str, tuple[ConditionValue, ...]]] = MappingProxyType(
    {
        **{field.name: _BOOLS for field in fields(Situation)},
        "side_effect": tuple(SideEffect),
        "reversible": tuple(Reversal),
    }
)
"""Every field of a situation with all its values."""


# The vocabulary of the recovery table's rows: conditions, and a row as one line.

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
    """Build rows from lines (id, action, rationale, conditions...). A number is a row of the specification, a name
    ours.
    """
    return tuple(
        row
        for line in lines
        for row in (
            (_row(f"REC-{line[0]:02d}", finding, label, line),) if isinstance(line[0], int) else own_rows(finding, line)
        )
    )


def own_rows(finding: Finding, *lines: Line) -> tuple[Row, ...]:
    """Build our own rows, labelled by the finding's name."""
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
"""The same request may be sent again under its honoured key. The key stays taken."""


def resend(name: str) -> Line:
    """The first row of its finding. The deadline bounds the resends."""
    why = "The request was lost, nothing of it is seen, and the tool executes one key once."
    return (f"{name}-resend", RecoveryAction.DISPATCH_AGAIN, why, RESEND)


def look_again(name: str) -> tuple[Line, Line]:
    """Verify again before any other action: within the window, then by a strong reading."""
    return (
        (f"{name}-in-window", RecoveryAction.RETRY_VERIFICATION, "The next reading may say otherwise.", IN_WINDOW),
        (f"{name}-stale", RecoveryAction.FORCE_STRONG_READ, "Only a strong reading settles it.", STALE),
    )
