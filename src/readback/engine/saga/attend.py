"""Coordinate a saga: continue when due, wait until settled, look, or cancel.

Called by the clients and workers through their drivers, for ids of sagas. Decides nothing about a saga.
"""

from __future__ import annotations

from readback.canon import Json
from readback.domain.events import EventKind
from readback.domain.saga.fold import CLOSED, Saga
from readback.domain.saga.outcome import SagaOutcome
from readback.domain.saga.planner import SagaEnd, plan_moves
from readback.domain.state import TERMINAL, State
from readback.engine import coordinator
from readback.engine.compiled_contract import CallerContext
from readback.engine.effects import (
    Commit,
    Effects,
    GetClock,
    Lease,
    MakeDue,
    Wait,
)
from readback.engine.engine import Engine
from readback.engine.resume import PlanOf
from readback.engine.saga import engine as saga
from readback.engine.saga.begin import SagaRequest
from readback.engine.saga.record import FORWARD_HELD
from readback.engine.saga.report import outcome_of_saga
from readback.engine.saga_run import LEASE_US, SagaRun, load_family, load_json, load_saga
from readback.engine.stages.escalate import CONTRACT_CHANGED, TO_REVIEW
from readback.errors import NotFoundError
from readback.ports.storage.store import Appended

OutcomeWork = Effects[SagaOutcome]
LOOK_AGAIN_US = coordinator.LOOK_AGAIN_US


def begin(
    engine: Engine, request: SagaRequest, scope: CallerContext, plans: PlanOf, ticket: coordinator.ActionHandle
) -> OutcomeWork:
    """Start a saga, or join the operation's existing saga, and wait until settled."""
    yield from saga.begin(engine, request, scope, plans, ticket)
    return (yield from wait_until_settled(engine, ticket.action_id, scope.tenant, plans, replayed=ticket.replayed))


def wait_until_settled(
    engine: Engine, saga_id: str, tenant: str, plans: PlanOf, *, replayed: bool = False
) -> OutcomeWork:
    """Wait until settled. Continue a due saga without a lease holder; otherwise wait for the holder."""
    looked = False
    while True:
        found = yield from find(saga_id, tenant)
        now_us = yield from _now()
        due = found.due_us is not None and found.due_us <= now_us
        if settled(found) and not looked and not due and found.due_us is not None:
            due = yield from _stirred(found, now_us)
        if settled(found) and (looked or not due):
            return (yield from outcome_of_saga(found, replayed=replayed))
        if due and missing(found, plans) is None:
            left = yield from resume(engine, found, plans)
            looked = True
            if left is saga.Left.WAITING:
                continue
        elif settled(found):
            return (yield from outcome_of_saga(found, replayed=replayed))
        later = found.due_us if found.due_us is not None else now_us
        yield from Wait(saga_id, max(later, now_us + LOOK_AGAIN_US))


def _stirred(found: Saga, now_us: int) -> Effects[bool]:
    """Whether the awaited event has happened: an approval, or a person's decision about a step."""
    family = yield from load_family(found)
    moves = plan_moves(found, family, now_us)
    turns = moves.turn is not None and found.review != FORWARD_HELD
    return moves.works or turns or moves.end not in (None, SagaEnd.REVIEW)


def settled(found: Saga) -> bool:
    """No change is expected soon."""
    return found.state in TERMINAL or found.quiet


def current_outcome(saga_id: str, tenant: str, *, replayed: bool = False) -> OutcomeWork:
    """The current outcome by the ledger."""
    return (yield from outcome_of_saga((yield from find(saga_id, tenant)), replayed=replayed))


def find(saga_id: str, tenant: str) -> Effects[Saga]:
    """The saga of this tenant. Other tenants' sagas do not exist here."""
    found = yield from load_saga(saga_id)
    if found is None or (tenant and found.tenant != tenant):
        raise NotFoundError(f"There is no saga {saga_id!r} in this tenant.")
    return found


def advance(engine: Engine, saga_id: str, tenant: str, plans: PlanOf) -> Effects[None]:
    """Continue a due saga until its next wait: a worker's unit of work.

    A saga with a changed contract goes to review. A saga with a missing contract stays unchanged, with NotFoundError
    for the caller. Every call takes a look, and a look at a saga before its due time is harmless.
    """
    found = yield from find(saga_id, tenant)
    if found.state in CLOSED or found.due_us is None:
        return
    lacking = missing(found, plans)
    if lacking is not None:
        raise lacking
    yield from resume(engine, found, plans)


