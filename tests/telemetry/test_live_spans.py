"""Live spans and the trace context: the guard, one span around the call, and the context that comes in and goes out."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import Context as McpContext
from mcp.server.mcpserver import MCPServer
from opentelemetry import trace as api
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from readback import AsyncReadback, Context, Readback, verified
from readback.domain.tracing import names
from readback.domain.tracing.attributes import TOOL_FORM, execution_of
from readback.domain.tracing.trace_context import (
    TraceContext,
    execution_span_id,
    first_span_id,
    parse_traceparent,
)
from readback.drivers.live_span import with_caller
from readback.engine.compiled_contract import CallerContext
from readback.engine.resume import fold
from readback.systems import CommandExecutor, HttpExecutor
from readback.systems.trace_headers import from_environment
from readback.telemetry import spans_of
from readback.telemetry.projector import Projector
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.gateway.desk import gateway_over, write_contracts
from tests.gateway.servers.book import Book

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GIVEN = f"00-{TRACE}-{CALLER}-01"
EXPORTER = InMemorySpanExporter()
PROVIDER = TracerProvider()
PROVIDER.add_span_processor(SimpleSpanProcessor(EXPORTER))
LAMP: dict[str, bool] = {"on": False}


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> Iterator[api.Tracer]:
    """A program with the SDK: its provider is the global one for this test."""
    monkeypatch.setattr(api, "_TRACER_PROVIDER", PROVIDER)
    EXPORTER.clear()
    yield PROVIDER.get_tracer("program")
    EXPORTER.clear()


def exported() -> dict[str, Any]:
    return {span.name: span for span in EXPORTER.get_finished_spans()}


def lamp(tool: Any) -> Any:
    LAMP["on"] = False
    return verified(tool, name="switch", read=lambda: LAMP, strong=True, expect={"on": True})


def turn_on() -> None:
    with api.get_tracer("tool").start_as_current_span("inside the tool"):
        LAMP["on"] = True


async def turn_on_async() -> None:
    with api.get_tracer("tool").start_as_current_span("inside the tool"):
        await asyncio.get_running_loop().run_in_executor(None, int)
        LAMP["on"] = True


@pytest.mark.requirement("SPAN-live")
@pytest.mark.parametrize("way", ["sync", "async", "sync tool of an async client"])
def test_the_tools_own_spans_nest_below_one_live_span_that_is_the_projected_one(tracer: api.Tracer, way: str) -> None:
    async def run_async(tool: Any) -> tuple[Any, Any]:
        async with AsyncReadback.open("memory:", tenant="acme", principal="agent", run="r") as rb:
            with tracer.start_as_current_span("model inference"):
                outcome = await rb.run(lamp(tool)())
            return outcome, spans_of(rb, outcome.id)

    if way == "sync":
        with Readback.open("memory:", tenant="acme", principal="agent", run="r") as rb:
            with tracer.start_as_current_span("model inference"):
                outcome = rb.run(lamp(turn_on)())
            projected = spans_of(rb, outcome.id)
    else:
        outcome, projected = asyncio.run(run_async(turn_on if "sync tool" in way else turn_on_async))
    assert outcome.verified
    live = exported()
    assert set(live) == {"model inference", "execute_tool switch", "inside the tool"}
    inference, execution, inside = (
        live[name] for name in ("model inference", "execute_tool switch", "inside the tool")
    )
    (same,) = [span for span in projected if span.name == "execute_tool switch"]
    assert f"{execution.context.span_id:016x}" == same.span_id == execution_span_id(outcome.id, 1)
    assert f"{execution.context.trace_id:032x}" == same.trace_id
    assert execution.context.trace_id == inference.context.trace_id
    assert execution.parent.span_id == inference.context.span_id
    assert f"{execution.parent.span_id:016x}" == same.parent_id
    assert inside.parent.span_id == execution.context.span_id
    told = {**execution.attributes}
    assert all(told[name] for name in names.REQUIRED)
    differ = {name for name in told if told[name] != same.attributes.get(name)}
    assert differ == {names.POSITION}  # an entry has its place in the log after the commit
    root = projected[-1]
    assert (root.parent_id, root.span_id) == (f"{inference.context.span_id:016x}", first_span_id(outcome.id))


@pytest.mark.requirement("SPAN-live")
def test_a_tool_that_raises_ends_its_span_with_the_error_and_without_the_status(tracer: api.Tracer) -> None:
    def breaks() -> None:
        LAMP["on"] = True
        raise ValueError("no")

    with Readback.open("memory:") as rb, tracer.start_as_current_span("model inference"):
        rb.run(lamp(breaks)())
    execution = exported()["execute_tool switch"]
    assert execution.attributes["error.type"]
    assert execution.status.status_code is api.StatusCode.UNSET


@pytest.mark.requirement("SPAN-guard")
def test_without_a_recording_span_there_is_no_live_span_and_no_trace(tracer: api.Tracer) -> None:
    with Readback.open("memory:") as rb:
        outcome = rb.run(lamp(lambda: LAMP.update(on=True))())
        context = rb._session.fold(outcome.id).context
    assert exported() == {}
    assert (context["trace"], context["parent_span"]) == ("", "")


@pytest.mark.requirement("SPAN-guard")
def test_the_core_works_without_opentelemetry_and_never_imports_it() -> None:
    program = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Nothing())
from readback import Readback, verified
from readback.telemetry import spans_of, export_spans
from readback.errors import TelemetryError
lamp = {"on": False}
def on(): lamp["on"] = True
switch = verified(on, name="switch", read=lambda: lamp, strong=True, expect={"on": True})
with Readback.open("memory:", trace="TRACE") as rb:
    print(len(spans_of(rb, rb.run(switch()).id)))
    try:
        export_spans(rb)
    except TelemetryError as error:
        print(error.code)
print(any(name.startswith("opentelemetry") for name in sys.modules))
""".replace("TRACE", GIVEN)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["6", "telemetry.missing", "False"]


