"""The specification's action ledger entry for one action, folded only from the action's entries.

Called by `readback ledger export`, for one action at a time. Pure: entries and the contract's text are the input, one
JSON object is the output. The record never exceeds the entries: a missing name is "none", a future event is null.

Source: the action verification specification, "Action ledger entry".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import Final

from readback.canon import Json, sha256_hex, stored_bytes
from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.action.record_status import KEY, execution_status, reconciliation_status, verification_status
from readback.domain.events import EventKind, ParsedEnvelope, open_envelope
from readback.domain.idempotency import KeyStatus, aged
from readback.domain.records.pointer import EntryPointer, EvidencePointer
from readback.domain.side_effect import SideEffect
from readback.domain.state import TERMINAL, VerificationStatus
from readback.engine.entries.recorder import settled_key
from readback.errors import StoreCorruptError
from readback.ports.storage.store import StoredEvent

# The manifest of a replay bundle, by hashes, and the bundle id derived from it.

FORMAT: Final = "readback/replay-bundle/1"
_TABLES: Final = ("table", "recovery_table")


def manifest(action_id: str, tenant: str, leaves: Iterable[str], opened: Sequence[ParsedEnvelope]) -> dict[str, Json]:
    """Return leaf hashes of all entries in order, digests of all evidence, and versions of all named tables."""
    return {
        "format": FORMAT,
        "action": action_id,
        "tenant": tenant,
        "leaves": [*leaves],
        "evidence": [*sorted({digest for one in opened for digest in _payloads(one)})],
        "tables": [*sorted(table_versions(opened))],
    }


def _payloads(one: ParsedEnvelope) -> Iterable[str]:
    return one.event.refs.values() if one.event.kind is not EventKind.ERASED else ()


def table_versions(opened: Iterable[ParsedEnvelope]) -> frozenset[str]:
    """Return the versions of the recovery tables behind the decisions."""
    said = (one.event.data.get(name) for one in opened for name in _TABLES)
    return frozenset(version for version in said if isinstance(version, str) and version)


def id_of(content: dict[str, Json]) -> str:
    """Return the id of a bundle with this manifest: its SHA-256, in hex."""
    return sha256_hex(stored_bytes(content))


def bundle_id(stored: Sequence[StoredEvent]) -> str:
    """Return the bundle id of the action with these entries. Every action has a bundle id."""
    opened = [open_envelope(each.envelope) for each in stored]
    first = opened[0]
    return id_of(manifest(first.action_id, first.tenant, [each.leaf.hex() for each in stored], opened))


NOT_GIVEN: Final = "none"
"""Placeholder for a missing name or version: the schema permits no null there."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DECIDED: Final = frozenset({VerificationStatus.VERIFIED, VerificationStatus.FAILED})
LoadContract = Callable[[str, str], Mapping[str, Json]]
"""Return the text of a contract by tenant and digest. Empty if missing."""


@dataclass(slots=True)
class _Told:
    """Content of the entries besides the fold."""

    action: Action
    proposal: Mapping[str, Json] = field(default_factory=dict)
    observed: EntryPointer | None = None
    read: EntryPointer | None = None
    staged_back: bool = False


def is_action(stored: Sequence[StoredEvent]) -> bool:
    """Return whether a stream is an action's. A saga's is not: a saga calls no tool, and its steps are actions."""
    return bool(stored) and stored[0].kind == EventKind.PROPOSED.value


def record_of(stored: Sequence[StoredEvent], contract: LoadContract, now_us: int) -> dict[str, Json]:
    """Return the action ledger entry. `now_us` decides only the expiry of the idempotency record.

    Raises StoreCorruptError for contradictory entries.
    """
    told = _fold([(open_envelope(each.envelope), each.leaf) for each in stored])
    a = told.action
    terms = contract(a.tenant, a.contract_ref)
    verified = verification_status(a)
    return {
        "action_id": a.id,
        "workflow_run_id": _given(a.context.get("run")),
        "tenant_id": a.tenant,
        "principal_id": a.principal,
        "tool_contract": {
            "name": a.contract,
            "version": a.contract_version,
            "schema_version": _given(told.proposal.get("schema")),
            "wrapper_version": _given(told.proposal.get("wrapper")),
        },
        "policy_context": {
            "autonomy_boundary_version": _given(a.context.get("boundary")),
            "approval_policy_version": NOT_GIVEN if a.approval is None else _given(a.approval.policy),
            "verification_policy_version": _given(told.proposal.get("verification_table")),
            "recovery_policy_version": _given(a.judgement.table or told.proposal.get("recovery_table")),
        },
        "side_effect_class": SideEffect(a.side_effect).ledger_name if a.side_effect else NOT_GIVEN,
        "idempotency": _idempotency(told, now_us),
        "approval": _approval(a, terms),
        "intended_outcome": {"target_resource": a.target, "expected_predicates": _predicates(terms)},
        "requested_operation": {
            "validated_payload_hash": a.request_hash,
            "target_resource": a.target,
            "operation_kind": a.kind,
        },
        "execution": {
            "status": execution_status(a).value,
            "observation_pointer": _pointer(a.observation_ref, told.observed),
            "attempt_count": a.attempts,
        },
        "verification": _verification(told, verified),
        "reconciliation": {
            "status": reconciliation_status(a).value,
            "discrepancy_class": a.judgement.discrepancy or None,
            "recovery_decision": f"{a.judgement.row}: {a.judgement.recovery}" if a.judgement.row else None,
        },
        "recovery": _recovery(told),
        "timestamps": _timestamps(a, verified),
        "trace": {
            "trace_id": _given(a.context.get("trace")),
            "parent_span_id": str(a.context.get("parent_span") or "") or None,
            "replay_bundle_id": bundle_id(stored),
        },
    }


