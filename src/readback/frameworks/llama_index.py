"""Public: Readback for LlamaIndex. `ReadbackAgent` is a FunctionAgent whose tools and answers are governed.

A parked call pauses the workflow by `wait_for_event`. Send a HumanResponseEvent with the action's id to resume. Deltas
of the model are not streamed: a delta would leave before the check of the answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from readback.frameworks.history import History
from readback.frameworks.versions import check_version, of_framework
from readback.kit import Kit, Tool, ToolResult

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

        async def ask(parked: ToolResult) -> Any:
            answer = await ctx.wait_for_event(
                HumanResponseEvent,
                waiter_id=parked.action,
                waiter_event=InputRequiredEvent(prefix=parked.message, action=parked.action, packet=parked.packet),
                requirements={"action": parked.action},
                timeout=None,
            )
            return getattr(answer, "response", None)

        # A step that a restored workflow runs again does not count the first run's result: the call has its place.
        history = await self._history(ctx)
        place = {"shown": history.shown, **history.place(ev.tool_id)}
        return await self._kit.asettle(tool, ev.tool_kwargs, ask, run=self.conversation, **place)

    async def _history(self, ctx: Context) -> History:
        """Return the history, with calls as the model's own class reads them."""
        memory = await ctx.store.get("memory", default=None)
        earlier = await memory.aget() if memory is not None else []
        history = History()
        for message in [*earlier, *await ctx.store.get(self.scratchpad_key, default=[])]:
            history.begin_message()
            if message.role == MessageRole.ASSISTANT:
                given = ChatResponse(message=message)
                for each in self.llm.get_tool_calls_from_response(given, error_on_no_tool_call=False):
                    history.add_call(each.tool_id, each.tool_name, each.tool_kwargs)
            elif message.role == MessageRole.TOOL:
                history.add_result(str(message.additional_kwargs.get("tool_call_id", "")), message.content or "")
        return history

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

    kit.govern(metadata.get_name(), metadata.get_parameters_dict(), call, description=metadata.description)
