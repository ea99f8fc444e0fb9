"""The actions of a run's belief: all open actions, and the newest settled ones.

Called by both clients and by `readback belief`. Only projections and freezes are read here. The engine's own `look`
returns the outcomes one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Final

from readback.canon.frozen import dataclass
from readback.client.session import Session
from readback.domain.belief.entry import FrozenSubject, Group
from readback.domain.contract.freezing import resource_names
from readback.domain.outcome.outcome import Outcome
from readback.domain.outcome.planning import PlanningCase, plan_next
from readback.domain.state import TERMINAL, State
from readback.domain.verdict import Verdict
from readback.engine.saga_run import fold_saga
from readback.errors import UsageError
from readback.ports.storage.store import ActionFilter, Projection

SETTLED_LOADED_MAX: Final = 256
"""The number of settled actions with loaded outcomes; older ones are counted."""
OLDER_COUNTED_MAX: Final = 1_000
"""The number of older actions counted; beyond that, only the existence of more is reported."""
PAGE: Final = 200
OPEN_PAGE: Final = 10_000
SAGA: Final = "saga"
_BEHIND: Final = "!"
"""With this suffix an id sorts after itself and before every other id: ids have letters and digits only."""
_REPEATABLE: Final = (State.FAILED, State.ROLLED_BACK)
_SETTLED: Final = TERMINAL - {State.REVIEW_REQUIRED}


@dataclass(frozen=True, slots=True)
class Chosen:
    """The material of a belief. `ids`: the chosen actions, the newest first."""

    run: str
    ids: tuple[str, ...]
    older: int
    groups: tuple[Group, ...]
    frozen: tuple[FrozenSubject, ...]
    reversals: Mapping[str, tuple[State, str]]
    """Steps reversed by their sagas: the state of the reversal, and the reversing action."""
    replaced: frozenset[str]
    """Failures whose operation now belongs to another action."""
    more: bool = False
    """There are more settled actions than `older`, the counted number."""

    def told(self, outcome: Outcome) -> Outcome:
        """Return the outcome for the belief: a verified step reversed since is no fact any more."""
        reversal = self.reversals.get(outcome.id)
        if reversal is None or not outcome.verified:
            return outcome
        return replace(outcome, state=reversal[0], verdict=Verdict.REFUTED, compensation=reversal[1], told={})


def choose(session: Session, run: str | None, *, settled_max: int | None = None) -> Chosen:
    """Choose the actions of a run of this tenant; `settled_max` limits the settled ones. Raises UsageError where no run
    is named.

    Open actions, the newest settled ones and their sagas are read. A run may have any length.
    """
    session.check_open()
    named = session.run_named(run)
    if not named:
        raise UsageError(
            "A belief needs a run, and no run is named.", remedy="Pass run='...' to Readback.open, or to belief."
        )
    most = SETTLED_LOADED_MAX if settled_max is None else settled_max
    newest = _newest(session, named, most)
    held = {each.action_id: each for each in (*newest.kept, *_open(session, named))}
    actions = [held[action_id] for action_id in sorted(held, reverse=True) if held[action_id].kind != SAGA]
    sagas = _sagas(session, named, held)
    reversals = {action_id: said for each in sagas for action_id, said in _reversals(session, each.action_id)}
    groups = tuple(_group(each, _steps(session, each.action_id, named)) for each in sagas)
    asked: dict[str, list[Projection]] = {}
    for each in actions:
        asked.setdefault(each.key_hash, []).append(each)
    replaced = frozenset(each for key, found in asked.items() for each in _replaced(session, key, found))
    older, more = _older(session, named, newest.before)
    return Chosen(
        named,
        tuple(each.action_id for each in actions),
        older,
        groups,
        _frozen(session, named, actions, newest.before),
        reversals,
        replaced,
        more,
    )


@dataclass(frozen=True, slots=True)
class _Newest:
    """The newest settled actions of a run, and everything newer. `before`: older ones have lower ids; "" for none."""

    kept: tuple[Projection, ...]
    before: str


def _newest(session: Session, run: str, most: int) -> _Newest:
    kept: list[Projection] = []
    settled = {True: 0, False: 0}  # sagas, and actions: neither crowds out the other
    for each in _pages(session, run):
        if each.state in _SETTLED:
            settled[each.kind == SAGA] += 1
            if max(settled.values()) > most:
                return _Newest(tuple(kept), each.action_id + _BEHIND)
        kept.append(each)
    return _Newest(tuple(kept), "")


def _pages(session: Session, run: str, before: str = "") -> Iterator[Projection]:
    """Yield the actions of a run, the newest first, as far as the caller iterates."""
    return _each(session, ActionFilter(session.scope.tenant, run=run, before_id=before, limit=PAGE))


def _open(session: Session, run: str) -> Iterator[Projection]:
    """Return the unsettled actions of a run in few pages: each page sorts all open actions."""
    return _each(session, ActionFilter(session.scope.tenant, run=run, limit=OPEN_PAGE, open=True))


def _each(session: Session, query: ActionFilter) -> Iterator[Projection]:
    while page := session.store.page(query):
        for stored in page:
            yield stored.projection
        if len(page) < query.limit:
            return
        query = replace(query, before_id=page[-1].projection.action_id)


def _older(session: Session, run: str, before: str) -> tuple[int, bool]:
    """Return the number of settled actions older than the loaded ones, and whether more were left uncounted."""
    if not before:
        return 0, False
    found = [*islice(_pages(session, run, before), OLDER_COUNTED_MAX + 1)]
    older = sum(each.kind != SAGA and each.state in _SETTLED for each in found[:OLDER_COUNTED_MAX])
    return older, len(found) > OLDER_COUNTED_MAX


def _sagas(session: Session, run: str, held: Mapping[str, Projection]) -> list[Projection]:
    """Return the sagas among these actions, and the sagas of these steps; the oldest first."""
    found = {each.action_id: each for each in held.values() if each.kind == SAGA}
    for saga_id in {each.saga for each in held.values() if each.saga} - found.keys():
        stored = session.store.projection(saga_id)
        if stored is not None and (stored.projection.tenant, stored.projection.run) == (session.scope.tenant, run):
            found[saga_id] = stored.projection
    return [found[saga_id] for saga_id in sorted(found)]


def _steps(session: Session, saga_id: str, run: str) -> list[str]:
    """Return the actions of a saga's steps, the newest first."""
    steps = _each(session, ActionFilter(session.scope.tenant, saga=saga_id, limit=PAGE))
    return [each.action_id for each in steps if each.run == run]


def _frozen(session: Session, run: str, actions: Sequence[Projection], before: str) -> tuple[FrozenSubject, ...]:
    """Return the frozen subjects of the run's actions. Older actions are searched only while some freeze is not named
    by a newer action.
    """
    tenant = session.scope.tenant
    held = {each.subject: each.reason for each in session.store.freezes(tenant)}
    named = {f"tenant:{tenant}", f"principal:{session.scope.principal}"} & held.keys()
    left = {subject for subject in held if subject.startswith(("resource:", "tool:"))}
    older = _pages(session, run, before) if before else ()
    for each in chain(actions, older):
        if not left:
            break
        met = left & {*resource_names(each.target), f"tool:{each.contract}"}
        named |= met
        left -= met
    return tuple(FrozenSubject(subject, reason) for subject, reason in held.items() if subject in named)


def _replaced(session: Session, key: str, found: list[Projection]) -> Iterator[str]:
    """Return the failures, among several actions under one key, that lost the key."""
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
