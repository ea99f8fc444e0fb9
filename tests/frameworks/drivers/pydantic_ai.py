"""Pydantic AI: the capability under `FunctionModel`, deferred tool results, and a message history on disk as store."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, FunctionToolset
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from readback.frameworks import pydantic_ai as adapter
from tests.frameworks import shop
from tests.frameworks.driver import Call, Driver, Played, Result, Seen, Setting, Turn, played

BOOK = Path(__file__).resolve().parents[1] / "book.py"


def model(turns: Sequence[Turn], store: Path | None = None) -> FunctionModel:
    """A model that plays turns. The last turn repeats. With a store, the history is saved before the tools run."""
    rest = itertools.chain(turns, itertools.repeat(turns[-1]))

    def answer(messages: Any, info: Any) -> ModelResponse:
        parts = [part for message in messages for part in message.parts]
        results = tuple(str(part.content) for part in parts if isinstance(part, ToolReturnPart | RetryPromptPart))
        turn = played(next(rest), Seen(results, "\n".join(str(getattr(part, "content", "")) for part in parts)))
        made = (
            ModelResponse(parts=[TextPart(turn)])
            if isinstance(turn, str)
            else ModelResponse(parts=[ToolCallPart(each.name, each.arguments, tool_call_id=each.id) for each in turn])
        )
        if store is not None:
            (store / "history.json").write_bytes(ModelMessagesTypeAdapter.dump_json([*messages, made]))
        return made

    async def stream(messages: Any, info: Any) -> AsyncIterator[Any]:
        for number, part in enumerate(answer(messages, info).parts):
            if isinstance(part, TextPart):
                for count, word in enumerate(part.content.split(" ")):
                    yield word if count == 0 else " " + word
            else:
                arguments = part.args if isinstance(part.args, str) else json.dumps(part.args)
                yield {number: DeltaToolCall(name=part.tool_name, json_args=arguments, tool_call_id=part.tool_call_id)}

    return FunctionModel(answer, stream_function=stream)


class PydanticAI(Driver):
    name = "pydantic_ai"
    packages = ("pydantic-ai-slim",)
    hooks = (
        "get_toolset",
        "get_wrapper_toolset",
        "settle",
        "before_node_run",
        "final before_model_request",
        "final about",
    )

    def _agent(self, turns: Sequence[Turn], setting: Setting) -> Any:
        kind: Any = adapter.Readback
        if setting.broken:
            name = setting.broken.rpartition(" ")[2]

            def raising(*arguments: Any, **named: Any) -> Any:
                raise KeyError("a bug of the adapter")

            kind = type("Broken", (adapter.Readback,), {name: raising})
        toolsets: list[Any] = []
        if setting.foreign == "local":
            toolsets.append(FunctionToolset([shop.enter]))
        if setting.ungoverned:
            toolsets.append(FunctionToolset([shop.peek]))
        if setting.foreign == "mcp":
            toolsets.append(_mcp())
        return Agent(
            model(turns, setting.store),
            toolsets=toolsets,
            capabilities=[kind(self.kit)],
            output_type=[str, DeferredToolRequests],
        )

    async def play(self, turns: Sequence[Turn], setting: Setting) -> Played:
        if setting.again:
            assert setting.store is not None
            stored = ModelMessagesTypeAdapter.validate_json((setting.store / "history.json").read_bytes())
            return await self._ran(turns, setting, None, message_history=stored)
        return await self._ran(turns, setting, "go")

    async def _ran(self, turns: Sequence[Turn], setting: Setting, prompt: Any, **options: Any) -> Played:
        done, result = Played(), None
        options["conversation_id"] = setting.run
        try:
            agent = self._agent(turns, setting)
            if setting.way == "sync":
                result = await asyncio.to_thread(lambda: agent.run_sync(prompt, **options))
            elif setting.way == "stream":
                async with agent.run_stream(prompt, **options) as result:
                    async for text in result.stream_text(delta=True):
                        done.streamed += text
                    output = await result.get_output()
            else:
                result = await agent.run(prompt, **options)
        except Exception as error:
            done.raised = type(error).__name__
        if result is None:
            return done
        output = output if setting.way == "stream" and not done.raised else getattr(result, "output", "")
        done.results = [
            Result(str(part.tool_name), getattr(part, "outcome", "") == "success", str(part.content))
            for message in result.all_messages()
            for part in message.parts
            if isinstance(part, ToolReturnPart | RetryPromptPart)
        ]
        if isinstance(output, DeferredToolRequests):
            done.actions = tuple(str(each["action"]) for each in output.metadata.values())
            stored = ModelMessagesTypeAdapter.dump_json(result.all_messages())
            done.state = (stored, [each.tool_call_id for each in output.approvals])
        else:
            done.final = str(output)
        return done

    async def resume(self, paused: Played, turns: Sequence[Turn], setting: Setting, *, accept: bool) -> Played:
        stored, calls = paused.state
        answers = DeferredToolResults(approvals=dict.fromkeys(calls, accept))
        history = ModelMessagesTypeAdapter.validate_json(stored)
        return await self._ran(turns, setting, None, message_history=history, deferred_tool_results=answers)

    async def replay(self, turns: Sequence[Turn], setting: Setting) -> Played:
        """The stored history with the model's call, run twice: what an application does after a lost answer."""
        [call] = turns[0]  # type: ignore[misc]
        parts = [ToolCallPart(call.name, call.arguments, tool_call_id=call.id)]  # type: ignore[union-attr]
        history = [ModelRequest(parts=[UserPromptPart("go")]), ModelResponse(parts=parts)]
        await self._ran(turns[1:], setting, None, message_history=list(history))
        return await self._ran(turns[1:], setting, None, message_history=list(history))

    async def hazards(self) -> list[str]:
        """Another capability that runs each tool twice: the kit stands inside, so that the tool acts once."""

        class Twice(AbstractCapability[Any]):
            async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
                await handler(args)
                return await handler(args)

        turns: list[Turn] = [[Call("open_ticket", {"queue": "q", "title": "T"}, "c1")], "The run ends here."]
        agent: Any = Agent(model(turns), capabilities=[adapter.Readback(self.kit), Twice()])
        await agent.run("go", conversation_id="h")
        acts = shop.acted("open_ticket")
        return [] if acts == 1 else [f"a capability that runs each tool twice made the tool act {acts} times"]

    def seam(self) -> Callable[[int], Awaitable[Any]]:
        capability = adapter.Readback(self.kit)
        tool = self.kit.tools["touch"]

        async def once(number: int) -> Any:
            arguments = {"number": number}
            call = ToolCallPart("touch", arguments, tool_call_id="c")
            messages = [ModelRequest(parts=[UserPromptPart("go")]), ModelResponse(parts=[call])]
            fields = {"conversation_id": "r", "tool_call_id": "c", "tool_call_approved": False, "messages": messages}
            await capability.settle(tool, arguments, type("Context", (), fields)())

        return once


def _mcp() -> Any:
    command, arguments = sys.executable, [str(BOOK), str(shop.home())]
    try:
        from pydantic_ai.mcp import MCPServerStdio
    except ImportError:
        from fastmcp.client.transports import StdioTransport
        from pydantic_ai.mcp import MCPToolset

        return MCPToolset(StdioTransport(command, arguments))
    return MCPServerStdio(command, arguments)
