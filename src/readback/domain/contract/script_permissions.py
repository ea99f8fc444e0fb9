"""Permissions and limits of a verifier's script.

A contract's author writes the permissions, and loading checks them. Unnamed access is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from readback.canon.frozen import dataclass
from readback.errors import ContractFieldError

ENTRIES_MAX: Final = 64
_URL: Final = re.compile(
    r"https?://(?:[\w.-]+|\[[0-9a-f:.]+\])(?::[1-9]\d{0,4})?(?:/[^\s?#@\\]*)?", re.ASCII | re.IGNORECASE
)
"""Scheme, host, port, and the beginning of the path. No user, no query."""


@dataclass(frozen=True, slots=True)
class ScriptPermissions:
    """`http`: address prefixes: same scheme, host and port, and a path that begins alike.

    `fs`: folders; nothing outside is visible, not even through a link. `sql`: SQLite files by name, opened read-only.
    """

    http: tuple[str, ...] = ()
    fs: tuple[str, ...] = ()
    sql: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, object] | ScriptPermissions | None) -> ScriptPermissions:
        """Build permissions from a mapping with the keys http, fs and sql. Raises ContractFieldError."""
        if isinstance(given, ScriptPermissions):
            return given
        given = given or {}
        unknown = sorted(set(map(str, given)) - {"http", "fs", "sql"})
        if unknown:
            raise ContractFieldError(f"`allow` has no key {unknown[0]!r:.40}. Known keys: http, fs, sql.")
        named = given.get("sql", {})
        if not isinstance(named, Mapping) or not all(isinstance(each, str) for pair in named.items() for each in pair):
            raise ContractFieldError("`allow.sql` must be a mapping of names to SQLite files.")
        made = cls(_texts("http", given.get("http", ())), _texts("fs", given.get("fs", ())), dict(named))
        for url in made.http:
            _check_url(url)
        for path in (*made.fs, *made.sql.values()):
            if not path.startswith("/"):
                raise ContractFieldError(f"`allow` names {path!r:.80}. Write an absolute path.")
        return made


@dataclass(frozen=True, slots=True)
class ScriptLimits:
    """The limits of one script run. Beyond a limit the run stops with a verifier error."""

    seconds: float = 1.0
    """Seconds of the script's own work. Host calls have their own limit."""
    steps: int = 1_000_000
    """Rounds of loops and comprehensions, and calls of the script's own functions, loading included.

    Between two steps only straight-line code or one builtin runs. Time and memory limits bound both.
    """
    memory_bytes: int = 33_554_432
    depth: int = 200
    host_calls: int = 32
    host_seconds: float = 5.0
    """Seconds of one host call."""
    body_bytes: int = 262_144
    """Bytes of one host call's result. A longer result is cut, and `cut` reports the cut."""
    names: int = 1_000
    """Names of a folder, or rows of a query."""

    @property
    def longest_s(self) -> float:
        """The longest duration of a run in seconds, with all its host calls."""
        return self.seconds + self.host_calls * self.host_seconds


def _texts(key: str, given: object) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) > ENTRIES_MAX:
        raise ContractFieldError(f"`allow.{key}` must be a list of at most {ENTRIES_MAX} texts.")
    for each in given:
        if not isinstance(each, str) or not each:
            raise ContractFieldError(f"`allow.{key}` holds {each!r:.40}. Write a text.")
    return tuple(map(str, given))


def _check_url(url: str) -> None:
    if _URL.fullmatch(url) is None:
        raise ContractFieldError(f"`allow.http` holds {url!r:.80}. Write an address such as 'https://host/path/'.")
