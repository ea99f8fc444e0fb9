"""Appends like the engine's, for conformance tests, state machines and measurements of a store.

Used by `conformance.store`, by the project's own tests and by the benchmark. The bytes have no meaning: a store must
not interpret them.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

from readback.ports.storage.store import Append, Evidence, KeyRecord, Projection, SealedEvent

NOON_US = 1_767_268_800_000_000
TENANT = "acme"


def sample_event(text: str, kind: str = "attempt.started", at_us: int = NOON_US) -> SealedEvent:
    """Return an event with the envelope `text` and the leaf hash of RFC 6962."""
    envelope = text.encode()
    return SealedEvent(kind=kind, at_us=at_us, envelope=envelope, leaf=sha256(b"\x00" + envelope).digest())


def sample_projection(action_id: str, **changes: Any) -> Projection:
    """Return a projection with a likely value in every field. `changes` replaces some."""
    plain = Projection(
        action_id=action_id,
        tenant=TENANT,
        principal="agent:ops",
        run="run-1",
        contract="ship_order",
        contract_version="1.0.0",
        contract_hash=sha256(b"ship_order 1.0.0").hexdigest(),
        kind="set",
        side_effect="low_risk_internal",
        target=f"order/{action_id}",
        operation=f"ship {action_id}",
        key_hash=sha256(f"key {action_id}".encode()).hexdigest(),
        stamp=f"rb-{action_id}",
        state="EXECUTING",
        hold="",
        verdict="not_checked",
        discrepancy="",
        row="",
        created_us=NOON_US,
        updated_us=NOON_US,
        due_us=None,
        lease_owner="",
        lease_until_us=0,
    )
    return replace(plain, **changes)


def sample_evidence(body: bytes, media: str = "application/json") -> Evidence:
    """Return evidence under its true digest."""
    return Evidence(digest=sha256(body).hexdigest(), media=media, body=body)


def sample_reservation(projection: Projection, status: str = "in_flight") -> KeyRecord:
    """Return the idempotency record reserved by the creation of this action."""
    return KeyRecord(
        tenant=projection.tenant,
        key_hash=projection.key_hash,
        request_hash=sha256(projection.operation.encode()).hexdigest(),
        action_id=projection.action_id,
        status=status,
        created_us=projection.created_us,
        expires_us=projection.created_us + 86_400_000_000,
    )


def sample_append(
    action_id: str,
    expected_version: int = 0,
    *,
    fence: int = 0,
    events: int = 1,
    projection: Projection | None = None,
    **parts: Any,
) -> Append:
    """Return an append of so many events. `parts` are further fields of `Append`."""
    held = projection or sample_projection(action_id)
    return Append(
        action_id=action_id,
        tenant=held.tenant,
        expected_version=expected_version,
        fence=fence,
        events=tuple(
            sample_event(f'{{"action":"{action_id}","version":{expected_version + n}}}') for n in range(1, events + 1)
        ),
        projection=held,
        **parts,
    )


def sample_creation(action_id: str, *, events: int = 1, **changes: Any) -> Append:
    """Return the first append of an action with its reservation. `changes` belong to its projection."""
    held = sample_projection(action_id, **changes)
    return sample_append(action_id, events=events, projection=held, reserve=sample_reservation(held))
