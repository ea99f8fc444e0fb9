"""A server's tool list, and the effect of the tools' hints on a contract: more care, never less.

Called when contract files are loaded, and by the gateway's catalogue, which holds back a changed tool. Nothing is
called. A server's description of itself is a claim, so a description can only make a contract stricter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from readback.canon import Json, json_value, payload_bytes, sha256_hex
from readback.canon.frozen import dataclass
from readback.domain.side_effect import DEPTHS, ReviewTrigger, SideEffect

FINGERPRINTED: Final = ("name", "description", "inputSchema", "outputSchema", "annotations")
"""The parts of a tool's definition relied on by a contract: the texts for the caller, the input and the output."""
WRITING_MIN: Final = SideEffect.EPHEMERAL_WRITE
DESTRUCTIVE_MIN: Final = min(
    (row.side_effect for row in DEPTHS.values() if ReviewTrigger.DESTRUCTIVE in row.review_on), key=lambda c: c.rank
)
"""The lowest class with a row for destructive work: there the work needs a person."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool as listed by its server. `defined`: False where only the argument schema is known."""

    name: str
    takes: Mapping[str, Any]
    gives: Mapping[str, Any] | None = None
    hints: Mapping[str, Any] = field(default_factory=dict)
    definition: Mapping[str, Any] = field(default_factory=dict)

    @property
    def defined(self) -> bool:
        return bool(self.definition)


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The known tools: of the file's own server, and of others by name. None: not listed."""

    own: Mapping[str, object] | None = None
    others: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """The tools of files with a server of their own, by file."""
    partial: bool = False
    """The own tools are not listed in full: a program adds tools one by one, and further ones may exist."""

    def of(self, file: str) -> Toolbox:
        """Return the toolbox from one file's view."""
        return Toolbox(self.files[file], self.others) if file in self.files else self

    def names(self, server: str = "") -> tuple[str, ...] | None:
        """Return the names of a server's tools; None for a server that is not listed in full."""
        if self.partial and not server:
            return None
        listed = self.others.get(server) if server else self.own
        return None if listed is None else tuple(listed)

    def having(self, name: str) -> tuple[str, ...]:
        """Return the other servers with a tool of this name."""
        return tuple(server for server, listed in self.others.items() if name in listed)

    def tool(self, server: str, name: str) -> Tool | None:
        """Return a tool; None if unknown."""
        listed = self.others.get(server) if server else self.own
        return None if listed is None or name not in listed else tool_of(name, listed[name])


def tool_of(name: str, given: object) -> Tool:
    """Read a whole definition from a server's list; or an argument schema alone."""
    if not isinstance(given, Mapping):
        return Tool(name, {})
    if "inputSchema" not in given:
        return Tool(name, dict(given))
    takes, gives, hints = (given.get(key) for key in ("inputSchema", "outputSchema", "annotations"))
    return Tool(
        name,
        takes if isinstance(takes, Mapping) else {},
        gives if isinstance(gives, Mapping) else None,
        hints if isinstance(hints, Mapping) else {},
        dict(given),
    )


def fingerprint(tool: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a tool's definition, in canonical JSON.

    Raises CanonError for a value without a JSON form.
    """
    relied: dict[str, Json] = {key: json_value(tool[key]) for key in FINGERPRINTED if tool.get(key) is not None}
    return sha256_hex(payload_bytes(relied))


def raised_class(side_effect: SideEffect, hints: Mapping[str, Any]) -> tuple[SideEffect, str]:
    """Return the class after the tool's own hints, and the raising hint; never a lower class."""
    wanted = side_effect
    by = ""
    for hint, value, least in (("readOnlyHint", False, WRITING_MIN), ("destructiveHint", True, DESTRUCTIVE_MIN)):
        if hints.get(hint) is value and wanted.rank < least.rank and not _denied(hint, hints):
            wanted, by = least, f"{hint}: {str(value).lower()}"
    return wanted, by


def _denied(hint: str, hints: Mapping[str, Any]) -> bool:
    """`destructiveHint` has a meaning only for a tool without the read-only hint."""
    return hint == "destructiveHint" and hints.get("readOnlyHint") is True


def drops_key(hints: Mapping[str, Any]) -> bool:
    """Return whether the tool's own hint says that a second call acts again."""
    return hints.get("idempotentHint") is False
