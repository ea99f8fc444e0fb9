"""The API's measure: `POST /v1/actions` compared with the SDK's own `run`, at 16 in flight, in one run.

Slices of all alternate on the same machine. The SDK runs in this process; one server has a process, and another has two
(`--processes 2`). Each has a ledger of its own, and runs the same async action. The client speaks HTTP by hand, so the
figure holds the cost of the server and not of a client library. Run `python -m bench.http_api`.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from readback import AsyncReadback
from readback.server.access.tokens import TokenFile

WIDTH = 16
CALLS = 480
SLICES = 7
WARM = 2
FLOOD = 1_000
FLOODS = 14
"""Rounds of FLOOD requests in flight. SQLite's page cache of 64 MiB is full after nine rounds."""
LEVEL_ROUNDS = 4
"""The last rounds, in which memory must be level."""
GROWTH_MAX_MB = 4.0
BOUND_MS = 1.5
MODULE = """
from readback import Context, Reading, action

LAMPS = {}

@action(kind="set", side_effect="low_risk_internal", target="lamp/{requested.name}",
        identity={"target": "authoritative.name", "tenant": "not_offered"},
        ensure={"on": "authoritative.on == requested.on"}, within="1s", late_window="0s")
async def switch(ctx: Context, name: str, on: bool) -> object:
    LAMPS[name] = {"name": name, "on": on}
    while len(LAMPS) > 4_000:  # the memory of this tool is not the server's
        del LAMPS[next(iter(LAMPS))]
    return {"status": "ok"}

@switch.read(source="lamps", consistency="strong", independence="other_client", attributes=True)
async def lamp(ctx: Context, name: str, on: bool) -> Reading:
    found = LAMPS.get(name)
    return Reading.absent() if found is None else Reading.of(found)
"""


class Line(asyncio.Protocol):
    """One kept-alive connection, with as little work of its own as possible: its work would count as the server's."""

    def __init__(self, token: str, host: str) -> None:
        self._head = (
            f"POST /v1/actions HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\nPrefer: wait=30\r\n"
        )
        self._answer: asyncio.Future[bytes] | None = None
        self._read, self._wanted = b"", 0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._read += data
        if not self._wanted:
            head, end, _ = self._read.partition(b"\r\n\r\n")
            if not end:
                return
            self._wanted = len(head) + 4 + int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(self._read) >= self._wanted and self._answer is not None:
            answer, self._read, self._wanted = self._read, b"", 0
            self._answer.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("The server closed the connection."))

    async def run(self, name: str) -> float:
        """Run one action and return the time in milliseconds. Fails unless the action is verified."""
        body = b'{"contract": "switch", "arguments": {"name": "%s", "on": true}}' % name.encode()
        whole = f"{self._head}Idempotency-Key: {name}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        self._answer = asyncio.get_running_loop().create_future()
        begun = time.perf_counter()
        self._transport.write(whole)
        answer = await self._answer
        took = (time.perf_counter() - begun) * 1_000
        if not (answer.startswith(b"HTTP/1.1 200") and b'"verified":true' in answer):
            raise SystemExit(f"{name} was not verified: {answer[:600]!r}")
        return took

    def close(self) -> None:
        self._transport.close()


@contextmanager
def server(folder: Path, processes: int = 1) -> Iterator[tuple[str, str, int]]:
    """The server's address, a token, and the process id."""
    token, _ = TokenFile(folder / "tokens.json").create(
        tenant="acme", principal="agent:a", rights=("run", "read"), now_us=time.time_ns() // 1_000
    )
    command = [sys.executable, "-m", "readback", "serve", "--port", "0", "--json", "--contracts", "bench_lamps"]
    command += ["--url", f"sqlite:///{folder / f'http-{processes}.db'}", "--tokens", str(folder / "tokens.json")]
    command += ["--processes", str(processes)]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=folder) as process:
        assert process.stdout is not None
        text = ""
        try:
            for line in process.stdout:
                text += line.decode()
                if text.rstrip().endswith("}"):
                    break
            yield str(json.loads(text)["url"]), token, process.pid
        finally:
            process.terminate()
            process.wait()


@asynccontextmanager
async def lines(url: str, token: str, width: int) -> AsyncIterator[list[Line]]:
    """Open connections to the server."""
    where = urlsplit(url)
    host, port = where.hostname or "", where.port or 0
    loop = asyncio.get_running_loop()
    new = partial(Line, token, where.netloc)
    found = [(await loop.create_connection(new, host, port))[1] for _ in range(width)]
    try:
        yield found
    finally:
        for each in found:
            each.close()


