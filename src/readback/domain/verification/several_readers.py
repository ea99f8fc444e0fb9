"""Several readers: what their judgements come to, together. Pure.

Called by reconciliation with one judgement for each reading, in the readers' order. It evaluates nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from readback.domain.discrepancy import Discrepancy
from readback.domain.finding import Finding
from readback.domain.predicate import Truth
from readback.domain.verdict import Attribution, Verdict, Why
from readback.domain.verification.case import Case
from readback.domain.verification.observation_signs import ObservationStatus
from readback.domain.verification.reconciliation import Reconciliation, refuted, undetermined

_VERIFIED: Final = Verdict.VERIFIED


def together(case: Case, judgements: list[Reconciliation]) -> Reconciliation:
    """The verdict of as many readings as the contract asks for, where none speaks against it."""
    needed = case.contract.quorum
    if len(judgements) == 1 and needed <= 1:
        return judgements[0]
    verified = [r for r in judgements if r.verdict is _VERIFIED]
    against = [r for r in judgements if r.verdict is Verdict.REFUTED]
    violated = [r for r in judgements if r.open and any(e.truth is Truth.VIOLATED for e in r.ensure)]
    if _agreeing(case, verified) >= needed and not against and not violated:
        return verified[0]
    if _agreeing(case, against) >= needed and not verified:
        return against[0]
    if verified and against and not violated and (parts := _in_parts(case, verified, against)) is not None:
        return parts
    if verified and (against or violated) and case.window_closed:
        conflict = undetermined(Why.CONFLICTING, Finding.UNKNOWN, Discrepancy.UNKNOWN_STATE)
        return replace(conflict, ensure=(against or violated)[0].ensure, deciding=(against or violated)[0].deciding)
    undecided = [r for r in judgements if r.open]
    if undecided:
        return _told_apart(case, undecided)
    return undetermined(Why.INCOMPLETE, Finding.UNKNOWN, Discrepancy.UNKNOWN_STATE)


def _told_apart(case: Case, undecided: list[Reconciliation]) -> Reconciliation:
    """The first of them, with what each reader says, where they say different things."""
    first = undecided[0]
    said = {case.checks[each.deciding].taken.reader: each.detail or str(each.why) for each in undecided}
    if len(set(said.values())) < 2:
        return first
    return replace(first, detail="; ".join(f"{reader}: {what}" for reader, what in said.items()))


def _in_parts(case: Case, verified: list[Reconciliation], against: list[Reconciliation]) -> Reconciliation | None:
    """The tool said that it did a part of it, and readings of several places show the same: where our effect is, and
    where none is. Without that word two places that differ contradict each other.
    """
    said = case.observation.status is ObservationStatus.PARTIAL
    ours = all(each.attribution is Attribution.OURS for each in verified)
    here = {case.checks[each.deciding].taken.source for each in verified}
    missing = {
        case.checks[each.deciding].taken.source
        for each in against
        if case.checks[each.deciding].taken.believable_absence
    }
    if not (said and ours) or len(missing) < len(against) or here & missing:
        return None
    partial = refuted(Finding.PARTIAL_SUCCESS, Discrepancy.PARTIAL_APPLICATION, Attribution.OURS, True)
    found, first = verified[0], min(against, key=lambda each: each.deciding)
    done, undone = tuple(sorted(here)), tuple(sorted(missing))
    return replace(
        partial,
        parts_done=done,
        parts_open=undone,
        ensure=first.ensure,
        identity=found.identity,
        deciding=first.deciding,
    )


def _agreeing(case: Case, judgements: list[Reconciliation]) -> int:
    """How many readings agree. Where the class asks for several sources, two looks at one are one."""
    if case.contract.depth.quorum_min <= 1:
        return len(judgements)
    return len({case.checks[each.deciding].taken.source for each in judgements})
