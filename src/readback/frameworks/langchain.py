"""Public: the adapter for LangChain and LangGraph. Needs the extra `langchain`.

    agent = create_agent(model, tools=[foreign_tool], middleware=[..., ReadbackMiddleware(kit)])
    node = ToolNode([*tools(kit), foreign_tool], **wrap(kit))

The thread's id is the run. List the middleware last, so that no other middleware stands between it and the tool.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from readback.errors import UsageError
from readback.frameworks.history import History, ordinal
from readback.frameworks.versions import check_version, of_framework
from readback.kit import FinalAnswer, Kit, Tool, ToolResult

with of_framework("langchain", "LangChain"):
    from langchain.agents.middleware import AgentMiddleware, ToolRetryMiddleware
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langchain_core.tools import BaseTool
    from langgraph.config import get_config
    from langgraph.types import interrupt

__all__ = ["ReadbackMiddleware", "ReadbackTool", "tools", "wrap"]

LOWEST, BELOW = "1.2", "1.6"
"""The tested versions of `langchain`."""
check_version("LangChain", distribution="langchain", lowest=LOWEST, below=BELOW)

_NO_GRAPH: Final = object()


@dataclass(frozen=True, slots=True)
class _Place:
    """A call in its thread. `alone`: a bare rejection can only mean this call."""

    call_id: str = ""
    run: str | None = None
    operation: str | None = None
    alone: bool = True

    @property
    def names(self) -> dict[str, Any]:
        return {"run": self.run, "operation": self.operation}


_PLACE: ContextVar[_Place | None] = ContextVar("readback_langchain_place", default=None)


class ReadbackTool(BaseTool):
    """An action of the kit as a LangChain tool. Make tools with `tools(kit)`."""

    governed: Any
    kit: Any

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        """Call the action. A whole tool call as input returns a `ToolMessage`, and its id names the operation."""
        with _at(self._place(input, config)):
            return super().invoke(input, config, **kwargs)

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        """Call the action on the event loop."""
        with _at(self._place(input, config)):
            return await super().ainvoke(input, config, **kwargs)

    def _place(self, call: Any, config: Any) -> _Place:
        """Return the place by the middleware. Without the middleware no history is at hand: the call's id has to do."""
        call_id = str(call.get("id") or "") if isinstance(call, Mapping) and "args" in call else ""
        place = _PLACE.get()
        if place is not None and place.call_id == call_id:
            return place
        run, arguments = _thread(config), call["args"] if call_id else {}
        return _Place(call_id, run, self.kit.operation(self.name, arguments, run=run, call_id=call_id))

    def _run(self, **arguments: Any) -> Any:
        place = _PLACE.get() or _Place()
        return _message(_settled(self.kit, self.governed, arguments, place), self.name, place)

    async def _arun(self, **arguments: Any) -> Any:
        place = _PLACE.get() or _Place()
        return _message(await _asettled(self.kit, self.governed, arguments, place), self.name, place)


