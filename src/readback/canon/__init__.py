"""The lowest layer: plain JSON values, canonical bytes, digests, size limits, and the base class of errors.

Every package may import this package. It imports only orjson and msgspec, and knows nothing of actions.
"""

from __future__ import annotations

from readback.canon.canonical import (
    envelope_bytes,
    hashed_bytes,
    is_envelope,
    payload_bytes,
    stored_bytes,
)
from readback.canon.digest import sha256_bytes, sha256_hex
from readback.canon.fault import (
    CanonError,
    EnvelopeProfileError,
    MalformedJsonError,
    NumberTooLargeError,
    ReadbackError,
    UnsupportedValueError,
    ValueTooLargeError,
    why_not_json,
)
from readback.canon.numbers import ExactNumber, JsonNumber, decimal_of, number, number_from, number_text, same_number
from readback.canon.parsing import parse_json
from readback.canon.shown import holds_exact, json_text
from readback.canon.values import BYTES_KEY, Json, json_value

__all__ = [
    "BYTES_KEY",
    "CanonError",
    "EnvelopeProfileError",
    "ExactNumber",
    "Json",
    "JsonNumber",
    "MalformedJsonError",
    "NumberTooLargeError",
    "ReadbackError",
    "UnsupportedValueError",
    "ValueTooLargeError",
    "decimal_of",
    "envelope_bytes",
    "hashed_bytes",
    "holds_exact",
    "is_envelope",
    "json_text",
    "json_value",
    "number",
    "number_from",
    "number_text",
    "parse_json",
    "payload_bytes",
    "same_number",
    "sha256_bytes",
    "sha256_hex",
    "stored_bytes",
    "why_not_json",
]
