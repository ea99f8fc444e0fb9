"""What came of replaying a bundle: judgement by judgement the same, different, or not evaluated, and why.

Made by lifecycle.replay, told by `readback replay`, counted by release gates. Values only.
"""

from __future__ import annotations

from enum import StrEnum

from readback.canon import Json
from readback.canon.frozen import dataclass


class Comparison(StrEnum):
    """How a judgement made again stands to the recorded one."""

    SAME = "same"
    DIFFERS = "differs"
    NOT_EVALUATED = "not_evaluated"
    """Something that it stood on is not there: redacted, erased, never kept, or a callable that is not loaded."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of a judgement, or one of its postconditions (`postcondition NAME`), then and now."""

    field: str
    recorded: Json
    replayed: Json


@dataclass(frozen=True, slots=True)
class JudgedAgain:
    """One entry that a decision was recorded in, decided again. `version`: its number in the action.

    `missing`: what it stood on and is not there. `given`: what was taken as it was recorded, since its content was
    never kept: of whom a withheld reading was, and what was read inside an open transaction.
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
class Replayed:
    """What came of a whole bundle. `state`: where its entries leave the action. `notes`: what was not as recorded."""

    bundle_id: str
    action_id: str
    tenant: str
    contract: str
    contract_version: str
    entries: int
    state: str
    judgements: tuple[JudgedAgain, ...]
    notes: tuple[str, ...] = ()

    @property
    def comparison(self) -> Comparison:
        """A difference that was found outweighs what could not be evaluated."""
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
