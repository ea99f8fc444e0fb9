"""Outside: attempts that whoever asked makes himself, between two of his calls, and reports.

Called for agents whose tools nobody can stand in front of: what comes before the tool hands an attempt out, what comes
after it reports. The attempt is durable before it is handed out, and nobody holds its lease meanwhile. A report that
never comes leaves it open: when its time is over it is unknown, as after a crash, and is read and never repeated.
"""

from __future__ import annotations

from collections.abc import Generator

from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import TERMINAL, State
from readback.engine.compiled_contract import CallerContext, Request
from readback.engine.coordinator import (
    LOOK_AGAIN_US,
    ActionHandle,
    OutcomeWork,
    find,
    go_on,
    let_go,
    may_go_on,
    settled,
    stay,
)
from readback.engine.effects import Begin, Begun, Called, Effect, EffectResult, Ending, Lease, Leased, Wait
from readback.engine.engine import Engine
from readback.engine.resume import PlanOf, revive
from readback.engine.run_result import Completed, Duplicate
from readback.engine.schedule import lease_until
from readback.engine.stages.approve import waits
from readback.engine.stages.compensated_outcome import outcome_now
from readback.engine.stages.report import outcome_after
from readback.errors import UsageError

_BEING_REVERSED = frozenset({State.COMPENSATING, State.RECONCILIATION_FAILED})


@dataclass(frozen=True, slots=True)
class ExternalAttempt:
    """What came of asking. `allowed`: the attempt is durable, and may be made now, once, by whoever asked."""

    outcome: Outcome
    allowed: bool


@dataclass(frozen=True, slots=True)
class Report:
    """How an attempt ended, by the word of whoever made it: `value` where it returned, `error` where it failed."""

    ending: Ending
    value: object = None
    error: BaseException | None = None


def start_external(
    engine: Engine, request: Request, scope: CallerContext, plans: PlanOf, ticket: ActionHandle
) -> Generator[Effect, EffectResult, ExternalAttempt]:
    """Begins a proposal up to its durable attempt. What was asked for before is not handed out again, unless it was
    approved since and not attempted. `request.outside` has to be set.
    """
    ended = yield from engine.run(request, scope, ticket.hear)
    if isinstance(ended, Completed):
        ticket.action_id = ended.run.action.id
        outcome = yield from outcome_after(ended.run)
        return ExternalAttempt(outcome, allowed=ended.run.action.attempt_open)
    ticket.action_id, ticket.replayed = ended.action_id, isinstance(ended, Duplicate)
    action = yield from find(ended.action_id, scope.tenant)
    while waits(action) and may_go_on(action, scope):
        ended = yield from go_on(engine, action.id, scope.tenant, plans, request, scope.break_glass)
        if isinstance(ended, Completed):
            outcome = yield from outcome_after(ended.run)
            return ExternalAttempt(outcome, allowed=ended.run.action.attempt_open)
        action = yield from let_go(action.id, scope.tenant)
    return ExternalAttempt((yield from outcome_now(action, replayed=ticket.replayed)), allowed=False)


def complete_external(engine: Engine, action_id: str, tenant: str, plans: PlanOf, said: Report) -> OutcomeWork:
    """Takes the report of an attempt that was handed out, reads back, and stays until it is settled.

    It is recorded once. One that comes when nobody waits for it any more changes nothing of what was decided.
    """
    while True:
        action = yield from find(action_id, tenant)
        if not action.context.get("outside") or not action.attempts:
            raise UsageError(f"No attempt of action {action_id} was handed out, and none can be reported.")
        if not _open_to_report(action):
            return (yield from stay(engine, action_id, tenant, plans))
        begun = yield Begin()
        assert isinstance(begun, Begun)
        plan = plans(action.contract)
        until_us = begun.now_us + LOOK_AGAIN_US if plan is None else lease_until(plan.contract, begun.now_us)
        leased = yield Lease(action_id, until_us, action.version)
        assert isinstance(leased, Leased)
        if leased.fence is None:
            yield Wait(action_id, begun.now_us + LOOK_AGAIN_US)
            continue
        run = yield from revive(action, plans, begun.owner, leased.fence)
        called = Called(said.ending, said.value, said.error, action.executed_us, leased.now_us)
        ended = yield from engine.report(run, called)
        if isinstance(ended, Completed) and settled(ended.run.action):
            return (yield from outcome_after(ended.run))
        return (yield from stay(engine, action_id, tenant, plans))


def _open_to_report(action: Action) -> bool:
    """Nobody has reported it, and it has not been decided without a report."""
    if action.attempt_open:
        return True
    return action.observation is None and action.state not in TERMINAL | _BEING_REVERSED
