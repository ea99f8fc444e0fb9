"""The tools of the servers as they were last listed, held against what the contracts were loaded with.

Asked by the gate before a governed call. A tool that is another one now is not called under the old contract: whoever
wrote that read another description. The definition is data from outside; nothing in it is followed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final, TypeAlias

from readback.agent_errors import ToolChangedError
from readback.canon import CanonError, Json, json_text, sha256_hex
from readback.canon.frozen import dataclass
from readback.contracts.files.tools.listing import fingerprint

Tool: TypeAlias = Mapping[str, Json]
ToolKey: TypeAlias = tuple[str, str]
"""A server's key, and the tool's name there."""

LOOK_AGAIN_US: Final = 30_000_000
"""A server that says nothing of changes is asked for its tools again so long after the last time, before a call."""


def print_of(tool: Tool) -> str:
    """SHA-256 of what a contract relies on; of whatever has no canonical form, of its text."""
    try:
        return fingerprint(tool)
    except CanonError:  # such as a huge integer
        return sha256_hex(json_text(dict(tool), sort_keys=True, compact=True).encode("ascii"))


def _doubled(tools: Sequence[Tool]) -> dict[str, list[str]]:
    """The fingerprints of tools that bear one name and are not the same."""
    by_name: dict[str, list[Tool]] = {}
    for tool in tools:
        by_name.setdefault(str(tool.get("name", "")), []).append(tool)
    found = {name: sorted({*map(print_of, same)}) for name, same in by_name.items() if len(same) > 1}
    return {name: prints for name, prints in found.items() if len(prints) > 1}


@dataclass(slots=True)
class Catalogue:
    """Of one gateway, and of one event loop."""

    _seen: dict[str, dict[str, Tool]] = field(default_factory=dict)
    """By server: its tools as last listed."""
    _looked_us: dict[str, int] = field(default_factory=dict)
    _announced: dict[str, int] = field(default_factory=dict)
    """How often each server has said that its tools are others now."""
    _listed: dict[str, int] = field(default_factory=dict)
    """How often it had, when it was last asked for them."""
    _agreed: dict[ToolKey, str] = field(default_factory=dict)
    """What each governed tool was when its contract was loaded."""
    _prints: dict[ToolKey, str] = field(default_factory=dict)

    def announced(self, server: str) -> int:
        """How often it has said that its tools changed: to be asked before they are listed, and given to `see`."""
        return self._announced.get(server, 0)

    def is_unsettled(self, server: str) -> bool:
        """Whether it has said that its tools changed, and has not listed them since."""
        return self.announced(server) != self._listed.get(server, 0)

    def see(self, server: str, tools: Sequence[Tool], now_us: int, announced: int = 0) -> None:
        """All tools of a server, as it lists them now. A change that it announced meanwhile is still to be seen."""
        self._listed[server] = announced
        self._seen[server] = {str(tool.get("name", "")): dict(tool) for tool in tools}
        self._looked_us[server] = now_us
        for key in [key for key in self._prints if key[0] == server]:
            del self._prints[key]
        for name, prints in _doubled(tools).items():  # nobody can say which of them is called
            self._prints[server, name] = sha256_hex(" ".join(prints).encode("ascii"))

    def glimpse(self, server: str, tools: Sequence[Tool]) -> None:
        """Some tools of a server, as a page of its list shows them now. Of others it says nothing; where a governed one
        is another now, the whole list has to: it may name both.
        """
        known = self._seen.setdefault(server, {})
        for tool in tools:
            name = str(tool.get("name", ""))
            if (server, name) in self._agreed and self._print((server, name)) != print_of(tool):
                self.forget(server)
            known[name] = dict(tool)
            self._prints.pop((server, name), None)

    def is_due(self, server: str, now_us: int) -> bool:
        """Whether nobody has asked this server for its tools for a while."""
        looked = self._looked_us.get(server)
        return self.is_unsettled(server) or looked is None or now_us - looked >= LOOK_AGAIN_US

    def forget(self, server: str) -> None:
        """The server says that its tools have changed: it is asked before the next governed call."""
        self._announced[server] = self.announced(server) + 1

    def tools(self, server: str) -> Mapping[str, Tool]:
        """Its tools by name."""
        return self._seen.get(server, {})

    def tool(self, key: ToolKey) -> Tool | None:
        """One of them."""
        return self._seen.get(key[0], {}).get(key[1])

    def is_task_only(self, key: ToolKey) -> bool:
        """Whether its server says that it refuses to run it otherwise than as a task."""
        execution = (self.tool(key) or {}).get("execution")
        return isinstance(execution, dict) and execution.get("taskSupport") == "required"

    def agree(self, governed: Mapping[ToolKey, str]) -> list[ToolKey]:
        """The contracts were loaded against the tools as they are now; one that pins its tool (by what it has to hash
        to, else "") against that one alone. The tools that are not the pinned ones: they are held.
        """
        self._agreed = {key: pinned or self._print(key) for key, pinned in governed.items()}
        return [key for key, pinned in governed.items() if pinned and pinned != self._print(key)]

    def agreed(self, key: ToolKey) -> str:
        """What a governed tool was when the contracts in force were loaded, or what its contract pins."""
        return self._agreed.get(key, "")

    def check(self, key: ToolKey, agreed: str) -> None:
        """Raises ToolChangedError where a governed tool is not what it was when its contract was loaded, or not what
        that pins.
        """
        now = self._print(key)
        if agreed == now and now:
            return
        gone = "is not listed any more" if not now else "is not the one that its contract was loaded with, or pins"
        raise ToolChangedError(
            f"The tool {key[1]!r:.200} {gone}; it is held.", details={"tool_sha256": now, "loaded_sha256": agreed}
        )

    def _print(self, key: ToolKey) -> str:
        """ "" for a tool that is not listed."""
        known = self._prints.get(key)
        if known is None:
            tool = self.tool(key)
            known = self._prints[key] = "" if tool is None else print_of(tool)
        return known
