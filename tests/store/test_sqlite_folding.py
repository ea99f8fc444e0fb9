"""The write-ahead log is folded back beside the writer: it stays short, and nobody waits for it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import apsw
import pytest

from readback.ports.storage.store import Append
from readback.stores.sqlite import SqliteStore, open_sqlite_store
from readback.stores.sqlite import store as wal_checkpoint
from readback.stores.sqlite.transaction import Transaction
from readback.testing.store_samples import sample_creation, sample_evidence

LONG, REST, TOO_LONG = 60, 20, 240
FRAME_BYTES = 4096 + 24


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def store(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    monkeypatch.setattr(wal_checkpoint, "LONG_PAGES", LONG)
    monkeypatch.setattr(wal_checkpoint, "REST_PAGES_MAX", REST)
    monkeypatch.setattr(wal_checkpoint, "AGAIN_PAGES", LONG // 2)
    monkeypatch.setattr(wal_checkpoint, "TOO_LONG_PAGES", TOO_LONG)
    with open_sqlite_store(path) as opened:
        yield opened


def large(number: int) -> Append:
    """Some fifteen pages of the log."""
    name = f"a{number:04}"
    return replace(sample_creation(name), evidence=(sample_evidence(name.encode() * 1_200),))


def longest(path: Path) -> int:
    """Pages of the log where it was longest: what begins anew is written over it."""
    return Path(f"{path}-wal").stat().st_size // FRAME_BYTES


def folds_held_up(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """A thread is at work that has begun and waits: (that it has begun, what lets it go on)."""
    begun, go_on = threading.Event(), threading.Event()
    connect = store._checkpoints._connect

    def waiting() -> apsw.Connection:
        begun.set()
        assert go_on.wait(30)
        return connect()

    monkeypatch.setattr(store._checkpoints, "_connect", waiting)
    number = 0
    while store._checkpoints._thread is None:
        store.append([large(number)])
        number += 1
    assert begun.wait(30)
    return begun, go_on


def let_go_when_held(store: SqliteStore, go_on: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    hold = store._checkpoints.hold

    def held() -> None:
        go_on.set()
        hold()

    monkeypatch.setattr(store._checkpoints, "hold", held)


def test_the_log_is_folded_back_beside_the_writer_and_begins_anew(store: SqliteStore, path: Path) -> None:
    for number in range(60):
        store.append([large(number)])
        store._checkpoints.hold()  # until what began has ended
        store._checkpoints.release()
    assert LONG <= longest(path) < TOO_LONG, "never as long as what the writer would fold"
    assert len(list(store.scan())) == 60
    assert store.damage() == []


def test_nobody_who_writes_waits_for_it(store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, go_on = folds_held_up(store, monkeypatch)
    try:
        for number in range(100, 105):
            store.append([large(number)])
        assert longest(path) > LONG
    finally:
        go_on.set()


@contextmanager
def folded_within_commits(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Each thread folds while a commit is under way, as beside commits that go on it nearly always does: how long the
    log was then.
    """
    connect, flush = store._checkpoints._connect, Transaction.flush
    go_on, lengths = threading.Event(), []

    def waiting() -> apsw.Connection:
        assert go_on.wait(30)
        return connect()

    def flushed(transaction: Transaction) -> None:
        thread = store._checkpoints._thread
        if thread is not None and thread.is_alive():
            lengths.append(longest(store.path))
            go_on.set()
            thread.join(30)
            go_on.clear()
        flush(transaction)

    monkeypatch.setattr(store._checkpoints, "_connect", waiting)
    monkeypatch.setattr(Transaction, "flush", flushed)
    yield lengths
    go_on.set()