async def slice_of(runs: list[Any], prefix: str, calls: int) -> list[float]:
    """The times of `calls` actions over all runners, each runner one after another."""
    names, took = iter(range(calls)), list[float]()

    async def one(run: Any) -> None:
        for n in names:
            took.append(await run(f"{prefix}-{n}"))

    await asyncio.gather(*(one(each) for each in runs))
    return took


def resident_mb(pid: int) -> float:
    """The memory of a process in MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


async def measure(folder: Path) -> dict[str, float]:
    """All figures."""
    (folder / "bench_lamps.py").write_text(MODULE)
    sys.path.insert(0, str(folder))
    import bench_lamps  # type: ignore[import-not-found]

    with server(folder) as (url, token, pid), server(folder, 2) as (url_of_two, token_of_two, _):
        async with (
            AsyncReadback.open(f"sqlite:///{folder / 'sdk.db'}", tenant="acme", principal="agent:a") as rb,
            lines(url, token, WIDTH) as open_lines,
            lines(url_of_two, token_of_two, WIDTH) as lines_of_two,
        ):

            async def direct(name: str) -> float:
                begun = time.perf_counter()
                outcome = await rb.run(bench_lamps.switch(name=name, on=True), operation=name, wait=30)
                took = (time.perf_counter() - begun) * 1_000
                if not outcome.verified:
                    raise SystemExit(outcome.message)
                return took

            sdk, ours, two = list[float](), list[float](), list[float]()
            found: list[float]
            runners = (sdk, [direct] * WIDTH), (ours, [x.run for x in open_lines]), (two, [x.run for x in lines_of_two])
            for n in range(WARM + SLICES):
                for found, each in runners:
                    took = await slice_of(each, f"slice{n}", CALLS)
                    if n >= WARM:
                        found.append(statistics.median(took))
        before = resident_mb(pid)
        async with lines(url, token, FLOOD) as many:
            floods, after = [], []
            for n in range(FLOODS):
                begun = time.perf_counter()
                took = await slice_of([each.run for each in many], f"flood{n}", FLOOD)
                assert len(took) == FLOOD
                floods.append(time.perf_counter() - begun)
                after.append(resident_mb(pid))
        async with lines(url_of_two, token_of_two, FLOOD) as many:
            assert len(await slice_of([each.run for each in many], "flood", FLOOD)) == FLOOD
    added = [http - own for http, own in zip(ours, sdk, strict=True)]
    added_by_two = [http - own for http, own in zip(two, sdk, strict=True)]
    return {
        "sdk_p50_ms": statistics.median(sdk),
        "http_p50_ms": statistics.median(ours),
        "added_p50_ms": statistics.median(added),
        "added_lowest_ms": min(added),
        "added_highest_ms": max(added),
        "two_processes_p50_ms": statistics.median(two),
        "two_processes_added_p50_ms": statistics.median(added_by_two),
        "two_processes_added_lowest_ms": min(added_by_two),
        "two_processes_added_highest_ms": max(added_by_two),
        "flood_seconds": statistics.median(floods),
        "memory_before_mb": before,
        "memory_after_first_flood_mb": after[0],
        "memory_after_last_flood_mb": after[-1],
        "memory_growth_of_last_floods_mb": after[-1] - after[-1 - LEVEL_ROUNDS],
    }


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measure(Path(folder)))
    print(json.dumps({name: round(value, 3) for name, value in found.items()}, indent=1))
    one, two = found["added_p50_ms"], found["two_processes_added_p50_ms"]
    print(f"POST /v1/actions adds {one:.2f} ms p50 at {WIDTH} in flight with one process,")
    print(f"and {two:.2f} ms with two (bound: {BOUND_MS} ms).")
    growth = found["memory_growth_of_last_floods_mb"]
    print(f"{FLOOD} requests in flight, {FLOODS} times: none lost.")
    print(f"Memory grew by {growth:.1f} MB in the last {LEVEL_ROUNDS} rounds (bound: {GROWTH_MAX_MB} MB).")
    return 0 if min(one, two) <= BOUND_MS and growth <= GROWTH_MAX_MB else 1


if __name__ == "__main__":
    sys.exit(main())