def _fold(entries: list[tuple[ParsedEnvelope, bytes]]) -> _Told:
    first = entries[0][0]
    told = _Told(Action(first.action_id, first.tenant), first.event.data)
    for opened, leaf in entries:
        event, hashed = opened.event, leaf.hex()
        if opened.version != told.action.version + 1 or opened.previous != told.action.head:
            raise StoreCorruptError(f"Action {opened.action_id} has a gap or a false link at version {opened.version}.")
        told.action.apply(event, hashed)
        here = EntryPointer(opened.action_id, opened.version, hashed)
        match event.kind:
            case EventKind.ATTEMPTED:
                told.observed = told.read = None
            case EventKind.ADMITTED:
                told.proposal = {**told.proposal, **event.data}
            case EventKind.OBSERVED:
                told.observed = here
            case EventKind.READ if event.data["role"] == "check":
                told.read = here
            case EventKind.STAGED_SETTLED:
                told.staged_back = told.action.rollback_done
            case _:
                pass
    return told


def _given(value: Json) -> str:
    return str(value) if value else NOT_GIVEN


def _pointer(digest: str, entry: EntryPointer | None) -> str | None:
    """Return a pointer to the evidence, or to the entry if there is no evidence. None before both."""
    if entry is None:
        return None
    return str(EvidencePointer(digest)) if digest else str(entry)


def _idempotency(told: _Told, now_us: int) -> dict[str, Json]:
    a = told.action
    status: Json = None
    if a.attempts or a.approval is not None or a.reserved:
        settled = settled_key(a)
        held, expires_us = (KeyStatus(settled[0]), settled[1]) if settled is not None else (KeyStatus.PENDING, 0)
        status = KEY[aged(held, expires_us, now_us)]
    return {
        "required": told.proposal.get("key_required") is True,
        "key_hash": a.key_hash,
        "request_hash": a.request_hash,
        "status": status,
    }


def _approval(a: Action, terms: Mapping[str, Json]) -> dict[str, Json]:
    asked = a.approval
    if asked is None:
        required = isinstance(terms.get("approval"), dict)
        return {
            "required": required,
            "approval_id": None,
            "approver_id": None,
            "payload_hash": None,
            "expires_at": None,
        }
    approvers = ", ".join(one.approver for one in asked.signed)
    return {
        "required": True,
        "approval_id": asked.id,
        "approver_id": approvers or None,
        "payload_hash": asked.payload,
        "expires_at": _moment(asked.expires_us),
    }


def _predicates(terms: Mapping[str, Json]) -> list[Json]:
    clauses = terms.get("ensure")
    given = clauses if isinstance(clauses, list) else []
    return [f"{clause[0]}: {clause[1]}" for clause in given if isinstance(clause, list) and len(clause) >= 2]


def _verification(told: _Told, status: VerificationStatus) -> dict[str, Json]:
    a = told.action
    source = a.reading.get("source") if told.read is not None and a.reading is not None else None
    shown = told.read is not None and a.reading is not None and a.reading.get("presence") in ("present", "absent")
    return {
        "status": status.value,
        "source": str(source) if source else None,
        "query_pointer": None if told.read is None else str(told.read),
        "verified_state_pointer": _pointer(a.reading_ref, told.read) if shown and status in _DECIDED else None,
    }


def _recovery(told: _Told) -> dict[str, Json]:
    a = told.action
    rolled_back = a.id if told.staged_back else None
    again = a.id if a.attempts > 1 else None
    return {
        "recovery_action_id": a.compensation_id or rolled_back or again,
        "compensation_action_id": a.compensation_id or None,
        "rollback_action_id": rolled_back,
        "incident_id": a.incidents[-1] if a.incidents else None,
        "review_id": a.id if a.review or a.resolution or a.decision else None,
    }


def _timestamps(a: Action, verified: VerificationStatus) -> dict[str, Json]:
    settled = a.state in TERMINAL or a.due_us is None
    return {
        "proposed_at": _moment(a.created_us),
        "validated_at": _moment(a.validated_us),
        "executed_at": _moment(a.executed_us),
        "verified_at": _moment(a.verified_us) if verified in _DECIDED else None,
        "reconciled_at": _moment(a.reconciled_us) if settled else None,
    }


def _moment(at_us: int) -> str | None:
    """Return a time as RFC 3339, in UTC and to the microsecond. None for no time."""
    if at_us <= 0:
        return None
    at = _EPOCH + timedelta(microseconds=at_us)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond:06d}Z"
