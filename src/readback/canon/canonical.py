"""Canonical bytes in two forms: ledger envelopes and payloads.

Called by the ledger (envelopes), and by all code that hashes or stores a value (payloads). This module converts
nothing: it refuses all but plain JSON values (`values.json_value` converts). Stored bytes are never written again.

Sorted orjson output equals RFC 8785 exactly if there are no floats, integers are within 2^53-1 and keys are ASCII.
These conditions are the envelope profile. Payloads outside the profile take the slow path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import orjson

from readback.canon.fault import EnvelopeProfileError, UnsupportedValueError, ValueTooLargeError
from readback.canon.limits import (
    DEPTH_MAX_LEVELS,
    ENVELOPE_MAX_BYTES,
    INTEGER_WIRE_MAX,
    INTEGER_WIRE_MIN,
    PAYLOAD_MAX_BYTES,
    VALUE_MAX_NODES,
)
from readback.canon.numbers import ExactNumber, JsonNumber, is_double, number_text
from readback.canon.values import Json

_STRICT: Final = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
)
_STORED: Final = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_LEAVES: Final = frozenset({str, int, bool, type(None)})
_NUMBERS: Final = frozenset({int, float, ExactNumber})
_CONTAINERS: Final = frozenset({dict, list})
_PLAIN: Final = _LEAVES | _CONTAINERS


def envelope_bytes(value: object, filled: Mapping[str, object] | None = None) -> bytes:
    """Return the canonical form of a ledger envelope. Raises EnvelopeProfileError. The caller owns `value` and is
    trusted.

    `filled`: the part with foreign content, if the caller built all the rest. Then only this part is inspected, because
    inspection is the largest cost.
    """
    try:
        written = orjson.dumps(value, option=_STRICT)
    except TypeError as error:
        raise EnvelopeProfileError(f"The envelope cannot be written: {error}.") from error
    part = value if filled is None else filled
    if not _within_profile(part, keys_ascii=written.isascii()):
        raise EnvelopeProfileError(f"The envelope holds {_offence(value)}.")
    if len(written) > ENVELOPE_MAX_BYTES:
        raise EnvelopeProfileError(f"The envelope has {len(written)} bytes, over {ENVELOPE_MAX_BYTES}.")
    return written


def is_envelope(data: bytes, parsed: Json, filled: Mapping[str, Json]) -> bool:
    """Return whether `data` is the canonical form of `parsed`. Raises EnvelopeProfileError.

    The result equals a comparison with `envelope_bytes`. A fast check runs first, because a full read of a log calls
    this function for every entry. Undecided cases use `envelope_bytes`. `filled`: the part whose values may be other
    than texts and whole numbers.
    """
    if data.isascii() and len(data) <= ENVELOPE_MAX_BYTES:
        try:
            same = orjson.dumps(parsed, option=_STRICT) == data
        except TypeError:
            same = False  # `envelope_bytes` below names the reason
        if same:
            kinds = set(map(type, filled.values()))
            if _PLAIN.issuperset(kinds):
                if kinds.isdisjoint(_CONTAINERS):
                    return True
                parts = [part for part in filled.values() if part and type(part) in _CONTAINERS]
                if all(_within_profile(part, keys_ascii=True) for part in parts):
                    return True
        return envelope_bytes(parsed, filled) == data
    return envelope_bytes(parsed) == data


def payload_bytes(value: object) -> bytes:
    """Return the RFC 8785 bytes of a plain JSON value from `json_value` or `parse_json` (finite, bounded).

    Two extensions prevent floating point from merging neighbours. Integers within 64 bits keep all their digits (else
    two row ids would hash alike). A number outside the doubles also keeps all its digits, by the RFC's rules for point
    and exponent. Equal numbers have equal bytes, and parsing the bytes returns an equal value. Raises
    UnsupportedValueError, ValueTooLargeError.
    """
    return _payload(value)[0]


def hashed_bytes(domain: str, parts: list[Json]) -> bytes:
    """Return the input of a request-binding hash: the canonical bytes of a versioned name and the parts.

    Version 1 matches `payload_bytes` from the time when numbers ended at doubles and 64 bits. Version 2 is for parts
    with a number beyond both. One value has one version, so two values never share bytes. Raises like `payload_bytes`.
    """
    written, beyond = _payload([f"{domain}/1", *parts])
    return _payload([f"{domain}/2", *parts])[0] if beyond else written


def _payload(value: object) -> tuple[bytes, bool]:
    """Return the canonical bytes, and whether they hold a number outside both the doubles and 64 bits."""
    written: bytes | None
    beyond = False
    try:
        written = orjson.dumps(value, option=_STRICT)
    except TypeError:
        written = None
    if written is None or not _within_profile(value, keys_ascii=written.isascii()):
        writer = _Writer()
        written, beyond = writer.whole(cast("Json", value)), writer.beyond
    if len(written) > PAYLOAD_MAX_BYTES:
        raise ValueTooLargeError(f"The value has {len(written)} bytes, over {PAYLOAD_MAX_BYTES}.")
    return written, beyond


def stored_bytes(value: object, *, bytes_max: int = PAYLOAD_MAX_BYTES) -> bytes:
    """Return deterministic JSON bytes of a stored value, to be hashed as bytes.

    Not RFC 8785: floats have orjson's form. To hash a value as JSON, use `payload_bytes`. Raises like `payload_bytes`.
    """
    try:
        written = orjson.dumps(value, option=_STORED)
    except TypeError:
        written = _Writer(float_bytes=orjson.dumps).whole(cast("Json", value))
    if len(written) > bytes_max:
        raise ValueTooLargeError(f"The value has {len(written)} bytes, over {bytes_max}.")
    return written


def _within_profile(value: object, *, keys_ascii: bool = False) -> bool:
    """Return whether orjson's form is the canonical form. orjson has already bounded depth, integers and cycles.

    `keys_ascii`: the whole output is ASCII, so the keys are too.
    """
    kind = type(value)
    if kind not in _CONTAINERS:
        return kind in _LEAVES
    pending: list[Any] = [value]
    seen = 0
    for node in pending:  # grows while it runs
        parts, known = node, len(pending)
        if type(node) is dict:
            if not keys_ascii and not "".join(node).isascii():
                return False
            parts = node.values()
        for part in parts:  # a loop: faster here than a C function over an iterator of types
            kind = type(part)
            if kind is str or kind in _LEAVES:
                continue
            if kind not in _CONTAINERS:
                return False
            if part:
                pending.append(part)
        if len(pending) > known:
            seen += len(parts)
            if seen > VALUE_MAX_NODES:
                return False
    return True


def _offence(value: object, path: str = "$") -> str:
    """Name the first value outside the profile. Called only after a refusal."""
    if isinstance(value, dict):
        for key, part in value.items():
            if not str(key).isascii():
                return f"a key at {path} that is not ASCII: {key!r}"
            if not _within_profile(part):
                return _offence(part, f"{path}.{key}")
    if isinstance(value, list):
        for index, part in enumerate(value):
            if not _within_profile(part):
                return _offence(part, f"{path}[{index}]")
    return f"a {type(value).__qualname__} at {path}"


class _Writer:
    """The slow path: RFC 8785 with limits. orjson writes each text."""

    __slots__ = ("_float_bytes", "beyond", "nodes", "parts")

    def __init__(self, float_bytes: Callable[[float], bytes] | None = None) -> None:
        self._float_bytes = float_bytes
        """Writes a float in a form other than RFC 8785."""
        self.beyond = False
        self.nodes = 0
        self.parts: list[bytes] = []

    def whole(self, value: Json) -> bytes:
        self._write(value, 0)
        return b"".join(self.parts)

    def _write(self, value: Json, depth: int) -> None:
        self.nodes += 1
        if self.nodes > VALUE_MAX_NODES:
            raise ValueTooLargeError(f"The value has more than {VALUE_MAX_NODES} parts.")
        kind = type(value)
        if kind is dict or kind is list:
            if depth >= DEPTH_MAX_LEVELS:
                raise ValueTooLargeError(f"The value is nested deeper than {DEPTH_MAX_LEVELS} levels.")
            if kind is dict:
                self._object(cast("dict[str, Json]", value), depth)
            else:
                self._array(cast("list[Json]", value), depth)
        elif kind is float and self._float_bytes is not None:
            self.parts.append(self._float_bytes(cast("float", value)))
        else:
            self.parts.append(_scalar(value))
            if (kind is ExactNumber or (kind is int and not _within_wire(cast("int", value)))) and not self.beyond:
                self.beyond = not is_double(cast("int", value))

    def _object(self, value: dict[str, Json], depth: int) -> None:
        mark = b"{"
        for key in sorted(value, key=_utf16):
            self.parts += (mark, _scalar(key), b":")
            self._write(value[key], depth + 1)
            mark = b","
        self.parts.append(b"}" if value else b"{}")

    def _array(self, value: list[Json], depth: int) -> None:
        mark = b"["
        for part in value:
            self.parts.append(mark)
            self._write(part, depth + 1)
            mark = b","
        self.parts.append(b"]" if value else b"[]")


def _within_wire(value: int) -> bool:
    return INTEGER_WIRE_MIN <= value <= INTEGER_WIRE_MAX


def _utf16(key: object) -> bytes:
    if type(key) is not str:
        raise UnsupportedValueError(f"An object has a key of type {type(key).__qualname__}.")
    return key.encode("utf-16-be", "surrogatepass")


def _scalar(value: object) -> bytes:
    kind = type(value)
    if kind in _NUMBERS:
        return number_text(cast("JsonNumber", value)).encode("ascii")
    if kind not in _LEAVES:
        raise UnsupportedValueError(f"A value of type {kind.__qualname__} is not plain JSON.")
    try:
        return orjson.dumps(value)
    except TypeError as error:
        raise UnsupportedValueError(f"A text is not Unicode: {error}.") from error
