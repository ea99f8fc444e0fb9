"""Public: the adapter for Pydantic AI. Needs the extra `pydantic-ai`.

Example:
    agent = Agent(model, toolsets=[foreign], capabilities=[Readback(kit)], output_type=[str, DeferredToolRequests])
    result = await agent.run("Ship order o-17.", conversation_id="thread-1")

The conversation's id is the run. List the capability last, so that no other toolset wrapper stands inside.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from readback.frameworks.history import History, TurnActions, ordinal
from readback.frameworks.versions import check_version, of_framework
from readback.kit import Kit, Tool

with of_framework("pydantic-ai", "Pydantic AI"):
    from pydantic_ai import ApprovalRequired, ToolReturn
    from pydantic_ai import Tool as FrameworkTool
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import ToolFailed
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        RetryPromptPart,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models import CompletedStreamedResponse
    from pydantic_ai.models.wrapper import WrapperModel
    from pydantic_ai.toolsets import FunctionToolset, WrapperToolset

__all__ = ["Readback"]

LOWEST, BELOW = "2.20", "2.69"
"""The tested versions of `pydantic-ai-slim`."""
check_version("Pydantic AI", distribution="pydantic-ai-slim", lowest=LOWEST, below=BELOW)


@dataclass
class Readback(AbstractCapability[Any]):
    """Brings the kit's actions, governs foreign tools with a contract file, and checks the final answer.

    Args:
        kit: The open kit. The caller closes the kit.
        corrections: How often the model may correct a final answer before the answer is replaced.
    """

    kit: Kit
    corrections: int = 1
    _actions: TurnActions = field(default_factory=TurnActions, repr=False)

    def get_toolset(self) -> Any:
        """The kit's own actions. The toolset around all tools runs them."""
        own = [tool for tool in self.kit.tools.values() if not tool.foreign]
        made = FunctionToolset[Any]()
        for tool in own:
            made.add_tool(FrameworkTool.from_schema(_outside, tool.name, tool.description, tool.schema))
        return made

    def get_wrapper_toolset(self, toolset: Any) -> Any:
        """Put the kit between the agent and every tool."""
        return _Governed(toolset, self)

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        """Check the final answers of the model that this request uses."""
        if not isinstance(request_context.model, _Checked):
            request_context.model = _Checked(request_context.model, self, _run(ctx))
        return request_context

    async def before_node_run(self, ctx: Any, *, node: Any) -> Any:
        """Cancel the actions that the person rejected, before the run resumes."""
        answers = getattr(node, "deferred_tool_results", None)
        for call_id, answer in (answers.approvals if answers is not None else {}).items():
            call = _calls(ctx.messages, call_id).get(call_id)
            tool = None if call is None else self.kit.tools.get(call.tool_name)
            if call is None or tool is None or answer is True or getattr(answer, "kind", "") == "tool-approved":
                continue
            named = await self._named(ctx, tool, call.args_as_dict(), call_id)
            if (held := await tool.aheld(call.args_as_dict(), operation=named["operation"])) is not None:
                await self.kit.areject(held.action, getattr(answer, "message", ""))
        return node

    async def settle(self, tool: Tool, arguments: dict[str, Any], ctx: Any, call: Any = None) -> Any:
        """Run a call through the kit. A missing approval defers the call, and a failure has the framework's flag."""
        named = await self._named(ctx, tool, arguments, ctx.tool_call_id)
        result = await tool.aheld(arguments, operation=named["operation"]) if tool.may_park else None
        if result is None:
            result = await tool.arun(arguments, call=call, **named)
        if result.status == "parked" and not ctx.tool_call_approved:
            raise ApprovalRequired(metadata=dict(result.packet or {}))
        if result.status == "parked":
            result = await self.kit.adecide(result.action, ctx.tool_call_metadata or True, call=call)
        self._actions.remember(named["run"], ctx.tool_call_id, result.action)
        if result.is_error:
            raise ToolFailed(result.text)
        return ToolReturn(return_value=result.text, metadata={**result.data, "action": result.action})

    def about(self, run: str, messages: Sequence[Any]) -> list[str] | None:
        """The actions since the person's last message. None where a call of that turn is not known here."""
        found: list[str] = []
        for part in (part for message in messages for part in message.parts):
            if isinstance(part, UserPromptPart):
                found.clear()
            elif isinstance(part, ToolCallPart) and part.tool_name in self.kit.tools:
                found.append(part.tool_call_id)
        return self._actions.of(run, found)

    async def _named(self, ctx: Any, tool: Tool, arguments: Any, call_id: str) -> dict[str, Any]:
        """The run and the operation of a call, by the results that the model had been shown."""
        calls = _calls(ctx.messages, call_id)
        history = History()
        for message in ctx.messages:
            if calls and message is _turn(ctx.messages, call_id):
                break
            for part in message.parts:
                if isinstance(part, ToolCallPart):
                    history.add_call(part.tool_call_id, part.tool_name, part.args_as_dict())
                elif isinstance(part, ToolReturnPart | RetryPromptPart):
                    history.add_result(part.tool_call_id, str(part.content))
        position = ordinal(((c.tool_call_id, c.tool_name, c.args_as_dict()) for c in calls.values()), call_id)
        run = _run(ctx)
        operation = await self.kit.aoperation(
            tool.name, arguments, run=run, call_id=call_id, shown=history.shown if calls else None, ordinal=position
        )
        return {"run": run, "operation": operation}


