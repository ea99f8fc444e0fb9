"""Equality and order of values. A comparison of two kinds is a fault, not `false`.

Null equals only null, and compares with anything. A difference decides, even beside a part of another kind.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from readback.adapters.cel.faults import VISIT, Fault, Frame, spend, wrong
from readback.adapters.cel.values.exact import canonical, equal, less
from readback.adapters.cel.values.kinds import LIST, NUMBER, OBJECT, TypeName, kind_of
from readback.adapters.cel.values.moments import Duration, Timestamp

LONG: Final = 4_096
"""Texts from this length cost steps when compared."""
_ORDERED: Final = frozenset({"a text", "bytes", "a boolean"})
_TIMES: Final = frozenset({"a timestamp", "a duration"})
_KEYS: Final = frozenset({"a text", NUMBER, "a boolean"})
_SHAPES_MAX: Final = 64
_PLAIN: Final = frozenset({str, int, bool})


def same(frame: Frame, one: Any, other: Any) -> bool:
    """Return whether two values are equal. Raises Fault for two kinds."""
    kind = type(one)
    if kind is type(other):
        if kind is str:
            if len(one) > LONG and len(one) == len(other):
                spend(frame, len(one))
            return bool(one == other)
        if kind is int or kind is bool:
            return bool(one == other)
    # Null compares with every kind: `authoritative.cancelled_at == null` is a common condition.
    if one is None or other is None:
        return one is other
    kind_one, kind_other = kind_of(one), kind_of(other)
    if kind_one != kind_other:
        raise wrong(f"{kind_one} is compared with {kind_other}")
    if kind_one == NUMBER:
        spend(frame, 2 * VISIT)
        return equal(one, other)
    if kind_one == LIST:
        if len(one) != len(other):
            return False
        spend(frame, VISIT * (len(one) + 1))
        return _all_same(frame, one, other)
    if kind_one == OBJECT:
        if len(one) != len(other) or one.keys() != other.keys():
            return False
        spend(frame, VISIT * (len(one) + 2))
        return _all_same(frame, one.values(), [other[key] for key in one])
    return bool(one == other)


def _all_same(frame: Frame, ones: Collection[Any], others: Collection[Any]) -> bool:
    unlike: Fault | None = None
    for one, other in zip(ones, others, strict=True):
        kind = type(one)
        if kind is type(other) and kind in _PLAIN and (kind is not str or len(one) < LONG):
            if one != other:
                return False
            continue
        try:
            if not same(frame, one, other):
                return False
        except Fault as fault:
            if fault.kind == "limit":
                raise
            unlike = fault  # a later difference still decides
    if unlike is not None:
        raise unlike
    return True


def differ(frame: Frame, one: Any, other: Any) -> bool:
    return not same(frame, one, other)


def within(frame: Frame, part: Any, whole: Any) -> bool:
    """Evaluate `in`. A search for a text among numbers is a fault: without a match, the answer is unknown."""
    is_map = isinstance(whole, dict)
    if not (is_map or isinstance(whole, list)) or (is_map and kind_of(part) not in _KEYS):
        raise wrong(f"{kind_of(part)} is looked for in {kind_of(whole)}")
    if is_map and type(part) is str and part in whole:
        return True
    spend(frame, VISIT * len(whole))
    unlike: Fault | None = None
    for each in whole:
        try:
            if same(frame, part, each):
                return True
        except Fault as fault:
            if fault.kind == "limit":
                raise
            unlike = fault  # a later match still decides
    if unlike is not None:
        raise unlike
    return False


def before(frame: Frame, one: Any, other: Any) -> bool:
    """Evaluate `<`."""
    if type(one) is int and type(other) is int:
        return bool(one < other)
    kind, kind_other = kind_of(one), kind_of(other)
    if kind != kind_other:
        raise wrong(f"{kind} is compared with {kind_other}")
    if kind == NUMBER:
        spend(frame, 2 * VISIT)
        return less(one, other)
    if kind in _TIMES:
        return bool(one.ns < other.ns)
    if kind in _ORDERED:
        if kind != "a boolean":
            spend(frame, min(len(one), len(other)))
        return bool(one < other)
    raise wrong(f"{kind} has no order")


# --- lists as sets ---


def contains_all(frame: Frame, whole: Any, parts: Any) -> bool:
    """Return whether the whole contains each part, equal and of the same kind."""
    known = _Known(frame, whole, parts)
    return all(known.has(part) for part in parts)


def contains_any(frame: Frame, whole: Any, parts: Any) -> bool:
    """Return whether the whole contains at least one part, equal and of the same kind."""
    known = _Known(frame, whole, parts)
    unlike: Fault | None = None
    for part in parts:
        try:
            if known.has(part):
                return True
        except Fault as fault:
            if fault.kind == "limit":
                raise
            unlike = fault
    if unlike is not None:
        raise unlike
    return False


class _Known:
    """The values of a list, each as a text, so that each part needs one lookup."""

    def __init__(self, frame: Frame, whole: Any, parts: Any) -> None:
        if not isinstance(whole, list) or not isinstance(parts, list):
            raise wrong(f"two lists are taken, not {kind_of(whole)} and {kind_of(parts)}")
        spend(frame, 2 * VISIT * (len(whole) + len(parts)))
        self.frame = frame
        self.plain: set[str] = set()
        self.shapes: dict[str, set[str]] = {}
        for each in whole:
            key, shape, kinds = _written(frame, each)
            self.plain.add(key)
            if shape:
                known = self.shapes.setdefault(shape, set())
                known.add(kinds)
                if len(known) > _SHAPES_MAX:
                    raise Fault("limit", "the values of a list have too many forms to be compared")

    def has(self, part: Any) -> bool:
        """Return whether the list has the part. Raises Fault where an equally shaped value has another kind inside."""
        key, shape, kinds = _written(self.frame, part)
        if key in self.plain:
            return True
        # A list or object of the same shape with a value of another kind, for example ["7"] and [7]: unknown.
        if any(_unlike(kinds, other) for other in self.shapes.get(shape, ())):
            raise wrong("a list or an object is compared with one whose values are of other kinds")
        return False


def _unlike(kinds: str, other: str) -> bool:
    return any(one != two and "z" not in (one, two) for one, two in zip(kinds, other, strict=True))


_LETTERS: Final = {
    "null": "z", "a boolean": "b", NUMBER: "n", "a text": "s", "bytes": "y", "a timestamp": "t", "a duration": "d",
    "a type": "k",
}  # fmt: skip


def _written(frame: Frame, value: Any) -> tuple[str, str, str]:
    """Return a unique text for the value, the shape without contents, and the kinds of the contents in turn."""
    if type(value) is str:
        return f"s{value}", "", ""
    if type(value) is int:
        return f"n{canonical(value)}", "", ""
    parts: list[str] = []
    form: list[str] = []
    kinds: list[str] = []
    pending: list[Any] = [value]
    # A stack in place of recursion: data may be nested deeper than Python's own stack.
    while pending:
        here = pending.pop()
        if type(here) is _Mark:  # the key of the next value
            parts.append(here.text)
            form.append(here.text)
            continue
        kind = kind_of(here)
        if kind in (LIST, OBJECT):
            spend(frame, 5 * VISIT * (len(here) + 1))
            _opened(here, parts, form, pending)
            continue
        letter = _LETTERS.get(kind, "x")
        kinds.append(letter)
        form.append(".")
        written = canonical(here) if kind == NUMBER else _text(here)
        # Inside a list or object, the length marks the end of the value.
        parts.append(f"{letter}{written}" if here is value else f"{letter}{len(written)}:{written}")
    text = "".join(parts)
    spend(frame, len(text))
    return (text, "".join(form), "".join(kinds)) if isinstance(value, (list, dict)) else (text, "", "")


class _Mark:
    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def _opened(here: Any, parts: list[str], form: list[str], pending: list[Any]) -> None:
    """Open a list or an object. The contents are written next, each key before its value."""
    opening = f"{'[' if isinstance(here, list) else '{'}{len(here)};"
    parts.append(opening)
    form.append(opening)
    if isinstance(here, list):
        pending.extend(reversed(here))
        return
    for key in sorted(here, key=_key, reverse=True):
        text = _key(key)
        pending.append(here[key])
        pending.append(_Mark(f"{len(text)}={text}"))


def _key(key: Any) -> str:
    return f"s{key}" if isinstance(key, str) else f"n{canonical(key)}"


def _text(value: Any) -> str:
    if isinstance(value, (Timestamp, Duration)):
        return str(value.ns)
    if isinstance(value, bytes):
        return value.hex()
    return value.name if isinstance(value, TypeName) else str(value)
