"""The queue on PostgreSQL keeps the port's promise, and what it loses is found again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import psycopg
import pytest

from readback.adapters.runtime_system import SystemRuntime
from readback.errors import StoreError
from readback.ports.runtime import Runtime
from readback.ports.storage.contract_filter import key_of
from readback.ports.storage.store import LedgerStore
from readback.ports.storage.wakeups import DEFER_AHEAD_US, US, Wakeup, Wakeups, queue_of
from readback.stores.postgres import open_postgres_store
from readback.stores.postgres.store import PostgresStore
from readback.stores.wakeups.procrastinate_queue import ProcrastinateWakeups
from readback.testing.conformance.wakeups import Ground, WakeupsConformance, at_rest, due, taken
from readback.testing.postgres_server import PostgresPair
from tests.store_postgres.proxy import Proxy

TIMEOUT_US = US // 2


class Elsewhere(SystemRuntime):
    """A process of another machine: nobody here can prove that it has ended."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def owner(self) -> str:
        return self._name


class OnPostgres:
    """Workers on one database; each owner is a process on a machine of its own."""

    def __init__(self, store: PostgresStore) -> None:
        self.store: LedgerStore = store
        self.runtime: Runtime = SystemRuntime()
        self.address = store.address

    def worker(self, owner: str = "") -> Wakeups:
        runtime = Elsewhere(owner) if owner else self.runtime
        return ProcrastinateWakeups(self.store, runtime, self.address.url, self.address.schema, TIMEOUT_US)

    async def kill(self, worker: Wakeups, owner: str) -> None:
        """It beats no more, and its time passes by the database's clock."""
        assert isinstance(worker, ProcrastinateWakeups)
        worker._closed = True
        if worker._listening is not None:
            worker._listening.cancel()
        await worker._connector.close_async()
        self.run(f"SELECT pg_sleep({TIMEOUT_US / US * 1.2})")

    def lose(self) -> None:
        found = self.run("SELECT to_regclass('procrastinate_jobs')")
        if found and found[0][0] is not None:
            self.run("DELETE FROM procrastinate_jobs")

    def run(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.address.url, autocommit=True) as connection:
            connection.execute(f'SET search_path TO "{self.address.schema}"')
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []


@pytest.mark.requirement("FLEET-wakeups")
class TestProcrastinate(WakeupsConformance):
    @pytest.fixture(autouse=True)
    def _where(self, ledger_url: str) -> None:
        self.url = ledger_url

    def ground(self) -> AbstractContextManager[Ground]:
        return self._ground()

    @contextmanager
    def _ground(self) -> Iterator[Ground]:
        with open_postgres_store(self.url) as store:
            yield OnPostgres(store)


@pytest.fixture
def place(ledger_url: str) -> Iterator[OnPostgres]:
    with open_postgres_store(ledger_url) as store:
        yield OnPostgres(store)


def jobs(place: OnPostgres) -> list[tuple[object, ...]]:
    return place.run("SELECT queue_name, args ->> 'action', status::text FROM procrastinate_jobs ORDER BY id")


def installed(place: OnPostgres) -> None:
    async def go() -> None:
        worker = place.worker()
        await worker.beat()
        await worker.close()

    asyncio.run(go())


def test_the_tables_of_the_queue_are_no_damage_and_a_table_beside_them_is(place: OnPostgres) -> None:
    due(place, "a")
    installed(place)
    assert place.store.damage() == []
    place.run("CREATE TABLE wakeup_worker_2 ()")
    assert "wakeup_worker_2" in "".join(place.store.damage())


