"""Lines over pipes, on each event loop: whole, in their order, bounded, and written before anybody waits."""

from __future__ import annotations

import asyncio
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from readback.gateway.upstream.process import process_lines
from readback.gateway.wire import pipes
from readback.gateway.wire.jsonl import TooLong
from readback.gateway.wire.pipes import Held, Incoming, Outgoing
from tests.gateway.loops import LOOPS, run_on

LINE_MAX, HEAD = 1000, 100
pytestmark = [pytest.mark.requirement("GATEWAY-measured"), pytest.mark.parametrize("loop", LOOPS)]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipes, "MESSAGE_MAX_BYTES", LINE_MAX)
    monkeypatch.setattr(pipes, "HEAD_BYTES", HEAD)


@pytest.mark.parametrize("piece", [1, 7, 1 << 16])
def test_lines_come_whole_and_in_their_order_however_they_are_cut(loop: str, piece: int) -> None:
    lines = [b"one\n", b"\n", b"x" * LINE_MAX + b"\n", b"three\n", b"the rest"]
    whole = b"".join(lines)

    async def main() -> list[bytes | TooLong]:
        found: list[bytes | TooLong] = []
        over = asyncio.Event()
        read, write = os.pipe()
        transport = await Incoming.of(read, found.append, over.set)
        for begins in range(0, len(whole), piece):
            os.write(write, whole[begins : begins + piece])
            await asyncio.to_thread(lambda: None)  # so that most pieces are read by themselves
        os.close(write)
        await asyncio.wait_for(over.wait(), 30)
        transport.close()
        return found

    assert run_on(loop, main()) == lines


@pytest.mark.parametrize("piece", [64, 1 << 16])
def test_of_a_line_that_is_too_long_both_ends_are_kept_and_the_next_one_is_whole(loop: str, piece: int) -> None:
    long = b"a" * HEAD + b"-" * LINE_MAX + b"z" * (HEAD - 1)

    async def main() -> list[bytes | TooLong]:
        found: list[bytes | TooLong] = []
        over = asyncio.Event()
        protocol = Incoming(found.append, over.set)
        whole = long + b"\nnext\n" + long
        for begins in range(0, len(whole), piece):
            protocol.data_received(whole[begins : begins + piece])
        protocol.connection_lost(None)
        assert over.is_set()
        return found

    cut, after = run_on(loop, main())  # what never ended was too long as well, and is nobody's
    assert isinstance(cut, TooLong)
    assert (cut.head, cut.tail[-HEAD + 1 :]) == (b"a" * HEAD, b"z" * (HEAD - 1))
    assert after == b"next\n"


def test_what_is_written_is_in_the_pipe_before_anybody_waits_and_the_rest_follows(loop: str) -> None:
    async def main() -> None:
        read, write = os.pipe()
        out = Outgoing()
        await out.begin(write, high=0)
        out.write(b"first\n")
        assert os.read(read, 100) == b"first\n"  # so that a commit on the loop holds up no call before it
        await out.drain()
        large = b"x" * (1 << 20)
        out.write(large)
        drained = asyncio.ensure_future(out.drain())
        found = b""
        while len(found) < len(large):
            found += await asyncio.to_thread(os.read, read, 1 << 16)
        await asyncio.wait_for(drained, 30)
        assert found == large
        out.close()
        assert await asyncio.to_thread(os.read, read, 1) == b""
        os.close(read)

    run_on(loop, main())


def test_whoever_waits_for_a_reader_that_goes_is_told(loop: str) -> None:
    async def main() -> None:
        read, write = os.pipe()
        out = Outgoing()
        await out.begin(write)
        out.write(b"x" * (1 << 20))
        drained = asyncio.ensure_future(out.drain())
        await asyncio.to_thread(lambda: None)
        os.close(read)
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(drained, 30)
        with pytest.raises(ConnectionError):
            await out.drain()
        out.write(b"more")  # is lost
        out.abort()
        out.close()

    run_on(loop, main())


def test_a_descriptor_is_closed_once_and_never_another_one_of_its_number(loop: str) -> None:
    async def main() -> None:
        over = asyncio.Event()
        read, write = os.pipe()
        transport = await Incoming.of(read, lambda line: None, over.set)
        transport.close()
        await asyncio.wait_for(over.wait(), 30)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(read)
        os.close(write)

    run_on(loop, main())
    read, write = os.pipe()
    held = Held(read)
    os.close(read)
    other = os.open(os.devnull, os.O_RDONLY)
    assert other == read
    held.close()  # as some loops do when they have closed it themselves
    os.fstat(other)
    os.close(other)
    os.close(write)


def test_a_server_is_spoken_to_and_its_end_is_heard_though_its_child_holds_the_pipe(
    loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is taken, whoever waits for it, and nothing is left."""
    monkeypatch.setattr("readback.gateway.upstream.process.DRAIN_S", 0.05)
    program = (
        "import subprocess, sys; line = sys.stdin.readline();"
        "child = subprocess.Popen(['sleep', '1000']);"
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid))"
    )

    async def main() -> None:
        async with process_lines([sys.executable, "-S", "-c", program]) as dispatcher:
            running = asyncio.ensure_future(dispatcher.run(None, None, lambda *_: True))  # type: ignore[arg-type]
            await dispatcher.ready.wait()
            await dispatcher.notify("notifications/none", None)
            await asyncio.wait_for(running, 30)

    before = _children()
    run_on(loop, main())
    assert _children() == before
    assert _ends(int((tmp_path / "child").read_text()))


def _ends(pid: int) -> bool:
    """Whether it has ended, or does so: who was killed takes as long for that as the system does."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 30)[0])
    finally:
        os.close(descriptor)


def _children() -> set[str]:
    listed = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(os.getpid())], capture_output=True, text=True)
    return {line for line in listed.stdout.splitlines() if not line.endswith(" ps")}
