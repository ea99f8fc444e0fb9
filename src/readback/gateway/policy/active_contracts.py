"""The active contracts: the governed tools of each server, and the proposal made from a call.

The gateway loads all contract files together, against the servers' current tools. A set of contracts is immutable.
`reload` makes a new set, and actions in flight keep theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Final

from readback.agent_errors import NoSuchToolError
from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.client.files import ContractFiles, FileAction, loaded_files
from readback.client.proposal import Proposal
from readback.contracts.files.assembly import Loaded
from readback.contracts.problems import did_you_mean
from readback.engine.compiled_contract import CompiledContract
from readback.errors import ArgumentError, SettingsError
from readback.gateway.policy.catalogue import Catalogue, ToolKey
from readback.gateway.policy.servers import GatewayFittings, Servers
from readback.gateway.upstream.upstream import Upstream
from readback.kit.wording import UNGOVERNED
from readback.ports.system_factory import ServerTerms
from readback.shadow.watched import WATCHED

Path = str | PathLike[str]
ARGUMENTS_GIVEN_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class Governed:
    """One immutable set of contracts."""

    actions: Mapping[ToolKey, FileAction]
    files: ContractFiles
    hashes: Mapping[str, str]
    """The SHA-256 of each file, by path."""

    def action(self, key: ToolKey) -> FileAction | None:
        """Return the contract of a tool, or None."""
        return self.actions.get(key)

    def __iter__(self) -> Iterator[FileAction]:
        """Iterate over every contract, including pure compensations."""
        return iter(self.files.values())


NOTHING: Final = Governed({}, ContractFiles(Loaded({}, ())), {})
"""The empty set."""


def propose(action: FileAction, arguments: object) -> Proposal:
    """Make a proposal from the call, before anything is sent. Raises ArgumentError with all problems, OversizeError."""
    if not isinstance(arguments, Mapping) or len(arguments) > ARGUMENTS_GIVEN_MAX:
        raise ArgumentError(f"The arguments must be an object of at most {ARGUMENTS_GIVEN_MAX} names.")
    given: Any = arguments
    return action(**given)


class Loader:
    """Loads contract files for one gateway.

    `reach` makes a server for reads by contracts only. The creator of the loader ends all servers in `reached`.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        servers: Servers,
        catalogue: Catalogue,
        *,
        pins: Mapping[str, str] | None,
        reach: Callable[[str, ServerTerms], Upstream],
        know: Callable[[CompiledContract], None],
        say: Callable[[str], None],
    ) -> None:
        self._paths, self._servers, self._catalogue = paths, servers, catalogue
        self._pins, self._reach, self._know, self._say = pins, reach, know, say
        self._behind: dict[str, Upstream] = {}
        """The servers read by the active contracts, by name."""
        self.reached: set[Upstream] = set()
        """All servers still read by active contracts or actions in flight."""

    async def load(self) -> Governed:
        """Load every contract of the files against the servers' current tools, and accept these tool definitions.

        Raises ContractFileError with every fault of every file, NoSuchToolError, SettingsError, UpstreamLostError.
        """
        await self._servers.list_front()
        behind: dict[str, Upstream] = {}
        try:
            loaded = self._read(behind, {})
            behind = self._named(loaded)
            if behind:
                loaded = self._read(behind, await self._servers.list_behind(behind))
            files = ContractFiles(loaded.sound())
            actions = self._governed(files)
        except BaseException:
            await self._let_go(behind, self._behind)
            raise
        held = self._catalogue.agree({key: action.written.tool_sha256 for key, action in actions.items()})
        for key in held:
            self._say(f"The tool {key[1]!r:.200} differs from the pin of {actions[key].name!r}; calls are rejected.")
        for key in filter(self._catalogue.is_task_only, actions):
            self._say(
                f"The tool {key[1]!r:.200} runs as a task alone: it will refuse what {actions[key].name!r} calls."
            )
        for action in files.values():
            self._know(action.plan)
        before, self._behind = self._behind, behind
        for server in before.values():
            if server not in behind.values():
                server.own.rest()  # actions in flight may still read from the server
        return Governed(actions, files, {home.file: home.sha256 for home in loaded.homes})

    def _read(self, behind: Mapping[str, Upstream], listed: Mapping[str, Mapping[str, object]]) -> Loaded:
        own = own_tools(self._servers, self._catalogue)
        others = {**{key: self._catalogue.tools(key) for key in self._servers.keys if key}, **listed}
        fittings = GatewayFittings(self._servers, behind)
        return loaded_files(self._paths, tools=own, others=others, fittings=fittings, pins=self._pins)

    def _named(self, loaded: Loaded) -> dict[str, Upstream]:
        """Return the additional servers named by the files. A server with an unchanged target is reused."""
        found: dict[str, Upstream] = {}
        for name, terms in servers_named(loaded).items():
            if name in self._servers.keys:
                continue
            made, known = self._reach(name, terms), self._behind.get(name)
            found[name] = known if known is not None and known.target == made.target else made
        self.reached.update(found.values())
        return found

    async def _let_go(self, made: Mapping[str, Upstream], kept: Mapping[str, Upstream]) -> None:
        """End servers made for a rejected set of contracts."""
        gone = [each for each in made.values() if each not in kept.values()]
        self.reached.difference_update(gone)
        await asyncio.gather(*(each.aclose() for each in gone))

    def _governed(self, files: ContractFiles) -> dict[ToolKey, FileAction]:
        if reserved := next((name for name in (UNGOVERNED, WATCHED) if name in files), ""):
            said = f"The contract name {reserved!r} is reserved for calls without a contract."
            raise SettingsError(said, remedy="Rename the contract.")
        actions: dict[ToolKey, FileAction] = {}
        for action in files.values():
            key = _governed_key(action, self._servers, self._catalogue)
            if key is None:
                continue
            if key in actions:
                said = f"{actions[key].name!r} and {action.name!r} govern the same tool {key[1]!r:.200}."
                raise SettingsError(said, remedy="Remove one of them, or list it under `overrides`.")
            actions[key] = action
        return actions


