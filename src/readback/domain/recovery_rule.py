"""The form of the recovery table: situations, actions, rows, and what every table must satisfy.

`recovery` holds the rows. A table is data: an operator may bring another, and `RecoveryTable.check`
refuses one that has gaps or goes below the floor. No model's opinion enters here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import product
from types import MappingProxyType
from typing import Final

from readback.canon import Json, envelope_bytes, sha256_hex
from readback.canon.swift import swift
from readback.domain.errors import InvariantError, SettingsError
from readback.domain.finding import Finding
from readback.domain.recovery_action import EFFECTS, RecoveryAction
from readback.domain.side_effect import SideEffect
from readback.domain.state import State


class Reversal(StrEnum):
    """How the effect could be taken back."""

    NONE = "none"
    ROLLBACK_OPEN = "rollback_open"
    """A local transaction is still ours to abort."""
    COMPENSABLE = "compensable"
    """Another action reverses it."""


@swift
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


_A = RecoveryAction
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
        return any(
            all(getattr(situation, name) in allowed for name, allowed in condition.items()) for condition in self.when
        )


_BOOLS: Final[tuple[ConditionValue, ...]] = (False, True)
DOMAINS: Final[Mapping[str, tuple[ConditionValue, ...]]] = MappingProxyType(
    {
        **{field.name: _BOOLS for field in fields(Situation)},
        "side_effect": tuple(SideEffect),
        "reversible": tuple(Reversal),
    }
)
"""Every field of a situation with all its values."""

_SUCCESS_ONLY_FROM: Final = MappingProxyType(
    {
        _A.ACCEPT: Finding.VERIFIED,
        _A.RECORD_NO_OP: Finding.NO_OP_ALLOWED,
        _A.RECORD_IDEMPOTENT_REPLAY: Finding.DUPLICATE_SIDE_EFFECT,
    }
)
_REVERSING: Final = frozenset({_A.COMPENSATE_OR_ROLL_BACK, _A.COMPENSATE_AND_STOP, _A.BACKWARD_COMPENSATION})
_FLOOR: Final[Mapping[RecoveryAction, Condition]] = MappingProxyType(
    {
        **{action: {"effect_shown": (True,), "pivot_passed": (False,)} for action in _REVERSING},
        _A.RETRY_SAME_KEY: {
            "effect_shown": (False,),
            "dead": (True,),
            "late_open": (False,),
            "key_honoured": (True,),
            "maybe_stale": (False,),
        },
        _A.RECORD_IDEMPOTENT_REPLAY: {"equivalent_duplicate": (True,)},
        _A.DEFER_OR_FAIL: {"executed": (False,)},
        _A.REVALIDATE_APPROVAL: {"executed": (False,)},
    }
)
"""What a row's conditions must at least demand before it may choose the action."""


class RecoveryTable:
    """An ordered set of rows: within a finding the first that matches decides."""

    __slots__ = ("_by_finding", "rows", "version")

    def __init__(self, rows: tuple[Row, ...]) -> None:
        self.rows = rows
        self._by_finding = {finding: tuple(row for row in rows if row.finding is finding) for finding in Finding}
        self.version = sha256_hex(envelope_bytes([_row_json(row) for row in rows]))

    def decide(self, finding: Finding, situation: Situation) -> Row:
        """The row for a finding in a situation. A checked table always has one."""
        for row in self._by_finding[finding]:
            if row.matches(situation):
                return row
        raise InvariantError(f"The recovery table has no row for {finding.value} in {situation}.")

    def row(self, row_id: str) -> Row | None:
        """The row with this id."""
        return next((row for row in self.rows if row.id == row_id), None)

    def check(self) -> None:
        """Raise SettingsError unless the table is total, has no dead row and keeps the floor."""
        problems = [*self._malformed()] or [*self._below_floor(), *self._gaps()]
        if problems:
            raise SettingsError(
                f"The recovery table cannot be used: {problems[0]}",
                remedy="Correct the named rows; nothing was run.",
                details={"problems": problems},
            )

    def _malformed(self) -> Iterator[str]:
        ids = [row.id for row in self.rows]
        for row_id in sorted({one for one in ids if ids.count(one) > 1}):
            yield f"{row_id} stands there twice."
        for row in self.rows:
            for name in {name for condition in row.when for name in condition}:
                if name not in DOMAINS:
                    yield f"{row.id} asks for {name!r}, which no situation has."

    def _below_floor(self) -> Iterator[str]:
        for row in self.rows:
            only = _SUCCESS_ONLY_FROM.get(row.action)
            if only is not None and row.finding is not only:
                yield f"{row.id} makes a success of {row.finding.value}."
            if row.action is _A.RETRY_SAME_KEY and row.finding is not Finding.REFUTED_DEAD:
                yield f"{row.id} repeats an action that is not refuted and dead."
            for name, demanded in _FLOOR.get(row.action, {}).items():
                allowed = {value for condition in row.when for value in condition.get(name, DOMAINS[name])}
                if not allowed <= set(demanded):
                    yield f"{row.id} chooses {row.action.value} without demanding {name}."

    def _gaps(self) -> Iterator[str]:
        for finding in Finding:
            rows = self._by_finding[finding]
            hit: set[str] = set()
            for situation in situations_of(rows):
                match = next((row for row in rows if row.matches(situation)), None)
                if match is None:
                    yield f"{finding.value} has no row for {situation}."
                    break
                hit.add(match.id)
            else:
                yield from (f"{row.id} can never apply." for row in rows if row.id not in hit)


def situations_of(rows: tuple[Row, ...]) -> Iterator[Situation]:
    """Every situation that these rows can tell apart: the fields they name in all combinations."""
    named = sorted({name for row in rows for condition in row.when for name in condition})
    rest = {name: values[0] for name, values in DOMAINS.items()}
    for values in product(*(DOMAINS[name] for name in named)):
        yield Situation(**{**rest, **dict(zip(named, values, strict=True))})  # type: ignore[arg-type]


def _row_json(row: Row) -> Json:
    when: list[Json] = [
        {name: [_plain(value) for value in condition[name]] for name in sorted(condition)} for condition in row.when
    ]
    return {
        "id": row.id,
        "finding": row.finding.value,
        "when": when,
        "action": row.action.value,
        "target_state": row.target_state.value,
    }


def _plain(value: ConditionValue) -> Json:
    return value if isinstance(value, bool) else value.value