@pytest.mark.requirement("FLEET-deferred")
def test_a_wake_up_is_kept_with_the_append_that_asks_for_it_or_not_at_all(place: OnPostgres) -> None:
    due(place, "before")
    installed(place)
    for number in range(70):  # this writer has asked for the queue before there was one
        due(place, f"a{number}")
    stored = place.store.projection("a69")
    assert stored is not None
    assert (queue_of("acme", key_of(stored.projection)), "a69", "todo") in jobs(place)
    place.run("DELETE FROM procrastinate_jobs")
    due(place, "b1")
    due(place, "b1")  # the version is taken: a conflict, and nothing of it is kept
    due(place, "far", in_us=2 * DEFER_AHEAD_US)
    due(place, "b2", in_us=DEFER_AHEAD_US // 2)
    at_rest(place, "b1", 1)
    assert [name for _, name, _ in jobs(place)] == ["b1", "b2"]


@pytest.mark.requirement("FLEET-deferred")
def test_a_queue_that_is_taken_away_keeps_no_append_from_being_made(place: OnPostgres) -> None:
    installed(place)
    due(place, "a0")
    place.run("DROP FUNCTION procrastinate_defer_jobs_v1(procrastinate_job_to_defer_v1[])")
    due(place, "a1")
    assert place.store.projection("a1") is not None


@pytest.mark.requirement("FLEET-wakeups")
def test_workers_share_what_is_due_and_nothing_comes_twice_while_they_live(place: OnPostgres) -> None:
    async def go() -> None:
        workers = [place.worker(f"w{number}") for number in range(3)]
        for number in range(60):
            due(place, f"a{number:02}", f"tenant-{number % 5}")
        found = await asyncio.gather(*(taken(worker, 20, until=20) for worker in workers))
        ids = [each.action_id for some in found for each in some]
        assert len(ids) == len(set(ids)) == 60
        for worker in workers:
            await worker.close()

    asyncio.run(go())


@pytest.mark.requirement("FLEET-wakeups")
def test_a_listener_that_drops_a_cancellation_does_not_keep_its_worker_from_closing(
    place: OnPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped: list[str] = []

    async def deaf_once(**_: object) -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                dropped.append("one")
                if len(dropped) > 1:
                    raise

    async def go() -> None:
        worker = place.worker()
        assert isinstance(worker, ProcrastinateWakeups)
        monkeypatch.setattr(worker._jobs, "listen_for_jobs", deaf_once)
        due(place, "a1")
        assert [each.action_id for each in await taken(worker, 1)] == ["a1"]
        await worker.close()

    asyncio.run(go())
    assert dropped == ["one", "one"]


@pytest.mark.requirement("FLEET-wakeups")
def test_a_worker_that_was_silent_for_too_long_beats_again(place: OnPostgres) -> None:
    async def go() -> None:
        one, other = place.worker("one"), place.worker("other")
        await one.beat()
        place.run(f"SELECT pg_sleep({TIMEOUT_US / US * 1.2})")
        due(place, "a1")
        now_us = place.runtime.now_us()
        assert place.store.lease("a1", "one", now_us, now_us + 3600 * US) is not None
        assert await other.beat() == ["one"]
        assert await one.beat() == []
        assert await other.beat() == []
        await one.close()
        await other.close()

    asyncio.run(go())


@pytest.fixture
def proxy(ledger_server: PostgresPair) -> Iterator[Proxy]:
    with Proxy(ledger_server.home) as between:
        yield between


def behind(place: OnPostgres, proxy: Proxy, ledger_server: PostgresPair) -> ProcrastinateWakeups:
    """A worker whose queue is on the other side of a network."""
    url = place.address.url.replace(str(ledger_server.home), str(proxy.home))
    assert url != place.address.url
    return ProcrastinateWakeups(place.store, Elsewhere("behind"), url, place.address.schema, 3600 * US)


@pytest.mark.requirement("FLEET-wakeups")
@pytest.mark.parametrize("where", ["first", "second"])
def test_what_was_fetched_and_not_heard_of_is_brought_again_while_its_worker_lives(
    place: OnPostgres, proxy: Proxy, ledger_server: PostgresPair, where: str
) -> None:
    async def go() -> None:
        worker = behind(place, proxy, ledger_server)
        assert await worker.take((), 9) == []
        for number in range(3):
            due(place, f"a{number}")
        if where == "first":
            proxy.cut_after = b"UPDATE procrastinate_jobs"
        else:
            _cut_the_second(worker, proxy)
        with pytest.raises(StoreError, match="is unavailable"):
            await worker.take((), 2 if where == "first" else 9)
        assert {status for _, _, status in jobs(place)} >= {"doing"}
        assert sorted(each.action_id for each in await taken(worker, 9, until=3)) == ["a0", "a1", "a2"]
        assert proxy.cuts == 1
        await worker.close()

    asyncio.run(go())


def _cut_the_second(worker: ProcrastinateWakeups, proxy: Proxy) -> None:
    """The connection breaks when it fetches again, with what it has fetched already in its hands."""
    fetch = worker._fetch

    async def once(queues: list[str]) -> list[tuple[str, Wakeup]]:
        setattr(worker, "_fetch", fetch)  # noqa: B010 - a method
        found = await fetch(queues)
        proxy.cut_before = b"UPDATE procrastinate_jobs"
        return found

    setattr(worker, "_fetch", once)  # noqa: B010 - a method


@pytest.mark.requirement("FLEET-wakeups")
def test_what_a_living_worker_could_not_put_back_is_brought_again(
    place: OnPostgres, proxy: Proxy, ledger_server: PostgresPair
) -> None:
    async def go() -> None:
        worker, other = behind(place, proxy, ledger_server), place.worker("other")
        due(place, "a1")
        [wakeup] = await taken(worker, 1)
        proxy.cut_before = b"procrastinate_retry_job"
        await worker.later(wakeup, 0)
        assert (proxy.cuts, [status for _, _, status in jobs(place)]) == (1, ["doing"])
        assert await worker.take((), 1, leave=("a1",)) == []
        assert [each.action_id for each in await taken(other, 1)] == ["a1"]
        await worker.close()
        await other.close()

    asyncio.run(go())


@pytest.mark.requirement("FLEET-dead")
def test_a_worker_whose_registration_broke_off_is_registered_with_the_next_look(
    place: OnPostgres, proxy: Proxy, ledger_server: PostgresPair
) -> None:
    """Else nobody would learn that the owner of its leases is gone."""

    async def go() -> None:
        installed_by = place.worker("other")
        await installed_by.beat()
        worker = behind(place, proxy, ledger_server)
        proxy.cut_before = b"INSERT INTO wakeup_worker"
        with pytest.raises(StoreError, match="is unavailable"):
            await worker.take((), 1)
        assert await worker.take((), 1) == []
        assert proxy.cuts == 1
        assert ("behind",) in place.run("SELECT owner FROM wakeup_worker")
        assert worker._listening is not None
        await worker.close()
        await installed_by.close()

    asyncio.run(go())


@pytest.mark.requirement("FLEET-dead")
def test_where_the_system_gives_no_thread_a_worker_beats_and_takes_all_the_same(
    place: OnPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(place)
    due(place, "a1")
    place.run("DELETE FROM procrastinate_jobs")  # so that only the sweep brings it

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def go() -> None:
        worker = place.worker("w")
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refused)
            assert await worker.beat() == []
            assert [each.action_id for each in await taken(worker, 1)] == ["a1"]
        await worker.close()

    asyncio.run(go())


@pytest.mark.requirement("FLEET-dead")
def test_what_a_dead_worker_had_is_put_back_once_however_many_notice(place: OnPostgres) -> None:
    """Whoever notices later takes nothing out of the hands of those who have it by then."""

    async def go() -> None:
        dead, *others = (place.worker(name) for name in ("dead", "one", "two", "three"))
        await dead.beat()
        for number in range(90):
            due(place, f"a{number:02}")
        assert len(await taken(dead, 90, until=90)) == 90
        await place.kill(dead, "dead")
        first, *late = others
        await first.beat()
        had = await taken(first, 40, until=40)
        assert len(had) == 40
        await asyncio.gather(*(other.beat() for other in others))
        found = await asyncio.gather(*(taken(other, 60, until=25) for other in late))
        ids = [each.action_id for some in (had, *found) for each in some]
        assert len(ids) == len(set(ids))
        assert len(ids) == 90
        for other in others:
            await other.close()

    asyncio.run(go())
