"""Public: Readback for CrewAI. `readback` governs an agent's tools, and `guardrail` checks the answer of a task.

CrewAI has no ids of calls and no pause for a tool, and CrewAI ignores errors of hooks. So the adapter wraps each tool.
A hook only reads the history. Without the hook the ledger answers a repeated call. A parked call is reported as parked,
and after `Kit.decide` a second kickoff with the same run continues.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from readback.frameworks.history import History, Turn
from readback.frameworks.versions import check_version, of_framework
from readback.kit import Kit, Tool, ToolResult

with of_framework("crewai", "CrewAI"):
    from crewai.hooks.llm_hooks import get_before_llm_call_hooks, register_before_llm_call_hook
    from crewai.tools import BaseTool
    from crewai.tools.tool_failure import ToolFailure
    from pydantic import BaseModel, Field, PrivateAttr

check_version("CrewAI", distribution="crewai", lowest="1.15.9", below="1.16")


def _no_cache(*_: Any) -> bool:
    """An outcome never comes from the framework's cache."""
    return False


class ReadbackTool(BaseTool):
    """A governed tool of a kit as a CrewAI tool."""

    cache_function: Callable[..., bool] = Field(default=_no_cache)
    _kit: Kit = PrivateAttr()
    _governed: Tool = PrivateAttr()
    _run_id: str | None = PrivateAttr(default=None)
    _turn: Turn = PrivateAttr(default_factory=Turn)

    def attach(self, kit: Kit, governed: Tool, run: str | None) -> None:
        """Bind the tool to a kit and a conversation."""
        self._kit, self._governed, self._run_id = kit, governed, run

    def begin_turn(self, history: History) -> None:
        """Note the results in the history before a call of the model."""
        self._turn = Turn(history)

    def run(self, *args: Any, **arguments: Any) -> Any:
        """Run the call under its operation. Arguments are checked by the contract alone."""
        return self._run(*args, **arguments)

    async def arun(self, *args: Any, **arguments: Any) -> Any:
        """Run the call on the running event loop."""
        return await self._arun(*args, **arguments)

    def _run(self, *args: Any, **arguments: Any) -> Any:
        given, operation, run = self._named(args, arguments)
        return _output(self._governed.run(given, operation=operation, run=run))

    async def _arun(self, *args: Any, **arguments: Any) -> Any:
        given, operation, run = self._named(args, arguments)
        return _output(await self._governed.arun(given, operation=operation, run=run))

    def _named(self, args: tuple[Any, ...], arguments: dict[str, Any]) -> tuple[Any, str | None, str]:
        """Drop nulls of optional arguments: CrewAI makes optional arguments nullable and required."""
        run = self._run_id or self._kit.current_run
        if args:
            return list(args), None, run
        listed = self._governed.schema.get("required")
        required = listed if isinstance(listed, list) else []
        given = {name: each for name, each in arguments.items() if each is not None or name in required}
        # Without the hook no turn is known: the ledger answers each repeated call.
        is_hooked = _remember in get_before_llm_call_hooks()
        place = self._turn.begin(self.name, given) if is_hooked else {"shown": []}
        operation = self._kit.operation(self._governed, given, run=run, **place)
        return given, operation, run


def _output(result: ToolResult) -> Any:
    return ToolFailure(message=result.text, code=result.status, retryable=False) if result.is_error else result.text


def _remember(context: Any) -> None:
    """Note the results in the history for the tools of this agent, before each call of the model."""
    history = _history(context.messages or ())
    for tool in getattr(context.executor, "original_tools", None) or ():
        if isinstance(tool, ReadbackTool):
            tool.begin_turn(history)


def _history(messages: Any) -> History:
    """Return the history in messages of a chat."""
    history = History()
    for message in messages:
        for call in message.get("tool_calls") or ():
            function = call.get("function") or {}
            history.add_call(str(call.get("id")), str(function.get("name")), function.get("arguments") or {})
        if message.get("role") == "tool":
            history.add_result(str(message.get("tool_call_id", "")), str(message.get("content") or ""))
    return history


def _made(kit: Kit, tool: Tool, run: str | None, model: type[BaseModel]) -> ReadbackTool:
    if _remember not in get_before_llm_call_hooks():
        register_before_llm_call_hook(_remember)
    made = ReadbackTool(name=tool.name, description=tool.description, args_schema=model)
    made.attach(kit, tool, run)
    return made


def tools(kit: Kit, run: str | None = None) -> list[ReadbackTool]:
    """Return the kit's own actions, sagas and questions as tools of the conversation `run`."""
    return [_made(kit, each, run, each.model) for each in kit.own_tools]


def govern(kit: Kit, tool: Any, run: str | None = None) -> ReadbackTool:
    """Return a governed tool in place of a CrewAI tool with a contract file. The given tool stays unchanged."""
    schema = tool.args_schema.model_json_schema()
    governed = kit.govern(_name(tool), schema, lambda arguments: tool.run(**arguments), description=tool.description)
    return _made(kit, governed, run, tool.args_schema)


def readback(agent: Any, kit: Kit, run: str | None = None) -> Any:
    """Give an agent the kit's tools, and govern its tools and MCP servers. Returns the agent.

    Tools without a contract file stay as they are, and one warning names them.
    """
    given = [each for each in [*(agent.tools or ()), *_attached(agent)] if not isinstance(each, ReadbackTool)]
    kit.warn_ungoverned("CrewAI", [_name(each) for each in given])
    agent.tools = [*[govern(kit, each, run) if kit.governs(_name(each)) else each for each in given], *tools(kit, run)]
    return agent


def _name(tool: Any) -> str:
    """Return a tool's name on its server. CrewAI puts the server's name before the name of an MCP tool."""
    return str(getattr(tool, "original_tool_name", "") or tool.name)


def _attached(agent: Any) -> list[Any]:
    """Resolve the agent's MCP servers now, so that no server's tool passes beside the contracts."""
    servers, agent.mcps = agent.mcps, None
    return list(agent.get_mcp_tools(servers)) if servers else []


def _citations(kit: Kit, run: str) -> str:
    """List what is verified, since CrewAI runs the task again without the earlier results."""
    standing = [each for each in kit.client.list(run=run) if each.standing]
    return "\n".join(f"Verified: {each.contract} on {each.target} {each.cite()}" for each in standing)


def guardrail(kit: Kit, run: str | None = None, corrections: int = 1) -> Callable[[Any], Any]:
    """Return a guardrail for `Task(guardrail=...)`: the model corrects a refused answer, or the state replaces it."""
    left = [corrections]

    def readback_final(output):  # type: ignore[no-untyped-def] # CrewAI refuses annotations written as text
        found = kit.final(output.raw, run=run or kit.current_run)
        if found.ok or left[0] <= 0:
            left[0] = corrections
            return True, found.text
        left[0] -= 1
        return False, f"{found.correction}\n{_citations(kit, run or kit.current_run)}"

    return readback_final
