"""The two encodings that every text of a log uses, read strictly: base64, and decimal numbers.

Called by this room's parsers. Each value has exactly one form; any other is refused, so that no byte of a signed or a
proved text may be changed without being seen.
"""

from __future__ import annotations

from base64 import b64decode, b64encode

from readback.log.fault import LogFormatError
from readback.log.tree import HASH_BYTES, SIZE_MAX

_DIGITS_MAX = len(str(SIZE_MAX))


def base64_text(data: bytes) -> str:
    """RFC 4648, section 4, with padding."""
    return b64encode(data).decode("ascii")


def base64_bytes(text: str, what: str) -> bytes:
    """The bytes, where this is the one way to write them. Raises LogFormatError."""
    try:
        found = b64decode(text, validate=True)
    except ValueError as error:
        raise LogFormatError(f"The {what} is not base64.") from error
    if base64_text(found) != text:
        raise LogFormatError(f"The {what} is not base64 as it has to be written.")
    return found


def hash_bytes(text: str, what: str) -> bytes:
    """A hash in base64. Raises LogFormatError."""
    found = base64_bytes(text, what)
    if len(found) != HASH_BYTES:
        raise LogFormatError(f"The {what} has {len(found)} bytes in place of {HASH_BYTES}.")
    return found


def number(text: str, what: str) -> int:
    """A decimal number without leading zeroes, up to the size that a log may have. Raises LogFormatError."""
    plain = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX and (text == "0" or text[0] != "0")
    if not plain or int(text) > SIZE_MAX:
        raise LogFormatError(f"The {what} is no number as it has to be written.")
    return int(text)
