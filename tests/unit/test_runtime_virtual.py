"""The runtime of tests: hours in milliseconds, the same history for the same seed, and no jump while work is done."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from readback.ports.runtime import Runtime
from readback.testing.runtime_virtual import START_US, VirtualRuntime

HOUR = 3_600.0
SECOND_US = 1_000_000


@pytest.fixture
def runtime() -> VirtualRuntime:
    return VirtualRuntime(seed=7)


def test_it_is_a_runtime(runtime: VirtualRuntime) -> None:
    given: Runtime = runtime
    assert given.now_us() == START_US


# --- one seed, one history ---------------------------------------------------------------------------------


def test_ids_and_jitter_follow_from_the_seed() -> None:
    def history(seed: int) -> list[object]:
        runtime = VirtualRuntime(seed)
        found: list[object] = []
        for number in range(50):
            runtime.sleep(number / 1000)
            found += [runtime.new_id(), runtime.jitter()]
        return found

    assert history(1) == history(1)
    assert history(1) != history(2)


def test_drawing_jitter_does_not_change_the_ids() -> None:
    plain, jittered = VirtualRuntime(3), VirtualRuntime(3)
    jittered.jitter()
    assert plain.new_id() == jittered.new_id()


def test_ids_are_in_the_order_of_their_creation(runtime: VirtualRuntime) -> None:
    ids = []
    for number in range(500):
        runtime.sleep(number % 3 / 1000)
        ids.append(runtime.new_id())
    assert ids == sorted(set(ids))
    assert {len(name) for name in ids} == {26}
    assert all(name.isascii() and name.isalnum() and name == name.lower() for name in ids)


def test_a_sibling_shares_time_and_ids_and_is_another_owner(runtime: VirtualRuntime) -> None:
    other = runtime.sibling("virtual/2")
    runtime.sleep(5)
    assert other.now_us() == runtime.now_us()
    assert other.new_id() < runtime.new_id() < other.new_id()
    assert other.owner() != runtime.owner()
    assert not runtime.is_owner_dead("virtual/2")
    runtime.declare_gone("virtual/2")
    assert other.is_owner_dead("virtual/2")


# --- sleeping in a thread ----------------------------------------------------------------------------------


def test_a_sync_sleep_moves_the_clock(runtime: VirtualRuntime) -> None:
    runtime.sleep(HOUR)
    runtime.sleep(0)
    assert runtime.now_us() == START_US + 3_600 * SECOND_US


def test_time_does_not_step_back(runtime: VirtualRuntime) -> None:
    with pytest.raises(ValueError, match="step back"):
        runtime.sleep(-1)


# --- sleeping in a loop ------------------------------------------------------------------------------------


def _seconds(runtime: VirtualRuntime) -> float:
    return (runtime.now_us() - START_US) / SECOND_US


def test_sleepers_wake_in_the_order_of_their_times(runtime: VirtualRuntime) -> None:
    seen: list[tuple[str, float]] = []

    async def sleeper(name: str, *lengths: float) -> None:
        for length in lengths:
            await runtime.sleep_async(length)
            seen.append((name, _seconds(runtime)))

    async def story() -> None:
        await asyncio.gather(sleeper("a", HOUR, 1), sleeper("b", 5, 5), sleeper("c", 7, 0, 3), sleeper("d", HOUR))

    asyncio.run(story())
    assert seen == [
        ("b", 5), ("c", 7), ("c", 7), ("b", 10), ("c", 10), ("a", HOUR), ("d", HOUR), ("a", HOUR + 1),
    ]  # fmt: skip


def test_time_stands_still_while_anything_can_run(runtime: VirtualRuntime) -> None:
    async def busy() -> float:
        for _ in range(500):
            await asyncio.wait([asyncio.ensure_future(_nothing())], timeout=None)
        return _seconds(runtime)

    async def story() -> list[object]:
        return list(await asyncio.gather(busy(), runtime.sleep_async(1)))

    assert asyncio.run(story()) == [0.0, None]
    assert _seconds(runtime) == 1


async def _nothing() -> None:
    return None


def test_time_stands_still_while_a_thread_of_the_loop_works(runtime: VirtualRuntime) -> None:
    """A tool in `asyncio.to_thread` against its timeout: the tool wins, however slow this machine is."""

    async def story() -> bool:
        tool = asyncio.ensure_future(asyncio.to_thread(_work))
        timeout = asyncio.ensure_future(runtime.sleep_async(10))
        done, _ = await asyncio.wait({tool, timeout}, return_when=asyncio.FIRST_COMPLETED)
        timeout.cancel()
        return done == {tool}

    for _ in range(20):
        assert asyncio.run(story())
    assert _seconds(runtime) == 0


def _work() -> None:
    threading.Event().wait(0.005)


def test_a_timeout_comes_before_what_never_ends(runtime: VirtualRuntime) -> None:
    async def story() -> bool:
        never = asyncio.get_running_loop().create_future()
        timeout = asyncio.ensure_future(runtime.sleep_async(10))
        done, _ = await asyncio.wait({never, timeout}, return_when=asyncio.FIRST_COMPLETED)
        return done == {timeout}

    assert asyncio.run(story())
    assert _seconds(runtime) == 10


def test_time_stands_still_while_it_is_held(runtime: VirtualRuntime) -> None:
    ended = threading.Event()

    async def story() -> float:
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def real() -> None:
            _work()
            loop.call_soon_threadsafe(done.set_result, None)
            ended.set()

        with runtime.holding():
            sleep = asyncio.ensure_future(runtime.sleep_async(10))
            thread = threading.Thread(target=real)
            thread.start()
            await done
            at = _seconds(runtime)
        await sleep
        thread.join()
        return at

    assert asyncio.run(story()) == 0
    assert ended.is_set()
    assert _seconds(runtime) == 10


def test_a_poke_wakes_every_sleeper_and_no_time_passes(runtime: VirtualRuntime) -> None:
    async def story() -> None:
        sleeps = [asyncio.ensure_future(runtime.sleep_async(length)) for length in (5, HOUR)]
        await asyncio.wait([asyncio.ensure_future(_nothing())])
        runtime.notify()
        await asyncio.gather(*sleeps)

    asyncio.run(story())
    assert _seconds(runtime) == 0


def test_a_poke_may_come_from_another_thread(runtime: VirtualRuntime) -> None:
    async def story() -> None:
        with runtime.holding():
            sleep = asyncio.ensure_future(runtime.sleep_async(HOUR))
            await asyncio.wait([asyncio.ensure_future(_nothing())])
            await asyncio.to_thread(runtime.notify)
            await sleep

    asyncio.run(story())
    assert _seconds(runtime) == 0


def test_a_cancelled_sleeper_does_not_move_the_clock(runtime: VirtualRuntime) -> None:
    async def story() -> None:
        sleep = asyncio.ensure_future(runtime.sleep_async(HOUR))
        await runtime.sleep_async(1)
        sleep.cancel()
        await asyncio.gather(sleep, return_exceptions=True)
        await runtime.sleep_async(1)

    asyncio.run(story())
    assert _seconds(runtime) == 2


def test_a_sync_sleep_wakes_the_sleepers_whose_time_it_passes(runtime: VirtualRuntime) -> None:
    async def story() -> float:
        sleep = asyncio.ensure_future(runtime.sleep_async(5))
        await asyncio.wait([asyncio.ensure_future(_nothing())])
        runtime.sleep(20)
        await sleep
        return _seconds(runtime)

    assert asyncio.run(story()) == 20


def test_one_loop_after_another_is_served(runtime: VirtualRuntime) -> None:
    async def abandoned() -> None:
        task = asyncio.ensure_future(runtime.sleep_async(HOUR))
        await asyncio.wait([task], timeout=0)

    stories: list[Coroutine[Any, Any, None]] = [runtime.sleep_async(1), abandoned(), runtime.sleep_async(1)]
    for story in stories:
        asyncio.run(story)
    assert _seconds(runtime) == 2


def test_many_pokes_leave_nothing_behind(runtime: VirtualRuntime) -> None:
    async def story() -> None:
        for _ in range(1_000):
            sleep = asyncio.ensure_future(runtime.sleep_async(HOUR))
            await asyncio.wait([asyncio.ensure_future(_nothing())])
            runtime.notify()
            await sleep

    asyncio.run(story())
    assert len(runtime._clock.sleepers) < 100
    assert _seconds(runtime) == 0
