"""Resolved settings of one source or executor of a contract file, and the credentials among them.

`configured.factory` makes the settings for one call. Resolved values exist nowhere else, and credentials are
removed from everything that the system returns.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from readback.canon import Json
from readback.config import secret_at
from readback.engine.values.decoding import Sought
from readback.engine.values.redaction import CUT, cleared, forms_of
from readback.errors import SettingsError
from readback.ports.system_factory import Fixed, Reference

# Removes resolved credentials from texts and values: whole credentials, and parts that are secret alone.

SECRET_MIN_CHARS: Final = 6
"""Shorter values are not searched for: half of all texts would contain them."""
COOKIE_MIN_CHARS: Final = 16
"""A shorter cookie value may be a plain word, found in readings too."""
HIDDEN: Final = "[secret]"

_PASSWORD: Final = re.compile(r"postgres(?:ql)?://[^:@/]*:(.+)@|[a-z0-9+.-]+://[^:@/]*:([^/?#]+)@")
"""The password in an address. In a database address the password may contain slashes."""
_TOKEN: Final = re.compile(r"https?://([^:@/?#]+)@")
"""A login without a password is a token."""
_NAMED: Final = re.compile(r"(?i)(?:key|token|secret|password|passwd|pwd|signature|credentials?)$|^(?:sig|auth|code)$")
"""Query names of credentials."""
_SCHEME: Final = re.compile(
    r"(?i:basic|bearer|digest|token|apikey|api-key|key) +(\S+)|[A-Za-z][A-Za-z0-9-]{1,31} +(\S{16,})"
)
"""A header value: scheme and credential. After an unknown scheme, only text that is no plain word counts."""
_COOKIE: Final = re.compile(r"[^\s=;,]+=([^\s;]+)(?:; *|$)")


class Credentials:
    """Values to hide. Their encoded forms are made at the first search."""

    __slots__ = ("_forms", "_sought", "_values")

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = tuple(values)
        self._sought = Sought(())
        self._forms: tuple[str, ...] | None = None
        """All forms, quoted and encoded too, the longest first."""

    def __bool__(self) -> bool:
        return bool(self._values)

    def text(self, text: str) -> str:
        """Return the text without credentials. Text with a credential in encoded form only is dropped as a whole."""
        if not self._values:
            return text
        if self._forms is None:
            known = {part for each in self._values for part in (each, *parts_of(each))}
            known = {each for each in known if len(each) >= SECRET_MIN_CHARS}
            forms = {form for each in known for form in (each, *forms_of(each)) if len(form) >= SECRET_MIN_CHARS}
            self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))
            self._sought = Sought(known)
        kept = cleared(text, self._forms, HIDDEN)
        return HIDDEN if self._sought.stands_in(kept, cut=kept.endswith(CUT)) else kept

    def without(self, value: Json) -> Json:
        """Return the value with all texts cleared."""
        if not self._values:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.without(each) for each in value]
        if isinstance(value, dict):
            return {self.text(key): self.without(each) for key, each in value.items()}
        return value


def parts_of(secret: str) -> Iterator[str]:
    """Return the parts of a credential that services quote alone.

    Parts are the password of an address, the word after `Bearer`, the password of `Basic`, and a cookie's value.
    """
    found = _PASSWORD.match(secret)
    if found is not None:
        password = found[1] or found[2]
        yield from (password, unquote(password))
    elif (token := _TOKEN.match(secret)) is not None:
        yield from (token[1], unquote(token[1]))
    if "://" in secret:
        asked = secret.partition("?")[2].partition("#")[0]
        yield from (each.partition("=")[2] for each in asked.split("&") if _NAMED.search(each.partition("=")[0]))
        yield from (value for name, value in parse_qsl(asked) if _NAMED.search(name))
        return
    said = _SCHEME.fullmatch(secret)
    if said is not None:
        counts = said[1] or said[2]
        yield from (counts, *_basic(counts))
    elif _COOKIE.match(secret):
        yield from (each for each in _COOKIE.findall(secret) if len(each) >= COOKIE_MIN_CHARS)


def _basic(encoded: str) -> Iterator[str]:
    """Return the password of a `Basic` header value, if any."""
    try:
        decoded = b64decode(encoded, validate=True).decode()
    except (NotBase64, ValueError):
        return
    _, colon, password = decoded.partition(":")
    if colon:
        yield password


US: Final = 1_000_000
LOCATED_MAX: Final = 256
NAMES: Final = frozenset(
    {"host", "port", "user", "database", "bucket", "region", "root", "base", "repository", "cwd", "staging", "remote"}
)
"""Settings that name a place or an owner.

Readings hold the same names, for comparison. The names are no credentials: with a name removed, an honest reading would
seem to come from another mailbox.
"""


@lru_cache(LOCATED_MAX)
def located(folder: str, named: str) -> str:
    """Resolve a path of a contract file from the file's folder. Cached, since each reading uses the same few paths."""
    return str(Path(folder) / Path(named).expanduser())


_ONLY_WHERE: Final = re.compile(r"https?://[^/?#@]*/?")
"""An address of only a host."""


class Settled:
    """Settings of a fitting with references resolved once, and the credentials to hide."""

    def __init__(self, name: str, fixed: Fixed, folder: str, timeout_us: int) -> None:
        self.name = name
        self.folder = folder
        self.timeout_s = timeout_us / US
        self._found: list[str] = []
        self._refers = False
        self._fixed = {key: self._resolved(value, key in NAMES) for key, value in fixed.items()}
        self.secrets = Credentials(self._found)

    def _resolved(self, value: object, is_name: bool) -> object:
        if isinstance(value, Reference):
            named = str(Path(self.folder) / value.name) if value.kind == "file" else value.name
            found = secret_at(f"{value.kind}:{named}").decode("utf-8", "replace")
            self._refers = True
            if not is_name and _ONLY_WHERE.fullmatch(found) is None:
                self._found.append(found)
            return found
        if isinstance(value, dict):
            return {key: self._resolved(each, False) for key, each in value.items()}
        return value

    def get(self, key: str, default: Any = None) -> Any:
        return self._fixed.get(key, default)

    def some(self, *keys: str) -> dict[str, Any]:
        """Return the given settings among these keys."""
        return {key: self._fixed[key] for key in keys if key in self._fixed}

    def path(self, key: str, default: str = ".") -> str:
        """Return a path, resolved from the contract file's folder."""
        locate = located.__wrapped__ if self._refers else located  # never cache a resolved reference
        return locate(self.folder, str(self._fixed.get(key, default)))

    def command(self, argv: object) -> list[str]:
        """Return the command. A program with a path is resolved from the contract file's folder."""
        assert isinstance(argv, list)
        program = str(argv[0])
        return [located(self.folder, program) if "/" in program else program, *map(str, argv[1:])]

    def number(self, key: str) -> int:
        """Return a number. Raises SettingsError where a reference resolves to other text."""
        try:
            return int(self._fixed[key])  # type: ignore[call-overload, no-any-return]
        except (TypeError, ValueError) as error:
            raise SettingsError(
                f"The {key} of {self.name!r} is not a number.", remedy="Correct the reference."
            ) from error

    # --- credentials ---

    @property
    def hides(self) -> bool:
        """Whether a reference resolves to a credential."""
        return bool(self.secrets)

    def hidden(self, text: str) -> str:
        return self.secrets.text(text)

    def without(self, value: Json) -> Json:
        """Return the value with resolved credentials cleared from all texts."""
        return self.secrets.without(value)
