"""Parts of messages that keep the text they came with, so that what nobody judges is handed on as it was written.

Called by `lines`, which reads and writes messages. The members of `params` and of `result` are carried: one whose text
another writer would write otherwise (1E5, -0, two members of one name, half a character, a deep nest) is a value like
any other, and beside it has its text. Whoever changes such a value makes a plain one of it, and that is written anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from math import nan
from typing import Any, Final, NoReturn, TypeAlias

import msgspec
import orjson

from readback.canon import CanonError, NumberTooLargeError, number_from, number_text, parse_json
from readback.canon.limits import DEPTH_MAX_LEVELS
from readback.canon.numbers import ExactNumber, whole_from
from readback.errors import ArgumentError

TEXT_MAX_BYTES: Final = 64 * 1024 * 1024
SCANNED_MAX_BYTES: Final = 32 * 1024
"""A text that msgspec does not take, since it is nested too deep, is scanned only up to so many bytes."""
_HALF: Final = re.compile(rb"\\\\|\\u[dD]([89a-fA-F])([0-9a-fA-F]{2})")
_LENT: Final = re.compile(rb"\\\\|\\u[eE]([0-9a-f])([0-9a-fA-F]{2})")
_PRIVATE: Final = re.compile(rb"\\u[eE]")
_ESCAPED: Final = re.compile(r"\\u([0-9a-fA-F]{4})")
HALVES_MAX: Final = 4_096
"""Escapes of one message in which halves of characters are looked for."""
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKETS: Final = re.compile(rb"[\[\]{}]")
CARRYING: Final = frozenset({"params", "result"})

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_CHARACTERS: Final = r'[^"\\\x00-\x1f]*'
_TOKEN: Final = re.compile(
    rf'[ \t\r\n]*(?:(?P<text>"{_CHARACTERS}(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{{4}}){_CHARACTERS})*")'
    r"|(?P<scalar>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)"
    r"|(?P<sign>[\[\]{}:,]))"
)


class VerbatimObject(dict[str, Any]):
    """An object with the text that it came with. `fault`: why its values are not exactly those of the text."""

    __slots__ = ("fault", "raw")

    def __init__(self, value: Mapping[str, Any], raw: bytes, fault: CanonError | None) -> None:
        super().__init__(value)
        self.raw, self.fault = raw, fault


class VerbatimArray(list[Any]):
    """The same of a list."""

    __slots__ = ("fault", "raw")

    def __init__(self, value: list[Any], raw: bytes, fault: CanonError | None) -> None:
        super().__init__(value)
        self.raw, self.fault = raw, fault


class VerbatimNumber(float):
    """The same of a number that stands by itself."""

    __slots__ = ("raw",)
    raw: bytes

    @classmethod
    def of(cls, value: Any, raw: bytes) -> VerbatimNumber:
        made = cls(value)
        made.raw = raw
        return made


Verbatim: TypeAlias = VerbatimObject | VerbatimArray | VerbatimNumber
VERBATIM: Final = (VerbatimObject, VerbatimArray, VerbatimNumber)


def message_of(line: bytes) -> Any:
    """The JSON value of a line, with the parts that need it carried. Raises ValueError for what is no JSON."""
    line = line.strip()
    try:
        found = orjson.loads(line)
        if orjson.dumps(found) == line:
            return found
    except (ValueError, TypeError):
        pass  # which reader takes it is found out below
    if not line.startswith(b"{"):
        return _exact(line)
    return {name: _inner(raw) if name in CARRYING else _exact(raw) for name, raw in members(line).items()}


def _exact(raw: bytes) -> Any:
    """The value of a text that nothing is carried for. Raises ValueError for what is not kept exactly."""
    value, fault = _value(raw)
    if fault is not None:
        raise ValueError(fault.message)
    return value


def _inner(raw: bytes) -> Any:
    return {name: carried(each) for name, each in members(raw).items()} if raw.startswith(b"{") else carried(raw)


def carried(raw: bytes) -> Any:
    """The value of a text; with the text where it would be written otherwise."""
    raw = raw.strip().replace(b"\n", b" ").replace(b"\r", b" ")  # a line break is never inside a JSON text's texts
    value, fault = _value(raw)
    if isinstance(value, str) or (fault is None and _written_alike(value, raw)):
        return value
    if isinstance(value, dict):
        return VerbatimObject(value, raw, fault)
    if isinstance(value, list):
        return VerbatimArray(value, raw, fault)
    return value if type(value) is int else VerbatimNumber.of(float(value), raw)


def _written_alike(value: Any, raw: bytes) -> bool:
    try:
        return orjson.dumps(value) == raw
    except TypeError:
        return False


def members(raw: bytes) -> dict[str, bytes]:
    """The members of an object's text, as texts; of two of one name the last. Raises ValueError."""
    try:
        return {name: bytes(part) for name, part in _members(raw).items()}
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _apart(raw)


