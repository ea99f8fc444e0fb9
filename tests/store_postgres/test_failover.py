"""What becomes of a ledger whose primary ends beside a standby: that is waited for, or takes over with what it has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from readback.errors import StoreError
from readback.ports.storage.store import Appended, VersionConflict
from readback.stores.postgres import open_postgres_store
from readback.stores.postgres.connection import connect as opening
from readback.stores.postgres.connection.faults import unreachable
from readback.testing.postgres_server import PRIMARY, STANDBY, PostgresPair
from readback.testing.store_samples import sample_append, sample_creation
from tests.store_postgres.proxy import Proxy

pytestmark = pytest.mark.slow


@pytest.fixture
def pair() -> Iterator[PostgresPair]:
    with PostgresPair() as made:
        yield made


def _both(pair: PostgresPair, more: str = "", home: object = None) -> str:
    hosts = f"host={home or pair.home},{pair.home}&port={PRIMARY},{STANDBY}"
    return f"postgresql://postgres@/postgres?{hosts}&schema=ledger{more}"


def _stop_following(pair: PostgresPair) -> None:
    """What is committed from here on, the standby never hears of."""
    pair.run("ALTER SYSTEM SET primary_conninfo = ''", STANDBY)
    pair.run("SELECT pg_reload_conf()", STANDBY)
    pair._until("SELECT count(*) = 0 FROM pg_stat_wal_receiver")


def _take_over(pair: PostgresPair) -> None:
    pair.end()
    pair.run("SELECT pg_promote()", STANDBY)
    pair.run("CHECKPOINT", STANDBY)


@pytest.mark.requirement("PGSTORE-restart")
@pytest.mark.parametrize("which", ["", "&target_session_attrs=any"], ids=["unsaid", "any"])
def test_what_a_standby_shows_meanwhile_is_not_read_for_the_ledger_that_is_written(
    pair: PostgresPair, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    monkeypatch.setattr(opening, "RECONNECT_TRIES_MAX", 2)
    monkeypatch.setattr(opening, "RECONNECT_PAUSE_MS", 1)
    with open_postgres_store(_both(pair, which)) as store:
        store.append([sample_creation("a1")])
        pair.catch_up()
        pair.fall_behind()
        store.append([sample_append("a1", 1), sample_creation("a2")])
        pair.kill()
        for look in (lambda: store.events("a1"), lambda: store.projection("a2")):
            with pytest.raises(StoreError) as caught:
                look()
            assert caught.value.code in ("store.unreachable", "store.standby")
        pair.start_again()
        assert [event.version for event in store.events("a1")] == [1, 2]
        assert store.projection("a2") is not None
        assert store.append([sample_append("a1", 2)]) == [Appended(version=3, seq=0)]


@pytest.mark.requirement("PGSTORE-restart")
def test_each_look_waits_for_a_server_that_starts_again_and_not_the_first_alone(ledger_url: str) -> None:
    with open_postgres_store(ledger_url) as store:
        store.append([sample_creation("a1")])
        readers, connect, tries = store._readers, store._readers._connect, [0]
        readers._drop_idle()

        def starting() -> opening.Connection:
            tries[0] += 1
            if tries[0] <= 2:
                raise unreachable("there", "the database system is starting up")
            return connect()

        readers._connect = starting
        assert [event.version for event in store.events("a1")] == [1]
        assert tries == [3]


def test_who_only_looks_is_shown_the_primary_where_there_is_one_and_else_a_standby(pair: PostgresPair) -> None:
    standby_first = _both(pair).replace(f"{PRIMARY},{STANDBY}", f"{STANDBY},{PRIMARY}")
    with open_postgres_store(standby_first) as store:
        store.append([sample_creation("a1")])
        pair.catch_up()
        pair.fall_behind()
        store.append([sample_append("a1", 1)])
    with open_postgres_store(standby_first, read_only=True) as looking:
        assert [event.version for event in looking.events("a1")] == [1, 2]
    pair.end()
    with open_postgres_store(standby_first, read_only=True) as looking:
        assert [event.version for event in looking.events("a1")] == [1]


@pytest.mark.requirement("PGSTORE-restart")
def test_a_standby_among_the_hosts_is_waited_for_until_it_takes_over(
    pair: PostgresPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_postgres_store(_both(pair, "&target_session_attrs=any")) as store:
        store.append([sample_creation("a1")])
        pair.catch_up()
        pair.end()
        tries: list[str] = []
        again = opening.Opening.again

        def connect(self: opening.Opening) -> opening.Connection:
            try:
                return again(self)
            except StoreError as error:
                tries.append(error.code)
                if len(tries) == 1:
                    pair.run("SELECT pg_promote()", STANDBY)
                raise

        monkeypatch.setattr(opening.Opening, "again", connect)
        assert store.append([sample_append("a1", 1)]) == [Appended(version=2, seq=0)]
        assert tries[0] == "store.standby"
        assert [event.version for event in store.events("a1")] == [1, 2]


@pytest.mark.requirement("PGSTORE-lost-reply")
@pytest.mark.parametrize("has_it", [True, False], ids=["has it", "lacks it"])
def test_a_commit_whose_reply_a_failover_took_is_kept_once_whether_or_not_the_standby_has_it(
    pair: PostgresPair, has_it: bool
) -> None:
    with Proxy(pair.home) as proxy, open_postgres_store(_both(pair, home=proxy.home)) as store:
        store.append([sample_creation("a1")])
        pair.catch_up()
        if not has_it:
            _stop_following(pair)

        def fail_over() -> None:
            if has_it:
                pair.catch_up()
            _take_over(pair)

        proxy.cut_after, proxy.meanwhile = b"COMMIT", fail_over
        assert store.append([sample_append("a1", 1)]) == [Appended(version=2, seq=0)]
        assert proxy.cuts == 1
        assert [event.version for event in store.events("a1")] == [1, 2]
        assert store.append([sample_append("a1", 2)]) == [Appended(version=3, seq=0)]


@pytest.mark.requirement("PGSTORE-lost-reply")
def test_what_a_standby_lacked_that_took_over_is_not_gone_on_from(pair: PostgresPair) -> None:
    with open_postgres_store(_both(pair)) as store:
        store.append([sample_creation("a1")])
        pair.catch_up()
        _stop_following(pair)
        assert store.append([sample_append("a1", 1)]) == [Appended(version=2, seq=0)]
        _take_over(pair)
        assert store.append([sample_append("a1", 2)]) == [VersionConflict(version=1, fence=0)]
