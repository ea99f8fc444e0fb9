"""The form of the recovery table's rows: situations, conditions over them, and what a row is.

`recovery.rule` makes tables of rows; `recovery.check` holds them against the floor. It decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from readback.canon.frozen import dataclass
from readback.domain.finding import Finding
from readback.domain.recovery.action import EFFECTS, RecoveryAction
from readback.domain.side_effect import SideEffect
from readback.domain.state import State


class Reversal(StrEnum):
    """How the effect could be taken back."""

    NONE = "none"
    ROLLBACK_OPEN = "rollback_open"
    """A local transaction is still ours to abort."""
    COMPENSABLE = "compensable"
    """Another action reverses it."""


@dataclass(frozen=True, slots=True)
class Situation:
    """The conditions that rows ask for; all of them closed and small, so that a table can be proven total."""

    side_effect: SideEffect
    within_window: bool
    """Verification may still come out otherwise by itself: the window is open and no verdict is final."""
    maybe_stale: bool
    """The deciding reading was weaker than strong."""
    reversible: Reversal
    pivot_passed: bool
    effect_shown: bool
    """A reading shows an effect of ours."""
    executed: bool
    """An attempt may have reached the tool."""
    key_record: bool
    """What became of the attempt can be looked up under its key, durably."""
    key_honoured: bool
    """The contract declares that the tool executes one key once."""
    dead: bool
    """Nothing of the attempt may still land."""
    equivalent_duplicate: bool
    """The duplicate leaves an equivalent state, and the contract allows that."""
    repeated: bool
    """The counter of consecutive faults of this contract or source is at its limit."""
    late_open: bool
    """An effect may still land late."""
    searched: bool = False
    """A search or look-up covered the places where the effect could be instead."""
    in_progress: bool = False
    """The answer was accepted or pending, or the state is one that the contract calls intermediate."""
    resend_due: bool = False
    """The request was lost, nothing of it is seen, the tool honours the key, and the backoff is over."""


ConditionValue = bool | SideEffect | Reversal
Condition = Mapping[str, tuple[ConditionValue, ...]]
"""Field of the situation -> its allowed values; fields that are not named may be anything."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row. It applies where any one of its conditions is met (`({},)`: always).

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
        """Where the action leads."""
        return EFFECTS[self.action].target_state

    @property
    def opens_review(self) -> bool:
        """Whether a person has to look at it."""
        return EFFECTS[self.action].opens_review

    @property
    def opens_incident(self) -> bool:
        """Whether somebody is to be alarmed."""
        return EFFECTS[self.action].opens_incident

    @property
    def freezes(self) -> bool:
        """Whether further actions on the same target are held."""
        return EFFECTS[self.action].freezes

    def matches(self, situation: Situation) -> bool:
        """Whether one of its conditions is met."""
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
