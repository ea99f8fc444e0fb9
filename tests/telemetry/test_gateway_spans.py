"""Spans of calls through the gateway: what a request over HTTP brings, and what the record holds of the connection."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from readback.domain.action.action import Action
from readback.domain.tracing.trace_context import execution_span_id
from readback.engine.resume import fold
from readback.gateway.gateway import Gateway
from readback.gateway.upstream.target import Command, Endpoint, Server
from readback.mcp import InProcess
from readback.telemetry.projector import Projector
from readback.telemetry.spans import Span
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.gateway.desk import write_contracts
from tests.gateway.servers.book import Book, server_of
from tests.gateway.test_http_front import ENVELOPE, HEADERS, modern, post, said

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GIVEN = f"00-{TRACE}-{CALLER}-01"


async def _called(folder: Path, meta: dict[str, Any], headers: dict[str, str]) -> tuple[Action, Span]:
    """One call of the governed tool over HTTP, against a gateway in front of the book's server."""
    write_contracts(folder, {})
    store = MemoryStore()
    gateway = Gateway(
        [InProcess(server_of(Book(folder)))],
        [folder / "book.yaml"],
        tenant="acme",
        principal="agent:books",
        store=store,
        runtime=VirtualRuntime(),
    )
    stop, listening = asyncio.Event(), asyncio.get_running_loop().create_future()
    async with gateway:
        serving = asyncio.ensure_future(gateway.serve_http(port=0, stop=stop, on_listening=listening.set_result))
        try:
            async with httpx.AsyncClient(base_url=await listening, headers=HEADERS) as client:
                params = {"name": "enter", "arguments": {"name": "rent", "amount": 3}, "_meta": {**ENVELOPE, **meta}}
                answer = await post(client, "tools/call", params, **modern("tools/call", "enter"), **headers)
                assert said(answer)["result"]["isError"] is False, answer.text
            (action,) = [fold(store.events(each.projection.action_id)) for each in store.projections()]
            assert action is not None
            spans = Projector(store).of_action(action.id)
        finally:
            stop.set()
            await serving
    (execution,) = [span for span in spans if span.name == "execute_tool enter"]
    return action, execution


@pytest.mark.requirement("SPAN-gateway")
@pytest.mark.parametrize("way", ["header", "meta"])
def test_a_request_over_http_names_its_span_in_a_header_or_in_meta(tmp_path: Path, way: str) -> None:
    meta, headers = ({"traceparent": GIVEN}, {}) if way == "meta" else ({}, {"traceparent": GIVEN})
    action, execution = asyncio.run(_called(tmp_path, meta, headers))
    assert (action.context["trace"], action.context["parent_span"]) == (TRACE, CALLER)
    assert (execution.trace_id, execution.parent_id) == (TRACE, CALLER)
    assert execution.span_id == execution_span_id(action.id, 1)


@pytest.mark.requirement("SPAN-gateway")
def test_the_meta_of_a_call_outranks_the_header(tmp_path: Path) -> None:
    other = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"
    action, _ = asyncio.run(_called(tmp_path, {"traceparent": GIVEN}, {"traceparent": other}))
    assert action.context["trace"] == TRACE


@pytest.mark.requirement("SPAN-gateway")
def test_the_execution_names_the_agreed_revision(tmp_path: Path) -> None:
    _, execution = asyncio.run(_called(tmp_path, {}, {}))
    found = {name: value for name, value in execution.attributes.items() if name.startswith(("mcp.", "network."))}
    assert found == {"mcp.method.name": "tools/call", "mcp.protocol.version": "2026-07-28"}


@pytest.mark.requirement("SPAN-gateway")
@pytest.mark.parametrize(
    ("target", "transport"), [(Endpoint("http://127.0.0.1:1/mcp"), "tcp"), (Command(("server",)), "pipe")]
)
def test_the_record_names_the_transport_to_another_process(target: Endpoint | Command, transport: str) -> None:
    server = Server(target, "", 1.0)
    assert server.origin("") == {"mcp.method.name": "tools/call", "network.transport": transport}
    assert server.origin("2025-11-25")["mcp.protocol.version"] == "2025-11-25"
