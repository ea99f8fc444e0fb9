"""Places on a real server: processes that give them are killed between any two steps, and nothing comes of it."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from readback import bootstrap
from readback.audit.checks.ledger import audit
from readback.audit.evidence.attest import Authority, key_of
from readback.audit.sealing.confirm import is_confirmed
from readback.audit.sealing.seal import place_all, seal_all
from readback.errors import StoreError
from readback.ports.storage.outbox import Cursor
from readback.stores.postgres import PostgresStore, open_postgres_store
from readback.stores.postgres.connection.schema import lock_class
from readback.testing.postgres_server import PostgresPair
from readback.testing.store_samples import NOON_US, sample_append
from tests.workers import forks

pytestmark = pytest.mark.slow
PATIENT_S = 60.0
TRIES_MAX = 5_000
GATE = 77
BATCHES = 4
KILLS = 4
ACTORS = 2


def schema_of(url: str) -> str:
    return url.rpartition("schema=")[2]


@pytest.fixture
def store(ledger_url: str) -> Iterator[PostgresStore]:
    with open_postgres_store(ledger_url) as opened:
        yield opened


@contextmanager
def session_on(server: PostgresPair, url: str) -> Iterator[psycopg.Connection[Any]]:
    with closing(server.connect(autocommit=True)) as connection:
        connection.execute(f"SET search_path = {schema_of(url)}".encode())
        yield connection


class Process:
    """One run of the program. Whatever it says is kept."""

    def __init__(self, *given: str) -> None:
        self.said: list[str] = []
        self._news = threading.Condition()
        self.process = forks.start(
            [sys.executable, "-m", "tests.store_postgres.placing_program", *given],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.said.append(line.strip())
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def until(self, word: str, times: int = 1) -> None:
        """Waits until it has said something that begins so, so often."""

        def heard() -> bool:
            return sum(line.startswith(word) for line in self.said) >= times or self.process.poll() is not None

        with self._news:
            assert self._news.wait_for(heard, PATIENT_S), f"not a word of {word!r}: {self.said[-3:]}"
        assert sum(line.startswith(word) for line in self.said) >= times, self.errors()

    def errors(self) -> str:
        return "" if self.process.stderr is None else self.process.stderr.read()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENT_S)
        self._reader.join(PATIENT_S)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


def place(store: PostgresStore) -> None:
    """Every entry gets its place, as soon as whoever holds it up has let go."""
    for _ in range(TRIES_MAX):
        if not store.assign_sequence_numbers(1_000) and not store.unsequenced(1):
            return
        threading.Event().wait(0.002)
    raise AssertionError("entries stay without a place")


def fill(store: PostgresStore, batch: int) -> None:
    """A batch of entries: each action has one in each batch."""
    store.append([sample_append(f"a{number}", batch) for number in range(5)])


def stands_once_and_in_order(store: PostgresStore, batches: int) -> None:
    log = list(store.scan())
    assert [each.seq for each in log] == list(range(1, 5 * batches + 1))
    for number in range(5):
        assert [e.version for e in log if e.action_id == f"a{number}"] == list(range(1, batches + 1))


def blocked(session: psycopg.Connection[Any], wanted: int = 1) -> None:
    """Until so many sessions of the program wait for a lock."""
    for _ in range(TRIES_MAX):
        found = session.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'readback' AND wait_event_type = 'Lock'"
        ).fetchone()
        if found is not None and found[0] >= wanted:
            return
        threading.Event().wait(0.002)
    raise AssertionError("nobody waits")


GATES = {
    "the lock was taken": "LOCK TABLE sequencer IN ACCESS EXCLUSIVE MODE",
    "the entries were chosen": (
        f"CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock({GATE});"
        " RETURN NEW; END'; CREATE TRIGGER gate BEFORE INSERT ON place FOR EACH ROW EXECUTE FUNCTION gate()"
    ),
    "the places were inserted": (
        f"CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock({GATE});"
        " RETURN NEW; END'; CREATE TRIGGER gate BEFORE UPDATE ON sequencer FOR EACH ROW EXECUTE FUNCTION gate()"
    ),
}


@pytest.mark.requirement("PLACE-crash")
@pytest.mark.parametrize("step", GATES)
@pytest.mark.parametrize("whole", ["the process", "its session"])
def test_who_dies_when(
    store: PostgresStore, ledger_server: PostgresPair, ledger_url: str, step: str, whole: str
) -> None:
    fill(store, 0)
    place(store)
    fill(store, 1)
    with session_on(ledger_server, ledger_url) as session, session_on(ledger_server, ledger_url) as beside:
        if step != "the lock was taken":
            session.execute(GATES[step].encode())
        session.autocommit = False
        session.execute(
            GATES[step].encode() if step == "the lock was taken" else f"SELECT pg_advisory_xact_lock({GATE})".encode()
        )
        with Process("take", ledger_url) as process:
            process.until("ready")
            blocked(beside)
            fill(store, 2)  # nobody who appends waits for it
            if step != "the lock was taken":
                assert store.assign_sequence_numbers(100) == 0, "one at a time"
                assert store.last_seq() == 5
            if whole == "the process":
                process.kill()
            else:
                beside.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name = 'readback' AND wait_event_type = 'Lock'"
                )
            session.rollback()
            session.autocommit = True
            session.execute("DROP FUNCTION IF EXISTS gate() CASCADE")
            if whole == "its session":
                process.until("taken")  # it asks again on a new connection
            place(store)
    fill(store, 3)
    place(store)
    stands_once_and_in_order(store, BATCHES)


@pytest.mark.requirement("PLACE-crash")
@pytest.mark.parametrize("after", ["hold", ""])
def test_who_dies_before_its_commit_leaves_nothing_and_after_it_everything(
    store: PostgresStore, ledger_url: str, after: str
) -> None:
    fill(store, 0)
    fill(store, 1)
    with Process("take", ledger_url, after) as process:
        process.until("held" if after else "taken")
        fill(store, 2)
        if after:
            assert store.assign_sequence_numbers(100) == 0, "one at a time"
        process.kill()
        assert process.said[-1] == ("held" if after else "taken 10")
    assert store.last_seq() in ((0, 10) if after else (10,))
    place(store)
    fill(store, 3)
    place(store)
    stands_once_and_in_order(store, BATCHES)


@pytest.mark.requirement("PLACE-order")
def test_what_came_earlier_and_is_not_committed_yet_holds_up_what_came_later(
    store: PostgresStore, ledger_server: PostgresPair, ledger_url: str
) -> None:
    with session_on(ledger_server, ledger_url) as session:
        session.autocommit = False
        session.execute("CREATE TEMPORARY TABLE written (number int) ON COMMIT DROP")
        session.execute("SELECT pg_current_xact_id()")
        fill(store, 0)
        assert store.assign_sequence_numbers(100) == 0
        assert len(store.unsequenced(100)) == 5
        session.rollback()
    place(store)
    stands_once_and_in_order(store, 1)


@pytest.mark.requirement("PLACE-order")
def test_an_entry_of_an_older_transaction_that_arrived_later_stands_later(
    store: PostgresStore, ledger_server: PostgresPair, ledger_url: str
) -> None:
    """The next entry of an action may come in a transaction that began before the one that brought its last."""
    with session_on(ledger_server, ledger_url) as session:
        session.autocommit = False
        session.execute("SELECT pg_current_xact_id()")  # the older transaction
        store.append([sample_append("a1")])
        session.execute(
            "INSERT INTO event (tenant, action_id, version, kind, at_us, envelope, leaf)"
            " SELECT tenant, action_id, 2, kind, at_us, envelope, leaf FROM event WHERE action_id = 'a1'"
        )
        assert store.assign_sequence_numbers(100) == 0
        session.commit()
    place(store)
    assert [(each.seq, each.version) for each in store.scan()] == [(1, 1), (2, 2)]


@pytest.mark.requirement("PLACE-order")
def test_a_long_backlog_is_placed_in_pieces_that_others_may_go_on_with(store: PostgresStore, ledger_url: str) -> None:
    for batch in range(40):
        fill(store, batch)
    with open_postgres_store(ledger_url) as other:
        taken = 0
        while taken < 200:
            for one in (store, other):
                taken += one.assign_sequence_numbers(7)
                fill_more = taken == 21
                if fill_more:
                    fill(store, 40)
    place(store)
    stands_once_and_in_order(store, len(list(store.scan())) // 5)


@pytest.mark.requirement("PLACE-crash", "L21")
def test_a_ledger_that_was_brought_to_another_server_is_gone_on_with(
    store: PostgresStore, ledger_server: PostgresPair, ledger_url: str
) -> None:
    """Numbers of transactions in it are of another server then: larger than any that this one has given."""
    fill(store, 0)
    place(store)
    with session_on(ledger_server, ledger_url) as session:
        fill(store, 1)
        session.execute("ALTER TABLE event DISABLE TRIGGER USER")
        session.execute("UPDATE event SET xid = (xid::text::bigint + 1000000000)::text::xid8")
        session.execute("ALTER TABLE event ENABLE TRIGGER USER")
        session.execute("UPDATE sequencer SET cluster = cluster + 1, since = '1000000500', upto = '1000000500'")
    fill(store, 2)
    place(store)
    fill(store, 3)
    place(store)
    stands_once_and_in_order(store, BATCHES)


def test_a_place_is_never_changed_and_never_given_twice(
    store: PostgresStore, ledger_server: PostgresPair, ledger_url: str
) -> None:
    fill(store, 0)
    place(store)
    with session_on(ledger_server, ledger_url) as session:
        for statement in (
            "UPDATE place SET seq = 9 WHERE seq = 1",
            "DELETE FROM place",
            "TRUNCATE place",
            "INSERT INTO place SELECT 6, event FROM place WHERE seq = 1",
            "INSERT INTO place VALUES (1, 99)",
        ):
            with pytest.raises(psycopg.Error) as refused:
                session.execute(statement.encode())
            assert isinstance(refused.value, psycopg.errors.IntegrityError), statement
    stands_once_and_in_order(store, 1)


def test_the_lock_is_this_ledgers_own(store: PostgresStore, ledger_server: PostgresPair, ledger_url: str) -> None:
    fill(store, 0)
    with session_on(ledger_server, ledger_url) as session:
        session.execute(f"SELECT pg_advisory_lock({lock_class('another')}, -2)".encode())
        place(store)
        fill(store, 1)
        session.execute(f"SELECT pg_advisory_lock({lock_class(schema_of(ledger_url))}, -2)".encode())
        assert store.assign_sequence_numbers(100) == 0
    place(store)
    stands_once_and_in_order(store, 2)


def test_a_position_is_leased_by_the_databases_clock(store: PostgresStore) -> None:
    """A host whose clock is a day ahead takes nothing from one that delivers."""
    day_us, minute_us = 86_400_000_000, 60_000_000
    store.enrol("pager", 0)
    held = store.take_cursor("pager", "us", NOON_US, NOON_US + minute_us)
    assert held == Cursor("pager", 0, owner="us", until_us=NOON_US + minute_us)
    assert store.take_cursor("pager", "them", NOON_US + day_us, NOON_US + day_us + minute_us) is None
    over = store.take_cursor("pager", "them", NOON_US + day_us, NOON_US + day_us, dead="us")
    assert over is not None
    assert store.take_cursor("pager", "us", NOON_US, NOON_US + minute_us) is not None, "it had no time at all"


def test_a_read_only_store_gives_no_places_and_sees_what_waits(store: PostgresStore, ledger_url: str) -> None:
    fill(store, 0)
    with open_postgres_store(ledger_url, read_only=True) as looking:
        assert len(looking.unsequenced(100)) == 5
        with pytest.raises(StoreError) as refused:
            looking.assign_sequence_numbers(1)
        assert refused.value.code == "store.read-only"


@pytest.mark.requirement("PLACE-crash", "LEDGER-sealed")
def test_many_act_and_place_and_are_killed_and_there_is_one_sound_log(ledger_url: str, tmp_path: Path) -> None:
    signer = bootstrap.create_log_key(tmp_path / "log.key", "example.com/fleet")
    by = Authority(key_of(signer), bootstrap.verify_signature)
    drawn, done = random.Random(7), list[str]()
    open_postgres_store(ledger_url).close()

    def told(process: Process) -> list[str]:
        return [line.split()[1] for line in process.said if line.startswith("did ")]

    with ExitStack() as stack:
        names = iter(range(1_000))

        def actor() -> Process:
            name = f"agent-{next(names)}"
            return stack.enter_context(Process("act", ledger_url, name, str(tmp_path / "log.key")))

        actors = [actor() for _ in range(ACTORS)]
        placing = [stack.enter_context(Process("place", ledger_url)) for _ in range(2)]
        for each in (*actors, *placing):
            each.until("ready")
        for kill in range(KILLS):
            actors[0].until("did", 3 + drawn.randrange(5))
            victims = actors if kill % 2 else placing
            victim = victims.pop(0)
            victim.kill()
            done += told(victim)
            victims.append(actor() if kill % 2 else stack.enter_context(Process("place", ledger_url)))
            victims[-1].until("ready")
        for each in (*actors, *placing):
            each.kill()
            done += told(each)
    assert len(done) == len(set(done)) > 0
    with open_postgres_store(ledger_url) as store:
        for _ in range(TRIES_MAX):
            place_all(store)
            if not store.unsequenced(1):
                break
            threading.Event().wait(0.002)
        seal_all(store, signer, by, NOON_US)
        report = audit(store, authority=by)
        assert report.ok, report.faults
        assert report.unsequenced == 0
        assert report.sealed == report.events == report.head_seq
        assert report.checkpoints > 1
        for action_id in done:
            assert is_confirmed(store, action_id, by), action_id
