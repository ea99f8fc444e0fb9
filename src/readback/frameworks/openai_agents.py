"""Public: the adapter for the OpenAI Agents SDK. Needs the extra `openai-agents`.

Example:
    agent = readback(Agent("desk", tools=[foreign_tool], mcp_servers=[server]), kit)
    result = await run(agent, "Ship order o-17.", conversation="thread-1", session=session)

The conversation's id is the run. Without one, the session's id or `RunConfig.group_id` is the run.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from readback.errors import UsageError
from readback.frameworks.history import CALLS_MAX, History, TurnActions, ordinal
from readback.frameworks.versions import check_version, of_framework
from readback.kit import Kit, ShownCall, Tool

with of_framework("openai-agents", "OpenAI Agents"):
    from agents import Agent, FunctionTool, Model, ModelProvider, RunConfig, Runner, RunState

__all__ = ["ReadbackAgent", "readback", "run", "run_streamed", "run_sync"]

LOWEST, BELOW = "0.20", "0.25"
"""The tested versions of `openai-agents`."""
check_version("OpenAI Agents", distribution="openai-agents", lowest=LOWEST, below=BELOW)


@dataclass(slots=True)
class _Governor:
    """What the agents of one `readback(...)` share: the kit, and the place of each call in its conversation."""

    kit: Kit
    corrections: int
    places: dict[tuple[str, str], tuple[list[ShownCall], int]] = field(default_factory=dict)
    actions: TurnActions = field(default_factory=TurnActions)

    def note(self, items: Iterable[Any], turn: Iterable[Any]) -> None:
        """Remember, for each call of a model's turn, the results that the model had been shown before."""
        history = History()
        for item in items if not isinstance(items, str) else ():
            if _is_call(item):
                history.add_call(_get(item, "call_id"), _get(item, "name"), _get(item, "arguments"))
            elif _get(item, "type") == "function_call_output":
                history.add_result(_get(item, "call_id"), str(_get(item, "output")))
        calls = [(_get(c, "call_id"), _get(c, "name"), _get(c, "arguments")) for c in turn if _is_call(c)]
        for call_id, _, _ in calls:
            self.places[self.kit.current_run, call_id] = (history.shown, ordinal(calls, call_id))
        while len(self.places) > CALLS_MAX:
            del self.places[next(iter(self.places))]

    async def operation(self, tool: Tool, arguments: Any, call_id: str) -> str | None:
        shown, position = self.places.get((self.kit.current_run, call_id), (None, 0))
        return await self.kit.aoperation(tool.name, arguments, call_id=call_id, shown=shown, ordinal=position)

    def made(self, tool: Tool, foreign: FunctionTool | None = None) -> dict[str, Any]:
        """The fields of a function tool that runs a call through the kit."""
        inner = None if foreign is None else foreign.on_invoke_tool

        async def invoke(context: Any, arguments: str) -> str:
            call: Any = None
            if inner is not None:

                async def call(bound: dict[str, Any]) -> Any:
                    return await inner(context, json.dumps(bound))

            operation = await self.operation(tool, arguments, context.tool_call_id)
            result = await tool.arun(arguments, operation=operation, call=call)
            self.actions.remember(self.kit.current_run, context.tool_call_id, result.action)
            return result.text

        async def needs_approval(context: Any, arguments: dict[str, Any], call_id: str) -> bool:
            operation = await self.operation(tool, arguments, call_id)
            if await tool.aheld(arguments, operation=operation) is not None:
                return True  # also where signed: the framework's answer comes first
            if not await tool.awaits_for(arguments, operation=operation):
                return False
            return (await tool.arun(arguments, operation=operation)).status == "parked"

        approval = needs_approval if tool.may_park else getattr(foreign, "needs_approval", False)
        return {"on_invoke_tool": invoke, "needs_approval": approval}

    def about(self, items: Any) -> list[str] | None:
        """The actions since the person's last message. None where a call of that turn is not known here."""
        found: list[str] = []
        for item in items if not isinstance(items, str) else ():
            if _get(item, "role") == "user":
                found.clear()
            elif _is_call(item) and _get(item, "name") in self.kit.tools:
                found.append(_get(item, "call_id"))
        return self.actions.of(self.kit.current_run, found)

    def govern(self, tool: Any) -> Any:
        """A governed copy of a foreign function tool; every other tool as it is."""
        if not isinstance(tool, FunctionTool) or not self.kit.governs(tool.name):
            return tool
        ours = self.kit.govern(tool.name, tool.params_json_schema, None, description=tool.description)
        return dataclasses.replace(tool, timeout_seconds=None, **self.made(ours, tool))

    def checked(self, model: Model) -> Model:
        """A copy of a model whose final answers are checked. The copy stays an instance of the model's class."""
        if isinstance(model, _Checked):
            return model
        made = copy.copy(model)
        made.__class__ = type(f"Checked{type(model).__name__}", (_Checked, type(model)), {})
        made._readback = self  # noqa: SLF001 - the copy is ours
        return made


