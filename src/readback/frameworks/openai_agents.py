"""Public: the adapter for the OpenAI Agents SDK. Needs the extra `openai-agents`.

Example:
    agent = readback(Agent("desk", tools=[foreign_tool], mcp_servers=[server]), kit)
    result = await run(agent, "Ship order o-17.", conversation="thread-1", session=session)

The conversation's id is the run. Without one, the session's id or `RunConfig.group_id` is the run.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from readback.errors import UsageError
from readback.frameworks.agent_tools import AgentTools
from readback.frameworks.history import History, RecentCalls
from readback.frameworks.versions import check_version, of_framework
from readback.kit import Kit, Tool

with of_framework("openai-agents", "OpenAI Agents"):
    from agents import Agent, FunctionTool, ItemHelpers, Model, ModelProvider, RunConfig, Runner, RunState

__all__ = ["ReadbackAgent", "readback", "run", "run_streamed", "run_sync"]

check_version("OpenAI Agents", distribution="openai-agents", lowest="0.20", below="0.25")


class _Governor:
    """What the agents of one `readback(...)` share: the kit, and the place of each call in its conversation."""

    def __init__(self, kit: Kit, corrections: int) -> None:
        self.kit, self.corrections, self.calls = kit, corrections, RecentCalls(kit)
        self.tools = AgentTools(kit, "OpenAI Agents", lambda tool: (tool.params_json_schema, tool.description))

    def note(self, *conversation: Any) -> None:
        """Remember the places of the calls of a turn: the last list of items, after what the model was shown."""
        self.calls.note(_history(*conversation))

    def made(self, tool: Tool, foreign: Any = None) -> dict[str, Any]:
        """Return the fields of a function tool that runs a call through the kit."""

        async def invoke(context: Any, arguments: str) -> str:
            async def way(bound: dict[str, Any]) -> Any:
                return await foreign.on_invoke_tool(context, json.dumps(bound))

            operation = await self.calls.operation(tool, arguments, context.tool_call_id)
            result = await tool.arun(arguments, operation=operation, call=way if foreign else None)
            self.calls.remember(context.tool_call_id, result.action)
            return result.text

        async def needs_approval(context: Any, arguments: dict[str, Any], call_id: str) -> bool:
            operation = await self.calls.operation(tool, arguments, call_id)
            # A held action counts also where signed: the framework's answer comes first.
            held = await tool.aheld(arguments, operation=operation) or await tool.apark(arguments, operation=operation)
            return held is not None

        approval = needs_approval if tool.may_park else getattr(foreign, "needs_approval", False)
        return {"on_invoke_tool": invoke, "needs_approval": approval}

    def govern(self, tool: Any) -> Any:
        """Return a governed copy of a foreign function tool, and every other tool as it is."""
        ours = self.tools.governed(tool.name, tool) if isinstance(tool, FunctionTool) else None
        return tool if ours is None else dataclasses.replace(tool, timeout_seconds=None, **self.made(ours, tool))

    def checked(self, model: Any) -> Any:
        """Return a copy of a model whose final answers are checked, and the name of a model as it is.

        The copy stays an instance of the model's class.
        """
        if isinstance(model, _Checked) or not isinstance(model, Model):
            return model
        made = copy.copy(model)
        made.__class__ = type(f"Checked{type(model).__name__}", (_Checked, type(model)), {})
        made._readback = self  # noqa: SLF001 - the copy is ours
        return made

    def checked_by_name(self, provider: ModelProvider) -> ModelProvider:
        """Return a copy of a provider. The copy checks every model made from a name."""
        made: Any = copy.copy(provider)
        made.get_model = lambda name: self.checked(provider.get_model(name))
        return made

    async def take_up(self, state: Any) -> None:
        """Before a paused run resumes, find the place of its calls, and cancel the actions rejected by the person."""
        stored = state.to_json()
        turn = stored["model_responses"][-1]["output"] if stored["model_responses"] else []
        ids = {_get(each, "call_id") for each in turn} - {None}
        made = [each["raw_item"] for each in stored["generated_items"]]
        earlier = [each for each in made if _get(each, "call_id") not in ids]
        self.note(stored["original_input"], earlier, turn)
        for item in state.get_interruptions():
            name, call_id, arguments = (_get(item.raw_item, each) for each in ("name", "call_id", "arguments"))
            tool = self.kit.tools.get(name)
            is_rejected = state._context.is_tool_approved(name, call_id) is False  # noqa: SLF001 - nothing else tells
            if tool is not None and is_rejected:
                operation = await self.calls.operation(tool, arguments, call_id)
                await self.kit.areject_held(tool, arguments, "rejected in the framework", operation=operation)


@dataclass
class ReadbackAgent(Agent[Any]):
    """An agent whose actions are verified. Make agents with `readback(agent, kit)`."""

    governor: Any = None

    async def get_mcp_tools(self, run_context: Any) -> list[Any]:
        """Return the tools of the agent's MCP servers, those with a contract file governed."""
        found = await super().get_mcp_tools(run_context)
        self.governor.tools.warn((*self.tools, *found))
        return [self.governor.govern(each) for each in found]


