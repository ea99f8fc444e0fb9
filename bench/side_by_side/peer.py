"""A program that is measured, as a process: it is asked for slices, killed, and started again."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from bench.side_by_side.environments import ROOT

ANSWER_S_MAX: Final = 180.0
END_S_MAX: Final = 60.0
RECOVERY_S_MAX: Final = 45.0
CHUNK_BYTES: Final = 65_536


class PeerError(Exception):
    """A program ended or said nothing: the measurement is void. What it wrote to its standard error is in the text."""


class Peer:
    """The process. `errors` is the file that its standard error goes to."""

    def __init__(self, python: Path, program: str, url: str, *mode: str, errors: Path) -> None:
        self._errors = errors
        self._read = b""
        with errors.open("ab") as told:
            self._process = subprocess.Popen(
                [str(python), "-m", f"bench.against.{program}", url, *mode],
                cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=told,
                env=os.environ | {"PYTHONPATH": str(ROOT)}, start_new_session=True,
            )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in: IO[bytes] = self._process.stdin
        self._out: IO[bytes] = self._process.stdout
        self._wanted = selectors.DefaultSelector()
        self._wanted.register(self._out, selectors.EVENT_READ)

    def answer(self, within_s: float = ANSWER_S_MAX) -> dict[str, Any]:
        """Its next answer. What it prints besides is passed over. Raises PeerError if it ends or is late."""
        late = time.monotonic() + within_s
        while True:
            line, found, rest = self._read.partition(b"\n")
            if found:
                self._read = rest
                if line.startswith(b"{"):
                    answer: dict[str, Any] = json.loads(line)
                    return answer
                continue
            if not self._wanted.select(max(0.0, late - time.monotonic())):
                raise PeerError(f"no answer within {within_s:.0f} s")
            more = os.read(self._out.fileno(), CHUNK_BYTES)
            if not more:
                raise PeerError(f"it ended: {self._errors.read_text(errors='replace')[-2000:]}")
            self._read += more

    def ask(self, **command: Any) -> dict[str, Any]:
        """A command, and the answer to it."""
        self._in.write(json.dumps(command).encode() + b"\n")
        self._in.flush()
        return self.answer()

    def end(self) -> dict[str, Any]:
        """Lets it close its store and end; its last answer."""
        last = self.ask(end=True)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S_MAX)
        self.kill()
        return last

    def kill(self) -> None:
        """kill -9, with all it has started. May be called twice, and after the end."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._wanted.close()
        self._out.close()
        with suppress(BrokenPipeError):
            self._in.close()


class Recovery(NamedTuple):
    """`seconds`: from the new process's start until the action was settled; None: not within the limit.

    `calls`: how often the tool was called for it, before and after.
    """

    seconds: float | None
    calls: int


def recovery(python: Path, program: str, url: str, folder: Path, limit_s: float = RECOVERY_S_MAX) -> Recovery:
    """Lets a process begin an action, kills it behind the tool's effect, and times the next one."""
    name, world = "cut-off", folder / "orders.jsonl"
    first = Peer(python, program, url, "interrupt", name, str(world), errors=folder / "interrupt.err")
    try:
        while "interrupted" not in first.answer():
            continue
    finally:
        first.kill()
    began = time.perf_counter()
    second = Peer(python, program, url, "recover", name, str(world), errors=folder / "recover.err")
    seconds: float | None = None
    try:
        second.answer(limit_s)
        seconds = time.perf_counter() - began
    except PeerError as fault:
        if "no answer" not in str(fault):
            raise
    finally:
        second.kill()
    return Recovery(seconds, len(world.read_text(encoding="utf-8").splitlines()))
