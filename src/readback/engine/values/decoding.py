"""Finds a value in a text by decoding the text: whatever forms somebody may have written the value in, one in another.

Called by `secrecy`, `sdk.credentials` and the adapters of mail. A list of forms is never whole: services escape for
HTML, JSON, addresses, mail and SQL, in either case of letters, once or twice, and encode by base 64, 32 or 16. So all
of that is undone in the text, and the letters and digits of both sides are compared, without case or accents. Every
step is linear in the text. A text over TEXT_MAX_CHARACTERS is undone once.
"""

from __future__ import annotations

import html
import re
import unicodedata
from base64 import b32decode, b64decode
from binascii import Error as NotEncoded
from collections.abc import Iterable, Iterator
from typing import Final

TEXT_MAX_CHARACTERS: Final = 16_384
"""Undoing all of it again and again takes some 20 ms."""
ROUNDS_MAX: Final = 4
"""So often one encoding may stand in another."""
SURE_MIN_CHARACTERS: Final = 8
"""A value with fewer letters and digits is looked for as it is written: 12:34:56 is not the number 123456."""
SHORT_MIN_CHARACTERS: Final = 4
OVERLAP_MAX_CHARACTERS: Final = 1_024

_ESCAPE: Final = re.compile(
    r"\\(?:u\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{2})|([0-3]?[0-7]{1,2}))"
)
"""As JSON and program texts escape a character; a backslash before another one is no letter, and so does not count."""
_LETTER_ESCAPE: Final = re.compile(r"\\[abfnrtv0]")
_PERCENTS: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_QUOTED: Final = re.compile(r"=([0-9A-Fa-f]{2})|=\r?\n")
_BASE16: Final = re.compile(r"(?:[0-9A-Fa-f]{2}[\s:,-]{0,2}){6,}")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{8,}(?:\s{1,2}[A-Za-z0-9+/_-]{8,})*")
_BASE32: Final = re.compile(r"[A-Za-z2-7]{10,}(?:\s{1,2}[A-Za-z2-7]{8,})*")
_NO_WORD: Final = re.compile(r"[\W_]+")
_SPACE: Final = re.compile(r"\s+")


def squashed(text: str) -> str:
    """Its letters and digits, without case and accents: what every escaping leaves as it is."""
    plain = text if text.isascii() else unicodedata.normalize("NFKD", text)
    folded = plain.casefold()
    return _NO_WORD.sub("", folded if folded.isascii() else unicodedata.normalize("NFKD", folded))


class Sought:
    """Values that a text must not hold in any form."""

    __slots__ = ("_short", "_values")

    def __init__(self, values: Iterable[str]) -> None:
        found = {each: squashed(each) for each in values if len(each) >= SHORT_MIN_CHARACTERS}
        self._values = tuple(sorted({plain for plain in found.values() if len(plain) >= SURE_MIN_CHARACTERS}))
        self._short = tuple(sorted(each for each, plain in found.items() if len(plain) < SURE_MIN_CHARACTERS))

    def stands_in(self, text: str, *, cut: bool = False) -> bool:
        """Whether the text holds a value in any form; `cut`: or ends with the beginning of one."""
        if not (self._values or self._short) or len(text) < SHORT_MIN_CHARACTERS:
            return False
        deep = len(text) <= TEXT_MAX_CHARACTERS
        seen: set[str] = set()
        layer = [text]
        for _ in range(ROUNDS_MAX if deep else 1):
            following: list[str] = []
            for each in layer:
                for form in (each, *_undone(each, each_way=deep)):
                    if form in seen:
                        continue
                    seen.add(form)
                    if self._in_plain(form, cut=cut):
                        return True
                    following += _decoded(form) if deep else ()
                    if form is not each:
                        following.append(form)
            layer = following
        return any(self._in_plain(each, cut=False) for each in layer)

    def _in_plain(self, text: str, *, cut: bool) -> bool:
        if any(each in text for each in self._short):
            return True
        plain = squashed(text) if self._values else ""
        if any(each in plain for each in self._values):
            return True
        return cut and any(_ends_with_begun(plain, each) for each in self._values)


