"""A text as a human sees it: similar letters become the same letter, and invisible characters disappear.

Used to find declarations and imitations of citations, never to parse a citation. Folding only makes the check stricter.
The table covers the letters of our two keywords, not every deceptive character.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from types import MappingProxyType
from typing import Final

_LOOKALIKES: Final = MappingProxyType(
    {
        "a": "\u0430\u03b1\u0251",
        "b": "\u044c\u0432\u0185",
        "c": "\u0441\u03f2",
        "d": "\u0501\u0257",
        "e": "\u0435\u0454\u03b5\u04bd",
        "k": "\u043a\u03ba",
        "n": "\u0578\u057c\u043f\u03b7",
        "o": "\u043e\u03bf\u0585\u04e9\u0966",
        "r": "\u0433\u1d26",
        ":": "\u02d0\u02f8\u0589\u05c3\u2236\ua789",
        "[": "\u27e6\u3010\u3014\u2772",
        "]": "\u27e7\u3011\u3015\u2773",
    }
)
"""Cyrillic, Greek, Armenian and other characters, by the similar Latin letter."""
_LOOKS: Final = {look: letter for letter, looks in _LOOKALIKES.items() for look in looks}
_UNSEEN: Final = frozenset({"Cf", "Mn", "Me", "Cc"})
_BLANK_LETTERS: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800")


def folded(text: str) -> str:
    """The visible text in lower case. Line breaks stay in place."""
    return text.lower() if text.isascii() and text.isprintable() else "".join(map(_fold, text))


@lru_cache(maxsize=4096)
def _fold(character: str) -> str:
    if character in "\n\r\t" or " " <= character <= "~":
        return character.lower()
    if character in _BLANK_LETTERS or unicodedata.category(character) in _UNSEEN:
        return ""
    parts = unicodedata.normalize("NFKD", character).casefold()
    return "".join(_LOOKS.get(part, part) for part in parts if unicodedata.category(part) not in _UNSEEN)
