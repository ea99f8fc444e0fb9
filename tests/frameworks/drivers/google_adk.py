"""The scenarios under Google ADK, with a scripted `BaseLlm`."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from google.adk.agents import LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App, ResumabilityConfig
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools import FunctionTool
from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from mcp import StdioServerParameters

from readback.frameworks import google_adk
from tests.frameworks import shop
from tests.frameworks.driver import Driver, Played, Result, Seen, Setting, Turn, played

APP, USER = "app", "u"
CONFIRMATION = "adk_request_confirmation"


class Scripted(BaseLlm):
    turns: list[Any]

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        turn = played(self.turns.pop(0) if self.turns[1:] else self.turns[0], _seen(llm_request.contents))
        if isinstance(turn, str):
            for word in turn.split() if stream else []:
                yield LlmResponse(content=_model(types.Part(text=word + " ")), partial=True)
            yield LlmResponse(content=_model(types.Part(text=turn)))
            return
        calls = [types.FunctionCall(name=call.name, args=call.arguments, id=call.id) for call in turn]
        yield LlmResponse(content=_model(*[types.Part(function_call=call) for call in calls]))


class GoogleAdk(Driver):
    name = "google_adk"
    packages = ("google-adk", "google-genai", "mcp")
    hooks = ("foreign_before_tool_callback", "final_after_model_callback", "final_on_event_callback")
    cannot: ClassVar[dict[str, str]] = {
        "arguments_that_are_no_object": "`FunctionCall.args` of the framework is a mapping",
    }
    notes: ClassVar[dict[str, str]] = {
        "final": "`run_live` has no check of audio: only its text events are checked",
    }

    async def play(self, turns: Sequence[Turn], setting: Setting) -> Played:
        sessions: Any = (
            SqliteSessionService(str(setting.store / "adk.db")) if setting.store else InMemorySessionService()
        )
        runner = self._runner(turns, setting, sessions)
        if not setting.again:
            await sessions.create_session(app_name=APP, user_id=USER, session_id=setting.run)
            return await self._ran(runner, setting, new_message=_user(types.Part(text="go")))
        stored = await sessions.get_session(app_name=APP, user_id=USER, session_id=setting.run)
        return await self._ran(runner, setting, invocation_id=stored.events[-1].invocation_id)

    async def resume(self, paused: Played, turns: Sequence[Turn], setting: Setting, *, accept: bool) -> Played:
        sessions, confirmation = paused.state
        answer = types.FunctionResponse(id=confirmation, name=CONFIRMATION, response={"confirmed": accept})
        runner = self._runner(turns, setting, sessions)
        return await self._ran(runner, setting, new_message=_user(types.Part(function_response=answer)))

    async def replay(self, turns: Sequence[Turn], setting: Setting) -> Played:
        """The framework's time travel: a rewind before the turn, and the same turn again."""
        first = await self.play(turns, setting)
        runner = self._runner(turns, setting, first.state[0])
        stored = await first.state[0].get_session(app_name=APP, user_id=USER, session_id=setting.run)
        start = stored.events[0].invocation_id
        await runner.rewind_async(user_id=USER, session_id=setting.run, rewind_before_invocation_id=start)
        return await self._ran(runner, setting, new_message=_user(types.Part(text="go")))

    def seam(self) -> Callable[[int], Awaitable[Any]]:
        [tool] = [each for each in google_adk.tools(self.kit) if each.name == "touch"]
        agent = LlmAgent(name="clerk", model=Scripted(model="scripted", turns=[]), tools=[])
        sessions = InMemorySessionService()
        session = sessions.create_session_sync(app_name=APP, user_id=USER, session_id="s")

        invocation = InvocationContext(session_service=sessions, invocation_id="i", agent=agent, session=session)
        # The framework makes a context for each call, with the adapter and without.
        contexts = [ToolContext(invocation, function_call_id=f"c{number}") for number in range(1_000)]

        async def call(number: int) -> Any:
            return await tool.run_async(args={"number": number}, tool_context=contexts[number])

        return call

    def _runner(self, turns: Sequence[Turn], setting: Setting, sessions: Any) -> Runner:
        plugin = _broken(setting.broken)(self.kit)
        model = Scripted(model="scripted", turns=list(turns))
        agent = LlmAgent(name="clerk", model=model, tools=[*google_adk.tools(self.kit), *_foreign(setting)])
        resumable = ResumabilityConfig(is_resumable=True) if setting.store else None
        app = App(name=APP, root_agent=agent, plugins=[plugin], resumability_config=resumable)
        return Runner(app=app, session_service=sessions)

    async def _ran(self, runner: Runner, setting: Setting, **start: Any) -> Played:
        found = Played(state=(runner.session_service, ""))
        events: list[Any] = []
        streams = {"run_config": RunConfig(streaming_mode=StreamingMode.SSE)} if setting.way == "stream" else {}
        try:
            if setting.way == "sync":
                ran = runner.run(user_id=USER, session_id=setting.run, **start)
                events.extend(await asyncio.to_thread(list, ran))
            else:
                async for event in runner.run_async(user_id=USER, session_id=setting.run, **start, **streams):
                    events.append(event)
        except Exception as error:  # tidy: boundary -- the scenario judges what the framework raises
            found.raised = type(error).__name__
        finally:
            with contextlib.suppress(Exception):
                await runner.close()
        _read(events, found)
        return found


def _read(events: Sequence[Any], found: Played) -> None:
    texts: list[str] = []
    for event in events:
        for part in (event.content and event.content.parts) or ():
            if part.text:
                texts.append(part.text)
            if part.function_call and part.function_call.name == CONFIRMATION:
                payload = part.function_call.args["toolConfirmation"]["payload"]
                found.actions = (*found.actions, payload["action"])
                found.state = (found.state[0], part.function_call.id)
            if part.function_response and part.function_response.name != CONFIRMATION:
                answer = part.function_response.response
                text = str(answer.get("output") or answer.get("error") or answer)
                found.results.append(Result(part.function_response.name, "output" in answer, text))
    found.final = texts[-1] if texts else ""
    found.streamed = "".join(texts)


def _seen(contents: Sequence[Any]) -> Seen:
    parts = [part for content in contents for part in content.parts or ()]
    answers = [part.function_response.response for part in parts if part.function_response]
    results = tuple(str(answer.get("output") or answer.get("error") or answer) for answer in answers)
    return Seen(results, "\n".join(str(content) for content in contents))


def _model(*parts: Any) -> Any:
    return types.Content(role="model", parts=list(parts))


def _user(*parts: Any) -> Any:
    return types.Content(role="user", parts=list(parts))


def _foreign(setting: Setting) -> list[Any]:
    found: list[Any] = []
    if setting.foreign == "local":
        found.append(FunctionTool(shop.enter))
    if setting.foreign == "mcp":
        root = Path(__file__).resolve().parents[3]
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "tests.frameworks.book", str(shop.home())], cwd=str(root)
        )
        found.append(McpToolset(connection_params=StdioConnectionParams(server_params=server, timeout=30)))
    if setting.ungoverned:
        found.append(FunctionTool(shop.peek))
    return found


def _broken(hook: str) -> type[google_adk.ReadbackPlugin]:
    """The plugin, with one callback that raises."""
    callback = hook.partition("_")[2]
    if not callback:
        return google_adk.ReadbackPlugin

    async def fail(self: Any, **given: Any) -> None:
        raise KeyError("a fault of the adapter")

    return type("Broken", (google_adk.ReadbackPlugin,), {callback: fail})