def readback(agent: Agent[Any], kit: Kit, *, corrections: int = 1) -> ReadbackAgent:
    """Return a copy of an agent with the kit's actions as tools, foreign tools governed, and final answers checked.

    Args:
        agent: The agent. The agent and its tools are not changed. Agents in `handoffs` are copied likewise.
        kit: The open kit. The caller closes the kit.
        corrections: How often the model may correct a final answer before the answer is replaced.
    """
    return _copied(agent, _Governor(kit, corrections), {})


def _copied(agent: Agent[Any], governor: _Governor, done: dict[int, ReadbackAgent]) -> ReadbackAgent:
    if id(agent) in done:
        return done[id(agent)]
    fields = {each.name: getattr(agent, each.name) for each in dataclasses.fields(agent) if each.init}
    own = [
        FunctionTool(each.name, each.description, each.schema, strict_json_schema=False, **governor.made(each))
        for each in governor.kit.own_tools
    ]
    fields["tools"] = [*(governor.govern(tool) for tool in agent.tools), *own]
    fields["model"] = governor.checked(agent.model)
    made = done[id(agent)] = ReadbackAgent(**{**fields, "handoffs": []}, governor=governor)
    made.handoffs = [_copied(each, governor, done) if isinstance(each, Agent) else each for each in agent.handoffs]
    # A handoff that is no agent leads to an agent that no kit governs.
    governor.tools.warn(each.tool_name for each in agent.handoffs if not isinstance(each, Agent))
    return made


async def run(agent: ReadbackAgent, input: Any, *, conversation: str | None = None, **options: Any) -> Any:
    """`Runner.run`, with the conversation's id as the run.

    Args:
        agent: An agent of `readback(...)`.
        input: The text, the items, or the `RunState` of a paused run after the person's answers.
        conversation: The conversation's id, the same after a restart. Left out: the session's id, else the group's.
        options: Further arguments of `Runner.run`.

    Raises:
        UsageError: the agent does not come from `readback(...)`.
    """
    async with _resumed(agent, input, conversation, options):
        return await Runner.run(agent, input, **options)


def run_sync(agent: ReadbackAgent, input: Any, *, conversation: str | None = None, **options: Any) -> Any:
    """`run` for programs without an event loop."""
    return asyncio.run(run(agent, input, conversation=conversation, **options))


async def run_streamed(agent: ReadbackAgent, input: Any, *, conversation: str | None = None, **options: Any) -> Any:
    """`Runner.run_streamed`. A final answer reaches the stream after its check, as a whole."""
    async with _resumed(agent, input, conversation, options):
        return Runner.run_streamed(agent, input, **options)


