"""The scenarios under the Claude Agent SDK: the real bundled command line against a Messages API on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import claude_agent_sdk as sdk

from readback.frameworks.claude_agent import Governed
from tests.frameworks import shop
from tests.frameworks.driver import Call, Driver, Played, Result, Seen, Setting, Turn, played
from tests.frameworks.messages_api import MessagesApi, blocks_of, results_of, text_of

NO_SYNC = "the SDK has no interface without async"


class ClaudeAgent(Driver):
    name = "claude_agent"
    packages = ("claude-agent-sdk", "mcp")
    ways = ("async", "stream")
    hooks = ("before", "final_stop", "final_checked_blocks")
    cannot: ClassVar[dict[str, str]] = {
        "a_foreign_tool_without_async": NO_SYNC,
        "five_in_parallel_without_async": NO_SYNC,
    }
    notes: ClassVar[dict[str, str]] = {
        "foreign": "the command line's built-in tools are ungoverned and listed: `readback hook` governs those",
        "operation": "after a crash the command line does not call the tool again; the model has to",
    }

    async def play(self, turns: Sequence[Turn], setting: Setting) -> Played:
        session = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{shop.home()}/{setting.run}"))
        if setting.again:
            _end_orphan(session)
        start = {"resume": session} if setting.again else {"session_id": session}
        return await self._ran(turns, setting, session, **start)

    async def resume(self, paused: Played, turns: Sequence[Turn], setting: Setting, *, accept: bool) -> Played:
        if not accept:
            for action in paused.actions:
                await self.kit.areject(action, "rejected by the person at the pause")
        return await self._ran(turns, setting, paused.state, resume=paused.state)

    async def replay(self, turns: Sequence[Turn], setting: Setting) -> Played:
        """The command line repeats no call, so the model makes the call again in a session without its result."""
        await self.play(turns, setting)
        for file in _home().glob("projects/*/*.jsonl"):
            file.unlink()
        return await self.play(turns, setting)

    def seam(self) -> Callable[[int], Awaitable[Any]]:
        agent = Governed(self.kit)
        [tool] = [agent._served("readback", each) for each in self.kit.tools.values() if each.name == "touch"]

        async def call(number: int) -> Any:
            arguments = {"number": number}
            given = {
                "tool_name": "mcp__readback__touch",
                "tool_input": arguments,
                "session_id": f"s{number}",  # as in the other drivers: a conversation with this call alone
                "transcript_path": "",
            }
            await agent._before(given, f"c{number}", None)
            answer = await tool.handler(arguments)
            assert not answer["is_error"], answer
            return answer

        return call

    async def _ran(self, turns: Sequence[Turn], setting: Setting, session: str, **start: Any) -> Played:
        found, called = Played(state=session), dict[str, str]()
        named = [_named(turn, setting) for turn in turns]
        with MessagesApi(named) as api:
            agent = _broken(setting.broken)(self.kit, _options(api.url, setting), corrections=1)
            try:
                async with agent:
                    async for message in agent.query("go", include_partial_messages=setting.way == "stream", **start):
                        _read(message, found, called)
            except Exception as error:  # tidy: boundary -- the scenario judges what the framework raises
                found.raised = type(error).__name__
        names = {block["id"]: block["name"].rpartition("__")[2] for block in blocks_of(api.messages, "tool_use")}
        shown = [
            Result(names.get(block["tool_use_id"], ""), not block.get("is_error"), text_of(block.get("content")))
            for block in results_of(api.messages)
        ]
        # A resumed call has no message, and the model's history has one result for each id.
        found.results = max(found.results, shown, key=len)
        found.actions = tuple(result.action for result in agent.parked.values())
        return found


def _named(turn: Turn, setting: Setting) -> Turn:
    """The turn with the names that the command line gives to tools of servers."""

    def named(seen: Seen) -> str | Sequence[Call]:
        made = played(turn, seen)
        if isinstance(made, str):
            return made
        return [
            replace(call, name=f"mcp__{'book' if call.name == 'enter' else 'readback'}__{call.name}") for call in made
        ]

    return named


def _end_orphan(session: str) -> None:
    """End the command line that outlived the crashed process of this session."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"--session-id={session}".encode() in (folder / "cmdline").read_bytes():
                os.kill(int(folder.name), signal.SIGTERM)


def _home() -> Path:
    return shop.home() / "claude"


def _options(url: str, setting: Setting) -> Any:
    servers: dict[str, Any] = {}
    root = Path(__file__).resolve().parents[3]
    if setting.foreign == "mcp":
        servers["book"] = {
            "command": sys.executable,
            "args": [str(root / "tests/frameworks/book.py"), str(shop.home())],
        }
    elif setting.foreign or setting.ungoverned:
        tools = [sdk.SdkMcpTool("enter", "Enter an amount.", shop.ENTER_SCHEMA, _enter)] if setting.foreign else []
        servers["book"] = sdk.create_sdk_mcp_server("book", tools=tools)
    if setting.ungoverned:
        peek = sdk.SdkMcpTool("peek", "Look a name up.", {"name": str}, _peek)
        servers["look"] = sdk.create_sdk_mcp_server("look", tools=[peek])
    work = shop.home() / "work"
    work.mkdir(exist_ok=True)
    environment = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CONFIG_DIR": str(_home()),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    file = shop.home() / "servers.json"
    file.write_text(json.dumps({"mcpServers": servers} if setting.foreign == "mcp" else {}))
    return sdk.ClaudeAgentOptions(
        mcp_servers=file if setting.foreign == "mcp" and not setting.ungoverned else servers,
        allowed_tools=["mcp__book__enter", "mcp__look__peek"],
        tools=[],
        setting_sources=[],
        model="claude-sonnet-4-5",
        cwd=work,
        env=environment,
        stderr=lambda line: None,  # a pipe of its own: the command line may outlive a crashed process for a moment
    )


async def _enter(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": shop.enter(**arguments)}]}


async def _peek(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": shop.peek(**arguments)}]}


def _read(message: Any, found: Played, names: dict[str, str]) -> None:
    if isinstance(message, sdk.AssistantMessage):
        uses = [block for block in message.content if isinstance(block, sdk.ToolUseBlock)]
        names.update({block.id: block.name.rpartition("__")[2] for block in uses})
        found.streamed += "".join(block.text for block in message.content if isinstance(block, sdk.TextBlock))
    if isinstance(message, sdk.StreamEvent):
        found.streamed += message.event.get("delta", {}).get("text", "")
    if isinstance(message, sdk.UserMessage) and isinstance(message.content, list):
        for block in message.content:
            if isinstance(block, sdk.ToolResultBlock):
                name = names.get(block.tool_use_id, "")
                found.results.append(Result(name, not block.is_error, text_of(block.content)))
    if isinstance(message, sdk.ResultMessage):
        found.final = message.result or ""


def _broken(hook: str) -> type[Governed]:
    """The agent, with one hook that raises."""
    if not hook:
        return Governed

    async def fail(self: Any, *given: Any) -> dict[str, Any]:
        raise KeyError("a fault of the adapter")

    return type("Broken", (Governed,), {f"_{hook.removeprefix('final_')}": fail})
