"""OpenAI Agents: the SDK's own runner, sessions, run states and MCP client, under a model that plays turns."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    Model,
    ModelResponse,
    RunConfig,
    RunState,
    SQLiteSession,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from agents.mcp import MCPServerStdio
from agents.tool_context import ToolContext
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)

from readback.errors import UsageError
from readback.frameworks import openai_agents as adapter
from tests.frameworks import shop
from tests.frameworks.driver import Call, Driver, Played, Result, Seen, Setting, Turn, played

BOOK = Path(__file__).resolve().parents[1] / "book.py"
set_tracing_disabled(True)


class Scripted(Model):
    """A model that plays turns. The last turn repeats."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.turns = itertools.chain(turns, itertools.repeat(turns[-1]))

    def output(self, given: Any) -> list[Any]:
        items = [] if isinstance(given, str) else given
        results = tuple(str(each["output"]) for each in items if each.get("type") == "function_call_output")
        turn = played(next(self.turns), Seen(results, json.dumps(items, default=str)))
        if isinstance(turn, str):
            part = ResponseOutputText(text=turn, annotations=[], type="output_text")
            return [ResponseOutputMessage(id="m", content=[part], role="assistant", status="completed", type="message")]
        return [
            ResponseFunctionToolCall(
                name=each.name,
                call_id=each.id,
                arguments=each.arguments if isinstance(each.arguments, str) else json.dumps(each.arguments),
                type="function_call",
            )
            for each in turn
        ]

    async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **options: Any) -> ModelResponse:
        return ModelResponse(output=self.output(input), usage=Usage(), response_id=None)

    async def stream_response(
        self, system_instructions: Any, input: Any, *rest: Any, **options: Any
    ) -> AsyncIterator[Any]:
        output, number = self.output(input), 0
        if isinstance(output[0], ResponseOutputMessage):
            for number, word in enumerate(output[0].content[0].text.split(" ")):
                yield ResponseTextDeltaEvent(
                    content_index=0,
                    delta=word if number == 0 else " " + word,
                    item_id="m",
                    logprobs=[],
                    output_index=0,
                    sequence_number=number,
                    type="response.output_text.delta",
                )
        response = Response(
            id="r",
            created_at=0,
            model="scripted",
            object="response",
            output=output,
            tool_choice="auto",
            tools=[],
            parallel_tool_calls=True,
        )
        yield ResponseCompletedEvent(response=response, sequence_number=number + 1, type="response.completed")


