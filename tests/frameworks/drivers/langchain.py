"""LangChain and LangGraph: `create_agent` with the middleware, the SQLite checkpointer, and the real interrupt."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from readback.errors import UsageError
from readback.frameworks.langchain import ReadbackMiddleware, tools, wrap
from tests.frameworks import shop
from tests.frameworks.driver import Call, Driver, Played, Result, Seen, Setting, Turn, played

NUMBERS = range(600, 1_000)
"""The numbers of `overhead`."""
BOOK = Path(__file__).resolve().parents[1] / "book.py"


class Scripted(BaseChatModel):
    """A model that plays turns. The last turn repeats."""

    script: Any = None

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.script(messages))])

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> Any:
        message = self.script(messages)
        words = [each + " " for each in message.text.split(" ")] if message.text else [""]
        words[-1] = words[-1].rstrip() if message.text else ""
        for number, word in enumerate(words):
            calls = [
                {"name": c["name"], "args": json.dumps(c["args"]), "id": c["id"], "index": i}
                for i, c in enumerate(message.tool_calls)
            ]
            chunk = AIMessageChunk(word, tool_call_chunks=calls if number == len(words) - 1 else [])
            part = ChatGenerationChunk(message=chunk)
            if run_manager:
                run_manager.on_llm_new_token(word, chunk=part)
            yield part


def script(turns: Sequence[Turn]) -> Callable[[Sequence[Any]], AIMessage]:
    turn = iter(itertools.chain(turns, itertools.repeat(turns[-1])))

    def answer(messages: Sequence[Any]) -> AIMessage:
        results = tuple(str(each.content) for each in messages if isinstance(each, ToolMessage))
        found = played(next(turn), Seen(results, "\n".join(str(each.content) for each in messages)))
        if isinstance(found, str):
            return AIMessage(found)
        good = [
            {"name": c.name, "args": c.arguments, "id": c.id, "type": "tool_call"}
            for c in found
            if not isinstance(c.arguments, str)
        ]
        bad = [
            {"name": c.name, "args": c.arguments, "id": c.id, "error": "no object", "type": "invalid_tool_call"}
            for c in found
            if isinstance(c.arguments, str)
        ]
        return AIMessage("", tool_calls=good, invalid_tool_calls=bad)

    return answer


def broken(hook: str) -> type[ReadbackMiddleware]:
    """The middleware whose hook raises, in both colours."""

    def raising(self: Any, *arguments: Any, **named: Any) -> Any:
        raise KeyError("a bug of the adapter")

    async def araising(self: Any, *arguments: Any, **named: Any) -> Any:
        raise KeyError("a bug of the adapter")

    name = hook.rpartition(" ")[2]
    return type("Broken", (ReadbackMiddleware,), {name: raising, "a" + name: araising})


def _results(messages: Sequence[Any]) -> list[Result]:
    found = [each for each in messages if isinstance(each, ToolMessage)]
    return [Result(str(each.name), each.status == "success", str(each.content)) for each in found]


class LangChain(Driver):
    name = "langchain"
    packages = ("langchain", "langgraph", "langchain-core")
    hooks = ("wrap_tool_call", "final wrap_model_call")

    def _agent(self, turns: Sequence[Turn], setting: Setting, foreign: Any, saver: Any, outer: Any = ()) -> Any:
        kind = broken(setting.broken) if setting.broken else ReadbackMiddleware
        middleware, model = [*outer, kind(self.kit)], Scripted(script=script(turns))
        return create_agent(model, tools=list(foreign), middleware=middleware, checkpointer=saver)

    async def _foreign(self, setting: Setting) -> list[Any]:
        found: list[Any] = []
        if setting.foreign == "local":
            found.append(StructuredTool.from_function(shop.enter, name="enter"))
        if setting.foreign == "mcp":
            from langchain_mcp_adapters.client import MultiServerMCPClient

            how = {"command": sys.executable, "args": [str(BOOK), str(shop.home())], "transport": "stdio"}
            found += await MultiServerMCPClient({"book": how}).get_tools()  # type: ignore[dict-item, unused-ignore]
        if setting.ungoverned:
            found.append(StructuredTool.from_function(shop.peek, name="peek"))
        return found

    async def play(self, turns: Sequence[Turn], setting: Setting) -> Played:
        foreign = await self._foreign(setting)
        given: Any = None if setting.again else {"messages": [HumanMessage("go")]}
        if setting.store is not None:
            async with AsyncSqliteSaver.from_conn_string(str(setting.store / "checkpoints.db")) as saver:
                return await self._ran(self._agent(turns, setting, foreign, saver), given, setting)
        return await self._ran(self._agent(turns, setting, foreign, InMemorySaver()), given, setting)

    async def _ran(self, agent: Any, given: Any, setting: Setting) -> Played:
        config = {"configurable": {"thread_id": setting.run}}
        done = Played(state=agent)
        try:
            if setting.way == "sync":
                await asyncio.to_thread(agent.invoke, given, config)
            elif setting.way == "stream":
                async for kind, part in agent.astream(given, config, stream_mode=["messages", "updates"]):
                    if kind == "messages" and isinstance(part[0], AIMessage):
                        done.streamed += str(part[0].text if isinstance(part[0].text, str) else part[0].text())
            else:
                await agent.ainvoke(given, config, durability="sync")
        except Exception as error:
            done.raised = type(error).__name__
        state = await agent.aget_state(config)
        messages = state.values.get("messages", [])
        done.results = _results(messages)
        last = messages[-1] if messages else None
        done.final = str(last.content) if isinstance(last, AIMessage) and not last.tool_calls else ""
        done.actions = tuple(each.value["action"] for each in state.interrupts)
        return done

    async def resume(self, paused: Played, turns: Sequence[Turn], setting: Setting, *, accept: bool) -> Played:
        agent = self._agent(turns, setting, [], paused.state.checkpointer)
        return await self._ran(agent, Command(resume=accept), setting)

    async def replay(self, turns: Sequence[Turn], setting: Setting) -> Played:
        """A retry middleware outside of ours, then time travel to the checkpoint before the tools."""
        retry = ToolRetryMiddleware(max_retries=2, initial_delay=0.01, retry_on=lambda error: True)
        agent = self._agent(turns, setting, [], InMemorySaver(), outer=[retry])
        first = await self._ran(agent, {"messages": [HumanMessage("go")]}, setting)
        assert first.results
        config = {"configurable": {"thread_id": setting.run}}
        before = [each async for each in agent.aget_state_history(config) if each.next == ("tools",)]
        again = self._agent(turns[1:], setting, [], agent.checkpointer)
        await again.ainvoke(None, before[-1].config)
        return await self._ran_state(again, config)

    async def _ran_state(self, agent: Any, config: Any) -> Played:
        messages = (await agent.aget_state(config)).values["messages"]
        return Played(results=_results(messages), final=str(messages[-1].content))

    async def hazards(self) -> list[str]:
        return [*await self._retry_inside(), *await self._bare_node()]

    async def _retry_inside(self) -> list[str]:
        retry = ToolRetryMiddleware(max_retries=2, initial_delay=0.01, retry_on=lambda error: True)
        turns: list[Turn] = [[Call("enter", {"name": "rent", "amount": 3}, "e1")], "The run ends here."]
        foreign = await self._foreign(Setting(foreign="local"))
        agent = create_agent(
            Scripted(script=script(turns)), tools=foreign, middleware=[ReadbackMiddleware(self.kit), retry]
        )
        try:
            await agent.ainvoke({"messages": [HumanMessage("go")]})
        except UsageError:
            return [] if shop.acted("enter") == 0 else ["a retry inside was refused after the tool had been called"]
        return ["a retry middleware inside was not refused"]

    async def _bare_node(self) -> list[str]:
        """A graph of one's own with a bare `ToolNode`, and two parked calls that share one pause."""
        node = ToolNode([*tools(self.kit), *await self._foreign(Setting(foreign="local"))], **wrap(self.kit))
        graph = StateGraph(MessagesState)
        graph.add_node("tools", node)
        graph.add_edge(START, "tools")
        app = graph.compile(checkpointer=InMemorySaver())
        calls = [
            Call("ship_order", {"order_id": "o-17"}, "c1"),
            Call("enter", {"name": "gas", "amount": 1}, "c2"),
            Call("pay", {"to": "s1", "amount": 900}, "p1"),
            Call("pay", {"to": "s2", "amount": 900}, "p2"),
        ]
        config: Any = {"configurable": {"thread_id": "bare"}}
        await app.ainvoke({"messages": [script([calls])([])]}, config)
        faults = []
        await app.ainvoke(Command(resume=False), config)
        held = [outcome for outcome in self.kit.client.list() if outcome.hold == "approval"]
        if len(held) != 2:
            faults.append(f"a bare rejection reached one of two parked calls: {len(held)} are left")
        for _ in range(4):
            [pause, *_] = (await app.aget_state(config)).interrupts or [None]
            if pause is None:
                break
            await app.ainvoke(Command(resume={"action": pause.value["action"], "approve": False}), config)
        messages = (await app.aget_state(config)).values["messages"]
        found = {(each.name, each.status) for each in messages if isinstance(each, ToolMessage)}
        if found != {("ship_order", "success"), ("enter", "success"), ("pay", "error")}:
            faults.append(f"the bare node's results are {sorted(found)}")
        acts = tuple(shop.acted(name) for name in ("ship_order", "enter", "pay"))
        return faults if acts == (1, 1, 0) else [*faults, f"the bare node acted {acts}"]

    def seam(self) -> Callable[[int], Awaitable[Any]]:
        from langgraph.prebuilt.tool_node import ToolCallRequest

        middleware = ReadbackMiddleware(self.kit)
        by_name = {tool.name: tool for tool in middleware.tools}

        runtime = type("Runtime", (), {"config": {"configurable": {"thread_id": "r"}}})()

        def request(number: int) -> Any:
            call = {"name": "touch", "args": {"number": number}, "id": f"c{number}", "type": "tool_call"}
            state = {"messages": [HumanMessage("go"), AIMessage("", tool_calls=[call])]}
            made = state["messages"][-1].tool_calls[0]
            return ToolCallRequest(tool_call=made, tool=by_name["touch"], state=state, runtime=runtime)

        requests = {number: request(number) for number in NUMBERS}

        async def handler(each: Any) -> Any:
            return await each.tool._arun(**each.tool_call["args"])  # without LangChain's own call of a tool

        async def once(number: int) -> Any:
            message = await middleware.awrap_tool_call(requests[number], handler)
            assert message.status == "success", message.content

        return once