def own_tools(servers: Servers, catalogue: Catalogue) -> dict[str, Mapping[str, Json]]:
    """Return the tools of all front servers by name. A name used by several servers is ambiguous and left out."""
    found: dict[str, Mapping[str, Json]] = {}
    doubled: set[str] = set()
    for key in servers.keys:
        tools = catalogue.tools(key)
        doubled |= found.keys() & tools.keys()
        found |= tools
    return {name: tool for name, tool in found.items() if name not in doubled}


def servers_named(loaded: Loaded) -> dict[str, ServerTerms]:
    """Return the additional servers named by the files.

    Raises SettingsError for one name with two different servers.
    """
    found: dict[str, ServerTerms] = {}
    for home in loaded.homes:
        for name, terms in home.servers.items():
            if found.setdefault(name, terms) != terms:
                raise SettingsError(f"Two contract files use two servers with the name {name!r}.", remedy="Rename one.")
    return found


def _governed_key(action: FileAction, servers: Servers, catalogue: Catalogue) -> ToolKey | None:
    """Return the tool governed by the contract, or None for a contract called only by other contracts."""
    spec = action.written.execute
    if spec is None or spec.kind != "tool" or "arguments" in spec.asked:
        return None
    server, name = str(spec.fixed.get("server", "")), str(spec.fixed.get("name", action.name))
    if server and server not in servers.keys:
        return None
    key = servers.key_of(server, name)
    if catalogue.tool(key) is None:
        place = f"{action.written.home.file}:{action.written.place.line}"
        hint = did_you_mean(name, own_tools(servers, catalogue))
        raise NoSuchToolError(f"{place}: no server lists the tool {name!r:.200} governed by {action.name!r}.{hint}")
    for look in action.written.looks:
        fixed = look.fixed
        if look.kind == "tool" and servers.key_of(str(fixed.get("server", "")), str(fixed.get("name"))) == key:
            raise SettingsError(f"{action.name!r} reads with its own governed tool.", remedy="Name another one.")
    return key
