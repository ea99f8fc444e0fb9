"""The servers' tools as last listed, compared with the definitions accepted by the contracts.

The gate checks here before a governed call. A changed tool is not called under the old contract, since the contract's
author read another description. A tool definition is data from outside; no instruction in a definition is followed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final, TypeAlias

from readback.agent_errors import ToolChangedError
from readback.canon import CanonError, Json, json_text, sha256_hex
from readback.canon.frozen import dataclass
from readback.contracts.files.tools.listing import fingerprint
from readback.contracts.files.tools.recorded_form import form_of_tool

Tool: TypeAlias = Mapping[str, Json]
ToolKey: TypeAlias = tuple[str, str]
"""A server's key, and the tool's name on the server."""

LOOK_AGAIN_US: Final = 30_000_000
"""Interval for listing tools again before a call, for a server without change notifications."""


def print_of(tool: Tool) -> str:
    """Return the SHA-256 of the definition's relevant parts, or of its JSON text if no canonical form exists."""
    try:
        return fingerprint(tool)
    except CanonError:  # for example a huge integer
        return sha256_hex(json_text(dict(tool), sort_keys=True, compact=True).encode("ascii"))


def _doubled(tools: Sequence[Tool]) -> dict[str, list[str]]:
    """Return the fingerprints of different tools with the same name."""
    by_name: dict[str, list[Tool]] = {}
    for tool in tools:
        by_name.setdefault(str(tool.get("name", "")), []).append(tool)
    found = {name: sorted({*map(print_of, same)}) for name, same in by_name.items() if len(same) > 1}
    return {name: prints for name, prints in found.items() if len(prints) > 1}


@dataclass(slots=True)
class Catalogue:
    """The tool lists of one gateway, on one event loop."""

    _seen: dict[str, dict[str, Tool]] = field(default_factory=dict)
    """The tools last listed, by server."""
    _looked_us: dict[str, int] = field(default_factory=dict)
    _announced: dict[str, int] = field(default_factory=dict)
    """How many tool changes each server has announced."""
    _listed: dict[str, int] = field(default_factory=dict)
    """The value of `_announced` at the last listing."""
    _agreed: dict[ToolKey, str] = field(default_factory=dict)
    """The fingerprint of each governed tool at the load of its contract."""
    _prints: dict[ToolKey, str] = field(default_factory=dict)
    _forms: dict[str, dict[str, Json]] = field(default_factory=dict)
    """The recorded form of each called definition, by fingerprint."""

    def announced(self, server: str) -> int:
        """Return the number of announced changes. Read this before listing, and pass the number to `see`."""
        return self._announced.get(server, 0)

    def is_unsettled(self, server: str) -> bool:
        """Return whether the server announced a change after its last listing."""
        return self.announced(server) != self._listed.get(server, 0)

    def see(self, server: str, tools: Sequence[Tool], now_us: int, announced: int = 0) -> None:
        """Record all current tools of a server. A change announced during the listing still counts as unseen."""
        self._listed[server] = announced
        self._seen[server] = {str(tool.get("name", "")): dict(tool) for tool in tools}
        self._looked_us[server] = now_us
        for key in [key for key in self._prints if key[0] == server]:
            self._forms.pop(self._prints.pop(key), None)
        for name, prints in _doubled(tools).items():  # ambiguous: any of them may be called
            self._prints[server, name] = sha256_hex(" ".join(prints).encode("ascii"))

    def glimpse(self, server: str, tools: Sequence[Tool]) -> None:
        """Record the tools of one list page.

        A page is silent about other tools. After a change of a governed tool the whole list must be read, since a name
        may occur twice.
        """
        known = self._seen.setdefault(server, {})
        for tool in tools:
            name = str(tool.get("name", ""))
            if (server, name) in self._agreed and self._print((server, name)) != print_of(tool):
                self.forget(server)
            known[name] = dict(tool)
            self._forms.pop(self._prints.pop((server, name), ""), None)

    def is_due(self, server: str, now_us: int) -> bool:
        """Return whether the server's tools must be listed again."""
        looked = self._looked_us.get(server)
        return self.is_unsettled(server) or looked is None or now_us - looked >= LOOK_AGAIN_US

    def forget(self, server: str) -> None:
        """Note an announced change: the tools are listed again before the next governed call."""
        self._announced[server] = self.announced(server) + 1

    def tools(self, server: str) -> Mapping[str, Tool]:
        """Return the server's tools by name."""
        return self._seen.get(server, {})

    def tool(self, key: ToolKey) -> Tool | None:
        """Return one tool, or None."""
        return self._seen.get(key[0], {}).get(key[1])

    def is_task_only(self, key: ToolKey) -> bool:
        """Return whether the server accepts calls of the tool only as a task."""
        execution = (self.tool(key) or {}).get("execution")
        return isinstance(execution, dict) and execution.get("taskSupport") == "required"

    def agree(self, governed: Mapping[ToolKey, str]) -> list[ToolKey]:
        """Accept the current tools for the loaded contracts, and return the tools differing from their pins.

        `governed` maps each tool to the hash pinned by its contract, or "". A pinned tool is accepted by its pin only.
        Calls of a returned tool are rejected.
        """
        self._agreed = {key: pinned or self._print(key) for key, pinned in governed.items()}
        return [key for key, pinned in governed.items() if pinned and pinned != self._print(key)]

    def agreed(self, key: ToolKey) -> str:
        """Return the accepted fingerprint of a governed tool: from the load of its contract, or from the pin."""
        return self._agreed.get(key, "")

    def form(self, key: ToolKey) -> Mapping[str, Json]:
        """Return the form of a tool for the record of its calls; empty for an unlisted tool."""
        shown, tool = self._print(key), self.tool(key)
        if tool is None:
            return {}
        if shown not in self._forms:
            self._forms[shown] = form_of_tool(tool)
        return self._forms[shown]

    def check(self, key: ToolKey, agreed: str) -> None:
        """Raise ToolChangedError if a governed tool differs from its accepted fingerprint."""
        now = self._print(key)
        if agreed == now and now:
            return
        gone = (
            "is not listed any more"
            if not now
            else "has changed since its contract was loaded, or differs from its pin"
        )
        raise ToolChangedError(
            f"The tool {key[1]!r:.200} {gone}; it is held.", details={"tool_sha256": now, "loaded_sha256": agreed}
        )

    def _print(self, key: ToolKey) -> str:
        """Return the tool's fingerprint, or "" for an unlisted tool."""
        known = self._prints.get(key)
        if known is None:
            tool = self.tool(key)
            known = self._prints[key] = "" if tool is None else print_of(tool)
        return known
