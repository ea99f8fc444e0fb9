"""Normal forms: whether two spellings are the same name.

Used for the target of a reading, for frozen subjects, and for a key made of an operation's fields. Pure: a file
system's or database's own rules arrive with a reading (`Reading.forms`).

Three answers exist. Names equal in the *narrow* form (declared by the contract, or stated by the system) are the same.
Names different in the *widest* form are different. Between the two the answer is open, and a difference of spelling is
no fault.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import Final

from readback.canon import Json
from readback.canon.unicode_forms import normalized

WIDEST_MAX_BYTES: Final = 2_048
"""Size limit of a widest form in the index of frozen targets. A longer form is indexed by its hash."""


class NormalForm(StrEnum):
    """The word after `as` in `identity`: the system of record's rule for comparing such names."""

    EXACT = "exact"
    """Character by character."""
    NFC = "nfc"
    """Texts with canonical equivalence in Unicode are equal."""
    CASEFOLD = "casefold"
    """Upper and lower case are equal, and so are canonically equivalent texts."""
    UUID = "uuid"
    """A UUID in any spelling: capitals, without hyphens, in braces, with `urn:uuid:`."""
    EMAIL = "email"
    """An address: the domain without regard to case, the local part as written."""
    PATH = "path"
    """A path: `./`, doubled slashes and a final slash are ignored. `..` stays, since links decide its meaning."""


_UUID: Final = re.compile(r"\{?[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\}?", re.IGNORECASE)
_URN: Final = "urn:uuid:"
DOMAIN_MAX_CHARACTERS: Final = 253
"""DNS has no longer name. The codec takes a second for 200,000 characters."""
_ARGUMENT: Final = re.compile(r"\{requested\.([A-Za-z_]\w*)\}")
_SIGNS: Final = re.compile("[/:]")


def _uuid(text: str) -> str:
    bare = text[len(_URN) :] if text[: len(_URN)].lower() == _URN else text
    if _UUID.fullmatch(bare) is None or (bare[:1] == "{") is not (bare[-1:] == "}"):
        return text
    return bare.strip("{}").replace("-", "").lower()


def _email(text: str) -> str:
    local, at, domain = text.rpartition("@")
    return f"{local}@{_domain(domain)}" if at else text


def _domain(domain: str) -> str:
    """The domain in DNS letters. DNS compares without regard to case."""
    if domain.isascii():
        return domain.lower()
    if len(domain) > DOMAIN_MAX_CHARACTERS:
        return domain  # not a DNS name
    try:
        return domain.encode("idna").decode("ascii").lower()
    except UnicodeError:
        return domain  # not a DNS name: equal only to the same text


def _path(text: str) -> str:
    parts = [part for part in text.split("/") if part not in ("", ".")]
    return ("/" if text.startswith("/") else "") + "/".join(parts) or "."


def _nfc(text: str) -> str:
    return normalized("NFC", text)


def _folded(text: str) -> str:
    return text.lower() if text.isascii() else normalized("NFC", normalized("NFD", text).casefold())


def _exact(text: str) -> str:
    return text


_RULES: Final[Mapping[NormalForm, Callable[[str], str]]] = MappingProxyType(
    {
        NormalForm.EXACT: _exact,
        NormalForm.NFC: _nfc,
        NormalForm.CASEFOLD: _folded,
        NormalForm.UUID: _uuid,
        NormalForm.EMAIL: _email,
        NormalForm.PATH: _path,
    }
)


def normal(forms: Iterable[NormalForm], text: str) -> str:
    """Return `text` in these forms. Names equal in the forms are the same name to such a system."""
    for form in forms:
        text = _RULES[form](text)
    return text


def widest(text: str) -> str:
    """Return `text` without every difference ignored by any known system.

    Ignored: case, Unicode form, surrounding blanks, URL percent signs, the spelling of slashes and dots, and the
    spelling of UUIDs. For checks that must not be evaded. Never for verification, since some systems distinguish such
    names.
    """
    if text.isascii() and not _TELLING.search(text):
        plain = text.lower()
    else:
        plain = _folded(_email(_one_way(_decoded(text).strip())))
        plain = _UUID.sub(lambda found: found[0].strip("{}").replace("-", ""), plain.replace(_URN, ""))
    if len(plain) * 4 > WIDEST_MAX_BYTES and len(plain.encode(errors="replace")) > WIDEST_MAX_BYTES:
        return "sha256:" + sha256(plain.encode(errors="surrogatepass")).hexdigest()
    return plain


_TELLING: Final = re.compile(r"[%\\{]|//|/\.|^\./|/$|^\s|\s$|[:@]\s|\s[:@]|urn:uuid:|[0-9A-Fa-f]{8}-?[0-9A-Fa-f]{4}")
"""Patterns with another spelling in an ASCII text, case aside."""


_ESCAPES: Final = re.compile("(?:%[0-9A-Fa-f]{2})+")


def _decoded(text: str) -> str:
    """Decode a URL's percent signs. Undecodable bytes stay unchanged."""
    try:
        return _ESCAPES.sub(lambda found: bytes.fromhex(found[0].replace("%", "")).decode(), text)
    except UnicodeDecodeError:
        return text


def _one_way(text: str) -> str:
    """Unify slashes and dots. `..` is removed together with the part before, except for the first part."""
    parts: list[str] = []
    for part in text.replace("\\", "/").split("/"):
        if part == ".." and len(parts) > 1:
            parts.pop()
        elif part not in ("", ".", ".."):
            parts.append(part)
    return "/".join(parts)


def alike(forms: Collection[NormalForm], wanted: str, found: str, *, prefixed: bool) -> bool | None:
    """Whether both are the same name: True by the narrow form, False by the widest, None where neither decides.

    `prefixed`: the part of `wanted` before its first "/" or ":" is the contract's own word, possibly omitted by the
    system.
    """
    if found == wanted:
        return True
    wholes = [(wanted, found)]
    if prefixed and (sign := _SIGNS.search(wanted)) is not None:
        cut = sign.end()
        bare = wanted[cut:]
        wholes = [(bare, found[cut:])] if found[:cut] == wanted[:cut] else [(bare, found)]
    if forms and any(normal(forms, one) == normal(forms, other) for one, other in wholes):
        return True
    wide = any(widest(one) == widest(other) for one, other in (*wholes, (wanted, found)))
    return None if wide else False


def in_normal_form(template: str, form: NormalForm, arguments: Mapping[str, Json]) -> dict[str, Json]:
    """Return the arguments, with every argument in the target in normal form."""
    if form is NormalForm.EXACT:
        return dict(arguments)
    named = frozenset(_ARGUMENT.findall(template))
    return {
        name: normal((form,), value) if name in named and isinstance(value, str) else value
        for name, value in arguments.items()
    }


def form_of(word: object) -> NormalForm | None:
    """The form with this name, or None."""
    return next((form for form in NormalForm if form.value == word), None)
