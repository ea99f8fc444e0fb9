"""New actions of one event loop ask a store that is far away together, and each gets its own answer."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence

import pytest

from readback import AsyncReadback, Outcome
from readback.drivers.read_batching import ReadBatcher
from readback.engine.effects import Lease, Leased
from readback.errors import PayloadConflictError, StoreCorruptError, StoreError
from readback.ports.storage.batch_reads import LeaseWanted
from readback.ports.storage.store import Evidence, Opened, StoredEvent, StoredProjection
from readback.testing.conformance.store_together import TogetherConformance
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from readback.testing.store_samples import sample_append, sample_creation
from tests.sdk.given import Desk, opened_async, ship_async_of

MANY = 40


class FarStore(MemoryStore):
    """Answers looks together, counts them, and may be out of reach."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[int] = []
        self.folds: list[int] = []
        self.loads: list[int] = []
        self.leasings: list[int] = []
        self.spoilt: set[str] = set()
        self.away = False

    def openings(self, asked: Sequence[tuple[str, str, Sequence[str]]]) -> list[Opened]:
        self.looks.append(len(asked))
        if self.away:
            raise StoreError("The ledger cannot be reached.", remedy="Wait.", code="store.unreachable")
        return [MemoryStore.opening(self, *one) for one in asked]

    def opening(self, tenant: str, key_hash: str, subjects: Sequence[str]) -> Opened:
        raise AssertionError("it is asked together")

    def projections_of(self, action_ids: Sequence[str]) -> dict[str, StoredProjection]:
        held = ((each, self.projection(each)) for each in action_ids)
        return {each: stored for each, stored in held if stored is not None}

    def actions_of(self, action_ids: Sequence[str]) -> dict[str, tuple[StoredProjection, list[StoredEvent]]]:
        self.folds.append(len(action_ids))
        return {each: (stored, self.events(each)) for each, stored in self.projections_of(action_ids).items()}

    def evidence_of(self, asked: Sequence[tuple[str, str, str]]) -> list[Evidence | None]:
        self.loads.append(len(asked))
        if self.spoilt & {digest for *_, digest in asked}:
            raise StoreCorruptError("Evidence has other bytes than its digest says.")
        return [self.evidence(*each) for each in asked]

    def counts_of(self, tenants: Sequence[str]) -> dict[str, list[tuple[str, str, int]]]:
        return {tenant: self.counts(tenant) for tenant in tenants}

    def leases(self, wanted: Sequence[LeaseWanted], owner: str, now_us: int) -> list[int | None]:
        self.leasings.append(len(wanted))
        return [self.lease(each.action_id, owner, now_us, each.until_us, each.dead) for each in wanted]


class TestFarStore(TogetherConformance):
    """The store of these tests is as the real one."""

    def setup_method(self) -> None:
        self.store = FarStore()


async def _ship(rb: AsyncReadback, desk: Desk, number: int, operation: str = "") -> Outcome:
    ship = ship_async_of(desk)
    return await rb.run(ship(order_id=f"o-{number}", carrier="dhl"), operation=operation or f"ship {number}")


def test_many_actions_share_a_look_and_each_gets_its_own_answer() -> None:
    desk, store = Desk(), FarStore()

    async def work() -> None:
        async with opened_async(store) as rb:
            outcomes = await asyncio.gather(*(_ship(rb, desk, number) for number in range(MANY)))
            assert all(outcome.verified for outcome in outcomes)
            assert sum(store.looks) == MANY
            assert len(store.looks) < MANY / 4
            again = await asyncio.gather(*(_ship(rb, desk, number) for number in range(MANY)))
            assert [outcome.id for outcome in again] == [outcome.id for outcome in outcomes], "each found its own key"
            with pytest.raises(PayloadConflictError):
                await _ship(rb, desk, 7, operation="ship 8")

    asyncio.run(work())
    assert desk.calls == MANY


def test_what_the_store_raises_reaches_each_and_the_next_look_is_made_anew() -> None:
    desk, store = Desk(), FarStore()
    store.away = True

    async def work() -> None:
        async with opened_async(store) as rb:
            found = await asyncio.gather(*(_ship(rb, desk, n) for n in range(5)), return_exceptions=True)
            assert [one.code for one in found if isinstance(one, StoreError)] == ["store.unreachable"] * 5
            assert desk.calls == 0
            store.away = False
            assert (await _ship(rb, desk, 1)).verified

    asyncio.run(work())


def test_who_is_cancelled_while_he_waits_for_a_look_takes_nobody_with_him() -> None:
    desk, store = Desk(), FarStore()

    async def work() -> None:
        async with opened_async(store) as rb:
            leaving = asyncio.ensure_future(_ship(rb, desk, 1))
            staying = asyncio.ensure_future(_ship(rb, desk, 2))
            for _ in range(10_000):
                if not store.looks:
                    await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, no time
            leaving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leaving
            assert (await staying).verified

    asyncio.run(work())


