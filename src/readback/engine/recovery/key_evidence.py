"""What a run knows of places where its effect could be: the evidence for the table, and for `domain.key_release`.

Called by recovery with each decision. It reads nothing and decides nothing.
"""

from __future__ import annotations

from readback.domain.action.key_release import KeyEvidence, KeyRelease, release_of
from readback.domain.discrepancy import Discrepancy
from readback.domain.verification.attribution import effects_known, is_unchanged, looked_elsewhere, unchanged_throughout
from readback.domain.verification.reconciliation import Reconciliation
from readback.engine.run import Run


def release(run: Run, result: Reconciliation, *, dead: bool) -> KeyRelease:
    """Whether what is known now releases the key; asked of the domain's one decision."""
    action, seen = run.action, run.observation
    left = action.left_before or seen is None or seen.dispatched
    known = effects_known(run.found, run.lookup)
    return release_of(
        KeyEvidence(
            left=left,
            effect_shown=result.effect_shown or known or action.seen,
            may_land=not dead or action.restored or action.commit_open or action.unproved,
            others_changed=result.discrepancy is Discrepancy.STALE_STATE,
            refused=named_refusal(run),
            region_unchanged=unchanged_throughout(run.contract, run.before, run.checks),
            nothing_found=run.found is not None and not known,
            mark_proven=run.search_proven,
        )
    )


def named_refusal(run: Run) -> bool:
    """The contract names it a refusal: a terminal failure holds, or the key's record says that it failed for good."""
    by_key = run.lookup is not None and run.lookup.status == "failed"
    return by_key or any(each.terminal_failure or each.refused for each in run.checks)


def searched(run: Run) -> bool:
    """The places where the effect could be instead were looked at, or the tool did not claim any effect.

    Or strong readings before and after are equal: of the whole region that the call may change, or of the target where
    the contract names the refusal.
    """
    searchable = run.contract.has_find
    said = run.observation
    if said is not None and looked_elsewhere(
        said,
        run.found,
        run.lookup,
        searchable=searchable,
        proven=run.search_proven,
        honours_key=run.contract.execution.honours_key,
    ):
        return True
    if effects_known(run.found, run.lookup):
        return False
    refused = any(each.refused and is_unchanged(run.before, each) for each in run.checks)
    return refused or unchanged_throughout(run.contract, run.before, run.checks)
