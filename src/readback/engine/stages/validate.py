"""Validate: conditions before any execution, and the refusal.

Called by the engine. Faults of the caller raise an error and leave no record. A refusal by the contract in the current
state of the world is recorded: the action failed without execution.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.contract.contract import Contract
from readback.domain.contract.freezing import CODE
from readback.domain.discrepancy import Discrepancy
from readback.domain.events import EventKind
from readback.domain.finding import Finding
from readback.domain.predicate import Truth
from readback.domain.recovery.table import RecoveryTable, Reversal, Situation
from readback.domain.side_effect import SideEffect
from readback.domain.state import State
from readback.domain.verification.reading import UNREADABLE, Fault, Presence
from readback.domain.verification.reconciliation import EvaluatedReading
from readback.engine.claims import entries
from readback.engine.compiled_contract import CallerContext, Request
from readback.engine.effects import Effects, LoadFreeze
from readback.engine.run import Run
from readback.engine.stages.evaluate import PAST, WHOLE, evaluate, not_whole
from readback.engine.stages.execute import attempt_subjects
from readback.engine.stages.verify import record_reading, take_before
from readback.errors import NOT_STANDING, MissingScopeError, ProposalError, UnknownPrincipalError
from readback.ports.storage.store import Freeze, Opened

_PRESENT: Final = Presence.PRESENT
_VIOLATED: Final = Truth.VIOLATED


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the action is not executed."""

    code: str
    detail: str
    finding: Finding
    discrepancy: Discrepancy | None = None


def admit(request: Request, scope: CallerContext) -> None:
    """Check the caller's part: principal and operation. Raises InputError; nothing is recorded."""
    contract = request.plan.contract
    allowed = contract.principals
    if allowed and not any(fnmatchcase(scope.principal, pattern) for pattern in allowed):
        raise UnknownPrincipalError(
            f"Principal {scope.principal!r} may not run {contract.name!r}.", details={"allowed": list(allowed)}
        )
    if contract.scopes and not (
        request.reverses or request.saga
    ):  # reversals and saga steps were admitted with their parent
        check_scopes(contract, scope)
    if contract.depth.operation_required and not request.operation and not contract.key_fields:
        raise ProposalError(
            f"{contract.name!r} is {contract.side_effect.value}: it needs an operation id, so that a repetition "
            "can be told from a second operation.",
            remedy="Pass operation='...' to run, the same for every repetition of the same intent.",
        )


def check_scopes(contract: Contract, scope: CallerContext) -> None:
    """Raise MissingScopeError unless the client holds every scope of the contract."""
    missing = [each for each in contract.scopes if each not in scope.scopes]
    if missing:
        raise MissingScopeError(
            f"{contract.name!r} needs the scopes {', '.join(missing)}, which {scope.principal!r} does not hold.",
            details={"contract": contract.name, "missing": missing},
        )


def only_freezes(request: Request) -> bool:
    """Whether only a freeze or a limit could bar the action: no approval, no reading, no earlier action."""
    plan, contract = request.plan, request.plan.contract
    named = request.operation or request.upon or request.action_id or request.outside
    asks = contract.key_fields or contract.readers or contract.approval is not None
    return not (named or asks or plan.require or plan.expected_version is not None)


def check(run: Run, opened: Opened | None = None) -> Effects[Refusal | None]:
    """Check the world's part: the source answers, the version matches, the preconditions hold.

    `opened`: the ledger's preconditions, if loaded just now; loaded here otherwise.
    """
    contract = run.contract
    if "upon" in run.action.context and (refused := (yield from relying(run))) is not None:
        return refused
    reads = contract.needs_before or _failing_source(run)
    # The append checks freezes again. This check spares a needless reading and an early call.
    freeze = opened.freeze if opened is not None else ((yield from frozen(run)) if reads else None)
    if freeze is not None:
        return by_freeze(freeze)
    if reads:
        run.before = yield from take_before(run)
        record_reading(run, run.before)
    return barred(run)


def barred(run: Run) -> Refusal | None:
    """The objection of the reading before (if taken) and of the request."""
    unreadable = _unreadable(run, run.before) if run.before is not None else None
    return unreadable or _version(run) or _preconditions(run)


def relying(run: Run) -> Effects[Refusal | None]:
    """Refuse the action if a claim behind it is invalid."""
    if "upon" not in run.action.context:
        return None
    detail = yield from entries.reason_blocked(run.action)
    return Refusal(NOT_STANDING, detail, Finding.STALE_STATE) if detail else None


def frozen(run: Run) -> Effects[Freeze | None]:
    """The freeze against an attempt, if any."""
    subjects = attempt_subjects(run)
    if not subjects:
        return None
    found = yield from LoadFreeze(run.action.tenant, subjects)
    return found


