"""The gateway's measure: a call through `readback mcp` compared with the same call to the plain server.

Slices of both alternate on the same machine. Each round starts new server and gateway processes, because the time of a
call differs by a quarter between two starts of the same program. The client is the SDK's. The mark counts the added
cost of a call, in plain calls; the whole cost in plain calls is printed, too. The cost of a reading is measured
separately and subtracted, because the reading is not the gateway's cost. Readings alternate with plain calls, as in
manual use; readings in a row would take half as long.
"""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, Final

from readback.bench.workload import in_flight, room
from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.client.files import contract_files
from readback.domain.context import Context

ROUNDS: Final = 3
SLICES: Final = 5
"""Slices of a round, after one slice of warm-up."""
CALLS: Final = 120
IN_FLIGHT: Final = 1_000
LONG_CALLS: Final = 20_000
LONG_WARM: Final = 10_000
LONG_WIDTH: Final = 32
READINGS: Final = 2
"""Readings of one governed call: before and after the call."""
SERVER: Final = ("-P", "-m", "readback.bench.plain_server")
GATEWAY: Final = ("-P", "-m", "readback.cli.cli", "mcp")
BOOKS: Final = "books"
"""The server's own folder, without contracts and ledger."""
CONTRACT: Final = """apiVersion: readback/v1
kind: Contracts
metadata: {name: bench, version: 1.0.0}
server: {command: [plain]}
contracts:
  put:
    kind: set
    side_effect: low_risk_internal
    target: entry/{requested.name}
    arguments: {name: string, text: string}
    identity: {target: authoritative.name, tenant: not_offered}
    readers:
      - sql: {database: books/book.db, query: "select * from entry where name = {requested.name}"}
    ensure:
      kept: authoritative.text == requested.text
    late_window: 0s
"""
OURS: Final = ("passed", "unverified", "governed")
"""Calls through a gateway."""
Progress = Callable[[str], None]
Slices = dict[str, list[list[float]]]


@dataclass(frozen=True, slots=True)
class Ways:
    """Clients of the same server: direct, and through the gateway. `passing`: through a gateway without records."""

    plain: Any
    governed: Any
    passing: Any
    governing_pid: int
    passing_pid: int


def gateway_measures(progress: Progress) -> dict[str, Json]:
    """All figures of `readback bench --gateway --json`."""
    with room() as folder:
        return asyncio.run(_measures(folder, progress))


async def _measures(folder: Path, progress: Progress) -> dict[str, Json]:
    raw: dict[str, Json] = {}
    found: dict[str, Json] = {}
    for transport, opened in (("stdio", _over_stdio), ("http", _over_http)):
        progress(f"one call after another, {transport}")
        rounds: list[Slices] = []
        cpus: list[dict[str, float]] = []
        flight: dict[str, Json] = {}
        for number in range(ROUNDS):
            place = folder / f"{transport}-{number}"
            place.mkdir()
            (place / "contracts.yaml").write_text(CONTRACT, encoding="utf-8")
            async with opened(place) as ways:
                taken, cpu = await _in_turns(place, ways)
                rounds.append(taken)
                cpus.append(cpu)
                if number == ROUNDS - 1:
                    progress(f"{IN_FLIGHT:,} calls in flight, {transport}")
                    flight = await _in_flight(place, ways.governed, transport)
        measured = {**_figures(rounds), "in_flight": flight}
        raw[transport] = measured
        for key in OURS:
            for figure in ("added", "times"):
                found[f"{transport}_{key}_{figure}"] = measured[f"{key}_{figure}"]
        found[f"{transport}_cpu"] = {name: round(statistics.median(cpu[name] for cpu in cpus), 2) for name in OURS}
        found[f"{transport}_lost"] = flight["lost"]
        found["readings_ms"] = measured["readings_ms"]
    progress(f"{LONG_CALLS:,} calls through one gateway")
    raw["long"] = await _long(folder)
    found["grown_mb"] = raw["long"]["grown_mb"]  # type: ignore[index,call-overload]
    return {**found, "raw": raw}


# --- the servers and the clients ------------------------------------------------------------------------------------


@asynccontextmanager
async def _over_stdio(folder: Path) -> AsyncIterator[Ways]:
    server = (*SERVER, str(folder / BOOKS))
    async with AsyncExitStack() as stack:
        ways = [
            await stack.enter_async_context(_started(*argv))
            for argv in (
                server,
                (*_gateway(folder, "stdio-governed"), "--", sys.executable, *server),
                (*_gateway(folder, "stdio-passing", "--ungoverned", "pass"), "--", sys.executable, *server),
            )
        ]
        yield _ways(folder, "stdio", *ways)


