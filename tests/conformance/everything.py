"""A server of the Python SDK with all that the conformance suite asks for, answered by `fixtures.json`.

Over stdio; with `--http` on a free port of loopback, whose address it prints.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import socket
import sys
import warnings
from pathlib import Path
from typing import Any

import mcp_types as t
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

FIXTURES = json.loads((Path(__file__).parent / "fixtures.json").read_text(encoding="utf-8"))
BUS = InMemorySubscriptionBus()
KEY = secrets.token_bytes(32)
CHANGES = {"tools": ToolsListChanged, "prompts": PromptsListChanged}
ASKED = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
RESULTS: dict[str, Any] = {"sampling/createMessage": t.CreateMessageResult, "elicitation/create": t.ElicitResult}
REQUESTS: dict[str, Any] = {"sampling/createMessage": t.CreateMessageRequest, "elicitation/create": t.ElicitRequest}
RECONNECT_S = 0.2


class Events(EventStore):
    """Every event, for as long as the server runs."""

    def __init__(self) -> None:
        self._events: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        last = int(last_event_id)
        stream = self._events[last - 1][0]
        for number, (of, message) in enumerate(self._events[last:], last + 1):
            if of == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


# --- input that is required first ----------------------------------------------------------------------------------


def sealed(state: dict[str, Any]) -> str:
    text = json.dumps(state)
    return f"{text}|{hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest()}"


def opened(state: str | None) -> dict[str, Any]:
    if state is None:
        return {"round": 0}
    text, _, _ = state.rpartition("|")
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not hmac.compare_digest(sealed(found), state):
        raise MCPError(code=t.INVALID_PARAMS, message="The state is none of this server's.")
    return found


def required(ctx: Any, params: Any, told: dict[str, Any]) -> t.InputRequiredResult | None:
    """What is asked first; None where everything is there."""
    state, given = opened(params.request_state), params.input_responses or {}
    index = int(state["round"])
    wanted = told["rounds"][index]
    if all(_answers(wanted[key], given.get(key)) for key in wanted):
        index += 1
        if index == len(told["rounds"]):
            return None
    requests = told["rounds"][index]
    if told.get("able"):
        able = ctx.session.client_capabilities
        requests = {
            key: each for key, each in requests.items() if getattr(able, ASKED[each["method"]], None) is not None
        }
    asked: dict[str, Any] = {"inputRequests": requests}
    if told.get("state"):
        asked["requestState"] = sealed({"round": index})
    return t.InputRequiredResult.model_validate(asked)


def _answers(request: dict[str, Any], answer: Any) -> bool:
    if request["method"] != "elicitation/create":
        return answer is not None
    wanted = request["params"]["requestedSchema"]["required"]
    return isinstance(answer, t.ElicitResult) and answer.content is not None and set(wanted) <= set(answer.content)


# --- tools ---------------------------------------------------------------------------------------------------------


async def list_tools(ctx: Any, params: Any) -> t.ListToolsResult:
    shown = ("description", "inputSchema")
    tools = [{"name": name, **{key: tool[key] for key in shown}} for name, tool in FIXTURES["tools"].items()]
    return t.ListToolsResult.model_validate({"tools": tools})


async def call_tool(ctx: Any, params: t.CallToolRequestParams) -> Any:
    told = FIXTURES["tools"].get(params.name)
    if told is None:
        raise MCPError(code=t.INVALID_PARAMS, message=f"Unknown tool: {params.name}")
    if "error" in told:
        return _result([{"type": "text", "text": told["error"]}], is_error=True)
    if "needs" in told and getattr(ctx.session.client_capabilities, told["needs"], None) is None:
        data = {"requiredCapabilities": {told["needs"]: {}}}
        raise MCPError(code=t.MISSING_REQUIRED_CLIENT_CAPABILITY, message="The client cannot do that.", data=data)
    if "rounds" in told and (asked := required(ctx, params, told)) is not None:
        return asked
    if "asks" in told:
        return await _asking(ctx, params, told["asks"])
    await _on_the_way(ctx, told)
    return _result(told["content"])


async def _on_the_way(ctx: Any, told: dict[str, Any]) -> None:
    for line in told.get("logs", ()):
        await ctx.session.send_log_message("info", line, "everything", related_request_id=ctx.request_id)
    for progress in told.get("progress", ()):
        await ctx.session.report_progress(progress, 100, f"{progress} of 100")
    if "changes" in told:
        await BUS.publish(CHANGES[told["changes"]]())
    if told.get("reconnect"):
        if ctx.close_sse_stream is not None:
            await ctx.close_sse_stream()
        await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=RECONNECT_S)


async def _asking(ctx: Any, params: t.CallToolRequestParams, asks: dict[str, Any]) -> t.CallToolResult:
    method, arguments = asks["method"], params.arguments or {}
    asked = json.loads(json.dumps(asks["params"]))
    if "prompt" in arguments:
        asked["messages"][0]["content"]["text"] = arguments["prompt"]
    if "message" in arguments:
        asked["message"] = arguments["message"]
    request = REQUESTS[method].model_validate({"method": method, "params": asked})
    scope = ServerMessageMetadata(related_request_id=ctx.request_id)
    found = await ctx.session.send_request(request, RESULTS[method], metadata=scope)
    said = found.content.text if method == "sampling/createMessage" else f"action={found.action}, {found.content}"
    return _result([{"type": "text", "text": f"The client said: {said}"}])


def _result(content: Any, *, is_error: bool = False) -> t.CallToolResult:
    return t.CallToolResult.model_validate({"content": content, "isError": is_error})


# --- the rest ------------------------------------------------------------------------------------------------------


async def list_prompts(ctx: Any, params: Any) -> t.ListPromptsResult:
    prompts = []
    for name, each in FIXTURES["prompts"].items():
        arguments = [{"name": argument, "required": True} for argument in each["arguments"]]
        prompts.append({"name": name, "description": each["description"], "arguments": arguments})
    return t.ListPromptsResult.model_validate({"prompts": prompts})


async def get_prompt(ctx: Any, params: t.GetPromptRequestParams) -> Any:
    told = FIXTURES["prompts"].get(params.name)
    if told is None:
        raise MCPError(code=t.INVALID_PARAMS, message=f"Unknown prompt: {params.name}")
    if "rounds" in told and (asked := required(ctx, params, told)) is not None:
        return asked
    text = json.dumps(told["messages"])
    for name, value in (params.arguments or {}).items():
        text = text.replace(f"{{{name}}}", value)
    return t.GetPromptResult.model_validate({"messages": json.loads(text)})


async def list_resources(ctx: Any, params: Any) -> t.ListResourcesResult:
    shown = [
        {"uri": uri, "name": each["name"], "mimeType": each["mimeType"]} for uri, each in FIXTURES["resources"].items()
    ]
    return t.ListResourcesResult.model_validate({"resources": shown})


async def list_templates(ctx: Any, params: Any) -> t.ListResourceTemplatesResult:
    shown = [
        {"uriTemplate": uri, "name": each["name"], "mimeType": each["mimeType"]}
        for uri, each in FIXTURES["templates"].items()
    ]
    return t.ListResourceTemplatesResult.model_validate({"resourceTemplates": shown})


async def read_resource(ctx: Any, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
    uri = str(params.uri)
    found = FIXTURES["resources"].get(uri)
    ((template, filled),) = FIXTURES["templates"].items()
    before, _, after = template.partition("{id}")
    if found is None and uri.startswith(before) and uri.endswith(after):
        within = uri[len(before) : -len(after)]
        found = {**filled, "text": filled["text"].replace("{id}", within)}
    if found is None:
        raise MCPError(code=t.INVALID_PARAMS, message="Resource not found", data={"uri": uri})
    return t.ReadResourceResult.model_validate(
        {"contents": [{"uri": uri, **{k: v for k, v in found.items() if k != "name"}}]}
    )


async def nothing(ctx: Any, params: Any) -> t.EmptyResult:
    return t.EmptyResult()


async def complete(ctx: Any, params: Any) -> t.CompleteResult:
    return t.CompleteResult(completion=t.Completion(values=[], total=0, has_more=False))


def server() -> Server[Any]:
    return Server(
        "everything", version="1", on_list_tools=list_tools, on_call_tool=call_tool, on_list_prompts=list_prompts,
        on_get_prompt=get_prompt, on_list_resources=list_resources, on_list_resource_templates=list_templates,
        on_read_resource=read_resource, on_subscribe_resource=nothing, on_unsubscribe_resource=nothing,
        on_set_logging_level=nothing, on_completion=complete, on_subscriptions_listen=ListenHandler(BUS),
    )  # fmt: skip


async def main() -> None:
    warnings.simplefilter("ignore")
    made = server()
    if "--http" not in sys.argv:
        async with stdio_server() as (read, write):
            await made.run(read, write, made.create_initialization_options())
        return
    app = made.streamable_http_app(event_store=Events(), retry_interval=100)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp\n")
        sys.stdout.flush()
        config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1)
        await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    asyncio.run(main())
