"""Submit: record the request for an action durably; another process executes it.

With the contract loaded, the engine proposes the action in full. This module serves the other case: only the contract's
name is known. A process with the contract later compares the request with the contract, and either admits the action,
in the append of the first attempt, or refuses it for good. Both cases reserve the key at submission, so an operation is
one action, regardless of how often and where it is requested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from readback.canon import Json, payload_bytes, sha256_hex, stored_bytes
from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.contract.contract import Contract
from readback.domain.contract.limits import Limits
from readback.domain.events import Event, EventKind, seal
from readback.domain.idempotency import (
    KeyDecision,
    KeyStatus,
    aged,
    asked_hash,
    former_operation,
    key_hash,
    on_key,
    request_hash,
)
from readback.domain.kind import Kind
from readback.domain.normal_form import NormalForm, in_normal_form
from readback.domain.state import State
from readback.domain.verification.observation_signs import one_line
from readback.engine import tenant_limits
from readback.engine.compiled_contract import CallerContext, CompiledContract, Request
from readback.engine.effects import (
    ClockResult,
    Commit,
    Effects,
    GetClock,
    LoadAction,
    LoadKey,
)
from readback.engine.entries.recorder import Recorder, projection_of
from readback.engine.run import Run
from readback.engine.run_result import Superseded
from readback.engine.stages import execute, validate
from readback.engine.stages.approve import load_kept
from readback.errors import InputError, InvariantError, PayloadConflictError, StoreCorruptError, SubmissionError
from readback.ports.storage.store import (
    Append,
    Appended,
    Evidence,
    KeyConflict,
    KeyRecord,
    SealedEvent,
    TooManyInFlight,
)

REFUSAL_MAX_BYTES: Final = 1_000
COMPOSING: Final = frozenset({"", "1"})
"""Wrapper versions with a Unicode composition of the operation's id before keying."""
_ASKED_FOR: Final = frozenset({"requested", "intended"})


@dataclass(frozen=True, slots=True)
class Submission:
    """A request without a loaded contract: the contract's name, and the arguments as JSON."""

    contract: str
    arguments: Mapping[str, Json]
    operation: str
    intended: Mapping[str, Json] | None = None
    step: str = ""
    upon: tuple[str, ...] = ()


def check(contract: Contract | None, scope: CallerContext) -> None:
    """Reject options unavailable for submitted actions. Raises SubmissionError."""
    if scope.break_glass:
        raise SubmissionError(
            "break_glass cannot be used with submit: the emergency override must come from the process that executes "
            "the action.",
            remedy="Run it here, or submit it without break_glass and have it approved.",
        )
    if contract is not None and any(path.split(".")[0] in _ASKED_FOR for path in contract.redact):
        raise SubmissionError(
            f"{contract.name!r} redacts arguments, so it cannot be submitted: the ledger would have to hold the values "
            "until a worker executes the action.",
            remedy="Run it here.",
        )


def unadmitted(action: Action) -> bool:
    """No process with the contract has checked the action yet."""
    return action.state is State.PROPOSED and not action.contract_ref


def submit_named(
    asked: Submission,
    scope: CallerContext,
    limits: Limits | None,
    named: Callable[[ClockResult], None] | None = None,
) -> Effects[str]:
    """Return the id of the action, durable and due now, or of the existing action of this operation.

    `named` receives the id of a new action before the commit.

    Raises PayloadConflictError, a limit's error or StoreError; then nothing was submitted.
    """
    check(None, scope)
    begun = yield from GetClock(fresh=True)
    if named is not None:
        named(begun)
    found = yield from LoadKey(scope.tenant, key_hash(scope.tenant, asked.contract, asked.operation))
    replaces = ""
    if found is None and (composed := former_operation(asked.operation)):
        hashed = key_hash(scope.tenant, asked.contract, composed)
        record = yield from _former(scope.tenant, hashed)
        if record is not None and (taken := (yield from _existing(asked, record, begun.now_us))):
            return taken
    if found is not None:
        taken = yield from _existing(asked, found, begun.now_us)
        if taken:
            return taken
        replaces = found.action_id
    own = limits.of(scope.tenant) if limits is not None else None
    if own is not None:
        yield from tenant_limits.check_evidence_quota(scope.tenant, own)
    committed = yield from Commit(_append(asked, scope, begun, replaces, own.in_flight if own is not None else 0))
    match committed.result:
        case Appended():
            return begun.action_id  # Durable: after a crash a worker with the contract continues.
        case KeyConflict(record):
            return (yield from _existing(asked, record, committed.now_us)) or record.action_id
        case TooManyInFlight(in_flight):
            raise tenant_limits.too_many_in_flight(scope.tenant, in_flight)
        case other:
            raise InvariantError(f"A new action was not kept: {other}.")