def test_what_is_written_while_it_is_folded_is_folded_behind_it_so_that_the_log_begins_anew(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with folded_within_commits(store, monkeypatch) as lengths:
        for number in range(60):
            store.append([large(number)])
    assert longest(path) < LONG + 3 * REST
    assert len(lengths) > 2
    assert store.damage() == []


def test_where_much_is_written_while_it_is_folded_a_thread_does_it_again(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with folded_within_commits(store, monkeypatch) as lengths:
        for number in range(0, 60, 4):
            store.append([large(each) for each in range(number, number + 4)])
    assert longest(path) >= TOO_LONG, "and then the writer"
    assert all(later - earlier >= LONG // 2 for earlier, later in pairwise(lengths[:3]))
    assert len(lengths) >= 3
    assert store.damage() == []


def test_where_the_system_gives_no_thread_the_writer_folds_it(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    for number in range(60):
        store.append([large(number)])
    assert TOO_LONG <= longest(path) < TOO_LONG + LONG
    assert len(list(store.scan())) == 60


def test_whoever_reads_for_long_keeps_it_long_and_no_thread_begins_at_each_commit(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []
    connect = store._checkpoints._connect

    def counted() -> apsw.Connection:
        begun.append(longest(path))
        return connect()

    monkeypatch.setattr(store._checkpoints, "_connect", counted)
    store._checkpoints.hold()  # the schema may suffice alone: no thread may measure the log during a later commit
    store.append([large(0)])
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN").execute("SELECT count(*) FROM event").fetchall()
    store._checkpoints.release()
    for number in range(1, 9):
        store.append([large(number)])
        store._checkpoints.hold()
        store._checkpoints.release()
    assert longest(path) < TOO_LONG
    assert len(begun) > 1
    assert all(later - earlier >= LONG // 2 for earlier, later in pairwise(begun))
    reader.close()


def test_closing_waits_for_it_and_leaves_neither_a_thread_nor_a_log(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, go_on = folds_held_up(store, monkeypatch)
    let_go_when_held(store, go_on, monkeypatch)
    store.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "readback-folding"]
    assert not Path(f"{path}-wal").exists()


def test_what_an_erasure_empties_is_emptied_while_it_is_being_folded(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, go_on = folds_held_up(store, monkeypatch)
    let_go_when_held(store, go_on, monkeypatch)
    try:
        assert store.purge()
        assert Path(f"{path}-wal").stat().st_size == 0
        assert not [thread for thread in threading.enumerate() if thread.name == "readback-folding"]
    finally:
        go_on.set()


FORK = """
import os, sys, threading
from dataclasses import replace
from readback.stores.sqlite import store as folding, open_sqlite_store
from readback.testing.store_samples import sample_creation, sample_evidence
folding.LONG_PAGES = 60
path = sys.argv[1]
store = open_sqlite_store(path)
begun, go_on = threading.Event(), threading.Event()
connect, hold = store._checkpoints._connect, store._checkpoints.hold
def waiting():
    begun.set()
    go_on.wait(30)
    return connect()
def held():
    go_on.set()
    hold()
store._checkpoints._connect, store._checkpoints.hold = waiting, held
number = 0
while store._checkpoints._thread is None:
    name = f"a{number:04}"
    store.append([replace(sample_creation(name), evidence=(sample_evidence(name.encode() * 1_200),))])
    number += 1
begun.wait(30)
child = os.fork()
if child == 0:
    print(threading.active_count(), store._checkpoints._thread.is_alive(), flush=True)
    with open_sqlite_store(path) as own:
        own.append([sample_creation("z")])
    os._exit(0)
print(store._checkpoints._thread.is_alive(), os.waitpid(child, 0)[1])
go_on.set()
store.append([sample_creation("y")])
print(store._checkpoints._held, store.damage())
store.close()
"""


def test_a_process_forks_only_when_it_is_done(path: Path) -> None:
    """Else the child could have SQLite's own locks as the thread held them, with nobody to let them go."""
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORK, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert sorted(answer.stdout.splitlines()) == ["0 []", "1 False", "False 0"]
    assert answer.stderr == ""


def test_what_was_folded_of_an_earlier_log_makes_no_commit_fold_the_present_one(store: SqliteStore, path: Path) -> None:
    """The log may have begun anew before the thread says what it had found, or have been folded by another process."""
    store._checkpoints.hold()  # no thread: what is folded below, a commit folds
    for number in range(5):
        store.append([large(number)])
    store._checkpoints._folded = TOO_LONG - 1
    for number in range(5, 10):
        store.append([large(number)])
    store._checkpoints.release()
    assert TOO_LONG - 2 * REST < longest(path) < TOO_LONG, "and it has not begun anew"
