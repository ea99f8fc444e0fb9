"""LlamaIndex: `ReadbackAgent` with the mock model, the workflow's own pause, and snapshots of its context."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from llama_index.core.agent.workflow import AgentOutput, AgentStream, ToolCall, ToolCallResult
from llama_index.core.base.llms.types import TextBlock, ToolCallBlock
from llama_index.core.llms import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.tools import FunctionTool
from llama_index.core.utils import get_tokenizer
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent, JsonPickleSerializer

from readback.frameworks.llama_index import ReadbackAgent
from tests.frameworks import shop
from tests.frameworks.driver import Driver, Played, Result, Seen, Setting, Turn, played

BOOK = Path(__file__).resolve().parents[1] / "book.py"
PLAIN = JsonPickleSerializer()


def scripted(turns: Sequence[Turn]) -> MockFunctionCallingLLM:
    turn = iter(itertools.chain(turns, itertools.repeat(turns[-1])))

    def answer(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
        results = tuple(str(each.content) for each in messages if each.role == "tool")
        found = played(next(turn), Seen(results, "\n".join(str(each.content) for each in messages)))
        if isinstance(found, str):
            return ChatMessage(role="assistant", blocks=[TextBlock(text=found)])
        blocks = [ToolCallBlock(tool_call_id=c.id, tool_name=c.name, tool_kwargs=c.arguments) for c in found]
        return ChatMessage(role="assistant", blocks=blocks)

    return MockFunctionCallingLLM(response_generator=answer, is_chat_model=True)


class LlamaIndex(Driver):
    name = "llama_index"
    packages = ("llama-index-core", "llama-index-workflows")
    hooks = ("call_tool", "final take_step")
    cannot = {
        "arguments_that_are_no_object": "LlamaIndex turns arguments that are no object into an empty object itself",
    }
    notes = {
        "closed": "the model's deltas are not streamed by default; events of tools and the checked answer are",
    }

    async def _agent(self, turns: Sequence[Turn], setting: Setting) -> ReadbackAgent:
        foreign: list[Any] = []
        if setting.foreign == "local":
            foreign.append(FunctionTool.from_defaults(shop.enter, name="enter"))
        if setting.foreign == "mcp":
            from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

            client = BasicMCPClient(sys.executable, args=[str(BOOK), str(shop.home())])
            foreign += await McpToolSpec(client=client).to_tool_list_async()
        if setting.ungoverned:
            foreign.append(FunctionTool.from_defaults(shop.peek, name="peek"))
        kind = ReadbackAgent
        if setting.broken:

            async def raising(*_: Any, **__: Any) -> Any:
                raise KeyError("a bug of the adapter")

            name = "_settled" if setting.broken == "call_tool" else "take_step"
            kind = type("Broken", (ReadbackAgent,), {name: raising})
        return kind(kit=self.kit, run=setting.run, tools=foreign, llm=scripted(turns))

    async def play(self, turns: Sequence[Turn], setting: Setting) -> Played:
        agent = await self._agent(turns, setting)
        snapshot = setting.store / "context.json" if setting.store is not None else None
        if snapshot is not None and setting.again:
            get_tokenizer()  # a stored memory needs the files of the tokenizer, which this call puts in place
            context = Context.from_dict(agent, json.loads(snapshot.read_text()), serializer=PLAIN)
            return await self._ran(agent, context, snapshot)
        return await self._ran(agent, Context(agent), snapshot, user_msg="go")

    async def _ran(
        self, agent: ReadbackAgent, context: Any, snapshot: Path | None, answer: Any = None, **given: Any
    ) -> Played:
        done = Played(state=context)
        waiting: list[str] = []
        found: dict[tuple[str, str], Result | None] = {}
        handler = agent.run(ctx=context, **given)
        if answer is not None:
            context.send_event(answer)
        try:
            async for event in handler.stream_events():
                if isinstance(event, ToolCallResult):
                    # A restored context runs a step in progress twice, at the same time; the ledger has one effect.
                    found[event.tool_id, str(event.tool_kwargs)] = Result(
                        event.tool_name, not event.tool_output.is_error, str(event.tool_output.content)
                    )
                if isinstance(event, AgentStream):
                    done.streamed += event.delta
                if isinstance(event, AgentOutput):
                    done.streamed += str(event.response.content or "")
                    # Parallel calls end in any order; the order of the model's message counts.
                    for call in event.tool_calls:
                        found.setdefault((call.tool_id, str(call.tool_kwargs)))
                if isinstance(event, ToolCall) and snapshot is not None:
                    await asyncio.to_thread(snapshot.write_text, json.dumps(context.to_dict(serializer=PLAIN)))
                if isinstance(event, InputRequiredEvent):
                    waiting.append(event.action)
                    break
            if waiting:
                await self._others(await context.store.get("num_tool_calls"))
                done.state = json.loads(json.dumps(context.to_dict(serializer=PLAIN)))
                await handler.cancel_run()
            else:
                done.final = str((await handler).response.content or "")
        except Exception as error:
            done.raised = type(error).__name__
        done.results = [each for each in found.values() if each is not None]
        done.actions = tuple(waiting)
        return done

    async def _others(self, calls: int) -> None:
        """Let the calls beside the paused call end: a snapshot keeps their results."""
        for _ in range(200):
            found = await asyncio.to_thread(self.kit.client.list)
            if len(found) >= calls and all(outcome.settled or outcome.hold for outcome in found):
                return
            await asyncio.sleep(0.02)

    async def resume(self, paused: Played, turns: Sequence[Turn], setting: Setting, *, accept: bool) -> Played:
        agent = await self._agent(turns, setting)
        context = Context.from_dict(agent, paused.state, serializer=PLAIN)
        answer = HumanResponseEvent(response=None if accept else False, action=paused.actions[0])
        return await self._ran(agent, context, None, answer)

    async def replay(self, turns: Sequence[Turn], setting: Setting) -> Played:
        """A snapshot of the context from inside the tool's step, resumed after the first run has ended."""
        agent = await self._agent(turns, setting)
        store = shop.home() / "replay.json"
        await self._ran(agent, Context(agent), store, user_msg="go")
        again = await self._agent(turns[1:], setting)
        return await self._ran(again, Context.from_dict(again, json.loads(store.read_text()), serializer=PLAIN), None)

    def seam(self) -> Callable[[int], Awaitable[Any]]:
        context: list[Any] = []

        async def once(number: int) -> Any:
            if not context:
                agent = await self._agent(["end"], Setting())
                context.extend((agent, Context(agent)))
                await agent.run("go", ctx=context[1])
            agent, ctx = context
            event = ToolCall(tool_name="touch", tool_kwargs={"number": number}, tool_id=f"c{number}")
            result = await agent._settled(ctx, event, self.kit.tool("touch"))
            assert result.ok, result.text

        return once
