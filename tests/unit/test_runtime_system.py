"""The real runtime: time that never steps back, ids in order, owners whose end can be proven, sleep that wakes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from readback.adapters import runtime_system
from readback.adapters.runtime_system import SystemRuntime
from readback.ports.runtime import Runtime

FOREVER = 3_000.0
LIMIT_SECONDS = 30.0


@pytest.fixture
def runtime() -> SystemRuntime:
    return SystemRuntime()


def test_it_is_a_runtime(runtime: SystemRuntime) -> None:
    given: Runtime = runtime
    assert 0 <= given.jitter() < 1


# --- time and ids ------------------------------------------------------------------------------------------


class Clocks:
    """What the machine's two clocks say."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall_us = 1_000_000_000
        self.monotonic_us = 0
        monkeypatch.setattr(time, "time_ns", lambda: self.wall_us * 1000)
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.monotonic_us * 1000)

    def pass_us(self, us: int) -> None:
        self.wall_us += us
        self.monotonic_us += us


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


def test_time_is_the_wall_clock(runtime: SystemRuntime, clocks: Clocks) -> None:
    assert runtime.now_us() == 1_000_000_000
    clocks.wall_us += 5_000
    assert runtime.now_us() == 1_000_005_000


def test_a_clock_that_is_set_back_goes_on_at_half_speed_until_it_has_caught_up(
    runtime: SystemRuntime, clocks: Clocks
) -> None:
    before = runtime.now_us()
    clocks.wall_us -= 1_000_000
    seen = [before]
    for _ in range(25):
        clocks.pass_us(100_000)
        seen.append(runtime.now_us())
    assert seen == sorted(seen)
    assert seen[2] == before + 100_000, "two tenths of a second on, one tenth has passed"
    assert seen[-1] == clocks.wall_us


def test_ids_are_in_the_order_of_their_creation(runtime: SystemRuntime, clocks: Clocks) -> None:
    ids = []
    for number in range(3_000):
        clocks.pass_us(number % 700)
        ids.append(runtime.new_id())
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)
    assert {len(name) for name in ids} == {26}
    assert all(name.isascii() and name.isalnum() and name == name.lower() for name in ids)


def test_ids_go_on_upwards_when_the_clock_is_set_back(runtime: SystemRuntime, clocks: Clocks) -> None:
    first = runtime.new_id()
    clocks.wall_us -= 3_600_000_000
    assert runtime.new_id() > first


def test_ids_of_two_runtimes_in_one_millisecond_differ(clocks: Clocks) -> None:
    runtimes = [SystemRuntime() for _ in range(50)]
    ids = {runtime.new_id() for runtime in runtimes for _ in range(50)}
    assert len(ids) == 2_500


