"""Propose, attempt, dispatch and observe: an action up to its evidence.

Called by the engine. A dispatch is yielded only for a committed attempt. The driver may not call the tool after the
attempt's stated latest time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, assert_never

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.canon.limits import ID_MAX_BYTES
from readback.canon.values import Copied
from readback.domain.action.action import Action
from readback.domain.contract.freezing import freeze_subjects
from readback.domain.contract.shadowing import Mode
from readback.domain.events import EventKind
from readback.domain.finding import Finding
from readback.domain.idempotency import former_operation, key_hash, request_hash
from readback.domain.normal_form import in_normal_form
from readback.domain.side_effect import DEPTHS_VERSION
from readback.domain.state import State
from readback.domain.tracing.attributes import ORIGIN
from readback.domain.verdict import Attribution, Verdict, Why
from readback.domain.verification.observation import (
    Observation,
    ObservationStatus,
    guarded,
    normalise,
    normalise_exception,
    one_line,
)
from readback.domain.verification.reconciliation import Reconciliation
from readback.engine.compiled_contract import CallerContext, Request
from readback.engine.effects import Called, ClockResult, Dispatch, Effects, Ending, ProveEnded
from readback.engine.recovery import resend
from readback.engine.recovery.transition_paths import path_through
from readback.engine.run import Run
from readback.engine.schedule import first_look_due
from readback.errors import InvariantError
from readback.ports.storage.store import KeyRecord

_PROPOSED_ENTRY: Final = EventKind.PROPOSED
_ATTEMPTED: Final = EventKind.ATTEMPTED
_OBSERVED: Final = EventKind.OBSERVED
_PROPOSED: Final = State.PROPOSED
_VALIDATED: Final = State.VALIDATED
_EXECUTING: Final = State.EXECUTING
_RETURNED: Final = Ending.RETURNED
_QUEUED: Final = frozenset({ObservationStatus.ACCEPTED, ObservationStatus.PENDING})

STAMP_PREFIX = "rb-"
DISPATCH_GRACE_US = 10_000_000
"""How long after its commit an attempt may still be dispatched. A process that slept longer must not act."""
WRAPPER_VERSION = "2"
"""2: an operation's id is the caller's own text. 1: the id was Unicode-composed first."""
_PLAIN_ANSWERS = frozenset({dict, Copied, list, tuple, str, bytes, int, float, bool, type(None)})
"""Types of answers without a transaction: most answers."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A named, keyed and stamped action without any record."""

    run: Run
    request: Request
    operation: str
    key_hash: str
    stamp: str
    target: str
    former: str = ""
    """The key's hash in an earlier form; "" if both forms are equal."""

    @property
    def freeze_subjects(self) -> tuple[str, ...]:
        """The same as `attempt_subjects` of the later action."""
        run, contract = self.run, self.run.contract
        if not contract.kind.mutates or self.request.ordered:
            return ()
        scope = run.scope
        return freeze_subjects(
            tenant=scope.tenant,
            principal=scope.principal,
            contract=contract.name,
            target=self.target,
            places=run.places(),
        )


def draft(request: Request, scope: CallerContext, begun: ClockResult) -> Draft:
    """The draft of the action for a request."""
    run = Run(
        request.plan,
        scope,
        Action(begun.action_id, scope.tenant),
        request.arguments,
        request.requested,
        request.intended,
        begun.owner,
        now_us=begun.now_us,
        origin=request,
        hands_out=request.outside,
    )
    operation, key_of, former = _operation(request, begun.action_id)
    stamp = STAMP_PREFIX + begun.action_id
    hashed = key_hash(scope.tenant, request.plan.contract.name, key_of)
    before = key_hash(scope.tenant, request.plan.contract.name, former) if former else ""
    return Draft(run, request, operation, hashed, stamp, target_of(request, scope, stamp, operation), before)