@asynccontextmanager
async def _resumed(agent: Any, input: Any, conversation: str | None, options: dict[str, Any]) -> AsyncGenerator[None]:
    """Name the run. Check each model in the options, also one that a provider makes. Take up a paused run."""
    if not isinstance(agent, ReadbackAgent):
        raise UsageError(
            f"run got {type(agent).__name__!r}, which no kit governs.",
            remedy="Make the agent with readback(agent, kit), and pass that agent.",
        )
    governor, config = agent.governor, options.get("run_config") or RunConfig()
    provider, model = governor.checked_by_name(config.model_provider), governor.checked(config.model)
    options["run_config"] = dataclasses.replace(config, model_provider=provider, model=model)
    named = conversation or getattr(options.get("session"), "session_id", None) or config.group_id or ""
    with governor.kit.session(named):
        if isinstance(input, RunState):
            await governor.take_up(input)
        yield


class _Checked(Model):
    """A model whose final answers are checked before they leave the model."""

    _readback: _Governor

    async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **options: Any) -> Any:
        async def ask(items: Any, more: Mapping[str, Any]) -> Any:
            return await super(_Checked, self).get_response(system_instructions, items, *rest, **more)

        return (await self._asked(ask, input, options))[0]

    async def stream_response(
        self, system_instructions: Any, input: Any, *rest: Any, **options: Any
    ) -> AsyncIterator[Any]:
        events: list[Any] = []

        async def ask(items: Any, more: Mapping[str, Any]) -> Any:
            stream = super(_Checked, self).stream_response(system_instructions, items, *rest, **more)
            events[:] = [event async for event in stream]
            return events[-1].response

        _, text = await self._asked(ask, input, options)
        if text is not None:  # the events hold the answer that was replaced: only its text and the end remain
            deltas = [each for each in events if each.type == "response.output_text.delta"][:1]
            events = [*(each.model_copy(update={"delta": text}) for each in deltas), events[-1]]
        for event in events:
            yield event

    async def _asked(self, ask: Any, items: Any, options: Mapping[str, Any]) -> tuple[Any, str | None]:
        """Ask until the answer claims too much no more. Return the last response, and the text put into its place."""
        governor = self._readback
        checks = governor.kit.corrections(governor.corrections, about=governor.calls.about(_history(items)))
        schema = options.get("output_schema")
        while True:
            response = await ask(items, options)
            governor.note(items, response.output)
            parts = _text_parts(response.output)
            text = "".join(part.text for part in parts)
            if not text or not (schema is None or schema.is_plain_text()):
                return response, None
            final = await checks.acheck(text)
            if not final.correction:
                return response, None if final.text == text else _put(parts, final.text)
            on_server = options.get("conversation_id") or options.get("previous_response_id")
            said = [each.model_dump(exclude_unset=True) for each in response.output]
            earlier = [] if on_server else [*ItemHelpers.input_to_new_input_list(items), *said]
            items = [*earlier, {"role": "user", "content": final.correction}]
            if options.get("previous_response_id"):
                options = {**options, "previous_response_id": getattr(response, "response_id", None) or response.id}


def _history(*messages: Any) -> History:
    """Return the history in lists of items. A text in place of a list is the person's first message."""
    history = History()
    for items in messages:
        history.begin_message()
        for item in () if isinstance(items, str) else items:
            if _get(item, "role") == "user":
                history.begin_message(by_person=True)
            elif _get(item, "type") == "function_call":
                history.add_call(_get(item, "call_id"), _get(item, "name"), _get(item, "arguments"))
            elif _get(item, "type") == "function_call_output":
                history.add_result(_get(item, "call_id"), str(_get(item, "output")))
    return history


def _text_parts(output: Iterable[Any]) -> list[Any]:
    """Return the parts of a final answer with text; none where the model calls a tool."""
    if any(_get(each, "type") not in ("message", "reasoning") for each in output):
        return []
    messages = [each for each in output if _get(each, "type") == "message"]
    return [part for each in messages for part in each.content if hasattr(part, "text")]


def _put(parts: list[Any], text: str) -> str:
    """Put a text into the place of an answer, and return the text."""
    for number, part in enumerate(parts):
        part.text = "" if number else text
    return text


def _get(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)
