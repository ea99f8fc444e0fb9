"""Which of a run's actions make up its belief: everything that is open, and the newest of what is settled.

Called by both clients and by `readback belief`. It reads projections and freezes; the outcomes themselves are told by
the engine's own `look`, one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from readback.canon.frozen import dataclass
from readback.domain.belief.entry import FrozenSubject, Group
from readback.domain.errors import UsageError
from readback.domain.freezing import resource_names
from readback.domain.outcome import Outcome
from readback.domain.planning import PlanningCase, plan_next
from readback.domain.state import TERMINAL, State
from readback.domain.verdict import Verdict
from readback.lifecycle.saga_run import fold_saga
from readback.ports.store import ActionFilter, Projection
from readback.sdk import handed
from readback.sdk.session import Session

SETTLED_LOADED_MAX: Final = 256
"""Settled actions whose outcomes are loaded; older ones are counted."""
PAGE: Final = 200
SAGA: Final = "saga"
_REPEATABLE: Final = (State.FAILED, State.ROLLED_BACK)
_SETTLED: Final = TERMINAL - {State.REVIEW_REQUIRED}


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a belief is made of. `ids`: the actions to be told, the newest first."""

    run: str
    ids: tuple[str, ...]
    older: int
    groups: tuple[Group, ...]
    frozen: tuple[FrozenSubject, ...]
    reversals: Mapping[str, tuple[State, str]]
    """Steps that their sagas have reversed: what that amounts to, and the reversing action."""
    replaced: frozenset[str]
    """Failures whose operation is another action's by now."""

    def told(self, outcome: Outcome) -> Outcome:
        """The outcome as it is believed: a verified step that was reversed since is no fact any more."""
        reversal = self.reversals.get(outcome.id)
        if reversal is None or not outcome.verified:
            return outcome
        return replace(outcome, state=reversal[0], verdict=Verdict.REFUTED, compensation=reversal[1], told={})


def choose(session: Session, run: str | None, *, settled_max: int | None = None) -> Chosen:
    """The actions of a run of this tenant; `settled_max`: of those that are settled. Raises UsageError where no run is
    named.
    """
    session.check_open()
    named = session.scope.run if run is None else handed.sought("run", run)
    if not named:
        raise UsageError(
            "No run is named, and a belief is of one run.", remedy="Pass run='...' to Readback.open, or to belief."
        )
    ids: list[str] = []
    sagas: list[Projection] = []
    steps: dict[str, list[str]] = {}
    asked: dict[str, list[Projection]] = {}
    subjects = {f"tenant:{session.scope.tenant}", f"principal:{session.scope.principal}"}
    settled = older = 0
    before = ""
    while page := session.store.page(ActionFilter(session.scope.tenant, run=named, before_id=before, limit=PAGE)):
        for projection in (stored.projection for stored in page):
            before = projection.action_id
            if projection.kind == SAGA:
                sagas.append(projection)
                continue
            if projection.saga:
                steps.setdefault(projection.saga, []).append(projection.action_id)
            subjects |= {*resource_names(projection.target), f"tool:{projection.contract}"}
            if projection.state in _SETTLED:
                settled += 1
                if settled > (SETTLED_LOADED_MAX if settled_max is None else settled_max):
                    older += 1
                    continue
            ids.append(projection.action_id)
            asked.setdefault(projection.key_hash, []).append(projection)
    reversals = {action_id: said for each in sagas for action_id, said in _reversals(session, each.action_id)}
    groups = tuple(_group(each, steps.get(each.action_id, [])) for each in reversed(sagas))
    held = {f.subject: f.reason for f in session.store.freezes(session.scope.tenant) if f.subject in subjects}
    frozen = tuple(FrozenSubject(subject, reason) for subject, reason in held.items())
    replaced = frozenset(each for key, found in asked.items() for each in _replaced(session, key, found))
    return Chosen(named, tuple(ids), older, groups, frozen, reversals, replaced)


def _replaced(session: Session, key: str, found: list[Projection]) -> Iterator[str]:
    """Of several actions under one key, the failures that do not hold it any more."""
    record = session.store.key(session.scope.tenant, key) if key and len(found) > 1 else None
    for each in found:
        if record is not None and each.state in _REPEATABLE and each.action_id != record.action_id:
            yield each.action_id


def _reversals(session: Session, saga_id: str) -> Iterator[tuple[str, tuple[State, str]]]:
    saga = fold_saga(session.store.events(saga_id))
    for record in saga.steps.values() if saga is not None else ():
        if not record.undo_id and not record.undo_state:
            continue
        state = State.COMPENSATING if not record.undo_state else State.REVIEW_REQUIRED
        if record.undo_state == State.RECONCILED_SUCCESS.value:
            state = State.COMPENSATED
        yield record.action_id, (state, record.undo_id)


def _group(saga: Projection, steps: list[str]) -> Group:
    state = State(saga.state)
    case = PlanningCase(state, standing=state is State.RECONCILED_SUCCESS, hold=saga.hold)
    name = saga.contract.removeprefix(f"{SAGA}:")
    return Group(saga.action_id, name, state, plan_next(case).rule, tuple(reversed(steps)), saga.review)
