"""The tools of a server as it lists them, and what their own hints may add to a contract: more care, never less.

Called when contract files are loaded, and by the gateway's catalogue, which holds a tool that has changed. It calls
nothing; a server's description of itself is a claim, so it can only make a contract stricter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from readback.canon import Json, json_value, payload_bytes, sha256_hex
from readback.canon.frozen import dataclass
from readback.domain.side_effect import DEPTHS, ReviewTrigger, SideEffect

FINGERPRINTED: Final = ("name", "description", "inputSchema", "outputSchema", "annotations")
"""What of a tool's definition a contract relies on: what its caller is told, and what goes in and comes out."""
WRITING_MIN: Final = SideEffect.EPHEMERAL_WRITE
DESTRUCTIVE_MIN: Final = min(
    (row.side_effect for row in DEPTHS.values() if ReviewTrigger.DESTRUCTIVE in row.review_on), key=lambda c: c.rank
)
"""The lowest class whose row provides for destructive work: there it calls for a person."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool as its server lists it. `defined`: False where only its argument schema is known."""

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
    """The tools of servers, as far as they are known: of the file's own, and of others by name. None: not listed."""

    own: Mapping[str, object] | None = None
    others: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Where each file's own server is another one: their tools, by the file."""

    def of(self, file: str) -> Toolbox:
        """The same as one file sees it."""
        return Toolbox(self.files[file], self.others) if file in self.files else self

    def names(self, server: str = "") -> tuple[str, ...] | None:
        """The tools that a server has; None where nobody asked it."""
        listed = self.others.get(server) if server else self.own
        return None if listed is None else tuple(listed)

    def having(self, name: str) -> tuple[str, ...]:
        """The other servers that have a tool of this name."""
        return tuple(server for server, listed in self.others.items() if name in listed)

    def tool(self, server: str, name: str) -> Tool | None:
        """None where it is not known."""
        listed = self.others.get(server) if server else self.own
        return None if listed is None or name not in listed else tool_of(name, listed[name])


def tool_of(name: str, given: object) -> Tool:
    """A whole definition, as a server lists it; or its argument schema alone."""
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
    """The SHA-256 of a tool's definition, in canonical JSON. Raises CanonError for what has no JSON form."""
    relied: dict[str, Json] = {key: json_value(tool[key]) for key in FINGERPRINTED if tool.get(key) is not None}
    return sha256_hex(payload_bytes(relied))


def raised_class(side_effect: SideEffect, hints: Mapping[str, Any]) -> tuple[SideEffect, str]:
    """The class by the tool's own hints, and the hint that raised it; never a lower one."""
    wanted = side_effect
    by = ""
    for hint, value, least in (("readOnlyHint", False, WRITING_MIN), ("destructiveHint", True, DESTRUCTIVE_MIN)):
        if hints.get(hint) is value and wanted.rank < least.rank and not _denied(hint, hints):
            wanted, by = least, f"{hint}: {str(value).lower()}"
    return wanted, by


def _denied(hint: str, hints: Mapping[str, Any]) -> bool:
    """`destructiveHint` has a meaning only for a tool that does not say that it only reads."""
    return hint == "destructiveHint" and hints.get("readOnlyHint") is True


def drops_key(hints: Mapping[str, Any]) -> bool:
    """The tool says itself that a second call acts a second time."""
    return hints.get("idempotentHint") is False
