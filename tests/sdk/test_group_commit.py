"""Where a group is committed: on the loop where nobody has anything else to do and it is short, else beside it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

import pytest

from readback.drivers.group_commit import HELD_US_MAX, GroupCommit
from readback.errors import StoreError
from readback.ports.storage.batch_reads import BatchReads
from readback.ports.storage.store import Append, Appended, AppendResult, LedgerStore
from readback.testing.runtime_virtual import US_PER_SECOND, VirtualRuntime

SHORT_US = HELD_US_MAX // 4


class Store:
    """Says in which thread it committed, and for how many. Each commit takes the next of the given times."""

    def __init__(self, runtime: VirtualRuntime, *took_us: int) -> None:
        self._runtime, self._took_us = runtime, list(took_us)
        self.on_loop: list[bool] = []
        self.sizes: list[int] = []
        self.fails = self.interrupts = False
        self._loop_thread = threading.get_ident()

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        self.on_loop.append(threading.get_ident() == self._loop_thread)
        self.sizes.append(len(batch))
        self._runtime.advance(self._took_us.pop(0) / US_PER_SECOND)
        if self.interrupts:
            raise KeyboardInterrupt
        if self.fails:
            raise StoreError("It is locked.")
        return [Appended(1, 1)] * len(batch)


class FarStore(Store):
    """One that is asked of many actions together: it is over a network."""

    def _none(self, *_: object) -> Any:
        raise AssertionError("not asked here")

    openings = projections_of = actions_of = evidence_of = counts_of = leases = _none


def commits(store: Store, runtime: VirtualRuntime, *groups: int, others: int = 0) -> None:
    """These groups, one after another, of actions that all wait, beside so many others that do something else."""

    async def work() -> None:
        commit = GroupCommit(cast("LedgerStore", store), runtime)
        try:
            for size in groups:
                commit.active = size + others
                waiting = [commit.append(cast("Append", object())) for _ in range(size)]
                for each in waiting:
                    with suppress(StoreError):
                        await each
        finally:
            commit.close()

    asyncio.run(work())


def test_what_all_wait_for_is_committed_on_the_loop_once_it_is_known_to_be_short() -> None:
    runtime = VirtualRuntime()
    store = Store(runtime, SHORT_US, SHORT_US, SHORT_US)
    commits(store, runtime, 16, 16, 16)

    assert store.sizes == [16, 16, 16]
    assert store.on_loop == [False, True, True]


def test_after_a_long_one_the_next_is_committed_beside_the_loop() -> None:
    runtime = VirtualRuntime()
    store = Store(runtime, SHORT_US, HELD_US_MAX, SHORT_US, SHORT_US)
    commits(store, runtime, 16, 16, 16, 16)

    assert store.on_loop == [False, True, False, True]


def test_more_are_taken_to_last_longer_and_fewer_as_long() -> None:
    runtime = VirtualRuntime()
    store = Store(runtime, SHORT_US, SHORT_US, SHORT_US, HELD_US_MAX)
    commits(store, runtime, 16, 48, 8, 64)

    assert store.on_loop == [False, True, True, False]


def test_one_that_failed_late_was_long() -> None:
    runtime = VirtualRuntime()
    store = Store(runtime, SHORT_US, 1000 * HELD_US_MAX, SHORT_US)
    store.fails = True
    commits(store, runtime, 4, 4, 4)

    assert store.on_loop == [False, True, False]


def test_beside_others_that_have_something_to_do_a_group_is_committed_beside_the_loop() -> None:
    runtime = VirtualRuntime()
    store = Store(runtime, 0, 0, 0)
    commits(store, runtime, 16, 16, 16, others=1)

    assert store.on_loop == [False, False, False]


def test_a_store_far_away_commits_no_group_on_the_loop() -> None:
    runtime = VirtualRuntime()
    store = FarStore(runtime, 0, 0)
    assert isinstance(store, BatchReads)
    commits(store, runtime, 16, 16)

    assert store.on_loop == [False, False]


@pytest.mark.parametrize("kind", [Store, FarStore])
def test_one_alone_is_committed_on_the_loop_by_a_local_store_and_never_over_a_network(
    kind: Callable[..., Store],
) -> None:
    runtime = VirtualRuntime()
    store = kind(runtime, HELD_US_MAX, HELD_US_MAX)
    commits(store, runtime, 1, 1)

    assert store.on_loop == [kind is Store] * 2


@pytest.mark.parametrize("size", [1, 16])
def test_a_signal_during_a_commit_on_the_loop_goes_on_when_those_that_wait_have_been_told(size: int) -> None:
    runtime = VirtualRuntime()
    store = Store(runtime, 0, 0, 0)
    commit = GroupCommit(cast("LedgerStore", store), runtime)
    told: list[str] = []

    async def one() -> None:
        future = commit.append(cast("Append", object()))
        with suppress(StoreError, asyncio.CancelledError):  # the end of the loop cancels, too
            await future
        error = future.exception()
        if isinstance(error, StoreError):
            told.append(error.code)

    async def many() -> None:
        await asyncio.gather(*(one() for _ in range(size)))

    commit.active = size
    with asyncio.Runner() as runner:
        if size > 1:
            runner.run(many())
        store.interrupts = True
        with pytest.raises(KeyboardInterrupt):
            runner.run(many())
    commit.close()

    assert store.on_loop[-1] is True
    assert told == ["store.interrupted"] * size


def test_where_the_system_gives_no_thread_it_is_committed_on_the_loop_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = VirtualRuntime()
    store = Store(runtime, *[SHORT_US] * 8)

    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def work() -> None:
        commit = GroupCommit(cast("LedgerStore", store), runtime)
        commit.active = 3
        with monkeypatch.context() as exhausted:
            exhausted.setattr(threading.Thread, "start", none_left)
            told = await commit.append(cast("Append", object()))
            assert await asyncio.wrap_future(commit.beside(store._runtime.now_us)) == runtime.now_us()
        assert (told, store.on_loop) == (Appended(1, 1), [True])
        await commit.append(cast("Append", object()))
        assert store.on_loop == [True, False], "what lay in the thread's queue was not committed again"
        commit.close()

    asyncio.run(work())


def test_after_its_end_nothing_is_committed_anywhere() -> None:
    runtime = VirtualRuntime()
    store = Store(runtime, *[SHORT_US] * 8)

    async def work() -> None:
        commit = GroupCommit(cast("LedgerStore", store), runtime)
        commit.active = 3
        commit.close()
        with pytest.raises(StoreError) as raised:
            await commit.append(cast("Append", object()))
        assert raised.value.code == "store.closed"
        with pytest.raises(StoreError):
            await asyncio.wrap_future(commit.beside(store._runtime.now_us))

    asyncio.run(work())
    assert store.on_loop == []