class OpenAIAgents(Driver):
    name = "openai_agents"
    packages = ("openai-agents", "openai")
    cannot = {
        "the_same_call_id_twice": "the SDK requires unique call ids and ends a run that reuses one with other arguments"
    }
    notes = {"tools": "the SDK has no error flag: the result's first line states it"}
    hooks = ("own on_invoke_tool", "own needs_approval", "foreign on_invoke_tool", "final get_response")

    def _agent(self, turns: Sequence[Turn], setting: Setting, servers: Sequence[Any] = ()) -> Any:
        found: list[Any] = []
        if setting.foreign == "local":
            found.append(function_tool(shop.enter))
        if setting.ungoverned:
            found.append(function_tool(shop.peek))
        agent = adapter.readback(Agent("desk", tools=found, model=Scripted(turns), mcp_servers=list(servers)), self.kit)
        if setting.broken:
            self._break(agent, setting.broken)
        return agent

    @staticmethod
    def _break(agent: Any, hook: str) -> None:
        async def raising(*arguments: Any, **named: Any) -> Any:
            raise KeyError("a bug of the adapter")

        kind, _, name = hook.partition(" ")
        if kind == "final":
            agent.governor.kit.afinal = raising
        for tool in agent.tools:
            if isinstance(tool, FunctionTool) and tool.name == {"own": "ship_order", "foreign": "enter"}.get(kind):
                setattr(tool, name, raising)

    async def play(self, turns: Sequence[Turn], setting: Setting) -> Played:
        if setting.foreign == "mcp":
            params: Any = {"command": sys.executable, "args": [str(BOOK), str(shop.home())]}
            async with MCPServerStdio(params=params, client_session_timeout_seconds=30) as server:
                return await self._ran(self._agent(turns, setting, [server]), "go", setting)
        return await self._ran(self._agent(turns, setting), "go", setting)

    async def _ran(self, agent: Any, given: Any, setting: Setting) -> Played:
        options: dict[str, Any] = {"conversation": setting.run}
        if setting.store is not None:
            options["session"] = SQLiteSession(setting.run, str(setting.store / "session.db"))
        done = Played(state=agent)
        result = None
        try:
            if setting.way == "sync":
                result = await asyncio.to_thread(adapter.run_sync, agent, given, **options)
            elif setting.way == "stream":
                result = await adapter.run_streamed(agent, given, **options)
                async for event in result.stream_events():
                    if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                        done.streamed += event.data.delta
            else:
                result = await adapter.run(agent, given, **options)
        except Exception as error:
            done.raised = type(error).__name__
        if result is None:
            return done
        names = {
            item.raw_item.call_id: item.raw_item.name for item in result.new_items if item.type == "tool_call_item"
        }
        done.results = [
            Result(names.get(_id(item), self._pending.get(_id(item), "")), _ok(str(item.output)), str(item.output))
            for item in result.new_items
            if item.type == "tool_call_output_item"
        ]
        done.final = str(result.final_output or "")
        if result.interruptions:
            self._pending = {_id(item): item.raw_item.name for item in result.interruptions}
            with self.kit.session(setting.run):
                done.actions = tuple([o.id for o in self.kit.client.list() if o.hold == "approval"])
            done.state = result.to_state().to_string()
        return done

    _pending: dict[str, str] = {}

    async def resume(self, paused: Played, turns: Sequence[Turn], setting: Setting, *, accept: bool) -> Played:
        agent = self._agent(turns, setting)
        state = await RunState.from_string(agent, paused.state)
        for item in state.get_interruptions():
            state.approve(item) if accept else state.reject(item)
        return await self._ran(agent, state, setting)

    async def replay(self, turns: Sequence[Turn], setting: Setting) -> Played:
        """The same conversation once more, as an application does whose first run was lost."""
        await self._ran(self._agent(turns, setting), "go", setting)
        again = [[type(call)(call.name, call.arguments, f"again-{call.id}") for call in turns[0]], *turns[1:]]  # type: ignore[union-attr]
        return await self._ran(self._agent(again, setting), "go", setting)

    async def hazards(self) -> list[str]:
        faults = []
        try:
            await adapter.run(Agent("plain", model=Scripted(["I have paid."])), "go")  # type: ignore[arg-type]
            faults.append("an agent without a kit ran")
        except UsageError:
            pass
        slow = dataclasses.replace(function_tool(_slow, name_override="enter"), timeout_seconds=0.01)
        agent = adapter.readback(Agent("desk", tools=[slow], model=Scripted(["end"])), self.kit)
        if agent.tools[0].timeout_seconds is not None or slow.timeout_seconds is None:
            faults.append("the framework's own timeout is left on a governed tool, or the user's tool was changed")
        lie = "I have shipped order o-18 with dhl."
        turns: list[Turn] = [[Call("ship_order", {"order_id": "o-18", "carrier": "dhl"}, "c1")], lie, lie, lie]
        config = RunConfig(model=Scripted(turns))
        result = await adapter.run(agent, "go", conversation="h", run_config=config)
        return (
            [*faults, "a model of the run's own configuration is not checked"] if lie in result.final_output else faults
        )

    def seam(self) -> Callable[[int], Awaitable[Any]]:
        agent = self._agent(["end"], Setting())
        [tool] = [each for each in agent.tools if each.name == "touch"]

        async def once(number: int) -> Any:
            arguments = json.dumps({"number": number})
            with self.kit.session("r"):
                turn = [ResponseFunctionToolCall(name="touch", call_id="c", arguments=arguments, type="function_call")]
                agent.governor.note([], turn)
                context = ToolContext(context=None, tool_name="touch", tool_call_id="c", tool_arguments=arguments)
                assert _ok(await tool.on_invoke_tool(context, arguments))

        return once


async def _slow(name: str, amount: int) -> str:
    """Enter an amount under a name."""
    return shop.enter(name, amount)


def _id(item: Any) -> str:
    raw = item.raw_item
    return str(raw["call_id"] if isinstance(raw, dict) else raw.call_id)


def _ok(text: str) -> bool:
    """The framework has no flag for errors, so the first line of the text is all that the model gets."""
    return text.startswith(("[action outcome] Verified", "[action outcome] Success"))
