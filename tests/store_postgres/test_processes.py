"""Several processes on one ledger: they race and one wins, they wait where they must, and they end cleanly."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest

from readback.ports.storage.store import (
    Append,
    Appended,
    AppendResult,
    Count,
    Erasure,
    Freeze,
    Frozen,
    StoredProjection,
    TooManyInFlight,
    VersionConflict,
)
from readback.stores.postgres import PostgresStore, open_postgres_store
from readback.stores.postgres.connection.schema import bucket_of, lock_class
from readback.testing.postgres_server import PostgresPair
from readback.testing.store_samples import (
    NOON_US,
    TENANT,
    sample_append,
    sample_creation,
    sample_evidence,
    sample_projection,
)
from tests.workers import forks

pytestmark = pytest.mark.slow
PROCESSES = 3
KEYS = 30
VERSIONS = 20
ORDER = "resource:order/7"


@pytest.fixture
def stores(ledger_url: str) -> Iterator[list[PostgresStore]]:
    """Two that share nothing but the database, as two processes do."""
    with open_postgres_store(ledger_url) as one, open_postgres_store(ledger_url) as another:
        yield [one, another]


@pytest.fixture
def session(ledger_server: PostgresPair, ledger_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Somebody in the middle of a transaction of his own."""
    with closing(ledger_server.connect()) as connection:
        connection.execute(f"SET search_path = {_schema(ledger_url)}".encode())
        connection.commit()
        yield connection


def _schema(url: str) -> str:
    return url.rpartition("schema=")[2]


def _together(*calls: Callable[[], object]) -> list[object]:
    """What each answers; a failure of one is the test's."""
    answers: list[object] = [None] * len(calls)

    def run(place: int) -> None:
        try:
            answers[place] = calls[place]()
        except BaseException as failure:
            answers[place] = failure

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    failures = [answer for answer in answers if isinstance(answer, BaseException)]
    assert failures == []
    return answers


# --- races -------------------------------------------------------------------------------------------------

RACE = f"""
import sys
from readback.stores.postgres import open_postgres_store
from readback.ports.storage.store import Appended
from readback.testing.store_samples import sample_append, sample_creation
me, url = sys.argv[1], sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
with open_postgres_store(url, clock="callers") as store:
    for number in range({KEYS}):
        [found] = store.append([sample_creation(f"{{me}}-{{number:03}}", key_hash=f"k{{number}}")])
        if isinstance(found, Appended):
            print("key", number, flush=True)
    version = 0
    while version < {VERSIONS}:
        [found] = store.append([sample_append("counter", version)])
        if isinstance(found, Appended):
            print("version", found.version, flush=True)
        version = found.version
    for number in range({KEYS}):
        fence = store.lease("counter", me, number, number + 1)
        if fence is not None:
            print("lease", number, fence, flush=True)
"""