def _ways(folder: Path, transport: str, plain: Any, governed: Any, passing: Any) -> Ways:
    pids = (_process_with(str(folder / f"{transport}-{name}.db")) for name in ("governed", "passing"))
    return Ways(plain, governed, passing, *pids)


def _started(*argv: str) -> Any:
    """A client of a new process."""
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters

    return Client(StdioServerParameters(command=sys.executable, args=[*argv]))


@asynccontextmanager
async def _over_http(folder: Path) -> AsyncIterator[Ways]:
    with ExitStack() as processes:
        server = processes.enter_context(_serving((*SERVER, str(folder / BOOKS), "--http")))
        through = [
            processes.enter_context(_serving(_served(folder, f"http-{name}", server, *more)))
            for name, more in (("governed", ()), ("passing", ("--ungoverned", "pass")))
        ]
        async with AsyncExitStack() as stack:
            ways = [await stack.enter_async_context(_http_client(url)) for url in (server, *through)]
            yield _ways(folder, "http", *ways)


@asynccontextmanager
async def _http_client(url: str) -> AsyncIterator[Any]:
    """The SDK's client without a connection timeout. The SDK's default client gives up and ends the run."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(timeout=httpx2.Timeout(30, read=300, pool=None)) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


def _gateway(folder: Path, name: str, *more: str) -> tuple[str, ...]:
    ledger = f"sqlite:///{folder / name}.db"
    return (*GATEWAY, "--contracts", str(folder / "contracts.yaml"), "--ledger-url", ledger, *more)


def _served(folder: Path, name: str, server: str, *more: str) -> tuple[str, ...]:
    return _gateway(folder, name, "--serve", "http", "--port", "0", "--url", server, *more)


@contextmanager
def _serving(argv: Sequence[str]) -> Iterator[str]:
    """Start an HTTP server process, and read its address from the first line with an address."""
    process = subprocess.Popen(
        [sys.executable, *argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
    )
    try:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            found = re.search(r"http://\S+", line)
            if found is not None:
                yield found[0]
                return
        raise RuntimeError(f"{argv[1]} did not come up: {''.join(said)}")
    finally:
        process.terminate()
        try:
            process.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


# --- what is measured -----------------------------------------------------------------------------------------------


async def _in_turns(folder: Path, ways: Ways) -> tuple[Slices, dict[str, float]]:
    """Milliseconds of each call by slice, with all readings as one slice, and CPU time of the gateways by call."""
    ours = os.getpid()
    turns = (
        ("put", ways.plain, "put", ours),
        ("governed", ways.governed, "put", ways.governing_pid),
        ("answer", ways.plain, "answer", ours),
        ("unverified", ways.governed, "answer", ways.governing_pid),
        ("passed", ways.passing, "answer", ways.passing_pid),
    )
    times: Slices = {name: [] for name, *_ in turns}
    cpus: dict[str, list[float]] = {name: [] for name, *_ in turns}
    for part in range(SLICES + 1):
        for name, client, tool, pid in turns:
            before_ms = _cpu_ms(pid)
            times[name].append([await _timed(client, tool, f"{name}-{part}-{n}") for n in range(CALLS)])
            cpus[name].append((_cpu_ms(pid) - before_ms) / CALLS)
    kept = {name: slices[1:] for name, slices in times.items()}
    cpu = {name: statistics.median(slices[1:]) for name, slices in cpus.items()}
    return {**kept, "readings": [await _readings_ms(folder, ways.plain)]}, cpu


def _figures(rounds: Sequence[Slices]) -> dict[str, Json]:
    times = {name: [each for taken in rounds for each in taken[name]] for name in rounds[0]}
    readings_ms = READINGS * statistics.median(each for taken in times.pop("readings") for each in taken)
    found: dict[str, Json] = {
        f"{name}_ms": _spread([each for part in slices for each in part]) for name, slices in times.items()
    }
    found["readings_ms"] = round(readings_ms, 3)
    for name, plain, apart_ms in (
        ("governed", "put", readings_ms),
        ("unverified", "answer", 0),
        ("passed", "answer", 0),
    ):
        found[f"{name}_added"] = _in_plain_calls(times[name], times[plain], apart_ms, added=True)
        found[f"{name}_times"] = _in_plain_calls(times[name], times[plain])
    return found


async def _timed(client: Any, tool: str, name: str) -> float:
    began = time.perf_counter()
    await _called(client, tool, name)
    return (time.perf_counter() - began) * 1000


async def _called(client: Any, tool: str, name: str) -> None:
    """Raise RuntimeError after a failed call. A refused call is not measured."""
    result = await client.call_tool(tool, {"name": name, "text": "hello"} if tool == "put" else {"text": name})
    if result.is_error:
        raise RuntimeError(f"{tool} {name}: {result.content}")


def _in_plain_calls(
    ours: Sequence[Sequence[float]], plain: Sequence[Sequence[float]], apart_ms: float = 0.0, *, added: bool = False
) -> Json:
    """The cost or added cost of our call in plain calls, by the median of the slices: at the median and at the 99th
    percentile. `apart_ms`: time to subtract from our call.
    """
    pairs = [*zip(ours, plain, strict=True)]
    middle = [(statistics.median(mine) - apart_ms) / statistics.median(bare) - added for mine, bare in pairs]
    high = [(_at(mine, 0.99) - apart_ms) / _at(bare, 0.99) - added for mine, bare in pairs]
    return {"p50": round(statistics.median(middle), 2), "p99": round(statistics.median(high), 2)}


def _spread(values: Sequence[float]) -> dict[str, Json]:
    return {"p50": round(statistics.median(values), 3), "p99": round(_at(values, 0.99), 3)}


def _at(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


async def _readings_ms(folder: Path, plain: Any) -> list[float]:
    """Single readings in this process, each after a plain call, through the contract's own source."""
    written = contract_files(folder / "contracts.yaml")["put"].written
    [reader] = written.readers
    names = [f"governed-{SLICES}-{n}" for n in range(CALLS)]
    times = []
    for name in names:
        await _called(plain, "put", name)
        context = Context("bench", "default", "agent:local", "bench", f"entry/{name}", name, name, strong=True)
        began = time.perf_counter()
        reader.reader.look(context, {"name": name, "text": "hello"})
        times.append((time.perf_counter() - began) * 1000)
    return times