def tools(kit: Kit) -> list[ReadbackTool]:
    """Return the kit's own actions as LangChain tools, and the questions `readback_wait` and `readback_status`."""
    own = [t for t in kit.tools.values() if not t.foreign]
    return [
        ReadbackTool(name=t.name, description=t.description, args_schema=t.schema, governed=t, kit=kit) for t in own
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

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Run a governed call through the kit."""
        if (tool := self._tool(request, handler)) is None:
            return handler(request)
        call, raw = request.tool_call, []
        names, alone = _placing(self.kit, request)
        place = _Place(call["id"] or "", names["run"], self.kit.operation(tool.name, call["args"], **names), alone)

        def inner(arguments: dict[str, Any]) -> Any:
            raw.append(handler(request.override(tool_call={**call, "args": arguments})))
            return _content(raw[-1])

        with _at(place):
            if not tool.foreign:
                return handler(request)
            return _message(_settled(self.kit, tool, call["args"], place, inner), tool.name, place, raw)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Run a governed call through the kit, on the event loop."""
        if (tool := self._tool(request, handler)) is None:
            return await handler(request)
        call, raw = request.tool_call, []
        names, alone = _placing(self.kit, request)
        operation = await self.kit.aoperation(tool.name, call["args"], **names)
        place = _Place(call["id"] or "", names["run"], operation, alone)

        async def inner(arguments: dict[str, Any]) -> Any:
            raw.append(await handler(request.override(tool_call={**call, "args": arguments})))
            return _content(raw[-1])

        with _at(place):
            if not tool.foreign:
                return await handler(request)
            return _message(await _asettled(self.kit, tool, call["args"], place, inner), tool.name, place, raw)

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Check a final answer before the answer leaves the model's node."""
        request, left = self._held(request), self.corrections
        while (answer := _answer(response := handler(request))) is not None:
            final = self.kit.final(answer.text, **_turn(request))
            if final.ok or not left:
                return _replaced(response, answer, final)
            request, left = _corrected(request, answer, final), left - 1
        return response

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Check a final answer before the answer leaves the model's node, on the event loop."""
        request, left = self._held(request), self.corrections
        while (answer := _answer(response := await handler(request))) is not None:
            final = await self.kit.afinal(answer.text, **_turn(request))
            if final.ok or not left:
                return _replaced(response, answer, final)
            request, left = _corrected(request, answer, final), left - 1
        return response

    def _tool(self, request: Any, handler: Any) -> Tool | None:
        """Return the governed tool of a call. A foreign tool is governed at its first call, with its own schema."""
        name, foreign = request.tool_call["name"], request.tool
        if foreign is not None and self.kit.governs(name):
            _refuse_retries(handler)
            if name not in self.kit.tools:
                schema = foreign.tool_call_schema
                schema = schema if isinstance(schema, dict) else schema.model_json_schema()
                self.kit.govern(name, schema, None, description=foreign.description)
        elif foreign is not None:
            self.kit.warn_ungoverned("LangChain", [name])
        return self.kit.tools.get(name)

    def _held(self, request: Any) -> Any:
        """List ungoverned tools, and keep the model's own text out of streams: the checked message is streamed."""
        named = (t.get("name") or t.get("type", "") if isinstance(t, dict) else t.name for t in request.tools)
        self.kit.warn_ungoverned("LangChain", [str(name) for name in named])
        model = request.model
        if not self.hold or not hasattr(model, "model_copy"):
            return request
        return request.override(model=model.model_copy(update={"tags": [*(model.tags or ()), "nostream"]}))


# --- a call


def _settled(kit: Kit, tool: Tool, arguments: Any, place: _Place, call: Any = None) -> ToolResult:
    """Run, and pause the graph for a missing approval. The node runs again after the answer: the answer comes first."""
    held = tool.held(arguments, operation=place.operation) if tool.may_park else None
    result = held or tool.run(arguments, call=call, **place.names)
    if result.status == "parked" and (answer := _asked(result)) is not _NO_GRAPH:
        result = kit.decide(result.action, _bound(answer, result, place), call=call)
    return result


async def _asettled(kit: Kit, tool: Tool, arguments: Any, place: _Place, call: Any = None) -> ToolResult:
    held = await tool.aheld(arguments, operation=place.operation) if tool.may_park else None
    result = held or await tool.arun(arguments, call=call, **place.names)
    if result.status == "parked" and (answer := _asked(result)) is not _NO_GRAPH:
        result = await kit.adecide(result.action, _bound(answer, result, place), call=call)
    return result


def _asked(result: ToolResult) -> Any:
    """Return the person's answer. The first pass leaves here, by LangGraph's own exception."""
    try:
        return interrupt(result.packet)
    except (RuntimeError, KeyError):  # the tool was called outside a graph, where nothing can pause
        return _NO_GRAPH


def _bound(answer: Any, result: ToolResult, place: _Place) -> Any:
    """Return the answer, where it can only mean this action. Parked calls of one bare node share their pauses."""
    if isinstance(answer, Mapping) and "action" in answer:
        return answer if answer["action"] == result.action else None
    return None if answer is False and not place.alone else answer


@contextlib.contextmanager
def _at(place: _Place) -> Iterator[None]:
    token = _PLACE.set(place)
    try:
        yield
    finally:
        _PLACE.reset(token)


def _placing(kit: Kit, request: Any) -> tuple[dict[str, Any], bool]:
    """Return the arguments of `kit.operation`, and whether no other call of the message can be parked."""
    call, state = request.tool_call, request.state
    names = {"run": _thread(getattr(request.runtime, "config", None)), "call_id": call["id"] or ""}
    found = state.get("messages", ()) if isinstance(state, Mapping) else getattr(state, "messages", state)
    messages = list(found)
    ids = [[each["id"] for each in getattr(message, "tool_calls", ())] for message in messages]
    last = max((n for n, each in enumerate(ids) if call["id"] in each), default=None)
    if last is None:  # an application that hides its messages: the id names the operation
        return names, False
    history = History()
    for message in messages[:last]:
        for each in getattr(message, "tool_calls", ()):
            history.add_call(each["id"], each["name"], each["args"])
        if isinstance(message, ToolMessage):
            history.add_result(message.tool_call_id, message.text)
    turn = messages[last].tool_calls
    position = ordinal(((each["id"], each["name"], each["args"]) for each in turn), call["id"])
    parking = [each for each in turn if (tool := kit.tools.get(each["name"])) is not None and tool.may_park]
    return {**names, "shown": history.shown, "ordinal": position}, len(parking) == 1


def _thread(config: Any) -> str | None:
    """Return the thread's id, which is the run; None where the graph has no thread."""
    thread = ((config or {}).get("configurable") or {}).get("thread_id")
    return None if thread is None else str(thread)


def _message(result: ToolResult, name: str, place: _Place, raw: Sequence[Any] = ()) -> Any:
    """Return the result as a message. A verified foreign result keeps its artifact, and a command stays a command."""
    if result.ok and raw and not isinstance(raw[-1], ToolMessage):
        return raw[-1]
    return ToolMessage(
        result.text,
        name=name,
        tool_call_id=place.call_id,
        status="error" if result.is_error else "success",
        artifact=raw[-1].artifact if result.ok and raw else None,
        additional_kwargs={"readback": {**result.data, "action": result.action}},
    )


def _content(message: Any) -> Any:
    """Return the foreign tool's answer. An error message of the tool is an error."""
    if getattr(message, "status", "success") == "error":
        raise RuntimeError(message.text)
    return message.content if isinstance(message, ToolMessage) else str(message)


def _refuse_retries(handler: Any) -> None:
    """Refuse a retry middleware inside: one attempt would call the tool several times."""
    pending, seen = [handler], set[int]()
    while pending:
        each = pending.pop()
        if isinstance(getattr(each, "__self__", None), ToolRetryMiddleware):
            raise UsageError(
                "ToolRetryMiddleware stands after ReadbackMiddleware and would repeat a tool within one attempt.",
                remedy="List ReadbackMiddleware last: middleware=[ToolRetryMiddleware(), ReadbackMiddleware(kit)].",
            )
        seen.add(id(each))
        inside = [cell.cell_contents for cell in getattr(each, "__closure__", None) or ()]
        inside += [each.__wrapped__] if hasattr(each, "__wrapped__") else []
        pending += [f for f in inside if isinstance(f, types.FunctionType | types.MethodType) and id(f) not in seen]


# --- the final answer


def _answer(response: Any) -> Any:
    """Return the final answer, or None: a call of a tool, or a structured answer, is none."""
    last = response.result[-1]
    is_final = isinstance(last, AIMessage) and not last.tool_calls and response.structured_response is None
    return last if is_final else None


def _turn(request: Any) -> dict[str, Any]:
    """Return the run, and the actions since the person's last message."""
    about: list[str] = []
    for message in request.state["messages"]:
        if isinstance(message, HumanMessage):
            about.clear()
        elif isinstance(message, ToolMessage) and (data := message.additional_kwargs.get("readback")):
            about.append(data["action"])
    return {"run": _thread(get_config()), "about": about}


def _corrected(request: Any, answer: Any, final: FinalAnswer) -> Any:
    return request.override(messages=[*request.messages, answer, HumanMessage(final.correction)])


def _replaced(response: Any, answer: Any, final: FinalAnswer) -> Any:
    if final.text != answer.text:
        response.result[-1] = answer.model_copy(update={"content": final.text})
    return response
