"""Public: the adapter for LangChain and LangGraph. Needs the extra `langchain`.

    agent = create_agent(model, tools=[foreign_tool], middleware=[..., ReadbackMiddleware(kit)])
    node = ToolNode([*tools(kit), foreign_tool], **wrap(kit))

The thread's id is the run. List the middleware last, so that no other middleware stands between it and the tool.
"""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from readback.errors import UsageError
from readback.frameworks.agent_tools import AgentTools
from readback.frameworks.history import History, Place
from readback.frameworks.versions import check_version, of_framework
from readback.kit import Corrections, FinalAnswer, Kit, Tool, ToolResult

with of_framework("langchain", "LangChain"):
    from langchain.agents.middleware import AgentMiddleware, ToolRetryMiddleware
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langchain_core.tools import BaseTool
    from langgraph.config import get_config
    from langgraph.types import interrupt

__all__ = ["ReadbackMiddleware", "ReadbackTool", "tools", "wrap"]

check_version("LangChain", distribution="langchain", lowest="1.2", below="1.6")


class ReadbackTool(BaseTool):
    """An action of the kit as a LangChain tool. Make tools with `tools(kit)`."""

    governed: Any
    kit: Any
    bound: Any = None

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        """Call the action. A whole tool call as input returns a `ToolMessage`, and its id names the operation."""
        return BaseTool.invoke(self._placed(input, config), input, config, **kwargs)

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        """Call the action on the event loop."""
        return await BaseTool.ainvoke(self._placed(input, config), input, config, **kwargs)

    def _placed(self, given: Any = None, config: Any = None) -> ReadbackTool:
        """Return the tool with its call. Without the middleware no history is at hand: the call's id has to do."""
        if self.bound is not None:
            return self
        call_id = str(given.get("id") or "") if isinstance(given, Mapping) and "args" in given else ""
        call = _Call(self.kit, self.governed, {"run": _thread(config), "call_id": call_id})
        return self.model_copy(update={"bound": call})

    def _run(self, **arguments: Any) -> Any:
        return self._placed().bound.settled(arguments)

    async def _arun(self, **arguments: Any) -> Any:
        return await self._placed().bound.asettled(arguments)


def tools(kit: Kit) -> list[ReadbackTool]:
    """Return the kit's own actions as LangChain tools, and the questions `readback_wait` and `readback_status`."""
    return [
        ReadbackTool(name=each.name, description=each.description, args_schema=each.schema, governed=each, kit=kit)
        for each in kit.own_tools
    ]


def wrap(kit: Kit) -> dict[str, Callable[..., Any]]:
    """Return the arguments `wrap_tool_call` and `awrap_tool_call` of a bare `ToolNode`."""
    middleware = ReadbackMiddleware(kit)
    return {"wrap_tool_call": middleware.wrap_tool_call, "awrap_tool_call": middleware.awrap_tool_call}


class ReadbackMiddleware(AgentMiddleware):
    """Brings the kit's actions, governs foreign tools with a contract file, and checks the final answer.

    Args:
        kit: The open kit. The caller closes the kit.
        corrections: How often the model may correct a final answer before the answer is replaced.
        hold: Whether the model's text is held back from streams until the check. Without it, unchecked text leaves.
    """

    def __init__(self, kit: Kit, *, corrections: int = 1, hold: bool = True) -> None:
        super().__init__()
        self.kit, self.corrections, self.hold = kit, corrections, hold
        self.tools = tools(kit)
        self._agent = AgentTools(kit, "LangChain", lambda tool: (tool.tool_call_schema, tool.description), ReadbackTool)

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Run a governed call through the kit."""
        request, call = self._placed(request, handler)
        if call is None:
            return handler(request)
        return call.settled(request.tool_call["args"], lambda given: call.answered(handler(_with(request, given))))

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Run a governed call through the kit, on the event loop."""
        request, call = self._placed(request, handler)
        if call is None:
            return await handler(request)

        async def way(given: dict[str, Any]) -> Any:
            return call.answered(await handler(_with(request, given)))

        return await call.asettled(request.tool_call["args"], way)

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Check a final answer before the answer leaves the model's node."""
        request, checks = self._held(request)
        while (answer := _answer(response := handler(request))) is not None:
            final = checks.check(answer.text)
            if not final.correction:
                return _replaced(response, answer, final)
            request = _corrected(request, answer, final)
        return response

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Check a final answer before the answer leaves the model's node, on the event loop."""
        request, checks = self._held(request)
        while (answer := _answer(response := await handler(request))) is not None:
            final = await checks.acheck(answer.text)
            if not final.correction:
                return _replaced(response, answer, final)
            request = _corrected(request, answer, final)
        return response

    def _placed(self, request: Any, handler: Any) -> tuple[Any, _Call | None]:
        """Return a foreign tool's call. An own tool is bound to its call instead, and no call is returned."""
        tool = self._agent.governed(request.tool_call["name"], request.tool)
        if tool is None:
            return request, None
        call_id, history = request.tool_call["id"] or "", _history(request.state)
        place = {"run": _thread(getattr(request.runtime, "config", None)), **history.place(call_id)}
        known = self.kit.tools
        parking = [name for name in history.beside(call_id) if name in known and known[name].may_park]
        call = _Call(self.kit, tool, place, alone=len(parking) == 1)
        if not tool.foreign:
            return request.override(tool=request.tool.model_copy(update={"bound": call})), None
        _refuse_retries(handler, set())
        return request, call

    def _held(self, request: Any) -> tuple[Any, Corrections]:
        """List ungoverned tools, and keep the model's own text out of streams: the checked message is streamed."""
        self._agent.warn(request.tools)
        model, about = request.model, _history(request.state).actions
        if self.hold and hasattr(model, "model_copy"):
            request = request.override(model=model.model_copy(update={"tags": [*(model.tags or ()), "nostream"]}))
        return request, self.kit.corrections(self.corrections, run=_thread(get_config()), about=about)