def propose(draft: Draft, table_version: str, due_us: int | None = None) -> Run:
    """Propose the action. Nothing is durable yet. `due_us`: when a worker continues a submitted action."""
    run, request = draft.run, draft.request
    scope, context = run.scope, _context(request, run.scope)
    if request.upon:
        context["upon"] = list(request.upon)
        run.rely(request.upon)
    data: dict[str, Json] = {
        "principal": scope.principal,
        "contract": run.contract.name,
        "operation": draft.operation,
        "key_hash": draft.key_hash,
        "stamp": draft.stamp,
        "break_glass": scope.break_glass,
        "context": context,
        **terms_of(request, draft.target, table_version),
    }
    if due_us is not None:
        data["due"] = due_us
    if _in_shadow(request, scope):
        data["mode"] = Mode.SHADOW.value
    if request.saga:
        data["context"] = {**context, "saga": request.saga, "region": request.region}
    if request.ordered:
        data["context"] = {**context, "ordered": "1"}
    run.record(_PROPOSED_ENTRY, run.now_us, (_PROPOSED,), data, keep(run, request, draft.target))
    return run


def _in_shadow(request: Request, scope: CallerContext) -> bool:
    """Whether the action runs in shadow. A step of a saga, a reversal and an ordered action are always enforced."""
    contract = request.plan.contract
    if request.saga or request.reverses or request.ordered:
        return False
    return scope.shadow.covers(contract.name, contract.mode)


def terms_of(request: Request, target: str, table_version: str) -> dict[str, Json]:
    """A request's terms by the contract and the tables in force."""
    contract = request.plan.contract
    return {
        "contract_version": contract.version,
        "contract_hash": contract.hash,
        "engine": request.plan.predicates.name,
        "schema": contract.schema_hash,
        "wrapper": WRAPPER_VERSION,
        "operation_kind": contract.kind._value_,
        "side_effect": contract.side_effect._value_,
        "target": target,
        "key_required": contract.depth.operation_required,
        "key_kept": contract.key_kept_us,
        "request_hash": request_hash(contract.kind, target, request.requested),
        "verification_table": DEPTHS_VERSION,
        "recovery_table": table_version,
    }


def keep(run: Run, request: Request, target: str) -> dict[str, str]:
    """Store the request and the contract's text as evidence. Returns their digests."""
    payload: dict[str, Json] = {"requested": dict(request.requested), "target": target}
    if request.intended is not None:
        payload["intended"] = dict(request.intended)
    if run.scope.budget:
        payload["budget"] = dict(run.scope.budget)
    return {"request": run.keep_request(payload), "contract": run.keep_contract()}


def _context(request: Request, scope: CallerContext) -> dict[str, Json]:
    """The action's plan, saga, scopes and trace."""
    context: dict[str, Json] = {
        "run": scope.run,
        "plan": scope.plan,
        "step": request.step,
        "task_state": scope.task_state,
        "boundary": scope.boundary,
        "trace": scope.trace,
        "parent_span": scope.parent_span,
        "reverses": request.reverses,
    }
    if request.outside:
        context["outside"] = "1"
    if not scope.sampled:
        context["sampled"] = "0"
    if scope.origin:
        context[ORIGIN] = dict(scope.origin)
    scopes = request.plan.contract.scopes
    if scopes:
        context["scopes"] = list(scopes)  # the scopes of its admission
    return context


