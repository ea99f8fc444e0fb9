"""Public: Readback for LlamaIndex. `ReadbackAgent` is a FunctionAgent whose tools and answers are governed.

A parked call pauses the workflow by `wait_for_event`. Send a HumanResponseEvent with the action's id to resume. Deltas
of the model are not streamed: a delta would leave before the check of the answer.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

from readback.frameworks.versions import check_version, of_framework
from readback.kit import Kit, ShownCall, Tool, ToolResult

with of_framework("llama-index", "LlamaIndex"):
    from llama_index.core.agent.workflow import FunctionAgent, ToolCall, ToolCallResult
    from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole
    from llama_index.core.tools import AsyncBaseTool, FunctionTool, ToolMetadata, ToolOutput
    from llama_index.core.tools.types import adapt_to_async_tool
    from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent, step
    from pydantic import PrivateAttr

check_version("LlamaIndex", distribution="llama-index-core", lowest="0.14.13", below="0.15")

CORRECTED = "readback_corrected"


class ReadbackTool(AsyncBaseTool):
    """A governed tool of a kit as a LlamaIndex tool. Outside a ReadbackAgent calls have no derived operation."""

    def __init__(self, governed: Tool) -> None:
        self.governed = governed
        schema = governed.model
        self._metadata = ToolMetadata(name=governed.name, description=governed.description, fn_schema=schema)

    @property
    def metadata(self) -> ToolMetadata:
        """The tool's name, description and arguments."""
        return self._metadata

    def call(self, input: Any = None, **arguments: Any) -> ToolOutput:  # noqa: A002
        """Run the call without a derived operation."""
        return output(self.governed, arguments, self.governed.run(arguments))

    async def acall(self, input: Any = None, **arguments: Any) -> ToolOutput:  # noqa: A002
        """Run the call on the running event loop, without a derived operation."""
        return output(self.governed, arguments, await self.governed.arun(arguments))


def output(tool: Tool, arguments: Any, result: ToolResult) -> ToolOutput:
    """Return a result in LlamaIndex's form, with the framework's error flag."""
    raw = arguments if isinstance(arguments, dict) else {"input": arguments}
    return ToolOutput(
        tool_name=tool.name, content=result.text, raw_input=raw, raw_output=result.data, is_error=result.is_error
    )


def tools(kit: Kit) -> list[ReadbackTool]:
    """Return every tool of the kit."""
    return [ReadbackTool(each) for each in kit.tools.values()]


