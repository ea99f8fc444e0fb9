"""Injection checks of templates and of their values, by the place of a value.

Called by `system_options` when a contract is loaded (`sound_*`) and for each call (`safe_*`). The adapters check again,
with their own code. Here a fault has its place in the file, and a bad value is stopped before any system is reached.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, quote, urlsplit

from readback.contracts.files.templates.template import CompiledTemplate, Values
from readback.errors import ContractFieldError, TemplateError
from readback.ports.system_factory import TemplateParts

HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
SERVER_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_\-]{0,63}")
SECRET_HEADERS: Final = frozenset(
    {"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token", "x-access-token"}
)
_SECRET_NAME: Final = re.compile(
    r"(?i)(?:^|_)(?:api|pg|access|auth|private|secret)?(?:key|token|secret|password|passwd|pwd|credentials?)(?:$|_)|_pass$"
)
_SECRET_HEADER: Final = re.compile(r"(?i)(?:^|-)(?:api-?key|auth-key|token|secret|password)$")
_LOGIN: Final = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#@:]*:[^\s/?#@]+@")
_DATABASE_LOGIN: Final = re.compile(r"postgres(?:ql)?://[^:@/?]*:(?!\d*[,/?])[^?]*@")
"""A login with a slash in the password, as people write."""
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SQL_TOKEN: Final = re.compile(r"'|\"|`|--|/\*|\[|\]|\*/|\n|\$\w*\$")
_SQL_QUOTED: Final = re.compile(
    r"""\b[eE]'(?:[^'\\]|\\.)*'|'(?:[^']|'')*'|"[^"]*"|`[^`]*`|--[^\n]*|/\*.*?\*/|\$([A-Za-z_]\w*)?\$.*?\$\1\$""",
    re.DOTALL,
)
SELECTS: Final = r"\s*(?:\(|(?:[sS][eE][lL][eE][cC][tT]|[wW][iI][tT][hH]|[vV][aA][lL][uU][eE][sS])\b)"
"""Valid in both dialects of patterns: editors use the pattern too."""
_SQL_FURTHER: Final = re.compile(r";\s*[^\s;]")
_UP: Final = re.compile(r"(?:^|[/\\])\.{1,2}(?:[/\\]|$)")
"""Parent steps, also within one encoded segment: some proxies and services decode a segment before the check."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def sound_statement(fill: CompiledTemplate, *, reads: bool) -> None:
    """Allow a value only in a parameter's place: not in a quoted text, a quoted name or a comment.

    Raises ContractFieldError.
    """
    inside = ""
    for number, text in enumerate(fill.texts):
        inside = _sql_inside(text, inside)
        if inside and number < len(fill.texts) - 1:
            raise ContractFieldError(
                f"{{{fill.holes[number].predicate.source:.60}}} stands within {_SQL_PLACES[inside]}: "
                "it is bound as a parameter, so write it without quotes."
            )
    if re.search("[A-Za-z]", "".join(fill.texts)) is None:
        raise ContractFieldError("Not a statement. Write the SQL in the file; values in braces are bound.")
    if reads and re.match(SELECTS, fill.texts[0]) is None:
        raise ContractFieldError("The statement must only read: begin with select, with or values.")
    if reads and _SQL_FURTHER.search(_SQL_QUOTED.sub(" ", "?".join(fill.texts))):
        raise ContractFieldError("Only one statement is allowed, and another follows the semicolon.")


_SQL_PLACES: Final = {
    "'": "a quoted text", '"': "a quoted name", "`": "a quoted name", "[": "a quoted name", "--": "a comment",
    "/*": "a comment", "$": "a quoted text",
}  # fmt: skip
_SQL_ENDS: Final = {"'": "'", '"': '"', "`": "`", "[": "]", "--": "\n", "/*": "*/"}


def _sql_inside(text: str, inside: str) -> str:
    """Return the open construct at the end of a text. Dollar quotes are not parsed: after one, no value is bound."""
    for found in _SQL_TOKEN.finditer(text):
        token = found[0]
        if inside:
            if token == _SQL_ENDS.get(inside):
                inside = ""
        elif token.startswith("$"):
            inside = "$"
        elif token in _SQL_ENDS:
            inside = token
    return inside


def sound_address(fill: CompiledTemplate) -> None:
    """Require a path from the root of the service. Raises ContractFieldError."""
    written = "".join(fill.texts)
    if not fill.texts[0].startswith("/") or fill.texts[0].startswith("//"):
        raise ContractFieldError("A path must begin with one slash, not with a value.")
    if any(sign in written for sign in "?#{}\\") or _CONTROL.search(written):
        raise ContractFieldError("A path holds no '?', '#', '\\' or braces; a query stands under `query`.")
    if any(step in (".", "..") for step in written.split("/")):
        raise ContractFieldError("A path must not contain '.' or '..' segments.")


def safe_address(fill: CompiledTemplate, values: Values) -> TemplateParts:
    """Return the address; each value is one segment, or a part of one. Raises TemplateError."""
    found = fill.pieces(values)
    for hole, value in zip(fill.holes, found.values, strict=True):
        if type(value) not in (str, int) or value == "":
            raise TemplateError(f"{{{hole.predicate.source:.80}}} cannot stand in an address.")
        if _UP.search(str(value)):
            raise TemplateError(f"{{{hole.predicate.source:.80}}} would lead to another path of the service.")
    whole = found.texts[0] + "".join(
        quote(str(value), safe="", errors="replace") + text
        for value, text in zip(found.values, found.texts[1:], strict=True)
    )
    if any(step in (".", "..") for step in whole.split("/")):
        raise TemplateError("The values would lead to another path of the service.")
    return found


def sound_header(name: str, fill: CompiledTemplate | None) -> None:
    """Check a header. `fill`: None for a reference. Raises ContractFieldError."""
    if HEADER.fullmatch(name) is None:
        raise ContractFieldError(f"{name!r:.60} is not a valid header name.")
    if fill is not None and (name.lower() in SECRET_HEADERS or (fill.fixed and is_secret_header(name))):
        raise ContractFieldError(f"{name} is a credential. Use a reference: {{env: NAME}} or {{file: PATH}}.")
    if fill is not None and any(_CONTROL.search(text) for text in fill.texts):
        raise ContractFieldError("A header must not contain control characters.")


def is_secret_header(name: str) -> bool:
    """Return whether a header of this name holds a credential."""
    return name.lower() in SECRET_HEADERS or _SECRET_HEADER.search(name) is not None


def is_line(text: str) -> bool:
    """Return whether a text is one line, without control characters."""
    return not _CONTROL.search(text) and not any(sign in text for sign in "\x85\u2028\u2029")


def safe_ascii(fill: CompiledTemplate, values: Values) -> str:
    """Return one ASCII line of an HTTP header. Raises TemplateError."""
    text = safe_line(fill, values)
    if not text.isascii():
        raise TemplateError(f"{fill.source!r:.80} is not ASCII, and HTTP headers allow only ASCII.")
    return text


def safe_line(fill: CompiledTemplate, values: Values) -> str:
    """Return one line of a header. Raises TemplateError."""
    text = fill.text(values)
    if not is_line(text):
        raise TemplateError(f"{fill.source!r:.80} would put a line break or a control character into a header.")
    return text


def safe_path(fill: CompiledTemplate, values: Values) -> str:
    """Return a path; the adapter confines the path to its root. Raises TemplateError."""
    text = fill.text(values)
    if not text or "\0" in text:
        raise TemplateError(f"{fill.source!r:.80} names no file.")
    return text


def sound_variable(name: str, literal: bool) -> None:
    """Raises ContractFieldError for an invalid name, and for a literal credential."""
    if VARIABLE.fullmatch(name) is None:
        raise ContractFieldError(f"{name!r:.60} is not a valid variable name.")
    if literal and _SECRET_NAME.search(name):
        raise ContractFieldError(f"{name} looks like a credential. Use a reference: {{env: NAME}} or {{file: PATH}}.")


def sound_text(text: str) -> None:
    """Raises ContractFieldError for an address with a password, or with a key in the query."""
    if "://" in text and (_LOGIN.search(text) or _asks_with_one(text)):
        raise ContractFieldError("An address must not contain credentials. Use references.")


def _asks_with_one(url: str) -> bool:
    """Return whether a name in the query means a credential."""
    asked = [each.partition("=") for each in url.partition("?")[2].split("&")]
    return any(value and _SECRET_NAME.search(_HUMP.sub("_", name.replace("-", "_"))) for name, _, value in asked)


def holds_credential(text: str, before: str = "") -> bool:
    """Return whether a command's element, or an address, looks like a credential. `before`: the preceding element."""
    name, equals, value = text.partition("=")
    named = name if equals and value else before if before.startswith("-") and not text.startswith("-") else ""
    if _SECRET_NAME.search(named.strip("-").replace("-", "_")):
        return True
    if "://" not in text:
        return False
    try:
        held = _holds_login(urlsplit(text))
    except ValueError:
        return True
    return held or _asks_with_one(text)


def _holds_login(parts: SplitResult) -> bool:
    """Return whether an address has a password, or a name that may be a key. For a service the key often stands in
    place of the name. For a database the name is the user's, and no secret.
    """
    if parts.scheme in ("postgresql", "postgres"):
        return parts.password is not None
    return parts.username is not None or parts.password is not None


def sound_url(text: str) -> None:
    """Raises ContractFieldError for an address with a password, and for anything but an address."""
    try:
        parts = urlsplit(text)
        held = _holds_login(parts)
    except ValueError as error:  # whose words may hold the password
        raise ContractFieldError("Not an address. Example: https://host.") from error
    if held or "password=" in text.lower() or _asks_with_one(text) or _DATABASE_LOGIN.match(text):
        raise ContractFieldError("An address must not contain credentials. Use references.")
    local = text.startswith(("postgresql:///", "postgres:///"))  # by a socket of this machine
    if not parts.scheme or not (parts.netloc or local):
        raise ContractFieldError("Not an address. Example: https://host.")
