"""Public: the adapter for the Microsoft Agent Framework (package `agent-framework-core`).

`tools(kit)` gives an agent the kit's actions. `middleware(kit)` governs all calls, and checks final answers:

    agent = Agent(client, tools=[*tools(kit), enter], middleware=[*others, *middleware(kit)])

An action that needs a person asks for the framework's own approval. `additional_properties["readback"]` of the
request holds the approval packet. Readback's signature is needed too: an approval of the framework alone executes
nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

from readback.frameworks.versions import check_version, of_framework
from readback.kit import Kit, ShownCall, Tool

with of_framework("agent-framework", "Microsoft Agent Framework"):
    from agent_framework import (
        AgentMiddleware,
        AgentResponseUpdate,
        ChatMiddleware,
        Content,
        FunctionMiddleware,
        FunctionTool,
        Message,
        MiddlewareFailure,
        MiddlewareTermination,
    )

check_version("Microsoft Agent Framework", distribution="agent-framework-core", lowest="1.21", below="1.24")

_PACKET = "readback"
_CallNext = Callable[[], Awaitable[None]]


class _Turn:
    """The history before a turn of the model, and the calls of the turn in order."""

    def __init__(self, shown: list[ShownCall]) -> None:
        self.shown, self.calls = shown, dict[str, ShownCall]()


_TURN: ContextVar[_Turn | None] = ContextVar("readback_agent_framework_turn", default=None)


class ActionTool(FunctionTool):
    """An action of the kit as a function tool, for agents with the middleware of this module."""

    governed: Tool

    @classmethod
    def of(cls, tool: Tool) -> ActionTool:
        """Wrap `tool`. `tools(kit)` wraps all actions."""

        async def refuse(**arguments: Any) -> str:
            raise MiddlewareFailure("The agent has no Readback middleware. Pass middleware=[*middleware(kit)].")

        made = cls(
            name=tool.name,
            description=tool.description,
            func=refuse,
            input_model=tool.schema,
            approval_mode="never_require",
        )
        made.governed = tool
        return made


def tools(kit: Kit) -> list[ActionTool]:
    """Return the kit's actions, sagas and questions as function tools. Foreign tools stay with the agent."""
    return [ActionTool.of(tool) for tool in kit.tools.values() if not tool.foreign]


def middleware(kit: Kit, *, corrections: int = 1) -> list[Any]:
    """Return the three middlewares of an agent. Put all three at the end of the agent's list.

    Args:
        kit: The open kit.
        corrections: How often the model may correct a final answer before the answer is replaced. A streamed answer is
            replaced without a correction.
    """
    return [ReadbackTools(kit), ReadbackHistory(kit), ReadbackFinal(kit, corrections)]


class ReadbackTools(FunctionMiddleware):
    """Run own and foreign calls under contracts."""

    def __init__(self, kit: Kit) -> None:
        """Make the middleware over an open kit."""
        self._kit = kit
        self._foreign: dict[str, tuple[Any, Tool]] = {}

    async def process(self, context: Any, call_next: _CallNext) -> None:
        """Run a call. An unexpected error ends the agent's run, and does not become a tool error."""
        try:
            await self._called(context, call_next)
        except (MiddlewareTermination, MiddlewareFailure):
            raise
        except Exception as error:  # only a MiddlewareFailure fails closed in the framework
            raise MiddlewareFailure("The adapter of Readback failed.") from error

    async def _called(self, context: Any, call_next: _CallNext) -> None:
        tool = self._governed(context.function)
        if tool is None:
            return await call_next()
        foreign = not isinstance(context.function, ActionTool)

        async def call(arguments: dict[str, Any]) -> Any:
            context.arguments = arguments
            await call_next()
            result = context.result
            return "\n".join(part.text or "" for part in result) if isinstance(result, list) else result

        given = context.arguments
        arguments = given.model_dump(exclude_unset=True) if hasattr(given, "model_dump") else dict(given or {})
        run, call_id = _run_of(self._kit, context.session), context.metadata["call_id"]
        approval = context.metadata.get("approval_response")
        packet = _packet(approval)
        if packet:
            operation = packet["named"]
        else:
            operation = await self._operation(tool, arguments, run, call_id)
        way = call if foreign else None
        # The held action is looked up first: the framework replays an approved call, and the signature decides.
        held = await tool.aheld(arguments, operation=operation) if tool.may_park else None
        if held is not None and packet:
            result = await self._kit.adecide(held.action, True, call=way)
        else:
            result = held or await tool.arun(arguments, operation=operation, run=run, call=way)
        if result.status == "parked" and not packet:
            _ask(context, result, arguments, call_id, operation)
        said = {"readback": result.data}
        context.result = [Content.from_text(result.text, additional_properties=said)]
        return None

    async def _operation(self, tool: Tool, arguments: dict[str, Any], run: str, call_id: str) -> str | None:
        turn = _TURN.get()
        if turn is None:
            return await self._kit.aoperation(tool.name, arguments, run=run, call_id=call_id)
        mine = ShownCall(tool.name, arguments)
        earlier = [each for other, each in turn.calls.items() if other != call_id]
        turn.calls.setdefault(call_id, mine)
        return await self._kit.aoperation(tool.name, arguments, run=run, shown=turn.shown, ordinal=earlier.count(mine))

    def _governed(self, function: Any) -> Tool | None:
        if isinstance(function, ActionTool):
            return function.governed
        if not self._kit.governs(function.name):
            return None
        known, governed = self._foreign.get(function.name, (None, None))
        if known is not function or governed is None:
            governed = self._kit.govern(function.name, function.parameters(), description=function.description or "")
            self._foreign[function.name] = (function, governed)
        return governed


