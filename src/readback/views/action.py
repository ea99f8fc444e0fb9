"""All ledger facts about one action as plain data, for `show` and `show --json`.

The source is the ledger alone, without contract code or systems of record.
"""

from __future__ import annotations

from typing import Final

from readback.canon import Json, parse_json
from readback.client.session import Session
from readback.domain.action.action import Action
from readback.domain.action.erasure import ERASED
from readback.domain.action.record_status import execution_status, reconciliation_status, verification_status
from readback.domain.discrepancy import DISCREPANCIES, Discrepancy
from readback.domain.events import EventKind, ParsedEnvelope, open_envelope
from readback.domain.idempotency import key_text
from readback.domain.outcome.outcome import Outcome
from readback.domain.recovery.table import RecoveryTable
from readback.domain.saga.outcome import SagaOutcome
from readback.domain.verdict import Level
from readback.drivers.driver_sync import SyncDriver
from readback.drivers.interpreter import Parked
from readback.errors import NotFoundError, UsageError
from readback.ports.storage.store import LedgerStore, StoredEvent
from readback.views import saga
from readback.views.text import moment

LEVELS: Final = {
    Level.RAW: "raw tool output",
    Level.NORMALISED: "normalised observation",
    Level.VERIFIED: "read back",
    Level.RECONCILED: "reconciled",
    Level.AUDIT_CONFIRMED: "confirmed by audit",
}
LAST: Final = "last"
PREFIX_MIN: Final = 4
ID_LENGTH: Final = 26
SHOWN_MAX: Final = 5
WITHHELD: Final = {"$withheld": True}


def outcome_and_picture(session: Session, id_or_stamp: str) -> tuple[Outcome, dict[str, Json]]:
    """The outcome and the picture around it. Raises NotFoundError, StoreCorruptError."""
    action_id = abbreviated(session, id_or_stamp)
    driver = SyncDriver(session.store, session.runtime)
    try:
        outcome = driver.drive(session.look(action_id))
    finally:
        driver.close()
    assert not isinstance(outcome, Parked)
    if isinstance(outcome, SagaOutcome):
        return outcome, saga.picture(session, outcome)
    return outcome, picture(session, outcome)


def abbreviated(session: Session, named: str) -> str:
    """The action's id from an id, a stamp, the first letters of an id, or `last` for the newest action.

    Raises NotFoundError, and UsageError for an ambiguous prefix.
    """
    if named == LAST:
        newest = session.page(limit=1)
        if not newest:
            raise NotFoundError(f"Tenant {session.scope.tenant!r} has no action yet.")
        return newest[0].projection.action_id
    try:
        return session.action_id(named)
    except NotFoundError:
        if not PREFIX_MIN <= len(named) < ID_LENGTH or not (named.isascii() and named.isalnum()):
            raise
    prefix = named.lower()
    page = session.page(before_id=prefix.ljust(ID_LENGTH + 1, "z"), limit=SHOWN_MAX)
    found = [each.projection.action_id for each in page if each.projection.action_id.startswith(prefix)]
    if not found:
        raise NotFoundError(f"There is no action {named!r} in tenant {session.scope.tenant!r}.")
    if len(found) > 1:
        raise UsageError(f"Several ids begin with {named!r}: {', '.join(found)}.", remedy="Write more of the id.")
    return found[0]


def picture(session: Session, outcome: Outcome) -> dict[str, Json]:
    """All ledger facts about the action."""
    store, action = session.store, session.fold(outcome.id)
    stored = store.events(outcome.id)
    opened = [open_envelope(each.envelope) for each in stored]
    request = _object(_evidence(store, action, action.request_ref))
    judgement = _object(_evidence(store, action, action.judgement.ref))
    first = opened[0].event.data
    return {
        "outcome": outcome.as_json(),
        "said": {"user": outcome.message, "model": outcome.for_model()},
        "states": {
            "intended": _shown(action, action.request_ref, request.get("intended")),
            "requested": _shown(action, action.request_ref, request.get("requested")),
            "observed": _shown(
                action, action.observation_ref, outcome.observation.body if outcome.observation is not None else None
            ),
            "before": _shown(action, action.before_ref, _read(action.before, outcome.before)),
            "authoritative": _shown(action, action.reading_ref, _read(action.reading, outcome.authoritative)),
        },
        "erased": {"at": moment(action.erased_us), "pieces": len(action.erased)} if action.erased_us else None,
        "postconditions": judgement.get("ensure") or [],
        "identity": judgement.get("identity") or [],
        "readings": [_reading(each, one) for each, one in zip(stored, opened, strict=True) if _is_reading(one)],
        "discrepancy": _discrepancy(outcome.discrepancy),
        "decision": _decision(action, session.engine.table),
        "status": _status(action),
        "level": {"number": int(outcome.level), "means": LEVELS[outcome.level]},
        "key": _key(store, action),
        "context": {name: first.get(name) for name in ("schema", "wrapper", "break_glass")} | action.context,
        "contract": _object(_evidence(store, action, action.contract_ref)),
        "contract_hash": action.contract_hash,
        "approval": _approval(action),
        "watch": _watch(action),
        "times": _times(action),
        "lease": _lease(session, outcome.id),
        "events": _events(stored, opened),
    }


