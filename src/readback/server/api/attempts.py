"""Attempts that the caller makes, and sagas.

An attempt is durable before the answer of `POST /v1/attempts`. The caller then calls the tool once and reports the end.
See ADR 19.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from readback.canon import Json
from readback.client.proposal import Proposal
from readback.client.step import SagaStep, from_step, names_of
from readback.domain.saga.fold import KIND
from readback.errors import ArgumentError, NotFoundError, UsageError
from readback.server.access.principal import Right
from readback.server.api import shapes
from readback.server.api.actions import LOOK, OUTCOME, TRACEPARENT, get_action, listed, proposed, summary
from readback.server.api.answering import (
    FINAL,
    beside,
    exact,
    exact_object,
    operation_of,
    optional_object,
    outcome_json,
    outcome_reply,
    page_of,
    preferred_wait,
    settled_reply,
)
from readback.server.errors import InProgressError, NoSandboxError
from readback.server.ledgers import ActionHandle, consuming
from readback.server.routing import Answer, Call, Reply, Route

FROM: Final = "$from"


async def begin_attempt(call: Call) -> Reply:
    """Make an attempt durable for a call of the caller's own."""
    body: shapes.AttemptRequest = call.body
    client = call.ledgers.client(call.caller, test=body.test).traced(call.header(TRACEPARENT))
    arguments = exact_object(body.arguments, "arguments")
    proposal = proposed(call.ledgers, body.contract, arguments, test=body.test, called=False)
    with consuming([proposal]):
        handed = await client.hand_out(proposal, operation=operation_of(call), step=body.step, run=body.run)
    if not handed.allowed:
        reply = outcome_reply(call, client, handed.outcome, test=body.test)
        status = 200 if handed.outcome.state in FINAL else 202
        return Reply(status, {"allowed": False, "action": reply.body}, reply.headers)
    view = outcome_json(handed.outcome, test=body.test)
    headers = ((b"location", view["links"]["self"].encode("ascii")),)
    return Reply(201, {"allowed": True, "action": view}, headers)


async def report_attempt(call: Call) -> Reply:
    """Record how the caller's call ended, read the state back, and return the outcome."""
    body: shapes.AttemptReport = call.body
    value = exact(body.value, "value")
    if value is not None and body.error is not None:
        raise UsageError("A call either returned or failed.", remedy="Send `value` or `error`, not both.")
    client = call.ledgers.client(call.caller, test=body.test)
    ticket, wait = ActionHandle(), preferred_wait(call)
    work = client.reported(call.path["id"], ticket, value, body.error, wait)
    return await settled_reply(call, client, work, ticket, wait, test=body.test)


def with_references(arguments: Mapping[str, Json]) -> dict[str, Any]:
    """Return the arguments, with a reference for each `{"$from": {"step": NAME, "path": PATH}}`.

    Raises ArgumentError for a malformed reference.
    """
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        if not (isinstance(value, dict) and FROM in value):
            found[name] = value
            continue
        named = value[FROM]
        step, path = (named.get("step"), named.get("path")) if isinstance(named, dict) else (None, None)
        if len(value) != 1 or not isinstance(step, str) or not isinstance(path, str):
            said = f"The reference in {name!r:.80} is malformed."
            raise ArgumentError(said, remedy='Write {"$from": {"step": "NAME", "path": "PATH"}}.')
        found[name] = from_step(step, path)
    return found


def refuse_references(step: str, arguments: Mapping[str, Json]) -> None:
    """Raise NoSandboxError for a reference in a test: a sandbox is chosen by the arguments, before any step runs."""
    for name, value in arguments.items():
        if isinstance(value, dict) and FROM in value:
            raise NoSandboxError(
                f"A test cannot take {name!r:.80} of step {step!r:.80} from another step.",
                remedy="Write the value itself into the test's saga.",
            )