# --- a call


class _Call:
    """A call in its thread. `alone`: a bare rejection can only mean this call."""

    def __init__(self, kit: Kit, tool: Tool, place: Place, *, alone: bool = True) -> None:
        self.kit, self.tool, self.place, self.alone = kit, tool, place, alone
        self.raw: Any = None

    def settled(self, arguments: Any, way: Any = None) -> Any:
        """Run, and pause the graph for a missing approval. The node runs again after the answer."""
        return self._message(self.kit.settle(self.tool, arguments, self._asked, call=way, **self.place))

    async def asettled(self, arguments: Any, way: Any = None) -> Any:
        """Run on the event loop; see `settled`."""
        return self._message(await self.kit.asettle(self.tool, arguments, self._asked, call=way, **self.place))

    def answered(self, raw: Any) -> Any:
        """Return the foreign tool's answer. An error message of the tool is an error."""
        self.raw = raw
        if getattr(raw, "status", "success") == "error":
            raise RuntimeError(raw.text)
        return raw.content if isinstance(raw, ToolMessage) else str(raw)

    def _asked(self, result: ToolResult) -> Any:
        """Return the person's answer, where it can only mean this action. The first pass leaves by an exception."""
        try:
            answer = interrupt(result.packet)
        except (RuntimeError, KeyError):  # the tool was called outside a graph, where nothing can pause
            return None
        if isinstance(answer, Mapping) and "action" in answer:
            return answer if answer["action"] == result.action else None
        return None if answer is False and not self.alone else answer  # parked calls of a bare node share pauses

    def _message(self, result: ToolResult) -> Any:
        """Return the result as a message. A verified foreign result keeps its artifact; a command stays a command."""
        raw = self.raw if result.ok else None
        if raw is not None and not isinstance(raw, ToolMessage):
            return raw
        return ToolMessage(
            result.text,
            name=self.tool.name,
            tool_call_id=self.place["call_id"],
            status="error" if result.is_error else "success",
            artifact=None if raw is None else raw.artifact,
            additional_kwargs={"readback": {**result.data, "action": result.action}},
        )


def _history(state: Any) -> History:
    """Return the history in a graph's state. An application may hide its messages."""
    history = History()
    for message in state.get("messages", ()) if isinstance(state, Mapping) else getattr(state, "messages", state):
        history.begin_message(by_person=isinstance(message, HumanMessage))
        for each in getattr(message, "tool_calls", ()):
            history.add_call(each["id"] or "", each["name"], each["args"])
        if isinstance(message, ToolMessage):
            action = message.additional_kwargs.get("readback", {}).get("action", "")
            history.add_result(message.tool_call_id, message.text, action)
    return history


def _thread(config: Any) -> str | None:
    """Return the thread's id, which is the run; None where the graph has no thread."""
    thread = ((config or {}).get("configurable") or {}).get("thread_id")
    return None if thread is None else str(thread)


def _with(request: Any, arguments: dict[str, Any]) -> Any:
    return request.override(tool_call={**request.tool_call, "args": arguments})


def _refuse_retries(handler: Any, seen: set[Any]) -> None:
    """Refuse a retry middleware inside: one attempt would call the tool several times."""
    seen.add(handler)
    if isinstance(getattr(handler, "__self__", None), ToolRetryMiddleware):
        raise UsageError(
            "ToolRetryMiddleware stands after ReadbackMiddleware and would repeat a tool within one attempt.",
            remedy="List ReadbackMiddleware last: middleware=[ToolRetryMiddleware(), ReadbackMiddleware(kit)].",
        )
    inside = [cell.cell_contents for cell in getattr(handler, "__closure__", None) or ()]
    for each in (*inside, getattr(handler, "__wrapped__", None)):
        if isinstance(each, types.FunctionType | types.MethodType) and each not in seen:
            _refuse_retries(each, seen)


# --- the final answer


def _answer(response: Any) -> Any:
    """Return the final answer, or None: a call of a tool, or a structured answer, is none."""
    last = response.result[-1]
    is_final = isinstance(last, AIMessage) and not last.tool_calls and response.structured_response is None
    return last if is_final else None


def _corrected(request: Any, answer: Any, final: FinalAnswer) -> Any:
    return request.override(messages=[*request.messages, answer, HumanMessage(final.correction)])


def _replaced(response: Any, answer: Any, final: FinalAnswer) -> Any:
    if final.text != answer.text:
        response.result[-1] = answer.model_copy(update={"content": final.text})
    return response
