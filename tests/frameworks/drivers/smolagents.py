"""smolagents: `ReadbackAgent` with a scripted model. The framework is synchronous; async callers use a thread."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import smolagents
from mcp import StdioServerParameters
from smolagents.memory import ActionStep
from smolagents.models import (
    ChatMessage,
    ChatMessageStreamDelta,
    ChatMessageToolCall,
    ChatMessageToolCallStreamDelta,
    MessageRole,
    Model,
)
from smolagents.models import ChatMessageToolCallFunction as Function

from readback.frameworks.smolagents import FINAL_TOOL, ReadbackAgent
from tests.frameworks import shop
from tests.frameworks.driver import Call, Driver, Played, Result, Seen, Setting, Turn, played

BOOK = Path(__file__).resolve().parents[1] / "book.py"


class Scripted(Model):
    """A model that plays turns. The last turn repeats. A text becomes a call of the tool for final answers."""

    def __init__(self, turns: Sequence[Turn], results: Callable[[], tuple[str, ...]]) -> None:
        super().__init__(model_id="scripted")
        self._turns = iter(itertools.chain(turns, itertools.repeat(turns[-1])))
        self._results = results

    def generate(self, messages: Any, **options: Any) -> ChatMessage:
        text = "\n".join(str(each.content) for each in messages)
        found = played(next(self._turns), Seen(self._results(), text))
        calls = [Call(FINAL_TOOL, {"answer": found}, "final")] if isinstance(found, str) else found
        made = [ChatMessageToolCall(Function(c.arguments, c.name), c.id, "function") for c in calls]
        return ChatMessage(MessageRole.ASSISTANT, found if isinstance(found, str) else "", made)

    def generate_stream(self, messages: Any, **options: Any) -> Iterator[ChatMessageStreamDelta]:
        message = self.generate(messages)
        for word in str(message.content).split(" "):
            yield ChatMessageStreamDelta(word + " ")
        deltas = [
            ChatMessageToolCallStreamDelta(
                number, call.id, "function", Function(json.dumps(call.function.arguments), call.function.name)
            )
            for number, call in enumerate(message.tool_calls or ())
        ]
        yield ChatMessageStreamDelta("", deltas)


class Watched(ReadbackAgent):
    """Keep each result as the framework hands it on: the memory joins the results of a step."""

    def __init__(self, **options: Any) -> None:
        self.results: list[tuple[str, str]] = []
        super().__init__(**options)

    def process_tool_calls(self, *arguments: Any, **named: Any) -> Any:
        calls: list[str] = []
        found: dict[str, tuple[str, str]] = {}
        try:
            for event in super().process_tool_calls(*arguments, **named):
                if isinstance(event, smolagents.agents.ToolCall):
                    calls.append(event.id)
                elif not event.is_final_answer:
                    found[event.id] = (event.tool_call.name, event.observation)
                yield event
        finally:
            self.results += [found[each] for each in calls if each in found]


class Smolagents(Driver):
    name = "smolagents"
    packages = ("smolagents",)
    blocking = True
    hooks = ("execute_tool_call", "final")
    cannot = {
        "a_crash_inside_the_tool": "smolagents has no store; a restarted program has to bring the history itself",
    }
    notes = {
        "tools": "no error flag exists; the first line of the result's text is the flag",
        "pause": "no pause exists; the call is reported as parked, and `agent.resume` continues with the answer",
        "closed": "no async interface exists; async callers use a thread",
    }

    def _agent(self, turns: Sequence[Turn], setting: Setting, foreign: Sequence[Any]) -> Watched:
        made: list[Watched] = []
        model = Scripted(turns, lambda: tuple(text for _, text in made[0].results))
        agent = Watched(
            kit=self.kit,
            run=setting.run,
            tools=foreign,
            model=model,
            max_steps=8,
            verbosity_level=0,
            stream_outputs=setting.way == "stream",
        )
        made.append(agent)

        def raising(*_: Any, **__: Any) -> Any:
            raise KeyError("a bug of the adapter")

        if setting.broken == "execute_tool_call":
            agent._ran = raising  # type: ignore[method-assign]
        if setting.broken == "final":
            self.kit.final = raising
        return agent

    @contextlib.contextmanager
    def _foreign(self, setting: Setting) -> Iterator[list[Any]]:
        found: list[Any] = []
        if setting.ungoverned:
            found.append(smolagents.tool(_documented(shop.peek, "name: A name.")))
        if setting.foreign == "mcp":
            server = StdioServerParameters(command=sys.executable, args=[str(BOOK), str(shop.home())])
            with smolagents.MCPClient(server, structured_output=False) as tools:
                yield [*found, *tools]
            return
        if setting.foreign == "local":
            found.append(smolagents.tool(_documented(shop.enter, "name: A name.", "amount: An amount.")))
        yield found

    async def play(self, turns: Sequence[Turn], setting: Setting) -> Played:
        with self._foreign(setting) as foreign:
            agent = self._agent(turns, setting, foreign)
            if setting.way == "sync":
                return self._ran(agent, setting, lambda **options: agent.run("go", **options))
            return await asyncio.to_thread(self._ran, agent, setting, lambda **options: agent.run("go", **options))

    def _ran(self, agent: Watched, setting: Setting, run: Callable[..., Any]) -> Played:
        done = Played(state=agent)
        try:
            if setting.way == "stream":
                for event in run(stream=True):
                    done.streamed += str(getattr(event, "content", "") or "")
                    done.final = str(event.output) if isinstance(event, smolagents.FinalAnswerStep) else done.final
            else:
                done.final = str(run())
        except Exception as error:
            done.raised = type(error).__name__
        done.results = [Result(name, _verified(text), text) for name, text in agent.results]
        done.actions = tuple(o.id for o in self.kit.client.list(run=setting.run) if o.hold == "approval")
        return done

    async def resume(self, paused: Played, turns: Sequence[Turn], setting: Setting, *, accept: bool) -> Played:
        agent = self._agent(turns, setting, [])
        agent.memory = paused.state.memory
        answers = dict.fromkeys(paused.actions, None if accept else False)
        done = await asyncio.to_thread(
            self._ran, agent, setting, lambda **options: agent.resume("go on", answers, **options)
        )
        told = [
            (step.tool_calls[0].name, str(step.observations))
            for step in agent.memory.steps
            if isinstance(step, ActionStep) and step.tool_calls and step.tool_calls[0].id in answers
        ]
        done.results = [Result(name, _verified(text), text) for name, text in told]
        return done

    async def replay(self, turns: Sequence[Turn], setting: Setting) -> Played:
        """The same history twice: the application drops the last steps from the memory and runs again."""
        agent = self._agent(turns, setting, [])
        await asyncio.to_thread(self._ran, agent, setting, lambda **options: agent.run("go", **options))
        again = self._agent(turns, setting, [])
        again.memory.steps = [step for step in agent.memory.steps if not isinstance(step, ActionStep)]
        return await asyncio.to_thread(
            self._ran, again, setting, lambda **options: again.run("go", reset=False, **options)
        )

    def seam(self) -> Callable[[int], Awaitable[Any]]:
        agent = self._agent(["end"], Setting(), [])

        async def once(number: int) -> Any:
            text = agent.execute_tool_call("touch", {"number": number})
            assert _verified(text), text

        return once


def _verified(text: str) -> bool:
    return text.partition("\n")[0].startswith("[action outcome] Verified")


def _documented(function: Callable[..., Any], *arguments: str) -> Callable[..., Any]:
    """A copy with the documentation that smolagents asks for."""

    def copy(*given: Any, **named: Any) -> Any:
        return function(*given, **named)

    copy.__name__, copy.__annotations__ = function.__name__, {**function.__annotations__}
    copy.__signature__ = __import__("inspect").signature(function)  # type: ignore[attr-defined]
    copy.__doc__ = (function.__doc__ or "") + "\n\nArgs:\n" + "\n".join(f"    {each}" for each in arguments)
    return copy
