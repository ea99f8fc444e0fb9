"""The hook file: governed tools of a coding agent, their contracts, and the policy for all other tools.

Every tool call reads the file, before heavy imports. Reading is strict: an unknown key, an invalid pattern or an
unreadable file raises HookFileError, and the tool is blocked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from readback.agent_errors import HookFileError
from readback.canon import Json, ReadbackError, sha256_hex
from readback.canon.frozen import dataclass
from readback.config import PACK, pin_of
from readback.contracts.documents.own_files import content_of
from readback.contracts.files import document
from readback.contracts.files.document import Fault, Written, read_document
from readback.contracts.options import microseconds
from readback.contracts.problems import did_you_mean

API_VERSION: Final = "readback/v1"
KIND: Final = "Hooks"
KEYS: Final = ("apiVersion", "kind", "contracts", "ledger", "hold", "tools", "ungoverned")
RULE_KEYS: Final = ("tool", "match", "folder", "contract")
UNGOVERNED_KEYS: Final = ("policy", "at_stop", "pass", "deny")
FILE_MAX_BYTES: Final = 262_144
RULES_MAX: Final = 256
PATTERN_MAX_CHARACTERS: Final = 500
HOLD_US: Final = 10_000_000
"""How long the hook after a tool waits for a verdict, unless the file sets `hold`."""
HOLD_MAX_US: Final = 300_000_000
OWN_TOOLS: Final = (
    "Read", "Glob", "Grep", "LS", "NotebookRead", "WebFetch", "WebSearch", "BashOutput", "TaskOutput", "TodoWrite",
    "TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "Task", "Agent", "Skill", "ToolSearch", "AskUserQuestion",
    "EnterPlanMode", "ExitPlanMode", "ListMcpResourcesTool", "ReadMcpResourceTool",
)  # fmt: skip
"""Claude Code's own tools: they only read, or change only the agent's state. An inner agent's calls have hooks of their
own.
"""
BY_SERVERS: Final = "mcp__"
"""Prefix of tool names from MCP servers."""
_WILD: Final = re.compile(r"[*?\[]")


class Policy(StrEnum):
    """The policy for a tool without a contract."""

    PASS = "pass"
    """Neither recorded nor reported."""
    UNVERIFIED = "unverified"
    """Recorded as attempted and unverified, and listed at the end of the turn."""
    DENY = "deny"
    """Not called."""


class AtStop(StrEnum):
    """The end of a turn with ungoverned calls only: notify, or block."""

    TELL = "tell"
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Rule:
    """An entry of `tools`: the contract for calls with a matching tool name (`*` allowed) and matching arguments.

    With `folder`, an absolute path, the entry applies only to an agent in the folder or below.
    """

    tool: str
    match: tuple[tuple[str, re.Pattern[str]], ...]
    contract: str
    folder: str = ""

    def fits(self, tool: str, given: Mapping[str, Json], place: str | None) -> bool:
        """Return whether the entry applies to this call. A pattern matches text arguments only.

        `place`: the agent's folder; None for any folder.
        """
        if not fnmatchcase(tool, self.tool):
            return False
        if self.folder and place is not None and not _lies_in(self.folder, place):
            return False
        return all(
            isinstance(value, str) and pattern.search(value)
            for value, pattern in ((given.get(name), pattern) for name, pattern in self.match)
        )


@dataclass(frozen=True, slots=True)
class HookFile:
    """A validated hook file. Paths are absolute."""

    path: str
    contracts: tuple[str, ...] = ()
    ledger: str = ""
    hold_us: int = HOLD_US
    rules: tuple[Rule, ...] = ()
    policy: Policy = Policy.UNVERIFIED
    at_stop: AtStop = AtStop.TELL
    passed: tuple[str, ...] = OWN_TOOLS
    denied: tuple[str, ...] = ()

    def ruled(self, tool: str, given: Mapping[str, Json], place: str | None) -> str:
        """Return the contract named by an entry of `tools` for this call, or "". With `place` None, in any folder."""
        return next((rule.contract for rule in self.rules if rule.fits(tool, given, place)), "")

    def passes(self, tool: str, given: Mapping[str, Json], place: str) -> bool:
        """Return whether to record nothing: the policy is PASS and no contract covers the call.

        Raises SettingsError.
        """
        if self.ruled(tool, given, place) or self.policy_of(tool) is not Policy.PASS:
            return False
        return tool in OWN_TOOLS or not any(_may_have(path, tool) for path in self.contracts)

    def contracts_of(self, tool: str) -> frozenset[str]:
        """Return every contract able to govern a call of the tool, for any arguments."""
        return frozenset({tool, *(rule.contract for rule in self.rules if fnmatchcase(tool, rule.tool))})

    def is_by_a_server(self, contract: str) -> bool:
        """Return whether an MCP server may do the contract's calls.

        A server continues after the agent stops waiting.
        """
        tools = (contract, *(rule.tool for rule in self.rules if rule.contract == contract))
        heads = ((tool, _WILD.split(tool, maxsplit=1)[0]) for tool in tools)
        return any(
            head.startswith(BY_SERVERS) or (head != tool and BY_SERVERS.startswith(head)) for tool, head in heads
        )

    def policy_of(self, tool: str) -> Policy:
        """Return the policy for a call of the tool without a contract."""
        if any(fnmatchcase(tool, pattern) for pattern in self.denied):
            return Policy.DENY
        if any(fnmatchcase(tool, pattern) for pattern in self.passed):
            return Policy.PASS
        return self.policy


def read_hook_file(path: str | Path) -> HookFile:
    """Read and validate the file. Raises HookFileError with every fault or on a different pin, and SettingsError."""
    named = Path(path).absolute()
    try:
        content = content_of(named, FILE_MAX_BYTES)
    except OSError as error:
        raise HookFileError(f"The hook file {named} cannot be read: {error.strerror}.") from error
    if len(content) > FILE_MAX_BYTES:
        raise HookFileError(f"The hook file {named} is over {FILE_MAX_BYTES} bytes.")
    if pin_of(named) not in ("", sha256_hex(content)):  # before any use: the file decides which tools pass
        raise HookFileError(f"The hook file {named} does not have the SHA-256 pinned in the settings.")
    root, faults = read_document(content)
    taking = _Taking(named, faults)
    made = taking.file(root) if root is not None else None
    if faults or made is None:
        lines = [f"{named}:{each.place.line}:{each.place.column}: {each.path}: {each.said}" for each in faults[:20]]
        raise HookFileError(f"The hook file cannot be used. {'; '.join(lines)}")
    return made


def _lies_in(folder: str, place: str) -> bool:
    """Return whether the place is the folder or below, after links are resolved. "" is no place."""
    root = os.path.realpath(folder)
    return bool(place) and os.path.join(os.path.realpath(place), "").startswith(os.path.join(root, ""))


def _placed(folder: Path, named: str) -> str:
    """Resolve a contract file against the hook file's folder. A pack name stays."""
    return named if named.startswith(PACK) else str((folder / named).absolute())


