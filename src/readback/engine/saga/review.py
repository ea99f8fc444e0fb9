"""Review of a saga: a person's decision about the whole saga, and the case for the decision.

Called by the clients and the command line, beside `people.review` for single actions. A step's real result is decided
at the step; the saga then continues from there.
"""

from __future__ import annotations

from readback.canon import Json
from readback.domain.events import EventKind, open_envelope
from readback.domain.people.review import ACTS, ReviewCase, ReviewFacts, choices, packet_of, path_of
from readback.domain.people.signed_statement import TOKEN
from readback.domain.saga.fold import Direction, Saga
from readback.domain.side_effect import SideEffect
from readback.domain.state import State
from readback.engine.compiled_contract import CallerContext
from readback.engine.effects import Commit
from readback.engine.engine import Engine
from readback.engine.people.review import Order, Steps, check_person, leased, refuse, stale, undecided
from readback.engine.people.review_case import history, incidents_of
from readback.engine.resume import PlanOf
from readback.engine.saga import attend as saga_attend
from readback.engine.saga_run import SagaRun, fold_saga, verdict_of
from readback.errors import NotFoundError
from readback.ports.storage.store import Appended, LedgerStore


def resolve(engine: Engine, order: Order, tenant: str, plans: PlanOf) -> Steps:
    """Record the decision, and continue the saga without waiting. Raises as review.resolve."""
    found = yield from saga_attend.find(order.action_id, tenant)
    if not found.review:
        raise undecided(order)
    if found.version != order.expect_version:
        raise stale(order, found.version)
    critical = found.side_effect is SideEffect.CRITICAL_MUTATION
    check_person(order, found.principal, critical=critical)
    refuse(order, standing_of(found, loaded=_loaded(found, plans)))
    lease = yield from leased(found.id, order.expect_version)
    assert lease.fence is not None
    run = SagaRun(found, CallerContext(found.tenant, found.principal), "", lease.fence, found.version, lease.now_us)
    data: dict[str, Json] = {
        "decision": order.decision.value,
        "who": order.who,
        "reason": order.reason,
        "signed_by": order.signed_by,
        "was": found.review,
        "closes": list(found.incidents),
    }
    refs = {TOKEN: run.keep(order.signed.as_json())} if order.signed is not None else {}
    run.record(EventKind.RESOLVED, data, path_of(order.decision, found.state), refs)
    committed = yield from Commit(run.append(release_lease=True))
    if not isinstance(committed.result, Appended):
        raise stale(order, found.version)
    if order.decision in ACTS and saga_attend.missing(found, plans) is None:
        yield from saga_attend.advance(engine, order.action_id, tenant, plans)


def standing_of(saga: Saga, *, loaded: bool | None = None) -> ReviewFacts:
    """The fields of a saga relevant to the permitted decisions."""
    forward = saga.heading is Direction.FORWARD or saga.pivot_passed
    return ReviewFacts(
        state=saga.state,
        review=saga.review,
        hold=saga.hold,
        effect_shown=not forward,
        reversible=not forward,
        forward=forward,
        workflow=True,
        loaded=loaded,
    )


def _loaded(saga: Saga, plans: PlanOf) -> bool | None:
    return None if saga_attend.missing(saga, plans) is not None else not saga_attend.changed(saga, plans)


def saga_packet(store: LedgerStore, saga_id: str, tenant: str, plans: PlanOf) -> ReviewCase:
    """The review case of a saga: the saga, the state of each step, and the permitted decisions about the whole."""
    stored = store.events(saga_id)
    saga = fold_saga(stored)
    if saga is None or saga.tenant != tenant:
        raise NotFoundError(f"There is no saga {saga_id!r} in this tenant.")
    opened = [open_envelope(each.envelope) for each in stored]
    found = choices(standing_of(saga, loaded=_loaded(saga, plans)))
    sections: dict[str, Json] = {
        "steps": [_step(saga, name) for name in saga.steps],
        "history": [history(one) for one in opened],
        "decided": [{"at_us": o.event.at_us, **o.event.data} for o in opened if o.event.kind is EventKind.RESOLVED],
    }
    return packet_of(_head(store, saga), sections, found, version=saga.version, reason=saga.review)


def _head(store: LedgerStore, s: Saga) -> dict[str, Json]:
    incidents = incidents_of(store, s.tenant, s.incidents)
    return {
        "id": s.id,
        "tenant": s.tenant,
        "principal": s.principal,
        "contract": s.contract,
        "kind": "saga",
        "side_effect": s.side_effect.value,
        "target": s.operation,
        "operation": s.operation,
        "state": s.state.value,
        "verdict": verdict_of(s).value,
        "why": "",
        "discrepancy": None,
        "attribution": "unknown",
        "effect_shown": s.state is not State.FAILED,
        "heading": s.heading.value,
        "because": s.because,
        "detail": s.detail or s.reason,
        "code": "",
        "hold": s.hold,
        "contested": False,
        "resolution": "",
        "compensation": "",
        "break_glass": s.break_glass,
        "needs_signature": s.side_effect is SideEffect.CRITICAL_MUTATION,
        "freezes": [],
        "incidents": incidents,
        "decision": {"row": s.row, "finding": "", "action": "", "condition": "", "rationale": "", "table": s.table},
        "created_us": s.created_us,
        "updated_us": s.updated_us,
        "due_us": s.due_us,
        "erased_us": s.erased_us,
        "ledger_entry": s.head,
    }


def _step(saga: Saga, name: str) -> dict[str, Json]:
    terms, record = saga.step(name), saga.steps[name]
    return {
        "step": name,
        "contract": terms.contract,
        "region": terms.region.value,
        "action": record.action_id,
        "state": record.state,
        "reversal": record.undo_id,
        "reversal_state": record.undo_state,
        "refused": record.refused,
        "detail": record.detail,
    }