@dataclass
class _Governed(WrapperToolset[Any]):
    """Every tool of a run. Governed tools go through the kit, and no other wrapper stands inside."""

    readback: Readback

    async def get_tools(self, ctx: Any) -> Any:
        found = await super().get_tools(ctx)
        self.readback.kit.warn_ungoverned("Pydantic AI", list(found))
        return found

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        kit, inner, call = self.readback.kit, super().call_tool, None
        if kit.governs(name):
            if name not in kit.tools:
                kit.govern(
                    name, tool.tool_def.parameters_json_schema, None, description=tool.tool_def.description or ""
                )

            async def call(arguments: dict[str, Any]) -> Any:
                answer = await inner(name, arguments, ctx, tool)
                return answer.return_value if isinstance(answer, ToolReturn) else answer

        elif name not in kit.tools:
            return await inner(name, tool_args, ctx, tool)
        return await self.readback.settle(kit.tools[name], tool_args, ctx, call)


class _Checked(WrapperModel):
    """A model whose final answers are checked before they leave the model. A stream gets the checked answer whole."""

    def __init__(self, wrapped: Any, readback: Readback, run: str) -> None:
        super().__init__(wrapped)
        self.readback, self.run = readback, run

    async def request(self, messages: Any, model_settings: Any, model_request_parameters: Any) -> ModelResponse:
        async def ask(asked: Any) -> ModelResponse:
            return await self.wrapped.request(asked, model_settings, model_request_parameters)

        return await self._asked(ask, messages)

    @contextlib.asynccontextmanager
    async def request_stream(
        self, messages: Any, model_settings: Any, model_request_parameters: Any, run_context: Any = None
    ) -> AsyncGenerator[Any]:
        async def ask(asked: Any) -> ModelResponse:
            inner = self.wrapped.request_stream(asked, model_settings, model_request_parameters, run_context)
            async with inner as stream:
                async for _ in stream:
                    pass
                return stream.get()

        response = await self._asked(ask, messages)
        yield CompletedStreamedResponse(response, model_request_parameters=model_request_parameters, replay_events=True)

    async def _asked(self, ask: Any, messages: Sequence[Any]) -> ModelResponse:
        """Ask until the answer is none that claims too much. The last answer is replaced."""
        about = self.readback.about(self.run, messages)
        for left in range(self.readback.corrections, -1, -1):
            response: ModelResponse = await ask(messages)
            texts = [part for part in response.parts if isinstance(part, TextPart)]
            if not texts or any(isinstance(part, ToolCallPart) for part in response.parts):
                return response
            text = "".join(part.content for part in texts)
            final = await self.readback.kit.afinal(text, run=self.run, about=about)
            if final.ok or not left:
                rest = [part for part in response.parts if not isinstance(part, TextPart)]
                return response if final.text == text else replace(response, parts=[*rest, TextPart(final.text)])
            messages = [*messages, response, ModelRequest(parts=[UserPromptPart(final.correction)])]
        raise AssertionError("the last round returns")


async def _outside(**arguments: Any) -> Any:
    raise RuntimeError("the toolset of Readback answers this call")


def _run(ctx: Any) -> str:
    return str(ctx.conversation_id or ctx.run_id)


def _turn(messages: Sequence[Any], call_id: str) -> Any:
    """The model's last message with a call of this id."""
    for message in reversed(messages):
        if any(isinstance(part, ToolCallPart) and part.tool_call_id == call_id for part in message.parts):
            return message
    return None


def _calls(messages: Sequence[Any], call_id: str) -> dict[str, Any]:
    """The calls of the model message with this call, in their order."""
    turn = _turn(messages, call_id)
    return {} if turn is None else {part.tool_call_id: part for part in turn.parts if isinstance(part, ToolCallPart)}