def _steps(call: Call, body: shapes.SagaRequest) -> list[SagaStep]:
    made: list[Proposal] = []
    with consuming(made):
        for each in body.steps:
            arguments = exact_object(each.arguments, "arguments")
            definition: Any = call.ledgers.definition(each.contract)
            if body.test:
                refuse_references(each.name, arguments)
                made.append(call.ledgers.sandboxed(definition, arguments))
            else:
                made.append(definition(**with_references(arguments)))
            intended = optional_object(each.intended, "intended")
            if intended is not None:
                made[-1] = made[-1].planned(intended=intended)
        pairs = zip(made, body.steps, strict=True)
        return [SagaStep(proposal, each.name, names_of(each.after), each.pivot) for proposal, each in pairs]


async def run_saga(call: Call) -> Reply:
    """Run several actions as one, and wait for the end as long as the caller prefers."""
    body: shapes.SagaRequest = call.body
    operation = operation_of(call)
    client = call.ledgers.client(call.caller, test=body.test).traced(call.header(TRACEPARENT))
    steps = _steps(call, body)
    slot = (call.caller.tenant, f"saga:{body.name}", operation, body.test)
    if slot in call.ledgers.in_progress:
        for step in steps:
            step.proposal.mark_run()
        raise InProgressError(f"A request with the key {operation!r:.80} is in progress.")
    call.ledgers.in_progress.add(slot)
    ticket, wait = ActionHandle(), preferred_wait(call)
    try:
        work = client.started_saga(steps, ticket, name=body.name, operation=operation, wait=wait, run=body.run)
        return await settled_reply(call, client, work, ticket, wait, test=body.test)
    finally:
        call.ledgers.in_progress.discard(slot)


async def list_sagas(call: Call) -> Reply:
    """List the newest sagas of the tenant."""
    query: shapes.PageQuery = call.query
    session = call.ledgers.client(call.caller, test=query.test).session
    wanted = shapes.ActionQuery(kind=KIND, starting_after=query.starting_after, limit=query.limit)
    rows = await beside(listed, session, wanted)
    items, more = page_of(rows, query.limit)
    return Reply(200, shapes.ActionPage([summary(each) for each in items], has_more=more))


async def get_saga(call: Call) -> Reply:
    """Return a saga's outcome with its steps."""
    session = call.ledgers.client(call.caller, test=call.query.test).session
    if not await beside(lambda: session.is_saga(session.action_id(call.path["id"]))):
        raise NotFoundError(f"There is no saga {call.path['id']!r:.80} in this tenant.")
    return await get_action(call)


ROUTES: Final = (
    Route(
        "POST", "/v1/attempts", "beginAttempt", "Make an attempt durable before the caller's own call.",
        begin_attempt, Right.RUN,
        (
            Answer(201, "The attempt is durable: make the call now, once.", shapes.AttemptView, headers=("Location",)),
            Answer(200, "The operation has ended: do not call.", shapes.AttemptView),
            Answer(202, "The operation is in progress, held or unknown: do not call.", shapes.AttemptView),
        ),
        body=shapes.AttemptRequest, key=True, tag="attempts", headers=("traceparent",),
        faults=(404, 413, 422, 429, 503),
    ),
    Route(
        "POST", "/v1/attempts/{id}/report", "reportAttempt", "Report how the caller's call ended.", report_attempt,
        Right.RUN, OUTCOME, body=shapes.AttemptReport, tag="attempts", headers=("Prefer",),
        faults=(404, 413, 422, 503),
    ),
    Route(
        "POST", "/v1/sagas", "runSaga", "Run several actions as one.", run_saga, Right.RUN, OUTCOME,
        body=shapes.SagaRequest, key=True, tag="sagas", headers=("Prefer", "traceparent"),
        faults=(404, 409, 413, 422, 429, 503),
    ),
    Route(
        "GET", "/v1/sagas", "listSagas", "List sagas.", list_sagas, Right.READ,
        (Answer(200, "A page, the newest first.", shapes.ActionPage),), query=shapes.PageQuery, tag="sagas",
        faults=(503,),
    ),
    Route(
        "GET", "/v1/sagas/{id}", "getSaga", "Return a saga's outcome.", get_saga, Right.READ, LOOK,
        query=shapes.TestQuery, tag="sagas", headers=("Prefer",), faults=(404, 503),
    ),
)  # fmt: skip
