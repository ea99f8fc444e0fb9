"""The class and the reason of a judgement that leaves the state open. Pure.

Called by `reconcile` on its last result. A propagation delay is a change that was seen to be committed, so that it is
said only where that was seen. When the window has closed, what is still open has a class: a state that could not be
seen is unverifiable, and any other is unknown. It must not change a verdict, nor what the recovery table goes by.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from readback.domain.discrepancy import Discrepancy
from readback.domain.finding import Finding
from readback.domain.predicate import Truth
from readback.domain.side_effect import Consistency, Independence
from readback.domain.verdict import Attribution, Verdict, Why
from readback.domain.verification.attribution import bears_stamp, effect_known, is_effect, stamp_matches
from readback.domain.verification.case import Case, Judged
from readback.domain.verification.open_words import WEAK
from readback.domain.verification.reconciliation import Reconciliation, undetermined

_DELAY: Final = Discrepancy.PROPAGATION_DELAY
_UNSEEN: Final = frozenset({Why.UNREACHABLE, Why.TIMEOUT, Why.STALE})
"""The source did not answer, or is not recent enough."""


_SEEN_AT: Final = {
    Consistency.CACHED: "a cache",
    Consistency.REPLICA: "a replica",
    Consistency.SESSION: "a session",
}
_OTHER: Final = Independence.OTHER_CLIENT.rank
_WEAKNESS: Final = {Consistency.REPLICA: 0, Consistency.SESSION: 1, Consistency.CACHED: 2}
"""The place in `open_words.WEAK`; a strong reading is there for whose it is."""
_INFORMS: Final = "One source was read for the person who decides. The reading informs, and verifies nothing."
_UNREAD: Final = "The one source was to be read for the person who decides, and could not be."


def informed(case: Case) -> Reconciliation:
    """Nothing can verify it. What a reading shows all the same is for the person who decides."""
    result = undetermined(Why.UNVERIFIABLE, Finding.UNVERIFIABLE, Discrepancy.UNVERIFIABLE_STATE)
    if not case.checks:
        return result
    seen = case.checks[0]
    said = _INFORMS if seen.taken.ran else f"{_UNREAD} {seen.taken.error}".rstrip()
    return replace(result, ensure=seen.ensure, identity=seen.identity, detail=said)


def classed(case: Case, result: Reconciliation) -> Reconciliation:
    """An open judgement with its class, and with the search that failed."""
    if not result.open:
        return rests_on(case, result)
    discrepancy = result.discrepancy
    unsearched = result.why is Why.SETTLING and case.look_due and case.window_closed and case.found is None
    if discrepancy is _DELAY and (unsearched or not _commit_seen(case, result)):
        discrepancy = None
    if discrepancy is None and case.window_closed:
        unseen = unsearched or result.why in _UNSEEN
        discrepancy = Discrepancy.UNVERIFIABLE_STATE if unseen else Discrepancy.UNKNOWN_STATE
    detail = _with_search(case, result.detail)
    if discrepancy is result.discrepancy and detail == result.detail:
        return result
    return replace(result, discrepancy=discrepancy, detail=detail)


def seen_weakly(stamp: str, result: Reconciliation, others: tuple[Judged, ...]) -> Reconciliation:
    """An open judgement with what a reading that does not settle it shows: whose the effect is, and where it is."""
    if not result.open or result.attribution is not Attribution.UNKNOWN:
        return result
    for judged in others:
        weak = not judged.taken.strong and is_effect(judged) and judged.in_scope is Truth.HOLDS
        if weak and stamp_matches(stamp, judged):
            said = f"Seen at {_SEEN_AT[judged.taken.consistency]}, not confirmed by the record."
            detail = f"{said} {result.detail}".rstrip()
            return replace(result, attribution=Attribution.OURS, detail=detail)
    return result


def rests_on(case: Case, result: Reconciliation) -> Reconciliation:
    """A verified judgement with what it rests on, where that is no strong reading by another client."""
    if result.verdict is not Verdict.VERIFIED or result.detail or not case.contract.kind.mutates:
        return result
    read = [each.taken for each in case.checks if each.taken.ran]
    if not read or any(each.strong and each.independence.rank >= _OTHER for each in read):
        return result
    best = max(read, key=lambda each: each.consistency.rank)
    return replace(result, detail=WEAK[_WEAKNESS.get(best.consistency, 3)])


def _commit_seen(case: Case, result: Reconciliation) -> bool:
    """The change itself was seen: it holds already, it bears our mark, or the search or the key's record shows it."""
    if result.why is Why.SETTLING or case.seen or effect_known(case):
        return True
    return any(is_effect(each) and _is_ours(case, each) for each in case.checks)


def _is_ours(case: Case, judged: Judged) -> bool:
    reading = judged.taken.reading
    return bears_stamp(case, judged) or reading.commit_token_honoured or reading.created_after_dispatch


def _with_search(case: Case, detail: str) -> str:
    if case.found is not None or not case.search_failed:
        return detail
    said = f"The search for what this action left failed: {case.search_failed}"
    return f"{detail} {said}" if detail and said not in detail else detail or said
