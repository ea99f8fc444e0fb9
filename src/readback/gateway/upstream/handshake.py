"""Identity and era of a connection: the client's info, and the server's greeting.

The handshake era uses `initialize` (revisions up to 2025-11-25). The stateless era uses `server/discover`, with an
envelope in each request (2026-07-28). The client's own info is forwarded if the server speaks the client's era.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Protocol

from mcp.shared.exceptions import MCPError
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    LOG_LEVEL_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_HANDSHAKE_VERSION,
    LATEST_MODERN_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)

from readback.canon.frozen import dataclass

ENVELOPE: Final = (
    PROTOCOL_VERSION_META_KEY, CLIENT_INFO_META_KEY, CLIENT_CAPABILITIES_META_KEY, LOG_LEVEL_META_KEY,
)  # fmt: skip
TASKS: Final = "io.modelcontextprotocol/tasks"
"""The tasks extension of the stateless era."""
DISCOVER_S: Final = 10.0
INITIALIZE_S: Final = 60.0
"""How long a server may take to start. Some are downloaded first."""


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """The speaker: the gateway itself, or a client of the gateway."""

    modern: bool = False
    version: str = LATEST_HANDSHAKE_VERSION
    info: Mapping[str, Any] = field(default_factory=lambda: {"name": "readback", "version": "0.1.0"})
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of a client's `initialize`."""

    @classmethod
    def of_initialize(cls, params: Mapping[str, Any]) -> ClientInfo:
        """Read the info from a handshake-era `initialize`."""
        more = dict(params)
        version = more.pop("protocolVersion", LATEST_HANDSHAKE_VERSION)
        return cls(False, version, more.pop("clientInfo", {}), more.pop("capabilities", {}), more)

    @classmethod
    def of_envelope(cls, meta: Mapping[str, Any]) -> ClientInfo:
        """Read the info from a stateless request's envelope."""
        version = meta.get(PROTOCOL_VERSION_META_KEY, LATEST_MODERN_VERSION)
        info = meta.get(CLIENT_INFO_META_KEY) or cls().info
        return cls(True, version, info, meta.get(CLIENT_CAPABILITIES_META_KEY) or {})

    def initialize(self) -> dict[str, Any]:
        """Return the parameters of `initialize`."""
        version = LATEST_HANDSHAKE_VERSION if self.modern else self.version
        return {**self.more, "protocolVersion": version, "capabilities": self.capabilities, "clientInfo": self.info}

    def envelope(self, version: str) -> dict[str, Any]:
        """Return the `_meta` envelope of a stateless request."""
        return {
            PROTOCOL_VERSION_META_KEY: version,
            CLIENT_INFO_META_KEY: self.info,
            CLIENT_CAPABILITIES_META_KEY: self.capabilities,
        }


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A server's greeting: the raw result of `initialize` or `server/discover`."""

    modern: bool
    version: str
    result: Mapping[str, Any]

    @property
    def capabilities(self) -> dict[str, Any]:
        found = self.result.get("capabilities")
        return dict(found) if isinstance(found, dict) else {}

    @property
    def has_tasks(self) -> bool:
        """Whether the server may answer a call with a task, in either era's form."""
        able = self.capabilities
        extensions = able.get("extensions")
        return "tasks" in able or (isinstance(extensions, Mapping) and TASKS in extensions)

    @property
    def info(self) -> dict[str, Any]:
        """The server's name and version, in either era's form."""
        meta = self.result.get("_meta")
        found = meta.get(SERVER_INFO_META_KEY) if self.modern and isinstance(meta, dict) else None
        found = found or self.result.get("serverInfo")
        return dict(found) if isinstance(found, dict) else {"name": "", "version": ""}

    @property
    def instructions(self) -> str | None:
        found = self.result.get("instructions")
        return found if isinstance(found, str) else None