def _events(stored: list[StoredEvent], opened: list[ParsedEnvelope]) -> list[Json]:
    found: list[Json] = []
    before = opened[0].event.at_us
    for entry, one in zip(stored, opened, strict=True):
        event = one.event
        found.append(
            {
                "seq": entry.seq or None,
                "version": entry.version,
                "kind": event.kind.value,
                "at_us": event.at_us,
                "at": moment(event.at_us),
                "delta_us": event.at_us - before,
                "path": [state.value for state in event.path],
                "data": event.data,
                "refs": dict(event.refs),
                "previous": one.previous,
                "leaf": entry.leaf.hex(),
            }
        )
        before = event.at_us
    return found


def _is_reading(opened: ParsedEnvelope) -> bool:
    return opened.event.kind is EventKind.READ


def _reading(stored: StoredEvent, opened: ParsedEnvelope) -> dict[str, Json]:
    return {"seq": stored.seq or None, "digest": opened.event.refs.get("reading", ""), **opened.event.data}


def _read(taken: dict[str, Json] | None, value: Json) -> Json:
    """The content of a reading, or a mark if the content belongs to another tenant and was not kept."""
    return dict(WITHHELD) if taken is not None and taken.get("withheld") else value


def _discrepancy(found: Discrepancy | None) -> Json:
    if found is None:
        return None
    row = DISCREPANCIES[found]
    return {
        "class": found.value,
        "code": found.code,
        "definition": row.definition,
        "recovery": row.typical_recovery,
        "severity": row.severity,
    }


def _decision(action: Action, table: RecoveryTable) -> Json:
    judgement = action.judgement
    if not judgement.row:
        return None
    same_table = judgement.table == table.version
    row = table.row(judgement.row) if same_table else None
    return {
        "row": judgement.row,
        "finding": judgement.finding,
        "action": judgement.recovery,
        "condition": row.label if row is not None else "",
        "rationale": row.rationale if row is not None else "",
        "ours": row.ours if row is not None else None,
        "opens_review": row.opens_review if row is not None else None,
        "opens_incident": row.opens_incident if row is not None else None,
        "table": judgement.table,
        "table_is_present_one": same_table,
    }


def _status(action: Action) -> dict[str, Json]:
    return {
        "execution": execution_status(action).value,
        "verification": verification_status(action).value,
        "reconciliation": reconciliation_status(action).value,
    }


def _key(store: LedgerStore, action: Action) -> dict[str, Json]:
    record = store.key(action.tenant, action.key_hash)
    return {
        "text": key_text(action.key_hash),
        "hash": action.key_hash,
        "request_hash": action.request_hash,
        "status": record.status if record is not None else None,
        "holder": record.action_id if record is not None else None,
        "expires_us": record.expires_us if record is not None else None,
    }


def _watch(action: Action) -> Json:
    """The result of the watch after success, or null without a watch."""
    watched = action.watch
    if watched is None:
        return None
    next_us = action.due_us
    return {
        **watched.as_json(),
        "held_at": moment(watched.held_us),
        "until": moment(watched.until_us),
        "next_us": next_us,
        "next": moment(next_us) if next_us is not None else None,
    }


def _approval(action: Action) -> dict[str, Json]:
    """The approval of the ledger schema with additions, or null without an approval request."""
    asked = action.approval
    if asked is None:
        return {"required": False, "approval_id": None, "approver_id": None, "payload_hash": None, "expires_at": None}
    return {
        "required": True,
        "approval_id": asked.id,
        "approver_id": ", ".join(one.approver for one in asked.signed) or None,
        "payload_hash": asked.payload,
        "expires_at": moment(asked.expires_us),
        "expires_us": asked.expires_us,
        "nonce": asked.nonce,
        "policy_version": asked.policy,
        "people": asked.people,
        "signed_by": [one.approver for one in asked.signed],
        "denied_by": asked.denied_by,
        "used": asked.used,
    }


def _times(action: Action) -> dict[str, Json]:
    return {
        "proposed_us": action.created_us,
        "validated_us": action.validated_us,
        "executed_us": action.executed_us,
        "verified_us": action.verified_us,
        "reconciled_us": action.reconciled_us,
        "updated_us": action.updated_us,
        "due_us": action.due_us,
    }


def _lease(session: Session, action_id: str) -> Json:
    stored = session.store.projection(action_id)
    if stored is None or not stored.projection.lease_owner:
        return None
    owner = stored.projection.lease_owner
    gone = session.runtime.is_owner_dead(owner)
    return {"owner": owner, "until_us": stored.projection.lease_until_us, "fence": stored.fence, "owner_is_gone": gone}


def _shown(action: Action, digest: str, value: Json) -> Json:
    """A payload, or a mark for an erased payload."""
    return dict(ERASED) if digest and digest in action.erased else value


def _evidence(store: LedgerStore, action: Action, digest: str) -> Json:
    found = store.evidence(action.tenant, action.id, digest) if digest and digest not in action.erased else None
    return None if found is None else parse_json(found.body)


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}
