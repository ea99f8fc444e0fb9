"""Processes of the engines' tests: each has a limit of its own, and ends with the test."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT_SECONDS = 60


def environment(home: Path) -> dict[str, str]:
    """The environment of a worker: the shop's folder, and no proxy or setting from outside."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH")}
    return {**kept, "SHOP_HOME": str(home), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}


@contextmanager
def process(command: Sequence[str], home: Path, log: str, ready: str = "") -> Iterator[subprocess.Popen[str]]:
    """Start a program, wait for its line `ready`, and end the program with the block."""
    with (home / log).open("a") as errors:
        started = subprocess.Popen(
            command, cwd=home, env=environment(home), stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert started.stdout is not None
    drain: threading.Thread | None = None
    limit = threading.Timer(LIMIT_SECONDS, started.kill)
    limit.start()
    try:
        if ready:
            for line in started.stdout:
                if ready in line:
                    break
            else:
                raise AssertionError(f"{command[-1]} ended before {ready!r}: {(home / log).read_text()[-4000:]}")
        drain = threading.Thread(target=deque, args=(started.stdout, 0), daemon=True)
        drain.start()
        yield started
    finally:
        limit.cancel()
        started.kill()
        started.wait(LIMIT_SECONDS)
        if drain is not None:
            drain.join(LIMIT_SECONDS)
        started.stdout.close()


class Supervised:
    """A worker that is started again when it dies, as an operator's supervisor does."""

    def __init__(self, command: list[str], home: Path) -> None:
        self.started = 0
        self._first = threading.Event()
        self._command, self._home, self._ended = command, home, threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def _keep(self) -> None:
        while not self._ended.is_set():
            with process(self._command, self._home, "worker.log", "ready") as self._worker:
                self.started += 1
                self._first.set()
                self._worker.wait(LIMIT_SECONDS)

    def __enter__(self) -> Supervised:
        self._thread.start()
        assert self._first.wait(LIMIT_SECONDS), (self._home / "worker.log").read_text()[-4000:]
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._worker.kill()
        self._thread.join(LIMIT_SECONDS)


def python(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of the tests."""
    return [sys.executable, "-m", module, *arguments]


def post(url: str, body: object, key: str = "") -> tuple[int, str]:
    """Send JSON to a server of this machine; the answer's code and text, or 0 where nothing listens.

    `key`: the idempotency key of the request.
    """
    headers = {"content-type": "application/json", **({"idempotency-key": key} if key else {})}
    return _asked(urllib.request.Request(url, json.dumps(body).encode(), headers))


def get(url: str) -> tuple[int, str]:
    """Ask a server of this machine; the answer's code and text, or 0 where nothing listens."""
    return _asked(urllib.request.Request(url))


def _asked(request: urllib.request.Request) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except (urllib.error.URLError, ConnectionError) as error:
        return 0, str(error)


def free_port() -> int:
    """A port of this machine that no program uses."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
