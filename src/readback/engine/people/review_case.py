"""The case for a review, from the ledger alone: no system of record is read, and no contract's code runs.

Called by the clients and by `readback review`. Reads through the store port, as audit does, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from readback.canon import Json, parse_json
from readback.domain.action.action import Action
from readback.domain.action.erasure import ERASED
from readback.domain.discrepancy import DISCREPANCIES, Discrepancy
from readback.domain.events import EventKind, ParsedEnvelope, open_envelope
from readback.domain.idempotency import key_text
from readback.domain.people.review import ReviewCase, choices, packet_of
from readback.domain.predicate import Truth
from readback.domain.recovery.table import RecoveryTable
from readback.domain.verification.change import differences, dotted
from readback.engine.people.review import needs_signature, standing_of
from readback.engine.resume import PlanOf, fold
from readback.errors import NotFoundError
from readback.ports.storage.store import LedgerStore

WITHHELD: Final = {"$withheld": True}
_DECIDED: Final = frozenset({EventKind.RESOLVED, EventKind.LIFTED})


def packet(store: LedgerStore, action_id: str, tenant: str, table: RecoveryTable, plans: PlanOf) -> ReviewCase:
    """The review case of an action. Raises NotFoundError for another tenant's, OversizeError beyond all bounds."""
    stored = store.events(action_id)
    action = fold(stored)
    if action is None or action.tenant != tenant:
        raise NotFoundError(f"There is no action {action_id!r} in this tenant.")
    opened = [open_envelope(each.envelope) for each in stored]
    contract = _object(_evidence(store, action, action.contract_ref))
    request = _object(_evidence(store, action, action.request_ref))
    judged = _object(_evidence(store, action, action.judgement.ref))
    plan = plans(action.contract)
    loaded = None if plan is None else plan.contract.hash == action.contract_hash
    found = choices(standing_of(action, contract, request, loaded=loaded))
    ensure = judged.get("ensure")
    differences = [p for p in ensure if _differs(p)] if isinstance(ensure, list) else []
    sections: dict[str, Json] = {
        "intended": _shown(action, action.request_ref, request.get("intended", request.get("requested"))),
        "requested": _shown(action, action.request_ref, request.get("requested")),
        "observed": _observed(store, action),
        "before": _state(action, action.before, action.before_ref, _evidence(store, action, action.before_ref)),
        "authoritative": _state(
            action, action.reading, action.reading_ref, _evidence(store, action, action.reading_ref)
        ),
        "differences": [*differences],
        "postconditions": ensure,
        "identity": judged.get("identity"),
        **_drift(store, action),
        "readings": [_reading(one) for one in opened if one.event.kind is EventKind.READ],
        "history": [history(one) for one in opened],
        "decided": [{"at_us": o.event.at_us, **o.event.data} for o in opened if o.event.kind in _DECIDED],
    }
    head = {**_head(action), "decision": _decision(action, table), **_around(store, action)}
    return packet_of(head, sections, found, version=action.version, reason=action.review)


def _drift(store: LedgerStore, action: Action) -> dict[str, Json]:
    """The last valid state and the differences since; empty without a watch or without a drift."""
    watched = action.watch
    if watched is None or not watched.drifted:
        return {}
    held = _state(action, watched.held, watched.held_ref, _evidence(store, action, watched.held_ref))
    now = _evidence(store, action, action.reading_ref)
    known = now is not None and held is not None
    changed: list[Json] = [dotted(path) for path in differences(held, now)] if known else []
    return {"drift": {**watched.as_json(), "held": held, "changed": changed}}


def _head(a: Action) -> dict[str, Json]:
    j = a.judgement
    return {
        "id": a.id,
        "tenant": a.tenant,
        "principal": a.principal,
        "contract": a.contract,
        "contract_version": a.contract_version,
        "kind": a.kind,
        "side_effect": a.side_effect,
        "target": a.target,
        "operation": a.operation,
        "stamp": a.stamp,
        "key": key_text(a.key_hash),
        "state": a.state.value,
        "verdict": j.verdict,
        "why": j.why,
        "discrepancy": _discrepancy(j.discrepancy),
        "attribution": j.attribution,
        "effect_shown": j.effect_shown,
        "parts_done": list(j.done),
        "parts_open": list(j.undone),
        "detail": j.detail,
        "code": a.code,
        "hold": a.hold,
        "attempts": a.attempts,
        "contested": a.contested,
        "resolution": a.resolution,
        "compensation": a.compensation_id,
        "break_glass": a.break_glass,
        "needs_signature": needs_signature(a),
        "created_us": a.created_us,
        "updated_us": a.updated_us,
        "due_us": a.due_us,
        "erased_us": a.erased_us,
        "ledger_entry": a.head,
    }


def _around(store: LedgerStore, action: Action) -> dict[str, Json]:
    """The action's freezes, and its incidents."""
    return {"freezes": list(action.frozen), "incidents": incidents_of(store, action.tenant, action.incidents)}


def incidents_of(store: LedgerStore, tenant: str, ids: Sequence[str]) -> list[Json]:
    """The opened incidents of these ids, newest first, without those only counted in another."""
    found = [each for one in ids for each in store.incidents(tenant, open_only=False, named=one)]
    found.sort(key=lambda each: (-each.opened_us, each.id))
    return [
        {"id": i.id, "cause": i.cause, "severity": i.severity, "seen": i.seen, "open": not i.closed_us} for i in found
    ]


def _decision(action: Action, table: RecoveryTable) -> Json:
    """The deciding row, with its reason if this process has the row's table."""
    j = action.judgement
    row = table.row(j.row) if j.row and j.table == table.version else None
    return {
        "row": j.row,
        "finding": j.finding,
        "action": j.recovery,
        "condition": row.label if row is not None else "",
        "rationale": row.rationale if row is not None else "",
        "table": j.table,
    }


def _discrepancy(name: str) -> Json:
    if not name:
        return None
    row = DISCREPANCIES[Discrepancy(name)]
    return {"class": name, "definition": row.definition, "typical_recovery": row.typical_recovery}


def _observed(store: LedgerStore, action: Action) -> Json:
    if action.observation is None:
        return None
    body = _shown(action, action.observation_ref, _evidence(store, action, action.observation_ref))
    return {**action.observation, "body": body}


def _state(action: Action, taken: dict[str, Json] | None, digest: str, value: Json) -> Json:
    """The content of a reading; a mark for foreign content (not stored) or erased content."""
    return dict(WITHHELD) if taken is not None and taken.get("withheld") else _shown(action, digest, value)


def _shown(action: Action, digest: str, value: Json) -> Json:
    return dict(ERASED) if digest and digest in action.erased else value


def _reading(one: ParsedEnvelope) -> dict[str, Json]:
    return {"at_us": one.event.at_us, "digest": one.event.refs.get("reading", ""), **one.event.data}


def history(one: ParsedEnvelope) -> dict[str, Json]:
    """Each entry in one line."""
    event = one.event
    return {
        "version": one.version,
        "at_us": event.at_us,
        "kind": event.kind.value,
        "path": [state.value for state in event.path],
        "row": event.data.get("row", ""),
    }


def _differs(judged: Json) -> bool:
    return isinstance(judged, dict) and judged.get("truth") != Truth.HOLDS.value


def _evidence(store: LedgerStore, action: Action, digest: str) -> Json:
    found = store.evidence(action.tenant, action.id, digest) if digest and digest not in action.erased else None
    return None if found is None else parse_json(found.body)


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}
