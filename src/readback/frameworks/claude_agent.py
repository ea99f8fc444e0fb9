"""Public: the adapter for the Claude Agent SDK.

A `Governed` agent serves the kit's actions as an MCP server of this process. MCP servers of the options with a governed
tool are attached through this process too, so each call runs under a contract:

    async with Governed(kit, options) as agent:
        async for message in agent.query("Ship order o-17."):
            ...

An action with a missing approval ends the run with `ResultMessage.deferred_tool_use`, and `agent.parked` holds the
approval packet. A later query with `resume=session_id` makes the same call again.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Self

from readback.errors import UsageError
from readback.frameworks.history import History, Turn
from readback.frameworks.versions import check_version, of_framework
from readback.kit import Corrections, Kit, Tool, ToolResult

with of_framework("claude-agent", "Claude Agent SDK"):
    import anyio
    import claude_agent_sdk as sdk
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.session_group import ClientSessionGroup, SseServerParameters, StreamableHttpParameters
    from mcp.shared.memory import create_client_server_memory_streams

check_version("Claude Agent SDK", distribution="claude-agent-sdk", lowest="0.2.178", below="0.2.190")

Call = Callable[[dict[str, Any]], Awaitable[Any]]
_TRANSCRIPT_BYTES_MAX = 64 * 1024 * 1024
"""A longer transcript is not read: a repeated call is then answered from the ledger's record."""


class Governed:
    """A Claude agent under a kit, with options, messages and parked actions.

    Hooks of the command line fail open by default. This class sets `on_failure="block"`, and a tool without a passed
    hook does not run. The hook at the end ignores the setting, so each answer is checked again in this process.
    """

    def __init__(self, kit: Kit, options: Any = None, *, corrections: int = 1, server: str = "readback") -> None:
        """Prepare an agent. Servers are connected by `async with`.

        Args:
            kit: The open kit.
            options: The agent's `ClaudeAgentOptions`. A path in `mcp_servers` is read when the agent is entered.
            corrections: How often the model may correct a final answer before the answer is replaced.
            server: The name of the MCP server with the kit's actions.
        """
        self.kit, self.parked = kit, dict[str, ToolResult]()
        self.options = options or sdk.ClaudeAgentOptions()
        self._corrections, self._server = corrections, server
        self._tools: dict[str, tuple[Tool, Call | None]] = {}
        self._passed: dict[str, list[tuple[str, str | None, str]]] = {}  # by call: id, operation and run, oldest first
        self._turns: dict[str, Turn] = {}
        self._checks: dict[str, Corrections] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        given = _configured(self.options.mcp_servers)
        attached = {name: await self._attached(name, config) for name, config in given.items()}
        own = self.kit.own_tools
        mine = sdk.create_sdk_mcp_server(self._server, tools=[self._served(self._server, tool) for tool in own])
        hooks = {event: list(matchers) for event, matchers in (self.options.hooks or {}).items()}
        hooks.setdefault("PreToolUse", []).append(sdk.HookMatcher(hooks=[self._before], on_failure="block"))
        hooks.setdefault("Stop", []).append(sdk.HookMatcher(hooks=[self._stop]))
        self.options = dataclasses.replace(
            self.options,
            mcp_servers={**attached, self._server: mine},
            allowed_tools=[*self.options.allowed_tools, *(f"mcp__{self._server}__{tool.name}" for tool in own)],
            hooks=hooks,
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    def query(self, prompt: Any, **changes: Any) -> AsyncIterator[Any]:
        """Run a query, and return the checked messages. `changes` replace options, such as `resume`."""
        return self.checked(sdk.query(prompt=prompt, options=dataclasses.replace(self.options, **changes)))

    async def checked(self, messages: AsyncIterable[Any]) -> AsyncIterator[Any]:
        """Pass messages on. Texts beyond the reconciled state are replaced, and partial texts are withheld."""
        async for message in messages:
            if isinstance(message, sdk.SystemMessage) and message.subtype == "init":
                self._warn(message.data.get("tools") or [])
            if isinstance(message, sdk.StreamEvent) and "text" in str(message.event.get("delta", {}).get("type")):
                continue
            if isinstance(message, sdk.ResultMessage) and message.result and not message.deferred_tool_use:
                answer = await self.kit.afinal(message.result, run=message.session_id)
                message = message if answer.ok else dataclasses.replace(message, result=answer.text)
            if isinstance(message, sdk.AssistantMessage) and not message.parent_tool_use_id:
                message = await self._checked_blocks(message)
            yield message

    async def _checked_blocks(self, message: Any) -> Any:
        text = "\n".join(block.text for block in message.content if isinstance(block, sdk.TextBlock))
        run = message.session_id or next(iter(self._turns), "")
        answer = await self.kit.afinal(text, run=run) if text and run else None
        if answer is None or answer.ok:
            return message
        others = [block for block in message.content if not isinstance(block, sdk.TextBlock)]
        return dataclasses.replace(message, content=[sdk.TextBlock(text=answer.text), *others])

    async def _attached(self, name: str, config: Any) -> Any:
        """Return a server of this process in front of a server with a governed tool, else the configuration."""
        stack = AsyncExitStack()
        session = await connected(stack, config)
        listed = (await session.list_tools()).tools
        # The run's first message misses the tools of a server that the command line has not reached yet.
        self._warn([f"mcp__{name}__{tool.name}" for tool in listed if not self.kit.governs(tool.name)])
        if not any(self.kit.governs(tool.name) for tool in listed):
            await stack.aclose()
            return config
        self._stack.push_async_exit(stack)
        served = []
        for tool in listed:
            definition = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
            call = partial(session.call_tool, tool.name)
            governed = self.kit.govern(tool.name, definition=definition) if self.kit.governs(tool.name) else None
            served.append(self._served(name, governed, call) if governed else _passed_through(definition, call))
        return sdk.create_sdk_mcp_server(name, tools=served)

    def _served(self, server: str, tool: Tool, call: Call | None = None) -> Any:
        full = f"mcp__{server}__{tool.name}"
        self._tools[full] = (tool, call)

        async def handler(arguments: dict[str, Any]) -> dict[str, Any]:
            waiting = self._passed.get(_key(full, arguments))
            if not waiting:
                return _content("Refused: no hook of Readback has seen this call, so the call was not made.", True)
            id_, operation, run = waiting.pop(0)
            result = await tool.arun(arguments, operation=operation, run=run, call=call)
            self._turns[run].end(id_, result.text)
            return _content(result.text, result.is_error)

        return sdk.SdkMcpTool(tool.name, tool.description, tool.schema, handler)

    async def _before(self, given: Any, id_: str | None, context: Any) -> dict[str, Any]:
        """Name the operation of a call before the call is made, and defer a call without the needed approval."""
        if given["tool_name"] not in self._tools or id_ is None:
            return {}
        tool, call = self._tools[given["tool_name"]]
        run, arguments = given["session_id"], given["tool_input"]
        if run not in self._turns:  # a session of an earlier process; from here on this process knows all results
            self._turns[run] = Turn(_transcript(given["transcript_path"], self._tools), ids_are_unique=True)
        place = self._turns[run].begin(tool.name, arguments, id_)
        operation = await self.kit.aoperation(tool, arguments, run=run, **place)
        parked = await tool.apark(arguments, operation=operation, run=run, call=call)
        if parked is not None:
            self._turns[run].end(id_)
            self.parked[id_] = parked
            said = {"permissionDecision": "defer", "permissionDecisionReason": parked.message}
            return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **said}}
        self.parked.pop(id_, None)
        self._passed.setdefault(_key(given["tool_name"], arguments), []).append((id_, operation, run))
        return {}

    async def _stop(self, given: Any, id_: str | None, context: Any) -> dict[str, Any]:
        """Ask the model once more where the final answer claims more than the ledger holds."""
        run = given["session_id"]
        if run not in self._checks or not given.get("stop_hook_active"):
            self._checks[run] = self.kit.corrections(self._corrections, run=run)
        answer = await self._checks[run].acheck(given.get("last_assistant_message") or "")
        return {"decision": "block", "reason": answer.correction} if answer.correction else {}

    def _warn(self, names: list[str]) -> None:
        self.kit.warn_ungoverned("Claude Agent SDK", [name for name in names if name not in self._tools])


