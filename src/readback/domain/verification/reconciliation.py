"""A reconciliation: the verdict over the readings of one action, with what it stands on. And the ways in which it ends.

Made by `domain.reconcile`. Whatever is in doubt ends in `undetermined`.
"""

from __future__ import annotations

from typing import Final

from readback.canon.frozen import dataclass
from readback.domain.discrepancy import Discrepancy
from readback.domain.finding import Finding
from readback.domain.predicate import Evaluation
from readback.domain.verdict import Attribution, Level, Verdict, Why
from readback.domain.verification.case import IdentityMatch
from readback.domain.verification.observation import Observation, ObservationStatus

_NO_REASON: Final = Why.NONE
_ALREADY_SO: Final = Attribution.ALREADY_SO
_VERIFIED: Final = Verdict.VERIFIED
_FOUND_VERIFIED: Final = Finding.VERIFIED
_RECONCILED: Final = Level.RECONCILED


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The reconciled judgement: the only thing that may move the state of an action."""

    verdict: Verdict
    why: Why
    finding: Finding
    discrepancy: Discrepancy | None = None
    attribution: Attribution = Attribution.UNKNOWN
    effect_shown: bool = False
    level: Level = Level.NORMALISED
    ensure: tuple[Evaluation, ...] = ()
    identity: tuple[IdentityMatch, ...] = ()
    maybe_stale: bool = False
    parts_done: tuple[str, ...] = ()
    parts_open: tuple[str, ...] = ()
    deciding: int = 0
    """Index of the reading in `checks` that this stands on."""
    detail: str = ""

    @property
    def open(self) -> bool:
        return self.verdict is Verdict.UNDETERMINED


def success(whose: Attribution) -> Reconciliation:
    """Everything that was asked for is so, and whose doing it is."""
    shown = whose is not _ALREADY_SO
    return Reconciliation(_VERIFIED, _NO_REASON, _FOUND_VERIFIED, None, whose, effect_shown=shown, level=_RECONCILED)


def no_op() -> Reconciliation:
    """It was so before, and the contract allows that."""
    return Reconciliation(
        _VERIFIED,
        _NO_REASON,
        Finding.NO_OP_ALLOWED,
        Discrepancy.NO_OP_SUCCESS,
        _ALREADY_SO,
        level=_RECONCILED,
    )


def refuted(
    finding: Finding, discrepancy: Discrepancy, whose: Attribution, effect_shown: bool = False
) -> Reconciliation:
    """The readings say otherwise. `effect_shown`: something of ours landed all the same."""
    return Reconciliation(
        Verdict.REFUTED, _NO_REASON, finding, discrepancy, whose, effect_shown=effect_shown, level=Level.VERIFIED
    )


def undetermined(
    why: Why, finding: Finding, discrepancy: Discrepancy | None = None, detail: str = ""
) -> Reconciliation:
    """Neither success nor failure, and why."""
    return Reconciliation(Verdict.UNDETERMINED, why, finding, discrepancy, detail=detail)


def unexecuted(observation: Observation) -> bool:
    """The tool was provably never called: only then verification may be skipped."""
    return observation.status is ObservationStatus.NOT_DISPATCHED and not observation.dispatched