def _apart(raw: bytes) -> dict[str, bytes]:
    """The same where a text holds half a character, which msgspec refuses: with a character for private use in place of
    each half, of one length with it, and the halves again in what is found.
    """
    if 0 < raw.count(b"\\u") <= HALVES_MAX and _PRIVATE.search(raw) is None:
        with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
            found = _members(_HALF.sub(_lent, raw))
            if all(name.isascii() for name in found):
                return {name: _LENT.sub(_returned, bytes(part)) for name, part in found.items()}
    return _scanned(raw)


def _lent(found: re.Match[bytes]) -> bytes:
    if found[1] is None:
        return found[0]  # a backslash that stands for itself
    area = b"0123456789abcdef"[b"89abcdef".index(found[1].lower()) + (8 if found[1].isupper() else 0)]
    return b"\\u" + (b"E" if found[0][2:3] == b"D" else b"e") + bytes([area]) + found[2]


def _returned(found: re.Match[bytes]) -> bytes:
    if found[1] is None:
        return found[0]
    place = b"0123456789abcdef".index(found[1])
    second = b"89abcdef"[place % 8 : place % 8 + 1]
    first = b"D" if found[0][2:3] == b"E" else b"d"
    return b"\\u" + first + (second.upper() if place >= 8 else second) + found[2]


def _value(raw: bytes) -> tuple[Any, CanonError | None]:
    """The value of a text that is JSON, and why it is not exactly the text's, where it is not."""
    try:
        return parse_json(raw, bytes_max=TEXT_MAX_BYTES), None
    except CanonError as error:
        fault = error
    try:
        return json.loads(raw.decode(), parse_float=_bounded, parse_int=_bounded_whole, parse_constant=_constant), fault
    except RecursionError:
        # No JSON value, so that whoever judges it takes it for none.
        return ([nan] if raw.startswith(b"[") else {"": nan}), fault


def _bounded(text: str) -> Any:
    try:
        return number_from(text)
    except NumberTooLargeError:
        return float("-inf" if text.startswith("-") else "inf")


def _bounded_whole(text: str) -> Any:
    try:
        return whole_from(text)
    except NumberTooLargeError:
        return float("-inf" if text.startswith("-") else "inf")


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON.")


def _scanned(raw: bytes) -> dict[str, bytes]:
    """The same, token by token and without a bound to the nesting, of what msgspec does not take."""
    if len(raw) > SCANNED_MAX_BYTES:
        raise ValueError("The text is too long for what is in it.")
    text = raw.decode()
    found: dict[str, bytes] = {}
    opened: list[str] = []
    wants, name, begins, at, end = "value", "", 0, 0, len(text.rstrip(" \t\r\n"))
    while at < end:
        token = _TOKEN.match(text, at)
        if token is None:
            raise ValueError(f"There is no JSON at character {at}.")
        start, at = token.end() - len(token[0].lstrip(" \t\r\n")), token.end()
        kind, sign = token.lastgroup, token["sign"]
        if sign in ("]", "}") and wants in ("more", "first") and opened and opened[-1] == sign:
            opened.pop()
            wants = "more"
            if len(opened) == 1:
                found[name] = text[begins:at].encode()
        elif kind == "text" and wants in ("name", "first") and opened and opened[-1] == "}":
            wants = "colon"
            name = json.loads(token["text"]) if len(opened) == 1 else name
        elif wants == "colon" and sign == ":":
            wants = "value"
        elif wants == "more" and sign == "," and opened:
            wants = "name" if opened[-1] == "}" else "value"
        elif wants in ("value", "first") and sign in ("{", "[") and (opened or sign == "{"):
            begins = start if len(opened) == 1 else begins
            opened.append("}" if sign == "{" else "]")
            wants = "first"
        elif (wants == "value" or (wants == "first" and opened[-1] == "]")) and kind != "sign" and opened:
            wants = "more"
            if len(opened) == 1:
                found[name] = text[start:at].encode()
        else:
            raise ValueError(f"There is no JSON at character {start}.")
        if not opened and at < end:
            raise ValueError("Something follows the object.")
    if opened or wants != "more":
        raise ValueError("The text ends too early.")
    return found


