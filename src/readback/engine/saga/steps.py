"""The actions of a saga: each request with its referenced values, and the work to start or reverse an action.

Called by `saga.engine`. A step's arguments come from the saga's definition and from readings of earlier steps. Both are
in the ledger, so any process builds the same request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from readback.canon import Json, ReadbackError, json_value
from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.action.claim import ClaimKind, claim_id
from readback.domain.events import EventKind
from readback.domain.predicate import Path, look
from readback.domain.saga.fold import Saga, StepTerms
from readback.domain.saga.planner import StepStatus, step_status
from readback.domain.state import State
from readback.domain.verification.change import is_withheld
from readback.engine.compiled_contract import CallerContext, CompiledContract, Request
from readback.engine.effects import ClockResult, Commit, Effects, GetClock, Lease
from readback.engine.engine import Engine
from readback.engine.resume import PlanOf, revive
from readback.engine.run_result import Completed, RunResult, Superseded, Work
from readback.engine.saga_run import load_json
from readback.engine.stages import compensate, execute
from readback.errors import InputError, StoreCorruptError
from readback.ports.storage.store import Appended

WITHDRAWN: Final = "saga.turned"
REFERENCE: Final = "saga.reference"
LEASE_US: Final = 15_000_000
DETAIL_MAX: Final = 500


class UnresolvedError(InputError):
    """A value of an earlier step is missing or does not fit: the step is not started."""

    code = REFERENCE


@dataclass(frozen=True, slots=True)
class Definition:
    """A saga's steps as recorded."""

    steps: Mapping[str, Mapping[str, Json]]

    @classmethod
    def of(cls, body: Json, saga: Saga) -> Definition:
        """Raises StoreCorruptError if the evidence is missing or different."""
        steps = body.get("steps") if isinstance(body, dict) else None
        if not isinstance(steps, list):
            raise StoreCorruptError(
                f"The definition of saga {saga.id} is missing from the evidence; the saga cannot continue."
            )
        return cls({str(step["name"]): step for step in steps if isinstance(step, dict)})

    def part(self, step: str, name: str) -> dict[str, Json]:
        found = self.steps[step].get(name)
        return found if isinstance(found, dict) else {}


def request_of(
    saga: Saga,
    definition: Definition,
    terms: StepTerms,
    action_id: str,
    plan: CompiledContract,
    family: Mapping[str, Action],
) -> Effects[Request]:
    """The step's request. Raises UnresolvedError, or InputError for unfit arguments."""
    requested = definition.part(terms.name, "requested")
    for argument, raw in definition.part(terms.name, "references").items():
        assert isinstance(raw, dict)
        requested = {**requested, argument: (yield from _value(saga, str(raw["step"]), str(raw["path"]), family))}
    try:
        arguments = plan.revive(requested)
        same = json_value(dict(arguments)) == requested
    except ReadbackError as error:
        raise UnresolvedError(f"Its arguments do not fit: {error.message}") from error
    if not same:
        raise UnresolvedError("Its arguments and the referenced values have different types.")
    intended = definition.part(terms.name, "intended")
    return Request(
        plan,
        arguments,
        requested,
        f"{saga.operation}/{terms.name}",
        intended or None,
        terms.name,
        saga=saga.id,
        region=terms.region.value,
        action_id=action_id,
        upon=_edges(saga, terms, family),
    )


def _edges(saga: Saga, terms: StepTerms, family: Mapping[str, Action]) -> tuple[str, ...]:
    """The claims of the earlier steps. They must still hold at the start of this step."""
    before = (family.get(saga.steps[name].action_id) for name in terms.after)
    return tuple(claim_id(each.id, ClaimKind.HOLDS) for each in before if each is not None)


def _value(saga: Saga, step: str, path: str, family: Mapping[str, Action]) -> Effects[Json]:
    """A value from an earlier step's reading: only reconciled, never redacted."""
    source = family.get(saga.steps[step].action_id)
    if source is None or step_status(saga, step, family) is not StepStatus.DONE:
        raise UnresolvedError(f"Step {step!r} is not verified, so its values cannot be used.")
    if path.split(".")[0] == "requested":
        body = yield from load_json(source, source.request_ref)
        roots: dict[str, Json] = {"requested": body.get("requested") if isinstance(body, dict) else None}
    else:
        roots = {"authoritative": (yield from load_json(source, source.reading_ref))}
        path = path if path.split(".")[0] == "authoritative" else f"authoritative.{path}"
    value = look(Path.named(path), roots)
    if value is None:
        raise UnresolvedError(f"There is nothing at {path!r} of step {step!r}.")
    if _hides(value):
        raise UnresolvedError(f"The value at {path!r} of step {step!r} is redacted.")
    return value


def _hides(value: Json) -> bool:
    if is_withheld(value):
        return True
    if isinstance(value, dict):
        return any(_hides(part) for part in value.values())
    return isinstance(value, list) and any(_hides(part) for part in value)


# --- work ---


def decline(engine: Engine, request: Request, scope: CallerContext) -> Work:
    """Refuse an announced action for good: a later start finds the refusal."""
    begun = yield from GetClock()
    named = ClockResult(begun.now_us, request.action_id, begun.owner)
    run = execute.propose(execute.draft(request, scope, named), engine.table.version)
    detail = "Its saga had turned back, or stopped, before it was begun."
    run.record(EventKind.REJECTED, run.now_us, (State.FAILED,), {"code": WITHDRAWN, "detail": detail})
    committed = yield from Commit(run.append(run.now_us, release_lease=True))
    if not isinstance(committed.result, Appended):
        return Superseded(request.action_id)
    run.committed(committed.result.version, True)
    return Completed(run)


def withdraw(engine: Engine, action: Action, plans: PlanOf) -> Work:
    """Withdraw an action before its execution."""
    begun = yield from GetClock()
    leased = yield from Lease(action.id, begun.now_us + LEASE_US, action.version)
    if leased.fence is None or leased.version != action.version:
        return Superseded(action.id)
    run = yield from revive(action, plans, begun.owner, leased.fence)
    run.passed(leased.now_us)
    return (yield from engine.cancel(run))


def reversal_of(saga: Saga, effect: Action, action_id: str, plans: PlanOf) -> Effects[Request]:
    """The compensating action of a step's effect, under the key shared by all compensations of the effect."""
    run = yield from revive(effect, plans, "", 0)
    request = yield from compensate.compensation_of(run)
    return Request(
        request.plan,
        request.arguments,
        request.requested,
        request.operation,
        None,
        request.step,
        reverses=request.reverses,
        ordered=saga.ordered,
        saga=saga.id,
        action_id=action_id,
    )


def guarded(work: Work) -> Effects[RunResult | InputError]:
    """The work, with the caller's faults as a result: an unproposable step does not end another step's work."""
    try:
        return (yield from work)
    except InputError as refused:
        return refused
