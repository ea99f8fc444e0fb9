"""Conversion of Python values into plain JSON values: a bounded snapshot no other code can change.

Called for arguments, tool results and readings. A value without an exact JSON form raises `UnsupportedValueError`.
Values are never rounded, shortened or rendered by `repr`.

Exact forms: a number, including an `ExactNumber`, is a number. Any other Decimal is its text. A moment with an offset
is RFC 3339 in UTC. A moment without offset stays without (an invented offset would be a lie, and `timestamp()` then
refuses the text). A duration is seconds with an `s`. Bytes are `{"$bytes": base64}`. UUID, path and date are text. An
enum is its value. Mappings, rows with `keys()`, dataclasses and pydantic models are objects. Tuples are lists.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final, TypeAlias

import orjson

from readback.canon.fault import NumberTooLargeError, UnsupportedValueError, ValueTooLargeError
from readback.canon.limits import (
    DEPTH_MAX_LEVELS,
    INTEGER_SAFE_MAX,
    INTEGER_WIRE_MAX,
    INTEGER_WIRE_MIN,
    KEY_MAX_BYTES,
    NUMBER_EXPONENT_MAX,
    STRING_MAX_BYTES,
    VALUE_MAX_NODES,
)
from readback.canon.numbers import ExactNumber, JsonNumber, too_large
from readback.canon.numbers import number as plain_number

Json: TypeAlias = "bool | int | float | ExactNumber | str | list[Json] | dict[str, Json] | None"
BYTES_KEY: Final = "$bytes"
_LARGE: Final = re.compile(rb"[0-9]{16}|[0-9]e")
"""Written form of a double beyond 2^53. The slow path converts such a double to an int."""
_EXACT: Final = frozenset({str, int, bool, type(None)})
"""Types that hold no double. The search for a large one is skipped for an object of these types alone."""
_WHOLE_MAX: Final = 10 ** (NUMBER_EXPONENT_MAX + 1)
FLAT_MAX: Final = 64
"""Most parts of an object on the fast path."""


class Copied(dict[str, "Json"]):
    """A plain copy owned by its receiver. `json_value` accepts it unchanged. Created by `short_copied`."""

    __slots__ = ()


def json_value(obj: object) -> Json:
    """Return a plain copy of `obj`. Raises UnsupportedValueError or ValueTooLargeError, both with the path."""
    if obj is None or obj is True or obj is False:
        return obj
    kind = type(obj)
    if kind is str:
        return _text(obj, "$")  # type: ignore[arg-type]
    if kind is dict:
        plain = _in_one(obj)  # type: ignore[arg-type]
        if plain is not None:
            return plain
    elif kind is Copied:
        return {**obj}  # type: ignore[dict-item]
    return _Snapshot().take(obj, "$", 0)


def _in_one(flat: dict[Any, Any]) -> dict[str, Json] | None:
    """Copy a small object of plain texts, whole numbers, flags and nulls, the usual case. Return None for any other."""
    if len(flat) > FLAT_MAX:
        return None
    plain = {**flat}  # first: another thread may still change the original
    for key, part in plain.items():
        if type(key) is not str or not key.isascii() or len(key) > KEY_MAX_BYTES:
            return None
        if type(part) is str:
            if not part.isascii() or len(part) > STRING_MAX_BYTES:
                return None
        elif type(part) is int:
            if not INTEGER_WIRE_MIN <= part <= INTEGER_WIRE_MAX:
                return None
        elif not (part is None or part is True or part is False):
            return None
    return plain


def short_copied(value: Mapping[str, Any]) -> Copied | None:
    """Like `short_copy`, marked for `json_value` as already plain."""
    plain = short_copy(value)
    return None if plain is None else Copied(plain)


def short_copy(value: Mapping[str, Any]) -> dict[str, Json] | None:
    """Copy a plain object through its bytes if it is too short to break a limit. Return None for any other.

    Only for values without shared parts, such as values from a wire. Other values may be endless in written form.
    """
    try:
        written = orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER)
    except TypeError:
        return None  # the slow path names the problem
    if len(written) > KEY_MAX_BYTES or written.count(b"{") + written.count(b"[") > DEPTH_MAX_LEVELS:
        return None
    if not _EXACT.issuperset(map(type, value.values())) and _LARGE.search(written):
        return None
    plain: dict[str, Json] = orjson.loads(written)
    return plain if plain == value else None  # orjson writes NaN as null


class _Snapshot:
    """One walk over one value. Counts nodes, so shared sub-values cannot expand without limit."""

    __slots__ = ("nodes",)

    def __init__(self) -> None:
        self.nodes = 0

    def take(self, obj: object, path: str, depth: int) -> Json:
        self.nodes += 1
        if self.nodes > VALUE_MAX_NODES:
            raise _too_large(path, f"more than {VALUE_MAX_NODES} parts")
        kind = type(obj)
        if kind is str:
            return _text(obj, path)  # type: ignore[arg-type]
        if obj is None or kind is bool:
            return obj  # type: ignore[return-value]
        if kind is int:
            return _integer(obj, path)  # type: ignore[arg-type]
        if kind is float:
            return _real(obj, path)  # type: ignore[arg-type]
        if kind is ExactNumber:
            return _exact(obj, path)  # type: ignore[arg-type]
        if depth >= DEPTH_MAX_LEVELS:
            raise _too_large(path, f"nested deeper than {DEPTH_MAX_LEVELS} levels")
        if kind is dict:
            return self._object(obj, path, depth)  # type: ignore[arg-type]
        if kind is list or kind is tuple:
            return self._array(obj, path, depth)  # type: ignore[arg-type]
        return self._other(obj, path, depth)

    def _object(self, obj: Mapping[Any, object], path: str, depth: int) -> dict[str, Json]:
        copied = _in_one(obj) if type(obj) is dict else None
        if copied is not None:
            self.nodes += list(map(type, copied.values())).count(int)
            if self.nodes > VALUE_MAX_NODES:
                raise _too_large(path, f"more than {VALUE_MAX_NODES} parts")
            return copied
        plain: dict[str, Json] = {}
        for raw_key, value in obj.items():
            key = raw_key if type(raw_key) is str else _key(raw_key, path)
            if not key.isascii() or len(key) > KEY_MAX_BYTES:
                _check_text(key, path, KEY_MAX_BYTES)
            if key in plain:
                raise _unsupported(path, f"two keys with the written form {key!r}")
            if value is None or value is True or value is False:
                plain[key] = value
            elif type(value) is str and len(value) <= STRING_MAX_BYTES and value.isascii():
                plain[key] = value  # the common cases, without building a path
            else:
                plain[key] = self.take(value, f"{path}.{key}", depth + 1)
        return plain

    def _array(self, obj: list[object] | tuple[object, ...], path: str, depth: int) -> list[Json]:
        return [self.take(value, f"{path}[{index}]", depth + 1) for index, value in enumerate(obj)]

    def _other(self, obj: object, path: str, depth: int) -> Json:
        if isinstance(obj, Enum):  # first: an enum may also be an int or a str
            return self.take(obj.value, path, depth + 1)
        for kind, write in _SCALAR_FORMS:
            if isinstance(obj, kind):
                return write(obj, path)
        if isinstance(obj, Mapping):
            return self._object(obj, path, depth)
        if isinstance(obj, (list, tuple)):
            return self._array(obj, path, depth)
        if is_dataclass(obj) and not isinstance(obj, type):
            named = {field.name: getattr(obj, field.name) for field in fields(obj)}
            return self._object(named, path, depth)
        if hasattr(type(obj), "__fspath__") or type(obj).__module__ == "uuid":
            return _text(str(obj), path)  # by their marks: importing pathlib and uuid would slow every start
        dump = getattr(type(obj), "model_dump", None)
        if dump is not None:  # a pydantic model, without importing pydantic
            return self.take(dump(obj), path, depth + 1)
        # A database row. Last, since many types have these two methods.
        if hasattr(type(obj), "keys") and hasattr(type(obj), "__getitem__"):
            row: Any = obj
            return self._object({key: row[key] for key in row.keys()}, path, depth)  # noqa: SIM118
        raise _unsupported(path, f"a value of type {type(obj).__module__}.{type(obj).__qualname__}")


def _text(text: str, path: str) -> str:
    if not text.isascii() or len(text) > STRING_MAX_BYTES:
        _check_text(text, path, STRING_MAX_BYTES)
    return text


def _check_text(text: str, path: str, bytes_max: int) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise _unsupported(path, "text with a lone surrogate, which is not Unicode text") from error
    if size > bytes_max:
        raise _too_large(path, f"text of {size} bytes, over {bytes_max}")


def _integer(number: int, path: str) -> int:
    if not -_WHOLE_MAX < number < _WHOLE_MAX:
        raise _number_too_large(path)
    return number


def _real(real: float, path: str) -> JsonNumber:
    """Return a float as the parser reads it back: a whole number beyond 2^53 is an int."""
    if not math.isfinite(real):
        raise _unsupported(path, f"the number {real}")
    return real if -INTEGER_SAFE_MAX <= real <= INTEGER_SAFE_MAX else plain_number(Decimal(repr(real)))


def _exact(number: ExactNumber, path: str) -> Json:
    try:
        return plain_number(number)
    except NumberTooLargeError as error:
        raise _number_too_large(path) from error


def _decimal(number: Decimal, path: str) -> str:
    if not number.is_finite():
        raise _unsupported(path, f"the decimal {number}")
    return _text(str(number), path)


def _moment(moment: datetime, path: str) -> str:
    if moment.tzinfo is None or moment.utcoffset() is None:
        return moment.isoformat()
    try:
        return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except OverflowError as error:
        raise _unsupported(path, "a moment outside the years 1 to 9999 of UTC") from error


def _clock_time(clock: time, path: str) -> str:
    if clock.tzinfo is not None and clock.utcoffset() is None:  # its offset depends on the day
        raise _unsupported(path, f"a time of day in the zone {clock.tzinfo}, without a day")
    return clock.isoformat()


def _duration(span: timedelta, path: str) -> str:
    micros = span // timedelta(microseconds=1)
    sign = "-" if micros < 0 else ""
    seconds, rest = divmod(abs(micros), 1_000_000)
    fraction = f".{rest:06d}".rstrip("0") if rest else ""
    return f"{sign}{seconds}{fraction}s"


def _octets(data: bytes | bytearray | memoryview, path: str) -> dict[str, Json]:
    size = len(data) if not isinstance(data, memoryview) else data.nbytes
    if size > STRING_MAX_BYTES:
        raise _too_large(path, f"{size} bytes, over {STRING_MAX_BYTES}")
    return {BYTES_KEY: b64encode(bytes(data)).decode("ascii")}


_SCALAR_FORMS: Final[tuple[tuple[Any, Callable[[Any, str], Json]], ...]] = (
    (str, lambda text, path: _text(str.__str__(text), path)),
    (int, lambda number, path: _integer(int.__int__(number), path)),
    (float, lambda number, path: _real(float.__float__(number), path)),
    (ExactNumber, _exact),
    (Decimal, _decimal),
    (datetime, _moment),
    (date, lambda day, path: day.isoformat()),
    (time, _clock_time),
    (timedelta, _duration),
    ((bytes, bytearray, memoryview), _octets),
)
"""The order matters: a datetime is also a date."""


def _key(key: object, path: str) -> str:
    if isinstance(key, Enum):
        key = key.value
    if isinstance(key, str):
        return str.__str__(key)
    if type(key) is int:
        return str(key)
    raise _unsupported(path, f"a key of type {type(key).__qualname__}")


def _unsupported(path: str, what: str) -> UnsupportedValueError:
    return UnsupportedValueError(f"{path} holds {what}.", details={"path": path})


def _number_too_large(path: str) -> NumberTooLargeError:
    said = f"{path[:200]} holds a number over the bounds. {too_large().message}"
    return NumberTooLargeError(said, details={"path": path[:200]})


def _too_large(path: str, what: str) -> ValueTooLargeError:
    return ValueTooLargeError(f"{path[:200]} is too large: {what}.", details={"path": path[:200]})