# --- written -----------------------------------------------------------------------------------------------------


def fragment(value: Any) -> Any:
    """What orjson writes for a value that it does not know: for its `default`."""
    if isinstance(value, VERBATIM):
        return orjson.Fragment(value.raw)
    if isinstance(value, ExactNumber):
        return orjson.Fragment(number_text(value))
    kinds: tuple[Any, ...] = (str, int, float, dict, list)
    for kind in kinds:
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"{type(value).__qualname__} is no JSON value.")


def slowly(value: Any) -> bytes:
    """The text of what orjson does not write: half a character, a large integer."""
    if isinstance(value, VERBATIM):
        return bytes(value.raw)
    if isinstance(value, ExactNumber):
        return number_text(value).encode()
    if isinstance(value, Mapping):
        return b"{" + b",".join(json.dumps(name).encode() + b":" + slowly(part) for name, part in value.items()) + b"}"
    if isinstance(value, list | tuple):
        return b"[" + b",".join(map(slowly, value)) + b"]"
    return json.dumps(value, allow_nan=False).encode()


# --- governed ----------------------------------------------------------------------------------------------------


def appended(values: list[Any], more: Any) -> list[Any]:
    """A list with one more value, and with its text where it has one."""
    whole = [*values, more]
    if not isinstance(values, VerbatimArray):
        return whole
    inside = values.raw.strip()[1:-1].rstrip()
    return VerbatimArray(whole, b"[" + inside + (b"," if inside else b"") + orjson.dumps(more) + b"]", values.fault)


def opened(value: Any, words: re.Pattern[str]) -> Any:
    """A value without its text where the words stand in that text: they may hide from whoever looks at the value."""
    if not isinstance(value, VerbatimObject | VerbatimArray):
        return value
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), value.raw.decode("utf-8", "replace"))
    if words.search(text) is None:
        return value
    return dict(value) if isinstance(value, VerbatimObject) else list(value)


def is_faithful(value: Any) -> bool:
    """Whether a value, and each of its members, says all that its text says."""
    for each in (value, *(value.values() if isinstance(value, Mapping) else ())):
        if isinstance(each, VerbatimObject | VerbatimArray):
            try:
                check_exact(each)
            except ArgumentError:
                return False
    return True


def has_fault(value: Mapping[str, Any]) -> bool:
    """Whether a member is not exactly what its text says."""
    return any(getattr(each, "fault", None) is not None for each in value.values())


def check_exact(arguments: object) -> None:
    """Whether the values of a governed call are those of its text: what is judged is what the server is given.

    Raises ArgumentError.
    """
    if not isinstance(arguments, VerbatimObject | VerbatimArray):
        return
    if arguments.fault is not None:
        raise ArgumentError(f"The arguments cannot be taken as they are. {arguments.fault.message}")
    if _depth(arguments.raw) > DEPTH_MAX_LEVELS:
        raise ArgumentError(f"The arguments are nested too deeply: more than {DEPTH_MAX_LEVELS} levels.")
    json.loads(arguments.raw, object_pairs_hook=_once)


def _depth(text: bytes) -> int:
    """How deep a JSON text is nested. Python's own limit on recursion is another program's to set."""
    level = deepest = 0
    for mark in _BRACKETS.findall(_STRING.sub(b"", text)):
        level += 1 if mark in b"[{" else -1
        deepest = max(deepest, level)
    return deepest


def _once(pairs: list[tuple[str, Any]]) -> None:
    names = {name for name, _ in pairs}
    if len(names) != len(pairs):
        every = [name for name, _ in pairs]
        twice = next(name for name in every if every.count(name) > 1)
        raise ArgumentError(f"The arguments name {twice!r:.80} twice.", remedy="Name each argument once.")
