"""Actions: run, look, list, entries, proof, bundle, explanation, cancel and signal."""

from __future__ import annotations

from typing import Any, Final

from readback.audit.evidence.sealed import prove_sealed
from readback.audit.record.action import is_action
from readback.audit.record.bundle import make_bundle
from readback.canon import Json
from readback.client import validation
from readback.client.operations import claiming
from readback.client.proposal import Proposal
from readback.client.session import Session
from readback.domain.events import open_envelope
from readback.domain.recovery.table import DEFAULT_TABLE
from readback.errors import StoreCorruptError, UsageError
from readback.log.tree import leaf_hash
from readback.ports.storage.store import ActionFilter, StoredEvent, StoredProjection
from readback.server.access.principal import Right
from readback.server.api import shapes
from readback.server.api.answering import (
    beside,
    exact_object,
    operation_of,
    optional_object,
    outcome_reply,
    page_of,
    preferred_wait,
    settled_reply,
)
from readback.server.errors import InProgressError, NotSealedError
from readback.server.ledgers import ActionHandle, Ledgers, ServerClient, consuming
from readback.server.routing import Answer, Call, Reply, Route
from readback.views.action import outcome_and_picture
from readback.views.explain import explained_any

TRACEPARENT: Final = "traceparent"


def proposed(ledgers: Ledgers, contract: str, arguments: dict[str, Json], *, test: bool, called: bool) -> Proposal:
    """Return the proposal of a contract by name, or of the contract's sandbox.

    `called`: the contract's own executor makes the call.

    Raises:
        NotFoundError: the server has no such contract.
        ArgumentError: the arguments do not fit.
        NoSandboxError: a test is asked for, and the contract has no sandbox for these arguments.
    """
    definition: Any = ledgers.definition(contract)
    if test:
        return ledgers.sandboxed(definition, arguments)
    if called:
        found: Proposal = definition(**arguments)
        return found
    bound, requested = definition.arguments.bind((), arguments)
    return Proposal(definition, bound, requested)


async def run_action(call: Call) -> Reply:
    """Run an action, and wait for a settled outcome as long as the caller prefers."""
    body: shapes.ActionRequest = call.body
    operation = operation_of(call)
    client = call.ledgers.client(call.caller, test=body.test).traced(call.header(TRACEPARENT))
    arguments = exact_object(body.arguments, "arguments")
    intended = optional_object(body.intended, "intended")
    proposal = proposed(call.ledgers, body.contract, arguments, test=body.test, called=True)
    slot = (call.caller.tenant, body.contract, operation, body.test)
    if slot in call.ledgers.in_progress:
        proposal.mark_run()
        raise InProgressError(f"A request with the key {operation!r:.80} is in progress.")
    call.ledgers.in_progress.add(slot)
    ticket, wait = ActionHandle(), preferred_wait(call)
    try:
        with consuming([proposal]):
            claims = await beside(claiming.upon_ids, client.session, body.upon) if body.upon else ()
        work = client.started(
            proposal,
            ticket,
            operation=operation,
            wait=wait,
            intended=intended,
            step=body.step,
            claims=claims,
            run=body.run or None,
        )
        return await settled_reply(call, client, work, ticket, wait, test=body.test)
    finally:
        call.ledgers.in_progress.discard(slot)


async def get_action(call: Call) -> Reply:
    """Return the outcome by the ledger; with `Prefer: wait=N`, after a wait for a settled outcome."""
    test = call.query.test
    client = call.ledgers.client(call.caller, test=test)
    wait = preferred_wait(call, default=0.0)
    if wait:
        ticket = ActionHandle()
        return await settled_reply(call, client, client.waited(call.path["id"], ticket, wait), ticket, wait, test=test)
    reply = outcome_reply(call, client, await client.get(call.path["id"]), test=test)
    return Reply(200, reply.body, reply.headers)


def summary(stored: StoredProjection) -> shapes.ActionSummary:
    """Return a row of a list."""
    p = stored.projection
    return shapes.ActionSummary(
        id=p.action_id,
        version=stored.version,
        kind="saga" if p.kind == "saga" else "action",
        state=p.state,
        hold=p.hold,
        verdict=p.verdict,
        discrepancy=p.discrepancy,
        review=p.review,
        incident=p.incident,
        claim=p.claim,
        contract=p.contract,
        side_effect=p.side_effect,
        target=p.target,
        operation=p.operation,
        principal=p.principal,
        run=p.run,
        saga=p.saga,
        stamp=p.stamp,
        created_us=p.created_us,
        updated_us=p.updated_us,
        due_us=p.due_us,
    )


