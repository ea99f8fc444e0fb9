"""Delivery by real processes: one at a time, and killed by the kernel in the middle of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from readback import bootstrap
from readback.engine.outbox import log_of, messages_at
from readback.testing.runtime_virtual import VirtualRuntime
from tests.architecture.tree import ROOT
from tests.sdk.telling import run_some
from tests.workers import forks

pytestmark = pytest.mark.slow
ACTIONS = 6
PATIENCE_SECONDS = 120


@dataclass
class Receiver:
    """`before` and `after` are called with the number of the request, from 1, before and after it is answered."""

    got: list[str] = field(default_factory=list)
    before: Callable[[int], None] = lambda _: None
    after: Callable[[int], None] = lambda _: None
    answers: dict[int, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""

    def take(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        with self.lock:
            self.got.append(str(json.loads(body)["id"]))
            number = len(self.got)
        assert handler.headers["webhook-id"] == json.loads(body)["id"]
        self.before(number)
        try:
            handler.send_response_only(self.answers.get(number, 204))
            handler.end_headers()
            handler.wfile.flush()
        except ConnectionError:
            return  # it was killed
        self.after(number)


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.take(self)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


@pytest.fixture
def url(tmp_path: Path) -> str:
    found = f"sqlite:///{tmp_path / 'ledger.db'}"
    store = bootstrap.store(found)
    run_some(store, VirtualRuntime(), *(str(number) for number in range(ACTIONS)))
    store.close()
    return found


def start(url: str, receiver: Receiver) -> subprocess.Popen[bytes]:
    return forks.start(
        [sys.executable, "-m", "tests.sdk.teller", url, receiver.url],
        cwd=ROOT,
        env={**os.environ, "TELLER_SECRET": "x" * 32},
        stdin=subprocess.DEVNULL,
    )


def to_tell(url: str) -> list[str]:
    store = bootstrap.store(url, read_only=True)
    log = log_of(store)
    found = [message.id for entry in store.scan() for message in messages_at(store, log, entry)]
    store.close()
    return found


@pytest.mark.requirement("CLAIM-events")
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", [1, 3])
def test_a_process_killed_in_the_middle_loses_nothing_and_tells_twice_only_under_the_same_id(
    url: str, receiver: Receiver, moment: str, number: int
) -> None:
    victims: list[subprocess.Popen[bytes]] = []

    ready = threading.Event()

    def kill(at: int) -> None:
        if at == number:
            assert ready.wait(PATIENCE_SECONDS)
            victims[0].send_signal(signal.SIGKILL)
            victims[0].wait(PATIENCE_SECONDS)

    setattr(receiver, moment, kill)
    victims.append(start(url, receiver))
    ready.set()
    assert victims[0].wait(PATIENCE_SECONDS) == -signal.SIGKILL
    assert start(url, receiver).wait(PATIENCE_SECONDS) == 0, "the dead one's lease is taken over at once"
    wanted = to_tell(url)
    assert list(dict.fromkeys(receiver.got)) == wanted
    if moment == "before":
        assert len(receiver.got) > len(wanted), "what was in hand is told again"


def test_of_several_processes_one_delivers_at_a_time(url: str, receiver: Receiver) -> None:
    started = [start(url, receiver) for _ in range(3)]
    assert [each.wait(PATIENCE_SECONDS) for each in started] == [0, 0, 0]
    assert receiver.got == to_tell(url), "each message once, and in order"


def test_a_receiver_that_answers_500_and_then_200_is_tried_again_by_itself(url: str, receiver: Receiver) -> None:
    receiver.answers[2] = 500
    assert start(url, receiver).wait(PATIENCE_SECONDS) == 0
    while (code := start(url, receiver).wait(PATIENCE_SECONDS)) == 0 and len(receiver.got) <= ACTIONS:
        continue  # its pause has not passed yet
    assert code == 0
    wanted = to_tell(url)
    assert receiver.got == [wanted[0], wanted[1], *wanted[1:]]
