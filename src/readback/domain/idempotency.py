"""Idempotency: one logical operation is executed once, whatever happens around it.

The key names the operation, the request hash names its payload, the record says what became of it.
Pure: the store keeps the records, the engine asks `on_key` what a second proposal may do. The key
prevents *twice*; it proves nothing about whose effect is seen (that is the stamp's work).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, assert_never
from unicodedata import normalize

from readback.canon import Json, hashed_bytes, sha256_hex
from readback.domain.kind import Kind
from readback.domain.state import State
from readback.errors import StoreCorruptError

_KEY_DOMAIN: Final = "readback/key"
_REQUEST_DOMAIN: Final = "readback/request"
_ASKED_DOMAIN: Final = "readback/asked"
KEY_TEXT_HEX_DIGITS: Final = 40
"""160 bits of the hash: enough against collision, short enough for every provider's key field."""


KEY_KEPT_US: Final = 30 * 24 * 3600 * 1_000_000
"""How long a settled record answers repeated operations, where the contract does not say (`key_kept`)."""


class KeyStatus(StrEnum):
    """What became of the operation under a key (the ledger schema's `idempotency.status`)."""

    PENDING = "PENDING"
    """Open: in flight, unknown, or waiting for a person. Blocks every second execution."""
    COMPLETED = "COMPLETED"
    """Reconciled as success: a verdict, never a mere return."""
    FAILED_RETRYABLE = "FAILED_RETRYABLE"
    """The key is released (see domain.key_release): the same operation may be run again."""
    FAILED_FINAL = "FAILED_FINAL"
    COMPENSATED = "COMPENSATED"
    EXPIRED = "EXPIRED"

    @classmethod
    def _missing_(cls, value: object) -> None:
        """A status of no such name decides nothing: the record cannot be believed."""
        raise StoreCorruptError(f"An idempotency record has the status {value!r}, which there is not.")


class KeyDecision(StrEnum):
    """What a proposal may do with its key."""

    EXECUTE = "execute"
    JOIN = "join"
    """Wait for the action in flight and share its outcome."""
    REPLAY = "replay"
    """Get the recorded outcome, marked as a replay."""
    REFUSE = "refuse"
    """The key belongs to another payload."""


class Resolution(StrEnum):
    """What a person attested where nothing could be verified. Never a verification."""

    NONE = ""
    ATTESTED_DONE = "attested_done"
    ATTESTED_NOT_DONE = "attested_not_done"


def key_hash(tenant: str, contract: str, operation: str | Mapping[str, Json]) -> str:
    """The idempotency key's SHA-256 (hex): of tenant, contract name and operation, and nothing else.

    `operation` is the caller's id, or the declared key fields by name. A canonical JSON array keeps
    the parts apart, so that no two different triples share their bytes.
    """
    named: Json = operation if isinstance(operation, str) else {**operation}
    parts: list[Json] = [tenant, contract, named]
    return sha256_hex(hashed_bytes(_KEY_DOMAIN, parts))


def former_operation(operation: str) -> str:
    """The id under which this operation was begun by releases that composed its letters (NFC); "" where it is the same.

    A caller's id is what the caller wrote, to the byte. What was begun before is found all the same.
    """
    composed = operation if operation.isascii() else normalize("NFC", operation)
    return "" if composed == operation else composed


def key_text(hashed: str) -> str:
    """What is handed to the tool as its idempotency key."""
    return "rb-" + hashed[:KEY_TEXT_HEX_DIGITS]


def request_hash(kind: Kind, target: str, arguments: Mapping[str, Json]) -> str:
    """The payload's SHA-256 (hex): kind, target and bound, validated arguments. "7" and 7 differ.

    It binds every number exactly: what neither a double nor 64 bits keep is hashed in a second form (`hashed_bytes`).
    """
    parts: list[Json] = [kind._value_, target, {**arguments}]
    return sha256_hex(hashed_bytes(_REQUEST_DOMAIN, parts))


def asked_hash(contract: str, arguments: Mapping[str, Json]) -> str:
    """What stands in for the request hash (SHA-256, hex) while nobody has held the request against its contract: of the
    contract's name and the arguments as they were given.
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
    """The record's status for a state.

    `may_repeat`: the key is released (see domain.key_release); it counts only for FAILED and
    ROLLED_BACK. An attestation that it was not done frees the key of an open state; one that it was
    done keeps it, without calling it completed.
    """
    if state in _RETRYABLE and may_repeat and resolution is not Resolution.ATTESTED_DONE:
        return KeyStatus.FAILED_RETRYABLE
    status = _BY_STATE[state]
    if resolution is _NOT_DONE and status is _OPEN:
        return KeyStatus.FAILED_RETRYABLE
    return status


def expires_us(status: KeyStatus, at_us: int, kept_us: int) -> int:
    """Until when the record of a state that was reached at that time answers; 0 for an open one, which has no end."""
    return 0 if status is _OPEN else at_us + kept_us


def may_replace(status: KeyStatus) -> bool:
    """Whether a new action may take over the key from the record."""
    return status in (KeyStatus.FAILED_RETRYABLE, KeyStatus.EXPIRED)


def aged(status: KeyStatus, expires_us: int, now_us: int) -> KeyStatus:
    """The record's status now. An open record never expires: time does not settle what is unknown."""
    if status is not KeyStatus.PENDING and 0 < expires_us <= now_us:
        return KeyStatus.EXPIRED
    return status


def on_key(status: KeyStatus | None, *, same_request: bool, in_flight: bool = False) -> KeyDecision:
    """What a proposal may do, given the record under its key (None: there is none).

    `in_flight`: the record's action still runs towards an outcome. Apart from a retryable failure
    and an expired record nothing executes a second time, an unknown outcome least of all.
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
