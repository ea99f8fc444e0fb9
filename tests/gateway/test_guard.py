"""A gateway that is killed leaves no server behind, whatever the server makes of it; real processes throughout."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from readback.gateway.upstream.process import Guard
from tests.architecture.tree import ROOT
from tests.gateway.processes import END_S, ROUGH, gateway, none_left, running
from tests.workers.watchdog import descendants

STUBBORN = [*ROUGH, "stubborn"]
"""Goes on when its stdin has ended, and when it is asked to end."""
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def guards() -> set[int]:
    found = set()
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"readback-guard" in line.read_bytes():
                found.add(int(line.parent.name))
        except OSError:
            continue
    return found


def greeted(command: list[str], mark: str) -> subprocess.Popen[bytes]:
    """A gateway whose server has answered."""
    told = {"command": command, "env": {"MARK": mark}}
    process = subprocess.Popen(gateway([told]), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for message in (
        {"id": 1, "method": "initialize", "params": HELLO},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "next"}},
    ):
        say(process, message)
    assert process.stdout is not None
    assert [json.loads(process.stdout.readline())["id"] for _ in range(2)] == [1, 2]
    return process


def say(process: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdout.close()


@pytest.mark.slow
@pytest.mark.parametrize("started", ["itself", "by a shell"])
def test_a_killed_gateway_leaves_no_server_and_none_that_its_server_started(tmp_path: Path, started: str) -> None:
    mark = str(tmp_path)
    command = STUBBORN if started == "itself" else ["/bin/sh", "-c", '"$@"; exit 7', "sh", *STUBBORN]
    process = greeted(command, mark)
    try:
        assert len(running(mark)) == (1 if started == "itself" else 2)
        process.send_signal(signal.SIGKILL)
        process.wait(END_S)
        assert none_left(mark)
    finally:
        end(process)


@pytest.mark.slow
def test_a_gateway_that_ends_in_order_leaves_no_guard(tmp_path: Path) -> None:
    process = greeted([*ROUGH], str(tmp_path))
    try:
        ours = guards() & {*descendants(process.pid)}  # others are at work beside this one
        assert ours
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(END_S) == 0
        assert not (guards() & ours)
    finally:
        end(process)


def test_a_guard_that_is_dismissed_kills_nobody() -> None:
    with subprocess.Popen(
        [sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    ) as kept:
        guard = Guard(kept.pid)
        guard.dismiss()
        guard.dismiss()
        assert kept.poll() is None
        kept.communicate(b"\n")
        assert kept.returncode == 0


def test_without_a_shell_nothing_is_guarded_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("readback.gateway.upstream.process.SHELL", "/nowhere/sh")
    guard = Guard(1)
    guard.dismiss()
    assert "No watchdog ends the server if the gateway is killed" in caplog.text
