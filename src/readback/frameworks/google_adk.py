"""Public: the adapter for Google's Agent Development Kit (ADK).

`tools(kit)` gives an agent the kit's actions. `ReadbackPlugin(kit)` governs foreign tools under contract files, checks
final answers, and warns of ungoverned tools. Both belong to the same app:

    agent = LlmAgent(name="clerk", model=MODEL, tools=tools(kit))
    app = App(name="shop", root_agent=agent, plugins=[ReadbackPlugin(kit)])

An action with a missing approval asks for ADK's own confirmation. The payload of the confirmation is the approval
packet.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from itertools import takewhile
from typing import Any

from readback.frameworks.versions import check_version, of_framework
from readback.kit import Kit, ShownCall, Tool, ToolResult

with of_framework("google-adk", "Google ADK"):
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.agent_tool import AgentTool
    from google.adk.tools.base_tool import BaseTool
    from google.genai import types

check_version("Google ADK", distribution="google-adk", lowest="2.6", below="2.14")

_CONFIRMATION = "adk_request_confirmation"
_INTERNAL = frozenset({"transfer_to_agent", "set_model_response", "exit_loop", "finish_task"})
"""Tools of ADK itself, without an effect outside the session."""
_OUTER: ContextVar[tuple[str, str] | None] = ContextVar("readback_adk_outer", default=None)
"""The run and the naming prefix of the call which runs an agent as a tool. The inner agent has a session of its own."""
_REQUEST: ContextVar[tuple[str, str, Any] | None] = ContextVar("readback_adk_request", default=None)
"""Invocation, agent and request of the model call in progress."""


class ActionTool(BaseTool):
    """An action of the kit as an ADK tool."""

    def __init__(self, kit: Kit, tool: Tool) -> None:
        """Wrap `tool`. `tools(kit)` wraps all actions."""
        super().__init__(name=tool.name, description=tool.description)
        self._kit, self._tool = kit, tool

    def _get_declaration(self) -> Any:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self._tool.schema
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> dict[str, Any]:
        """Run the action, and return the outcome for the model."""
        return await _called(self._kit, self._tool, args, tool_context)


def tools(kit: Kit) -> list[ActionTool]:
    """Return the kit's actions, sagas and questions as ADK tools. Foreign tools stay with the agent."""
    return [ActionTool(kit, tool) for tool in kit.tools.values() if not tool.foreign]


class ReadbackPlugin(BasePlugin):
    """Govern the foreign tools and the final answers of an app.

    An earlier plugin may answer a call. The tool does not run then.
    """

    def __init__(self, kit: Kit, *, corrections: int = 1, name: str = "readback") -> None:
        """Make a plugin over an open kit.

        Args:
            kit: The open kit.
            corrections: How often the model may correct a final answer before the answer is replaced.
            name: The plugin's name in the app.
        """
        super().__init__(name=name)
        self._kit, self._corrections = kit, corrections
        self._foreign: dict[str, tuple[Any, Tool]] = {}

    async def before_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any) -> Any:
        """Run a foreign tool under its contract. ADK does not call the tool again."""
        if isinstance(tool, ActionTool):
            return None
        if not self._kit.governs(tool.name):
            # An agent as a tool runs in this task, with a session of its own: its actions belong to this run.
            run, naming = _place(tool_context)
            _OUTER.set((run, f"{naming}/{tool_context.function_call_id}"))
            return None
        confirmed = tool_context.tool_confirmation
        if await tool.check_require_confirmation(tool_args, tool_context) and not (confirmed and confirmed.confirmed):
            return None  # ADK's own gate asks first, and does not run the tool

        async def call(arguments: dict[str, Any]) -> Any:
            return await tool.run_async(args=arguments, tool_context=tool_context)

        return await _called(self._kit, self._governed(tool), tool_args, tool_context, call)

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Remember the request for a correction, and warn of ungoverned tools."""
        declared = [tool for tool in llm_request.tools_dict.values() if not isinstance(tool, ActionTool | AgentTool)]
        names = [tool.name for tool in declared if tool.name not in _INTERNAL]
        self._kit.warn_ungoverned("Google ADK", [*names, *_hosted(llm_request)])
        _REQUEST.set((callback_context.invocation_id, callback_context.agent_name, llm_request))

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> Any:
        """Ask the model once more where the final answer claims more than the ledger holds."""
        asked, run = _REQUEST.get(), _place(callback_context)[0]
        if asked is None or asked[:2] != (callback_context.invocation_id, callback_context.agent_name):
            return None
        request, response = asked[2], llm_response
        for _ in range(self._corrections):
            text = _final_text(response)
            answer = await self._kit.afinal(text, run=run) if text else None
            if answer is None or answer.ok or not answer.correction:
                break
            said = types.Content(role="user", parts=[types.Part(text=answer.correction)])
            request = request.model_copy(update={"contents": [*request.contents, response.content, said]})
            model = callback_context.get_invocation_context().agent.canonical_model
            async for each in model.generate_content_async(request, stream=False):
                response = each
        return None if response is llm_response else response

    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> Any:
        """Hold partial text back, and replace a final answer beyond the reconciled state."""
        if event.author == "user" or not event.content:
            return None
        if event.partial:
            return _with_text(event, "") if _text(event.content) else None
        text = _final_text(event)
        if not text:
            return None
        answer = await self._kit.afinal(text, run=_place(invocation_context)[0])
        return None if answer.ok else _with_text(event, answer.text)

    def _governed(self, tool: Any) -> Tool:
        known, governed = self._foreign.get(tool.name, (None, None))
        if known is not tool or governed is None:
            declaration = tool._get_declaration()  # noqa: SLF001 - the framework's name for what a tool overrides
            schema = declaration.parameters_json_schema if declaration else None
            if schema is None and declaration and declaration.parameters:
                schema = declaration.parameters.json_schema.model_dump(mode="json", exclude_none=True)
            governed = self._kit.govern(
                tool.name, schema or {"type": "object", "properties": {}}, description=tool.description or ""
            )
            self._foreign[tool.name] = (tool, governed)
        return governed


async def _called(
    kit: Kit,
    tool: Tool,
    arguments: dict[str, Any],
    context: Any,
    call: Callable[[dict[str, Any]], Awaitable[Any]] | None = None,
) -> dict[str, Any]:
    """Run one call, through ADK's confirmation where a person has to approve."""
    run, naming = _place(context)
    shown, ordinal = _history(context)
    if shown is None:  # a call that no model made, such as a workflow's
        step = getattr(context, "node_path", "") or context.function_call_id
        operation = await kit.aoperation(
            tool.name, arguments, run=naming, message_id=context.invocation_id, call_id=step
        )
    else:
        operation = await kit.aoperation(tool.name, arguments, run=naming, shown=shown, ordinal=ordinal)
    # The held action is looked up first: a run would execute a signed action that the person has rejected here.
    held = await tool.aheld(arguments, operation=operation) if tool.may_park else None
    confirmation = context.tool_confirmation
    if held is not None and confirmation is not None:
        return _response(await kit.adecide(held.action, _answer(confirmation), call=call))
    result = held or await tool.arun(arguments, operation=operation, run=run, call=call)
    if result.status == "parked" and confirmation is None:
        context.request_confirmation(hint=result.message, payload=result.packet)
        context.actions.skip_summarization = True
    return _response(result)