def enveloped(
    meta: Mapping[str, Any], hello: ClientInfo, greeting: ServerInfo, log_level: str | None
) -> dict[str, Any]:
    """Return a request's `_meta` in the form of the server's era, with or without envelope."""
    if not greeting.modern:
        return {key: value for key, value in meta.items() if key not in ENVELOPE}
    envelope = hello.envelope(greeting.version)
    if log_level is not None:
        envelope[LOG_LEVEL_META_KEY] = log_level
    envelope.update(meta)
    envelope[PROTOCOL_VERSION_META_KEY] = greeting.version
    return envelope


class Send(Protocol):
    """Sends one request of the handshake. Raises MCPError."""

    async def __call__(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float, version: str | None
    ) -> dict[str, Any]: ...


async def greet(send: Send, hello: ClientInfo, *, modern: bool | None = None) -> ServerInfo:
    """Agree on an era with a server. `modern`: the server's era, if known. Raises MCPError, ConnectionError.

    A server of both eras is addressed in the client's era. Without proof of the stateless era, the handshake is used.
    """
    first = modern if modern is not None else hello.modern
    if first:
        found = await _discover(send, hello, LATEST_MODERN_VERSION)
        if found is not None:
            return found
    try:
        result = await send("initialize", hello.initialize(), timeout_s=INITIALIZE_S, version=None)
    except MCPError as error:
        mutual = _mutual(error.data)
        # A server of the stateless era alone says so in many ways: by its versions, by any error, or by silence.
        if error.code == CONNECTION_CLOSED or ((first or modern is False) and mutual is None):
            raise
        found = await _discover(send, hello, mutual or LATEST_MODERN_VERSION)
        if found is None:
            raise
        return found
    version = result.get("protocolVersion")
    if not isinstance(version, str):
        raise MCPError(code=INTERNAL_ERROR, message="The server's answer to initialize names no protocol version.")
    return ServerInfo(False, version, result)


async def _discover(send: Send, hello: ClientInfo, version: str, *, again: bool = True) -> ServerInfo | None:
    """Return the greeting, or None if the server does not speak the stateless era."""
    params = {"_meta": hello.envelope(version)}
    try:
        result = await send("server/discover", params, timeout_s=DISCOVER_S, version=version)
    except MCPError as error:
        if error.code == CONNECTION_CLOSED:
            raise ConnectionError("The server ended when it was asked for its versions.") from error
        mutual = _mutual(error.data) if error.code == UNSUPPORTED_PROTOCOL_VERSION else None
        return await _discover(send, hello, mutual, again=False) if mutual and again else None
    supported = result.get("supportedVersions")
    known = [each for each in MODERN_PROTOCOL_VERSIONS if isinstance(supported, list) and each in supported]
    return ServerInfo(True, known[-1], result) if known else None


def _mutual(data: object) -> str | None:
    supported = data.get("supported") if isinstance(data, dict) else None
    known = [each for each in MODERN_PROTOCOL_VERSIONS if isinstance(supported, list) and each in supported]
    return known[-1] if known else None


# What a server of one era says, as a client of the other understands it.

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
CACHEABLE: Final = frozenset(
    {"tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read", "server/discover"}
)
MODERN_ONLY: Final = ("resultType", "ttlMs", "cacheScope")
INPUT_METHODS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Requests a stateless server may answer with a question first."""

HANDSHAKE_ONLY: Final = (
    "initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
)  # fmt: skip
"""Requests absent from the stateless era."""


def stateless(method: str, result: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, Any]:
    """Add the fields required of every stateless result."""
    shaped: dict[str, Any] = {"resultType": "complete", **result}
    if method in CACHEABLE and shaped["resultType"] == "complete":
        shaped = {"ttlMs": 0, "cacheScope": "private", **shaped}
    meta = shaped.get("_meta")
    if meta is None:
        shaped["_meta"] = {SERVER_INFO_META_KEY: dict(info)}
    elif isinstance(meta, Mapping) and meta.get(SERVER_INFO_META_KEY) is None:
        shaped["_meta"] = {**meta, SERVER_INFO_META_KEY: dict(info)}
    return shaped


def handshake(result: Mapping[str, Any]) -> dict[str, Any]:
    """Remove fields unknown to the handshake era from a stateless server's result."""
    kept = {key: value for key, value in result.items() if key not in MODERN_ONLY}
    meta = kept.get("_meta")
    if isinstance(meta, Mapping) and SERVER_INFO_META_KEY in meta:
        kept["_meta"] = {key: value for key, value in meta.items() if key != SERVER_INFO_META_KEY}
        if not kept["_meta"]:
            del kept["_meta"]
    return kept


