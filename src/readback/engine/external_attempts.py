"""External attempts: the caller makes the attempt between two calls and reports the result.

Used for agents with tools outside our control: a hook before the tool starts an attempt, and a hook after the tool
reports. The attempt is durable before the start, and the lease is released meanwhile. Without a report the attempt
stays open. When its time is over, the attempt is unknown, as after a crash: read, and never repeated.
"""

from __future__ import annotations

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
    may_resume,
    recheck_after_approval,
    resume,
    settled,
    wait_until_settled,
)
from readback.engine.effects import Called, Effects, Ending, GetClock, Lease, Wait
from readback.engine.engine import Engine
from readback.engine.resume import PlanOf, revive
from readback.engine.run_result import Completed, Duplicate
from readback.engine.schedule import lease_until
from readback.engine.stages.approve import waits
from readback.engine.stages.compensate import outcome_with_reversals
from readback.engine.stages.report import outcome_after
from readback.errors import UsageError

_BEING_REVERSED = frozenset({State.COMPENSATING, State.RECONCILIATION_FAILED})


@dataclass(frozen=True, slots=True)
class ExternalAttempt:
    """The answer to a start. `allowed`: the attempt is durable, and the caller may make the call now, once."""

    outcome: Outcome
    allowed: bool


@dataclass(frozen=True, slots=True)
class Report:
    """How an attempt ended, by the caller's word: `value` after a return, `error` after a failure."""

    ending: Ending
    value: object = None
    error: BaseException | None = None


def start_external(
    engine: Engine, request: Request, scope: CallerContext, plans: PlanOf, ticket: ActionHandle
) -> Effects[ExternalAttempt]:
    """Start a proposal up to its durable attempt. An earlier request gets no second attempt, unless approved since and
    not attempted. Requires `request.outside`.
    """
    ended = yield from engine.run(request, scope, ticket.hear)
    if isinstance(ended, Completed):
        ticket.action_id = ended.run.action.id
        outcome = yield from outcome_after(ended.run)
        return ExternalAttempt(outcome, allowed=ended.run.action.attempt_open)
    ticket.action_id, ticket.replayed = ended.action_id, isinstance(ended, Duplicate)
    action = yield from find(ended.action_id, scope.tenant)
    while waits(action) and may_resume(action, scope):
        ended = yield from resume(engine, action.id, scope.tenant, plans, request, scope.break_glass)
        if isinstance(ended, Completed):
            outcome = yield from outcome_after(ended.run)
            return ExternalAttempt(outcome, allowed=ended.run.action.attempt_open)
        action = yield from recheck_after_approval(action.id, scope.tenant)
    return ExternalAttempt((yield from outcome_with_reversals(action, replayed=ticket.replayed)), allowed=False)


def complete_external(engine: Engine, action_id: str, tenant: str, plans: PlanOf, said: Report) -> OutcomeWork:
    """Record the report of an external attempt, read back, and wait until settled.

    The report is recorded once. A report after the decision changes nothing.
    """
    while True:
        action = yield from find(action_id, tenant)
        if not action.context.get("outside") or not action.attempts:
            raise UsageError(f"Action {action_id} has no external attempt to report.")
        if not _open_to_report(action):
            return (yield from wait_until_settled(engine, action_id, tenant, plans))
        begun = yield from GetClock()
        plan = plans(action.contract)
        until_us = begun.now_us + LOOK_AGAIN_US if plan is None else lease_until(plan.contract, begun.now_us)
        leased = yield from Lease(action_id, until_us, action.version)
        if leased.fence is None:
            yield from Wait(action_id, begun.now_us + LOOK_AGAIN_US)
            continue
        run = yield from revive(action, plans, begun.owner, leased.fence)
        called = Called(said.ending, said.value, said.error, action.executed_us, leased.now_us)
        ended = yield from engine.report(run, called)
        if isinstance(ended, Completed) and settled(ended.run.action):
            return (yield from outcome_after(ended.run))
        return (yield from wait_until_settled(engine, action_id, tenant, plans))


def _open_to_report(action: Action) -> bool:
    """Whether the attempt has no report and no decision without a report."""
    if action.attempt_open:
        return True
    return action.observation is None and action.state not in TERMINAL | _BEING_REVERSED
