"""Idempotency: a logical operation is executed once, despite crashes and concurrent processes.

The key names the operation, the request hash names its payload, and the record holds the result. Pure: the store keeps
the records, and the engine asks `on_key` about a second proposal. The key prevents a *second* execution. Authorship of
a visible effect is proven by the stamp, not by the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, assert_never

from readback.canon import Json, hashed_bytes, sha256_hex
from readback.canon.unicode_forms import normalized
from readback.domain.kind import Kind
from readback.domain.state import State
from readback.errors import StoreCorruptError

_KEY_DOMAIN: Final = "readback/key"
_REQUEST_DOMAIN: Final = "readback/request"
_ASKED_DOMAIN: Final = "readback/asked"
KEY_TEXT_HEX_DIGITS: Final = 40
"""160 bits of the hash: safe against collisions, and short enough for every provider's key field."""


KEY_KEPT_US: Final = 30 * 24 * 3600 * 1_000_000
"""How long, in microseconds, a settled record answers repeated operations, unless the contract says (`key_kept`)."""


class KeyStatus(StrEnum):
    """Status of the operation under a key (the ledger schema's `idempotency.status`)."""

    PENDING = "PENDING"
    """Open: in flight, unknown, or waiting for a person. Blocks every second execution."""
    COMPLETED = "COMPLETED"
    """Reconciled as success: a verdict, never a mere return."""
    FAILED_RETRYABLE = "FAILED_RETRYABLE"
    """The key is released (see domain.key_release): the operation may run again."""
    FAILED_FINAL = "FAILED_FINAL"
    COMPENSATED = "COMPENSATED"
    EXPIRED = "EXPIRED"

    @classmethod
    def _missing_(cls, value: object) -> None:
        """Reject an unknown status: a corrupt record must decide nothing."""
        raise StoreCorruptError(f"An idempotency record has the unknown status {value!r}.")


class KeyDecision(StrEnum):
    """Permission of a proposal, by its key."""

    EXECUTE = "execute"
    JOIN = "join"
    """Wait for the action in flight and share its outcome."""
    REPLAY = "replay"
    """Get the recorded outcome, marked as a replay."""
    REFUSE = "refuse"
    """The key belongs to another payload."""


class Resolution(StrEnum):
    """A person's attestation where verification was impossible. Never a verification."""

    NONE = ""
    ATTESTED_DONE = "attested_done"
    ATTESTED_NOT_DONE = "attested_not_done"


def key_hash(tenant: str, contract: str, operation: str | Mapping[str, Json]) -> str:
    """Return the idempotency key's SHA-256 (hex): of tenant, contract name and operation.

    `operation` is the caller's id, or the declared key fields by name. A canonical JSON array separates the parts, so
    that different triples have different bytes.
    """
    named: Json = operation if isinstance(operation, str) else {**operation}
    parts: list[Json] = [tenant, contract, named]
    return sha256_hex(hashed_bytes(_KEY_DOMAIN, parts))


def former_operation(operation: str) -> str:
    """Return the operation's id in releases with NFC-composed ids; "" where the id is the same.

    A caller's id is now kept byte by byte. Older records are still found.
    """
    composed = operation if operation.isascii() else normalized("NFC", operation)
    return "" if composed == operation else composed


def key_text(hashed: str) -> str:
    """The idempotency key passed to the tool."""
    return "rb-" + hashed[:KEY_TEXT_HEX_DIGITS]


def request_hash(kind: Kind, target: str, arguments: Mapping[str, Json]) -> str:
    """Return the payload's SHA-256 (hex): kind, target and bound, validated arguments. "7" and 7 differ.

    Every number is bound exactly. A number beyond a double and 64 bits is hashed in a second form (`hashed_bytes`).
    """
    parts: list[Json] = [kind._value_, target, {**arguments}]
    return sha256_hex(hashed_bytes(_REQUEST_DOMAIN, parts))


