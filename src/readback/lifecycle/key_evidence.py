"""What a run knows of the key: the evidence for `domain.key_release`, which decides.

Called by recovery with each decision. It reads nothing and decides nothing.
"""

from __future__ import annotations

from readback.domain.attribution import effects_known, unchanged_throughout
from readback.domain.discrepancy import Discrepancy
from readback.domain.key_release import KeyEvidence, KeyRelease, release_of
from readback.domain.reconciliation import Reconciliation
from readback.lifecycle.run import Run


def release(run: Run, result: Reconciliation, *, dead: bool) -> KeyRelease:
    """Whether what is known now releases the key; asked of the domain's one decision."""
    action, seen = run.action, run.observation
    left = action.left_before or seen is None or seen.dispatched
    known = effects_known(run.found, run.lookup)
    return release_of(
        KeyEvidence(
            left=left,
            effect_shown=result.effect_shown or known or action.seen,
            may_land=not dead or action.restored or action.commit_open,
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
