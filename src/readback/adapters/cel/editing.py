"""`edited`: a text after replacements, as in `edit_file` of the reference filesystem server.

Pure, and linear in the text for each of a bounded number of edits. The first occurrence of an old text is replaced.
Without an occurrence, lines are matched without white space at their ends, and the first line's indentation is kept.
Source: the server's own `applyFileEdits`, 2026.8.31.
"""

from __future__ import annotations

from operator import methodcaller
from typing import Any, Final

from readback.adapters.cel.faults import Fault, Frame, spend, wrong
from readback.adapters.cel.values.kinds import kind_of
from readback.canon.limits import EXPRESSION_EDITS_MAX, STRING_MAX_BYTES

_WHITE: Final = " \t\n\v\f\r\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
_WHITE_ALL: Final = f"{_WHITE}\u202f\u205f\u3000\ufeff"
"""White space removed by JavaScript's `trim`. Python's `strip` differs."""
_BARE: Final = methodcaller("strip", _WHITE_ALL)
_UNLIKE: Final = ("\x1c", "\x1d", "\x1e", "\x1f")
"""ASCII characters removed by Python's `strip` and not by JavaScript's `trim`."""
_LINE: Final = 24
_LINE_OF_OTHERS: Final = 128
_SEARCHED: Final = 4


def edited(frame: Frame, text: Any, pairs: Any) -> str | None:
    """Apply `pairs` (old text, new text) in turn. Returns None where an old text does not occur."""
    if not isinstance(text, str):
        raise wrong(f"edited takes a text, not {kind_of(text)}")
    if not isinstance(pairs, list) or not all(_is_pair(each) for each in pairs):
        raise wrong("edited takes a list of pairs of texts")
    if len(pairs) > EXPRESSION_EDITS_MAX:
        raise Fault("limit", f"edited takes at most {EXPRESSION_EDITS_MAX} edits")
    spend(frame, len(text))
    now: str | None = _lines_of_unix(text)
    for old, new in pairs:
        if now is None:
            return None
        spend(frame, _SEARCHED * len(now) + 4 * (len(old) + len(new)))
        now = _replaced(frame, now, _lines_of_unix(old), _lines_of_unix(new))
        if now is not None and len(now) > 2 * STRING_MAX_BYTES:
            raise Fault("limit", "a text that is edited becomes too long")
    return now


def replaced(frame: Frame, text: Any, edits: Any, ends: Any) -> str | None:
    """Apply `edits` (old text, new text, all occurrences or the first) in turn, to the letter.

    Returns None where an old text does not occur. `ends`: a deletion also removes the end of its line.
    """
    if not isinstance(text, str):
        raise wrong(f"replaced takes a text, not {kind_of(text)}")
    if not isinstance(edits, list) or not all(_is_edit(each) for each in edits):
        raise wrong("replaced takes a list of lists, each of two texts and a boolean")
    if not isinstance(ends, bool):
        raise wrong(f"replaced takes a boolean, not {kind_of(ends)}")
    if len(edits) > EXPRESSION_EDITS_MAX:
        raise Fault("limit", f"replaced takes at most {EXPRESSION_EDITS_MAX} edits")
    spend(frame, len(text))
    now = _lines_of_unix(text)
    for old, new, everywhere in edits:
        old, new = _lines_of_unix(old), _lines_of_unix(new)
        spend(frame, _SEARCHED * len(now) + 4 * (len(old) + len(new)))
        if (not old and now) or old not in now:
            return None
        if ends and not new and not old.endswith("\n") and f"{old}\n" in now:
            old = f"{old}\n"
        count = now.count(old) if everywhere and old else 1
        if len(now) + count * max(0, len(new) - len(old)) > 2 * STRING_MAX_BYTES:
            raise Fault("limit", "a text that is edited becomes too long")
        now = now.replace(old, new, count)
    return now


def _is_edit(each: object) -> bool:
    return isinstance(each, list) and len(each) == 3 and _is_pair(each[:2]) and isinstance(each[2], bool)


def _is_pair(each: object) -> bool:
    return isinstance(each, list) and len(each) == 2 and all(isinstance(part, str) for part in each)


def _lines_of_unix(text: str) -> str:
    return text.replace("\r\n", "\n")


def _replaced(frame: Frame, text: str, old: str, new: str) -> str | None:
    if old in text:
        return text.replace(old, new, 1)
    count, wanted_count = text.count("\n") + 1, old.count("\n") + 1
    plain = _is_plain(text) and _is_plain(old)
    spend(frame, (count + wanted_count) * (_LINE if plain else _LINE_OF_OTHERS) + _SEARCHED * len(text))
    if wanted_count > count:
        return None
    lines, wanted = text.split("\n"), old.split("\n")
    # Stripped lines between line ends: one text search finds a sequence of lines.
    bare, sought = f"\n{_bare(lines, plain)}\n", f"\n{_bare(wanted, plain)}\n"
    found = bare.find(sought)
    if found < 0:
        return None
    at = bare.count("\n", 0, found)
    lines[at : at + len(wanted)] = _indented(_indent(lines[at]), wanted, new.split("\n"))
    return "\n".join(lines)


def _is_plain(text: str) -> bool:
    return text.isascii() and not any(each in text for each in _UNLIKE)


def _bare(lines: list[str], plain: bool) -> str:
    return "\n".join(map(str.strip, lines) if plain else map(_BARE, lines))


def _indented(kept: str, old: list[str], new: list[str]) -> list[str]:
    """Return the new lines: the first with the indentation of the replaced line, the others relative to the first."""
    made = [kept + new[0].lstrip(_WHITE_ALL)]
    for number, line in enumerate(new[1:], 1):
        before, now = _indent(old[number]) if number < len(old) else "", _indent(line)
        relative = " " * max(0, len(now) - len(before))
        made.append(kept + relative + line.lstrip(_WHITE_ALL) if before and now else line)
    return made


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(_WHITE_ALL))]
