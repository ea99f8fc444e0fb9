"""One recorded decision, made again by the present logic: a judgement, a refusal, or the end of a reversal.

Called by replay. This module calls the engine's functions on the input from `replay.round`, and compares nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from readback.audit.replay.round import Standing
from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.discrepancy import Discrepancy
from readback.domain.events import EventKind
from readback.domain.finding import Finding
from readback.domain.recovery.table import RecoveryTable
from readback.domain.state import State
from readback.domain.verdict import Attribution, Level, Verdict, Why
from readback.domain.verification.reading import UNREADABLE
from readback.domain.verification.reconciliation import Reconciliation
from readback.engine.recovery.transition_paths import path_through
from readback.engine.run import Run
from readback.engine.schedule import Timing, timing
from readback.engine.stages import compensate, execute, recover, shadow, validate, verify, watch
from readback.engine.stages.consequence import consequence, is_observation_only
from readback.engine.stages.recover import Decision

S = State
BY_THE_WORLD: Final = frozenset(
    {"source.unavailable", UNREADABLE, "reader.out-of-scope", "version.unknown", "version.stale", "precondition"}
)
"""Refusals because of the first reading and the request. Other refusals had outside causes: freezes, people, settings.
"""


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision: the recomputed fields of its entry, its states, and each postcondition's truth.

    `ensure` None: nothing to compare.
    """

    said: Mapping[str, Json] = field(default_factory=dict)
    path: tuple[State, ...] = ()
    ensure: Mapping[str, str] | None = None


def decide_again(standing: Standing, table: RecoveryTable) -> Decided:
    """Compute the entry's decision anew. The result is meaningless if `standing.missing` is not empty afterwards."""
    match standing.event.kind:
        case EventKind.JUDGED:
            return _judged(standing, table)
        case EventKind.REJECTED:
            return _rejected(standing, table)
        case _:
            return _reversal(standing, table)


# --- judgements ---


def _judged(standing: Standing, table: RecoveryTable) -> Decided:
    run = standing.run()
    if standing.missing:
        return Decided()
    as_of_us = _whole(standing.event.data["as_of"])
    when = timing(run.contract, run.action, verify.ended_by_itself(run))
    if run.observation is not None and not run.observation.dispatched and not run.action.left_before:
        decision = recover.decide(run, table, when, execute.never_dispatched(run), as_of_us)
        return Decided(_said(decision), path_through(run.action.state, S.FAILED))
    dropped = _dropped(standing, run)
    if dropped is not None:
        decision = recover.decide(run, table, when, dropped, as_of_us)
        return Decided(_said(decision), path_through(run.action.state, S.ROLLED_BACK))
    if run.action.state is S.RECONCILED_SUCCESS:
        return _drift(standing, run, table, as_of_us)
    decision = _decision(run, table, when, as_of_us)
    path: tuple[State, ...] = ()
    ensure = {e.name: e.truth.value for e in decision.result.ensure}
    if run.action.state is not S.FAILED and not is_observation_only(run.action, decision.result):
        follows = consequence(run, when, decision, standing.event.at_us)
        if shadow.applies(run, decision) and not shadow.looks_again(run, decision, follows):
            said = _said(shadow.withheld(decision, table))
            judged = shadow.judgement_data(run, decision, follows)
            return Decided({**said, "shadow": judged}, shadow.path_of(run), ensure)
        path = follows.path
    return Decided(_said(decision), path, ensure)


def _drift(standing: Standing, run: Run, table: RecoveryTable, as_of_us: int) -> Decided:
    """Decide a later reading of a verified state: the state was lost, or is back."""
    watched, result = run.action.watch, watch.holds_now(run)
    if result.verdict is Verdict.REFUTED and watched is not None and watched.held is not None:
        if watched.held_ref in standing.bundle.erased:
            standing.missing.append("the reading in which it held last: erased")
            return Decided()
        held = watch.held_as_recorded(run, watched.held, standing.bundle.json_of(watched.held_ref))
        result = watch.classified(run, held, result)
    row = table.decide(result.finding, watch.situation(run.contract))
    said = _said(Decision(result, row, None, dead=True, late=False, as_of_us=as_of_us))
    return Decided(said, (), {e.name: e.truth.value for e in result.ensure})


def _decision(run: Run, table: RecoveryTable, when: Timing, as_of_us: int) -> Decision:
    dead = verify.is_dead(run, when, run.read_from(as_of_us))
    return recover.decide(run, table, when, verify.judge(run, when, as_of_us, dead=dead), as_of_us)


def _dropped(standing: Standing, run: Run) -> Reconciliation | None:
    """Decide a dropped staged effect, absent from an outside reading. None for other cases."""
    event, action = standing.event, standing.action
    if S.ROLLED_BACK not in event.path or not action.rollback_done:
        return None
    if not run.checks or not compensate.same_as_before(run, run.checks[0]) or not _nothing_found(standing):
        return None
    standing.given.append("what was read inside the transaction that was left open: it was never kept")
    named = str(event.data["discrepancy"])
    return Reconciliation(
        Verdict.REFUTED,
        Why.NONE,
        Finding.FAILED_BEFORE_EFFECT,
        Discrepancy(named) if named else None,
        Attribution.UNKNOWN,
        level=Level.VERIFIED,
    )


def _nothing_found(standing: Standing) -> bool:
    if not standing.plan.contract.has_find:
        return True
    found = standing.round.found
    return found is not None and found.data.get("count") == 0


def _said(decision: Decision) -> dict[str, Json]:
    result, row = decision.result, decision.row
    return {
        "verdict": result.verdict.value,
        "why": result.why.value,
        "finding": result.finding.value,
        "discrepancy": result.discrepancy.value if result.discrepancy else "",
        "attribution": result.attribution.value,
        "row": row.id,
        "recovery": row.action.value,
        "effect_shown": result.effect_shown,
        "level": int(result.level),
    }


# --- refusals ---


def _rejected(standing: Standing, table: RecoveryTable) -> Decided:
    data = standing.event.data
    if "row" not in data:
        return Decided({}, standing.event.path)  # another attempt was refused: the result of the previous attempt stays
    said: dict[str, Json] = {}
    finding = Finding(str(data["finding"]))
    if data["code"] in BY_THE_WORLD:
        run = standing.before_attempt()
        if standing.missing:
            return Decided()
        refusal = validate.barred(run)
        if refusal is None:
            return Decided({"code": "", "row": ""}, ())
        finding = refusal.finding
        found = refusal.discrepancy.value if refusal.discrepancy else ""
        said = {"code": refusal.code, "finding": finding.value, "discrepancy": found}
    row = table.decide(finding, validate.unexecuted(standing.plan.contract.side_effect))
    return Decided({**said, "row": row.id, "recovery": row.action.value}, (S.FAILED,))


# --- reversals ---


def _reversal(standing: Standing, table: RecoveryTable) -> Decided:
    event = standing.event
    if event.data.get("how") == "rollback":
        run = standing.run()
        if standing.missing:
            return Decided()
        undone = bool(run.checks) and compensate.same_as_before(run, run.checks[0]) and _nothing_found(standing)
        return Decided({}, (S.ROLLED_BACK if undone else S.REVIEW_REQUIRED,))
    if event.data.get("state") == S.RECONCILED_SUCCESS.value:
        return Decided({}, (S.COMPENSATED,))
    row = table.decide(Finding.COMPENSATION_FAILED, compensate.uncompensated(standing.plan.contract.side_effect))
    return Decided({"row": row.id}, (S.COMPENSATION_FAILED, S.REVIEW_REQUIRED))


def _whole(value: Json) -> int:
    return value if isinstance(value, int) else 0