@dataclass
class ReadbackAgent(Agent[Any]):
    """An agent whose actions are verified. Make agents with `readback(agent, kit)`."""

    governor: Any = None

    async def get_mcp_tools(self, run_context: Any) -> list[Any]:
        """The tools of the agent's MCP servers, those with a contract file governed in place."""
        found = await super().get_mcp_tools(run_context)
        for tool in found:
            governed = self.governor.govern(tool)
            tool.on_invoke_tool, tool.needs_approval = governed.on_invoke_tool, governed.needs_approval
        self.governor.kit.warn_ungoverned("OpenAI Agents", [t.name for t in (*self.tools, *found)])
        return found


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
    fields["tools"] = [governor.govern(tool) for tool in agent.tools]
    if isinstance(agent.model, Model):
        fields["model"] = governor.checked(agent.model)
    made = done[id(agent)] = ReadbackAgent(**{**fields, "handoffs": []}, governor=governor)
    made.handoffs = [_copied(each, governor, done) if isinstance(each, Agent) else each for each in agent.handoffs]
    others = [each.tool_name for each in agent.handoffs if not isinstance(each, Agent)]
    governor.kit.warn_ungoverned("OpenAI Agents", others)  # such a handoff leads to an agent that no kit governs
    own = [tool for tool in governor.kit.tools.values() if not tool.foreign]
    made.tools = [*made.tools, *(_own(governor, tool) for tool in own)]
    return made


def _own(governor: _Governor, tool: Tool) -> FunctionTool:
    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.schema,
        strict_json_schema=False,
        **governor.made(tool),
    )


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
    governor, options = _governor(agent), _options(agent, options)
    with governor.kit.session(_conversation(conversation, options)):
        if isinstance(input, RunState):
            await _answered(governor, input)
        return await Runner.run(agent, input, **options)


def run_sync(agent: ReadbackAgent, input: Any, *, conversation: str | None = None, **options: Any) -> Any:
    """`run` for programs without an event loop."""
    import asyncio

    return asyncio.run(run(agent, input, conversation=conversation, **options))


async def run_streamed(agent: ReadbackAgent, input: Any, *, conversation: str | None = None, **options: Any) -> Any:
    """`Runner.run_streamed`. A final answer reaches the stream after its check, as a whole."""
    governor, options = _governor(agent), _options(agent, options)
    with governor.kit.session(_conversation(conversation, options)):
        if isinstance(input, RunState):
            await _answered(governor, input)
        return Runner.run_streamed(agent, input, **options)


def _governor(agent: Any) -> _Governor:
    if not isinstance(agent, ReadbackAgent):
        raise UsageError(
            f"run got {type(agent).__name__!r}, which no kit governs.",
            remedy="Make the agent with readback(agent, kit), and pass that agent.",
        )
    return agent.governor


def _conversation(conversation: str | None, options: Mapping[str, Any]) -> str:
    session, config = options.get("session"), options["run_config"]
    return conversation or getattr(session, "session_id", None) or config.group_id or ""


def _options(agent: ReadbackAgent, options: dict[str, Any]) -> dict[str, Any]:
    """The run's options with each model checked, also a model that a provider makes from its name."""
    governor, config = agent.governor, options.get("run_config") or RunConfig()
    changes: dict[str, Any] = {"model_provider": _Provider(config.model_provider, governor)}
    if isinstance(config.model, Model):
        changes["model"] = governor.checked(config.model)
    return {**options, "run_config": dataclasses.replace(config, **changes)}


