"""Coordinate work on an action until it is settled: start, join, wait, or look.

Called by the clients and workers through their drivers. The coordinator decides nothing about an action. It ensures
progress, by this process or another, and reports the ledger's state.
"""

from __future__ import annotations

from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.events import EventKind
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import TERMINAL, State
from readback.engine.compiled_contract import CallerContext, Request
from readback.engine.effects import (
    ClockResult,
    Commit,
    Effects,
    GetClock,
    Lease,
    LoadAction,
    Wait,
)
from readback.engine.engine import Engine, cancelled_by
from readback.engine.entries.recorder import Recorder
from readback.engine.resume import PlanOf, changed, not_loaded, plan_for, revive
from readback.engine.run_result import Completed, Duplicate, RunResult, StopAtWait, Superseded
from readback.engine.saga_run import left_behind
from readback.engine.schedule import lease_until
from readback.engine.stages.approve import approved_blind, goes_on, waits
from readback.engine.stages.compensate import outcome_with_reversals
from readback.engine.stages.escalate import escalate
from readback.engine.stages.report import outcome_after
from readback.engine.stages.submit import admit, unadmitted
from readback.engine.stages.watch import defer
from readback.errors import NotFoundError

LOOK_AGAIN_US = 500_000
"""How often to look at an action leased by another process."""

OutcomeWork = Effects[Outcome]


@dataclass(slots=True)
class ActionHandle:
    """The id of the caller's action, known as soon as the action exists. `replayed`: the action of an earlier run."""

    action_id: str = ""
    replayed: bool = False

    def hear(self, answer: object) -> None:
        """Take the first fresh id: later ids belong to the reversal."""
        if not self.action_id and isinstance(answer, ClockResult) and answer.action_id:
            self.action_id = answer.action_id


def begin(engine: Engine, request: Request, scope: CallerContext, plans: PlanOf, ticket: ActionHandle) -> OutcomeWork:
    """Run a proposal, or join the operation's existing action, and wait until settled."""
    ended = yield from engine.run(request, scope, ticket.hear)
    if isinstance(ended, Completed):
        ticket.action_id = ended.run.action.id
        if settled(ended.run.action) or waits(ended.run.action):
            return (yield from outcome_after(ended.run))
        return (yield from wait_until_settled(engine, ticket.action_id, scope.tenant, plans))
    ticket.action_id, ticket.replayed = ended.action_id, isinstance(ended, Duplicate)
    action = yield from find(ended.action_id, scope.tenant)
    if waits(action):
        return (yield from _ask_again(engine, action, request, scope, plans, ticket))
    return (yield from wait_until_settled(engine, ended.action_id, scope.tenant, plans, replayed=ticket.replayed))


def _ask_again(
    engine: Engine, action: Action, request: Request, scope: CallerContext, plans: PlanOf, ticket: ActionHandle
) -> OutcomeWork:
    """The operation waits for an approval and is run again. With an approval or an emergency override, continue with
    the new arguments; otherwise return the waiting outcome.
    """
    while waits(action) and may_resume(action, scope):
        ended = yield from resume(engine, action.id, scope.tenant, plans, request, scope.break_glass)
        ticket.replayed = not isinstance(ended, Completed)
        if isinstance(ended, Completed):
            action = yield from find(action.id, scope.tenant)
            break
        action = yield from recheck_after_approval(action.id, scope.tenant)
    if waits(action):
        return (yield from outcome_with_reversals(action, replayed=ticket.replayed))
    return (yield from wait_until_settled(engine, action.id, scope.tenant, plans, replayed=ticket.replayed))


def may_resume(action: Action, scope: CallerContext) -> bool:
    """Whether a repeated run continues a waiting action: with an approval, or with an emergency override."""
    return bool(scope.break_glass) or (action.approval is not None and action.approval.complete)


def recheck_after_approval(action_id: str, tenant: str) -> Effects[Action]:
    """Look at a waiting action again after a moment: an approver may hold the lease now, without a decision yet."""
    action = yield from find(action_id, tenant)
    if not waits(action):
        return action
    begun = yield from GetClock()
    yield from Wait(action_id, begun.now_us + LOOK_AGAIN_US)
    return (yield from find(action_id, tenant))


def wait_until_settled(
    engine: Engine, action_id: str, tenant: str, plans: PlanOf, *, replayed: bool = False
) -> OutcomeWork:
    """Wait until the action is settled. Continue a due action without a lease holder; otherwise wait for the holder.

    During a reversal the coordinator continues the reversing action, an action of its own.
    """
    looked = False
    while True:
        action = yield from find(action_id, tenant)
        if settled(action) and (looked or action.state is not State.UNKNOWN or action.due_us is None):
            return (yield from outcome_with_reversals(action, replayed=replayed))
        doing, due = action, action.due_us
        if action.state is State.COMPENSATING and action.compensation_id:
            child = yield from find(action.compensation_id, tenant)
            if child.state is State.UNKNOWN:
                return (yield from outcome_with_reversals(action, replayed=replayed))
            doing, due = (action, 0) if child.state in TERMINAL else (child, child.due_us)
        begun = yield from GetClock()
        if approved_blind(action):
            return (yield from outcome_with_reversals(action, replayed=replayed))
        due = begun.now_us if goes_on(action) else due
        if due is not None and due <= begun.now_us and _may_resume(doing, plans):
            ended = yield from resume(engine, doing.id, tenant, plans)
            if isinstance(ended, Completed):
                looked = True
                continue
        if settled(action):  # unknown, and the next reading is not due
            return (yield from outcome_with_reversals(action, replayed=replayed))
        due = due if due is not None else begun.now_us
        yield from Wait(doing.id, max(due, begun.now_us + LOOK_AGAIN_US))


