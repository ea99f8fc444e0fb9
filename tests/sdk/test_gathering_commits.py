"""A server's commits wait some turns of the event loop for requests that arrive one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from readback.drivers.early_dispatch import a_turn
from readback.drivers.group_commit import IDLE_TURNS_MAX, TURNS_MAX, Gathering, GroupCommit
from readback.ports.storage.store import Append, Appended, AppendResult, LedgerStore
from readback.testing.runtime_virtual import VirtualRuntime

WIDTH = 16


class Sizes:
    """Notes the size of each commit."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def append(self, batch: Sequence[Append]) -> list[AppendResult]:
        self.sizes.append(len(batch))
        return [Appended(1, 1)] * len(batch)


async def arriving(commit: GroupCommit, turns: int) -> None:
    """An action that begins after some turns of the loop and then needs one commit."""
    for _ in range(turns):
        await a_turn()
    commit.active += 1
    await commit.append(cast("Append", object()))
    commit.active -= 1


def sizes_of(*rounds: Sequence[int], gathers: bool) -> list[int]:
    """The sizes of the commits of some rounds. A round gives for each action the turn of its arrival."""
    store = Sizes()

    async def work() -> None:
        commit = GroupCommit(cast("LedgerStore", store), VirtualRuntime(), gathers=gathers)
        try:
            for turns in rounds:
                async with asyncio.timeout(60):
                    await asyncio.gather(*(arriving(commit, each) for each in turns))
        finally:
            commit.close()

    asyncio.run(work())
    return store.sizes


@pytest.mark.parametrize("gathers", [True, False])
def test_requests_of_several_turns_share_one_commit_of_a_server_alone(*, gathers: bool) -> None:
    together, apart = [0] * WIDTH, [10 * each for each in range(WIDTH)]
    first, *rest = sizes_of(together, apart, gathers=gathers)
    assert first == WIDTH
    assert rest == ([WIDTH] if gathers else [1] * WIDTH)


def test_a_request_alone_is_committed_at_once_where_no_other_was_at_work() -> None:
    assert sizes_of([0], [0, IDLE_TURNS_MAX // 2], gathers=True) == [1, 1, 1]


def test_a_commit_waits_for_nobody_who_does_not_come() -> None:
    apart = [0, 2 * IDLE_TURNS_MAX]
    assert sizes_of([0] * WIDTH, apart, gathers=True) == [WIDTH, 1, 1]


def test_after_a_wait_in_vain_the_next_commits_do_not_wait() -> None:
    gathering, turns = Gathering(), list[int]()
    for _ in range(200):
        taken = 1
        while gathering.waits(1, 2):  # another action is always at work, and never comes
            taken += 1
        turns.append(taken)
    assert turns[0] == IDLE_TURNS_MAX + 1
    waits = [number for number, each in enumerate(turns) if each > 1]
    assert waits == [0, 2, 6, 14, 30, 62, 126, 190]


def test_a_wait_that_brought_an_append_is_repeated_at_once() -> None:
    gathering = Gathering()
    for _ in range(3):
        assert gathering.waits(1, 2)
        assert not gathering.waits(2, 2)


def test_a_commit_that_always_gets_news_begins_all_the_same() -> None:
    endless = list(range(0, 2 * TURNS_MAX, 8))
    first, second, *_ = sizes_of([0] * (2 * len(endless)), endless, gathers=True)
    assert first == 2 * len(endless)
    assert second <= TURNS_MAX // 8 + 1


def test_a_past_peak_is_forgotten() -> None:
    lone, before = [0, IDLE_TURNS_MAX // 2], 400
    assert sizes_of([0, 0], lone, gathers=True) == [2, 2]
    assert sizes_of([0, 0], *[[0]] * before, lone, gathers=True) == [2, *[1] * before, 1, 1]