def _operation(request: Request, action_id: str) -> tuple[str, str | dict[str, Json], str | dict[str, Json]]:
    """The caller's operation id, the source of the key, and the key's source in earlier releases or under a contract
    without a named form ("" if equal).
    """
    contract = request.plan.contract
    fields = contract.key_fields
    if request.operation:
        return request.operation, request.operation, former_operation(request.operation)
    if fields:
        given = {name: request.requested.get(name) for name in fields}
        named = in_normal_form(contract.target, contract.target_form, given)
        called = one_line(", ".join(f"{k}={v}" for k, v in named.items()), ID_MAX_BYTES // 4)
        return called, named, "" if named == given else given
    return action_id, action_id, ""  # fresh for each proposal


def target_of(request: Request, scope: CallerContext, stamp: str, operation: str) -> str:
    """The contract's name for the request's subject."""
    requested = dict(request.requested)
    naming: dict[str, Json] = {
        "intended": dict(request.intended) if request.intended is not None else requested,
        "requested": requested,
        "observed": None,
        "before": None,
        "authoritative": None,
        "scope": {"tenant": scope.tenant, "principal": scope.principal, "operation": operation, "stamp": stamp},
    }
    return request.plan.target(naming)


def attempt(run: Run, now_us: int, approvals: tuple[str, ...] = ()) -> None:
    """Write ahead: record the attempt with key and stamp, for a commit before any call.

    `approvals`: the approvals behind the attempt, consumed with it. An external attempt is due when its time is over. A
    worker without a report then treats the attempt as unknown and reads.
    """
    action, contract = run.action, run.contract
    run.observation, run.checks, run.found, run.lookup, run.staged = None, (), None, None, None
    run.search_proven = False
    number = action.attempts + 1
    data: dict[str, Json] = {
        "attempt": number,
        "timeout": contract.execution.timeout_us,
        "not_after": now_us + DISPATCH_GRACE_US,
        "honours_key": contract.execution.honours_key,
        "owner": run.owner,
    }
    if contract.execution.honours_key and (place := resend.place_of(run)):
        data["place"] = place
    if run.would_refuse:
        data["would_refuse"] = run.would_refuse
    if run.outside:
        data["due"] = now_us + contract.execution.timeout_us + DISPATCH_GRACE_US
    if contract.approval is not None:
        data["approval"] = [*approvals]
        if action.approval is not None and not approvals:
            data["break_glass"] = run.scope.break_glass
    again = action.state is State.PENDING  # the same request under an honoured key
    path = path_through(action.state, _EXECUTING) if again else path_through(action.state, _VALIDATED, _EXECUTING)
    run.record(_ATTEMPTED, now_us, path, data)
    run.require_not_frozen(attempt_subjects(run))
    if number == 1 and action.approval is None and not action.reserved:
        reserve(run)


def reserve(run: Run) -> None:
    """Reserve the key for this action with the next append."""
    a = run.action
    run.reserve(KeyRecord(a.tenant, a.key_hash, a.request_hash, a.id, "PENDING", a.created_us, 0))


def attempt_subjects(run: Run) -> tuple[str, ...]:
    """The subjects whose freeze bars an attempt. Empty for a read, and for an action ordered by an operator."""
    action = run.action
    if not run.contract.kind.mutates or action.context.get("ordered"):
        return ()
    return freeze_subjects(
        tenant=action.tenant,
        principal=action.principal,
        contract=action.contract,
        target=action.target,
        places=run.places(),
    )


def dispatch(run: Run, recovery_table: str) -> Effects[Called]:
    """The only place with a dispatch. The attempt is durable. `recovery_table`: the version in force, for a span."""
    called = yield from Dispatch(
        run.plan,
        run.call_context(),
        run.given,
        run.contract.execution.timeout_us,
        run.action.executed_us + DISPATCH_GRACE_US,
        run.action,
        DEPTHS_VERSION,
        recovery_table,
    )
    run.passed(called.finished_us)
    return called


def observe(run: Run, called: Called) -> Observation:
    """Normalise and record the tool's answer. The answer is evidence, never proof."""
    at_us = called.finished_us
    if called.ending is _RETURNED:
        value = called.value
        if is_staged(value):
            run.staged = value
            value = getattr(value, "answer", None)
        seen = normalise(value, at_us)
    else:
        seen = _unanswered(called)
    due_us = None
    if seen.dispatched and run.staged is None and run.contract.readers and run.action.attempt_open:
        due_us = run.not_before_us or first_look_due(run.contract, run.action.stamp, called.finished_us)
    run.secrecy.learn(seen.body, "observed")
    said = run.secrecy.recorded({"detail": seen.detail, "reference": seen.reference, "code": seen.code})
    reference, detail, code = said["reference"], said["detail"], said["code"]
    if detail is not seen.detail or reference is not seen.reference or code is not seen.code:
        kept = reference if isinstance(reference, str) else None
        seen = replace(seen, detail=str(detail), reference=kept, code=str(code))
    record_observation(run, seen, called, due_us)
    return seen


def _unanswered(called: Called) -> Observation:
    """The observation of a call without a return."""
    at_us = called.finished_us
    match called.ending:
        case Ending.RAISED:
            assert called.error is not None
            return normalise_exception(called.error, at_us)
        case Ending.TIMED_OUT:
            return _cut(ObservationStatus.TIMEOUT, "timeout", "The tool gave no answer in time.", at_us)
        case Ending.CANCELLED:
            return _cut(ObservationStatus.CANCELLED, "cancelled", "The call was cancelled after it began.", at_us)
        case Ending.NOT_MADE:
            told = "The attempt came too late to be dispatched."
            return Observation(ObservationStatus.NOT_DISPATCHED, False, "not_made", told, None, None, at_us)
        case Ending.RETURNED:
            raise InvariantError("A call that returned has an answer.")
        case _:
            assert_never(called.ending)


def _cut(status: ObservationStatus, code: str, detail: str, at_us: int) -> Observation:
    return Observation(status, True, code, detail, None, None, at_us)


def is_staged(value: object) -> bool:
    """Whether the tool left a transaction open with methods to read, commit and abandon."""
    if type(value) in _PLAIN_ANSWERS:
        return False
    return (
        guarded(lambda: all(callable(getattr(value, name, None)) for name in ("read", "commit", "abandon")))[1] is True
    )


def record_observation(run: Run, seen: Observation, called: Called, due_us: int | None) -> None:
    """`due_us`: the time of the first reading, if not at once."""
    data: dict[str, Json] = {**seen.envelope(), "started": called.started_us, "ended": called.finished_us}
    refs = {"observation": run.keep("observed", seen.body)} if seen.body is not None else {}
    path: tuple[State, ...] = ()
    if due_us is not None:
        data["due"] = due_us
        queued = seen.status in _QUEUED
        path = path_through(run.action.state, *((State.ACCEPTED, State.PENDING) if queued else (State.PENDING,)))
    run.record(_OBSERVED, called.finished_us, path, data, refs)


def take_over(run: Run, *, assume_owner_may_be_alive: bool) -> Effects[None]:
    """Record another process's attempt as unknown: its answer is lost.

    `assume_owner_may_be_alive`: processes on other machines make attempts, too. Then the attempt counts as ended when
    its own time is over, and later searches start there. Without proof of the process's end, the process may be paused
    in the middle of its call and continue later. No time limit rules this out, and nothing releases the key.
    """
    action = run.action
    unproved = False
    if action.maker and not run.outside:
        answer = yield from ProveEnded(action.id, action.maker)
        unproved = not answer
    over_us = action.executed_us + DISPATCH_GRACE_US + action.timeout_us
    data: dict[str, Json] = {"owner": run.owner}
    if (assume_owner_may_be_alive or unproved) and over_us > run.now_us:
        data["ended"] = over_us
    if unproved:
        data["unproved"] = True
    run.record(EventKind.RESUMED, run.now_us, (State.UNKNOWN,), data)
    run.observation = Observation.missing(action.ended_us)


def never_dispatched(run: Run) -> Reconciliation:
    """The failure provably before dispatch: the only failure without verification."""
    detail = run.observation.detail if run.observation is not None else ""
    return Reconciliation(
        Verdict.NOT_CHECKED,
        Why.NONE,
        Finding.FAILED_BEFORE_EFFECT,
        None,
        Attribution.UNKNOWN,
        detail=detail,
    )
