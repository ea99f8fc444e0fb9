"""Message parts with their original text, so that unjudged content is forwarded exactly as written.

Called by `jsonl`. Members of `params` and `result` are carried. A part written differently by another writer (1E5, -0,
duplicate members, an unpaired surrogate, deep nesting) is an ordinary value plus its text. Code changing such a value
makes a plain value, and the plain value is written anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from math import nan
from typing import Any, Final, NoReturn

import msgspec
import orjson

from readback.canon import CanonError, NumberTooLargeError, number_from, number_text, parse_json
from readback.canon.limits import DEPTH_MAX_LEVELS
from readback.canon.numbers import ExactNumber, whole_from
from readback.errors import ArgumentError

TEXT_MAX_BYTES: Final = 64 * 1024 * 1024
SCANNED_MAX_BYTES: Final = 32 * 1024
"""Longest text scanned after msgspec rejects its nesting."""
_HALF: Final = re.compile(rb"\\\\|\\u[dD]([89a-fA-F])([0-9a-fA-F]{2})")
_LENT: Final = re.compile(rb"\\\\|\\u[eE]([0-9a-f])([0-9a-fA-F]{2})")
_PRIVATE: Final = re.compile(rb"\\u[eE]")
_ESCAPED: Final = re.compile(r"\\u([0-9a-fA-F]{4})")
HALVES_MAX: Final = 4_096
"""Most escapes of one message searched for unpaired surrogates."""
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
    """An object with its original text. `fault`: why its values differ from the text, or None."""

    __slots__ = ("fault", "raw")

    def __init__(self, value: Mapping[str, Any], raw: bytes, fault: CanonError | None) -> None:
        super().__init__(value)
        self.raw, self.fault = raw, fault


class VerbatimArray(list[Any]):
    """A list with its original text."""

    __slots__ = ("fault", "raw")

    def __init__(self, value: list[Any], raw: bytes, fault: CanonError | None) -> None:
        super().__init__(value)
        self.raw, self.fault = raw, fault


class VerbatimNumber(float):
    """A number with its original text, outside any object or list."""

    __slots__ = ("raw",)
    raw: bytes

    @classmethod
    def of(cls, value: Any, raw: bytes) -> VerbatimNumber:
        made = cls(value)
        made.raw = raw
        return made


VERBATIM: Final = (VerbatimObject, VerbatimArray, VerbatimNumber)


def message_of(line: bytes) -> Any:
    """Return the JSON value of a line, with texts where needed. Raises ValueError for invalid JSON."""
    line = line.strip()
    try:
        found = orjson.loads(line)
        if orjson.dumps(found) == line:
            return found
    except (ValueError, TypeError):
        pass  # the readers below decide
    if not line.startswith(b"{"):
        return _exact(line)
    return {name: _inner(raw) if name in CARRYING else _exact(raw) for name, raw in members(line).items()}


def _exact(raw: bytes) -> Any:
    """Return the value of a part without a carried text. Raises ValueError for an inexact value."""
    value, fault = _value(raw)
    if fault is not None:
        raise ValueError(fault.message)
    return value


def _inner(raw: bytes) -> Any:
    return {name: carried(each) for name, each in members(raw).items()} if raw.startswith(b"{") else carried(raw)


def carried(raw: bytes) -> Any:
    """Return the value of a text, and keep the text if another writer would write it differently."""
    raw = raw.strip().replace(b"\n", b" ").replace(b"\r", b" ")  # a JSON string never contains a line break
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
    """Return the members of an object's text, as texts; the last of equal names. Raises ValueError."""
    try:
        return {name: bytes(part) for name, part in _members(raw).items()}
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _apart(raw)


def _apart(raw: bytes) -> dict[str, bytes]:
    """Return the members of a text with unpaired surrogates, rejected by msgspec.

    Each surrogate is replaced by a private-use character of equal length, and restored in the members.
    """
    if 0 < raw.count(b"\\u") <= HALVES_MAX and _PRIVATE.search(raw) is None:
        with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
            found = _members(_HALF.sub(_lent, raw))
            if all(name.isascii() for name in found):
                return {name: _LENT.sub(_returned, bytes(part)) for name, part in found.items()}
    return _scanned(raw)


def _lent(found: re.Match[bytes]) -> bytes:
    if found[1] is None:
        return found[0]  # an escaped backslash
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
    """Return the value of a JSON text, and the reason if the value differs from the text."""
    try:
        return parse_json(raw, bytes_max=TEXT_MAX_BYTES), None
    except CanonError as error:
        fault = error
    try:
        return json.loads(raw.decode(), parse_float=_bounded, parse_int=_bounded_whole, parse_constant=_constant), fault
    except RecursionError:
        # Not a JSON value, so that every check rejects it.
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
    """Return the members of a text rejected by msgspec, token by token, without a nesting limit."""
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
    """Return a value for orjson's `default`."""
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
    """Write a value unsupported by orjson: an unpaired surrogate or a large integer."""
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
    """Return the list with one more value, and with an extended text if the list has one."""
    whole = [*values, more]
    if not isinstance(values, VerbatimArray):
        return whole
    inside = values.raw.strip()[1:-1].rstrip()
    return VerbatimArray(whole, b"[" + inside + (b"," if inside else b"") + orjson.dumps(more) + b"]", values.fault)


def opened(value: Any, words: re.Pattern[str]) -> Any:
    """Drop a value's text if the text contains the words. The value itself may hide the words from a check."""
    if not isinstance(value, VerbatimObject | VerbatimArray):
        return value
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), value.raw.decode("utf-8", "replace"))
    if words.search(text) is None:
        return value
    return dict(value) if isinstance(value, VerbatimObject) else list(value)


def is_faithful(value: Any) -> bool:
    """Return whether a value and each of its members express their whole text."""
    for each in (value, *(value.values() if isinstance(value, Mapping) else ())):
        if isinstance(each, VerbatimObject | VerbatimArray):
            try:
                check_exact(each)
            except ArgumentError:
                return False
    return True


def has_fault(value: Mapping[str, Any]) -> bool:
    """Return whether a member differs from its text."""
    return any(getattr(each, "fault", None) is not None for each in value.values())


def check_exact(arguments: object) -> None:
    """Check the arguments of a governed call against their text, so that the server receives exactly the judged values.

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
    """Return the nesting depth of a JSON text. Not recursive: other code may set Python's recursion limit."""
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
