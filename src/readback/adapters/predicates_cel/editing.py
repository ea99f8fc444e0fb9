"""`edited`: a text after replacements, as the reference filesystem server's `edit_file` makes them.

The engine registers it. It is pure. An old text is replaced where it first occurs; else where its lines do, without
regard to what is white at their ends, and then the first line's indentation is kept. Source: the server's own
`applyFileEdits`, 2026.8.31.
"""

from __future__ import annotations

from typing import Final

from readback.adapters.predicates_cel.functions import WrongKindError, kind_name

_WHITE: Final = " \t\n\v\f\r\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
_WHITE_ALL: Final = f"{_WHITE}\u202f\u205f\u3000\ufeff"
"""What JavaScript's `trim` takes away, which Python's `strip` does not quite."""


def edited(text: object, pairs: object) -> str | None:
    """The text after each of `pairs` (old text, new text), in turn; None where an old text does not occur."""
    if not isinstance(text, str):
        raise WrongKindError(f"edited takes a text, not {kind_name(text)}")
    if not isinstance(pairs, list) or not all(_is_pair(each) for each in pairs):
        raise WrongKindError("edited takes a list of pairs of texts")
    now: str | None = _lines_of_unix(text)
    for old, new in pairs:
        now = None if now is None else _replaced(now, _lines_of_unix(old), _lines_of_unix(new))
    return now


def _is_pair(each: object) -> bool:
    return isinstance(each, list) and len(each) == 2 and all(isinstance(part, str) for part in each)


def _lines_of_unix(text: str) -> str:
    return text.replace("\r\n", "\n")


def _replaced(text: str, old: str, new: str) -> str | None:
    if old in text:
        return text.replace(old, new, 1)
    lines, wanted = text.split("\n"), old.split("\n")
    for at in range(len(lines) - len(wanted) + 1):
        if all(lines[at + n].strip(_WHITE_ALL) == line.strip(_WHITE_ALL) for n, line in enumerate(wanted)):
            lines[at : at + len(wanted)] = _indented(_indent(lines[at]), wanted, new.split("\n"))
            return "\n".join(lines)
    return None


def _indented(kept: str, old: list[str], new: list[str]) -> list[str]:
    """The new lines, the first with the indentation of the line that it replaces, the others relative to it."""
    made = [kept + new[0].lstrip(_WHITE_ALL)]
    for number, line in enumerate(new[1:], 1):
        before, now = _indent(old[number]) if number < len(old) else "", _indent(line)
        relative = " " * max(0, len(now) - len(before))
        made.append(kept + relative + line.lstrip(_WHITE_ALL) if before and now else line)
    return made


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(_WHITE_ALL))]