def _child(code: str, *given: str) -> subprocess.Popen[str]:
    return forks.start(
        [sys.executable, "-c", code, *given],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_processes_that_race_never_both_win(ledger_url: str) -> None:
    """They also race to make the schema: nobody has opened the ledger before."""
    with ExitStack() as stack:
        children = [stack.enter_context(_child(RACE, f"w{n}", ledger_url)) for n in range(PROCESSES)]
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        ended = [(*child.communicate(timeout=60), child.returncode) for child in children]
    assert [(errors, code) for _, errors, code in ended] == [("", 0)] * PROCESSES
    said = [line.split() for output, _, _ in ended for line in output.splitlines()]
    wins = Counter((line[0], line[1]) for line in said)
    assert {wins["key", str(number)] for number in range(KEYS)} == {1}
    assert {wins["version", str(number)] for number in range(1, VERSIONS + 1)} == {1}
    fences = [int(line[2]) for line in said if line[0] == "lease"]
    assert sorted(fences) == list(range(1, len(fences) + 1)), "each fence was given once"
    assert max(Counter(line[1] for line in said if line[0] == "lease").values()) == 1
    with open_postgres_store(ledger_url) as store:
        assert [event.version for event in store.events("counter")] == list(range(1, VERSIONS + 1))
        assert store.damage() == []


WRITE = """
import sys
from readback.stores.postgres import open_postgres_store
from readback.testing.store_samples import sample_creation
store = open_postgres_store(sys.argv[1])
for number in range(100_000):
    store.append([sample_creation(f"a{number:05}", events=3)])
    print(f"a{number:05}", flush=True)
"""


def test_what_a_killed_process_acknowledged_is_there_and_nothing_is_half_there(ledger_url: str) -> None:
    child = _child(WRITE, ledger_url)
    assert child.stdout is not None
    acknowledged = [child.stdout.readline().strip() for _ in range(25)]
    child.kill()
    rest, _ = child.communicate(timeout=30)
    acknowledged += [line for line in rest.split("\n") if len(line) == 6]
    with open_postgres_store(ledger_url) as store:
        assert store.append([sample_creation("z")]) == [Appended(1, 0)]
        for name in acknowledged:
            assert [event.version for event in store.events(name)] == [1, 2, 3]
        held = [stored.projection.action_id for stored in store.projections()]
        assert held[:-1] == [f"a{number:05}" for number in range(len(held) - 1)]
        assert len(held) - 1 - len(acknowledged) in (0, 1), "at most the one that was being acknowledged"


@pytest.mark.requirement("PGSTORE-rings")
def test_processes_that_write_the_same_in_any_order_do_not_wait_in_a_ring(stores: list[PostgresStore]) -> None:
    names = [f"a{number}" for number in range(8)]
    stores[0].append([sample_creation(name) for name in names])

    def work(store: PostgresStore, seed: int) -> int:
        choice, won = random.Random(seed), 0
        for turn in range(25):
            versions = {name: (store.projection(name) or _MISSING).version for name in names}
            mine = choice.sample(names, 5)
            batch = [
                sample_append(
                    name,
                    versions[name],
                    counts=tuple(Count(subject, "n", 1) for subject in choice.sample("xyz", 3)),
                    evidence=tuple(sample_evidence(f"{turn % 3} {n}".encode()) for n in choice.sample(range(6), 4)),
                )
                for name in mine
            ]
            won += sum(isinstance(found, Appended) for found in store.append(batch))
        return won

    calls = [lambda n=n: work(stores[n % 2], n) for n in range(6)]
    won = _together(*calls)
    entries = sum(len(stores[0].events(name)) for name in names)
    assert entries == len(names) + sum(int(str(one)) for one in won)
    counted = stores[1].counts(TENANT)
    assert [value for _, _, value in counted] == [entries - len(names)] * 3, "a conflict counts nothing"
    for name in names:
        assert [e.version for e in stores[1].events(name)] == list(range(1, len(stores[0].events(name)) + 1))


_MISSING = StoredProjection(sample_projection("none"), 0, 0)


def test_what_this_process_remembers_is_no_answer_where_another_was_there_meanwhile(
    stores: list[PostgresStore],
) -> None:
    one, another = stores
    assert one.append([sample_creation("a1")]) == [Appended(1, 0)]
    assert another.append([sample_append("a1", 1, events=2)]) == [Appended(3, 0)]
    assert one.append([sample_append("a1", 1)]) == [VersionConflict(3, 0)], "remembered as 1"
    assert another.append([sample_append("a1", 3)]) == [Appended(4, 0)]
    assert one.append([sample_append("a1", 4)]) == [Appended(5, 0)], "remembered as 3, and moved on"
    assert another.lease("a1", "w", NOON_US, NOON_US + 60_000_000) == 1
    assert one.append([sample_append("a1", 5)]) == [VersionConflict(5, 1)]
    assert one.append([sample_creation("a1")]) == [VersionConflict(5, 1)], "it says that it is new"


# --- freezes and limits --------------------------------------------------------------------------------------


def _until_somebody_waits(session: psycopg.Connection[Any]) -> None:
    """Asks the server, which waits in between; nobody's clock is looked at here."""
    for _ in range(1_000):
        found = session.execute(
            "SELECT count(*), pg_sleep(0.005) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        ).fetchone()
        if found and found[0]:
            return
    raise AssertionError("nobody waits")


def _attempt(action_id: str = "a2") -> Append:
    return sample_append(action_id, require_not_frozen=(ORDER,))


@pytest.mark.requirement("PGSTORE-freezes")
def test_an_attempt_does_not_pass_by_a_freeze_that_is_being_made(
    stores: list[PostgresStore], session: psycopg.Connection[Any], ledger_url: str
) -> None:
    freeze = Freeze(TENANT, ORDER, "a1", "wrong_target_modified", NOON_US)
    session.execute(
        "SELECT pg_advisory_xact_lock(%s::int, %s::int)", (lock_class(_schema(ledger_url)), bucket_of(TENANT))
    )
    session.execute("INSERT INTO frozen VALUES (%s, %s, %s, %s, %s)", (TENANT, ORDER, "a1", freeze.reason, NOON_US))

    def commit() -> None:
        _until_somebody_waits(session)
        session.commit()

    answers = _together(lambda: stores[0].append([_attempt()]), commit)
    assert answers[0] == [Frozen(freeze)]


@pytest.mark.requirement("PGSTORE-freezes")
def test_a_freeze_waits_for_the_attempts_that_have_looked(
    stores: list[PostgresStore], session: psycopg.Connection[Any], ledger_url: str
) -> None:
    session.execute(
        "SELECT pg_advisory_xact_lock_shared(%s::int, %s::int)", (lock_class(_schema(ledger_url)), bucket_of(TENANT))
    )
    freezing = sample_append("a1", freezes=(Freeze(TENANT, ORDER, "a1", "wrong", NOON_US),))

    def let_go() -> bool:
        _until_somebody_waits(session)
        seen = session.execute("SELECT count(*) FROM frozen").fetchone()
        session.commit()
        return seen == (0,)

    assert _together(lambda: stores[0].append([freezing]), let_go) == [[Appended(1, 0)], True]
    assert isinstance(stores[1].append([_attempt()])[0], Frozen)


def test_attempts_of_one_tenant_do_not_wait_for_each_other(
    stores: list[PostgresStore], session: psycopg.Connection[Any], ledger_url: str
) -> None:
    session.execute(
        "SELECT pg_advisory_xact_lock_shared(%s::int, %s::int)", (lock_class(_schema(ledger_url)), bucket_of(TENANT))
    )
    assert stores[0].append([_attempt()]) == [Appended(1, 0)], "while another attempt is on its way"
    session.rollback()


@pytest.mark.requirement("PGSTORE-freezes")
def test_a_tenants_limit_holds_between_processes(stores: list[PostgresStore]) -> None:
    def fill(place: int) -> list[AppendResult]:
        found = []
        for number in range(6):
            held = sample_projection(f"a{place}-{number}", due_us=NOON_US)
            found += stores[place % 2].append([sample_append(held.action_id, projection=held, in_flight_max=7)])
        return found

    calls = [lambda n=n: fill(n) for n in range(4)]
    found: list[Any] = [one for each in _together(*calls) for one in each]  # type: ignore[attr-defined]
    assert Counter(type(one) for one in found) == {Appended: 7, TooManyInFlight: 17}
    assert stores[0].in_flight(TENANT) == 7


def test_evidence_that_is_recorded_again_while_it_is_erased_has_its_bytes(stores: list[PostgresStore]) -> None:
    item = sample_evidence(b'{"name":"Ana"}')
    for turn in range(10):
        name = f"a{turn}"
        stores[0].append([sample_append(name, evidence=(item,))])
        erasing = sample_append(name, 1, erases=Erasure((item.digest,)))
        again = sample_append(f"b{turn}", evidence=(item,))
        _together(lambda e=erasing: stores[0].append([e]), lambda a=again: stores[1].append([a]))  # type: ignore[misc]
        assert stores[0].erased(TENANT, name, item.digest)
        assert stores[0].evidence(TENANT, f"b{turn}", item.digest) == item
        stores[1].append([sample_append(name, 2, evidence=(item,))])
        assert stores[0].evidence(TENANT, name, item.digest) == item
    assert stores[0].evidence_bytes(TENANT) == 20 * len(item.body)


# --- the end -------------------------------------------------------------------------------------------------


def _sessions(server: PostgresPair, name: str) -> int:
    return int(server.run(f"select count(*) from pg_stat_activity where application_name = '{name}'")[0])


def test_a_closed_store_leaves_no_session_behind(ledger_server: PostgresPair, ledger_url: str) -> None:
    url = ledger_url + "&application_name=leaving"
    store = open_postgres_store(url)
    store.append([sample_creation("a1")])
    _together(*[lambda: store.projection("a1")] * 12)
    assert 2 <= _sessions(ledger_server, "leaving") <= 9
    store.close()
    for _ in range(200):
        if not _sessions(ledger_server, "leaving"):
            break
    assert _sessions(ledger_server, "leaving") == 0


FORK = """
import gc, os, sys
from readback.stores.postgres import open_postgres_store
from readback.errors import ReadbackError
from readback.testing.store_samples import sample_creation
url = sys.argv[1]
store = open_postgres_store(url)
store.append([sample_creation("a1")])
store.projection("a1")
child = os.fork()
if child == 0:
    for call in (lambda: store.events("a1"), lambda: store.append([sample_creation("a2")])):
        try:
            call()
        except ReadbackError as error:
            print(error.code, flush=True)
    store.close()
    del store, call
    gc.collect()
    with open_postgres_store(url) as own:
        own.append([sample_creation("a3")])
    sys.exit(0)  # runs the interpreter's whole clean-up, in which nothing of the parent's may be closed
os.waitpid(child, 0)
store.append([sample_creation("a4")])
print([stored.projection.action_id for stored in store.projections()])
store.close()
"""


def test_a_forked_child_is_refused_and_does_no_harm(ledger_url: str) -> None:
    output, errors = _child(FORK, ledger_url).communicate(timeout=60)
    assert errors == ""
    assert output.splitlines() == ["store.forked", "store.forked", "['a1', 'a3', 'a4']"]
