"""The promises of every queue of wake-ups, by any author.

A test class inherits the suite, and opens a ledger with workers. An append alone makes an action due. The suite defers
nothing by hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Final, Protocol, TypeVar

from readback.ports.runtime import Runtime
from readback.ports.storage.contract_filter import ContractFilter
from readback.ports.storage.store import LedgerStore
from readback.ports.storage.wakeups import Wakeup, Wakeups
from readback.testing.store_samples import sample_append, sample_projection

T = TypeVar("T")
SECOND_US: Final = 1_000_000
SOON_SECONDS: Final = 5.0
"""The longest delay of a wake-up, in seconds."""


class Ground(Protocol):
    """A ledger, and any number of workers on it."""

    store: LedgerStore
    runtime: Runtime

    def worker(self, owner: str = "") -> Wakeups:
        """Return a further worker. `owner` is the name in leases ("" for this process's own)."""
        ...

    def kill(self, worker: Wakeups, owner: str) -> Awaitable[None]:
        """Kill the worker's process at once."""
        ...

    def lose(self) -> None:
        """Lose every wake-up on its way. The ledger stays."""
        ...


def due(
    ground: Ground, action_id: str, tenant: str = "acme", in_us: int = 0, version: int = 0, begun: str = "h1"
) -> None:
    """Return an action, due after a delay, as the engine would leave it. `begun` is its contract's version."""
    now_us = ground.runtime.now_us()
    held = sample_projection(
        action_id,
        tenant=tenant,
        updated_us=now_us,
        due_us=now_us + in_us,
        key_hash=f"{action_id:0<64}",
        stamp=f"rb-{action_id}",
        state="pending",
        contract_hash=begun,
    )
    ground.store.append([sample_append(action_id, version, projection=held)])


def at_rest(ground: Ground, action_id: str, version: int) -> None:
    """End the action, so nothing is due."""
    held = sample_projection(action_id, due_us=None, key_hash=f"{action_id:0<64}", stamp=f"rb-{action_id}")
    ground.store.append([sample_append(action_id, version, projection=held)])


async def taken(
    worker: Wakeups,
    limit: int,
    tenants: tuple[str, ...] = (),
    until: int = 1,
    leave: tuple[str, ...] = (),
    full: tuple[str, ...] = (),
    known: ContractFilter | None = None,
) -> list[Wakeup]:
    """Return a worker's actions, up to a number or until no more arrive."""
    found: list[Wakeup] = []
    for _ in range(20):
        held = {*leave, *(each.action_id for each in found)}
        found += await worker.take(tenants, limit - len(found), held, full, known)
        if len(found) >= until:
            break
        await worker.pause(SOON_SECONDS / 20)
    return found


class WakeupsConformance:
    """The promises of every queue of wake-ups."""

    def ground(self) -> AbstractContextManager[Ground]:
        raise NotImplementedError

    def on(self, work: Callable[[Ground], Awaitable[T]]) -> T:
        """Run a test on a ground of its own."""
        with self.ground() as ground:

            async def go() -> T:
                return await work(ground)

            return asyncio.run(go())

    def test_what_an_append_makes_due_is_brought(self) -> None:
        async def go(ground: Ground) -> None:
            worker = ground.worker()
            due(ground, "a1")
            found = await taken(worker, 10)
            assert [each.action_id for each in found] == ["a1"]
            at_rest(ground, "a1", 1)
            await worker.done(found[0])
            assert await worker.take((), 10, ()) == []
            await worker.close()

        self.on(go)

    def test_nothing_is_brought_before_its_time(self) -> None:
        async def go(ground: Ground) -> None:
            worker = ground.worker()
            due(ground, "a1", in_us=3600 * SECOND_US)
            assert await worker.take((), 10, ()) == []
            next_us = await worker.next_us(())
            assert next_us is not None
            assert next_us > ground.runtime.now_us()
            await worker.close()

        self.on(go)

    def test_what_is_due_again_is_brought_again(self) -> None:
        async def go(ground: Ground) -> None:
            worker = ground.worker()
            due(ground, "a1")
            [first] = await taken(worker, 10)
            due(ground, "a1", version=1)
            await worker.done(first)
            assert [each.action_id for each in await taken(worker, 10)] == ["a1"]
            await worker.close()

        self.on(go)

    def test_a_wake_up_that_is_out_of_date_ends_without_a_trace(self) -> None:
        async def go(ground: Ground) -> None:
            worker = ground.worker()
            due(ground, "a1")
            due(ground, "a1", version=1)
            found = await taken(worker, 10)
            at_rest(ground, "a1", 2)
            for each in found:
                await worker.done(each)
            for each in await worker.take((), 10, ()):
                await worker.done(each)
            assert await worker.take((), 10, ()) == []
            await worker.close()

        self.on(go)

    def test_no_tenant_waits_behind_the_backlog_of_another(self) -> None:
        async def go(ground: Ground) -> None:
            for number in range(40):
                due(ground, f"large-{number:02}", "large", in_us=-SECOND_US)
            for number in range(3):
                due(ground, f"small-{number}", "small")
            worker = ground.worker()
            found = [each.action_id for each in await taken(worker, 8, until=8)]
            assert len(found) == 8
            assert sum(each.startswith("small") for each in found) == 3
            await worker.close()

        self.on(go)

    def test_tenants_that_are_full_or_not_served_are_left_to_others(self) -> None:
        async def go(ground: Ground) -> None:
            for tenant in ("a", "b", "c"):
                for number in range(3):
                    due(ground, f"{tenant}{number}", tenant)
            worker = ground.worker()
            some = await taken(worker, 10, ("a", "b"), 3, full=("a",))
            assert sorted(each.action_id for each in some) == ["b0", "b1", "b2"]
            held = tuple(each.action_id for each in some)
            everybody = await taken(worker, 10, (), 3, held, ("a", "b"))
            assert sorted(each.action_id for each in everybody) == ["c0", "c1", "c2"]
            await worker.close()

        self.on(go)

    def test_what_is_in_hand_is_not_brought_a_second_time(self) -> None:
        async def go(ground: Ground) -> None:
            worker = ground.worker()
            for number in range(4):
                due(ground, f"a{number}")
            first = await taken(worker, 2, until=2)
            held = {each.action_id for each in first}
            rest = await taken(worker, 10, (), 2, tuple(held))
            assert len(held) == 2
            assert {each.action_id for each in rest} == {"a0", "a1", "a2", "a3"} - held
            await worker.close()

        self.on(go)

    def test_what_a_worker_does_not_know_is_left_to_others_and_keeps_nothing_from_it(self) -> None:
        async def go(ground: Ground) -> None:
            one, other = ground.worker("one"), ground.worker("other")
            for number in range(40):
                due(ground, f"old{number:02}", in_us=-SECOND_US, begun="h0")
            due(ground, "new", begun="h1")
            mine = ContractFilter(frozenset({"ship_order"}), frozenset({"h1"}), 0)
            assert [each.action_id for each in await taken(one, 8, known=mine)] == ["new"]
            assert await one.take((), 8, ("new",), (), mine) == []
            theirs = ContractFilter(frozenset(), frozenset({"h0"}), 0)
            found = await taken(other, 40, until=40, known=theirs)
            assert sorted(each.action_id for each in found) == [f"old{number:02}" for number in range(40)]
            await one.close()
            await other.close()

        self.on(go)

    def test_an_untaken_wakeup_passes_from_workers_of_its_version_to_workers_of_its_name(self) -> None:
        async def go(ground: Ground) -> None:
            worker = ground.worker()
            due(ground, "left", in_us=-60 * SECOND_US, begun="h0")
            due(ground, "fresh", begun="h0")
            names = frozenset({sample_projection("any").contract})
            able = ContractFilter(names, frozenset({"h1"}), ground.runtime.now_us() - 30 * SECOND_US)
            assert "left" in [each.action_id for each in await taken(worker, 1, known=able)]
            await worker.close()

        self.on(go)

    def test_what_one_worker_cannot_do_another_may_have_at_once(self) -> None:
        async def go(ground: Ground) -> None:
            one, other = ground.worker("one"), ground.worker("other")
            due(ground, "a1")
            [found] = await taken(one, 10)
            await one.later(found, ground.runtime.now_us() + 3600 * SECOND_US)
            assert [each.action_id for each in await taken(other, 10)] == ["a1"]
            await one.close()
            await other.close()

        self.on(go)

    def test_what_a_worker_leaves_behind_is_brought_to_others(self) -> None:
        async def go(ground: Ground) -> None:
            one, other = ground.worker("one"), ground.worker("other")
            due(ground, "a1")
            assert await taken(one, 10)
            await one.close()
            assert [each.action_id for each in await taken(other, 10)] == ["a1"]
            await other.close()

        self.on(go)

    def test_what_a_dead_worker_had_in_hand_is_continued_elsewhere(self) -> None:
        async def go(ground: Ground) -> None:
            one, other = ground.worker("one"), ground.worker("other")
            await one.beat()
            due(ground, "a1")
            [found] = await taken(one, 10)
            now_us = ground.runtime.now_us()
            assert ground.store.lease(found.action_id, "one", now_us, now_us + 3600 * SECOND_US) is not None
            assert await other.beat() == []
            await ground.kill(one, "one")
            silent = await other.beat()
            assert silent == ["one"]
            for owner in silent:
                ground.store.release(owner)
            assert [each.action_id for each in await taken(other, 10)] == ["a1"]
            await other.close()

        self.on(go)

    def test_what_was_lost_on_the_way_is_found_again_in_the_ledger(self) -> None:
        async def go(ground: Ground) -> None:
            due(ground, "a1")
            ground.lose()
            worker = ground.worker()
            assert [each.action_id for each in await taken(worker, 10)] == ["a1"]
            await worker.close()

        self.on(go)

    def test_it_can_be_closed_twice(self) -> None:
        async def go(ground: Ground) -> None:
            worker = ground.worker()
            await worker.close()
            await worker.close()

        self.on(go)
