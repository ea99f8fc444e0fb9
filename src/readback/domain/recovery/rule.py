"""The recovery table: an ordered set of rows, its version, and the checks of every table.

`recovery.table` holds the default table. A table is data: an operator may supply another. `RecoveryTable.check` rejects
a table with gaps or below the floor. No model's opinion is an input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import product
from math import prod
from typing import Final

from readback.canon import Json, payload_bytes, sha256_hex
from readback.canon.frozen import dataclass
from readback.domain.finding import Finding
from readback.domain.recovery.action import RecoveryAction
from readback.domain.recovery.floor import DEMANDED, FLOOR, SUCCESS_ONLY_FROM
from readback.domain.recovery.row import DOMAINS, Condition, ConditionValue, Reversal, Row, Situation
from readback.errors import InvariantError, SettingsError

# The set of all situations, and subsets as bits: a fast proof of a table over every situation.

_NAMES: Final = tuple(DOMAINS)
SIZE: Final = prod(len(values) for values in DOMAINS.values())
"""Number of situations."""
ALL: Final = (1 << SIZE) - 1
"""The set of all situations."""


@lru_cache(maxsize=128)
def having(name: str, value: ConditionValue) -> int:
    """The situations with this value of the field."""
    place = _NAMES.index(name)
    block = prod(len(DOMAINS[later]) for later in _NAMES[place + 1 :])
    period = block * len(DOMAINS[name])
    ones = ((1 << block) - 1) << (DOMAINS[name].index(value) * block)
    return ones * (ALL // ((1 << period) - 1))


def matching(condition: Condition) -> int:
    """The situations matching a condition."""
    found = ALL
    for name, allowed in condition.items():
        found &= _union(having(name, value) for value in allowed)
    return found


def meeting(when: Iterable[Condition]) -> int:
    """The situations matching any of the conditions."""
    return _union(matching(condition) for condition in when)


def described(subset: int) -> str:
    """Describe part of a non-empty set by as few fields as possible.

    Starts with one member. A field is dropped if every value of the field stays inside the set.
    """
    held = dict(_member(subset))
    for name in _NAMES:
        wider = {key: value for key, value in held.items() if key != name}
        if not matching({key: (value,) for key, value in wider.items()}) & ~subset:
            held = wider
    return " and ".join(_worded(name, value) for name, value in held.items())


def _member(subset: int) -> Mapping[str, ConditionValue]:
    """A situation from the set."""
    return dict(_digits((subset & -subset).bit_length() - 1))


def _digits(index: int) -> Iterator[tuple[str, ConditionValue]]:
    for name in reversed(_NAMES):
        index, digit = divmod(index, len(DOMAINS[name]))
        yield name, DOMAINS[name][digit]


def _worded(name: str, value: ConditionValue) -> str:
    if isinstance(value, bool):
        return name if value else f"not {name}"
    return f"{name} is {value.value}"


def _union(sets: Iterable[int]) -> int:
    found = 0
    for one in sets:
        found |= one
    return found


# The faults of a recovery table: doubled rows, rows below the floor, gaps, unreachable rows.


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `row`: the id of the row to correct, "" for a missing row; `key`: the faulty part."""

    row: str
    said: str
    key: str = "action"


def faults(rows: tuple[Row, ...]) -> Iterator[Fault]:
    """Yield every fault, in the order of the rows; gaps last. Malformed rows suppress the coverage check."""
    malformed = tuple(_malformed(rows))
    yield from malformed
    if malformed:
        return
    below = tuple(fault for row in rows for fault in below_demand(row))
    yield from below
    known = {fault.row for fault in below}
    for finding in Finding:
        yield from _of_finding(finding, tuple(row for row in rows if row.finding is finding), known)


def below_demand(row: Row) -> Iterator[Fault]:
    """Yield the faults of a row alone, regardless of the rows above."""
    only = SUCCESS_ONLY_FROM.get(row.action)
    if only is not None and row.finding is not only:
        yield Fault(row.id, f"{row.id} makes a success of {row.finding.value}.")
    if row.action is RecoveryAction.RETRY_SAME_KEY and row.finding is not Finding.REFUTED_DEAD:
        yield Fault(row.id, f"{row.id} repeats an action that is not refuted and dead.")
    for name, demanded in DEMANDED.get(row.action, {}).items():
        allowed = {value for condition in row.when for value in condition.get(name, DOMAINS[name])}
        if not allowed <= set(demanded):
            yield Fault(row.id, f"{row.id} chooses {row.action.value} without demanding {name}.")


def _malformed(rows: tuple[Row, ...]) -> Iterator[Fault]:
    ids = [row.id for row in rows]
    for row_id in sorted({one for one in ids if ids.count(one) > 1}):
        yield Fault(row_id, f"{row_id} appears twice.", "id")
    for row in rows:
        for name, values in dict.fromkeys(item for condition in row.when for item in condition.items()):
            if name not in DOMAINS:
                yield Fault(row.id, f"{row.id} names the unknown field {name!r}.", "when")
            elif not set(values) <= set(DOMAINS[name]):
                yield Fault(row.id, f"{row.id} names an impossible value of {name!r}.", "when")


def _of_finding(finding: Finding, rows: tuple[Row, ...], known: set[str]) -> Iterator[Fault]:
    """Check the rows of a finding in order. `left`: the situations undecided so far."""
    left, dead = ALL, []
    for row in rows:
        decides = meeting(row.when) & left
        left &= ~decides
        if not decides:
            dead.append(row)
        elif row.id not in known:
            yield from _below_floor(row, decides)
    if left:
        where = described(left)
        yield Fault("", f"{finding.value} has no row for {where or 'any situation'}.", "")
    else:
        yield from (Fault(row.id, f"{row.id} can never apply.", "when") for row in dead)


def _below_floor(row: Row, decides: int) -> Iterator[Fault]:
    floor = FLOOR[row.finding]
    allowed = 0
    for line in floor.allowed:
        if row.action in line.actions:
            allowed |= meeting(line.when)
    wrong = decides & ~allowed
    if not allowed:
        yield Fault(row.id, f"{row.id} may not choose {row.action.value} for {row.finding.value}. {floor.why}")
    elif wrong:
        where = described(wrong)
        said = f"{row.id} may not choose {row.action.value} for {row.finding.value} where {where}. {floor.why}"
        yield Fault(row.id, said)


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
    """An ordered set of rows. The first matching row of a finding decides."""

    __slots__ = ("_by_finding", "content", "rows", "version")

    def __init__(self, rows: tuple[Row, ...]) -> None:
        self.rows = rows
        self._by_finding = {finding: tuple(row for row in rows if row.finding is finding) for finding in Finding}
        self.content: list[Json] = [_row_json(row) for row in rows]
        """The deciding content, as data; `version` is its hash."""
        self.version = version_of(self.content)

    def decide(self, finding: Finding, situation: Situation) -> Row:
        """Return the row for a finding in a situation. A checked table always has a matching row."""
        for row in self._by_finding[finding]:
            if row.matches(situation):
                return row
        raise InvariantError(f"The recovery table has no row for {finding.value} in {situation}.")

    def row(self, row_id: str) -> Row | None:
        """The row with this id."""
        return next((row for row in self.rows if row.id == row_id), None)

    def faults(self) -> tuple[Fault, ...]:
        """Every fault of the table, over all situations. A table without faults may decide."""
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
    """Build the table with this content. Labels and rationales do not decide, and are not included.

    Raises ValueError, TypeError or KeyError for an unknown name: the table is from another release.
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
    """Yield every situation distinguished by these rows: the named fields in all combinations."""
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