def _existing(asked: Submission, record: KeyRecord, now_us: int) -> Effects[str]:
    """The existing action of the operation; "" if the operation may start anew."""
    same = record.request_hash == asked_hash(asked.contract, asked.arguments)
    if not same:
        folded = yield from LoadAction(record.action_id)
        same = folded is not None and _asks_the_same(folded, asked)
    status = aged(KeyStatus(record.status), record.expires_us, now_us)
    match on_key(status, same_request=same):
        case KeyDecision.EXECUTE:
            return ""
        case KeyDecision.REFUSE:
            raise PayloadConflictError(
                f"Operation {asked.operation!r} of {asked.contract!r} was asked for before with another payload, as "
                "far as can be told where its contract is not.",
                details={"action": record.action_id},
            )
        case _:
            return record.action_id


def _asks_the_same(action: Action, asked: Submission) -> bool:
    if action.asked_hash:
        return action.asked_hash == asked_hash(asked.contract, asked.arguments)
    return request_hash(Kind(action.kind), action.target, asked.arguments) == action.request_hash


def _append(asked: Submission, scope: CallerContext, begun: ClockResult, replaces: str, in_flight_max: int) -> Append:
    payload: dict[str, Json] = {"requested": dict(asked.arguments)}
    if asked.intended is not None:
        payload["intended"] = dict(asked.intended)
    if scope.budget:
        payload["budget"] = dict(scope.budget)
    body = payload_bytes(payload)
    kept = Evidence(sha256_hex(body), "application/json", body)
    action = Action(begun.action_id, scope.tenant)
    event = Event(
        EventKind.PROPOSED, begun.now_us, (State.PROPOSED,), _data(asked, scope, begun), {"request": kept.digest}
    )
    envelope, leaf = seal(event, action.id, action.tenant, 1, "")
    action.apply(event, leaf.hex())
    record = KeyRecord(
        action.tenant, action.key_hash, action.request_hash, action.id, KeyStatus.PENDING.value, action.created_us, 0
    )
    return Append(
        action.id,
        action.tenant,
        0,
        0,
        (SealedEvent(event.kind.value, event.at_us, envelope, leaf),),
        projection_of(action),
        (kept,),
        reserve=record,
        replaces=replaces,
        relies=asked.upon,
        in_flight_max=in_flight_max,
    )


def _data(asked: Submission, scope: CallerContext, begun: ClockResult) -> dict[str, Json]:
    context: dict[str, Json] = {
        "run": scope.run,
        "plan": scope.plan,
        "step": asked.step,
        "task_state": scope.task_state,
        "boundary": scope.boundary,
        "trace": scope.trace,
        "parent_span": scope.parent_span,
        "reverses": "",
    }
    if scope.scopes:
        context["scopes"] = list(scope.scopes)  # all of the client's scopes: the required ones are unknown here
    if asked.upon:
        context["upon"] = list(asked.upon)
    return {
        "principal": scope.principal,
        "contract": asked.contract,
        "contract_version": "",
        "contract_hash": "",
        "operation_kind": "",
        "side_effect": "",
        "target": "",
        "operation": asked.operation,
        "key_hash": key_hash(scope.tenant, asked.contract, asked.operation),
        "request_hash": asked_hash(asked.contract, asked.arguments),
        "stamp": execute.STAMP_PREFIX + begun.action_id,
        "wrapper": execute.WRAPPER_VERSION,
        "recovery_table": "",
        "break_glass": "",
        "context": context,
        "due": begun.now_us,
    }


# --- with the contract ---


def admit(
    action: Action, plan: CompiledContract, owner: str, fence: int, table_version: str, now_us: int
) -> Effects[Run | Superseded]:
    """Compare a request by name with the contract. The caller has the contract and the lease.

    Returns the run, with an admission entry for the next commit; or, after a refusal, an ended run.
    """
    kept = yield from load_kept(action)
    try:
        run = _admitted(action, plan, kept, (owner, fence), table_version, now_us)
    except InputError as refused:
        entries = Recorder(action, action.version)
        said = one_line(f"Its contract refused it: {refused.message}", REFUSAL_MAX_BYTES)
        entries.add(EventKind.REJECTED, now_us, (State.FAILED,), {"code": refused.code, "detail": said})
        yield from Commit(entries.append(fence))  # after a conflict another worker continues the action
        return Superseded(action.id)
    return run