async def list_actions(call: Call) -> Reply:
    """List the newest actions of the tenant that match every filter."""
    query: shapes.ActionQuery = call.query
    session = call.ledgers.client(call.caller, test=query.test).session
    if query.operation:
        found = await beside(_by_operation, session, query)
        return Reply(200, shapes.ActionPage(found, has_more=False))
    rows = await beside(listed, session, query)
    items, more = page_of(rows, query.limit)
    return Reply(200, shapes.ActionPage([summary(each) for each in items], has_more=more))


def listed(session: Session, query: shapes.ActionQuery) -> list[StoredProjection]:
    """Return a page of the session's tenant with one row beyond the limit. Raises UsageError for an unknown state."""
    return session.store.page(
        ActionFilter(
            session.scope.tenant,
            validation.state_named(query.state),
            query.contract,
            query.run,
            query.starting_after,
            query.limit + 1,
            query.kind,
            query.saga,
            query.review,
            open=query.open,
        )
    )


def _by_operation(session: Session, query: shapes.ActionQuery) -> list[shapes.ActionSummary]:
    if not query.contract:
        raise UsageError("An operation belongs to a contract.", remedy="Name the contract, too: contract=NAME.")
    action_id = session.find_operation(query.operation, query.contract)
    stored = session.store.projection(action_id) if action_id is not None else None
    return [] if stored is None else [summary(stored)]


def entries(session: Session, named: str) -> tuple[str, list[StoredEvent]]:
    """Return an action's id and entries, each checked against its leaf hash. Raises StoreCorruptError."""
    action_id = session.action_id(named)
    events = session.store.events(action_id)
    if any(leaf_hash(each.envelope) != each.leaf for each in events):
        raise StoreCorruptError(f"An entry of {action_id} has other bytes than its leaf hash says.")
    return action_id, events


async def list_events(call: Call) -> Reply:
    """Return every ledger entry of an action or a saga."""
    session = call.ledgers.client(call.caller, test=call.query.test).session
    return Reply(200, await beside(_events, session, call.path["id"]))


def _events(session: Session, named: str) -> shapes.EventList:
    found = []
    for each in entries(session, named)[1]:
        event = open_envelope(each.envelope).event
        found.append(
            shapes.EventView(
                position=each.seq or None,
                version=each.version,
                kind=event.kind.value,
                at_us=event.at_us,
                path=[state.value for state in event.path],
                data=dict(event.data),
                refs=dict(event.refs),
                leaf=each.leaf.hex(),
            )
        )
    return shapes.EventList(found)


async def get_proof(call: Call) -> Reply:
    """Return the proof (C2SP tlog-proof) that the sealed log holds the action's last entry."""
    session = call.ledgers.client(call.caller, test=call.query.test).session
    return Reply(200, await beside(proof, session, call.path["id"]), media=b"text/plain; charset=utf-8")


def proof(session: Session, named: str) -> bytes:
    """Return the proof of an action's last entry as bytes. Raises NotSealedError."""
    authority = session.sealer.authority if session.sealer is not None else session.sealing.authority
    action_id, events = entries(session, named)
    if authority is None:
        raise NotSealedError("This server has no key of the log, so no checkpoint covers the entry.")
    found = prove_sealed(session.store, events[-1], authority)
    if found is None:
        raise NotSealedError(f"No checkpoint covers the last entry of {action_id} yet.")
    return found.to_bytes()


async def get_bundle(call: Call) -> Reply:
    """Return the replay bundle of an action, for `readback replay`."""
    session = call.ledgers.client(call.caller, test=call.query.test).session
    return Reply(200, await beside(bundle, session, call.path["id"]))


def bundle(session: Session, named: str) -> bytes:
    """Return the bundle of one action, with a proof where the log is sealed."""
    action_id, events = entries(session, named)
    if not is_action(events):
        raise UsageError(f"{action_id} is a saga.", remedy="Export its steps: each is an action of its own.")
    try:
        sealed: bytes | None = proof(session, action_id)
    except NotSealedError:
        sealed = None

    def body(digest: str) -> bytes | None:
        found = session.store.evidence(session.scope.tenant, action_id, digest)
        if found is None and not session.store.erased(session.scope.tenant, action_id, digest):
            raise StoreCorruptError(f"The evidence {digest} is missing, and no entry says that it was erased.")
        return None if found is None else found.body

    return make_bundle(events, body, (DEFAULT_TABLE, session.engine.table), sealed)


