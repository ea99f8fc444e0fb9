"""Public: the adapter for Strands Agents.

`tools(kit)` gives an agent the kit's actions. `readback(agent, kit)` connects the agent: calls run under contracts, and
final answers are checked before the first word leaves:

    agent = readback(Agent(model=MODEL, tools=[*tools(kit), enter]), kit)

An action with a missing approval interrupts the agent. The reason of the interrupt is the approval packet. Resume
with False to reject, with `{"token": TOKEN}` to approve, or with True where the approval is signed elsewhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from readback.frameworks.agent_tools import AgentTools
from readback.frameworks.history import History
from readback.frameworks.versions import check_version, of_framework
from readback.kit import Kit, Tool, ToolResult

with of_framework("strands", "Strands"):
    from strands.middleware import ExecuteToolStage, InvokeModelStage
    from strands.types.events import ModelStopReason, ToolResultEvent, TypedEvent
    from strands.types.tools import AgentTool

check_version("Strands", distribution="strands-agents", lowest="1.62", below="1.63")

_INTERRUPT = "readback"


class ActionTool(AgentTool):
    """An action of the kit as a Strands tool, for agents connected by `readback`."""

    def __init__(self, tool: Tool) -> None:
        """Wrap `tool`. `tools(kit)` wraps all actions."""
        super().__init__()
        self.governed = tool

    @property
    def tool_name(self) -> str:
        return self.governed.name

    @property
    def tool_spec(self) -> Any:
        tool = self.governed
        return {"name": tool.name, "description": tool.description, "inputSchema": {"json": tool.schema}}

    @property
    def tool_type(self) -> str:
        return "readback"

    async def stream(self, tool_use: Any, invocation_state: dict[str, Any], **extra: Any) -> AsyncIterator[Any]:
        """Refuse the call: only the middleware of a connected agent runs actions."""
        yield _result(tool_use, "Refused: the agent is not connected. Call readback(agent, kit) first.", is_error=True)


def tools(kit: Kit) -> list[ActionTool]:
    """Return the kit's actions, sagas and questions as Strands tools. Foreign tools stay with the agent."""
    return [ActionTool(tool) for tool in kit.own_tools]


def readback(agent: Any, kit: Kit, *, corrections: int = 1) -> Any:
    """Connect an agent with an open kit, and return the agent.

    The run of all actions is `agent.session_id`: give the agent a session manager, or a restart begins another run.

    Args:
        agent: The `strands.Agent`.
        kit: The open kit.
        corrections: How often the model may correct a final answer before the answer is replaced.
    """
    middleware = Middleware(kit, corrections)
    agent.add_middleware(ExecuteToolStage, middleware.execute_tool)
    agent.add_middleware(InvokeModelStage, middleware.invoke_model)
    return agent


class Middleware:
    """The two stages of a connected agent, as added by `readback`."""

    def __init__(self, kit: Kit, corrections: int = 1) -> None:
        """Make the stages over an open kit."""
        self._kit, self._corrections = kit, corrections
        self._agent = AgentTools(kit, "Strands", _definition, ActionTool)

    async def execute_tool(self, context: Any, next_fn: Any) -> AsyncIterator[Any]:
        """Put a governed tool in the tool's place, so no other middleware stands in between."""
        tool = None if context.tool is None else self._agent.governed(context.tool.tool_name, context.tool)
        if tool is not None:
            context = context.replace(tool=_GovernedCall(self._kit, tool, context))
        async for event in next_fn(context):
            yield event

    async def invoke_model(self, context: Any, next_fn: Any) -> AsyncIterator[Any]:
        """Hold the model's events until the turn ends. Correct or replace an unreconciled final answer."""
        self._agent.warn(context.tool_specs or ())
        checks = self._kit.corrections(self._corrections, run=context.agent.session_id)
        while True:
            events: list[Any] = [event async for event in next_fn(context)]
            stop = next((event for event in reversed(events) if isinstance(event, ModelStopReason)), None)
            text = _final_text(stop)
            answer = await checks.acheck(text) if text else None
            if stop is None or answer is None or not answer.correction:
                break
            said = {"role": "user", "content": [{"text": answer.correction}]}
            context = context.replace(messages=[*context.messages, stop.message, said])
        if stop is not None and answer is not None and not answer.ok:
            message = {**stop.message, "content": [{"text": answer.text}]}
            shown = TypedEvent({"data": answer.text, "delta": {"text": answer.text}})
            events = [shown, ModelStopReason(stop.stop_reason, message, stop.usage, stop.metrics)]
        for event in events:
            yield event


class _GovernedCall(AgentTool):
    """A call of a tool under a contract."""

    def __init__(self, kit: Kit, tool: Tool, context: Any) -> None:
        super().__init__()
        self._kit, self._tool, self._context = kit, tool, context

    @property
    def tool_name(self) -> str:
        return self._tool.name

    @property
    def tool_spec(self) -> Any:
        return self._context.tool.tool_spec

    @property
    def tool_type(self) -> str:
        return "readback"

    async def stream(self, tool_use: Any, invocation_state: dict[str, Any], **extra: Any) -> AsyncIterator[Any]:
        agent, arguments = self._context.agent, tool_use["input"]

        async def call(given: dict[str, Any]) -> Any:
            last: Any = None
            async for event in self._context.tool.stream({**tool_use, "input": given}, invocation_state, **extra):
                last = event
            return _content(last)

        def ask(parked: ToolResult) -> Any:
            return self._context.interrupt(_INTERRUPT, reason=parked.packet).response  # raises until it is answered

        place = _history(agent.messages).place(str(tool_use["toolUseId"]))
        way = call if self._tool.foreign else None
        result = await self._kit.asettle(self._tool, arguments, ask, run=agent.session_id, call=way, **place)
        yield _result(tool_use, result.text, is_error=result.is_error)


def _definition(tool: Any) -> tuple[Any, str]:
    return tool.tool_spec["inputSchema"]["json"], tool.tool_spec["description"]


def _history(messages: list[Any]) -> History:
    history = History()
    for message in messages:
        history.begin_message()
        for block in message["content"]:
            if made := block.get("toolUse"):
                history.add_call(made["toolUseId"], made["name"], made["input"])
            elif answer := block.get("toolResult"):
                history.add_result(answer["toolUseId"], "\n".join(part.get("text", "") for part in answer["content"]))
    return history


def _result(tool_use: Any, text: str, *, is_error: bool) -> Any:
    status = "error" if is_error else "success"
    return ToolResultEvent({"toolUseId": str(tool_use["toolUseId"]), "status": status, "content": [{"text": text}]})


def _content(last: Any) -> str:
    """Return the text of a foreign tool's result, and raise where the tool flags an error."""
    result = last.tool_result if isinstance(last, ToolResultEvent) else last
    if not isinstance(result, Mapping):
        raise TypeError("the tool gave no result")
    text = "\n".join(str(part.get("text", part.get("json", ""))) for part in result.get("content", ()))
    if result.get("status") == "error":
        raise RuntimeError(text)
    return text


def _final_text(stop: Any) -> str:
    """Return the text of a model turn without calls, and "" for any other turn."""
    if stop is None or any("toolUse" in block for block in stop.message["content"]):
        return ""
    return "".join(block.get("text", "") for block in stop.message["content"]).strip()


__all__ = ["ActionTool", "Middleware", "readback", "tools"]
