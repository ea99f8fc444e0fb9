"""The tally of a canary: counted verdicts, and the bounds. Values only; the ledger is the source.

Source: the action verification specification, "Release gates".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from statistics import median
from typing import Final

from readback.assurance.canary.terms import LATENCY_PERMILLE_MAX, CanaryTerms
from readback.canon import Json
from readback.canon.frozen import dataclass

COMPARED: Final = ("verdict", "why", "discrepancy", "row")
"""The compared fields of a judgement."""
EXAMPLES_MAX: Final = 20
LATENCY_COMPARED_MIN: Final = 20
"""Fewest compared actions for a judgement about time. A few judgements measure the machine, not the candidate."""


class Comparison(StrEnum):
    """The candidate's verdict beside the incumbent's."""

    SAME = "same"
    DIFFERS = "differs"
    NOT_EVALUATED = "not_evaluated"
    """The record lacks a part of the evidence: redacted, erased or never stored."""
    ERROR = "error"
    """The candidate broke."""


@dataclass(frozen=True, slots=True)
class CanaryVerdict:
    """Both verdicts about an action. `entry` is the number of the judged entry, `leaf` its leaf hash.

    `candidate_us` and `incumbent_us`: the time of each judgement over the same evidence, in microseconds.
    """

    action_id: str
    tenant: str
    contract: str
    entry: int
    leaf: str
    decided_by: str
    comparison: Comparison
    incumbent: Mapping[str, Json]
    candidate: Mapping[str, Json]
    candidate_us: int = 0
    incumbent_us: int = 0
    error: str = ""

    @property
    def candidate_failed(self) -> bool:
        """The candidate raised, or the candidate's verifier broke."""
        return self.comparison is Comparison.ERROR or self.candidate.get("why") == "verifier_error"

    @property
    def incumbent_failed(self) -> bool:
        """The incumbent's verifier broke."""
        return self.incumbent.get("why") == "verifier_error"

    def as_json(self) -> dict[str, Json]:
        return {
            "action": self.action_id,
            "tenant": self.tenant,
            "contract": self.contract,
            "entry": self.entry,
            "leaf": self.leaf,
            "decided_by": self.decided_by,
            "comparison": self.comparison.value,
            "incumbent": dict(self.incumbent),
            "candidate": dict(self.candidate),
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class Tally:
    """The counts of a canary. `matrix` counts pairs "incumbent>candidate" of verdicts.

    `candidate_us` and `incumbent_us`: the median time of one judgement, in microseconds; 0 before `tally_of`.
    """

    compared: int = 0
    same: int = 0
    mismatches: int = 0
    not_evaluated: int = 0
    candidate_errors: int = 0
    incumbent_errors: int = 0
    candidate_us: int = 0
    incumbent_us: int = 0
    matrix: Mapping[str, int] = field(default_factory=dict)
    differing: tuple[str, ...] = ()
    """Ids of the first actions with another verdict."""

    def with_verdict(self, one: CanaryVerdict) -> Tally:
        """Return the tally with another verdict."""
        differs = one.comparison is Comparison.DIFFERS
        if one.comparison is Comparison.NOT_EVALUATED:
            return replace(self, not_evaluated=self.not_evaluated + 1)
        pair = f"{one.incumbent.get('verdict', '')}>{one.candidate.get('verdict', 'error')}"
        return replace(
            self,
            compared=self.compared + 1,
            same=self.same + (one.comparison is Comparison.SAME),
            mismatches=self.mismatches + differs,
            candidate_errors=self.candidate_errors + one.candidate_failed,
            incumbent_errors=self.incumbent_errors + one.incumbent_failed,
            matrix={**self.matrix, pair: self.matrix.get(pair, 0) + 1},
            differing=(*self.differing, one.action_id)[:EXAMPLES_MAX] if differs else self.differing,
        )

    @property
    def latency_permille(self) -> int:
        """The candidate's time in thousandths of the incumbent's; 0 without a measured time."""
        return 0 if not self.incumbent_us else self.candidate_us * 1_000 // self.incumbent_us

    def as_json(self) -> dict[str, Json]:
        return {
            "compared": self.compared,
            "same": self.same,
            "mismatches": self.mismatches,
            "not_evaluated": self.not_evaluated,
            "candidate_errors": self.candidate_errors,
            "incumbent_errors": self.incumbent_errors,
            "latency_permille": self.latency_permille,
            "matrix": dict(self.matrix),
            "differing": [*self.differing],
        }


@dataclass(frozen=True, slots=True)
class CanaryRun:
    """A canary of a ledger, with the counts. `stopped`: the reason of a stop, "" without one."""

    id: str
    terms: CanaryTerms
    tally: Tally
    stopped: str = ""


def tally_of(verdicts: Iterable[CanaryVerdict]) -> Tally:
    """Return the tally of verdicts, with the median times. A median ignores the first, cold judgements."""
    found, took = Tally(), list[tuple[int, int]]()
    for one in verdicts:
        found = found.with_verdict(one)
        if one.candidate_us and one.incumbent_us:
            took.append((one.candidate_us, one.incumbent_us))
    if not took:
        return found
    middle = [int(median(each)) for each in zip(*took, strict=True)]
    return replace(found, candidate_us=middle[0], incumbent_us=middle[1])


def stop_reason(terms: CanaryTerms, tally: Tally) -> str:
    """Return why a canary stops itself: "errors", "mismatches", or "" to go on."""
    if tally.candidate_errors > max(terms.errors_max, tally.incumbent_errors):
        return "errors"
    return "mismatches" if tally.mismatches > terms.mismatches_max else ""


def problems(terms: CanaryTerms, tally: Tally) -> list[tuple[str, str]]:
    """Return every broken bound, as a code and a message."""
    found: list[tuple[str, str]] = []
    if tally.mismatches > terms.mismatches_max:
        said = f"The candidate gave another verdict {tally.mismatches} times; the bound is {terms.mismatches_max}."
        found.append(("canary.mismatch", said))
    if tally.candidate_errors > max(terms.errors_max, tally.incumbent_errors):
        said = f"The candidate broke {tally.candidate_errors} times, the incumbent {tally.incumbent_errors} times."
        found.append(("canary.errors", said))
    if tally.compared >= LATENCY_COMPARED_MIN and tally.latency_permille > LATENCY_PERMILLE_MAX:
        said = f"The candidate took {tally.latency_permille / 1_000:.2f} times as long as the incumbent."
        found.append(("canary.latency", said))
    return found