def asked_hash(contract: str, arguments: Mapping[str, Json]) -> str:
    """Return the hash (SHA-256, hex) of a request before its contract check: of the contract's name and the raw
    arguments.

    Stands in for the request hash until then.
    """
    parts: list[Json] = [contract, {**arguments}]
    return sha256_hex(hashed_bytes(_ASKED_DOMAIN, parts))


_BY_STATE: Final = MappingProxyType(
    {
        State.PROPOSED: KeyStatus.PENDING,
        State.VALIDATED: KeyStatus.PENDING,
        State.EXECUTING: KeyStatus.PENDING,
        State.ACCEPTED: KeyStatus.PENDING,
        State.PENDING: KeyStatus.PENDING,
        State.COMMITTED: KeyStatus.PENDING,
        State.PARTIALLY_COMMITTED: KeyStatus.PENDING,
        State.RECONCILED_SUCCESS: KeyStatus.COMPLETED,
        State.RECONCILIATION_FAILED: KeyStatus.PENDING,
        State.FAILED: KeyStatus.FAILED_FINAL,
        State.VERIFICATION_TIMEOUT: KeyStatus.PENDING,
        State.UNKNOWN: KeyStatus.PENDING,
        State.COMPENSATING: KeyStatus.PENDING,
        State.COMPENSATED: KeyStatus.COMPENSATED,
        State.COMPENSATION_FAILED: KeyStatus.PENDING,
        State.FORWARD_RECOVERY: KeyStatus.PENDING,
        State.ROLLED_BACK: KeyStatus.FAILED_FINAL,
        State.REVIEW_REQUIRED: KeyStatus.PENDING,
        State.ABANDONED: KeyStatus.FAILED_FINAL,
    }
)
_RETRYABLE: Final = frozenset({State.FAILED, State.ROLLED_BACK})
_OPEN: Final = KeyStatus.PENDING
_NOT_DONE: Final = Resolution.ATTESTED_NOT_DONE


def key_status(state: State, *, may_repeat: bool = False, resolution: Resolution = Resolution.NONE) -> KeyStatus:
    """Return the record's status for a state.

    `may_repeat`: the key is released (see domain.key_release); counts only for FAILED and ROLLED_BACK. The attestation
    "not done" frees the key of an open state. The attestation "done" keeps the key, without the status COMPLETED.
    """
    if state in _RETRYABLE and may_repeat and resolution is not Resolution.ATTESTED_DONE:
        return KeyStatus.FAILED_RETRYABLE
    status = _BY_STATE[state]
    if resolution is _NOT_DONE and status is _OPEN:
        return KeyStatus.FAILED_RETRYABLE
    return status


def expires_us(status: KeyStatus, at_us: int, kept_us: int) -> int:
    """Expiry time of the record, by the time of its state; 0 for an open record, without any expiry."""
    return 0 if status is _OPEN else at_us + kept_us


def may_replace(status: KeyStatus) -> bool:
    """Whether a new action may take over the key from the record."""
    return status in (KeyStatus.FAILED_RETRYABLE, KeyStatus.EXPIRED)


def aged(status: KeyStatus, expires_us: int, now_us: int) -> KeyStatus:
    """The record's status now. An open record never expires: time does not settle an unknown result."""
    if status is not KeyStatus.PENDING and 0 < expires_us <= now_us:
        return KeyStatus.EXPIRED
    return status


def on_key(status: KeyStatus | None, *, same_request: bool, in_flight: bool = False) -> KeyDecision:
    """Decide on a proposal by the record under its key (None: no record).

    `in_flight`: the record's action is still running. Only a retryable failure or an expired record permits a second
    execution. An unknown outcome never does.
    """
    if status is None or status is KeyStatus.EXPIRED:
        return KeyDecision.EXECUTE
    if not same_request:
        return KeyDecision.REFUSE
    match status:
        case KeyStatus.PENDING:
            return KeyDecision.JOIN if in_flight else KeyDecision.REPLAY
        case KeyStatus.COMPLETED | KeyStatus.FAILED_FINAL | KeyStatus.COMPENSATED:
            return KeyDecision.REPLAY
        case KeyStatus.FAILED_RETRYABLE:
            return KeyDecision.EXECUTE
        case _:
            assert_never(status)
