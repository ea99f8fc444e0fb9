"""Canonical bytes: two forms, one for ledger envelopes, one for payloads.

Who calls it: the ledger (envelopes) and whatever hashes or stores a value (payloads). It must not convert:
what is not already a plain JSON value is refused (`values.json_value` converts). Bytes that were stored are
never written again.

Sorted orjson equals RFC 8785 exactly where there are no floats, integers are within 2^53-1 and keys are
ASCII. That is the envelope profile; payloads outside it take the slow path.
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
    """The canonical form of a ledger envelope. Raises EnvelopeProfileError; the caller owns `value` and is
    trusted.

    `filled`: the part of it that others filled in, where all the rest is the caller's own making: then that part
    alone is looked through, which is what costs most.
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
    """Whether these bytes are the canonical form of what they were parsed as. Raises EnvelopeProfileError.

    As a comparison with `envelope_bytes`, which is asked whatever this does not know to be one: who reads a whole log
    asks it of every entry. `filled`: the part that holds what is not known to be texts and whole numbers.
    """
    if data.isascii() and len(data) <= ENVELOPE_MAX_BYTES:
        try:
            same = orjson.dumps(parsed, option=_STRICT) == data
        except TypeError:
            same = False  # and why is said below
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
    """RFC 8785 bytes of a plain JSON value, as `json_value` and `parse_json` make it (finite, bounded).

    Two extensions, where the RFC's floating point would merge neighbours: integers within 64 bits are written with
    all their digits (two row ids would hash alike), and so is a number that no double means, by the RFC's own rules
    for point and exponent. Equal numbers have equal bytes, and what is read back is equal.
    Raises UnsupportedValueError, ValueTooLargeError.
    """
    return _payload(value)[0]


def hashed_bytes(domain: str, parts: list[Json]) -> bytes:
    """What a hash that binds a request is made of: the canonical bytes of a name with its version, and of the parts.

    Version 1 is what `payload_bytes` wrote when numbers ended at doubles and 64 bits; version 2 is of parts that hold
    a number beyond both. One value has one version, so that no two values share their bytes.
    Raises what `payload_bytes` raises.
    """
    written, beyond = _payload([f"{domain}/1", *parts])
    return _payload([f"{domain}/2", *parts])[0] if beyond else written


def _payload(value: object) -> tuple[bytes, bool]:
    """The canonical bytes, and whether they hold a number that is neither a double's nor of 64 bits."""
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
    """Deterministic JSON bytes of a plain value that is kept, and hashed as the bytes that it is.

    Not RFC 8785: floats are written as orjson writes them. For what is hashed as JSON there is `payload_bytes`.
    Raises what that raises.
    """
    try:
        written = orjson.dumps(value, option=_STORED)
    except TypeError:
        written = _Writer(float_bytes=orjson.dumps).whole(cast("Json", value))
    if len(written) > bytes_max:
        raise ValueTooLargeError(f"The value has {len(written)} bytes, over {bytes_max}.")
    return written


def _within_profile(value: object, *, keys_ascii: bool = False) -> bool:
    """Whether orjson's form is the canonical one. orjson has already bounded depth, integers and cycles.

    `keys_ascii`: what was written is ASCII as a whole, and so are its keys.
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
        for part in parts:  # a loop: what runs in C over an iterator of types takes longer
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
    """Names the first thing outside the profile; called only once something is."""
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
    """The slow path: RFC 8785 with bounds. Text is written by orjson, to the letter."""

    __slots__ = ("_float_bytes", "beyond", "nodes", "parts")

    def __init__(self, float_bytes: Callable[[float], bytes] | None = None) -> None:
        self._float_bytes = float_bytes
        """How a float is written where not by RFC 8785."""
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
