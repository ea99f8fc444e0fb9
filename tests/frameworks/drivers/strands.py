"""The scenarios under Strands, with a scripted `Model`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from mcp import StdioServerParameters, stdio_client
from strands import Agent, tool
from strands.hooks import AfterToolCallEvent
from strands.middleware import ExecuteToolContext
from strands.models import Model
from strands.session.file_session_manager import FileSessionManager
from strands.tools.mcp import MCPClient

from readback.frameworks import strands as adapter
from tests.frameworks import shop
from tests.frameworks.driver import Driver, Played, Result, Seen, Setting, Turn, played

INTERRUPTED = "Tool was interrupted."


class Scripted(Model):
    def __init__(self, turns: Sequence[Turn]) -> None:
        self.turns = list(turns)

    def update_config(self, **config: Any) -> None:
        pass

    def get_config(self) -> dict[str, Any]:
        return {}

    async def structured_output(self, *args: Any, **kwargs: Any) -> AsyncIterator[dict[str, Any]]:
        yield {}

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[dict[str, Any]]:
        turn = played(self.turns.pop(0) if self.turns[1:] else self.turns[0], _seen(messages))
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(turn, str):
            yield {"contentBlockStart": {"start": {}}}
            for word in turn.split(" "):
                yield {"contentBlockDelta": {"delta": {"text": word + " "}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}
            return
        for call in turn:
            given = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
            yield {"contentBlockStart": {"start": {"toolUse": {"name": call.name, "toolUseId": call.id}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": given}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use"}}


class Strands(Driver):
    name = "strands"
    packages = ("strands-agents",)
    hooks = ("execute_tool", "final_invoke_model")
    cannot: ClassVar[dict[str, str]] = {}
    notes: ClassVar[dict[str, str]] = {
        "operation": "after a crash the framework writes a result of its own; the model has to make the call again",
    }

    async def play(self, turns: Sequence[Turn], setting: Setting) -> Played:
        with contextlib.ExitStack() as stack:
            return await self._ran(self._agent(turns, setting, stack), "go", setting)

    async def resume(self, paused: Played, turns: Sequence[Turn], setting: Setting, *, accept: bool) -> Played:
        answers = [{"interruptResponse": {"interruptId": each, "response": accept}} for each in paused.state]
        with contextlib.ExitStack() as stack:
            return await self._ran(self._agent(turns, setting, stack), answers, setting)

    async def replay(self, turns: Sequence[Turn], setting: Setting) -> Played:
        """The framework's retry: a hook asks for the same tool use three times."""
        tries: list[int] = []

        def again(event: AfterToolCallEvent) -> None:
            tries.append(1)
            event.retry = len(tries) < 3

        with contextlib.ExitStack() as stack:
            agent = self._agent(turns, setting, stack)
            agent.hooks.add_callback(AfterToolCallEvent, again)
            return await self._ran(agent, "go", setting)

    def seam(self) -> Callable[[int], Awaitable[Any]]:
        middleware = adapter.Middleware(self.kit)
        [own] = [each for each in adapter.tools(self.kit) if each.tool_name == "touch"]
        agent = Agent(model=Scripted(["end"]), tools=[own], callback_handler=None)

        async def call(number: int) -> Any:
            use = {"name": "touch", "toolUseId": f"c{number}", "input": {"number": number}}
            context = ExecuteToolContext(agent, own, use, {}, agent.cancel_signal, agent._interrupt_state)

            async def last(given: Any) -> Any:
                async for event in given.tool.stream(use, {}):
                    yield event

            return [event async for event in middleware.execute_tool(context, last)]

        return call

    def _agent(self, turns: Sequence[Turn], setting: Setting, stack: contextlib.ExitStack) -> Agent:
        folder = str(setting.store or shop.home() / "sessions")
        agent = Agent(
            model=Scripted(turns),
            tools=[*adapter.tools(self.kit), *_foreign(setting, stack)],
            callback_handler=None,
            session_manager=FileSessionManager(session_id=setting.run, storage_dir=folder),
        )
        with _broken(setting.broken):
            return adapter.readback(agent, self.kit)

    async def _ran(self, agent: Agent, prompt: Any, setting: Setting) -> Played:
        found, before = Played(), len(agent.messages)
        try:
            if setting.way == "sync":
                result = await asyncio.to_thread(agent, prompt)
            elif setting.way == "stream":
                async for event in agent.stream_async(prompt):
                    found.streamed += event.get("data", "")
                    result = event.get("result")
            else:
                result = await agent.invoke_async(prompt)
        except Exception as error:  # tidy: boundary -- the scenario judges what the framework raises
            found.raised = type(error).__name__
            return found
        found.final = str(result).strip() if result.stop_reason == "end_turn" else ""
        found.state = [each.id for each in result.interrupts or ()]
        found.actions = tuple(each.reason["action"] for each in result.interrupts or ())
        names = {each["toolUseId"]: each["name"] for each in _blocks(agent.messages, "toolUse")}
        for each in _blocks(agent.messages[before:], "toolResult"):
            text = each["content"][0]["text"]
            if text != INTERRUPTED:
                found.results.append(Result(names[each["toolUseId"]], each["status"] == "success", text))
        return found


def _blocks(messages: Sequence[Any], kind: str) -> list[Any]:
    return [block[kind] for message in messages for block in message["content"] if kind in block]


def _seen(messages: Sequence[Any]) -> Seen:
    texts = [each["content"][0]["text"] for each in _blocks(messages, "toolResult")]
    return Seen(tuple(text for text in texts if text != INTERRUPTED), json.dumps(messages, default=str))


def _foreign(setting: Setting, stack: contextlib.ExitStack) -> list[Any]:
    found: list[Any] = []
    if setting.foreign == "local":
        found.append(tool(shop.enter))
    if setting.foreign == "mcp":
        root = Path(__file__).resolve().parents[3]
        arguments = [str(root / "tests/frameworks/book.py"), str(shop.home())]
        server = StdioServerParameters(command=sys.executable, args=arguments)
        client = stack.enter_context(MCPClient(lambda: stdio_client(server)))
        found += client.list_tools_sync()
    if setting.ungoverned:
        found.append(tool(shop.peek))
    return found


@contextlib.contextmanager
def _broken(hook: str) -> Any:
    """The middleware, with one stage that raises."""
    if not hook:
        yield
        return
    stage = hook.removeprefix("final_")
    whole = getattr(adapter.Middleware, stage)

    async def fail(self: Any, context: Any, next_fn: Any) -> AsyncIterator[Any]:
        raise KeyError("a fault of the adapter")
        yield

    setattr(adapter.Middleware, stage, fail)
    try:
        yield
    finally:
        setattr(adapter.Middleware, stage, whole)
