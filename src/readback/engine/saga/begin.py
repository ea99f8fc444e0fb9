"""From proposed steps to a saga: checked as a whole, then recorded as data, so that any process can continue.

Called by `saga.engine`. Before any record or effect, all faults of the definition are reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from readback.canon import Json, json_value, payload_bytes
from readback.canon.frozen import dataclass
from readback.canon.limits import ENVELOPE_MAX_BYTES, ID_MAX_BYTES
from readback.domain.events import EventKind
from readback.domain.idempotency import key_hash
from readback.domain.saga.check import Problem, StepDraft, faults, regions_of
from readback.domain.saga.fold import KIND, Reference, Region, Saga, StepTerms, contracts_hash, request_hash
from readback.domain.state import State
from readback.engine.compiled_contract import CallerContext, CompiledContract
from readback.engine.effects import ClockResult
from readback.engine.saga_run import SagaRun
from readback.engine.stages.execute import STAMP_PREFIX
from readback.engine.stages.validate import check_scopes
from readback.engine.values.redaction import Redactor
from readback.errors import SagaError
from readback.ports.storage.store import KeyRecord

FORMAT: Final = 1
TERMS_MAX_BYTES: Final = ENVELOPE_MAX_BYTES - 4 * ID_MAX_BYTES - 4_096
"""The graph is part of the saga's first entry."""
_TOLD_MAX: Final = 20
_NO_REFERENCES: Final[Mapping[str, Reference]] = {}


@dataclass(frozen=True, slots=True)
class StepRequest:
    """One proposed step. `requested` lacks the arguments from `references`."""

    name: str
    plan: CompiledContract
    requested: Mapping[str, Json]
    intended: Mapping[str, Json] | None = None
    references: Mapping[str, Reference] = field(default_factory=lambda: _NO_REFERENCES)
    after: tuple[str, ...] = ()
    pivot: bool = False


@dataclass(frozen=True, slots=True)
class SagaRequest:
    """A proposed saga. `operation` "": drawn fresh."""

    name: str
    steps: tuple[StepRequest, ...]
    operation: str


def check(request: SagaRequest, scope: CallerContext) -> tuple[StepTerms, ...]:
    """Return the terms of the steps. Raises SagaError with every fault at once; nothing was done."""
    for step in request.steps:
        check_scopes(step.plan.contract, scope)
    drafts = [_draft(step) for step in request.steps]
    found = faults(drafts, principal=scope.principal, operation=request.operation)
    if found:
        raise _refused(request.name, found)
    regions = regions_of(drafts)
    terms = tuple(_terms(step, draft, regions[step.name]) for step, draft in zip(request.steps, drafts, strict=True))
    if len(payload_bytes([each.as_json() for each in terms])) > TERMS_MAX_BYTES:
        reason = f"Its graph is larger than {TERMS_MAX_BYTES} bytes."
        raise _refused(request.name, [Problem("size", "", reason)])
    return terms


def _refused(name: str, found: list[Problem]) -> SagaError:
    said = " ".join(f"{p.step}: {p.reason}" if p.step else p.reason for p in found[:_TOLD_MAX])
    return SagaError(f"The saga {name!r} cannot start. {said}", details={"problems": [p.as_json() for p in found]})


def _draft(step: StepRequest) -> StepDraft:
    plan = step.plan
    undo = None if plan.compensation is None else plan.compensation.contract
    return StepDraft(step.name, plan.contract, undo, step.after, step.pivot, step.references, _hidden(step))


def _hidden(step: StepRequest) -> tuple[str, ...]:
    """Arguments, given or referenced, with only a redaction mark in the record."""
    given: dict[str, Json] = {**dict.fromkeys(step.references, "reference"), **step.requested}
    kept = Redactor(step.plan.contract.redact).hide(given, "requested")
    assert isinstance(kept, dict)
    names = [name for name, value in given.items() if value is not None and kept[name] != value]
    goal: Json = dict(step.intended) if step.intended is not None else None
    if Redactor(step.plan.contract.redact).hide(goal, "intended") != goal:
        names.append("intended")
    return tuple(names)


def _terms(step: StepRequest, draft: StepDraft, region: Region) -> StepTerms:
    contract, undo = draft.contract, draft.undo
    return StepTerms(
        step.name,
        contract.name,
        contract.version,
        contract.hash,
        contract.kind.value,
        contract.side_effect,
        region,
        step.after,
        undo.name if undo is not None and contract.execution.reversible else "",
        undo.hash if undo is not None and contract.execution.reversible else "",
    )


def begin_run(
    request: SagaRequest, terms: tuple[StepTerms, ...], scope: CallerContext, begun: ClockResult, table_version: str
) -> tuple[SagaRun, Json]:
    """The saga with its first event and its key reservation, and the definition. Nothing is durable yet."""
    saga = Saga(begun.action_id, scope.tenant)
    run = SagaRun(saga, scope, begun.owner, now_us=begun.now_us)
    operation = request.operation or begun.action_id
    steps = [_definition(step, each) for step, each in zip(request.steps, terms, strict=True)]
    body: dict[str, Json] = {"format": FORMAT, "name": request.name, "steps": list(steps)}
    hashed = key_hash(scope.tenant, f"{KIND}:{request.name}", operation)
    asked = request_hash(request.name, [asked_of(step) for step in steps])
    data: dict[str, Json] = {
        "principal": scope.principal,
        "name": request.name,
        "operation": operation,
        "key_hash": hashed,
        "request_hash": asked,
        "stamp": STAMP_PREFIX + begun.action_id,
        "table": table_version,
        "break_glass": scope.break_glass,
        "context": {
            "run": scope.run,
            "plan": scope.plan,
            "task_state": scope.task_state,
            "boundary": scope.boundary,
            "trace": scope.trace,
            "parent_span": scope.parent_span,
            **({} if scope.sampled else {"sampled": "0"}),
        },
        "steps": [step.as_json() for step in terms],
        "contracts": contracts_hash(terms),
    }
    refs = {"saga": run.keep(body)}
    if scope.budget:
        refs["budget"] = run.keep(dict(scope.budget))
    run.record(EventKind.SAGA_BEGUN, data, (State.PROPOSED, State.VALIDATED), refs)
    run.reserve(KeyRecord(scope.tenant, hashed, asked, saga.id, "PENDING", begun.now_us, 0))
    return run, body


def asked_of(step: dict[str, Json]) -> Json:
    """The identity of the definition: any change makes another saga. Contracts count by name, as with an action."""
    return {key: step[key] for key in ("name", "contract", "region", "after", "requested", "references")}


def _definition(step: StepRequest, terms: StepTerms) -> dict[str, Json]:
    references: dict[str, Json] = {name: {"step": r.step, "path": r.path} for name, r in step.references.items()}
    return {
        **terms.as_json(),
        "requested": json_value(dict(step.requested)),
        "intended": None if step.intended is None else json_value(dict(step.intended)),
        "references": references,
    }
