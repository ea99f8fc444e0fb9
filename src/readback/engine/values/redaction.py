"""Keep a contract's redacted values out of the record: at their own paths, and in all other text.

Called by a run before anything is stored or recorded. A tool may quote the card number in an error, a reader may put it
into an exception, an answer may repeat it under another name. The value is known from its path, and every written text
is searched. Short values may occur by chance, and are hidden at their own paths alone.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterator, Sequence
from typing import Final

from readback.canon import ExactNumber, Json, JsonNumber, number_text
from readback.canon.values import BYTES_KEY
from readback.domain.verification.change import REDACTED
from readback.domain.verification.observation_signs import one_line
from readback.engine.values.decoding import TEXT_MAX_CHARACTERS, Sought

SECRET_MIN_CHARACTERS: Final = 4
SECRET_LINE_MAX_CHARACTERS: Final = 65_536
"""A longer value is searched as written, and not in other forms."""
SECRETS_MAX: Final = 64
"""The maximum number of searched values in a run. Beyond, no text of a payload is kept."""
PAYLOAD_MAX_CHARACTERS: Final = 49_152
"""The searched length of one payload. The rest is not kept, nor is a text over TEXT_MAX_CHARACTERS."""
OVERLAP_MAX_CHARACTERS: Final = 4_096
HIDDEN_TEXT: Final = "[redacted]"
JUDGEMENT: Final = "judgement"
"""The root of Readback's own text, in contrast to a payload: the contract author's words stay unchanged."""
_TEXTS: Final = frozenset({"detail", "error", "reason"})
"""Fields with sentences: the value is cut out. Elsewhere a text with a value becomes a mark."""
_NAMES: Final = frozenset({"name", "group", "truth", "source", "key"})
"""Fields of a judgement written by the contract's author."""
_HINTS: Final = ("reference", "source_version", "author", "stamp")
"""Statements of other systems in an entry: omitted if they hold a value."""
CUT: Final = "\u2026"
"""The last character of a cut text."""
GUESSED: Final = "[redacted]"
"""The replacement by `observation_signs` for a suspected credential. The guess knows no value, and may end too early.
"""


class Redactor:
    """The redacted values of one run. Learns values as they pass; forgets with the run.

    Use `of`: a contract without redacted paths shares one instance, since there is nothing to learn.
    """

    __slots__ = ("_forms", "_left", "_paths", "_sought", "_values")

    def __init__(self, paths: tuple[str, ...]) -> None:
        self._paths = paths
        self._values: set[str] = set()
        self._sought = Sought(())
        self._left = PAYLOAD_MAX_CHARACTERS
        self._forms: tuple[str, ...] = ()
        """The values, and their forms in an address, in JSON, in a program's text or encoded; the longest first."""

    @staticmethod
    def of(paths: tuple[str, ...]) -> Redactor:
        """The redactor for a contract with these redacted paths."""
        return Redactor(paths) if paths else _NOTHING_HIDDEN

    def learn(self, value: Json, root: str) -> None:
        """Remember the values at the redacted paths under `root`."""
        for path in self._paths:
            head, *parts = path.split(".")
            if head == root:
                self._know(frozenset(_leaves(value, parts)))

    def _know(self, values: frozenset[str]) -> None:
        if values <= self._values:
            return
        self._values |= values
        if len(self._values) > SECRETS_MAX:
            return  # too many values to search: no text is kept
        self._sought = Sought(self._values)
        forms = {form for each in self._values for form in (each, *forms_of(each))}
        forms = {form for form in forms if len(form) >= SECRET_MIN_CHARACTERS}
        self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))

    def hide(self, value: Json, root: str) -> Json:
        """The storable value under `root`."""
        if not self._paths:
            return value
        self.learn(value, root)
        for path in self._paths:
            head, *parts = path.split(".")
            if head == root:
                value = _without(value, parts)
        self._left = PAYLOAD_MAX_CHARACTERS
        return self._marked(value, ours=root == JUDGEMENT) if self._values else value

    def text(self, text: str) -> str:
        """A sentence without the values, and without parts of values next to a cut or a guess. A sentence with a value
        in an encoded form is omitted as a whole.
        """
        if self._is_beyond(text):
            return HIDDEN_TEXT
        kept = cleared(text, self._forms, HIDDEN_TEXT)
        return HIDDEN_TEXT if self._sought.stands_in(kept, cut=kept.endswith(CUT)) else kept

    def recorded(self, data: dict[str, Json]) -> dict[str, Json]:
        """An event's data: sentences without the values, hints only if free of values."""
        if not self._values:
            return data
        self._left = PAYLOAD_MAX_CHARACTERS
        kept = {key: self.text(v) if key in _TEXTS and isinstance(v, str) else v for key, v in data.items()}
        for key in _HINTS:
            hint = kept.get(key)
            if hint is not None and self._holds(str(hint)):
                kept[key] = None
        code = kept.get("code")
        if isinstance(code, str) and self._holds(code):
            kept["code"] = HIDDEN_TEXT
        return kept

    def _holds(self, text: str) -> bool:
        return text != "" and self.text(text) != text

    def _is_beyond(self, text: str) -> bool:
        """Whether the text exceeds the searched length, or the values exceed the searched number."""
        if not self._values:
            return False
        self._left -= len(text)
        return len(text) > TEXT_MAX_CHARACTERS or self._left < 0 or len(self._values) > SECRETS_MAX

    def _marked(self, value: Json, *, ours: bool) -> Json:
        if isinstance(value, str):
            return {REDACTED: True} if self._holds(value) else value
        if isinstance(value, (int, float, ExactNumber)) and not isinstance(value, bool):
            return {REDACTED: True} if _digits(value) in self._values else value
        if isinstance(value, list):
            return [self._marked(part, ours=ours) for part in value]
        if isinstance(value, dict):
            return {self._key(key): self._field(key, part, ours=ours) for key, part in value.items()}
        return value

    def _key(self, key: str) -> str:
        return HIDDEN_TEXT if self._holds(key) else key

    def _field(self, key: str, value: Json, *, ours: bool) -> Json:
        if isinstance(value, str) and key in _TEXTS:
            return self.text(value)
        if isinstance(value, str) and key == BYTES_KEY:
            return {REDACTED: True} if self._holds(value) or self._holds(_decoded(value)) else value
        return value if ours and isinstance(value, str) and key in _NAMES else self._marked(value, ours=ours)