async def _in_flight(folder: Path, client: Any, transport: str) -> dict[str, Json]:
    """Run all calls at once. Returns the unverified calls, and the calls without exactly the requested row."""
    began = time.perf_counter()
    names = [f"flight-{transport}-{n}" for n in range(IN_FLIGHT)]
    results = await asyncio.gather(*(_called(client, "put", name) for name in names), return_exceptions=True)
    seconds = time.perf_counter() - began
    failed = [str(each) for each in results if isinstance(each, BaseException)]
    with closing(sqlite3.connect(folder / BOOKS / "book.db")) as book:
        rows = book.execute("select count(*) from entry where name like ?", (f"flight-{transport}-%",)).fetchone()[0]
    missing = IN_FLIGHT - int(rows)
    return {
        "calls": IN_FLIGHT,
        "lost": max(len(failed), missing),
        "per_s": round(IN_FLIGHT / seconds),
        "first_failure": failed[0][:300] if failed else "",
    }


async def _long(folder: Path) -> dict[str, Json]:
    """A gateway's memory after the first thousands of governed calls, and after all of them."""
    (folder / "contracts.yaml").write_text(CONTRACT, encoding="utf-8")
    async with AsyncExitStack() as stack:
        argv = (*_gateway(folder, "long"), "--", sys.executable, *SERVER, str(folder / BOOKS))
        client = await stack.enter_async_context(_started(*argv))
        pid = _process_with(str(folder / "long.db"))
        began = time.perf_counter()
        await _wide(client, 0, LONG_WARM)
        warm = _resident_mb(pid)
        await _wide(client, LONG_WARM, LONG_CALLS)
        end = _resident_mb(pid)
        per_s = round(LONG_CALLS / (time.perf_counter() - began))
    return {"warm_mb": warm, "end_mb": end, "grown_mb": round(end - warm, 1), "per_s": per_s, "calls": LONG_CALLS}


def _cpu_ms(pid: int) -> float:
    """CPU time of all live threads."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text(encoding="ascii").split()[0]) for each in threads) / 1_000_000


def _process_with(argument: str) -> int:
    """The process with this text in its command line. The SDK does not expose the started process."""
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if argument.encode() in each.read_bytes():
                return int(each.parent.name)
        except OSError:
            continue
    raise RuntimeError(f"no process was started with {argument}")


async def _wide(client: Any, first: int, last: int) -> None:
    names = (f"long-{n}" for n in range(first, last))
    await in_flight(LONG_WIDTH, names, lambda name: _called(client, "put", name))


def _resident_mb(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    assert found is not None
    return round(int(found[1]) / 1024, 1)
