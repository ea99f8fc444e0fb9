"""The tokens of an expression, with positions, in one pass over the text.

`parser` reads the tokens. The size of the text is checked first. Raises ExpressionError.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final, NamedTuple

from readback.adapters.cel.faults import refused
from readback.canon.limits import (
    EXPRESSION_EXPONENT_MAX,
    EXPRESSION_MAX_BYTES,
    EXPRESSION_NUMBER_MAX_DIGITS,
)

_TOKEN: Final = re.compile(
    r"""
    (?P<skip>[ \t\n\f\r]+|//[^\n]*)
    |(?P<text>(?:[rR][bB]?|[bB][rR])(?:\"\"\".*?\"\"\"|'''.*?'''|"[^"\r\n]*"|'[^'\r\n]*')
        |[bB]?(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\\r\n])*"|'(?:\\.|[^'\\\r\n])*'))
    |(?P<number>0[xX][0-9a-fA-F]+[uU]?|(?:[0-9]+\.[0-9]+|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?[uU]?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<quoted>`[A-Za-z0-9_.\-/ ]+`)
    |(?P<mark>&&|\|\||[=!<>]=|[-+*/%!<>?:.,()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"""\\(?:([abfnrtv\\?"'`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.?))""",
    re.DOTALL,
)
_PLAIN: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_INSTEAD: Final = {
    "=": "Equality is written `==`.",
    "&": "Both are joined by `&&`.",
    "|": "Either is joined by `||`.",
    "'": "The text has no end.",
    '"': "The text has no end.",
    "#": "A remark begins with `//`.",
    ";": "An expression is one statement, without `;`.",
    "~": "There are no operations on bits.",
    "^": "There are no operations on bits.",
    "@": "It is no sign of an expression.",
    "$": "It is no sign of an expression; a field of that name is written `['$name']`.",
}


class Token(NamedTuple):
    """A token. `kind`: text, number, name, quoted, mark or end. `at` counts from 0."""

    kind: str
    text: str
    at: int


def bounded(source: str) -> None:
    """Raises ExpressionError for a long or empty text."""
    try:
        size = len(source.encode())
    except UnicodeEncodeError as error:
        raise refused("syntax", "The text is not Unicode: it holds half a character.", source) from error
    if size > EXPRESSION_MAX_BYTES:
        raise refused("limit", f"The expression has {size} bytes, over {EXPRESSION_MAX_BYTES}.", source[:80])


def tokens(source: str) -> list[Token]:
    """Return all tokens. The last has the kind `end`."""
    found: list[Token] = []
    at = 0
    while at < len(source):
        token = _next(source, at)
        if token.kind == "bad":
            raise _unreadable(source, at)
        if token.kind != "skip":
            found.append(token)
        at += len(token.text)
    found.append(Token("end", "", len(source)))
    return found


def end_of(source: str, at: int) -> int:
    """Return the position of the closing brace of a template's placeholder, or -1.

    The expression in the placeholder begins at the given position. Braces in texts and maps do not close the
    placeholder.
    """
    depth = 0
    while at < len(source):
        token = _next(source, at)
        if token.kind == "skip" and token.text.startswith("//"):
            return source.find("}", at)  # a comment would hide the rest of the template
        if token.text == "{":
            depth += 1
        elif token.text == "}":
            if not depth:
                return at
            depth -= 1
        at += len(token.text)
    return -1


def _next(source: str, at: int) -> Token:
    match = _TOKEN.match(source, at)
    if match is None:
        return Token("bad", source[at], at)
    return Token(match.lastgroup or "", match[0], at)


def _unreadable(source: str, at: int) -> Exception:
    sign = source[at]
    what = _INSTEAD.get(sign, f"{sign!r} is no sign of an expression; outside of texts there is ASCII alone.")
    return refused("syntax", f"Syntax error: {what}", source, at + 1)


def number(token: Token, source: str) -> int | Decimal:
    """Return the exact number of a token. Digits and exponent are bounded first."""
    text = token.text
    if text[-1] in "uU":
        text = text[:-1]
        if "." in text or (text[:2] not in ("0x", "0X") and ("e" in text or "E" in text)):
            raise refused("syntax", "Syntax error: an unsigned number is whole.", source, token.at + 1)
    if text[:2] in ("0x", "0X"):
        return int(text[2:], 16)
    if text.isdigit():
        if len(text) > EXPRESSION_NUMBER_MAX_DIGITS:
            raise refused("limit", "A number has too many digits.", source, token.at + 1)
        return int(text)
    mantissa, _, exponent = text.lower().partition("e")
    if (
        len(mantissa) > EXPRESSION_NUMBER_MAX_DIGITS
        or len(exponent) > 8
        or abs(int(exponent or "0")) > EXPRESSION_EXPONENT_MAX
    ):
        raise refused("limit", "A number has too many digits, or too large an exponent.", source, token.at + 1)
    return Decimal(text)


def text(token: Token, source: str) -> str | bytes:
    """Return the content of a quoted text."""
    written = token.text
    begun = len(written) - len(written.lstrip("rRbB"))
    marks = written[:begun].lower()
    body = written[begun:]
    width = 3 if len(body) >= 6 and body[:3] in ('"""', "'''") else 1
    inside = body[width:-width].replace("\r\n", "\n").replace("\r", "\n")
    if "b" in marks:
        return inside.encode() if "r" in marks else _bytes(inside, token, source)
    return inside if "r" in marks else _unescaped(inside, token, source)


def _unescaped(inside: str, token: Token, source: str) -> str:
    if "\\" not in inside:
        return inside

    def one(match: re.Match[str]) -> str:
        if match[1]:
            return _PLAIN.get(match[1], match[1])
        code = match[2] or match[3] or match[4]
        number = int(code, 16) if code else int(match[5], 8) if match[5] else -1
        if number < 0 or number > 0x10FFFF or 0xD800 <= number < 0xE000:
            raise _escape(match, token, source)
        return chr(number)

    return _ESCAPE.sub(one, inside)


def _bytes(inside: str, token: Token, source: str) -> bytes:
    found: list[bytes] = []
    at = 0
    for match in _ESCAPE.finditer(inside):
        found.append(inside[at : match.start()].encode())
        if match[1]:
            found.append(_PLAIN.get(match[1], match[1]).encode())
        elif match[2] or match[5]:
            found.append(bytes([int(match[2], 16) if match[2] else int(match[5], 8)]))
        else:
            raise _escape(match, token, source)
        at = match.end()
    found.append(inside[at:].encode())
    return b"".join(found)


def _escape(match: re.Match[str], token: Token, source: str) -> Exception:
    said = f"Syntax error: {match[0]!r} is no escape of a text; a backslash is written `\\\\`, or the text as r'...'."
    return refused("syntax", said, source, token.at + 1)
