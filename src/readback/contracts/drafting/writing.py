"""Writes a draft as YAML: values parse back unchanged, and comments stay comments.

Called by `draft`. No text is trusted: a character that could end a line or control a terminal is written by number.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from readback.canon.frozen import dataclass
from readback.contracts.files.undecided import MARK

COLUMNS: Final = 116
COMMENT_MAX_CHARS: Final = 400
_PLAIN: Final = re.compile(r"[A-Za-z/_][A-Za-z0-9 _./{}()=!<>+*&|'-]*(?<! )")
_WORDS_OF_YAML: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_. -]*(?<! )")
_FLOW: Final = re.compile(r"[A-Za-z/_][A-Za-z0-9_./-]*")


@dataclass(frozen=True, slots=True)
class Line:
    """A key with its value, and the comment above. Within a list the key is "", and the value is lines."""

    key: str
    value: Value
    said: tuple[str, ...] = ()


Value: TypeAlias = str | tuple[str, ...] | list[Line]
"""A text, a list of texts on one line, or more lines below."""


def rendered(lines: Sequence[Line]) -> str:
    """The document."""
    return "\n".join(_block(lines, 0)) + "\n"


def plain(lines: Sequence[Line]) -> object:
    """Return the value after parsing."""
    if lines and not lines[0].key:
        return [_plain(line.value) for line in lines]
    return {line.key: _plain(line.value) for line in lines}


def shown(text: str, limit: int = COMMENT_MAX_CHARS) -> str:
    """Return third-party text on one line, bounded: a character besides letters, signs and blanks is written by number.
    The text holds no quotes, so it cannot end the quotes around it.
    """
    joined = " ".join(text[: 4 * limit].split())
    found = "".join(map(_visible, joined)).replace('"', "'")
    cut = len(found) > limit or len(text) > 4 * limit
    return found[: limit - 1].rstrip() + "…" if cut else found


def scalar(text: str) -> str:
    """Return a text as YAML, within a block: without quotes where safe, with or without the mark."""
    bare = text.removeprefix(f"{MARK} ")
    sound = _PLAIN.fullmatch(text) and _PLAIN.fullmatch(bare) and bare.lower() not in _WORDS_OF_YAML
    return text if sound else _in_quotes(text)


def _plain(value: Value) -> object:
    if isinstance(value, str):
        return value
    return [*value] if isinstance(value, tuple) else plain(value)


def _block(lines: Sequence[Line], depth: int) -> Iterator[str]:
    pad = "  " * depth
    for line in lines:
        for said in line.said:
            wrapped = textwrap.wrap(said, COLUMNS - len(pad) - 2, subsequent_indent="  ", break_on_hyphens=False)
            yield from (f"{pad}# {each}" for each in wrapped)
        if line.key:
            yield from _entry(line, f"{pad}{_key(line.key)}:", depth)
        else:
            yield from _element(line, pad, depth)


def _entry(line: Line, head: str, depth: int) -> Iterator[str]:
    match line.value:
        case str() as text:
            yield f"{head} {scalar(text)}"
        case tuple() as texts:
            yield f"{head} [{', '.join(_in_flow(each) for each in texts)}]"
        case lines:
            yield head
            yield from _block(lines, depth + 1)


def _element(line: Line, pad: str, depth: int) -> Iterator[str]:
    """Return an element of a list: the first line has the dash."""
    assert isinstance(line.value, list)
    first, *rest = _block(line.value, depth + 1)
    yield f"{pad}- {first.removeprefix(pad + '  ')}"
    yield from rest


def _in_flow(text: str) -> str:
    return text if _FLOW.fullmatch(text) and text.lower() not in _WORDS_OF_YAML else _in_quotes(text)


def _key(text: str) -> str:
    return text if _KEY.fullmatch(text) and text.lower() not in _WORDS_OF_YAML else _in_quotes(text)


def _in_quotes(text: str) -> str:
    return f'"{"".join(map(_quoted, text))}"'


def _visible(character: str) -> str:
    kind = unicodedata.category(character)
    if kind[0] != "C" and kind not in ("Zl", "Zp"):
        return character
    return _numbered(character)


def _quoted(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character == " " or (character.isprintable() and character.isascii()) or character.isalnum():
        return character
    return _numbered(character)


def _numbered(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"
