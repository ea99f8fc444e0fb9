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

from readback.frameworks.agent_tools import AgentTools
from readback.frameworks.history import History, Turn
from readback.frameworks.versions import check_version, of_framework
from readback.kit import Corrections, Kit, Tool

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


_TURN: ContextVar[Turn | None] = ContextVar("readback_agent_framework_turn", default=None)
"""The history before a turn of the model, and the calls of the turn in order."""


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
    return [ActionTool.of(tool) for tool in kit.own_tools]


def middleware(kit: Kit, *, corrections: int = 1) -> list[Any]:
    """Return the three middlewares of an agent. Put all three at the end of the agent's list.

    Args:
        kit: The open kit.
        corrections: How often the model may correct a final answer before the answer is replaced. A streamed answer is
            replaced without a correction.
    """
    return [ReadbackTools(kit), ReadbackHistory(kit), ReadbackFinal(kit, corrections)]


def _agent_tools(kit: Kit) -> AgentTools:
    return AgentTools(kit, "Microsoft Agent Framework", lambda tool: (tool.parameters(), tool.description), ActionTool)


class ReadbackTools(FunctionMiddleware):
    """Run own and foreign calls under contracts."""

    def __init__(self, kit: Kit) -> None:
        """Make the middleware over an open kit."""
        self._kit, self._agent = kit, _agent_tools(kit)

    async def process(self, context: Any, call_next: _CallNext) -> None:
        """Run a call. An unexpected error ends the agent's run, and does not become a tool error."""
        try:
            tool = self._agent.governed(context.function.name, context.function)
            await (call_next() if tool is None else self._called(tool, context, call_next))
        except (MiddlewareTermination, MiddlewareFailure):
            raise
        except Exception as error:  # only a MiddlewareFailure fails closed in the framework
            raise MiddlewareFailure("The adapter of Readback failed.") from error

    async def _called(self, tool: Tool, context: Any, call_next: _CallNext) -> None:
        async def call(arguments: dict[str, Any]) -> Any:
            context.arguments = arguments
            await call_next()
            result = context.result
            return "\n".join(part.text or "" for part in result) if isinstance(result, list) else result

        given, call_id = context.arguments, context.metadata["call_id"]
        arguments = given.model_dump(exclude_unset=True) if hasattr(given, "model_dump") else dict(given or {})
        run, turn = _run_of(self._kit, context.session), _TURN.get()
        place = {"call_id": call_id} if turn is None else turn.begin(tool.name, arguments, call_id)
        packet = _packet(context.metadata.get("approval_response"))
        operation = packet["named"] if packet else await self._kit.aoperation(tool, arguments, run=run, **place)

        def ask(parked: Any) -> bool:
            if not packet:
                _ask(context, parked, arguments, call_id, operation)
            return True  # the framework replays an approved call, and the signature decides

        way = call if tool.foreign else None
        result = await self._kit.asettle(tool, arguments, ask, run=run, call=way, named=operation or "")
        context.result = [Content.from_text(result.text, additional_properties={_PACKET: result.data})]


class ReadbackHistory(ChatMiddleware):
    """Note the history before each turn of the model, and warn of ungoverned tools."""

    def __init__(self, kit: Kit) -> None:
        """Make the middleware over an open kit."""
        self._agent = _agent_tools(kit)

    async def process(self, context: Any, call_next: _CallNext) -> None:
        """Note the history of a model call."""
        self._agent.warn((context.options or {}).get("tools") or ())
        _TURN.set(Turn(_history(context.messages)))
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
        checks = self._checks(context.session)
        earlier: list[Any] = []  # the tool calls and results before a correction
        while True:
            await call_next()
            result = context.result
            answer = await checks.acheck(result.text) if _is_final(result) else None
            if answer is None or not answer.correction:
                break
            said = Message("user", [answer.correction])
            context.messages = [said] if context.session else [*context.messages, *result.messages, said]
            earlier += _without_answer(result.messages)
        result.messages = [*earlier, *result.messages]
        if answer is not None and not answer.ok:
            _replace(result, answer.text)
        return None

    def _replacing(self, context: Any) -> Any:
        async def replaced(response: Any) -> Any:
            answer = await self._checks(context.session).acheck(response.text) if _is_final(response) else None
            if answer is not None and not answer.ok:
                _replace(response, answer.text)
            return response

        return replaced

    def _checks(self, session: Any) -> Corrections:
        return self._kit.corrections(self._corrections, run=_run_of(self._kit, session))


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


def _history(messages: Any) -> History:
    history = History()
    for content in (content for message in messages for content in message.contents):
        if content.type == "function_call":
            history.add_call(content.call_id, content.name, dict(content.parse_arguments() or {}))
        elif content.type == "function_result":
            history.add_result(content.call_id, str(content.result))
    return history


def _is_final(response: Any) -> bool:
    return bool(response.text) and not response.user_input_requests


def _run_of(kit: Kit, session: Any) -> str:
    return session.session_id if session is not None else kit.current_run


def _without_answer(messages: Any) -> list[Any]:
    return [each for each in messages if not (each.role == "assistant" and each.text)]


def _replace(response: Any, text: str) -> None:
    response.messages = [*_without_answer(response.messages), Message("assistant", [text])]


def _updates(response: Any) -> list[Any]:
    return [AgentResponseUpdate(role=each.role, contents=each.contents) for each in response.messages]


__all__ = ["ActionTool", "ReadbackFinal", "ReadbackHistory", "ReadbackTools", "middleware", "tools"]