def opted_in(meta: Mapping[str, Any], level: object) -> bool:
    """Return whether a stateless request asked for log messages of this level."""
    wanted = meta.get(LOG_LEVEL_META_KEY)
    return wanted in LEVELS and level in LEVELS and LEVELS.index(str(level)) >= LEVELS.index(str(wanted))


def initialized(greetings: Sequence[tuple[str, ServerInfo]], asked: str, own_tools: bool) -> dict[str, Any]:
    """Build the answer to `initialize` from all reached servers, by name."""
    first = greetings[0][1]
    if len(greetings) == 1 and not first.modern:
        return {**first.result, "capabilities": _capabilities(greetings, own_tools)}
    version = asked if asked in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION
    versions = [each.version for _, each in greetings if not each.modern]
    known = [each for each in versions if each in HANDSHAKE_PROTOCOL_VERSIONS]
    return {
        "protocolVersion": min([version, *known]),
        "capabilities": _capabilities(greetings, own_tools),
        "serverInfo": info(greetings),
        **_instructions(greetings),
    }


def discovered(greetings: Sequence[tuple[str, ServerInfo]], own_tools: bool) -> dict[str, Any]:
    """Build the answer to `server/discover` from all reached servers, by name."""
    first = greetings[0][1]
    capabilities = _capabilities(greetings, own_tools)
    if len(greetings) == 1 and first.modern:
        return {**first.result, "capabilities": capabilities}
    for kind in ("tools", "prompts", "resources"):
        if kind in capabilities:  # changes are told by `subscriptions/listen`, which the gateway answers itself
            capabilities[kind] = {**capabilities[kind], "listChanged": True}
    versions = {"supportedVersions": list(MODERN_PROTOCOL_VERSIONS)}
    found = {**versions, "capabilities": capabilities, **_instructions(greetings)}
    return stateless("server/discover", found, info(greetings))


def info(greetings: Sequence[tuple[str, ServerInfo]]) -> dict[str, Any]:
    """Return the server info of an answer: the only server's own, or the gateway's."""
    if len(greetings) == 1:
        return greetings[0][1].info
    names = ", ".join(key for key, _ in greetings)
    return {"name": "readback", "title": f"Readback before {names}", "version": "0.1.0"}


def _capabilities(greetings: Sequence[tuple[str, ServerInfo]], own_tools: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _, greeting in greetings:
        found = _united(found, greeting.capabilities)
    if own_tools:  # the contracts that govern the servers' tools may change, whatever the servers say of them
        tools = found.get("tools")
        found["tools"] = {**(tools if isinstance(tools, Mapping) else {}), "listChanged": True}
    return found


def _united(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    united = dict(one)
    for key, value in other.items():
        mine = united.get(key)
        if isinstance(mine, Mapping) and isinstance(value, Mapping):
            united[key] = _united(mine, value)
        elif not mine:
            united[key] = value
    return united


def _instructions(greetings: Sequence[tuple[str, ServerInfo]]) -> dict[str, str]:
    said = [(key, greeting.instructions) for key, greeting in greetings if greeting.instructions]
    if len(greetings) == 1:
        return {"instructions": str(said[0][1])} if said else {}
    return {"instructions": "\n\n".join(f"{key}: {text}" for key, text in said)} if said else {}
