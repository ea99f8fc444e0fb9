"""The recovery table: an ordered set of rows, its version, and what every table must satisfy.

`recovery` holds the default one. A table is data: an operator may bring another, and `RecoveryTable.check` refuses one
that has gaps or goes below the floor. No model's opinion enters here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from readback.canon import Json, payload_bytes, sha256_hex
from readback.domain.errors import InvariantError, SettingsError
from readback.domain.finding import Finding
from readback.domain.recovery.action import RecoveryAction
from readback.domain.recovery.check import Fault, faults
from readback.domain.recovery.row import DOMAINS, Condition, ConditionValue, Reversal, Row, Situation

__all__ = [
    "DOMAINS",
    "Condition",
    "ConditionValue",
    "RecoveryTable",
    "Reversal",
    "Row",
    "Situation",
    "situations_of",
]


class RecoveryTable:
    """An ordered set of rows: within a finding the first that matches decides."""

    __slots__ = ("_by_finding", "content", "rows", "version")

    def __init__(self, rows: tuple[Row, ...]) -> None:
        self.rows = rows
        self._by_finding = {finding: tuple(row for row in rows if row.finding is finding) for finding in Finding}
        self.content: list[Json] = [_row_json(row) for row in rows]
        """What decides, as data; `version` is its hash."""
        self.version = version_of(self.content)

    def decide(self, finding: Finding, situation: Situation) -> Row:
        """The row for a finding in a situation. A checked table always has one."""
        for row in self._by_finding[finding]:
            if row.matches(situation):
                return row
        raise InvariantError(f"The recovery table has no row for {finding.value} in {situation}.")

    def row(self, row_id: str) -> Row | None:
        """The row with this id."""
        return next((row for row in self.rows if row.id == row_id), None)

    def faults(self) -> tuple[Fault, ...]:
        """All that is wrong with it, over every situation that there can be; nothing, where it may be decided by."""
        return tuple(faults(self.rows))

    def check(self) -> None:
        """Raise SettingsError unless the table is total, has no dead row and keeps the floor."""
        problems = [fault.said for fault in self.faults()]
        if problems:
            raise SettingsError(
                f"The recovery table cannot be used: {problems[0]}",
                remedy="Correct the named rows; nothing was run.",
                details={"problems": problems},
            )


def version_of(content: list[Json]) -> str:
    """The version of a table with this content: SHA-256 over its canonical form, in hex."""
    return sha256_hex(payload_bytes(content))


def table_of(content: list[Json]) -> RecoveryTable:
    """The table that has this content; labels and reasons, which decide nothing, are not in it.

    Raises ValueError, TypeError or KeyError where it names what there is not: a table of another release.
    """
    return RecoveryTable(tuple(_row_of(row) for row in content))


def _row_of(raw: Json) -> Row:
    if not isinstance(raw, dict) or not isinstance(raw["when"], list):
        raise TypeError("a row is an object")
    when = tuple(_condition_of(each) for each in raw["when"])
    return Row(str(raw["id"]), Finding(str(raw["finding"])), when, RecoveryAction(str(raw["action"])), "", "", False)


def _condition_of(raw: Json) -> Condition:
    if not isinstance(raw, dict):
        raise TypeError("a condition is an object")
    return {name: tuple(_value_of(name, value) for value in _values(values)) for name, values in raw.items()}


def _values(raw: Json) -> list[Json]:
    if not isinstance(raw, list):
        raise TypeError("a condition names a list of values")
    return raw


def _value_of(name: str, raw: Json) -> ConditionValue:
    for value in DOMAINS[name]:
        if raw is value or (isinstance(raw, str) and not isinstance(value, bool) and raw == value.value):
            return value
    raise ValueError(f"{raw!r} is no value of {name}")


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
