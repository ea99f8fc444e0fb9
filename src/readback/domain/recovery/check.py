"""All that is wrong with a recovery table: doubled rows, rows below the floor, gaps, rows that can never apply.

Called by `RecoveryTable`, and so by whoever loads an operator's. It is exact: each finding is walked over every
situation that there can be, by sets of situations and not one by one.
"""

from __future__ import annotations

from collections.abc import Iterator

from readback.canon.frozen import dataclass
from readback.domain.finding import Finding
from readback.domain.recovery.action import RecoveryAction
from readback.domain.recovery.floor import DEMANDED, FLOOR, SUCCESS_ONLY_FROM
from readback.domain.recovery.row import DOMAINS, Row
from readback.domain.recovery.space import ALL, described, meeting


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong; `row` is the id of the row to correct, "" where a row is missing; `key`: its part."""

    row: str
    said: str
    key: str = "action"


def faults(rows: tuple[Row, ...]) -> Iterator[Fault]:
    """Every fault, in the order of the rows; gaps last. Nothing is said of coverage while rows are malformed."""
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
    """What is wrong with one row by itself, whatever stands above it."""
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
        yield Fault(row_id, f"{row_id} stands there twice.", "id")
    for row in rows:
        for name, values in dict.fromkeys(item for condition in row.when for item in condition.items()):
            if name not in DOMAINS:
                yield Fault(row.id, f"{row.id} asks for {name!r}, which no situation has.", "when")
            elif not set(values) <= set(DOMAINS[name]):
                yield Fault(row.id, f"{row.id} asks for a value of {name!r} that it cannot have.", "when")


def _of_finding(finding: Finding, rows: tuple[Row, ...], known: set[str]) -> Iterator[Fault]:
    """Walks the rows in their order; `left`: the situations that no row above has decided."""
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
