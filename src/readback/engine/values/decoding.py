"""Find a value in a text by decoding the text, through any nesting of usual encodings.

Called by `redaction`, by the credentials check and by the mail adapters. A list of forms is never complete: services
escape for HTML, JSON, addresses, mail and SQL, in either case of letters, once or twice, and encode by base 64, 32 or
16. So every decoding is applied to the text, and the letters and digits of both sides are compared, without case or
accents. Every step is linear in the text. A text over TEXT_MAX_CHARACTERS is decoded once.
"""

from __future__ import annotations

import html
import re
from base64 import b64decode
from binascii import Error as NotEncoded
from collections.abc import Iterable, Iterator
from typing import Final

from readback.canon.unicode_forms import normalized, without_marks

TEXT_MAX_CHARACTERS: Final = 16_384
"""Repeated decoding of this much text takes about 20 ms."""
ROUNDS_MAX: Final = 4
"""The maximum nesting of encodings."""
SURE_MIN_CHARACTERS: Final = 8
"""A value with fewer letters and digits is searched as written: 12:34:56 is not the number 123456."""
SHORT_MIN_CHARACTERS: Final = 4
OVERLAP_MAX_CHARACTERS: Final = 1_024

_ESCAPE: Final = re.compile(
    r"\\(?:u\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{2})|([0-3]?[0-7]{1,2}))"
)
"""A character's escape in JSON and program texts. A backslash before another character is no letter, and so does not
count.
"""
_LETTER_ESCAPE: Final = re.compile(r"\\[abfnrtv0]")
_PERCENTS: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_QUOTED: Final = re.compile(r"=([0-9A-Fa-f]{2})|=\r?\n")
_BASE16: Final = re.compile(r"(?:[0-9A-Fa-f]{2}[\s:,-]{0,2}){6,}")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{8,}(?:\s{1,2}[A-Za-z0-9+/_-]{8,})*")
_BASE32: Final = re.compile(r"[A-Za-z2-7]{10,}(?:\s{1,2}[A-Za-z2-7]{8,})*")
_NO_WORD: Final = re.compile(r"[\W_]+")
_SPACE: Final = re.compile(r"\s+")


def squashed(text: str) -> str:
    """Letters and digits without case and accents: unchanged by every escaping."""
    plain = text if text.isascii() else normalized("NFKD", without_marks(text))
    folded = plain.casefold()
    return _NO_WORD.sub("", folded if folded.isascii() else normalized("NFKD", folded))


class Sought:
    """Values forbidden in a text, in any form."""

    __slots__ = ("_short", "_values")

    def __init__(self, values: Iterable[str]) -> None:
        found = {each: squashed(each) for each in values if len(each) >= SHORT_MIN_CHARACTERS}
        self._values = tuple(sorted({plain for plain in found.values() if len(plain) >= SURE_MIN_CHARACTERS}))
        self._short = tuple(sorted(each for each, plain in found.items() if len(plain) < SURE_MIN_CHARACTERS))

    def stands_in(self, text: str, *, cut: bool = False) -> bool:
        """Whether the text holds a value in any form. `cut`: or ends with the beginning of a value."""
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
    """The unescaped text: all escapes in turn and, with `each_way`, each kind by itself."""
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
    """The text, decoded again if its characters are the bytes of UTF-8."""
    if text.isascii():
        return text
    try:
        return text.encode("latin-1").decode("utf-8")
    except (UnicodeEncodeError, UnicodeDecodeError):
        return text


def _decoded(text: str) -> Iterator[str]:
    """The decoded stretches of possible base 64, 32 or 16."""
    for found in _BASE16.finditer(text):
        digits = re.sub(r"[\s:,-]", "", found[0])
        for at in (0, 1):  # the digit before may belong to another word
            some = digits[at:]
            yield _text(bytes.fromhex(some[: len(some) - len(some) % 2]))
    for found in _BASE64.finditer(text):
        letters = _SPACE.sub("", found[0]).replace("-", "+").replace("_", "/")
        yield from _of_base64(letters)
    for found in _BASE32.finditer(text):
        yield from _of_base32(_SPACE.sub("", found[0]).upper())


def _of_base64(letters: str) -> Iterator[str]:
    """Decode from the first four offsets: a word may directly precede the encoded text."""
    for at in range(4):
        some = letters[at:]
        some = some[:-1] if len(some) % 4 == 1 else some
        try:
            yield _text(b64decode(some + "=" * (-len(some) % 4)))
        except (NotEncoded, ValueError):
            continue


def _of_base32(letters: str) -> Iterator[str]:
    """Decode from the first eight offsets.

    The letters become the digits of a number, because the standard library's decoder takes ten times as long.
    """
    digits = letters.translate(_BASE32_DIGITS)
    for at in range(min(8, len(digits) - 1)):
        length = len(digits) - at
        used = length - length % 8 + max(size for size in (0, 2, 4, 5, 7) if size <= length % 8)
        raw_bytes = used * 5 // 8
        number = int(digits[at : at + used], 32) >> (used * 5 - raw_bytes * 8)
        yield _text(number.to_bytes(raw_bytes, "big"))


_BASE32_DIGITS: Final = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "0123456789ABCDEFGHIJKLMNOPQRSTUV")


def _text(raw: bytes) -> str:
    if raw.count(0) * 3 > len(raw):  # two bytes a letter
        return raw.decode("utf-16-be" if raw[:1] == b"\0" else "utf-16-le", "ignore")
    return raw.decode("utf-8", "ignore")
