"""Starts the servers and gateways that tests talk to, and sees to it that none is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.architecture.tree import ROOT
from tests.workers import forks
from tests.workers.limit import killed_after

EVERYTHING = (sys.executable, "-W", "ignore", "-m", "tests.gateway.servers.everything")
ROUGH = (sys.executable, "-S", str(Path(__file__).parent / "servers" / "rough.py"))
END_S = 60


def stdio(command: Sequence[str]) -> Any:
    """The SDK's own transport to a command."""
    program, *words = forks.launched(command)
    return stdio_client(StdioServerParameters(command=program, args=words, cwd=ROOT, env={**os.environ}))


def gateway(upstreams: Sequence[Mapping[str, Any]], **told: Any) -> list[str]:
    """The command of a gateway that lets everything through."""
    asked = json.dumps({"upstreams": [*upstreams], **told})
    return [sys.executable, "-W", "ignore", "-m", "tests.gateway.passing", asked]


@contextmanager
def listening(command: Sequence[str]) -> Iterator[str]:
    """A process that serves HTTP: its address. It is ended by SIGTERM, as a service is."""
    process = forks.start(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        with killed_after(process):
            url = process.stdout.readline().strip()
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(END_S)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def none_left(marked: str) -> bool:
    """Whether all of them end; one that was killed may take a moment."""
    pause = threading.Event()
    for _ in range(END_S * 20):
        if not running(marked):
            return True
        pause.wait(0.05)
    return False


def running(marked: str) -> list[int]:
    """The processes in whose environment a mark stands."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                environment = (folder / "environ").read_bytes()
            except OSError:
                continue
            if marked.encode() in environment:
                found.append(int(folder.name))
    return found
