"""What changed between two states of a record: pure, over plain JSON. Called by reconciliation.

A state that comes out of the ledger may hold marks in place of what its contract keeps out of the record. A mark says
nothing: it is neither a change nor the proof of none, and `withheld` names where it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, cast

from readback.canon import ExactNumber, Json, JsonNumber, same_number

REDACTED: Final = "$redacted"
"""The only key of an object that stands in place of a value."""


Path = tuple[str, ...]
"""Names, one within the other. Never joined before it is compared: `a.b` is also a name of its own."""


def differences(old: Json, new: Json, path: Path = ()) -> Iterator[Path]:
    """Paths at which the two differ. A list is one value: where it differs, it differs as a whole."""
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
    """Whether anything differs that both of them say."""
    return any(True for _ in differences(old, new))


def withheld(old: Json, path: Path = ()) -> Iterator[Path]:
    """Paths at which a state is only a mark, or a list holds one."""
    if is_withheld(old):
        yield path
    elif isinstance(old, dict):
        for key, below in old.items():
            yield from withheld(below, (*path, key))
    elif isinstance(old, list) and any(True for each in old for _ in withheld(each)):
        yield path


_NUMBERS: Final = (int, float, ExactNumber)


def alike(old: Json, new: Json) -> bool:
    """Whether two values are one in JSON, where 1 is 1.0 and, unlike in Python, not `true`: in a list, too."""
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(alike, old, new))
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(alike(value, new[key]) for key, value in old.items())
    if type(old) is not type(new) and type(old) in _NUMBERS and type(new) in _NUMBERS:
        return same_number(cast("JsonNumber", old), cast("JsonNumber", new))
    return old == new and isinstance(old, bool) is isinstance(new, bool)


def outside(frame: tuple[str, ...], paths: Iterable[Path]) -> tuple[str, ...]:
    """Those of the paths, dotted, that the frame does not name, nor anything above them."""
    return tuple(dotted(path) for path in paths if not any(above in frame for above in _upwards(path)))


def dotted(path: Path) -> str:
    """As people read it."""
    return ".".join(path)


def _upwards(path: Path) -> Iterator[str]:
    """The path and everything above it, dotted as a frame names it."""
    return (dotted(path[:depth]) for depth in range(1, len(path) + 1))


def is_withheld(value: Json) -> bool:
    """Whether it is a mark."""
    return isinstance(value, dict) and value.keys() == {REDACTED}


def _as_known(old: Json, new: Json) -> Json:
    """The new state, with the old one's mark wherever that has one."""
    if is_withheld(old):
        return old
    if isinstance(old, dict) and isinstance(new, dict):
        return {key: _as_known(old[key], value) if key in old else value for key, value in new.items()}
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [_as_known(was, now) for was, now in zip(old, new, strict=True)]
    return new