def advance_step(engine: Engine, action_id: str, saga_id: str, tenant: str, plans: PlanOf) -> Effects[None]:
    """Continue a due action of a saga. If the action is settled, also make the saga due; no result depends on this."""
    yield from coordinator.advance(engine, action_id, tenant, plans)
    action = yield from coordinator.find(action_id, tenant)
    if coordinator.settled(action):
        yield from MakeDue(saga_id)


def resume(engine: Engine, found: Saga, plans: PlanOf) -> saga.Look:
    """Acquire the lease and proceed. Returns ELSEWHERE if another worker holds the lease."""
    run = yield from _leased(found, engine)
    if run is None:
        return saga.Left.ELSEWHERE
    other = changed(found, plans)
    if other:
        return (yield from _hold(run, other))
    return (yield from saga.proceed(engine, plans, run))


def cancel(engine: Engine, saga_id: str, tenant: str, plans: PlanOf) -> Effects[None]:
    """Record the caller's cancellation: before the pivot the saga turns back; after the pivot it continues forward."""
    while True:
        found = yield from find(saga_id, tenant)
        if found.state in CLOSED or found.cancelled:
            return
        run = yield from _leased(found, engine)
        if run is None:
            yield from Wait(saga_id, (yield from _now()) + LOOK_AGAIN_US)
            continue
        run.record(EventKind.CANCELLED, {"by": run.scope.principal})
        if missing(found, plans) is None and not changed(found, plans):
            if (yield from saga.proceed(engine, plans, run)) is saga.Left.WAITING:
                return
        elif (yield from _commit(run)):
            return


def missing(found: Saga, plans: PlanOf) -> NotFoundError | None:
    """The error for a contract not loaded here. A process with all contracts can continue."""
    for terms in found.terms:
        plan = plans(terms.contract)
        if plan is None or (terms.undo and plan.compensation is None):
            return NotFoundError(
                f"Contract {terms.contract!r} of saga {found.id} is not loaded here.",
                remedy="Run it where its contracts are: pass the module with --contracts, or import it first.",
            )
    return None


def changed(found: Saga, plans: PlanOf) -> str:
    """The name of a contract changed since the start; "" for none. Requires all contracts to be loaded."""
    for terms in found.terms:
        plan = plans(terms.contract)
        assert plan is not None
        undo = plan.compensation.contract if plan.compensation is not None and terms.undo else None
        if plan.contract.hash != terms.contract_hash or (undo is not None and undo.hash != terms.undo_hash):
            return terms.contract
    return ""


def _hold(run: SagaRun, contract: str) -> saga.Look:
    """A saga keeps its original contracts. If a contract has changed, a person decides."""
    detail = f"Contract {contract!r} changed since the saga began."
    held: dict[str, Json] = {"hold": CONTRACT_CHANGED, "code": CONTRACT_CHANGED, "detail": detail}
    run.record(EventKind.HELD, held, TO_REVIEW[run.saga.state])
    return saga.Left.WAITING if (yield from _commit(run)) else saga.Left.ELSEWHERE


def _leased(found: Saga, engine: Engine) -> Effects[SagaRun | None]:
    begun = yield from GetClock()
    leased = yield from Lease(found.id, begun.now_us + LEASE_US, found.version)
    if leased.fence is None or leased.version != found.version:
        return None
    scope = yield from _scope(found, engine)
    return SagaRun(found, scope, begun.owner, leased.fence, found.version, leased.now_us)


def _scope(found: Saga, engine: Engine) -> Effects[CallerContext]:
    """The saga's own principal and context. An emergency override counts only in a process with an override."""
    context = {key: str(value) for key, value in found.context.items()}
    budget = yield from load_json(found, found.budget_ref)
    return CallerContext(
        found.tenant,
        found.principal,
        context.get("run", ""),
        context.get("plan", ""),
        context.get("task_state", ""),
        context.get("boundary", ""),
        context.get("trace", ""),
        budget if isinstance(budget, dict) else None,
        found.break_glass if engine.approvals.break_glass else "",
        context.get("parent_span", ""),
        sampled=context.get("sampled") != "0",
    )


def _commit(run: SagaRun) -> Effects[bool]:
    committed = yield from Commit(run.append(release_lease=True))
    return isinstance(committed.result, Appended)


def _now() -> Effects[int]:
    begun = yield from GetClock()
    return begun.now_us


__all__ = [
    "State",
    "advance",
    "advance_step",
    "begin",
    "cancel",
    "current_outcome",
    "find",
    "resume",
    "settled",
    "wait_until_settled",
]
