"""The client in processes of its own: signals of the system, other processes, notebooks, and the way out."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from readback import Readback
from tests.architecture.tree import ROOT
from tests.sdk.given import PRINCIPAL, TENANT
from tests.workers import forks

SECONDS_MAX = 20
"""For a process to start, or to say something: far below what it would take to wait for a lease or a poll."""


class Program:
    """A user's program; what it says is waited for, and never for long."""

    def __init__(self, folder: Path, what: str) -> None:
        self.process = forks.start(
            [sys.executable, "-m", "tests.sdk.program", str(folder), what],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._heard = b""

    def hear(self) -> str:
        out = self.process.stdout
        assert out is not None
        while b"\n" not in self._heard:
            assert select.select([out], [], [], SECONDS_MAX)[0], "it says nothing"
            piece = os.read(out.fileno(), 65536)
            assert piece, self.end()[1]
            self._heard += piece
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()

    def is_silent(self) -> bool:
        """For a moment at least."""
        return not self._heard and not select.select([self.process.stdout], [], [], 0.2)[0]

    def told(self) -> dict[str, Any]:
        while not (line := self.hear()).startswith("{"):
            pass
        outcome: dict[str, Any] = json.loads(line)["told"]
        return outcome

    def end(self) -> tuple[int, str]:
        """Its exit status and what it wrote on stderr; it has to end by itself."""
        _, errors = self.process.communicate(timeout=SECONDS_MAX)
        return self.process.returncode, errors.decode()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    order = {"id": "o-1", "tenant": "acme", "status": "open", "version": 0, "stamp": ""}
    (tmp_path / "order.json").write_text(json.dumps(order))
    return tmp_path


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[[str], Program]]:
    started: list[Program] = []

    def begin(what: str) -> Program:
        started.append(Program(folder, what))
        return started[-1]

    yield begin
    for each in started:
        each.close()


def _client(folder: Path) -> Readback:
    return Readback.open(f"sqlite:///{folder}/ledger.db", tenant=TENANT, principal=PRINCIPAL)


def test_an_interrupt_from_outside_is_recorded_and_ends_the_program(
    folder: Path, start: Callable[[str], Program]
) -> None:
    program = start("call")
    assert program.hear().startswith("calling")
    program.process.send_signal(signal.SIGINT)
    status, errors = program.end()
    assert status == -signal.SIGINT
    assert "KeyboardInterrupt" in errors
    with _client(folder) as rb:
        [kept] = rb.list()
    assert kept.observation is not None
    assert (kept.observation.status.value, kept.verified) == ("cancelled", True)


def test_a_program_that_is_terminated_is_followed_by_one_that_reads_back_at_once(
    folder: Path, start: Callable[[str], Program]
) -> None:
    """Without a handler SIGTERM ends a process where it stands; the next start takes the dead one's lease over."""
    program = start("call")
    assert program.hear().startswith("calling")
    program.process.send_signal(signal.SIGTERM)
    assert program.end()[0] == -signal.SIGTERM
    told = start("resume").told()
    assert (told["verified"], told["attempts"], told["attribution"]) == (True, 1, "ours")


@pytest.mark.requirement("TRUTH-time-signal")
def test_a_signal_from_another_process_wakes_a_waiting_one(folder: Path, start: Callable[[str], Program]) -> None:
    """The next poll is in half an hour; the waiting process looks every second whether somebody wants it to read."""
    program = start("wait")
    action_id = program.hear().removeprefix("waiting ")
    with _client(folder) as rb:
        [waiting] = rb.list()
        assert waiting.id == action_id
        order = {"id": "o-1", "tenant": "acme", "status": "shipped", "version": 1, "stamp": waiting.stamp}
        (folder / "order.json").write_text(json.dumps(order))
        # One that comes while the reading is still on its way is lost: so it is said until it is heard.
        while program.is_silent():
            rb.signal(waiting.stamp)
    assert program.told()["verified"]
    assert program.end() == (0, "")


def test_a_tool_that_hangs_does_not_keep_the_program_from_ending(start: Callable[[str], Program]) -> None:
    program = start("give-up")
    told = program.told()
    assert (told["verified"], told["observation"]["status"]) == (True, "timeout")
    assert program.end() == (0, "")


def test_it_works_in_a_notebook(start: Callable[[str], Program]) -> None:
    program = start("notebook")
    told = [program.told() for _ in range(3)]
    assert [each["operation"] for each in told] == ["sync", "async", "given up"]
    assert [each["verified"] for each in told] == [True] * 3
    assert program.end() == (0, "")


FORKED = """
import os, signal, sys, threading, warnings
from readback import Readback, Subscriber

warnings.simplefilter("ignore", DeprecationWarning)  # since Python 3.12, of a fork beside threads

folder, what = sys.argv[1:]
rb = Readback.open(
    f"sqlite:///{folder}/forked.db", tenant="acme", principal="agent:ops",
    subscribers=[Subscriber(name="ear", file=f"{folder}/told.jsonl")],
)
bell, rung = rb._session.courier._lanes[0]._bell, threading.Event()

def work():  # a thread of ours, in the moment of the fork
    with bell:
        rung.set()
        over.wait()

over = threading.Event()
thread = threading.Thread(target=work)
thread.start()
rung.wait()
child = os.fork()
if child == 0:
    signal.alarm(10)
    try:
        getattr(rb, what)()
    except Exception as error:
        print(error.code, flush=True)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
over.set()
thread.join()
rb.close()
"""


@pytest.mark.parametrize(("what", "said"), [("close", "0"), ("resume", "store.forked 0")])
def test_a_child_that_was_forked_waits_for_no_thread_of_its_parent(folder: Path, what: str, said: str) -> None:
    ended = forks.start(
        [sys.executable, "-c", FORKED, str(folder), what], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ).communicate(timeout=SECONDS_MAX)
    assert (ended[0].decode().split(), ended[1]) == (said.split(), b"")
