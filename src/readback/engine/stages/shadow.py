"""Shadow: the judgement of a shadow action is recorded beside an undetermined one, and nothing follows.

Called by the engine in place of the recovery. The entry states `undetermined`, as for an action without a system of
record. So every reader of the ledger, also of an earlier release, finds an unverified action: no claim, no proof of
success, no reversal and no second call can follow. The enforced judgement stands in the entry's `shadow` alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from readback.canon import Json
from readback.domain.contract.shadowing import SHADOW_WORDS
from readback.domain.discrepancy import Discrepancy
from readback.domain.finding import Finding
from readback.domain.recovery.table import RecoveryTable
from readback.domain.side_effect import SideEffect
from readback.domain.state import State
from readback.domain.verdict import Why
from readback.domain.verification.reconciliation import undetermined
from readback.engine.recovery.transition_paths import path_through
from readback.engine.run import Run
from readback.engine.stages.consequence import Consequence
from readback.engine.stages.recover import LOOK_AGAIN, NOT_STRUCK, Decision
from readback.engine.stages.validate import Refusal, unexecuted

_WAITING: Final = frozenset({State.ACCEPTED, State.PENDING})


_BY_THE_WORLD: Final = frozenset(
    {"source.unavailable", "reader.out-of-scope", "version.unknown", "version.stale", "precondition"}
)
"""Codes of refusals by a reading or a condition. Freezes, approvals, fallen claims and targets outside of the readable
folders refuse in shadow, too.
"""


def passes(run: Run, refusal: Refusal) -> bool:
    """Whether a shadow action goes on where the enforced mode would refuse. The attempt records the code."""
    return run.shadowed and refusal.code in _BY_THE_WORLD


def applies(run: Run, decision: Decision) -> bool:
    """Whether shadow replaces the decision. A doubt about the action's approval is decided as ever."""
    return run.shadowed and (run.doubt is None or decision.result.finding is not run.doubt)


def looks_again(run: Run, decision: Decision, follows: Consequence) -> bool:
    """Whether the window is open, so that another reading follows as for an enforced action."""
    state = follows.path[-1] if follows.path else run.action.state
    return decision.row.action in LOOK_AGAIN and state in _WAITING and follows.due_us is not None


def withheld(decision: Decision, table: RecoveryTable) -> Decision:
    """Return the decision for the ledger: undetermined, with the row for a result that nothing can confirm."""
    real = decision.result
    open_ = undetermined(Why.UNVERIFIABLE, Finding.UNVERIFIABLE, Discrepancy.UNVERIFIABLE_STATE, SHADOW_WORDS)
    row = table.decide(Finding.UNVERIFIABLE, unexecuted(SideEffect.LOW_RISK_INTERNAL))
    result = replace(open_, ensure=real.ensure, identity=real.identity)
    return replace(decision, result=result, row=row, trigger=None, prior_fault_counts=NOT_STRUCK)


def path_of(run: Run) -> tuple[State, ...]:
    """The states to the end of a shadow action."""
    state = run.action.state
    return () if state is State.UNKNOWN else path_through(state, State.UNKNOWN)


def judgement_data(run: Run, decision: Decision, follows: Consequence) -> dict[str, Json]:
    """The judgement of the enforced mode, with the state that the action would have reached."""
    result, row = decision.result, decision.row
    return {
        "refused": run.action.would_refuse,
        "state": (follows.path[-1] if follows.path else run.action.state).value,
        "verdict": result.verdict.value,
        "why": result.why.value,
        "finding": result.finding.value,
        "discrepancy": result.discrepancy.value if result.discrepancy else "",
        "attribution": result.attribution.value,
        "row": row.id,
        "recovery": row.action.value,
        "effect_shown": result.effect_shown,
        "level": int(result.level),
        "done": list(result.parts_done),
        "undone": list(result.parts_open),
        "detail": result.detail,
    }
