"""All that a client of the official SDK can do with the server `everything`, and what it was answered, as JSON.

The same is done with and without the gateway between; whoever is told something else is wrong.
"""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import Callable
from typing import Any

import mcp_types as t
from mcp import Client
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict, FileUrl

SERVER = [sys.executable, "-W", "ignore", "-m", "tests.gateway.servers.everything"]
SOON_S = 60.0
STATELESS = "2026-07-28"

Answers = dict[str, Any]


class Raw(t.Result):
    """Any result."""

    model_config = ConfigDict(extra="allow")


class _Ears:
    """What a server asks of and tells a client."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.logs: list[Any] = []
        self._changed = asyncio.Event()

    async def sample(self, context: Any, params: Any) -> t.CreateMessageResult:
        return t.CreateMessageResult(role="assistant", content=t.TextContent(type="text", text="said"), model="m")

    async def elicit(self, context: Any, params: Any) -> t.ElicitResult:
        return t.ElicitResult(action="accept", content={"name": "Bo"})

    async def roots(self, context: Any) -> t.ListRootsResult:
        return t.ListRootsResult(roots=[t.Root(uri=FileUrl("file:///srv/of-the-client"))])

    async def log(self, params: t.LoggingMessageNotificationParams) -> None:
        self.logs.append([params.level, params.data, params.logger])

    async def message(self, message: Any) -> None:
        if isinstance(message, t.ToolListChangedNotification | t.ResourceUpdatedNotification):
            self.told.append(message.method)
            self._changed.set()

    async def changed(self) -> str:
        async with asyncio.timeout(SOON_S):
            await self._changed.wait()
        self._changed.clear()
        return self.told[-1]


def client(transport: Any, mode: str, ears: _Ears | None = None) -> Client:
    """A client that answers everything."""
    hears = ears or _Ears()
    return Client(
        transport,
        mode=mode,
        sampling_callback=hears.sample,
        elicitation_callback=hears.elicit,
        list_roots_callback=hears.roots,
        logging_callback=hears.log,
        message_handler=hears.message,
        log_level=None if mode == "legacy" else "info",
        read_timeout_seconds=SOON_S,
    )


async def transcript(transport: Any, mode: str) -> Answers:
    """Does everything, once, in one session."""
    ears = _Ears()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        async with client(transport, mode, ears) as one:
            answers: Answers = {
                "about": [one.protocol_version, _json(one.server_info), one.instructions],
                "capabilities": _json(one.server_capabilities),
            }
            await _lists(one, answers)
            await _calls(one, answers)
            await _asks(one, answers)
            answers["logs"] = ears.logs
            await _changes(one, mode, ears, answers)
            answers["calls"] = await _call(one, "calls")
    return answers


async def _lists(one: Client, answers: Answers) -> None:
    first = await one.list_tools()
    answers["tools"] = _json(first)
    answers["more tools"] = _json(await one.list_tools(cursor=first.next_cursor))
    answers["resources"] = _json(await one.list_resources())
    answers["templates"] = _json(await one.list_resource_templates())
    answers["resource"] = _json(await one.read_resource("file:///one"))
    answers["no resource"] = await _error(one.read_resource("file:///missing"))
    answers["prompts"] = _json(await one.list_prompts())
    answers["prompt"] = _json(await one.get_prompt("greet", {"who": "Bo"}))
    answers["completion"] = _json(await one.complete(t.PromptReference(name="greet"), {"name": "who", "value": "B"}))
    of_resource = t.ResourceTemplateReference(uri="file:///{name}")
    answers["resource completion"] = _json(await one.complete(of_resource, {"name": "name", "value": "o"}))
    params: dict[str, Any] = {"x": [None, {"y": 1}]}
    if one.protocol_version == STATELESS:
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    unknown = t.Request[dict[str, Any], str](method="example/unknown", params=params)
    found = _json(await one.session.send_request(unknown, Raw))
    found["given"].pop("_meta", None)
    answers["unknown"] = found
    answers["not there"] = await _error(
        one.session.send_request(t.Request[dict[str, Any], str](method="example/none", params=params), Raw)
    )


async def _calls(one: Client, answers: Answers) -> None:
    meta: Any = {"example/of-the-client": 1}
    said = await one.call_tool("echo", {"a": [1, None, {"ü": 2.5}]}, meta=meta)
    answers["echo"] = _json(said)
    answers["fail"] = await _call(one, "fail")
    answers["refuse"] = await _error(one.call_tool("refuse", {}))
    steps: list[Any] = []

    async def step(progress: float, total: float | None, message: str | None) -> None:
        steps.append([progress, total, message])

    answers["stepped"] = _json(await one.call_tool("steps", {}, progress_callback=step))
    answers["steps"] = steps
    answers["logged"] = await _call(one, "logs")


async def _asks(one: Client, answers: Answers) -> None:
    for name in ("sample", "elicit", "roots"):
        answers[name] = await _call(one, name)


async def _changes(one: Client, mode: str, ears: _Ears, answers: Answers) -> None:
    if one.protocol_version == STATELESS:
        async with (
            asyncio.timeout(SOON_S),
            one.listen(tools_list_changed=True, resource_subscriptions=["file:///one"]) as changes,
        ):
            answers["honoured"] = _json(changes.honored)
            for name in ("change", "update"):
                await _call(one, name)
                answers[f"told of {name}"] = repr(await anext(aiter(changes)))
        return
    await _call(one, "change")
    answers["told of change"] = await ears.changed()
    answers["subscribed"] = _json(await one.subscribe_resource("file:///one"))
    await _call(one, "update")
    answers["told of update"] = await ears.changed()
    answers["unsubscribed"] = _json(await one.unsubscribe_resource("file:///one"))
    answers["ping"] = _json(await one.send_ping())


async def _call(one: Client, name: str) -> Any:
    return _json(await one.call_tool(name, {}))


async def _error(asked: Any) -> Any:
    try:
        await asked
    except MCPError as error:
        return [error.code, error.message, error.data]
    raise AssertionError("it was answered")


def _json(model: Any) -> Any:
    return None if model is None else model.model_dump(by_alias=True, mode="json", exclude_unset=True)


def told(transport: Callable[[], Any], mode: str) -> Answers:
    """The transcript of a session of its own."""

    async def run() -> Answers:
        async with asyncio.timeout(90):
            return await transcript(transport(), mode)

    return asyncio.run(run())