class ReadbackHistory(ChatMiddleware):
    """Note the history before each turn of the model, and warn of ungoverned tools."""

    def __init__(self, kit: Kit) -> None:
        """Make the middleware over an open kit."""
        self._kit = kit

    async def process(self, context: Any, call_next: _CallNext) -> None:
        """Note the history of a model call."""
        names = [tool for tool in (context.options or {}).get("tools") or () if not isinstance(tool, ActionTool)]
        self._kit.warn_ungoverned("Microsoft Agent Framework", [_name(tool) for tool in names])
        _TURN.set(_Turn(_shown(context.messages)))
        await call_next()


class ReadbackFinal(AgentMiddleware):
    """Check final answers, and cancel actions after a rejected approval."""

    def __init__(self, kit: Kit, corrections: int = 1) -> None:
        """Make the middleware over an open kit."""
        self._kit, self._corrections = kit, corrections

    async def process(self, context: Any, call_next: _CallNext) -> None:
        """Run the agent, and hold the answer back until the check."""
        for message in context.messages:
            for content in message.contents:
                packet = _packet(content)
                if packet and not content.approved:
                    await self._kit.areject(packet["action"], "rejected in Microsoft Agent Framework")
        if context.stream:
            context.stream_buffer_updates = True
            context.stream_result_to_updates = _updates
            context.stream_result_hooks.append(self._replacing(context))
            return await call_next()
        earlier: list[Any] = []  # the tool calls and results before a correction
        for left in range(self._corrections, -1, -1):
            await call_next()
            answer = await self._answer(context.result, context.session)
            if answer is not None and not answer.ok and left and answer.correction:
                said = Message("user", [answer.correction])
                context.messages = [said] if context.session else [*context.messages, *context.result.messages, said]
                earlier += _without_answer(context.result.messages)
                continue
            context.result.messages = [*earlier, *context.result.messages]
            if answer is not None and not answer.ok:
                _replace(context.result, answer.text)
            break
        return None

    def _replacing(self, context: Any) -> Any:
        async def replaced(response: Any) -> Any:
            answer = await self._answer(response, context.session)
            if answer is not None and not answer.ok:
                _replace(response, answer.text)
            return response

        return replaced

    async def _answer(self, response: Any, session: Any) -> Any:
        if not response.text or response.user_input_requests:
            return None
        return await self._kit.afinal(response.text, run=_run_of(self._kit, session))


def _ask(context: Any, result: Any, arguments: dict[str, Any], call_id: str, operation: str | None) -> None:
    """End the turn with the framework's request for an approval."""
    occurrence = context.metadata.get("function_call_occurrence_id") or call_id
    packet = {**result.packet, "named": operation}
    call = Content.from_function_call(
        call_id=call_id,
        name=context.function.name,
        arguments=arguments,
        id=occurrence,
        additional_properties={_PACKET: packet},
    )
    context.result = Content.from_function_approval_request(
        id=occurrence, function_call=call, additional_properties={_PACKET: packet}
    )
    raise MiddlewareTermination("approval required")


def _packet(content: Any) -> dict[str, Any] | None:
    """Return our packet in the call of an approval's response. The framework stores that call with the session."""
    if content is None or content.type != "function_approval_response" or content.function_call is None:
        return None
    packet = (content.function_call.additional_properties or {}).get(_PACKET)
    return dict(packet) if isinstance(packet, Mapping) else None


def _shown(messages: Any) -> list[ShownCall]:
    calls: dict[str, ShownCall] = {}
    shown: list[ShownCall] = []
    for message in messages:
        for content in message.contents:
            if content.type == "function_call":
                calls[content.call_id] = ShownCall(content.name, dict(content.parse_arguments() or {}))
            elif content.type == "function_result" and content.call_id in calls:
                call = calls[content.call_id]
                shown.append(ShownCall(call.tool, call.arguments, str(content.result)))
    return shown


def _run_of(kit: Kit, session: Any) -> str:
    return session.session_id if session is not None else kit.current_run


def _name(tool: Any) -> str:
    name = getattr(tool, "name", None)
    if name is None and isinstance(tool, Mapping):
        name = tool.get("name") or tool.get("type")
    return str(name or type(tool).__name__)


def _without_answer(messages: Any) -> list[Any]:
    return [each for each in messages if not (each.role == "assistant" and each.text)]


def _replace(response: Any, text: str) -> None:
    response.messages = [*_without_answer(response.messages), Message("assistant", [text])]


def _updates(response: Any) -> list[Any]:
    return [AgentResponseUpdate(role=each.role, contents=each.contents) for each in response.messages]


__all__ = ["ActionTool", "ReadbackFinal", "ReadbackHistory", "ReadbackTools", "middleware", "tools"]
