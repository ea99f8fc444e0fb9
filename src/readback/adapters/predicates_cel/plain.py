"""The plainest expressions, answered without the library where the answer is beyond doubt: a path, and a path that
equals a text, another path or the SHA-256 of one, over values that are texts.

The engine asks here first, since most identities and postconditions are of this form and a program costs ten times as
much. It must not decide anything else: whatever is missing, of another type or of another form is the library's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from readback.canon import Json, sha256_hex
from readback.ports.predicates import Evaluated

Plain: TypeAlias = Callable[[Mapping[str, Json]], Evaluated | None]
"""The answer over six roots, or None: then the library has to be asked."""

_PATH: Final = r"[a-z]+(?:\.[A-Za-z_]\w*)+"
_VALUE: Final = re.compile(_PATH, re.ASCII)
_EQUAL: Final = re.compile(rf"({_PATH}) == (?:({_PATH})|'([ !#-&(-\[\]-~]*)'|sha256\(({_PATH})\))", re.ASCII)
"""The text between the quotes is printable ASCII without quotes and backslashes: it means itself."""

_HOLDS: Final = Evaluated("value", True)
_VIOLATED: Final = Evaluated("value", False)


def plainly(source: str, boolean: bool) -> Plain | None:
    """How this expression is answered without the library; None where it is not of the forms that are known here."""
    equal = _EQUAL.fullmatch(source)
    if equal is not None:
        return _equality(equal[1], equal[2] or equal[4], equal[3], sha256_hex if equal[4] else None)
    if boolean or _VALUE.fullmatch(source) is None:
        return None
    path = tuple(source.split("."))

    def value(variables: Mapping[str, Json]) -> Evaluated | None:
        text = _text_at(path, variables)
        return None if text is None else Evaluated("value", text)

    return value


def _equality(left: str, right: str | None, text: str | None, digest: Callable[[bytes], str] | None) -> Plain:
    one, other = tuple(left.split(".")), tuple(right.split(".")) if right is not None else ()

    def compare(variables: Mapping[str, Json]) -> Evaluated | None:
        found = _text_at(one, variables)
        wanted = _text_at(other, variables) if other else text
        if found is None or wanted is None:
            return None
        if digest is not None:
            try:
                wanted = digest(wanted.encode())
            except UnicodeEncodeError:  # half a character
                return None
        return _HOLDS if found == wanted else _VIOLATED

    return compare


def _text_at(path: tuple[str, ...], variables: Mapping[str, Json]) -> str | None:
    here: Json = variables.get(path[0])
    for name in path[1:]:
        if type(here) is not dict or name not in here:
            return None
        here = here[name]
    return here if type(here) is str else None


def holds_nul(value: Json) -> bool:
    """Whether any text or name in it has a NUL character."""
    if type(value) is str:
        return "\0" in value
    if type(value) is dict:
        return any("\0" in key or holds_nul(part) for key, part in value.items())
    return type(value) is list and any(map(holds_nul, value))
