"""The functions of the language: forms, arguments, result, implementation, and text for the reference.

`checker`, `compiler` and the generated reference page read this table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from readback.adapters.cel.editing import edited, replaced
from readback.adapters.cel.faults import VISIT, Fault, Frame, spend, wrong
from readback.adapters.cel.values import alike, texts
from readback.adapters.cel.values.exact import decimal_of, digits_of, exact, whole_of, written
from readback.adapters.cel.values.kinds import LIST, NUMBER, OBJECT, kind_of, type_of
from readback.adapters.cel.values.moments import (
    ACCESSORS,
    NS,
    Duration,
    Timestamp,
    duration_of,
    moment,
    part_of,
    timestamp_of,
)
from readback.canon.frozen import dataclass

Kinds: TypeAlias = "tuple[str, ...]"
"""The allowed kinds of an argument. An empty tuple allows all."""
ANY: Final[Kinds] = ()
TEXT: Final[Kinds] = ("a text",)
LISTS: Final[Kinds] = (LIST,)
BOOLEAN: Final = "a boolean"


@dataclass(frozen=True, slots=True)
class Function:
    """One function. `behind`: callable as a method of the first argument. `plain`: callable with all arguments in
    brackets.
    """

    does: Callable[..., Any]
    takes: tuple[Kinds, ...]
    gives: str
    says: str
    """The result, for the reference. The first word is the shown form."""
    plain: bool = True
    behind: bool = False
    more: tuple[Kinds, ...] = ()
    """Optional arguments."""


# --- sizes and conversions ---


def size(frame: Frame, value: Any) -> int:
    if isinstance(value, (str, bytes, list, dict)):
        return len(value)
    raise wrong(f"{kind_of(value)} has no size")


def to_int(frame: Frame, value: Any) -> int:
    spend(frame, 16 * VISIT)
    if type(value) is Timestamp:
        return value.ns // NS
    return whole_of(frame, value)


def to_uint(frame: Frame, value: Any) -> int:
    found = to_int(frame, value)
    if found < 0:
        raise Fault("limit", "a number is below zero")
    return found


def to_double(frame: Frame, value: Any) -> Any:
    spend(frame, 16 * VISIT)
    return written(value) if isinstance(value, str) else exact(value)


def to_string(frame: Frame, value: Any) -> str:
    kind = kind_of(value)
    spend(frame, 16 * VISIT)
    if kind == "a text":
        return str(value)
    if kind == BOOLEAN:
        return "true" if value else "false"
    if kind == NUMBER:
        return digits_of(frame, value)
    if isinstance(value, bytes):
        spend(frame, len(value))
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise wrong("the bytes are no text in UTF-8") from error
    if isinstance(value, (Timestamp, Duration)):
        return str(value)
    raise wrong(f"{kind} is not made a text")


_TRUE: Final = frozenset({"1", "t", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "false", "FALSE", "False"})


def to_bool(frame: Frame, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and (value in _TRUE or value in _FALSE):
        return value in _TRUE
    raise wrong("a text is neither true nor false" if isinstance(value, str) else f"{kind_of(value)} is not a boolean")


def to_bytes(frame: Frame, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise wrong(f"{kind_of(value)} is not made bytes")
    spend(frame, len(value))
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise wrong("a text holds half a character") from error


def to_timestamp(frame: Frame, value: Any) -> Timestamp:
    spend(frame, 32 * VISIT)
    if isinstance(value, str):
        return timestamp_of(value)
    if type(value) is Timestamp:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return moment(value * NS)
    raise wrong(f"{kind_of(value)} is not a timestamp")


def to_duration(frame: Frame, value: Any) -> Duration:
    spend(frame, 32 * VISIT)
    if isinstance(value, str):
        return duration_of(value)
    if type(value) is Duration:
        return value
    raise wrong(f"{kind_of(value)} is not a duration")


def dec_eq(frame: Frame, one: Any, other: Any) -> bool:
    spend(frame, 16 * VISIT)
    return decimal_of(one) == decimal_of(other)


def dec_cmp(frame: Frame, one: Any, other: Any) -> int:
    spend(frame, 16 * VISIT)
    left, right = decimal_of(one), decimal_of(other)
    return (left > right) - (left < right)


def _accessor(name: str) -> Function:
    def part(frame: Frame, value: Any, zone: Any = "UTC") -> int:
        spend(frame, 32 * VISIT)
        return part_of(name, value, zone)

    says = f"`t.{name}()`: that part of a timestamp in UTC, or at an offset that is given, such as `'+02:00'`"
    return Function(part, (("a timestamp", "a duration"),), NUMBER, says, plain=False, behind=True, more=(TEXT,))


def _of_text(does: Callable[..., Any], form: str, says: str, gives: str = BOOLEAN) -> Function:
    return Function(does, (TEXT, TEXT), gives, f"`{form}`: {says}", plain=False, behind=True)


def _formed(does: Callable[..., Any], name: str, says: str) -> Function:
    return Function(does, (TEXT,), "a text", f"`text.{name}()`: {says}", behind=True)


FUNCTIONS: Final[Mapping[str, Function]] = {
    "size": Function(
        size,
        (("a text", "bytes", LIST, OBJECT),),
        NUMBER,
        "`size(x)` or `x.size()`: the characters of a text, the bytes, the values of a list, the fields of an object",
        behind=True,
    ),
    "startsWith": _of_text(texts.starts_with, "text.startsWith(part)", "whether a text begins with another"),
    "endsWith": _of_text(texts.ends_with, "text.endsWith(part)", "whether a text ends with another"),
    "contains": _of_text(texts.contains, "text.contains(part)", "whether a text holds another"),
    "matches": Function(
        texts.matches,
        (TEXT, TEXT),
        BOOLEAN,
        "`text.matches(pattern)`: whether a pattern of RE2 is found anywhere in a text, in linear time; `^` and `$` "
        "hold it to the ends",
        behind=True,
    ),
    "lowerAscii": _formed(texts.lower_ascii, "lowerAscii", "`A` to `Z` made small, all else as it is"),
    "upperAscii": _formed(texts.upper_ascii, "upperAscii", "`a` to `z` made large, all else as it is"),
    "trim": _formed(texts.trim, "trim", "without Unicode's white space at its ends"),
    "nfc": _formed(texts.nfc, "nfc", "in Unicode's composed form (NFC)"),
    "int": Function(
        to_int,
        ((NUMBER, "a text", "a timestamp"),),
        NUMBER,
        "`int(x)`: a number without its fraction, a text of digits, or the seconds of a timestamp since 1970",
    ),
    "uint": Function(to_uint, ((NUMBER, "a text"),), NUMBER, "`uint(x)`: as `int`, and not below zero"),
    "double": Function(
        to_double, ((NUMBER, "a text"),), NUMBER, "`double(x)`: the exact number that a text writes; nothing is rounded"
    ),
    "string": Function(
        to_string,
        (("a text", BOOLEAN, NUMBER, "bytes", "a timestamp", "a duration"),),
        "a text",
        "`string(x)`: plain digits of a number, `true` or `false`, bytes in UTF-8, RFC 3339 of a timestamp, seconds "
        "of a duration",
    ),
    "bool": Function(
        to_bool, ((BOOLEAN, "a text"),), BOOLEAN, "`bool(x)`: of `'true'`, `'t'`, `'1'`, `'false'`, `'f'`, `'0'`"
    ),
    "bytes": Function(to_bytes, (("a text", "bytes"),), "bytes", "`bytes(text)`: a text in UTF-8"),
    "type": Function(
        lambda frame, value: type_of(value),
        (ANY,),
        "a type",
        "`type(x)`: `int`, `double`, `string`, `bool`, `bytes`, `list`, `map` or `null_type`",
    ),
    "dyn": Function(lambda frame, value: value, (ANY,), "", "`dyn(x)`: the value, whose kind is not checked at load"),
    "timestamp": Function(
        to_timestamp,
        (("a text", NUMBER, "a timestamp"),),
        "a timestamp",
        "`timestamp(x)`: of RFC 3339 with an offset, exact to the nanosecond (a finer one, or one without an offset, "
        "is undetermined), or of whole seconds since 1970",
    ),
    "duration": Function(
        to_duration,
        (("a text", "a duration"),),
        "a duration",
        "`duration(text)`: of hours to nanoseconds, such as `'1h30m'`, `'-1.5s'`, `'250ms'`",
    ),
    **{name: _accessor(name) for name in ACCESSORS},
    "sha256": Function(
        texts.sha256,
        (("a text", "bytes", OBJECT),),
        "a text",
        "`sha256(x)`: hexadecimal digits of the digest of a text in UTF-8, of bytes, or of a reading's "
        "`{'$bytes': ...}`",
    ),
    "dec_eq": Function(
        dec_eq,
        ((NUMBER, "a text"),) * 2,
        BOOLEAN,
        "`dec_eq(a, b)`: whether two decimals, as numbers or texts, are equal",
    ),
    "dec_cmp": Function(
        dec_cmp, ((NUMBER, "a text"),) * 2, NUMBER, "`dec_cmp(a, b)`: -1, 0 or 1, as the one is less, equal or more"
    ),
    "contains_all": Function(
        alike.contains_all,
        (LISTS, LISTS),
        BOOLEAN,
        "`contains_all(list, parts)`: whether each part is in the list, equal and of its kind",
    ),
    "contains_any": Function(
        alike.contains_any, (LISTS, LISTS), BOOLEAN, "`contains_any(list, parts)`: whether one part at least is"
    ),
    "edited": Function(
        edited,
        (TEXT, LISTS),
        "",
        "`edited(text, [[old, new], ...])`: the text after at most 64 replacements, each of the first place where the "
        "old text stands (else where its lines do, whatever is white at their ends); null where it stands nowhere",
    ),
    "replaced": Function(
        replaced,
        (TEXT, LISTS, (BOOLEAN,)),
        "",
        "`replaced(text, [[old, new, all], ...], ends)`: the text after at most 64 replacements to the letter, of the "
        "first place or of all; null where an old text stands nowhere; with `ends` what is deleted takes the end of "
        "its line along, where one follows",
    ),
}
"""By name. An empty `gives` means a kind known only with data."""
