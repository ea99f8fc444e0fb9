"""Submission, for both clients and the command line: a proposal, or a contract's name with arguments.

Where the contract is loaded here, the checks are those of `run` before its first question to a system. Where only the
name is known, a worker with the contract checks later, and an invalid request ends as refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from readback.canon import Json, UnsupportedValueError, ValueTooLargeError, json_value
from readback.client.operations import claiming
from readback.client.operations.claiming import Upon
from readback.client.proposal import Proposal
from readback.client.session import Session, check_id, check_step
from readback.engine.compiled_contract import CallerContext, Request
from readback.engine.effects import ClockResult, Effects
from readback.engine.run_result import Completed
from readback.engine.stages.submit import Submission, submit_named
from readback.errors import ArgumentError, OversizeError, ProposalError


def submit(
    s: Session,
    asked: Proposal | str,
    arguments: Mapping[str, object] | None,
    operation: str | None,
    intended: Mapping[str, object] | None,
    step: str,
    upon: Iterable[Upon] | Upon,
    run: str | None = None,
    named: Callable[[ClockResult], None] | None = None,
) -> Effects[str]:
    """Submit, and return the id of this or of the earlier request. Raises InputError before anything is recorded.

    `named` receives the id of a new request before the commit.
    """
    scope = s.scope_of(run)
    claims = () if upon == () else claiming.upon_ids(s, upon)
    if isinstance(asked, Proposal):
        if arguments is not None:
            raise ProposalError(
                "A proposal already has its arguments.", remedy="Pass arguments only with a contract's name."
            )
        return _proposed(s, scope, s.request(asked, operation, intended, step, claims), named)
    s.check_open()
    check_id("contract", asked, ProposalError)
    check_step(step)
    given = _object("arguments", arguments or {})
    goal = None if intended is None else _object("intended", intended)
    known_as = operation or ""
    plan = s.plan_of(asked)
    if plan is not None and plan.bind is not None:
        bound, requested = plan.bind(given)
        return _proposed(s, scope, Request(plan, bound, requested, known_as, goal, step, upon=claims), named)
    if operation is None:
        raise ProposalError(
            f"The contract {asked!r} is not loaded here, so the operation must be named.",
            remedy="Pass operation='...', the same for every repetition of the same intent.",
        )
    check_id("operation", operation, ProposalError)
    return submit_named(Submission(asked, given, known_as, goal, step, claims), scope, s.engine.limits, named)


def _proposed(
    s: Session, scope: CallerContext, request: Request, named: Callable[[ClockResult], None] | None
) -> Effects[str]:
    ended = yield from s.engine.submit(request, scope, named)
    return ended.run.action.id if isinstance(ended, Completed) else ended.action_id


def _object(name: str, value: Mapping[str, object]) -> dict[str, Json]:
    try:
        plain = json_value(value)
    except ValueTooLargeError as error:
        raise OversizeError(f"{name} is too large. {error.message}") from error
    except UnsupportedValueError as error:
        raise ArgumentError(f"{name} has no JSON form. {error.message}") from error
    if not isinstance(plain, dict):
        raise ArgumentError(f"{name} must be a mapping of names.")
    return plain
