"""The scenarios under the Microsoft Agent Framework's core, with a scripted chat client."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationContext,
    FunctionInvocationLayer,
    MCPStdioTool,
    Message,
    ResponseStream,
    tool,
)

from readback.frameworks import agent_framework as adapter
from tests.frameworks import shop
from tests.frameworks.driver import Driver, Played, Result, Seen, Setting, Turn, played

NO_SYNC = "the framework has no interface without async"


class Scripted(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    def __init__(self, turns: Sequence[Turn]) -> None:
        super().__init__()
        self.turns = list(turns)

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **kwargs: Any) -> Any:
        if stream:

            async def updates() -> Any:
                for content in self._contents(messages):
                    yield ChatResponseUpdate(role="assistant", contents=[content])

            return ResponseStream(updates(), finalizer=ChatResponse.from_updates)

        async def whole() -> Any:
            return ChatResponse(messages=[Message("assistant", self._contents(messages))])

        return whole()

    def _contents(self, messages: Any) -> list[Any]:
        turn = played(self.turns.pop(0) if self.turns[1:] else self.turns[0], _seen(messages))
        if isinstance(turn, str):
            return [Content.from_text(turn)]
        return [Content.from_function_call(each.id, each.name, arguments=_text(each.arguments)) for each in turn]


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


class AgentFramework(Driver):
    name = "agent_framework"
    packages = ("agent-framework-core", "mcp")
    ways = ("async", "stream")
    hooks = ("ReadbackTools", "ReadbackHistory", "final_ReadbackFinal")
    cannot: ClassVar[dict[str, str]] = {
        "a_foreign_tool_without_async": NO_SYNC,
        "five_in_parallel_without_async": NO_SYNC,
    }
    notes: ClassVar[dict[str, str]] = {
        "tools": "the framework has no error flag for a result with a text: the text begins with the outcome",
        "final": "a streamed answer is replaced without a correction by the model",
    }

    async def play(self, turns: Sequence[Turn], setting: Setting) -> Played:
        file = setting.store / "session.json" if setting.store else None
        if file and setting.again:
            session = AgentSession.from_dict(json.loads(file.read_text(encoding="utf-8")))
        else:
            session = AgentSession(session_id=setting.run)
        if file:
            file.write_text(json.dumps(session.to_dict()), encoding="utf-8")
        return await self._ran(turns, setting, session, "go")

    async def resume(self, paused: Played, turns: Sequence[Turn], setting: Setting, *, accept: bool) -> Played:
        stored, requests = paused.state
        session = AgentSession.from_dict(json.loads(stored))
        answers = [each.to_function_approval_response(accept) for each in requests]
        return await self._ran(turns, setting, session, Message("user", answers))

    async def replay(self, turns: Sequence[Turn], setting: Setting) -> Played:
        """The session as the application had stored it before the turn, and the same turn again."""
        await self.play(turns, setting)
        return await self.play(turns, setting)

    def seam(self) -> Callable[[int], Awaitable[Any]]:
        [own] = [each for each in adapter.tools(self.kit) if each.name == "touch"]
        wrapped, session = adapter.ReadbackTools(self.kit), AgentSession(session_id="s")

        async def call(number: int) -> Any:
            context = FunctionInvocationContext(
                own, {"number": number}, session=session, metadata={"call_id": f"c{number}"}
            )
            await wrapped.process(context, _none)
            return context.result

        return call

    async def _ran(self, turns: Sequence[Turn], setting: Setting, session: Any, message: Any) -> Played:
        found = Played()
        stack = _foreign(setting)
        agent = Agent(
            Scripted(turns),
            tools=[*adapter.tools(self.kit), *stack],
            middleware=_broken(adapter.middleware(self.kit), setting.broken),
        )
        try:
            async with agent:
                if setting.way == "stream":
                    stream = agent.run(message, session=session, stream=True)
                    async for update in stream:
                        found.streamed += update.text or ""
                    response = await stream.get_final_response()
                else:
                    response = await agent.run(message, session=session)
        except Exception as error:  # tidy: boundary -- the scenario judges what the framework raises
            found.raised = type(error).__name__
            return found
        found.final = response.text
        found.state = (json.dumps(session.to_dict()), list(response.user_input_requests))
        packets = [each.additional_properties["readback"] for each in response.user_input_requests]
        found.actions = tuple(packet["action"] for packet in packets)
        _read([*response.messages], found)
        return found


def _read(messages: Sequence[Any], found: Played) -> None:
    names: dict[str, str] = {}
    for content in (content for message in messages for content in message.contents):
        if content.type == "function_call":
            names[content.call_id] = content.name
        if content.type == "function_result":
            text = str(content.result)
            verified = text.partition("\n")[0].startswith("[action outcome] Verified") and not content.exception
            found.results.append(Result(names.get(content.call_id, _named(content.call_id)), verified, text))


def _named(call_id: str) -> str:
    """The name of a call in an earlier message, by the ids of the pause scenarios."""
    return {"p1": "pay", "c1": "ship_order"}.get(call_id, "")


def _seen(messages: Sequence[Any]) -> Seen:
    contents = [content for message in messages for content in message.contents]
    results = tuple(str(content.result) for content in contents if content.type == "function_result")
    return Seen(results, "\n".join(str(content.to_dict()) for content in contents))


async def _none() -> None:
    raise AssertionError("an own action has no tool behind it")


def _foreign(setting: Setting) -> list[Any]:
    found: list[Any] = []
    if setting.foreign == "local":
        found.append(tool(shop.enter, approval_mode="never_require"))
    if setting.foreign == "mcp":
        root = Path(__file__).resolve().parents[3]
        arguments = [str(root / "tests/frameworks/book.py"), str(shop.home())]
        found.append(MCPStdioTool("book", sys.executable, args=arguments, approval_mode="never_require"))
    if setting.ungoverned:
        found.append(tool(shop.peek, approval_mode="never_require"))
    return found


def _broken(whole: list[Any], hook: str) -> list[Any]:
    """The middlewares, one of which raises."""

    async def fail(context: Any, call_next: Any) -> None:
        raise KeyError("a fault of the adapter")

    for each in whole:
        if type(each).__name__ == hook.removeprefix("final_"):
            each.process = fail
    return whole
