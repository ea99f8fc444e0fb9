"""Public: the adapter for Pydantic AI. Needs the extra `pydantic-ai`.

Example:
    agent = Agent(model, toolsets=[foreign], capabilities=[Readback(kit)], output_type=[str, DeferredToolRequests])
    result = await agent.run("Ship order o-17.", conversation_id="thread-1")

The conversation's id is the run. List the capability last, so that no other toolset wrapper stands inside.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from readback.frameworks.agent_tools import AgentTools
from readback.frameworks.history import History, RecentCalls
from readback.frameworks.versions import check_version, of_framework
from readback.kit import Kit, Tool, ToolResult

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

check_version("Pydantic AI", distribution="pydantic-ai-slim", lowest="2.20", below="2.69")


@dataclass
class Readback(AbstractCapability[Any]):
    """Brings the kit's actions, governs foreign tools with a contract file, and checks the final answer.

    Args:
        kit: The open kit. The caller closes the kit.
        corrections: How often the model may correct a final answer before the answer is replaced.
    """

    kit: Kit
    corrections: int = 1

    def __post_init__(self) -> None:
        self.calls, self.agent = RecentCalls(self.kit), AgentTools(self.kit, "Pydantic AI", _definition)

    def get_toolset(self) -> Any:
        """Return the kit's own actions. The toolset around all tools runs them."""
        made = FunctionToolset[Any]()
        for tool in self.kit.own_tools:
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
        answers, history = getattr(node, "deferred_tool_results", None), _history(ctx.messages)
        for call_id, answer in (answers.approvals if answers is not None else {}).items():
            call = history.made(call_id)
            tool = None if call is None else self.kit.tools.get(call.tool)
            if call is None or tool is None or answer is True or getattr(answer, "kind", "") == "tool-approved":
                continue
            place = history.place(call_id)
            operation = await self.kit.aoperation(tool, call.arguments, run=_run(ctx), **place)
            await self.kit.areject_held(tool, call.arguments, getattr(answer, "message", ""), operation=operation)
        return node

    async def settle(self, tool: Tool, arguments: dict[str, Any], ctx: Any, call: Any = None) -> Any:
        """Run a call through the kit. A missing approval defers the call, and a failure has the framework's flag."""

        def ask(parked: ToolResult) -> Any:
            if not ctx.tool_call_approved:
                raise ApprovalRequired(metadata=dict(parked.packet or {}))
            return ctx.tool_call_metadata or True

        place = _history(ctx.messages).place(ctx.tool_call_id)
        result = await self.kit.asettle(tool, arguments, ask, run=_run(ctx), call=call, **place)
        self.calls.remember(ctx.tool_call_id, result.action, _run(ctx))
        if result.is_error:
            raise ToolFailed(result.text)
        return ToolReturn(return_value=result.text, metadata={**result.data, "action": result.action})


@dataclass
class _Governed(WrapperToolset[Any]):
    """Every tool of a run. Governed tools go through the kit, and no other wrapper stands inside."""

    readback: Readback

    async def get_tools(self, ctx: Any) -> Any:
        found = await super().get_tools(ctx)
        self.readback.agent.warn(found)
        return found

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        inner = super().call_tool

        async def way(arguments: dict[str, Any]) -> Any:
            answer = await inner(name, arguments, ctx, tool)
            return answer.return_value if isinstance(answer, ToolReturn) else answer

        foreign = self.readback.agent.governed(name, tool)
        governed = foreign or self.readback.kit.tools.get(name)
        if governed is None:
            return await inner(name, tool_args, ctx, tool)
        return await self.readback.settle(governed, tool_args, ctx, way if foreign else None)


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
        kit, about = self.readback.kit, self.readback.calls.about(_history(messages), self.run)
        checks = kit.corrections(self.readback.corrections, run=self.run, about=about)
        while True:
            response: ModelResponse = await ask(messages)
            texts = [part for part in response.parts if isinstance(part, TextPart)]
            if not texts or any(isinstance(part, ToolCallPart) for part in response.parts):
                return response
            text = "".join(part.content for part in texts)
            final = await checks.acheck(text)
            if not final.correction:
                rest = [part for part in response.parts if not isinstance(part, TextPart)]
                return response if final.text == text else replace(response, parts=[*rest, TextPart(final.text)])
            messages = [*messages, response, ModelRequest(parts=[UserPromptPart(final.correction)])]


async def _outside(**arguments: Any) -> Any:
    raise RuntimeError("the toolset of Readback answers this call")


def _run(ctx: Any) -> str:
    return str(ctx.conversation_id or ctx.run_id)


def _definition(tool: Any) -> Any:
    return tool.tool_def.parameters_json_schema, tool.tool_def.description


def _history(messages: Sequence[Any]) -> History:
    """Return the history in the messages of a run."""
    history = History()
    for message in messages:
        history.begin_message()
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                history.begin_message(by_person=True)
            elif isinstance(part, ToolCallPart):
                history.add_call(part.tool_call_id, part.tool_name, part.args or {})
            elif isinstance(part, ToolReturnPart | RetryPromptPart):
                history.add_result(part.tool_call_id, str(part.content))
    return history
