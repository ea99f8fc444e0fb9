"""Surfaces of the frameworks' adapters: one call of the probe's tool through the adapter, without a model."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import warnings
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from readback.assurance.surfaces import Probe, Told
from readback.canon import ReadbackError
from readback.canon.frozen import dataclass
from readback.cli.gates.surfaces.shelf import PRINCIPAL, TENANT, Shelf
from readback.domain.outcome.reporting import MODEL_STATUS
from readback.domain.state import ReportKey
from readback.errors import UsageError

if TYPE_CHECKING:
    from readback.kit import Kit

RUN: Final = "release-gate"
"""The conversation of every call: the same slot is the same operation."""
CALL: Final = "call-1"
TOOL: Final = "fill"

Seam = Callable[["Kit", dict[str, Any]], Awaitable[Told]]


def _worded(text: str) -> Told:
    """Return the words of a framework without an error flag. The first line states the outcome."""
    return Told(text, text.partition("\n")[0].startswith(f"[action outcome] {MODEL_STATUS[ReportKey.COMPLETED]}"))


def _own(tools: Any, name: Callable[[Any], str] = lambda each: str(each.name)) -> Any:
    """Return the probe's tool among the tools of an adapter."""
    return next(each for each in tools if name(each) == TOOL)


async def _agent_framework(kit: Kit, arguments: dict[str, Any]) -> Told:
    from agent_framework import AgentSession, FunctionInvocationContext

    from readback.frameworks import agent_framework as adapter

    context = FunctionInvocationContext(
        _own(adapter.tools(kit)), arguments, session=AgentSession(session_id=RUN), metadata={"call_id": CALL}
    )
    await adapter.ReadbackTools(kit).process(context, _no_tool)
    return _worded("\n".join(str(each.text) for each in context.result))


async def _no_tool() -> None:
    raise UsageError("The adapter called a tool beside the kit.")


async def _claude_agent(kit: Kit, arguments: dict[str, Any]) -> Told:
    from readback.frameworks import claude_agent as adapter

    asked = {"tool_name": f"mcp__readback__{TOOL}", "tool_input": arguments, "session_id": RUN, "transcript_path": ""}
    async with contextlib.AsyncExitStack() as stack:
        agent = await stack.enter_async_context(adapter.Governed(kit))
        [hook] = agent.options.hooks["PreToolUse"][-1].hooks
        refused = await hook(asked, CALL, None)
        if refused:
            return Told(json.dumps(refused), completed=False)
        session = await adapter.connected(stack, agent.options.mcp_servers["readback"])
        result = (await session.call_tool(TOOL, arguments)).model_dump(mode="json", by_alias=True)
    return Told("\n".join(str(each.get("text", "")) for each in result["content"]), not result["isError"])


async def _crewai(kit: Kit, arguments: dict[str, Any]) -> Told:
    for name in ("CREWAI_DISABLE_TELEMETRY", "CREWAI_DISABLE_TRACKING", "OTEL_SDK_DISABLED"):
        os.environ.setdefault(name, "true")
    from readback.frameworks import crewai as adapter

    return _worded(str(await _own(adapter.tools(kit, RUN)).arun(**arguments)))


async def _google_adk(kit: Kit, arguments: dict[str, Any]) -> Told:
    from google.adk.agents import BaseAgent
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.sessions import InMemorySessionService
    from google.adk.tools.tool_context import ToolContext

    from readback.frameworks import google_adk as adapter

    sessions = InMemorySessionService()
    session = await sessions.create_session(app_name="gate", user_id="gate", session_id=RUN)
    invocation = InvocationContext(
        session_service=sessions, invocation_id="i", agent=BaseAgent(name="gate"), session=session
    )
    context = ToolContext(invocation, function_call_id=CALL)
    result = await _own(adapter.tools(kit)).run_async(args=arguments, tool_context=context)
    return Told("\n".join(str(each) for each in result.values()), "error" not in result)


async def _langchain(kit: Kit, arguments: dict[str, Any]) -> Told:
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.prebuilt.tool_node import ToolCallRequest

    from readback.frameworks.langchain import ReadbackMiddleware

    middleware = ReadbackMiddleware(kit)
    call: Any = {"name": TOOL, "args": arguments, "id": CALL, "type": "tool_call"}
    state = {"messages": [HumanMessage("go"), AIMessage("", tool_calls=[call])]}
    runtime: Any = SimpleNamespace(config={"configurable": {"thread_id": RUN}})
    request = ToolCallRequest(tool_call=call, tool=_own(middleware.tools), state=state, runtime=runtime)
    message = await middleware.awrap_tool_call(request, lambda asked: asked.tool.ainvoke(asked.tool_call))
    return Told(str(message.content), message.status == "success")


async def _llama_index(kit: Kit, arguments: dict[str, Any]) -> Told:
    from llama_index.core.agent.workflow import ToolCallResult
    from llama_index.core.base.llms.types import TextBlock, ToolCallBlock
    from llama_index.core.llms import ChatMessage
    from llama_index.core.llms.mock import MockFunctionCallingLLM

    from readback.frameworks.llama_index import ReadbackAgent

    call = ToolCallBlock(tool_call_id=CALL, tool_name=TOOL, tool_kwargs=arguments)
    turns = [[call], *[[TextBlock(text="The run ends here.")]] * 4]

    def answer(messages: Any, **_: Any) -> Any:
        return ChatMessage(role="assistant", blocks=turns.pop(0))

    agent = ReadbackAgent(kit=kit, run=RUN, llm=MockFunctionCallingLLM(response_generator=answer, is_chat_model=True))
    running = agent.run("go")
    results = [each.tool_output async for each in running.stream_events() if isinstance(each, ToolCallResult)]
    await running
    return Told(str(results[0].content), not results[0].is_error)