def _response(result: ToolResult) -> dict[str, Any]:
    """Return a response with the API's key for an output or an error, and the outcome as data."""
    return {"error" if result.is_error else "output": result.text, "outcome": result.data}


def _place(context: Any) -> tuple[str, str]:
    """Return the run of a context, and the prefix of operations."""
    outer = _OUTER.get()
    if outer is not None:
        return outer
    session = context.session
    run = f"{session.app_name}/{session.user_id}/{session.id}"
    return run, run


def _history(context: Any) -> tuple[list[ShownCall] | None, int]:
    """Return the calls with a result in the history before this call, and the position among equal calls.

    The last event with the call's id counts: a confirmed call runs after ADK's first answer.
    """
    calls: dict[str, Any] = {}
    shown: list[ShownCall] = []
    found: list[ShownCall] | None = None
    ordinal = 0
    for event in _standing(context.session.events):
        siblings: list[Any] = []
        for made in event.get_function_calls():
            if made.name == _CONFIRMATION:
                continue
            calls[made.id] = made
            if made.id == context.function_call_id:
                found = list(shown)
                ordinal = sum((each.name, each.args) == (made.name, made.args) for each in siblings)
            siblings.append(made)
        for answer in event.get_function_responses():
            given = answer.response or {}
            if answer.id in calls:
                text = str(given.get("output") or given.get("error") or given)
                shown.append(ShownCall(calls[answer.id].name, calls[answer.id].args or {}, text))
    return found, ordinal


def _standing(events: list[Any]) -> list[Any]:
    """Return the events without the rewound ones."""
    kept: list[Any] = []
    for event in events:
        start = event.actions.rewind_before_invocation_id
        if start:
            kept = list(takewhile(lambda each: each.invocation_id != start, kept))  # noqa: B023 - called at once
        else:
            kept.append(event)
    return kept


def _answer(confirmation: Any) -> Any:
    """Return the person's answer for the kit: a rejection, a token, or neither."""
    token = confirmation.payload.get("token") if isinstance(confirmation.payload, Mapping) else None
    return {"token": token} if confirmation.confirmed and token else bool(confirmation.confirmed)


def _text(content: Any) -> str:
    return "".join(part.text or "" for part in content.parts or () if not part.thought)


def _final_text(response: Any) -> str:
    """Return the text of a response or event at the end of a turn, and "" for any other."""
    content = response.content
    if response.partial or not content or any(p.function_call or p.function_response for p in content.parts or ()):
        return ""
    return _text(content).strip()


def _with_text(event: Any, text: str) -> Any:
    kept = [part for part in event.content.parts if part.thought or part.text is None]
    content = types.Content(role=event.content.role or "model", parts=[*kept, types.Part(text=text)])
    return event.model_copy(update={"content": content})


def _hosted(request: Any) -> list[str]:
    """Return the names of tools on the side of the model's provider, such as a search. No adapter sees such calls."""
    declared = (request.config.tools if request.config else None) or []
    names = [name for tool in declared if isinstance(tool, types.Tool) for name in tool.model_dump(exclude_none=True)]
    return sorted({name for name in names if name != "function_declarations"})


__all__ = ["ActionTool", "ReadbackPlugin", "tools"]
