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
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from readback.frameworks.versions import check_version, of_framework
from readback.kit import Kit, ShownCall, Tool, ToolResult

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
            options: The agent's `ClaudeAgentOptions`. A path in `mcp_servers` stays ungoverned.
            corrections: How often the model may correct a final answer before the answer is replaced.
            server: The name of the MCP server with the kit's actions.
        """
        self.kit, self.parked = kit, dict[str, ToolResult]()
        self.options = options or sdk.ClaudeAgentOptions()
        self._corrections, self._server = corrections, server
        self._tools: dict[str, tuple[Tool, Call | None]] = {}
        self._passed: dict[str, list[tuple[str, str | None, str]]] = {}  # by call: id, operation and run, oldest first
        self._open: dict[str, ShownCall] = {}
        self._shown: dict[str, dict[str, ShownCall]] = {}
        self._corrected: dict[str, int] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        servers = self.options.mcp_servers
        attached = dict(servers) if isinstance(servers, Mapping) else None
        if attached is not None:
            for name, config in attached.items():
                attached[name] = await self._attached(name, config)
        own = [tool for tool in self.kit.tools.values() if not tool.foreign]
        mine = sdk.create_sdk_mcp_server(self._server, tools=[self._served(self._server, tool) for tool in own])
        hooks = {event: list(matchers) for event, matchers in (self.options.hooks or {}).items()}
        hooks.setdefault("PreToolUse", []).append(sdk.HookMatcher(hooks=[self._before], on_failure="block"))
        hooks.setdefault("Stop", []).append(sdk.HookMatcher(hooks=[self._stop]))
        self.options = dataclasses.replace(
            self.options,
            mcp_servers={**(attached or {}), self._server: mine},
            allowed_tools=[*self.options.allowed_tools, *(f"mcp__{self._server}__{tool.name}" for tool in own)],
            hooks=hooks,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        if not text or (not message.session_id and not self._shown):
            return message
        answer = await self.kit.afinal(text, run=message.session_id or next(iter(self._shown)))
        if answer.ok:
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
            call = _caller(session, tool.name)
            if self.kit.governs(tool.name):
                served.append(self._served(name, self.kit.govern(tool.name, definition=definition), call))
            else:
                served.append(_passed_through(definition, call))
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
            self._open.pop(id_, None)
            self._shown.setdefault(run, {})[id_] = ShownCall(tool.name, arguments, result.text)
            return _content(result.text, result.is_error)

        return sdk.SdkMcpTool(tool.name, tool.description, tool.schema, handler)

    async def _before(self, given: Any, id_: str | None, context: Any) -> dict[str, Any]:
        """Name the operation of a call before the call is made, and defer a call without the needed approval."""
        if given["tool_name"] not in self._tools or id_ is None:
            return {}
        tool, call = self._tools[given["tool_name"]]
        run, arguments = given["session_id"], given["tool_input"]
        made = ShownCall(tool.name, arguments)
        if run not in self._shown:  # a session of an earlier process; from here on this process knows all results
            self._shown[run] = _transcript(given["transcript_path"], self._tools)
        shown = [each for other, each in self._shown[run].items() if other != id_]
        ordinal = sum(each == made for other, each in self._open.items() if other != id_)
        operation = await self.kit.aoperation(tool.name, arguments, run=run, shown=shown, ordinal=ordinal)
        if tool.may_park and await tool.awaits_for(arguments, operation=operation, run=run):
            result = await tool.arun(arguments, operation=operation, run=run, wait=0, call=call)
            if result.status == "parked":
                self.parked[id_] = result
                return _decision("defer", result.message)
        self.parked.pop(id_, None)
        self._open[id_] = made
        self._passed.setdefault(_key(given["tool_name"], arguments), []).append((id_, operation, run))
        return {}

    async def _stop(self, given: Any, id_: str | None, context: Any) -> dict[str, Any]:
        """Ask the model once more where the final answer claims more than the ledger holds."""
        run = given["session_id"]
        count = self._corrected.get(run, 0) if given.get("stop_hook_active") else 0
        answer = await self.kit.afinal(given.get("last_assistant_message") or "", run=run)
        self._corrected[run] = count + 1
        if answer.ok or count >= self._corrections or not answer.correction:
            return {}
        return {"decision": "block", "reason": answer.correction}

    def _warn(self, names: list[str]) -> None:
        self.kit.warn_ungoverned("Claude Agent SDK", [name for name in names if name not in self._tools])


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
    rest = {key: value for key, value in config.items() if key != "type"}
    make = {"sse": SseServerParameters, "http": StreamableHttpParameters}.get(kind, StdioServerParameters)
    return await group.connect_to_server(make(**rest))


def _caller(session: Any, name: str) -> Call:
    async def call(arguments: dict[str, Any]) -> Any:
        result = await session.call_tool(name, arguments)
        return result.model_dump(mode="json", by_alias=True, exclude_none=True)

    return call


def _passed_through(definition: dict[str, Any], call: Call) -> Any:
    async def handler(arguments: dict[str, Any]) -> dict[str, Any]:
        result = await call(arguments)
        return {"content": result.get("content", []), "is_error": bool(result.get("isError"))}

    return sdk.SdkMcpTool(definition["name"], definition.get("description", ""), definition["inputSchema"], handler)


def _transcript(path: str, tools: Mapping[str, tuple[Tool, Call | None]]) -> dict[str, ShownCall]:
    """Return the calls of our tools with a result in the session's transcript, by id."""
    file = Path(path)
    if not file.is_file() or file.stat().st_size > _TRANSCRIPT_BYTES_MAX:
        return {}
    made: dict[str, ShownCall] = {}
    shown: dict[str, ShownCall] = {}
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            blocks = json.loads(line)["message"]["content"]
        except (ValueError, KeyError, TypeError):
            continue  # a line without a message
        for block in blocks if isinstance(blocks, list) else []:
            if block.get("type") == "tool_use" and block.get("name") in tools:
                made[block["id"]] = ShownCall(tools[block["name"]][0].name, block["input"])
            if block.get("type") == "tool_result" and block.get("tool_use_id") in made:
                call = made[block["tool_use_id"]]
                shown[block["tool_use_id"]] = ShownCall(call.tool, call.arguments, _text(block.get("content")))
    return shown


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content or ())


def _content(text: str, is_error: bool) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "is_error": is_error}


def _decision(decision: str, reason: str) -> dict[str, Any]:
    wanted = {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason}
    return {"hookSpecificOutput": wanted}


def _key(name: str, arguments: Any) -> str:
    return json.dumps([name, arguments], sort_keys=True)


__all__ = ["Governed"]
