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

from readback.frameworks.agent_tools import AgentTools
from readback.frameworks.history import History
from readback.frameworks.versions import check_version, of_framework
from readback.kit import Kit, Tool, ToolResult

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
        self._kit, self.governed = kit, tool

    def _get_declaration(self) -> Any:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self.governed.schema
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> dict[str, Any]:
        """Run the action, and return the outcome for the model."""
        return await _called(self._kit, self.governed, args, tool_context)


def tools(kit: Kit) -> list[ActionTool]:
    """Return the kit's actions, sagas and questions as ADK tools. Foreign tools stay with the agent."""
    return [ActionTool(kit, tool) for tool in kit.own_tools]


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
        self._agent = AgentTools(kit, "Google ADK", _definition, ActionTool)

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
        governed = self._agent.governed(tool.name, tool)
        assert governed is not None

        async def call(arguments: dict[str, Any]) -> Any:
            return await tool.run_async(args=arguments, tool_context=tool_context)

        return await _called(self._kit, governed, tool_args, tool_context, call)

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Remember the request for a correction, and warn of ungoverned tools."""
        declared = [tool for tool in llm_request.tools_dict.values() if not isinstance(tool, ActionTool | AgentTool)]
        self._agent.warn([*(tool for tool in declared if tool.name not in _INTERNAL), *_hosted(llm_request)])
        _REQUEST.set((callback_context.invocation_id, callback_context.agent_name, llm_request))

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> Any:
        """Ask the model once more where the final answer claims more than the ledger holds."""
        asked, run = _REQUEST.get(), _place(callback_context)[0]
        if asked is None or asked[:2] != (callback_context.invocation_id, callback_context.agent_name):
            return None
        request, response = asked[2], llm_response
        checks = self._kit.corrections(self._corrections, run=run)
        while text := _final_text(response):
            answer = await checks.acheck(text)
            if not answer.correction:
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


async def _called(
    kit: Kit,
    tool: Tool,
    arguments: dict[str, Any],
    context: Any,
    call: Callable[[dict[str, Any]], Awaitable[Any]] | None = None,
) -> dict[str, Any]:
    """Run one call, through ADK's confirmation where a person has to approve."""
    run, naming = _place(context)
    place = _history(context.session.events).place(context.function_call_id)
    if "shown" not in place:  # a call that no model made, such as a workflow's
        step = getattr(context, "node_path", "") or context.function_call_id
        place = {"message_id": context.invocation_id, "call_id": step}
    operation = await kit.aoperation(tool, arguments, run=naming, **place)
    # The held action comes first: a run would execute a signed action that the person has rejected here.
    result = await tool.arun_unless_held(arguments, operation=operation, run=run, call=call)
    confirmation = context.tool_confirmation
    if result.status == "parked" and confirmation is not None:
        result = await kit.adecide(result.action, _answer(confirmation), call=call)
    elif result.status == "parked":
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


def _history(events: list[Any]) -> History:
    """Return the history in a session. A confirmed call runs after ADK's first answer."""
    history = History()
    for event in _standing(events):
        history.begin_message()
        for made in event.get_function_calls():
            if made.name != _CONFIRMATION:
                history.add_call(made.id, made.name, made.args or {})
        for answer in event.get_function_responses():
            given = answer.response or {}
            history.add_result(answer.id, str(given.get("output") or given.get("error") or given))
    return history


def _definition(tool: Any) -> tuple[Any, str]:
    declaration = tool._get_declaration()  # noqa: SLF001 - the framework's name for what a tool overrides
    schema = declaration.parameters_json_schema if declaration else None
    if schema is None and declaration and declaration.parameters:
        schema = declaration.parameters.json_schema.model_dump(mode="json", exclude_none=True)
    return schema or {"type": "object", "properties": {}}, tool.description


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