def by_freeze(freeze: Freeze) -> Refusal:
    """Refuse the action because a subject of it is frozen."""
    detail = f"{freeze.subject} is frozen by action {freeze.action_id} ({freeze.reason}), so nothing was executed."
    return Refusal(CODE, detail, Finding.FAILED_BEFORE_EFFECT)


def _failing_source(run: Run) -> bool:
    """Pre-flight: read a repeatedly failing source first, so that no action runs into an outage."""
    limit = run.contract.depth.repeated_mismatch_limit
    counts = run.counts
    return bool(counts) and any(
        counts.get((f"source:{r.source}", "verifier_error"), 0) >= limit for r in run.contract.readers
    )


def _unreadable(run: Run, before: EvaluatedReading) -> Refusal | None:
    taken = before.taken
    if not taken.ran:
        if taken.fault is Fault.IMPOSSIBLE:
            detail = f"What is asked for cannot be read, and so would never be verified: {taken.error}"
            return Refusal(UNREADABLE, detail, Finding.PROVIDER_OUTAGE)
        detail = f"The system of record cannot be read, so nothing was executed: {taken.error}"
        run.count(f"source:{taken.source}", "verifier_error", 1)
        return Refusal("source.unavailable", detail, Finding.PROVIDER_OUTAGE)
    if run.contract.kind.needs_ours:
        return None
    if before.presence is _PRESENT and before.in_scope is _VIOLATED:
        detail = "Before execution, the reading already was of another target or tenant; the reader is at fault."
        return Refusal("reader.out-of-scope", detail, Finding.VERIFIER_ERROR)
    return None


def _version(run: Run) -> Refusal | None:
    expected = run.plan.expected_version
    if expected is None:
        return None
    assert run.before is not None
    said = expected.evaluate(run.plan.predicates.bind(run.variables()))
    found = run.before.version
    if said.kind != "value" or said.value is None:
        return Refusal("version.unknown", "The expected version could not be told.", Finding.STALE_STATE)
    if found is not None and str(found) == str(said.value):
        return None
    detail = f"The target is at version {found!r}, and version {said.value!r} was expected: plan again from there."
    return Refusal("version.stale", detail, Finding.STALE_STATE, Discrepancy.STALE_STATE)


def _preconditions(run: Run) -> Refusal | None:
    if not run.plan.require:
        return None
    variables = run.variables()
    binding = run.plan.predicates.bind(variables)
    partial = PAST if not_whole(run.taken_before) else WHOLE
    for required in run.plan.require:
        seen = evaluate(required, binding, variables, partial=partial)
        if seen.truth is not Truth.HOLDS:
            word = "does not hold" if seen.truth is Truth.VIOLATED else f"cannot be told ({seen.reason})"
            detail = f"Precondition {seen.name!r} {word}: {seen.source}"
            return Refusal("precondition", detail, Finding.FAILED_BEFORE_EFFECT)
    return None


def record_refusal(run: Run, refusal: Refusal, table: RecoveryTable, now_us: int) -> None:
    """End the action with the refusal and its row. An earlier attempt keeps its result."""
    if run.action.attempts:
        run.record(EventKind.REJECTED, now_us, (State.FAILED,), {"code": refusal.code, "detail": refusal.detail})
        return
    row = table.decide(refusal.finding, unexecuted(run.contract.side_effect))
    data: dict[str, Json] = {
        "code": refusal.code,
        "detail": refusal.detail,
        "verdict": "not_checked",
        "why": "",
        "finding": refusal.finding.value,
        "discrepancy": refusal.discrepancy.value if refusal.discrepancy else "",
        "attribution": "unknown",
        "row": row.id,
        "table": table.version,
        "recovery": row.action.value,
        "level": 1,
        "effect_shown": False,
        "dead": True,
        "done": [],
        "undone": [],
    }
    run.record(EventKind.REJECTED, now_us, (State.FAILED,), data)


def record_forgotten(run: Run, now_us: int) -> None:
    """Another attempt was allowed, but its arguments are lost, or the external caller is absent: the first attempt's
    end stands.
    """
    code, why = "arguments.redacted", "the ledger holds its arguments in redacted form only"
    if run.attemptable:
        code, why = "key.not-known", "the tool is not declared to remember its key"
    if run.outside:
        code, why = "attempt.outside", "only its caller makes the attempts; request the action again"
    detail = f"The action is not attempted again: {why}."
    run.record(EventKind.REJECTED, now_us, (State.FAILED,), {"code": code, "detail": detail})


def unexecuted(side_effect: SideEffect) -> Situation:
    """The situation of an action without any call."""
    return Situation(
        side_effect=side_effect,
        within_window=False,
        maybe_stale=False,
        reversible=Reversal.NONE,
        pivot_passed=False,
        effect_shown=False,
        executed=False,
        key_record=False,
        key_honoured=False,
        dead=True,
        equivalent_duplicate=False,
        repeated=False,
        late_open=False,
        searched=True,
    )