def _may_resume(action: Action, plans: PlanOf) -> bool:
    """Whether the contract is loaded. A merely submitted action waits for a worker with the named version."""
    plan = plan_for(action, plans)
    if plan is None or action.state is not State.PROPOSED or not action.contract_hash:
        return plan is not None
    return plan.contract.hash == action.contract_hash


def resume(
    engine: Engine,
    action_id: str,
    tenant: str,
    plans: PlanOf,
    given: Request | None = None,
    break_glass: str = "",
) -> Effects[RunResult]:
    """Acquire the lease and proceed, once. Returns Superseded if another worker holds the lease. `given`: see
    resume.revive.
    """
    action = yield from find(action_id, tenant)
    begun = yield from GetClock()
    plan = plan_for(action, plans)
    until = lease_until(plan.contract, begun.now_us) if plan is not None else begun.now_us + LOOK_AGAIN_US
    leased = yield from Lease(action_id, until)
    if leased.fence is None:
        return Superseded(action_id)
    if leased.version != action.version:
        action = yield from find(action_id, tenant)  # moved on before our lease
    if plan is not None and unadmitted(action):
        admitted = yield from admit(action, plan, begun.owner, leased.fence, engine.table.version, leased.now_us)
        if isinstance(admitted, Superseded):
            return admitted
        return (yield from engine.proceed(admitted))
    run = yield from revive(action, plans, begun.owner, leased.fence, given, break_glass)
    run.passed(leased.now_us)
    if action.state is State.VALIDATED and (yield from left_behind(action)):
        return (yield from engine.cancel(run))
    return (yield from engine.proceed(run))


def current_outcome(action_id: str, tenant: str, *, replayed: bool = False) -> OutcomeWork:
    """The current outcome by the ledger."""
    action = yield from find(action_id, tenant)
    return (yield from outcome_with_reversals(action, replayed=replayed))


def nothing() -> Effects[None]:
    """No work: already done."""
    yield from ()


def find(action_id: str, tenant: str) -> Effects[Action]:
    """The action of this tenant. Other tenants' actions do not exist here."""
    folded = yield from LoadAction(action_id)
    if folded is None or (tenant and folded.tenant != tenant):
        raise NotFoundError(f"There is no action {action_id!r} in this tenant.")
    return folded


def settled(action: Action) -> bool:
    """No change is expected soon: the action has ended or is unknown."""
    return action.state in TERMINAL or action.state is State.UNKNOWN


def advance(engine: Engine, action_id: str, tenant: str, plans: PlanOf) -> Effects[None]:
    """Continue a due action until its next wait: a worker's unit of work.

    An action with a changed contract goes to review. An action with a missing contract stays unchanged, with
    NotFoundError for the caller. An action without a due time stays unchanged.
    """
    action = yield from find(action_id, tenant)
    begun = yield from GetClock()
    if action.due_us is None:
        return
    plan = plan_for(action, plans)
    if plan is None:
        raise not_loaded(action)
    if unadmitted(action):
        yield from StopAtWait(resume(engine, action_id, tenant, plans), may_wait=False)
    elif plan.contract.hash != action.contract_hash and action.state in (State.RECONCILED_SUCCESS, State.FAILED):
        yield from defer(action, begun.now_us)
    elif plan.contract.hash != action.contract_hash:
        yield from escalate(action, begun.owner, changed(action, plan).message, begun.now_us)
    else:
        yield from StopAtWait(resume(engine, action_id, tenant, plans), may_wait=False)


def cancel(
    engine: Engine, action_id: str, tenant: str, plans: PlanOf, *, unattempted: bool = False, reason: str = ""
) -> Effects[None]:
    """Record the caller's cancellation, and read once, now. An ended action keeps its end.

    `unattempted`: cancel nothing with an attempt. The lease is of the version seen here, so no attempt comes between.
    `reason`: for the record.
    """
    while True:
        action = yield from find(action_id, tenant)
        if unattempted and action.attempts:
            return
        if action.state in TERMINAL and not (action.state is State.REVIEW_REQUIRED and action.attempts == 0):
            return
        begun = yield from GetClock()
        leased = yield from Lease(action_id, begun.now_us + LOOK_AGAIN_US)
        if leased.fence is None or leased.version != action.version:
            yield from Wait(action_id, begun.now_us + LOOK_AGAIN_US)
            continue
        if action.state is State.PROPOSED:  # not executed: the contract is not needed
            entries = Recorder(action, action.version)
            entries.add(EventKind.CANCELLED, leased.now_us, (State.FAILED,), cancelled_by(action.principal, reason))
            yield from Commit(entries.append(leased.fence))
            return
        run = yield from revive(action, plans, begun.owner, leased.fence)
        run.passed(leased.now_us)
        ended = yield from StopAtWait(engine.cancel(run, reason), may_wait=False)
        if not isinstance(ended, Superseded) or ended.waiting:
            return
