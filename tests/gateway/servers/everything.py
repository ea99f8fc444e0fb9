"""A server with one of everything, written with the official SDK. `ERA` in its environment: both, handshake, stateless.

Run as a process it speaks over stdio; `--http` serves it on a free port of loopback and prints the URL.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from typing import Any

import mcp_types as t
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.runner import _serve_modern_stream, serve_loop
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ConfigDict

BUS = InMemorySubscriptionBus()
SUBSCRIBED: set[str] = set()
CALLS: list[str] = []
CANCELLED: list[Any] = []
NAMES = (
    "echo", "count", "fail", "refuse", "steps", "logs", "sample", "elicit", "roots", "wait", "die", "big", "change",
    "update", "calls", "environment", "report", "cancelled",
)  # fmt: skip


class Open(t.RequestParams):
    """Any parameters."""

    model_config = ConfigDict(extra="allow")


def text(said: str, **more: Any) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(type="text", text=said)], **more)


async def list_tools(ctx: Any, params: t.PaginatedRequestParams | None) -> t.ListToolsResult:
    """Two pages."""
    tools = [t.Tool(name=name, description=f"does {name}", input_schema={"type": "object"}) for name in NAMES]
    if params is not None and params.cursor == "second":
        return t.ListToolsResult(tools=tools[8:])
    return t.ListToolsResult(tools=tools[:8], next_cursor="second")


async def asked(ctx: Any, params: Any, request: Any, result: type[Any]) -> Any:
    """Asks the client: directly in the handshake era, by an interim result in the stateless one."""
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        given = (params.input_responses or {}).get("it")
        if given is None:
            return t.InputRequiredResult(input_requests={"it": request}, request_state="mine")
        assert params.request_state == "mine"
        return given
    scope = ServerMessageMetadata(related_request_id=ctx.request_id)
    return await ctx.session.send_request(request, result, metadata=scope)


async def call_tool(ctx: Any, params: t.CallToolRequestParams) -> Any:
    CALLS.append(params.name)
    arguments = params.arguments or {}
    return await HANDLERS[params.name](ctx, params, arguments)


async def echo(ctx: Any, params: Any, arguments: Any) -> Any:
    return text(
        str(arguments), structured_content={"arguments": arguments, "none": None}, _meta={"example/x": [1, None]}
    )


async def count(ctx: Any, params: Any, arguments: Any) -> Any:
    CALLS.append("counted")
    return text(str(CALLS.count("counted")))


async def fail(ctx: Any, params: Any, arguments: Any) -> Any:
    return text("it failed", is_error=True)


async def refuse(ctx: Any, params: Any, arguments: Any) -> Any:
    raise MCPError(code=-32050, message="refused", data={"why": "so"})


async def steps(ctx: Any, params: Any, arguments: Any) -> Any:
    for step in range(3):
        await ctx.session.report_progress(step, 3, f"step {step}")
    return text("stepped")


async def report(ctx: Any, params: Any, arguments: Any) -> Any:
    """Says how far it is in words that no model of the protocol knows."""
    told = {
        "progressToken": ctx.params["_meta"]["progressToken"],
        "progress": 1,
        "total": None,
        "stage": {"of": [2, None]},
        "_meta": {"example/x": 1.5},
    }
    notification = t.Notification[dict[str, Any], str](method="notifications/progress", params=told)
    await ctx.session.send_notification(notification, related_request_id=ctx.request_id)
    return text("reported")


async def logs(ctx: Any, params: Any, arguments: Any) -> Any:
    for level in ("debug", "error"):
        await ctx.session.send_log_message(level, {"at": level}, "everything", related_request_id=ctx.request_id)
    return text("logged")


async def sample(ctx: Any, params: Any, arguments: Any) -> Any:
    message = t.SamplingMessage(role="user", content=t.TextContent(type="text", text="say"))
    request = t.CreateMessageRequest(params=t.CreateMessageRequestParams(messages=[message], max_tokens=9))
    found = await asked(ctx, params, request, t.CreateMessageResult)
    return found if isinstance(found, t.InputRequiredResult) else text(found.content.text)


async def elicit(ctx: Any, params: Any, arguments: Any) -> Any:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    request = t.ElicitRequest(params=t.ElicitRequestFormParams(message="who?", requested_schema=schema))
    found = await asked(ctx, params, request, t.ElicitResult)
    return found if isinstance(found, t.InputRequiredResult) else text(f"{found.action} {found.content}")


async def roots(ctx: Any, params: Any, arguments: Any) -> Any:
    found = await asked(ctx, params, t.ListRootsRequest(), t.ListRootsResult)
    return found if isinstance(found, t.InputRequiredResult) else text(str(found.roots[0].uri))


async def wait(ctx: Any, params: Any, arguments: Any) -> Any:
    """Hangs until it is cancelled, which it writes to a file; begins by saying so."""
    await ctx.session.report_progress(1, None, "waiting")
    try:
        await asyncio.Event().wait()
    except BaseException:
        if "file" in arguments:
            with open(arguments["file"], "w") as file:  # noqa: ASYNC230
                file.write("cancelled")
        raise


async def die(ctx: Any, params: Any, arguments: Any) -> Any:
    """Ends, and leaves a child that holds its pipes."""
    subprocess.Popen(["sleep", "600"])  # noqa: ASYNC220
    os.kill(os.getpid(), signal.SIGKILL)


async def big(ctx: Any, params: Any, arguments: Any) -> Any:
    return text("x" * int(arguments["bytes"]))


async def change(ctx: Any, params: Any, arguments: Any) -> Any:
    await ctx.session.send_tool_list_changed()
    await BUS.publish(ToolsListChanged())
    return text("changed")


async def update(ctx: Any, params: Any, arguments: Any) -> Any:
    if "file:///one" in SUBSCRIBED:
        await ctx.session.send_resource_updated("file:///one")
    await BUS.publish(ResourceUpdated(uri="file:///one"))
    return text("updated")


async def calls(ctx: Any, params: Any, arguments: Any) -> Any:
    return text(",".join(CALLS))


async def cancelled(ctx: Any, params: Any, arguments: Any) -> Any:
    """What it was told of calls that were cancelled."""
    return text(json.dumps(CANCELLED))


async def noting(ctx: Any, call_next: Any) -> Any:
    if ctx.method == "notifications/cancelled":
        CANCELLED.append(ctx.params)
    return await call_next(ctx)


async def environment(ctx: Any, params: Any, arguments: Any) -> Any:
    return text(f"{os.getpid()} {os.environ.get('READBACK_URL')} {os.environ.get('ADDED')}")


HANDLERS = {name: globals()[name] for name in NAMES}


async def list_resources(ctx: Any, params: Any) -> t.ListResourcesResult:
    return t.ListResourcesResult(resources=[t.Resource(uri="file:///one", name="one", mime_type="text/plain")])


async def list_templates(ctx: Any, params: Any) -> t.ListResourceTemplatesResult:
    template = t.ResourceTemplate(uri_template="file:///{name}", name="any")
    return t.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(ctx: Any, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
    if "missing" in str(params.uri):
        raise MCPError(code=-32002, message="no such resource", data={"uri": str(params.uri)})
    who = os.environ.get("WHO", "")
    return t.ReadResourceResult(contents=[t.TextResourceContents(uri=params.uri, text=f"text of {params.uri} {who}")])


async def subscribe(ctx: Any, params: t.SubscribeRequestParams) -> t.EmptyResult:
    SUBSCRIBED.add(str(params.uri))
    return t.EmptyResult()


async def unsubscribe(ctx: Any, params: t.UnsubscribeRequestParams) -> t.EmptyResult:
    SUBSCRIBED.discard(str(params.uri))
    return t.EmptyResult()


async def list_prompts(ctx: Any, params: Any) -> t.ListPromptsResult:
    return t.ListPromptsResult(prompts=[t.Prompt(name="greet", arguments=[t.PromptArgument(name="who")])])


async def get_prompt(ctx: Any, params: t.GetPromptRequestParams) -> t.GetPromptResult:
    said = f"hello {(params.arguments or {}).get('who')} {os.environ.get('WHO', '')}".strip()
    message = t.PromptMessage(role="user", content=t.TextContent(type="text", text=said))
    return t.GetPromptResult(messages=[message])


async def complete(ctx: Any, params: t.CompleteRequestParams) -> t.CompleteResult:
    return t.CompleteResult(completion=t.Completion(values=[f"{params.ref.type}:{params.argument.value}!"]))


async def set_level(ctx: Any, params: t.SetLevelRequestParams) -> t.EmptyResult:
    return t.EmptyResult()


def server() -> Server[Any]:
    made = Server(
        "everything", version="7", instructions="Do things.", on_list_tools=list_tools, on_call_tool=call_tool,
        on_list_resources=list_resources, on_list_resource_templates=list_templates, on_read_resource=read_resource,
        on_subscribe_resource=subscribe, on_unsubscribe_resource=unsubscribe, on_list_prompts=list_prompts,
        on_get_prompt=get_prompt, on_completion=complete, on_set_logging_level=set_level,
        on_subscriptions_listen=ListenHandler(BUS),
    )  # fmt: skip
    made.add_request_handler("example/unknown", Open, unknown)
    made.middleware.append(noting)
    return made


async def unknown(ctx: Any, params: Any) -> dict[str, Any]:
    return {"of": "my own", "given": (params.model_extra or {}), "none": None}


async def main() -> None:
    made = server()
    if "--http" in sys.argv:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp\n")
            sys.stdout.flush()
            config = uvicorn.Config(made.streamable_http_app(), log_level="warning", timeout_graceful_shutdown=1)
            await uvicorn.Server(config).serve(sockets=[listener])
        return
    async with stdio_server() as (read, write):
        options = made.create_initialization_options()
        era = os.environ.get("ERA", "both")
        if era == "handshake":
            await serve_loop(made, read, write, lifespan_state={}, init_options=options)
        elif era == "stateless":
            await _serve_modern_stream(made, read, write, lifespan_state={}, raise_exceptions=False)
        else:
            await made.run(read, write, options)


if __name__ == "__main__":
    asyncio.run(main())
