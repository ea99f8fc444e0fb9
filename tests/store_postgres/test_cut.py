"""What a network and a server do to a ledger: replies that are lost, sessions that are ended, a server that dies."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from readback.errors import StoreError
from readback.ports.storage.store import Appended
from readback.stores.postgres import PostgresStore, open_postgres_store
from readback.stores.postgres.connection import connect as opening
from readback.stores.postgres.connection.faults import unreachable
from readback.testing.postgres_server import PostgresPair
from readback.testing.store_samples import sample_append, sample_creation
from tests.postgres import url_of
from tests.store_postgres.proxy import Proxy

pytestmark = pytest.mark.slow
KEPT = [Appended(version=1, seq=0)]
COMMIT = b"COMMIT"


@pytest.fixture
def proxy(ledger_server: PostgresPair) -> Iterator[Proxy]:
    with Proxy(ledger_server.home) as between:
        yield between


@pytest.fixture
def store(ledger_server: PostgresPair, ledger_url: str, proxy: Proxy) -> Iterator[PostgresStore]:
    """A store that speaks through the proxy."""
    with open_postgres_store(ledger_url.replace(str(ledger_server.home), str(proxy.home))) as opened:
        yield opened


@pytest.fixture
def beside(ledger_url: str, store: PostgresStore) -> Iterator[PostgresStore]:
    """The same ledger, with nothing between."""
    with open_postgres_store(ledger_url) as opened:
        yield opened


@pytest.mark.requirement("PGSTORE-lost-reply")
def test_an_append_whose_reply_was_lost_is_known_to_be_kept(
    store: PostgresStore, beside: PostgresStore, proxy: Proxy
) -> None:
    proxy.cut_after = COMMIT
    assert store.append([sample_creation("a1")]) == KEPT
    assert proxy.cuts == 1
    assert [event.version for event in beside.events("a1")] == [1], "it was kept once"
    assert store.append([sample_append("a1", 1)]) == [Appended(version=2, seq=0)]


def test_an_append_that_was_cut_off_before_its_commit_is_made_again(
    store: PostgresStore, beside: PostgresStore, proxy: Proxy
) -> None:
    proxy.cut_before = COMMIT
    assert store.append([sample_creation("a1")]) == KEPT
    assert [event.version for event in beside.events("a1")] == [1]


def test_a_lease_whose_reply_was_lost_is_held_with_the_fence_that_was_given(
    store: PostgresStore, beside: PostgresStore, proxy: Proxy
) -> None:
    beside.append([sample_creation("a1")])
    proxy.cut_after = COMMIT
    assert store.lease("a1", "w1", 0, 60_000_000) == 1
    assert proxy.cuts == 1
    assert beside.lease("a1", "w2", 0, 60_000_000) is None
    assert store.append([sample_append("a1", 1, fence=1)]) == [Appended(version=2, seq=0)]


@pytest.mark.requirement("PGSTORE-lost-reply")
def test_a_commit_of_which_nobody_can_tell_says_so(
    store: PostgresStore, beside: PostgresStore, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "RECONNECT_TRIES_MAX", 2)
    monkeypatch.setattr(opening, "RECONNECT_PAUSE_MS", 1)
    proxy.cut_after = COMMIT
    proxy.meanwhile = lambda: (proxy.home / ".s.PGSQL.5432").rename(proxy.home / "away")
    with pytest.raises(StoreError, match="the result is unknown") as caught:
        store.append([sample_creation("a1")])
    assert caught.value.code == "store.undetermined"
    with pytest.raises(StoreError) as caught:
        store.append([sample_creation("a2")])
    assert caught.value.code == "store.unreachable"
    (proxy.home / "away").rename(proxy.home / ".s.PGSQL.5432")
    [found] = store.append([sample_creation("a1")])
    assert not isinstance(found, Appended), "a repetition meets what was kept"
    assert [event.version for event in beside.events("a1")] == [1]


@pytest.mark.requirement("PGSTORE-lost-reply")
def test_a_commit_of_which_only_a_standby_could_tell_is_told_as_undetermined(
    store: PostgresStore, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def standby(_: opening.Opening) -> opening.Connection:
        raise StoreError("The server of the ledger is a standby.", code="store.standby")

    proxy.cut_after = COMMIT
    monkeypatch.setattr(opening, "RECONNECT_TRIES_MAX", 2)
    monkeypatch.setattr(opening, "RECONNECT_PAUSE_MS", 1)
    monkeypatch.setattr(opening.Opening, "again", standby)
    with pytest.raises(StoreError, match=r"the result is unknown .*standby") as caught:
        store.append([sample_creation("a1")])
    assert caught.value.code == "store.undetermined"


def test_sessions_that_an_operator_ends_are_opened_again(ledger_server: PostgresPair, ledger_url: str) -> None:
    with open_postgres_store(ledger_url) as store:
        for number in range(8):  # past the moment where statements are prepared
            store.append([sample_creation(f"a{number}")])
            assert store.projection(f"a{number}") is not None
        ledger_server.run(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = 'readback'"
        )
        assert store.projection("a1") is not None
        assert store.append([sample_append("a1", 1)]) == [Appended(version=2, seq=0)]
        assert [event.version for event in store.events("a1")] == [1, 2]


@pytest.mark.requirement("PGSTORE-restart")
def test_a_server_that_dies_under_load_is_waited_for_and_loses_nothing_that_was_acknowledged() -> None:
    with PostgresPair(standby=False, settings="fsync = on") as server:
        _die_under_load(server)


def _die_under_load(server: PostgresPair) -> None:
    acknowledged: list[str] = []
    failures: list[BaseException] = []
    half = threading.Event()

    ledger = open_postgres_store(url_of(server, "dying"))

    def work(worker: int) -> None:
        try:
            for number in range(25):
                name = f"w{worker}-{number:03}"
                assert ledger.append([sample_creation(name)]) == KEPT
                assert ledger.append([sample_append(name, 1, events=2)]) == [Appended(version=3, seq=0)]
                acknowledged.append(name)
                if len(acknowledged) > 30:
                    half.set()
        except BaseException as failure:
            failures.append(failure)
            half.set()
            raise

    with ledger:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        assert half.wait(30)
        server.kill()
        server.start_again()
        for thread in threads:
            thread.join(60)
        assert failures == []
        assert len(acknowledged) == 100
        for name in acknowledged:
            assert [event.version for event in ledger.events(name)] == [1, 2, 3]


@pytest.mark.requirement("PGSTORE-lost-reply")
def test_a_commit_that_waited_for_a_standby_when_its_reply_was_lost_is_kept_when_the_standby_has_it() -> None:
    with PostgresPair(standby=False) as server, open_postgres_store(url_of(server, "followed")) as store:
        done, cut = [0], threading.Event()

        def work() -> None:
            while not cut.is_set():
                assert store.append([sample_creation(f"a{done[0]}")]) == KEPT
                done[0] += 1

        server.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody_there'")
        server.run("SELECT pg_reload_conf()")
        thread = threading.Thread(target=work)
        thread.start()
        try:
            waits = _in_wait_for_a_standby(server, "COMMIT")
            before = done[0]
            cut.set()
            with socket.socket(fileno=os.dup(store._writer._connection.fileno())) as line:  # type: ignore[union-attr]
                line.shutdown(socket.SHUT_RDWR)
            assert _in_wait_for_a_standby(server, "SELECT pg_logical_emit_message") != waits
            assert (done[0], thread.is_alive()) == (before, True), "it is not told as kept on this server's word alone"
        finally:
            cut.set()
            server.run("ALTER SYSTEM RESET synchronous_standby_names")
            server.run("SELECT pg_reload_conf()")
            thread.join(60)
        assert done[0] == before + 1
        assert [event.version for event in store.events(f"a{before}")] == [1]


@pytest.mark.requirement("PGSTORE-lost-reply")
@pytest.mark.parametrize("times", [1, 9])
def test_a_commit_whose_wait_for_a_standby_somebody_cancels_is_not_told_as_kept_by_that(times: int) -> None:
    """The server answers then as if it had been kept where it has to be, with a warning beside it."""
    quiet = "client_min_messages = error"
    with (
        PostgresPair(standby=False, settings=quiet) as server,
        open_postgres_store(url_of(server, "followed")) as store,
    ):
        told: list[object] = []

        def work(action: str) -> None:
            try:
                told.append(store.append([sample_creation(action)]))
            except StoreError as error:
                told.append(error.code)

        server.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody_there'")
        server.run("SELECT pg_reload_conf()")
        try:
            waits = number = 0
            while not waits:  # the server takes the setting over a moment later: until then nothing waits
                told.clear()
                number += 1
                thread = threading.Thread(target=work, args=[f"a{number}"])
                thread.start()
                waits = _in_wait_for_a_standby(server, "COMMIT", thread)
            server.run(f"SELECT pg_cancel_backend({waits})")
            for _ in range(times):
                if not thread.is_alive():
                    break
                assert _in_wait_for_a_standby(server, "SELECT pg_logical_emit_message", thread) in (waits, 0)
                assert told in ([], ["store.undetermined"])
                if times > 1:
                    server.run(f"SELECT pg_cancel_backend({waits})")
        finally:
            server.run("ALTER SYSTEM RESET synchronous_standby_names")
            server.run("SELECT pg_reload_conf()")
            thread.join(60)
        assert told == [KEPT if times == 1 else "store.undetermined"]


def _in_wait_for_a_standby(server: PostgresPair, query: str, who: threading.Thread | None = None) -> int:
    """The session that waits there with this statement, as soon as there is one; 0 where who would wait has ended."""
    asked = (
        "SELECT max(pid), pg_sleep(0.01) FROM pg_stat_activity"
        f" WHERE wait_event = 'SyncRep' AND application_name = 'readback' AND query LIKE '{query}%'"
    )
    found = (server.run(asked)[0] for _ in range(1_000))
    return next(int(pid or 0) for pid in found if pid is not None or (who is not None and not who.is_alive()))


def test_a_server_that_answers_nothing_is_not_waited_for_as_one_that_starts_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(opening, "RECONNECT_PAUSE_MS", 0)
    tries: dict[psycopg.Error, int] = {
        psycopg.errors.ConnectionTimeout("silence"): 0,
        psycopg.OperationalError("refused"): 0,
    }
    for cause in tries:

        def connect(cause: psycopg.Error = cause) -> opening.Connection:
            tries[cause] += 1
            raise unreachable("there", str(cause)) from cause

        with pytest.raises(StoreError, match="cannot be reached"):
            opening.Reconnection().wait(connect, "it was cut")
    assert [*tries.values()] == [opening.RECONNECT_SILENT_MAX, opening.RECONNECT_TRIES_MAX]


def test_a_server_that_stays_away_is_waited_for_once(
    ledger_server: PostgresPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "RECONNECT_PAUSE_MS", 0)
    reconnection, tries = opening.Reconnection(), 0

    def refused() -> opening.Connection:
        nonlocal tries
        tries += 1
        raise unreachable("there", "refused")

    def tries_of_a_wait() -> int:
        before = tries
        with pytest.raises(StoreError, match="cannot be reached"):
            reconnection.wait(refused, "it was cut")
        return tries - before

    assert [tries_of_a_wait() for _ in range(3)] == [opening.RECONNECT_TRIES_MAX, 1, 1]
    reconnection.wait(ledger_server.connect, "it was cut").close()
    assert tries_of_a_wait() == opening.RECONNECT_TRIES_MAX


def test_nobody_there_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be reached") as caught:
        open_postgres_store(f"postgresql:///postgres?host={tmp_path}")
    assert caught.value.code == "store.unreachable"