# --- owners ------------------------------------------------------------------------------------------------


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs until its stdin is closed."""
    code = "import sys; sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def owner_of(runtime: SystemRuntime, pid: int) -> str:
    host, boot, namespace, _, _ = runtime.owner().split("/")
    stat = runtime_system._stat_of(pid)
    assert stat is not None
    return f"{host}/{boot}/{namespace}/{pid}/{stat.started}"


def test_an_owner_names_this_process(runtime: SystemRuntime) -> None:
    assert runtime.owner() == SystemRuntime().owner() == runtime.owner()
    assert runtime.owner().split("/")[3] == str(os.getpid())
    assert not runtime.is_owner_dead(runtime.owner())


def test_a_process_is_gone_once_it_has_ended_and_not_before(
    runtime: SystemRuntime, child: subprocess.Popen[bytes]
) -> None:
    owner = owner_of(runtime, child.pid)
    assert not runtime.is_owner_dead(owner)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert runtime.is_owner_dead(owner), "it has ended, though nobody has reaped it"
    child.wait()
    assert runtime.is_owner_dead(owner)


def test_a_stopped_process_is_not_gone(runtime: SystemRuntime, child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    assert not runtime.is_owner_dead(owner_of(runtime, child.pid))


def test_a_number_that_was_given_again_is_another_process(runtime: SystemRuntime) -> None:
    parts = runtime.owner().split("/")
    assert runtime.is_owner_dead("/".join([*parts[:4], str(int(parts[4]) - 1)]))


@pytest.mark.parametrize(
    "place",
    [0, 1, 2],
    ids=["another machine", "another boot", "another container"],
)
def test_what_ran_elsewhere_is_not_known_to_be_gone(runtime: SystemRuntime, place: int) -> None:
    parts = runtime.owner().split("/")
    parts[3], parts[4] = "4194303", "1"
    assert runtime.is_owner_dead("/".join(parts))
    parts[place] = "other"
    assert not runtime.is_owner_dead("/".join(parts))


@pytest.mark.parametrize("owner", ["", "somebody", "a/b/c/d/e", "a/b/c/1", "///1/2", "////"])
def test_a_name_that_is_no_owner_is_not_known_to_be_gone(runtime: SystemRuntime, owner: str) -> None:
    assert not runtime.is_owner_dead(owner)


def test_odd_numbers_of_processes_are_not_known_to_be_gone(runtime: SystemRuntime) -> None:
    parts = runtime.owner().split("/")
    for pid in ("0", "-1", str(2**70), "²"):
        assert not runtime.is_owner_dead("/".join([*parts[:3], pid, parts[4]]))


def test_without_proof_of_identity_nobody_is_gone(runtime: SystemRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_system, "_text_of", lambda path: "")
    fresh = SystemRuntime()
    assert fresh.owner() != SystemRuntime().owner()
    parts = fresh.owner().split("/")
    assert not fresh.is_owner_dead("/".join([*parts[:3], "4194303", "1"]))


FORK = """
import os
from readback.adapters.runtime_system import SystemRuntime
runtime = SystemRuntime()
before, seen = runtime.owner(), runtime.new_id()
if os.fork() == 0:
    print(runtime.owner() != before, runtime.new_id() > seen, flush=True)
    os._exit(0)
os.wait()
"""


def test_a_forked_child_is_another_owner() -> None:
    answer = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["True", "True"]


# --- sleep and notify --------------------------------------------------------------------------------------


def test_no_time_and_less_is_no_sleep(runtime: SystemRuntime) -> None:
    runtime.sleep(0)
    runtime.sleep(-1)
    asyncio.run(runtime.sleep_async(0))
    asyncio.run(runtime.sleep_async(-1))


def test_a_poke_wakes_every_thread_that_sleeps(runtime: SystemRuntime) -> None:
    threads = [threading.Thread(target=runtime.sleep, args=(seconds,)) for seconds in (FOREVER, 1e30)]
    for thread in threads:
        thread.start()
    _until(lambda: len(runtime._poked._waiters) == 2)  # type: ignore[attr-defined]
    runtime.notify()
    for thread in threads:
        thread.join(LIMIT_SECONDS)
        assert not thread.is_alive()


def test_a_poke_from_another_thread_wakes_every_task_of_every_loop(runtime: SystemRuntime) -> None:
    async def two() -> None:
        await asyncio.gather(runtime.sleep_async(FOREVER), runtime.sleep_async(FOREVER))

    threads = [threading.Thread(target=asyncio.run, args=(two(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    _until(lambda: len(runtime._sleepers) == 4)
    runtime.notify()
    for thread in threads:
        thread.join(LIMIT_SECONDS)
        assert not thread.is_alive()
    assert not runtime._sleepers


def test_a_cancelled_sleep_is_forgotten(runtime: SystemRuntime) -> None:
    async def cancelled() -> None:
        task = asyncio.create_task(runtime.sleep_async(FOREVER))
        await asyncio.wait([task], timeout=0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert not runtime._sleepers
    runtime.notify()


def test_a_loop_that_was_closed_under_its_sleeper_does_no_harm(runtime: SystemRuntime) -> None:
    loop = asyncio.new_event_loop()
    runtime._sleepers.add(loop.create_future())
    loop.close()
    runtime.notify()


def test_a_signal_handler_may_poke_in_the_middle_of_anything(runtime: SystemRuntime) -> None:
    with runtime._poked:
        runtime.notify()
    with runtime._lock:
        runtime.now_us()


def _until(holds: object) -> None:
    assert callable(holds)
    for _ in range(100_000):
        if holds():
            return
        threading.Event().wait(0.0001)
    raise AssertionError("it never came to that")