async def _submitted(rb: AsyncReadback, desk: Desk, number: int) -> list[str]:
    ship = ship_async_of(desk)
    asked = (rb.submit(ship(order_id=f"o-{n}", carrier="dhl"), operation=f"ship {n}") for n in range(number))
    return list(await asyncio.gather(*asked))


def test_a_worker_takes_up_many_actions_with_few_journeys() -> None:
    desk, store = Desk(), FarStore()

    async def work() -> None:
        async with opened_async(store) as rb:
            ids = await _submitted(rb, desk, MANY)
            assert await rb.work(until_idle=True, concurrency=MANY) == MANY
            for journeys in (store.leasings, store.folds, store.loads):
                assert len(journeys) < MANY / 4, (store.leasings, store.folds, store.loads)
            assert sum(store.leasings) == MANY
            for each in ids:
                assert (await rb.get(each)).verified

    asyncio.run(work())
    assert desk.calls == MANY


def test_what_is_corrupt_of_one_action_is_told_to_that_one_alone() -> None:
    desk, store = Desk(), FarStore()

    async def work() -> None:
        async with opened_async(store) as rb:
            ids = await _submitted(rb, desk, 5)
            requests = [rb._session.fold(each).request_ref for each in ids]
            store.spoilt = {requests[2]}
            await rb.work(until_idle=True)
            outcomes = [await rb.get(each) for each in ids]
            assert [outcome.verified for outcome in outcomes] == [True, True, False, True, True]
            assert outcomes[2].attempts == 0

    asyncio.run(work())
    assert desk.calls == 4


def test_of_two_that_ask_for_one_action_at_the_same_time_one_gets_the_lease() -> None:
    desk, store = Desk(), FarStore()

    async def work() -> None:
        async with opened_async(store) as rb:
            [only] = await _submitted(rb, desk, 1)
            told = await asyncio.gather(*(rb.wait(only, 30) for _ in range(3)))
            assert all(outcome.verified for outcome in told)

    asyncio.run(work())
    assert desk.calls == 1


def test_a_lease_goes_to_who_may_go_on_and_not_to_who_asked_first_and_has_been_overtaken() -> None:
    store, runtime = FarStore(), VirtualRuntime()
    store.append([sample_creation("a1")])
    until_us = runtime.now_us() + 10_000_000

    async def work() -> list[object]:
        looks = ReadBatcher(store, runtime, lambda _held: None)
        asked = (looks.answer(Lease("a1", until_us, version)) for version in (7, 0, 0))
        answers = await asyncio.gather(*asked)
        looks.close()
        return answers

    now_us = runtime.now_us()
    assert asyncio.run(work()) == [Leased(None, 1, now_us), Leased(1, 1, now_us), Leased(None, 1, now_us)]
    assert store.leasings == [1]


class SlowStore(FarStore):
    """Its answer to a lease is on its way until `there`."""

    def __init__(self) -> None:
        super().__init__()
        self.taken, self.there = threading.Event(), threading.Event()

    def leases(self, wanted: Sequence[LeaseWanted], owner: str, now_us: int) -> list[int | None]:
        fences = super().leases(wanted, owner, now_us)
        self.taken.set()
        self.there.wait()
        return fences


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_lease_whose_answer_comes_while_the_client_closes_is_given_back(*, cancelled: bool) -> None:
    store, runtime = SlowStore(), VirtualRuntime()
    store.append([sample_creation("a1")])
    given: list[object] = []

    async def work() -> None:
        looks = ReadBatcher(store, runtime, given.append)
        asked = asyncio.ensure_future(looks.answer(Lease("a1", runtime.now_us() + 10_000_000, 0)))
        await asyncio.get_running_loop().run_in_executor(None, store.taken.wait)
        if cancelled:
            asked.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asked
        store.there.set()
        looks.close()
        assert given == [{"a1": 1}]
        asked.cancel()

    asyncio.run(work())
    assert given == [{"a1": 1}]


class OvertakenStore(FarStore):
    """Somebody else moves the action on the moment before its lease is taken."""

    def leases(self, wanted: Sequence[LeaseWanted], owner: str, now_us: int) -> list[int | None]:
        fence = self.lease("a1", "virtual/other", now_us, now_us + 1)
        assert fence is not None
        self.append([sample_append("a1", 1, fence=fence)])
        return super().leases(wanted, owner, now_us + 1)


def test_a_lease_of_what_somebody_moved_on_between_the_looks_is_given_back() -> None:
    store, runtime = OvertakenStore(), VirtualRuntime()
    store.append([sample_creation("a1")])
    given: list[object] = []

    async def work() -> object:
        looks = ReadBatcher(store, runtime, given.append)
        told = await looks.answer(Lease("a1", runtime.now_us() + 10_000_000, 1))
        looks.close()
        return told

    assert asyncio.run(work()) == Leased(None, 2, runtime.now_us())
    assert given == [{"a1": 2}]
