"""Words foreign to this language, and their replacements."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from readback.ports.predicates import ROOTS

KEYWORDS: Final = frozenset({"in", "true", "false", "null"})
RESERVED: Final = frozenset(
    {
        "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
        "namespace", "return", "var", "void", "while",
    }
)  # fmt: skip
FOREIGN: Final = {
    "and": "both are joined by `&&`",
    "or": "either is joined by `||`",
    "not": "the opposite is written `!`",
    "is": "equality is written `==`, as in `== null`",
    "if": "a choice is written `condition ? one : other`",
    "else": "a choice is written `condition ? one : other`",
    "None": "nothing is written `null`",
    "nil": "nothing is written `null`",
    "undefined": "nothing is written `null`",
    "True": "it is written `true`",
    "False": "it is written `false`",
    "TRUE": "it is written `true`",
    "FALSE": "it is written `false`",
    "lambda": "a loop is written `list.all(each, each > 0)`",
    "for": "a loop is written `list.all(each, each > 0)`",
    "like": "parts of texts are asked for by `contains`, `startsWith`, `endsWith` or `matches`",
    "between": "write both bounds, joined by `&&`",
}
FUNCTIONS_ELSEWHERE: Final = {
    "len": "size",
    "length": "size",
    "count": "size",
    "lower": "lowerAscii",
    "toLowerCase": "lowerAscii",
    "upper": "upperAscii",
    "toUpperCase": "upperAscii",
    "strip": "trim",
    "startswith": "startsWith",
    "endswith": "endsWith",
    "includes": "contains",
    "any": "exists",
    "some": "exists",
    "every": "all",
    "str": "string",
    "float": "double",
    "Decimal": "dec_eq",
    "regex": "matches",
}
NOT_HERE: Final = {
    "now": "An expression has no clock: it sees its roots and nothing else.",
    "optional": "Optional values are not part of this language; ask with `has(...)`.",
}


def unknown(name: str) -> str:
    """Return the message about an unknown name."""
    if name in FOREIGN:
        said = FOREIGN[name]
        return f"Undeclared reference to {name!r}: {said}."
    close = get_close_matches(name.partition(".")[0], ROOTS, 1)
    meant = f" Did you mean {close[0]!r}?" if close else ""
    return f"Undeclared reference to {name!r}; there are {', '.join(ROOTS)}.{meant}"


def unknown_function(name: str, known: tuple[str, ...]) -> str:
    """Return the message about an unknown function."""
    if name in NOT_HERE:
        return f"Undeclared reference to {name!r}: {NOT_HERE[name]}"
    instead = FUNCTIONS_ELSEWHERE.get(name)
    close = [instead] if instead else get_close_matches(name, known, 1)
    meant = f" Did you mean `{close[0]}`?" if close else ""
    return f"Undeclared reference to {name!r}: there is no such function.{meant}"