@dataclass
class _Provider(ModelProvider):
    inner: ModelProvider
    governor: _Governor

    def get_model(self, model_name: str | None) -> Model:
        return self.governor.checked(self.inner.get_model(model_name))

    async def aclose(self) -> None:
        await self.inner.aclose()


async def _answered(governor: _Governor, state: Any) -> None:
    """Before a paused run resumes: find the place of its calls, and cancel the actions that the person rejected."""
    stored = state.to_json()
    turn = stored["model_responses"][-1]["output"] if stored["model_responses"] else []
    ids = {_get(each, "call_id") for each in turn if _is_call(each)}
    before = [] if isinstance(stored["original_input"], str) else list(stored["original_input"])
    items = [*before, *(each["raw_item"] for each in stored["generated_items"])]
    governor.note([item for item in items if _get(item, "call_id") not in ids], turn)
    for item in state.get_interruptions():
        call = item.raw_item
        tool = governor.kit.tools.get(_get(call, "name"))
        decided = state._context.is_tool_approved(_get(call, "name"), _get(call, "call_id"))  # noqa: SLF001
        if tool is not None and decided is False:
            operation = await governor.operation(tool, _get(call, "arguments"), _get(call, "call_id"))
            held = await tool.aheld(_get(call, "arguments"), operation=operation)
            if held is not None:
                await governor.kit.areject(held.action, "rejected in the framework")


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
            events[:] = [
                e async for e in super(_Checked, self).stream_response(system_instructions, items, *rest, **more)
            ]
            return events[-1].response

        response, changed = await self._asked(ask, input, options)
        delta = next((each for each in events if each.type == "response.output_text.delta"), None)
        if changed:  # the events hold the answer that was replaced: only its text and the end remain
            text = _final_text(response.output)
            events = [*([delta.model_copy(update={"delta": text})] if delta else ()), events[-1]]
        for event in events:
            yield event

    async def _asked(self, ask: Any, items: Any, options: Mapping[str, Any]) -> tuple[Any, bool]:
        """Ask until the answer is none that claims too much. The last answer is replaced."""
        governor = self._readback
        about = governor.about(items)
        for left in range(governor.corrections, -1, -1):
            response = await ask(items, options)
            governor.note(items, response.output)
            text = None if _structured(options) else _final_text(response.output)
            if text is None:
                return response, False
            final = await governor.kit.afinal(text, about=about)
            if final.ok or not left:
                return response, _replaced(response.output, text, final.text)
            correction = {"role": "user", "content": final.correction}
            if options.get("conversation_id") or options.get("previous_response_id"):
                items = [correction]  # the server has the rest
                if options.get("previous_response_id"):
                    options = {**options, "previous_response_id": getattr(response, "response_id", None) or response.id}
            else:
                before = [{"role": "user", "content": items}] if isinstance(items, str) else items
                items = [*before, *(each.model_dump(exclude_unset=True) for each in response.output), correction]
        raise AssertionError("the last round returns")


def _structured(options: Mapping[str, Any]) -> bool:
    schema = options.get("output_schema")
    return schema is not None and not schema.is_plain_text()


def _final_text(output: Iterable[Any]) -> str | None:
    """The text of a final answer; None where the model calls a tool or says nothing."""
    output = list(output)
    if any(_get(each, "type") not in ("message", "reasoning") for each in output):
        return None
    parts = [part for each in output if _get(each, "type") == "message" for part in each.content]
    return "".join(getattr(part, "text", "") for part in parts) or None


def _replaced(output: Iterable[Any], before: str, text: str) -> bool:
    """Put a text into the place of the answer. Return whether the text is another one."""
    parts = [
        part for each in output if _get(each, "type") == "message" for part in each.content if hasattr(part, "text")
    ]
    if text == before:
        return False
    for part in parts:
        part.text = ""
    parts[0].text = text
    return True


def _get(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def _is_call(item: Any) -> bool:
    return _get(item, "type") == "function_call"