def _may_have(path: str, name: str) -> bool:
    """Return whether a contract file may have a contract of this name, without compiling the file.

    True also for a faulty file or a different pin: opening the file later reports the fault.
    """
    if path.startswith(PACK):
        from readback.contracts.packs import pack_content

        content = pack_content(path)
    else:
        try:
            content = content_of(path, document.FILE_MAX_BYTES)
        except OSError:
            return True
        if pin_of(path) not in ("", sha256_hex(content)):
            return True
    root, faults = read_document(content)
    listed = (root.mapping or {}).get("contracts") if root is not None else None
    return bool(faults) or listed is None or listed.mapping is None or name in listed.mapping


@dataclass(slots=True)
class _Taking:
    path: Path
    faults: list[Fault]

    def file(self, root: Written) -> HookFile:
        keys = self._mapping(root, "", KEYS)
        for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
            if name not in keys or keys[name].value != wanted:
                self._add(keys.get(name, root), name, f"It is {wanted!r}.")
        loose = self._mapping(keys["ungoverned"], "ungoverned", UNGOVERNED_KEYS) if "ungoverned" in keys else {}
        folder = self.path.parent
        ledger = self._text(keys["ledger"], "ledger") if "ledger" in keys else ""
        return HookFile(
            str(self.path),
            tuple(_placed(folder, one) for one in self._texts(keys.get("contracts"), "contracts")),
            str((folder / ledger).absolute()) if ledger else "",
            self._hold(keys["hold"]) if "hold" in keys else HOLD_US,
            tuple(self._rules(keys.get("tools"))),
            Policy(self._word(loose.get("policy"), "ungoverned.policy", Policy, Policy.UNVERIFIED)),
            AtStop(self._word(loose.get("at_stop"), "ungoverned.at_stop", AtStop, AtStop.TELL)),
            (*OWN_TOOLS, *self._texts(loose.get("pass"), "ungoverned.pass")),
            tuple(self._texts(loose.get("deny"), "ungoverned.deny")),
        )

    def _rules(self, node: Written | None) -> list[Rule]:
        if node is None:
            return []
        if node.listed is None or len(node.listed) > RULES_MAX:
            self._add(node, "tools", f"It is a list of at most {RULES_MAX} entries.")
            return []
        return [self._rule(each, f"tools[{number}]") for number, each in enumerate(node.listed)]

    def _rule(self, node: Written, path: str) -> Rule:
        keys = self._mapping(node, path, RULE_KEYS)
        named = {}
        for name in ("tool", "contract"):
            if name not in keys:
                self._add(node, path, f"It needs `{name}`.")
            named[name] = self._text(keys[name], f"{path}.{name}") if name in keys else ""
        match = keys.get("match")
        if match is not None and match.mapping is None:
            self._add(match, f"{path}.match", "It is a mapping of arguments to regular expressions.")
        asked = match.mapping or {} if match is not None else {}
        patterns = [(name, self._pattern(each, f"{path}.match.{name}")) for name, each in asked.items()]
        folder = self._text(keys["folder"], f"{path}.folder") if "folder" in keys else ""
        placed = str((self.path.parent / folder).absolute()) if folder else ""
        return Rule(named["tool"], tuple(patterns), named["contract"], placed)

    def _pattern(self, node: Written, path: str) -> re.Pattern[str]:
        text = self._text(node, path)
        try:
            if len(text) > PATTERN_MAX_CHARACTERS:
                raise re.error(f"it is over {PATTERN_MAX_CHARACTERS} characters")
            return re.compile(text)
        except re.error as error:
            self._add(node, path, f"It is no regular expression: {error}.")
            return re.compile("")

    def _hold(self, node: Written) -> int:
        try:
            span = microseconds(node.value)
            if 0 <= span <= HOLD_MAX_US:
                return span
        except ReadbackError:
            pass
        self._add(node, "hold", f"It is a duration such as '10s', {HOLD_MAX_US // 1_000_000}s at most.")
        return HOLD_US

    def _word(self, node: Written | None, path: str, words: type[StrEnum], otherwise: StrEnum) -> str:
        if node is None:
            return otherwise.value
        known = [word.value for word in words]
        if node.value not in known:
            self._add(node, path, f"It is one of {', '.join(known)}.")
            return otherwise.value
        return str(node.value)

    def _texts(self, node: Written | None, path: str) -> list[str]:
        if node is None:
            return []
        if node.listed is None:
            self._add(node, path, "It is a list of texts.")
            return []
        return [self._text(each, f"{path}[{number}]") for number, each in enumerate(node.listed)]

    def _text(self, node: Written, path: str) -> str:
        if isinstance(node.value, str) and node.value.strip():
            return node.value
        self._add(node, path, "It is a text.")
        return ""

    def _mapping(self, node: Written, path: str, known: tuple[str, ...]) -> dict[str, Written]:
        if node.mapping is None:
            self._add(node, path, "It is a mapping.")
            return {}
        for name in node.mapping.keys() - set(known):
            said = f"There is no such key.{did_you_mean(name, known)}"
            self.faults.append(Fault(node.keys[name], f"{path}.{name}".strip("."), said))
        return {name: each for name, each in node.mapping.items() if name in known and each.value is not None}

    def _add(self, node: Written, path: str, said: str) -> None:
        self.faults.append(Fault(node.place, path, said))