async def explain(call: Call) -> Reply:
    """Explain the outcome in sentences from tables and recorded values."""
    session = call.ledgers.client(call.caller, test=call.query.test).session
    return Reply(200, await beside(_explained, session, call.path["id"]))


def _explained(session: Session, named: str) -> dict[str, Json]:
    outcome, picture = outcome_and_picture(session, session.action_id(named))
    return explained_any(outcome, picture, "", "")


async def cancel(call: Call) -> Reply:
    """Stop an action: an unexecuted action is not executed, and a shown effect is compensated."""
    body: shapes.CancelRequest = call.body
    client: ServerClient = call.ledgers.client(call.caller, test=body.test)
    if body.unattempted:
        outcome = await client.withdraw(call.path["id"], reason=body.reason)
    else:
        outcome = await client.cancel(call.path["id"])
    return outcome_reply(call, client, outcome, test=body.test)


async def signal(call: Call) -> Reply:
    """Bring the next reading of a waiting action forward. The signal itself decides nothing."""
    client = call.ledgers.client(call.caller, test=call.body.test)
    return Reply(202, shapes.SignalView(await beside(client.signal, call.path["id"])))


OUTCOME: Final = (
    Answer(200, "The state is known and final, also where the action failed.", shapes.ActionView, headers=("ETag",)),
    Answer(
        202,
        "The action is pending, held or unknown. Look again at Location.",
        shapes.ActionView,
        headers=("Location", "Retry-After", "ETag"),
    ),
)
LOOK: Final = (Answer(200, "The outcome by the ledger.", shapes.ActionView, headers=("ETag",)), OUTCOME[1])
PROOF: Final = "The proof as text, for `readback ledger verify-proof`."

ROUTES: Final = (
    Route(
        "POST", "/v1/actions", "runAction", "Run an action.", run_action, Right.RUN, OUTCOME,
        body=shapes.ActionRequest, key=True, tag="actions", headers=("Prefer", "traceparent"),
        faults=(403, 404, 409, 413, 422, 429, 503),
    ),
    Route(
        "GET", "/v1/actions", "listActions", "List actions.", list_actions, Right.READ,
        (Answer(200, "A page, the newest first.", shapes.ActionPage),),
        query=shapes.ActionQuery, tag="actions", faults=(422, 503),
    ),
    Route(
        "GET", "/v1/actions/{id}", "getAction", "Return an action's outcome.", get_action, Right.READ, LOOK,
        query=shapes.TestQuery, tag="actions", headers=("Prefer",), faults=(404, 503),
    ),
    Route(
        "GET", "/v1/actions/{id}/events", "listActionEvents", "List an action's ledger entries.", list_events,
        Right.READ, (Answer(200, "The entries, the oldest first.", shapes.EventList),),
        query=shapes.TestQuery, tag="actions", faults=(404, 503),
    ),
    Route(
        "GET", "/v1/actions/{id}/proof", "getActionProof", "Prove an action's last entry.", get_proof, Right.READ,
        (Answer(200, PROOF, str, media="text/plain"),), query=shapes.TestQuery, tag="actions", faults=(404, 409, 503),
    ),
    Route(
        "GET", "/v1/actions/{id}/bundle", "getActionBundle", "Return an action's replay bundle.", get_bundle,
        Right.READ, (Answer(200, "The bundle, for `readback replay`.", dict[str, Any]),),
        query=shapes.TestQuery, tag="actions", faults=(404, 422, 503),
    ),
    Route(
        "GET", "/v1/actions/{id}/explain", "explainAction", "Explain an action's outcome.", explain, Right.READ,
        (Answer(200, "The reasons and the next steps.", shapes.ExplainView),),
        query=shapes.TestQuery, tag="actions", faults=(404, 503),
    ),
    Route(
        "POST", "/v1/actions/{id}/cancel", "cancelAction", "Stop an action.", cancel, Right.RUN, OUTCOME,
        body=shapes.CancelRequest, tag="actions", faults=(404, 409, 422, 503),
    ),
    Route(
        "POST", "/v1/actions/{id}/signal", "signalAction", "Bring an action's next reading forward.", signal,
        Right.RUN, (Answer(202, "Whether an action was waiting.", shapes.SignalView),),
        body=shapes.TestRequest, tag="actions", faults=(404, 503),
    ),
)  # fmt: skip