def _ends_with_begun(plain: str, value: str) -> bool:
    longest = min(len(plain), len(value), OVERLAP_MAX_CHARACTERS)
    return any(plain.endswith(value[:size]) for size in range(SURE_MIN_CHARACTERS, longest + 1))


def _undone(text: str, *, each_way: bool) -> Iterator[str]:
    """The text with what escapes characters undone: one after the other, and each way by itself where that is asked."""
    whole = text
    for undo in (_without_entities, _without_escapes, _without_percents, _without_quoted):
        one = undo(text) if each_way else text
        if one is not text:
            yield one
        whole = undo(whole)
    if whole is not text:
        yield whole


def _without_entities(text: str) -> str:
    return html.unescape(text) if "&" in text else text


def _without_escapes(text: str) -> str:
    if "\\" not in text:
        return text
    return _as_utf8(_LETTER_ESCAPE.sub(" ", _ESCAPE.sub(_escaped, text)))


def _escaped(found: re.Match[str]) -> str:
    number = int(found[5], 8) if found[5] else int(next(filter(None, found.groups())), 16)
    return chr(number) if number < 0x110000 else ""


def _without_percents(text: str) -> str:
    if "%" not in text:
        return text
    return _PERCENTS.sub(lambda found: bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "replace"), text)


def _without_quoted(text: str) -> str:
    if "=" not in text:
        return text
    return _as_utf8(_QUOTED.sub(lambda found: chr(int(found[1], 16)) if found[1] else "", text))


def _as_utf8(text: str) -> str:
    """The text where its characters are characters, and not the bytes of one in UTF-8."""
    if text.isascii():
        return text
    try:
        return text.encode("latin-1").decode("utf-8")
    except (UnicodeEncodeError, UnicodeDecodeError):
        return text


def _decoded(text: str) -> Iterator[str]:
    """What the stretches of a text are that may be base 64, 32 or 16, as far as they are text then."""
    for found in _BASE16.finditer(text):
        digits = re.sub(r"[\s:,-]", "", found[0])
        for at in (0, 1):  # a digit before it may be another word's
            some = digits[at:]
            yield _text(bytes.fromhex(some[: len(some) - len(some) % 2]))
    for found in _BASE64.finditer(text):
        letters = _SPACE.sub("", found[0]).replace("-", "+").replace("_", "/")
        yield from _of_base64(letters)
    for found in _BASE32.finditer(text):
        yield from _of_base32(_SPACE.sub("", found[0]).upper())


def _of_base64(letters: str) -> Iterator[str]:
    """From its beginning, and from the next three letters on: a word may stand right before it."""
    for at in range(4):
        some = letters[at:]
        some = some[:-1] if len(some) % 4 == 1 else some
        try:
            yield _text(b64decode(some + "=" * (-len(some) % 4)))
        except (NotEncoded, ValueError):
            continue


def _of_base32(letters: str) -> Iterator[str]:
    """From its beginning, and from the next seven letters on."""
    for at in range(8):
        some = letters[at:]
        try:
            yield _text(b32decode(some[: len(some) - len(some) % 8] + _last(some)))
        except (NotEncoded, ValueError):
            continue


def _last(letters: str) -> str:
    """The last group of base 32, filled up where it is one."""
    rest = letters[len(letters) - len(letters) % 8 :]
    whole = max((size for size in (0, 2, 4, 5, 7) if size <= len(rest)), default=0)
    return rest[:whole] + "=" * (8 - whole) if whole else ""


def _text(raw: bytes) -> str:
    if raw.count(0) * 3 > len(raw):  # two bytes a letter
        return raw.decode("utf-16-be" if raw[:1] == b"\0" else "utf-16-le", "ignore")
    return raw.decode("utf-8", "ignore")
