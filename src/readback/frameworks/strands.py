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

from readback.frameworks.versions import check_version, of_framework
from readback.kit import Kit, ShownCall, Tool

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
    return [ActionTool(tool) for tool in kit.tools.values() if not tool.foreign]


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
        self._foreign: dict[str, tuple[Any, Tool]] = {}

    async def execute_tool(self, context: Any, next_fn: Any) -> AsyncIterator[Any]:
        """Put a governed tool in the tool's place, so no other middleware stands in between."""
        tool = self._governed(context.tool)
        if tool is not None:
            inner = None if isinstance(context.tool, ActionTool) else context.tool
            context = context.replace(tool=_GovernedCall(self._kit, tool, inner, context))
        async for event in next_fn(context):
            yield event

    async def invoke_model(self, context: Any, next_fn: Any) -> AsyncIterator[Any]:
        """Hold the model's events until the turn ends. Correct or replace an unreconciled final answer."""
        own = {each.name for each in self._kit.tools.values()}
        names = [spec["name"] for spec in context.tool_specs or ()]
        self._kit.warn_ungoverned("Strands", [name for name in names if name not in own])
        events: list[Any] = []
        for attempt in range(self._corrections + 1):
            events = [event async for event in next_fn(context)]
            stop = next((event for event in reversed(events) if isinstance(event, ModelStopReason)), None)
            text = _final_text(stop)
            answer = await self._kit.afinal(text, run=context.agent.session_id) if text else None
            if stop is None or answer is None or answer.ok:
                break
            if attempt < self._corrections and answer.correction:
                said = {"role": "user", "content": [{"text": answer.correction}]}
                context = context.replace(messages=[*context.messages, stop.message, said])
                continue
            message = {**stop.message, "content": [{"text": answer.text}]}
            shown = TypedEvent({"data": answer.text, "delta": {"text": answer.text}})
            events = [shown, ModelStopReason(stop.stop_reason, message, stop.usage, stop.metrics)]
        for event in events:
            yield event

    def _governed(self, tool: Any) -> Tool | None:
        if isinstance(tool, ActionTool):
            return tool.governed
        if tool is None or not self._kit.governs(tool.tool_name):
            return None
        known, governed = self._foreign.get(tool.tool_name, (None, None))
        if known is not tool or governed is None:
            spec = tool.tool_spec
            governed = self._kit.govern(tool.tool_name, spec["inputSchema"]["json"], description=spec["description"])
            self._foreign[tool.tool_name] = (tool, governed)
        return governed


class _GovernedCall(AgentTool):
    """A call of a tool under a contract."""

    def __init__(self, kit: Kit, tool: Tool, inner: Any, context: Any) -> None:
        super().__init__()
        self._kit, self._tool, self._inner, self._context = kit, tool, inner, context

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
        agent, arguments, id_ = self._context.agent, tool_use["input"], str(tool_use["toolUseId"])
        run = agent.session_id
        shown, ordinal = _history(agent.messages, id_)
        place: Any = {"call_id": id_} if shown is None else {"shown": shown, "ordinal": ordinal}
        operation = await self._kit.aoperation(self._tool.name, arguments, run=run, **place)

        async def call(given: dict[str, Any]) -> Any:
            last: Any = None
            async for event in self._inner.stream({**tool_use, "input": given}, invocation_state, **extra):
                last = event
            return _content(last)

        way = None if self._inner is None else call
        # The held action is looked up first: a run would execute a signed action that the person has rejected here.
        held = await self._tool.aheld(arguments, operation=operation) if self._tool.may_park else None
        if held is None:
            result = await self._tool.arun(arguments, operation=operation, run=run, call=way)
        else:
            answer = self._context.interrupt(_INTERRUPT, reason=held.packet).response  # raises until it is answered
            result = await self._kit.adecide(held.action, answer, call=way)
        if result.status == "parked" and held is None:
            self._context.interrupt(_INTERRUPT, reason=result.packet)
        yield _result(tool_use, result.text, is_error=result.is_error)


def _history(messages: list[Any], id_: str) -> tuple[list[ShownCall] | None, int]:
    """Return the calls with a result in the history before this call, and the position among equal calls."""
    calls: dict[str, ShownCall] = {}
    shown: list[ShownCall] = []
    found: list[ShownCall] | None = None
    ordinal = 0
    for message in messages:
        siblings: list[ShownCall] = []
        for block in message["content"]:
            if made := block.get("toolUse"):
                calls[made["toolUseId"]] = each = ShownCall(made["name"], made["input"])
                if made["toolUseId"] == id_:
                    found, ordinal = list(shown), siblings.count(each)
                siblings.append(each)
            elif (answer := block.get("toolResult")) and answer["toolUseId"] in calls:
                made = calls[answer["toolUseId"]]
                text = "\n".join(part.get("text", "") for part in answer["content"])
                shown.append(ShownCall(made.tool, made.arguments, text))
    return found, ordinal


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
