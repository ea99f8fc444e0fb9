"""Compare two recovery tables: changed rows, and the situations with another decision.

Called by the gate `predicate-diff`. Decisions are compared, so a moved row counts in the changed situations alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.finding import Finding
from readback.domain.recovery.row import Row
from readback.domain.recovery.rule import matching, meeting
from readback.domain.recovery.table import RecoveryAction, RecoveryTable
from readback.domain.state import State
from readback.ports.predicates import Strength

_REPEATS = frozenset({RecoveryAction.RETRY_SAME_KEY, RecoveryAction.DISPATCH_AGAIN})


@dataclass(frozen=True, slots=True)
class RowChange:
    """A pair of rows with the same situations: the decision then and now."""

    finding: str
    old: str
    new: str
    strength: Strength
    detail: dict[str, Json]


def row_changes(old: RecoveryTable, new: RecoveryTable) -> Iterator[RowChange]:
    """Yield every changed decision: the finding, and the deciding rows then and now."""
    for finding in Finding:
        then, now = _deciding(old, finding), _deciding(new, finding)
        for first, covered in then:
            for second, others in now:
                if covered & others and (first.id, first.action) != (second.id, second.action):
                    yield _change(finding, first, second)


def _deciding(table: RecoveryTable, finding: Finding) -> list[tuple[Row, int]]:
    """Return the rows of a finding, each with the decided situations."""
    left, found = matching({}), []
    for row in table.rows:
        if row.finding is finding:
            decided = meeting(row.when) & left
            left &= ~decided
            if decided:
                found.append((row, decided))
    return found


def _change(finding: Finding, old: Row, new: Row) -> RowChange:
    detail: dict[str, Json] = {
        "old": {"row": old.id, "action": old.action.value, "state": old.target_state.value},
        "new": {"row": new.id, "action": new.action.value, "state": new.target_state.value},
    }
    return RowChange(finding.value, old.id, new.id, _strength(old, new), detail)


def _strength(old: Row, new: Row) -> Strength:
    """A row is looser if the new action speaks of success, repeats, or omits a review, an incident or a freeze."""
    if old.action is new.action:
        return Strength.OTHER
    looser = (
        (new.target_state is State.RECONCILED_SUCCESS and old.target_state is not State.RECONCILED_SUCCESS)
        or (new.action in _REPEATS and old.action not in _REPEATS)
        or any(getattr(old, name) and not getattr(new, name) for name in ("opens_review", "opens_incident", "freezes"))
    )
    return Strength.LOOSER if looser else Strength.OTHER
