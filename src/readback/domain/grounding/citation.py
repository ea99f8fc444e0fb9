"""A citation: `[readback:ACTION:PLACE:SHA256]`, names one place in the evidence of an action's claim.

    PLACE   /status     a field of the authoritative state: a JSON pointer (RFC 6901), percent-encoded
            0-120       bytes of the evidence as it is kept, from the first to before the last
    SHA256  over the canonical JSON of ["readback/citation/1", TENANT, ACTION, PLACE, SHA-256 of the cited bytes]

The cited bytes of a field are its value's RFC 8785 form. The hash binds tenant, action and place, so that a citation
cannot move to another place with the same content. A citation has one spelling. `outcome.cite` writes citations.
"""

from __future__ import annotations

import re
from typing import Final

from readback.canon import Json, MalformedJsonError, parse_json, payload_bytes, sha256_hex
from readback.canon.frozen import dataclass
from readback.errors import CitationError

CITATION: Final = re.compile(
    r"\[readback:([A-Za-z0-9._~%-]{1,768}):(/[A-Za-z0-9._~%/-]{0,1024}|[0-9]{1,9}-[0-9]{1,9}):([0-9a-f]{64})\]"
)
_FORM: Final = "readback/citation/1"
_PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_SPAN: Final = re.compile(r"(0|[1-9][0-9]{0,8})-([1-9][0-9]{0,8})")
_ESCAPE: Final = re.compile(r"%([0-9A-F]{2})")
_TILDE: Final = re.compile(r"~(?![01])")
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class Citation:
    """One citation in a text. `place`: a field or a span, as written."""

    action_id: str
    place: str
    sha256: str

    def __str__(self) -> str:
        return f"[readback:{_encoded(self.action_id)}:{self.place}:{self.sha256}]"


def read_citation(found: re.Match[str]) -> Citation | None:
    """Parse a match of CITATION; None for any non-canonical spelling."""
    action_id, pointer = _decoded(found[1]), _decoded(found[2])
    if action_id is None or pointer is None:
        return None
    read = Citation(action_id, _encoded(pointer, kept=b"/"), found[3])
    return read if str(read) == found[0] else None


def cite(tenant: str, action_id: str, evidence: bytes, place: str = "") -> Citation:
    """Cite a place of the evidence: a JSON pointer, a span, or (without a place) the whole. Raises CitationError."""
    named = place
    if not place:
        place = f"0-{len(evidence)}"
    elif place.startswith("/"):
        place = _encoded(place, kept=b"/")
    cited = Evidence(evidence).at(place)
    made = Citation(action_id, place, digest(tenant, action_id, place, cited or b""))
    if cited is None or CITATION.fullmatch(str(made)) is None:
        raise CitationError(
            f"The reading has no value at {named!r:.200}, or no citation can express the place.",
            code="citation.place",
            remedy="Name a field of outcome.authoritative as a JSON pointer, such as '/status', or omit the place.",
        )
    return made


def digest(tenant: str, action_id: str, place: str, cited: bytes) -> str:
    """The hash of a citation: over the cited bytes and their place."""
    bound: list[Json] = [_FORM, tenant, action_id, place, sha256_hex(cited)]
    return sha256_hex(payload_bytes(bound))


class Evidence:
    """The bytes of one action's evidence, with access by place. Parsed once."""

    __slots__ = ("_document", "_parsed", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._document: Json = None
        self._parsed = False

    def at(self, place: str) -> bytes | None:
        """The cited bytes: stored bytes for a span, the RFC 8785 form for a field. None for a missing place."""
        if not place.startswith("/"):
            if not _is_span(place):
                return None
            start, end = (int(part) for part in place.split("-"))
            return self.data[start:end] if start < end <= len(self.data) else None
        pointer = _decoded(place)
        if pointer is None or _TILDE.search(pointer):
            return None
        found = self._whole()
        for step in pointer.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and key in found:
                found = found[key]
            elif isinstance(found, list) and _INDEX.fullmatch(key) and int(key) < len(found):
                found = found[int(key)]
            else:
                return None
        return payload_bytes(found)

    def _whole(self) -> Json:
        if not self._parsed:
            try:
                self._document = parse_json(self.data)
            except MalformedJsonError:
                self._document = None  # evidence without fields
            self._parsed = True
        return self._document


def _is_span(place: str) -> bool:
    return _SPAN.fullmatch(place) is not None


def _encoded(text: str, kept: bytes = b"") -> str:
    raw = text.encode(errors="surrogatepass")
    return "".join(chr(each) if each in _PLAIN or each in kept else f"%{each:02X}" for each in raw)


def _decoded(text: str) -> str | None:
    """The decoded text; None for invalid UTF-8, or for a percent sign outside an escape."""
    raw = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    if "%" in _ESCAPE.sub("", text):
        return None
    try:
        return raw.encode("latin-1").decode()
    except UnicodeError:
        return None