def _admitted(
    action: Action,
    plan: CompiledContract,
    kept: Mapping[str, Json],
    held: tuple[str, int],
    table_version: str,
    now_us: int,
) -> Run:
    given, goal, budget = kept.get("requested"), kept.get("intended"), kept.get("budget")
    if plan.bind is None or not isinstance(given, dict):
        raise StoreCorruptError(f"The request of action {action.id} is missing.")
    contract, context = plan.contract, action.context
    scopes = context.get("scopes")
    scope = CallerContext(
        action.tenant,
        action.principal,
        str(context.get("run", "")),
        budget=budget if isinstance(budget, dict) else None,
        trace=str(context.get("trace", "")),
        scopes=tuple(str(each) for each in scopes) if isinstance(scopes, list) else (),
    )
    check(contract, scope)
    arguments, requested = plan.bind(given)
    intended = goal if isinstance(goal, dict) else None
    request = Request(plan, arguments, requested, action.operation, intended, str(context.get("step", "")))
    validate.admit(request, scope)
    run = Run(plan, scope, action, arguments, requested, intended, held[0], held[1], action.version, now_us=now_us)
    target = execute.target_of(request, scope, action.stamp, action.operation)
    data = execute.terms_of(request, target, table_version)
    run.record(EventKind.ADMITTED, now_us, (), data, execute.keep(run, request, target))
    execute.reserve(run)  # its own key, with the contract's reading of the request
    return run


def same_request(run: Run, record: KeyRecord) -> Effects[bool]:
    """Whether the action holding the key was requested with the same content. An unchecked request by name is compared
    with the contract here; an erased request cannot be compared.
    """
    if record.request_hash == run.action.request_hash:
        return True
    folded = yield from LoadAction(record.action_id)
    other = folded
    if other is None or run.plan.bind is None:
        return False
    if other.request_ref in other.erased:
        return False
    if other.contract_ref:
        return (yield from _same_in_form(run, other))
    given = (yield from load_kept(other)).get("requested")
    try:
        _, requested = run.plan.bind(given if isinstance(given, dict) else {})
    except InputError:
        return False
    return request_hash(run.contract.kind, run.action.target, requested) == run.action.request_hash


def has_another_goal(run: Run, record: KeyRecord) -> Effects[bool]:
    """Whether a caller that binds its goal states another goal (`intended`) than the action holding the key.

    A caller without a stated goal accepts any. An erased request cannot be compared.
    """
    if run.intended is None or not run.binds_goal:
        return False
    other = yield from LoadAction(record.action_id)
    if other is None or other.request_ref in other.erased:
        return True
    kept = yield from load_kept(other)
    mine = run.secrecy.hide(dict(run.intended), "intended")
    return stored_bytes(mine) != stored_bytes(kept.get("intended", kept.get("requested")))


def _same_in_form(run: Run, other: Action) -> Effects[bool]:
    """Whether both requests differ only in the spelling of the target, by the contract's rule."""
    contract = run.contract
    form = contract.target_form
    if form is NormalForm.EXACT or other.kind != contract.kind.value or other.contract != contract.name:
        return False
    given = (yield from load_kept(other)).get("requested")
    asked = in_normal_form(contract.target, form, given if isinstance(given, dict) else {})
    return asked == in_normal_form(contract.target, form, run.requested)


def former_record(run: Run, hashed: str, *, by_fields: bool) -> Effects[KeyRecord | None]:
    """The record of an operation started under an earlier form of its key; None if there is none.

    If the caller's id has another form, only an action of the composing releases qualifies: any other record under the
    composed id belongs to another operation.
    """
    found = yield from LoadKey(run.action.tenant, hashed)
    if found is None or by_fields:
        return found
    return (yield from _composed_by(found))


def _former(tenant: str, hashed: str) -> Effects[KeyRecord | None]:
    found = yield from LoadKey(tenant, hashed)
    return None if found is None else (yield from _composed_by(found))


def _composed_by(record: KeyRecord) -> Effects[KeyRecord | None]:
    folded = yield from LoadAction(record.action_id)
    return record if folded is not None and folded.wrapper in COMPOSING else None
