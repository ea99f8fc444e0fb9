"""Real processes, real signals, real time: a clean stop, a kill, and somebody else who goes on.

What waits here waits for another process, never for time to pass.
"""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from readback import bootstrap
from readback.errors import StoreError
from readback.ports.storage.store import ActionFilter
from tests.cli import shop
from tests.cli.conftest import CONTRACTS, Desk
from tests.workers import forks
from tests.workers.limit import killed_after

HERE = ("--contracts", CONTRACTS)
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.02


def until(seen: Callable[[], bool]) -> None:
    """Looks again and again for what another process does."""
    pause = threading.Event()
    for _ in range(int(PATIENCE_SECONDS / LOOK_SECONDS)):
        if seen():
            return
        pause.wait(LOOK_SECONDS)
    raise AssertionError("It never came.")


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A desk at which every command is a process of its own."""
    from readback.testing.runtime_virtual import VirtualRuntime

    monkeypatch.setenv("SHOP_FILE", str(tmp_path / "shop.json"))
    one = Desk(tmp_path, VirtualRuntime())
    yield one
    one.end()


def newest(desk: Desk) -> str:
    """The state of the newest action, by a look into the ledger."""
    try:
        store = bootstrap.store(f"sqlite:///{desk.ledger}", read_only=True)
    except StoreError:
        return ""  # it is only just being made
    try:
        page = store.page(ActionFilter(limit=1))
    finally:
        store.close()
    return page[0].projection.state if page else ""


def start_hanging(desk: Desk, *args: str) -> subprocess.Popen[str]:
    """A process that is in the middle of the tool's call."""
    started = desk.process(*args)
    until(Path(f"{shop.path()}.hanging").exists)
    return started


def ship(how: str, operation: str = "a") -> tuple[str, ...]:
    given = ("--arg", "order_id=o-17", "--arg", "carrier=dhl", "--arg", f"how={how}")
    return ("run", "ship", *HERE, *given, "--operation", operation)