# --- coming in ---


@pytest.mark.requirement("SPAN-incoming")
def test_a_traceparent_given_to_open_is_the_callers_span() -> None:
    with Readback.open("memory:", trace=GIVEN) as rb:
        outcome = rb.run(lamp(lambda: LAMP.update(on=True))())
        spans = spans_of(rb, outcome.id)
    assert {span.trace_id for span in spans} == {TRACE}
    assert spans[-1].parent_id == CALLER
    assert all(span.sampled for span in spans)


@pytest.mark.requirement("SPAN-incoming")
def test_an_unsampled_caller_stays_unsampled_in_the_ledger_and_on_the_way_out() -> None:
    seen: list[str] = []

    def tool(ctx: Context) -> None:
        seen.append(ctx.traceparent)
        LAMP["on"] = True

    with Readback.open("memory:", trace=f"00-{TRACE}-{CALLER}-00") as rb:
        outcome = rb.run(lamp(tool)())
        assert not any(span.sampled for span in spans_of(rb, outcome.id))
    assert seen == [f"00-{TRACE}-{execution_span_id(outcome.id, 1)}-00"]


@pytest.mark.requirement("SPAN-incoming")
def test_the_current_span_is_the_caller_unless_the_client_names_another_trace(tracer: api.Tracer) -> None:
    with tracer.start_as_current_span("model inference") as span:
        here = span.get_span_context()
        scope = with_caller(CallerContext("acme", "agent"))
        assert (scope.trace, scope.parent_span) == (f"{here.trace_id:032x}", f"{here.span_id:016x}")
        other = CallerContext("acme", "agent", trace=TRACE, parent_span=CALLER)
        assert with_caller(other) == other
        same = CallerContext("acme", "agent", trace=f"{here.trace_id:032x}")
        assert with_caller(same).parent_span == f"{here.span_id:016x}"


@pytest.mark.requirement("SPAN-incoming", "SPAN-bad-input")
@pytest.mark.parametrize(
    "wrong",
    [
        "", "00", f"00-{'0' * 32}-{CALLER}-01", f"00-{TRACE}-{'0' * 16}-01", f"ff-{TRACE}-{CALLER}-01",
        f"00-{TRACE}-{CALLER}-01-more", f"00-{TRACE.upper()}-{CALLER}-01", f"00-{TRACE}-{CALLER}", None, 7,
    ],
)  # fmt: skip
def test_a_wrong_traceparent_is_no_context(wrong: object) -> None:
    assert parse_traceparent(wrong) is None


def test_a_traceparent_of_a_later_version_is_read_and_bad_state_is_dropped() -> None:
    assert parse_traceparent(f"01-{TRACE}-{CALLER}-03-more", "a=1") == TraceContext(TRACE, CALLER, True, "a=1")
    assert parse_traceparent(GIVEN, "a\n=1") == TraceContext(TRACE, CALLER)
    assert parse_traceparent(GIVEN, "a" * 600) == TraceContext(TRACE, CALLER)


@pytest.mark.requirement("SPAN-incoming")
def test_a_process_takes_the_context_of_its_parent_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRACEPARENT", raising=False)
    assert from_environment() is None
    monkeypatch.setenv("TRACEPARENT", GIVEN)
    monkeypatch.setenv("TRACESTATE", "a=1")
    assert from_environment() == TraceContext(TRACE, CALLER, True, "a=1")


# --- going out ---