async def _openai_agents(kit: Kit, arguments: dict[str, Any]) -> Told:
    from agents import Agent
    from agents.tool_context import ToolContext

    from readback.frameworks import openai_agents as adapter

    given = json.dumps(arguments)
    agent = adapter.readback(Agent("gate"), kit)
    with kit.session(RUN):
        agent.governor.note([], [{"type": "function_call", "call_id": CALL, "name": TOOL, "arguments": given}])
        context: Any = ToolContext(context=None, tool_name=TOOL, tool_call_id=CALL, tool_arguments=given)
        return _worded(str(await _own(agent.tools).on_invoke_tool(context, given)))


async def _pydantic_ai(kit: Kit, arguments: dict[str, Any]) -> Told:
    from pydantic_ai.exceptions import ToolFailed
    from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, UserPromptPart

    from readback.frameworks.pydantic_ai import Readback as Capability

    turn = ModelResponse(parts=[ToolCallPart(TOOL, arguments, tool_call_id=CALL)])
    messages = [ModelRequest(parts=[UserPromptPart("go")]), turn]
    context = SimpleNamespace(
        conversation_id=RUN, run_id=RUN, tool_call_id=CALL, tool_call_approved=False, messages=messages
    )
    try:
        result = await Capability(kit).settle(kit.tools[TOOL], arguments, context)
    except ToolFailed as failed:
        return Told(str(failed), completed=False)
    return Told(str(result.return_value), completed=True)


async def _smolagents(kit: Kit, arguments: dict[str, Any]) -> Told:
    from smolagents.models import Model

    from readback.frameworks.smolagents import ReadbackAgent

    agent = ReadbackAgent(kit=kit, run=RUN, tools=[], model=Model(model_id="none"), verbosity_level=0)
    return _worded(str(await asyncio.to_thread(agent.execute_tool_call, TOOL, arguments)))


async def _strands(kit: Kit, arguments: dict[str, Any]) -> Told:
    from strands.middleware import ExecuteToolContext
    from strands.types.events import ToolResultEvent

    from readback.frameworks import strands as adapter

    own = _own(adapter.tools(kit), lambda each: str(each.tool_name))
    use: Any = {"name": TOOL, "toolUseId": CALL, "input": arguments}
    agent: Any = SimpleNamespace(session_id=RUN, messages=[])
    middleware, nothing = adapter.Middleware(kit), SimpleNamespace()
    context = ExecuteToolContext(agent, own, use, {}, *[nothing] * 2)  # type: ignore[arg-type, unused-ignore]
    events = middleware.execute_tool(context, lambda asked: asked.tool.stream(use, {}))
    [result] = [each.tool_result async for each in events if isinstance(each, ToolResultEvent)]
    return Told("\n".join(str(each.get("text", "")) for each in result["content"]), result["status"] == "success")


FRAMEWORKS: Final[Mapping[str, tuple[str, Seam]]] = {
    "agent_framework": ("agent-framework-core", _agent_framework),
    "claude_agent": ("claude-agent-sdk", _claude_agent),
    "crewai": ("crewai", _crewai),
    "google_adk": ("google-adk", _google_adk),
    "langchain": ("langchain", _langchain),
    "llama_index": ("llama-index-core", _llama_index),
    "openai_agents": ("openai-agents", _openai_agents),
    "pydantic_ai": ("pydantic-ai-slim", _pydantic_ai),
    "smolagents": ("smolagents", _smolagents),
    "strands": ("strands-agents", _strands),
}
"""The distribution of each framework with an adapter, and one governed call through the adapter."""


@dataclass(frozen=True, slots=True)
class Framework:
    """An adapter of an agent framework, called where the framework's loop calls the adapter."""

    adapter: str
    distribution: str
    """The framework's package. A module's name would also find a folder of the user's own, such as `agents`."""
    seam: Seam
    decides: bool = True

    @property
    def name(self) -> str:
        return f"framework:{self.adapter}"

    def missing(self) -> str:
        try:
            version(self.distribution)
        except PackageNotFoundError:
            return f"the package {self.distribution} is not installed."
        return ""

    def probe(self) -> Probe:
        return Shelf()

    def ask(self, probe: Probe, slot: str) -> Told:
        assert isinstance(probe, Shelf)
        # A framework may print or warn at import. Standard output belongs to the report.
        with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return asyncio.run(self._asked(probe, slot))

    async def _asked(self, shelf: Shelf, slot: str) -> Told:
        from readback.kit import Kit

        kit = Kit.open(
            shelf.url, tenant=TENANT, principal=PRINCIPAL, actions=[shelf.action()], run=RUN, subscribers=[], seal=False
        )
        try:
            return await self.seam(kit, {"slot": slot})
        except ReadbackError:
            raise
        except Exception as error:
            raise UsageError(f"The adapter raised {type(error).__name__}: {error!s:.300}") from error
        finally:
            await kit.aclose()

    def settled(self, probe: Probe, slot: str) -> Told:
        return self.ask(probe, slot)

    def close(self, probe: Probe) -> None:
        assert isinstance(probe, Shelf)
        probe.close()