def ends(started: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = started.communicate(timeout=PATIENCE_SECONDS)
    return started.returncode, out, err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_worker_stops_cleanly_at_a_signal(real: Desk, number: signal.Signals) -> None:
    real.spawn(*ship("lie"), "--wait", "0", code=3)
    worker = real.process("worker", *HERE)
    assert worker.stderr is not None
    with killed_after(worker):
        assert "Working for tenant default" in worker.stderr.readline()
    until(lambda: newest(real) != "pending")
    worker.send_signal(number)
    code, _, err = ends(worker)
    assert code == 0, err
    assert "Stopping" in err
    assert "Stopped." in err
    findings = {each["name"]: each for each in real.spawn("doctor", "--json", code=0).json["findings"]}
    assert findings["leases"]["details"]["owners"] == []
    assert real.spawn("ledger", "verify", "--json", code=0).json["ok"]


def test_a_worker_without_work_stops_at_once(real: Desk) -> None:
    worker = real.process("worker", *HERE)
    assert worker.stderr is not None
    with killed_after(worker):
        worker.stderr.readline()
    worker.send_signal(signal.SIGTERM)
    assert ends(worker)[0] == 0


@pytest.mark.parametrize("tool", ["hang", "block"])
def test_a_second_signal_cancels_the_call_in_hand_and_that_is_on_record(real: Desk, tool: str) -> None:
    """Also where the tool blocks its thread: it is given up, and does not keep the process from ending."""
    (real.folder / "held.py").write_text(HELD, encoding="utf-8")
    real.spawn("run", tool, "--contracts", "held", "--arg", "n=1", "--operation", "a", "--wait", "0", "--json")
    hanging = real.folder / "hanging"
    worker = real.process("worker", "--contracts", "held")
    until(hanging.exists)
    worker.send_signal(signal.SIGTERM)
    assert worker.stderr is not None
    with killed_after(worker):
        while "Stopping" not in worker.stderr.readline():
            assert worker.poll() is None
    worker.send_signal(signal.SIGTERM)
    code, _, err = ends(worker)
    assert code == 0, err
    assert "Cancelling" in err
    assert real.spawn("ledger", "verify", "--json", code=0).json["ok"]
    assert real.spawn("list", "--json").json[0]["state"] in ("pending", "unknown")


HELD = """
import asyncio, os, threading
from pathlib import Path
from readback import Context, Reading, action

TERMS = dict(kind="set", side_effect="ephemeral_write", target="x/{requested.n}", ensure={"on": "authoritative.on"},
             identity={"target": "authoritative.id", "tenant": "not_offered"}, within="1s", deadline="60s",
             polls=["0s", "100ms"])

@action(name="hang", **TERMS)
async def hang(ctx: Context, n: int) -> object:
    return {"ok": True}

@hang.read(source="x", consistency="strong", independence="other_client", timeout="50s")
async def hang_row(ctx: Context, n: int) -> Reading:
    if os.path.exists("armed"):
        Path("hanging").write_text("")
        await asyncio.get_running_loop().create_future()
    Path("armed").write_text("")
    return Reading.of({"id": "1", "on": False})

@action(name="block", **TERMS)
def block(ctx: Context, n: int) -> object:
    return {"ok": True}

@block.read(source="x", consistency="strong", independence="other_client", timeout="50s")
def block_row(ctx: Context, n: int) -> Reading:
    if os.path.exists("armed"):
        Path("hanging").write_text("")
        threading.Event().wait(50)
    Path("armed").write_text("")
    return Reading.of({"id": "1", "on": False})
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_ctrl_c_in_the_middle_of_a_call_is_recorded_and_answers_with_the_id(real: Desk, number: signal.Signals) -> None:
    """And so is a terminal that is closed."""
    started = start_hanging(real, *ship("hang"), "--json")
    started.send_signal(number)
    code, out, err = ends(started)
    assert code in (3, 4), err
    assert "Interrupted" in err
    listed = real.spawn("list", "--json").json[0]
    assert listed["id"] in out
    told = real.spawn("show", listed["id"], "--json").json["outcome"]
    assert told["observation"]["status"] == "cancelled"
    assert not told["verified"]
    assert told["attempts"] == 1


def test_sigterm_while_it_waits_leaves_the_action_to_whoever_goes_on(real: Desk) -> None:
    started = real.process(*ship("lie"))
    until(lambda: newest(real) == "pending")
    started.send_signal(signal.SIGTERM)
    code, _, err = ends(started)
    assert code == 3, err
    assert "readback resume --contracts tests.cli.shop" in err


@pytest.mark.requirement("TRUTH-time-durable-wait")
def test_after_kill_9_another_worker_goes_on_and_nothing_is_done_twice(real: Desk) -> None:
    started = start_hanging(real, *ship("hang"))
    os.kill(started.pid, signal.SIGKILL)
    started.communicate(timeout=PATIENCE_SECONDS)
    held = real.spawn("list", "--json").json[0]
    assert held["state"] == "executing"
    assert real.spawn("show", held["id"], "--json").json["lease"]["owner_is_gone"]
    answer = real.spawn("worker", *HERE, "--until-idle", "--json")
    assert answer.json["errors"] == []
    told = real.spawn("show", held["id"], "--json").json["outcome"]
    assert told["state"] == "unknown"
    assert told["observation"] is None
    assert told["attempts"] == 1
    assert real.spawn("ledger", "verify", "--json", code=0).json["ok"]


def test_two_workers_on_one_ledger_do_everything_once(real: Desk) -> None:
    for number in range(4):
        real.spawn(*ship("lie", f"op{number}"), "--wait", "0", code=3)
    workers = [real.process("worker", *HERE, "--until-idle", "--json") for _ in range(2)]
    for worker in workers:
        code, _, err = ends(worker)
        assert code in (0, 3), err
    assert {each["state"] for each in real.spawn("list", "--json").json} == {"unknown"}
    assert real.spawn("ledger", "verify", "--json", code=0).json["ok"]


def on_a_terminal(desk: Desk, *args: str, **environment: str) -> str:
    """What a command draws where stdout is a terminal."""
    ours, theirs = pty.openpty()
    try:
        done = forks.run(
            [forks.READBACK, *args],
            cwd=desk.folder,
            env={**desk.environment(), "TERM": "xterm-256color", **environment},
            stdin=subprocess.DEVNULL,
            stdout=theirs,
        )
        assert done.returncode == 0, done.stderr
    finally:
        os.close(theirs)
    try:
        return os.read(ours, 65_536).decode()
    finally:
        os.close(ours)


def test_a_terminal_gets_colours_and_one_that_asks_for_none_gets_none(real: Desk) -> None:
    real.spawn(*ship(""), code=0)
    assert "\x1b[32m" in on_a_terminal(real, "list")
    plain = on_a_terminal(real, "list", NO_COLOR="1")
    assert "\x1b[3" not in plain
    assert "order/o-17" in plain
    assert "\x1b[3" not in on_a_terminal(real, "list", TERM="dumb")


def test_the_whole_path_from_the_shell(real: Desk) -> None:
    """As a person would: run, list, show, explain, verify; each as a process that is started and not forked."""
    real = replace(real, forked=False)
    ran = real.spawn(*ship(""), code=0)
    assert ran.out.startswith("VERIFIED  ship on order/o-17")
    assert ran.err == ""
    listed = real.spawn("list", code=0).out
    assert "order/o-17" in listed
    found = real.spawn("list", "--json", code=0).json[0]["id"]
    assert "States side by side" in real.spawn("show", found, "-v", code=0).out
    assert "The action is done" in real.spawn("explain", found, code=0).out
    assert "sound" in real.spawn("ledger", "verify", code=0).out
    again = real.spawn(*ship(""), "--json", code=0)
    assert again.json["replayed"]
