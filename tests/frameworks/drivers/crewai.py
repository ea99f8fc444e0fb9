"""CrewAI: an agent with governed tools, one task with the guardrail, and a scripted model with native calls."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

os.environ |= {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_DISABLE_TRACKING": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "CREWAI_TESTING": "true",
    "OTEL_SDK_DISABLED": "true",
}

from crewai import Agent, BaseLLM, Crew, Task
from crewai.mcp import MCPServerStdio
from crewai.tools import tool as crewai_tool

from readback.frameworks import crewai as adapter
from tests.frameworks import shop
from tests.frameworks.driver import Driver, Played, Result, Seen, Setting, Turn, played

BOOK = Path(__file__).resolve().parents[1] / "book.py"


class Scripted(BaseLLM):
    """A model that plays turns. The last turn repeats."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        super().__init__(model="scripted", provider="custom")
        self._turns = itertools.chain(turns, itertools.repeat(turns[-1]))
        self._seen: list[Any] = []
        self._earlier: list[Any] = []
        self._last: tuple[str, ...] = ()

    def supports_function_calling(self) -> bool:
        return True

    def get_context_window_size(self) -> int:
        return 100_000

    def call(self, messages: Any, tools: Any = None, callbacks: Any = None, *_: Any, **__: Any) -> Any:
        found = [each for each in messages if isinstance(each, dict) and each.get("role") == "tool"]
        results = tuple(str(each["content"]) for each in found)
        if results[: len(self._last)] != self._last:
            self._earlier += self._seen  # the task runs again, with a new history
        self._last, self._seen = results, list(messages)
        text = "\n".join(str(each) for each in messages)
        # The correction lists the citations, since the results are no longer in the history.
        turn = played(next(self._turns), Seen(results or ((text,) if "[readback:" in text else ()), text))
        if isinstance(turn, str):
            return turn
        return [
            {
                "id": c.id,
                "type": "function",
                "function": {
                    "name": c.name,
                    "arguments": c.arguments if isinstance(c.arguments, str) else json.dumps(c.arguments),
                },
            }
            for c in turn
        ]

    async def acall(self, *arguments: Any, **named: Any) -> Any:
        return self.call(*arguments, **named)


class CrewAI(Driver):
    name = "crewai"
    packages = ("crewai",)
    hooks = ("tool", "final guardrail")
    cannot = {
        "a_lying_answer_in_a_stream": "CrewAI streams the model's text before the guardrail of a task",
    }
    notes = {
        "operation": "CrewAI has no store of a run; a second kickoff with the same run finds the actions",
        "pause": "no pause exists; the call is reported as parked, and after `kit.decide` a second kickoff continues",
    }

    def _crew(self, turns: Sequence[Turn], setting: Setting) -> tuple[Any, Scripted]:
        model = Scripted(turns)
        foreign: list[Any] = []
        if setting.foreign == "local":
            foreign.append(crewai_tool("enter")(shop.enter))
        if setting.ungoverned:
            foreign.append(crewai_tool("peek")(shop.peek))
        servers = [MCPServerStdio(command=sys.executable, args=[str(BOOK), str(shop.home())])]
        agent = Agent(
            role="clerk",
            goal="serve",
            backstory="a clerk",
            llm=model,
            tools=foreign,
            mcps=servers if setting.foreign == "mcp" else None,
            verbose=False,
            max_iter=8,
        )
        adapter.readback(agent, self.kit, setting.run)
        check = adapter.guardrail(self.kit, setting.run)
        if setting.broken == "tool":
            for each in agent.tools:
                object.__setattr__(each, "_named", _raising)
        if setting.broken == "final guardrail":
            check = lambda output: _raising()  # noqa: E731
        task = Task(description="go", expected_output="words", agent=agent, guardrail=check)
        return Crew(agents=[agent], tasks=[task], verbose=False, stream=setting.way == "stream"), model

    async def play(self, turns: Sequence[Turn], setting: Setting) -> Played:
        return await self._ran(turns, setting)

    async def _ran(self, turns: Sequence[Turn], setting: Setting) -> Played:
        crew, model = await asyncio.to_thread(self._crew, turns, setting)
        done = Played(state=crew)
        try:
            if setting.way == "async":
                done.final = str((await crew.akickoff()).raw)
            else:
                out = await asyncio.to_thread(crew.kickoff)
                if setting.way == "stream":
                    done.streamed = "".join([each.content async for each in _each(out)])
                    out = out.result
                done.final = str(out.raw)
        except Exception as error:
            done.raised = type(error).__name__
        shown = [*model._earlier, *model._seen]
        names = {
            str(call["id"]): call["function"]["name"]
            for each in shown
            if isinstance(each, dict)
            for call in each.get("tool_calls") or ()
        }
        done.results = [
            Result(names.get(str(m.get("tool_call_id")), ""), _verified(str(m["content"])), str(m["content"]))
            for m in shown
            if isinstance(m, dict) and m.get("role") == "tool"
        ]
        done.actions = tuple(o.id for o in self.kit.client.list(run=setting.run) if o.hold == "approval")
        return done

    async def resume(self, paused: Played, turns: Sequence[Turn], setting: Setting, *, accept: bool) -> Played:
        told = [await self.kit.adecide(action, None if accept else False) for action in paused.actions]
        done = await self._ran(turns, setting)
        done.results += [Result("pay", each.ok, each.text) for each in told]
        return done

    async def replay(self, turns: Sequence[Turn], setting: Setting) -> Played:
        """A guardrail that refuses once makes CrewAI run the whole task again."""
        await self._ran(turns, setting)
        return await self._ran(turns, setting)

    def seam(self) -> Callable[[int], Awaitable[Any]]:
        [tool] = [each for each in adapter.tools(self.kit, "r") if each.name == "touch"]

        async def once(number: int) -> Any:
            text = await tool.arun(number=number)
            assert _verified(str(text)), text

        return once


async def _each(stream: Any) -> Any:
    for chunk in stream:
        yield chunk


def _verified(text: str) -> bool:
    return text.partition("\n")[0].startswith(("[action outcome] Verified", "Verified"))


def _raising(*_: Any, **__: Any) -> Any:
    raise KeyError("a bug of the adapter")
