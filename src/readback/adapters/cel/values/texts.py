"""Operations on texts: parts, forms, digests, and patterns in linear time by RE2."""

from __future__ import annotations

from base64 import b64decode
from functools import lru_cache
from typing import Any, Final

from readback.adapters.cel.faults import VISIT, Fault, Frame, spend, wrong
from readback.adapters.cel.values.kinds import kind_of
from readback.canon import BYTES_KEY, sha256_hex
from readback.canon.limits import EXPRESSION_PATTERN_MAX_CHARS, STRING_MAX_BYTES
from readback.canon.unicode_forms import RUN_MAX_CHARACTERS, has_long_run, normalized

_NEEDLE_MAX: Final = 100
"""From this length on, Python's search is linear for all texts. For shorter needles, this length bounds the slowdown.
"""
"""Maximum combining characters in a row, as in the Stream-Safe Text Format of UAX 15. More are never sorted here."""
WHITE: Final = (
    "\t\n\v\f\r \x85\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f"
    "\u205f\u3000"
)
"""The White_Space property of Unicode."""
_PATTERN_MEMORY_BYTES: Final = 1_048_576
_PATTERNS_KEPT: Final = 64


def _two(frame: Frame, name: str, text: Any, part: Any) -> None:
    if not isinstance(text, str) or not isinstance(part, str):
        raise wrong(f"{name} takes two texts, not {kind_of(text)} and {kind_of(part)}")


def starts_with(frame: Frame, text: Any, part: Any) -> bool:
    _two(frame, "startsWith", text, part)
    spend(frame, len(part))
    return bool(text.startswith(part))


def ends_with(frame: Frame, text: Any, part: Any) -> bool:
    _two(frame, "endsWith", text, part)
    spend(frame, len(part))
    return bool(text.endswith(part))


def contains(frame: Frame, text: Any, part: Any) -> bool:
    _two(frame, "contains", text, part)
    spend(frame, len(text) * (1 + min(len(part), _NEEDLE_MAX) // 8) + len(part))
    return bool(part in text)


def matches(frame: Frame, text: Any, pattern: Any) -> bool:
    """Return whether the pattern occurs anywhere in the text."""
    _two(frame, "matches", text, pattern)
    spend(frame, 8 * VISIT + 64 * len(pattern))
    compiled, size = _pattern(pattern)
    spend(frame, len(text) * (4 + size))
    return compiled.search(_bytes(text)) is not None


@lru_cache(maxsize=_PATTERNS_KEPT)
def _pattern(pattern: str) -> tuple[Any, int]:
    """Return the compiled pattern and the size of its program. RE2 is loaded only here."""
    why = unfit_pattern(pattern)
    if why:
        raise wrong(why)
    compiled = _compiled(pattern)
    return compiled, int(compiled.programsize)


def _compiled(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _PATTERN_MEMORY_BYTES
    return re2.compile(_bytes(pattern), options)


def unfit_pattern(pattern: str) -> str:
    """Return why a text is not a pattern, or ""."""
    import re2

    if len(pattern) > EXPRESSION_PATTERN_MAX_CHARS:
        return f"a pattern has over {EXPRESSION_PATTERN_MAX_CHARS} characters"
    try:
        _compiled(pattern)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        return f"a text is no pattern of RE2: {said.decode(errors='replace') if isinstance(said, bytes) else said}"
    return ""


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise wrong("a text holds half a character") from error


# --- forms ---


def _one(frame: Frame, name: str, text: Any) -> None:
    if not isinstance(text, str):
        raise wrong(f"{name} takes a text, not {kind_of(text)}")
    spend(frame, 4 * len(text))


def lower_ascii(frame: Frame, text: Any) -> str:
    """Lower A to Z. Other characters stay."""
    _one(frame, "lowerAscii", text)
    return str(text.lower() if text.isascii() else _ascii(text, upper=False))


def upper_ascii(frame: Frame, text: Any) -> str:
    """Raise a to z. Other characters stay."""
    _one(frame, "upperAscii", text)
    return str(text.upper() if text.isascii() else _ascii(text, upper=True))


def _ascii(text: str, *, upper: bool) -> str:
    raw = text.encode("utf-8", "surrogatepass")
    return (raw.upper() if upper else raw.lower()).decode("utf-8", "surrogatepass")


def trim(frame: Frame, text: Any) -> str:
    """Remove white space at both ends."""
    _one(frame, "trim", text)
    return str(text.strip(WHITE))


def nfc(frame: Frame, text: Any) -> str:
    """Convert to Unicode's composed form."""
    _one(frame, "nfc", text)
    if text.isascii():
        return str(text)
    spend(frame, 32 * len(text))
    if has_long_run(text):
        raise Fault("limit", f"a text has over {RUN_MAX_CHARACTERS} combining characters in a row")
    return normalized("NFC", text)


def joined(frame: Frame, one: str, other: str) -> str:
    if len(one) + len(other) > STRING_MAX_BYTES:
        raise Fault("limit", "a text that is put together is too long")
    spend(frame, len(one) + len(other))
    return one + other


# --- digests ---


def sha256(frame: Frame, data: Any) -> str:
    """Return the SHA-256 of a text in UTF-8, or of bytes, in hexadecimal digits."""
    if isinstance(data, str):
        spend(frame, 4 * len(data))
        return sha256_hex(_bytes(data))
    if isinstance(data, bytes):
        spend(frame, 4 * len(data))
        return sha256_hex(data)
    if isinstance(data, dict) and data.keys() == {BYTES_KEY} and isinstance(data[BYTES_KEY], str):
        spend(frame, 4 * len(data[BYTES_KEY]))
        try:
            return sha256_hex(b64decode(data[BYTES_KEY], validate=True))
        except ValueError as error:
            raise wrong("the bytes are not base64") from error
    raise wrong(f"sha256 takes a text or bytes, not {kind_of(data)}")
