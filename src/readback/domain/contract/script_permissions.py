"""What a verifier's script may look at, and how much of anything it may take.

Written by the author of a contract; checked when it is loaded. What is not named is refused.
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
"""No user, no query: scheme, host, port, and where the path begins."""


@dataclass(frozen=True, slots=True)
class ScriptPermissions:
    """`http`: addresses, whose scheme, host and port have to be the same and whose path is where it begins.

    `fs`: folders, of which nothing outside is seen, also not by a link. `sql`: SQLite files by name, opened to read.
    """

    http: tuple[str, ...] = ()
    fs: tuple[str, ...] = ()
    sql: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, object] | ScriptPermissions | None) -> ScriptPermissions:
        """From a mapping with the keys http, fs and sql. Raises ContractFieldError."""
        if isinstance(given, ScriptPermissions):
            return given
        given = given or {}
        unknown = sorted(set(map(str, given)) - {"http", "fs", "sql"})
        if unknown:
            raise ContractFieldError(f"`allow` has no key {unknown[0]!r:.40}; it takes http, fs and sql.")
        named = given.get("sql", {})
        if not isinstance(named, Mapping) or not all(isinstance(each, str) for pair in named.items() for each in pair):
            raise ContractFieldError("`allow.sql` is a mapping of names to SQLite files.")
        made = cls(_texts("http", given.get("http", ())), _texts("fs", given.get("fs", ())), dict(named))
        for url in made.http:
            _check_url(url)
        for path in (*made.fs, *made.sql.values()):
            if not path.startswith("/"):
                raise ContractFieldError(f"`allow` names {path!r:.80}, which is no absolute path.")
        return made


@dataclass(frozen=True, slots=True)
class ScriptLimits:
    """What one run of a script may take. Above any of these it is stopped, and that is an error of the verifier."""

    seconds: float = 1.0
    """Of its own work. A host call's time counts apart."""
    steps: int = 1_000_000
    """Rounds of its loops and comprehensions, and calls of functions that are its own, loading included. Between two
    of them nothing runs but what is written there once, or one builtin, which time and memory bound.
    """
    memory_bytes: int = 33_554_432
    depth: int = 200
    host_calls: int = 32
    host_seconds: float = 5.0
    """For one host call."""
    body_bytes: int = 262_144
    """Of what one host call brings; more is cut, and `cut` says so."""
    names: int = 1_000
    """Names of a folder, or rows of a query."""

    @property
    def longest_s(self) -> float:
        """How long a run can take at most, with all its host calls."""
        return self.seconds + self.host_calls * self.host_seconds


def _texts(key: str, given: object) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) > ENTRIES_MAX:
        raise ContractFieldError(f"`allow.{key}` is a list of at most {ENTRIES_MAX} texts.")
    for each in given:
        if not isinstance(each, str) or not each:
            raise ContractFieldError(f"`allow.{key}` holds {each!r:.40}, which is no text.")
    return tuple(map(str, given))


def _check_url(url: str) -> None:
    if _URL.fullmatch(url) is None:
        raise ContractFieldError(f"`allow.http` holds {url!r:.80}, which is no address such as 'https://host/path/'.")