class ReadbackAgent(FunctionAgent):
    """A FunctionAgent whose actions and final answers are reconciled.

    Args:
        kit: The open kit. The kit's tools are added, and tools with a contract file are governed.
        run: The conversation's id, the same after a restart; the kit's current run where left out.
        corrections: How often a refused answer goes back to the model before the reconciled text replaces the answer.
        options: The arguments of FunctionAgent.
    """

    _kit: Kit = PrivateAttr()
    _run: str | None = PrivateAttr(default=None)
    _corrections: int = PrivateAttr(default=1)

    def __init__(
        self, *, kit: Kit, tools: Iterable[Any] = (), run: str | None = None, corrections: int = 1, **options: Any
    ) -> None:
        given = [FunctionTool.from_defaults(each) if not hasattr(each, "metadata") else each for each in tools]
        foreign = [each for each in given if not isinstance(each, ReadbackTool)]
        for each in foreign:
            if kit.governs(each.metadata.get_name()):
                _govern(kit, each)
        ungoverned = kit.warn_ungoverned("LlamaIndex", [each.metadata.get_name() for each in foreign])
        kept = [each for each in foreign if each.metadata.get_name() in ungoverned]
        options = {"streaming": False, **options}
        super().__init__(tools=[*kept, *[ReadbackTool(each) for each in kit.tools.values()]], **options)
        self._kit, self._run, self._corrections = kit, run, corrections

    @property
    def conversation(self) -> str:
        """The run in the ledger."""
        return self._run or self._kit.current_run

    @step
    async def call_tool(self, ctx: Context, ev: ToolCall) -> ToolCallResult:
        """Run a governed tool under its operation; other tools run as before."""
        named = {tool.metadata.name: tool for tool in await self.get_tools(ev.tool_name)}
        tool = named.get(ev.tool_name)
        if not isinstance(tool, ReadbackTool):
            return await super().call_tool(ctx, ev)
        ctx.write_event_to_stream(ToolCall(tool_name=ev.tool_name, tool_kwargs=ev.tool_kwargs, tool_id=ev.tool_id))
        result = await self._settled(ctx, ev, tool.governed)
        told = ToolCallResult(
            tool_name=ev.tool_name,
            tool_kwargs=ev.tool_kwargs,
            tool_id=ev.tool_id,
            tool_output=output(tool.governed, ev.tool_kwargs, result),
            return_direct=False,
        )
        ctx.write_event_to_stream(told)
        return told

    async def _settled(self, ctx: Context, ev: ToolCall, tool: Tool) -> ToolResult:
        """Run the call, or pause for a person. After the answer LlamaIndex runs the step again from the start."""
        before, calls = _asked(await self._history(ctx), ev)
        shown, ordinal = list(_shown(before)), _ordinal(calls, ev)
        run = self.conversation
        # The name of a first occurrence needs no look at the ledger, so no thread either.
        first = ordinal == 0 and all(each.tool != tool.name for each in shown)
        name = self._kit.operation if first else self._kit.aoperation
        named = name(tool.name, ev.tool_kwargs, run=run, shown=shown, ordinal=ordinal)
        operation = await named if inspect.isawaitable(named) else named
        result = await tool.aheld(ev.tool_kwargs, operation=operation) if tool.may_park else None
        if result is None:
            result = await tool.arun(ev.tool_kwargs, operation=operation, run=run)
        if result.status != "parked":
            return result
        answer = await ctx.wait_for_event(
            HumanResponseEvent,
            waiter_id=result.action,
            waiter_event=InputRequiredEvent(prefix=result.message, action=result.action, packet=result.packet),
            requirements={"action": result.action},
            timeout=None,
        )
        return await self._kit.adecide(result.action, getattr(answer, "response", None))

    async def _history(self, ctx: Context) -> list[tuple[ChatMessage, list[Any]]]:
        """Each message so far with its calls, as the model's own class reads them."""
        memory = await ctx.store.get("memory", default=None)
        earlier = await memory.aget() if memory is not None else []
        messages = [*earlier, *await ctx.store.get(self.scratchpad_key, default=[])]
        read = self.llm.get_tool_calls_from_response
        return [
            (each, read(ChatResponse(message=each), error_on_no_tool_call=False) if _speaks(each) else [])
            for each in messages
        ]

    async def take_step(self, ctx: Any, llm_input: Any, tools: Any, memory: Any) -> Any:
        """Check a final answer. A refused answer returns to the model, and at last the reconciled text replaces it."""
        out = await super().take_step(ctx, llm_input, tools, memory)
        if out.tool_calls or out.retry_messages:
            return out
        found = await self._kit.afinal(out.response.content or "", run=self.conversation)
        if found.ok:
            return out
        corrected = await ctx.store.get(CORRECTED, default=0)
        if corrected < self._corrections:
            await ctx.store.set(CORRECTED, corrected + 1)
            out.retry_messages = [ChatMessage(role=MessageRole.USER, content=found.correction)]
            out.response = ChatMessage(role=MessageRole.ASSISTANT, content="")  # the event of this step is streamed
            return out
        await ctx.store.set(CORRECTED, 0)
        out.response = ChatMessage(role=MessageRole.ASSISTANT, content=found.text)
        scratchpad = await ctx.store.get(self.scratchpad_key, default=[])
        await ctx.store.set(self.scratchpad_key, [*scratchpad[:-1], out.response])
        return out

    async def _generate_early_stopping_response(self, ctx: Context, max_iterations: int) -> Any:
        """Check the answer at the limit of iterations too, before the event loop hands the answer on."""
        stopped = await super()._generate_early_stopping_response(ctx, max_iterations)
        found = self._kit.final(stopped.result.response.content or "", run=self.conversation)
        if not found.ok:
            stopped.result.response = ChatMessage(role=MessageRole.ASSISTANT, content=found.text)
        return stopped


def _govern(kit: Kit, tool: Any) -> None:
    inner = adapt_to_async_tool(tool)
    metadata = inner.metadata

    async def call(arguments: dict[str, Any]) -> Any:
        found = await inner.acall(**arguments)
        raw = found.raw_output
        if found.is_error or getattr(raw, "isError", False):
            raise RuntimeError(found.content)
        return raw if isinstance(getattr(raw, "content", None), list) else found.content

    way: Callable[[dict[str, Any]], Awaitable[Any]] = call
    kit.govern(metadata.get_name(), metadata.get_parameters_dict(), way, description=metadata.description)


def _speaks(message: ChatMessage) -> bool:
    return message.role == MessageRole.ASSISTANT


def _asked(history: list[tuple[ChatMessage, list[Any]]], ev: ToolCall) -> tuple[list[Any], list[Any]]:
    """Return the history before the message with this call, and the calls of that message.

    A restored workflow can run a step twice. The second run must not count the first run's result.
    """
    for index in range(len(history) - 1, -1, -1):
        calls = history[index][1]
        if any((each.tool_id, each.tool_name) == (ev.tool_id, ev.tool_name) for each in calls):
            return history[:index], calls
    return history, []


def _ordinal(calls: Sequence[Any], ev: ToolCall) -> int:
    """Return the position of a call among the identical calls of its message."""
    same = [each.tool_id for each in calls if (each.tool_name, each.tool_kwargs) == (ev.tool_name, ev.tool_kwargs)]
    return same.index(ev.tool_id) if ev.tool_id in same else 0


def _shown(history: Sequence[tuple[ChatMessage, list[Any]]]) -> Iterator[ShownCall]:
    """Yield each result in the history with the call before the result."""
    unanswered: dict[str, Any] = {}
    for message, calls in history:
        unanswered.update((each.tool_id, each) for each in calls)
        call = unanswered.pop(str(message.additional_kwargs.get("tool_call_id", "")), None)
        if message.role == MessageRole.TOOL and call is not None:
            yield ShownCall(call.tool_name, call.tool_kwargs, message.content or "")
