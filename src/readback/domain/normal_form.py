"""Normal forms: when two spellings are one name.

Asked by the lifecycle when a reading is held against a target, when a subject is frozen or looked for among what is
frozen, and when a key is made of an operation's fields. Pure: what a file system or a database says of its own names
comes with a reading (`Reading.forms`).

Three answers are kept apart. Names that are equal in the *narrow* form (declared by the contract, or stated by the
system itself) are one. Names that differ in the *widest* form are two. Between the two nothing is known, and a
difference of spelling is no guilt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import Final
from unicodedata import normalize

from readback.canon import Json

WIDEST_MAX_BYTES: Final = 2_048
"""A frozen target stands in an index; one whose widest form is longer stands there by its hash."""


class NormalForm(StrEnum):
    """The word after `as` in `identity`: by which rule the system of record compares such a name."""

    EXACT = "exact"
    """Character by character."""
    NFC = "nfc"
    """Texts that Unicode calls canonically equivalent are one."""
    CASEFOLD = "casefold"
    """Upper and lower case are one, and so are canonically equivalent texts."""
    UUID = "uuid"
    """A UUID in any of its spellings: capitals, without hyphens, in braces, with `urn:uuid:`."""
    EMAIL = "email"
    """An address: the domain without regard to case, the local part as it is written."""
    PATH = "path"
    """A path: `./`, doubled slashes and a slash at the end say nothing. `..` stays: where it leads, links decide."""


_UUID: Final = re.compile(r"\{?[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\}?", re.IGNORECASE)
_URN: Final = "urn:uuid:"
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
    """In the letters of the DNS, which compares without regard to case."""
    if domain.isascii():
        return domain.lower()
    try:
        return domain.encode("idna").decode("ascii").lower()
    except UnicodeError:
        return domain  # no name that the DNS could hold: it is equal to itself alone


def _path(text: str) -> str:
    parts = [part for part in text.split("/") if part not in ("", ".")]
    return ("/" if text.startswith("/") else "") + "/".join(parts) or "."


def _nfc(text: str) -> str:
    return normalize("NFC", text)


def _folded(text: str) -> str:
    return text.lower() if text.isascii() else normalize("NFC", normalize("NFD", text).casefold())


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
    """`text` in these forms: two names that are equal in them are one to a system that compares so."""
    for form in forms:
        text = _RULES[form](text)
    return text


def widest(text: str) -> str:
    """`text` without everything that any system is known to overlook: case, Unicode form, blanks around it, percent
    signs of a URL, the way that slashes and dots are written, the spelling of a UUID.

    For what must not be evaded. It makes one of names that some system keeps apart, so nothing is verified by it.
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
"""What an ASCII text may hold that has another way to be written, case aside."""


_ESCAPES: Final = re.compile("(?:%[0-9A-Fa-f]{2})+")


def _decoded(text: str) -> str:
    """Without the percent signs of a URL; what is no text behind them stays as it is."""
    try:
        return _ESCAPES.sub(lambda found: bytes.fromhex(found[0].replace("%", "")).decode(), text)
    except UnicodeDecodeError:
        return text


def _one_way(text: str) -> str:
    """Slashes and dots written in one way; `..` taken away with what stands before it, but for the first part."""
    parts: list[str] = []
    for part in text.replace("\\", "/").split("/"):
        if part == ".." and len(parts) > 1:
            parts.pop()
        elif part not in ("", ".", ".."):
            parts.append(part)
    return "/".join(parts)


def alike(forms: Collection[NormalForm], wanted: str, found: str, *, prefixed: bool) -> bool | None:
    """Whether both are one name: True by the narrow form, False by the widest, None where neither can say.

    `prefixed`: what stands in `wanted` before its first "/" or ":" is the contract's own word, which the system may
    leave away.
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
    """The arguments of which a target is made, in its normal form; the others as they are."""
    if form is NormalForm.EXACT:
        return dict(arguments)
    named = frozenset(_ARGUMENT.findall(template))
    return {
        name: normal((form,), value) if name in named and isinstance(value, str) else value
        for name, value in arguments.items()
    }


def form_of(word: object) -> NormalForm | None:
    """The form of this name; None where there is none."""
    return next((form for form in NormalForm if form.value == word), None)
