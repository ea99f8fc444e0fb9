"""What a server of one era says, as a client of the other understands it.

The eras: the handshake one (revisions up to 2025-11-25) and the stateless one (2026-07-28). Where both sides speak the
same one, nothing here changes a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcp_types import LOG_LEVEL_META_KEY, SERVER_INFO_META_KEY
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS

from readback.gateway.upstream.handshake import ServerInfo

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
CACHEABLE: Final = frozenset(
    {"tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read", "server/discover"}
)
MODERN_ONLY: Final = ("resultType", "ttlMs", "cacheScope")
INPUT_METHODS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""What a stateless server may answer by asking for something first."""

HANDSHAKE_ONLY: Final = (
    "initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
)  # fmt: skip
"""Requests that the stateless era has no more."""


def stateless(method: str, result: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, Any]:
    """A result with what the stateless era requires of every one, where it is not there."""
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
    """A stateless server's result without what the handshake era does not know."""
    kept = {key: value for key, value in result.items() if key not in MODERN_ONLY}
    meta = kept.get("_meta")
    if isinstance(meta, Mapping) and SERVER_INFO_META_KEY in meta:
        kept["_meta"] = {key: value for key, value in meta.items() if key != SERVER_INFO_META_KEY}
        if not kept["_meta"]:
            del kept["_meta"]
    return kept


def opted_in(meta: Mapping[str, Any], level: object) -> bool:
    """Whether a request of the stateless era wants to be told what is logged at a level."""
    wanted = meta.get(LOG_LEVEL_META_KEY)
    return wanted in LEVELS and level in LEVELS and LEVELS.index(str(level)) >= LEVELS.index(str(wanted))


def initialized(greetings: Sequence[tuple[str, ServerInfo]], asked: str, own_tools: bool) -> dict[str, Any]:
    """The answer to `initialize`, of all servers that were reached, by their names."""
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
    """The answer to `server/discover`, of all servers that were reached, by their names."""
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
    """Who answers: the server, where it is the only one."""
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
