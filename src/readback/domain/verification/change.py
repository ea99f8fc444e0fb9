"""Changes between two states of a record: pure, over plain JSON. Called by reconciliation.

A recorded state may hold marks in place of redacted values. A mark proves neither a change nor the lack of one.
`withheld` returns the paths of the marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, cast

from readback.canon import ExactNumber, Json, JsonNumber, same_number

REDACTED: Final = "$redacted"
"""The only key of an object in place of a redacted value."""


Path = tuple[str, ...]
"""Nested names. Never joined before a comparison: `a.b` may also be a single name."""


def differences(old: Json, new: Json, path: Path = ()) -> Iterator[Path]:
    """Paths of differences. A list is one value: lists differ as a whole."""
    if is_withheld(old):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            below = (*path, key)
            if key not in old or key not in new:
                yield below
            else:
                yield from differences(old[key], new[key], below)
    elif not alike(old, _as_known(old, new)):
        yield path


def changed(old: Json, new: Json) -> bool:
    """Whether a value present in both states differs."""
    return any(True for _ in differences(old, new))


def withheld(old: Json, path: Path = ()) -> Iterator[Path]:
    """Paths of marks, and of lists with a mark inside."""
    if is_withheld(old):
        yield path
    elif isinstance(old, dict):
        for key, below in old.items():
            yield from withheld(below, (*path, key))
    elif isinstance(old, list) and any(True for each in old for _ in withheld(each)):
        yield path


_NUMBERS: Final = (int, float, ExactNumber)


def alike(old: Json, new: Json) -> bool:
    """Whether two values are equal in JSON, also inside lists. 1 equals 1.0 and, unlike in Python, not `true`."""
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(alike, old, new))
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(alike(value, new[key]) for key, value in old.items())
    if type(old) is not type(new) and type(old) in _NUMBERS and type(new) in _NUMBERS:
        return same_number(cast("JsonNumber", old), cast("JsonNumber", new))
    return old == new and isinstance(old, bool) is isinstance(new, bool)


def outside(frame: tuple[str, ...], paths: Iterable[Path]) -> tuple[str, ...]:
    """The dotted paths outside the frame. A frame path covers every path below."""
    return tuple(dotted(path) for path in paths if not any(above in frame for above in _upwards(path)))


def dotted(path: Path) -> str:
    """A path in the form for people."""
    return ".".join(path)


def _upwards(path: Path) -> Iterator[str]:
    """The path and all its parents, dotted like the frame's paths."""
    return (dotted(path[:depth]) for depth in range(1, len(path) + 1))


def is_withheld(value: Json) -> bool:
    """Whether a value is a mark."""
    return isinstance(value, dict) and value.keys() == {REDACTED}


def _as_known(old: Json, new: Json) -> Json:
    """The new state, with the old state's marks in their places."""
    if is_withheld(old):
        return old
    if isinstance(old, dict) and isinstance(new, dict):
        return {key: _as_known(old[key], value) if key in old else value for key, value in new.items()}
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [_as_known(was, now) for was, now in zip(old, new, strict=True)]
    return new
