"""Results of replaying a bundle: each judgement is the same, different, or not evaluated for a stated reason.

Reported by `readback replay`, counted by release gates. Values only.
"""

from __future__ import annotations

from enum import StrEnum

from readback.canon import Json
from readback.canon.frozen import dataclass


class Comparison(StrEnum):
    """A repeated judgement compared with the recorded judgement."""

    SAME = "same"
    DIFFERS = "differs"
    NOT_EVALUATED = "not_evaluated"
    """Part of its basis is missing: redacted, erased, never stored, or a callable not loaded."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of a judgement, or one of its postconditions (`postcondition NAME`), then and now."""

    field: str
    recorded: Json
    replayed: Json


@dataclass(frozen=True, slots=True)
class ReplayedJudgement:
    """One entry with a recorded decision, decided again. `version`: its number in the action.

    `missing`: the missing basis. `given`: inputs taken as recorded, since their content was never stored: the author of
    a withheld reading, and readings inside an open transaction.
    """

    version: int
    what: str
    at_us: int
    comparison: Comparison
    state: str
    verdict: str
    row: str
    differences: tuple[Difference, ...] = ()
    missing: tuple[str, ...] = ()
    given: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Json]:
        return {
            "version": self.version,
            "what": self.what,
            "at_us": self.at_us,
            "comparison": self.comparison.value,
            "state": self.state,
            "verdict": self.verdict,
            "row": self.row,
            "differences": [
                {"field": each.field, "recorded": each.recorded, "replayed": each.replayed} for each in self.differences
            ],
            "missing": [*self.missing],
            "given": [*self.given],
        }


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result for a whole bundle. `state`: the action's state after its entries. `notes`: deviations from the
    record.
    """

    bundle_id: str
    action_id: str
    tenant: str
    contract: str
    contract_version: str
    entries: int
    state: str
    judgements: tuple[ReplayedJudgement, ...]
    notes: tuple[str, ...] = ()

    @property
    def comparison(self) -> Comparison:
        """A difference outweighs a missing evaluation."""
        found = {each.comparison for each in self.judgements}
        for worst in (Comparison.DIFFERS, Comparison.NOT_EVALUATED):
            if worst in found:
                return worst
        return Comparison.SAME

    def as_json(self) -> dict[str, Json]:
        return {
            "comparison": self.comparison.value,
            "bundle": self.bundle_id,
            "action": self.action_id,
            "tenant": self.tenant,
            "contract": self.contract,
            "contract_version": self.contract_version,
            "entries": self.entries,
            "state": self.state,
            "judgements": [each.as_json() for each in self.judgements],
            "notes": [*self.notes],
        }