_NOTHING_HIDDEN: Final = Redactor(())


def cleared(text: str, forms: Sequence[str], mark: str) -> str:
    """The text without these forms of values, the longest first.

    Also removes the beginning of a value at a cut end, and the rest of a value around a part already removed as a
    suspected credential.
    """
    for form in forms:
        text = text.replace(form, mark)
    if GUESSED in text and forms:
        pieces = text.split(GUESSED)
        begun = [_without_begun(each, forms) for each in pieces[:-1]]
        text = GUESSED.join((begun[0], *(_without_rest(each, forms) for each in (*begun[1:], pieces[-1]))))
    if not text.endswith(CUT):
        return text
    kept = _without_begun(text.removesuffix(CUT), forms)
    return text if len(kept) == len(text) - 1 else kept + mark + CUT


def _without_begun(text: str, forms: Sequence[str]) -> str:
    """The text without the beginning of a value at its end."""
    return text[: len(text) - max((_overlap(text, form) for form in forms), default=0)]


def _without_rest(text: str, forms: Sequence[str]) -> str:
    """The text without the end of a value at its beginning. The text may be cut itself."""
    kept = text.removesuffix(CUT)
    if kept != text and len(kept) >= SECRET_MIN_CHARACTERS and any(kept in form for form in forms):
        return CUT
    return text[max((_overlap(form, text) for form in forms), default=0) :]


def forms_of(secret: str) -> Iterator[str]:
    """The other written forms of a value."""
    if len(secret) > SECRET_LINE_MAX_CHARACTERS:
        return
    raw = secret.encode(errors="surrogatepass")
    yield from (_in_address(raw), _in_address(raw, b"/"), _in_address(raw).replace("%20", "+"))
    yield from (repr(secret)[1:-1], repr(raw)[2:-1])
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    yield one_line(secret, SECRET_LINE_MAX_CHARACTERS)
    yield raw.hex()
    for before in range(3):  # inside a longer encoded text, at any offset
        whole = b64encode(bytes(before) + raw).decode().rstrip("=")
        inner = whole[(before * 8 + 5) // 6 : len(whole) - 1]
        yield from (inner, inner.replace("+", "-").replace("/", "_"))


def _in_address(raw: bytes, safe: bytes = b"") -> str:
    """The value in an address, percent-encoded."""
    plain = _UNRESERVED | frozenset(safe)
    return "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in raw)


_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def _decoded(encoded: str) -> str:
    """Bytes of a payload, as far as they are text."""
    try:
        return b64decode(encoded, validate=True).decode(errors="replace")
    except (NotBase64, ValueError):
        return ""


def _overlap(text: str, secret: str) -> int:
    """The length of the secret's beginning at the end of the text, if too long for chance."""
    longest = min(len(text), len(secret))
    if longest > OVERLAP_MAX_CHARACTERS:
        longest = OVERLAP_MAX_CHARACTERS
        if text[-longest:] in secret:  # a long part of a long value: remove everything from its possible beginning
            return len(text) - max(text.find(secret[:SECRET_MIN_CHARACTERS]), 0)
    for size in range(longest, SECRET_MIN_CHARACTERS - 1, -1):
        if text.endswith(secret[:size]):
            return size
    return 0


def _leaves(value: Json, parts: list[str]) -> Iterator[str]:
    """The values at a path, as text, if too long for chance."""
    if isinstance(value, list):
        for part in value:
            yield from _leaves(part, parts)
    elif parts:
        if isinstance(value, dict) and parts[0] in value:
            yield from _leaves(value[parts[0]], parts[1:])
    elif isinstance(value, dict):
        for key, part in value.items():
            if key == BYTES_KEY and isinstance(part, str) and len(_decoded(part)) >= SECRET_MIN_CHARACTERS:
                yield _decoded(part)
            yield from _leaves(part, [])
    elif value is not None and not isinstance(value, bool) and len(_digits(value)) >= SECRET_MIN_CHARACTERS:
        yield _digits(value)


def _digits(value: str | JsonNumber) -> str:
    return number_text(value) if isinstance(value, ExactNumber) else str(value)


def _without(value: Json, parts: list[str]) -> Json:
    """The value with a mark at the path."""
    if not parts:
        return {REDACTED: True}
    if isinstance(value, list):
        return [_without(part, parts) for part in value]
    if not isinstance(value, dict) or parts[0] not in value:
        return value
    return {**value, parts[0]: _without(value[parts[0]], parts[1:])}