def _configured(servers: Any) -> Mapping[str, Any]:
    """Return the servers of the options. A path or a JSON text has the servers under `mcpServers`."""
    if isinstance(servers, Mapping):
        return servers
    text = str(servers)
    try:
        found = json.loads(text if text.lstrip().startswith("{") else Path(text).read_bytes())
        return dict(found["mcpServers"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        remedy = 'Name a JSON file, or a JSON text, such as {"mcpServers": {}}.'
        raise UsageError(f"`mcp_servers` has no servers: {error!r:.200}.", remedy=remedy) from error


async def connected(stack: AsyncExitStack, config: Any) -> Any:
    """Open a client session to a server of the options, by the protocol's own package."""
    kind = config.get("type", "stdio")
    if kind == "sdk":
        client, server = await stack.enter_async_context(create_client_server_memory_streams())
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        instance = config["instance"]
        tasks.start_soon(instance.run, *server, instance.create_initialization_options())
        session = await stack.enter_async_context(ClientSession(*client))
        await session.initialize()
        return session
    group = await stack.enter_async_context(ClientSessionGroup())
    make = {"sse": SseServerParameters, "http": StreamableHttpParameters}.get(kind, StdioServerParameters)
    return await group.connect_to_server(make(**config))


def _passed_through(definition: dict[str, Any], call: Call) -> Any:
    async def handler(arguments: dict[str, Any]) -> dict[str, Any]:
        result = (await call(arguments)).model_dump(mode="json", by_alias=True, exclude_none=True)
        return {"content": result.get("content", []), "is_error": bool(result.get("isError"))}

    return sdk.SdkMcpTool(definition["name"], definition.get("description", ""), definition["inputSchema"], handler)


def _transcript(path: str, tools: Mapping[str, tuple[Tool, Call | None]]) -> History:
    """Return the calls of our tools in the session's transcript, with their results."""
    history, file = History(), Path(path)
    if not file.is_file() or file.stat().st_size > _TRANSCRIPT_BYTES_MAX:
        return history
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            blocks = json.loads(line)["message"]["content"]
        except (ValueError, KeyError, TypeError):
            continue  # a line without a message
        for block in blocks if isinstance(blocks, list) else []:
            if block.get("type") == "tool_use" and block.get("name") in tools:
                history.add_call(block["id"], tools[block["name"]][0].name, block["input"])
            if block.get("type") == "tool_result":
                history.add_result(block.get("tool_use_id"), _text(block.get("content")))
    return history


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content or ())


def _content(text: str, is_error: bool) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "is_error": is_error}


def _key(name: str, arguments: Any) -> str:
    return json.dumps([name, arguments], sort_keys=True)


__all__ = ["Governed"]