@pytest.fixture
def service() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A service that notes the headers of each request."""
    seen: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append({name.lower(): value for name, value in self.headers.items()})
            LAMP["on"] = True
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the base class names it so
            return None

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", seen
    server.shutdown()
    server.server_close()
    thread.join(10)


@pytest.mark.requirement("SPAN-outgoing")
def test_a_request_names_the_execution_as_its_parent_and_without_a_trace_it_names_none(
    service: tuple[str, list[dict[str, str]]],
) -> None:
    address, seen = service
    with HttpExecutor(address) as orders:

        def tool(ctx: Context) -> None:
            orders.post(ctx, "/lamp", json={})

        with Readback.open("memory:", trace=GIVEN) as rb:
            outcome = rb.run(lamp(tool)())
        with Readback.open("memory:") as rb:
            rb.run(lamp(tool)())
        own = f"00-{TRACE}-{'7' * 16}-01"

        def names_its_own(ctx: Context) -> None:
            orders.post(ctx, "/lamp", json={}, headers={"Traceparent": own})

        with Readback.open("memory:", trace=GIVEN) as rb:
            rb.run(lamp(names_its_own)())
    assert seen[0]["traceparent"] == f"00-{TRACE}-{execution_span_id(outcome.id, 1)}-01"
    assert "traceparent" not in seen[1]
    assert seen[2]["traceparent"] == own


@pytest.mark.requirement("SPAN-outgoing")
def test_inside_a_live_span_the_request_names_the_tools_own_current_span(
    tracer: api.Tracer, service: tuple[str, list[dict[str, str]]]
) -> None:
    address, seen = service
    with HttpExecutor(address) as orders:

        def tool(ctx: Context) -> None:
            with api.get_tracer("tool").start_as_current_span("inside the tool"):
                orders.post(ctx, "/lamp", json={})

        with Readback.open("memory:") as rb, tracer.start_as_current_span("model inference"):
            rb.run(lamp(tool)())
    inside = exported()["inside the tool"].context
    assert seen[0]["traceparent"] == f"00-{inside.trace_id:032x}-{inside.span_id:016x}-01"


@pytest.mark.requirement("SPAN-outgoing")
def test_a_program_receives_the_context_in_its_environment(tmp_path: Path) -> None:
    show = "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1], 'w'))"
    command = CommandExecutor(name="show", cwd=str(tmp_path))

    def tool(ctx: Context) -> None:
        command.run(ctx, [sys.executable, "-c", show, str(tmp_path / "environment.json")])
        LAMP["on"] = True

    with Readback.open("memory:", trace=GIVEN) as rb:
        outcome = rb.run(lamp(tool)())
    told = json.loads((tmp_path / "environment.json").read_text(encoding="utf-8"))
    assert told["TRACEPARENT"] == f"00-{TRACE}-{execution_span_id(outcome.id, 1)}-01"


@pytest.mark.requirement("SPAN-gateway")
def test_the_gateway_takes_a_clients_context_and_gives_the_server_the_executions(tmp_path: Path) -> None:
    metas: list[dict[str, Any]] = []
    book = Book(tmp_path)
    server = MCPServer("book", version="1.0", log_level="CRITICAL")

    def note(ctx: McpContext[Any, Any]) -> None:
        metas.append(dict((ctx.request_context.params or {}).get("_meta") or {}))

    @server.tool()
    async def enter(name: str, amount: int, ctx: McpContext[Any, Any]) -> dict[str, object]:
        """Enters an amount under a name."""
        note(ctx)
        book.write(name, amount)
        return {"entered": name}

    @server.tool()
    async def shred(name: str, ctx: McpContext[Any, Any]) -> str:
        """Has no contract."""
        note(ctx)
        return name

    async def main() -> None:
        write_contracts(tmp_path, {})
        store = MemoryStore()
        async with gateway_over(book, server, store=store, runtime=VirtualRuntime()) as (_, client):
            meta: Any = {"traceparent": GIVEN, "tracestate": "vendor=1"}
            told = await client.call_tool("enter", {"name": "rent", "amount": 3}, meta=meta)
            await client.call_tool("shred", {"name": "x"}, meta=meta)
            await client.call_tool("shred", {"name": "y"})
            assert told.meta is not None
            ids = [stored.projection.action_id for stored in store.projections()]
            found = {each: action for each in ids if (action := fold(store.events(each))) is not None}
            for action in found.values():
                origin = {**action.context["origin"]}
                form = origin.pop(TOOL_FORM, None)
                assert (form is not None) is (action.contract == "enter")  # of a governed tool only
                assert TOOL_FORM not in execution_of(action)
                assert origin == {"mcp.method.name": "tools/call", "mcp.protocol.version": "2026-07-28"}
            traced = [each for each in found.values() if each.context["trace"]]
            assert {each.context["parent_span"] for each in traced} == {CALLER}
            parents = [f"00-{TRACE}-{execution_span_id(each.id, 1)}-01" for each in traced]
            assert [each.get("traceparent") for each in metas[:2]] == parents
            assert [each.get("tracestate") for each in metas[:2]] == ["vendor=1"] * 2
            assert "traceparent" not in metas[2]
            (governed,) = [each for each in traced if each.contract == "enter"]
            spans = Projector(store).of_action(governed.id)
            (execution,) = [span for span in spans if span.name == "execute_tool enter"]
            assert execution.client
            assert execution.attributes["mcp.method.name"] == "tools/call"
            assert (execution.trace_id, execution.parent_id) == (TRACE, CALLER)

    asyncio.run(main())
