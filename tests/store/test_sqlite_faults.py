"""What the machine under the ledger does to it: locked, full, moved, damaged, forked; nothing half-done."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from readback.errors import (
    BackupError,
    ReadbackError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreReadOnlyError,
)
from readback.ports.storage.store import Append, Appended, VersionConflict
from readback.stores.shared_commit import Job
from readback.stores.sqlite import SqliteStore, connect, open_sqlite_store
from readback.stores.sqlite.backup import copy_ledger
from readback.stores.sqlite.commands import AppendWork, Work
from readback.testing.conformance.store_work import everything
from readback.testing.store_samples import TENANT, sample_append, sample_creation, sample_evidence, sample_projection

LARGE = bytes(range(256)) * 1024


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with open_sqlite_store(path, busy_timeout_ms=50) as opened:
        opened.append([sample_creation("a1")])
        yield opened


def with_evidence(name: str, body: bytes = LARGE) -> Append:
    return sample_append(name, evidence=(sample_evidence(body + name.encode()),))


# --- locked ------------------------------------------------------------------------------------------------

HOLD = """
import apsw, sys
held = apsw.Connection(sys.argv[1])
for statement in sys.argv[2:]:
    held.execute(statement).fetchall()
print("held", flush=True)
sys.stdin.readline()
"""


@contextmanager
def holder(path: Path, *statements: str) -> Iterator[int]:
    """A process that has carried out these statements and holds what they locked; its pid."""
    command = [sys.executable, "-c", HOLD, str(path), *statements]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "held\n"
        yield process.pid
        process.stdin.close()


def test_a_lock_of_another_process_is_waited_for_a_bounded_time_and_named(store: SqliteStore, path: Path) -> None:
    before = everything(store)
    with holder(path, "BEGIN", "SELECT * FROM event"), holder(path, "BEGIN IMMEDIATE") as writer:
        for call in (
            lambda: store.append([sample_creation("a2")]),
            lambda: store.lease("a1", "w", 0, 1),
            lambda: store.make_due("a1", 0),
        ):
            with pytest.raises(StoreLockedError, match=rf"locked by process {writer} ") as caught:
                call()
            assert caught.value.details["holders"] == (str(writer),), "who only reads is in nobody's way"
        assert everything(store) == before, "reading goes on"
    assert store.append([sample_creation("a2")]) == [Appended(1, 2)]


def test_a_ledger_that_is_locked_can_be_opened_to_look_at(store: SqliteStore, path: Path) -> None:
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    with open_sqlite_store(path, busy_timeout_ms=50) as second:
        assert second.projection("a1") is not None
        with pytest.raises(StoreLockedError):
            second.append([sample_creation("a2")])
    other.close()


@pytest.mark.parametrize("hold", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_new_ledger_that_another_process_is_busy_with_is_waited_for_a_bounded_time(path: Path, hold: str) -> None:
    with holder(path, hold) as writer, pytest.raises(StoreLockedError, match=rf"process {writer} "):
        open_sqlite_store(path, busy_timeout_ms=100)
    open_sqlite_store(path, busy_timeout_ms=100).close()


def test_a_new_ledger_is_opened_as_soon_as_the_other_process_lets_go(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    waits: list[float] = []

    class LetsGo(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout or 0.0)
            if len(waits) == 3:
                other.close()
            return False

    with monkeypatch.context() as patch:
        patch.setattr(connect.threading, "Event", LetsGo)  # type: ignore[attr-defined]
        store = open_sqlite_store(path)
    assert store.append([sample_creation("a1")]) == [Appended(1, 1)]
    store.close()
    assert waits == [0.02] * 3


# --- full --------------------------------------------------------------------------------------------------


def test_a_full_ledger_says_so_keeps_nothing_half_and_goes_on(path: Path) -> None:
    with open_sqlite_store(path, pages_max=200) as store:
        store.append([sample_creation("a1")])
        before = everything(store)
        with pytest.raises(StoreFullError):
            store.append([sample_creation("a2"), *(with_evidence(f"b{n}") for n in range(5))])
        assert everything(store) == before
        assert store.append([sample_append("a1", 1)]) == [Appended(2, 2)]
        assert store.damage() == []


@pytest.fixture
def small_volume(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte; only the superuser can mount one, and not in every container."""
    folder = tmp_path / "volume"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("no small file system can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def _fill(store: SqliteStore) -> int:
    """Append until the disk is full; how many were acknowledged."""
    kept = 0
    while True:
        try:
            assert store.append([with_evidence(f"a{kept:03}", LARGE[:20_000])]) == [Appended(1, kept + 1)]
        except StoreFullError:
            return kept
        kept += 1


def test_a_full_disk_says_so_keeps_what_was_acknowledged_and_goes_on(small_volume: Path) -> None:
    ballast = small_volume / "ballast"
    ballast.write_bytes(LARGE)
    with open_sqlite_store(small_volume / "ledger.db") as store:
        kept = _fill(store)
        assert kept > 3
        assert [event.action_id for event in store.scan()] == [f"a{number:03}" for number in range(kept)]
        ballast.unlink()
        assert store.append([with_evidence("z", b"small")]) == [Appended(1, kept + 1)]
    with open_sqlite_store(small_volume / "ledger.db") as store:
        assert len(list(store.projections())) == kept + 1
        assert store.damage() == []


def test_a_volume_without_room_for_what_stands_beside_a_ledger_is_told_as_full(small_volume: Path) -> None:
    """SQLite says of it that the disk failed."""
    path = small_volume / "ledger.db"
    open_sqlite_store(path).close()
    with (small_volume / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
        while ballast.write(LARGE):
            pass
    for read_only in (False, True):
        with pytest.raises(StoreFullError, match="no space left beside the database"):
            open_sqlite_store(path, read_only=read_only)


def test_a_backup_for_which_there_is_no_room_says_so(path: Path, small_volume: Path) -> None:
    with open_sqlite_store(path) as store:
        for number in range(8):
            store.append([with_evidence(f"a{number}")])
    with pytest.raises(BackupError, match="there is no space left"):
        copy_ledger(path, small_volume / "copy.db", 50, lambda _done, _all: None)
    assert list(small_volume.iterdir()) == []


def test_a_ledger_on_a_volume_that_may_only_be_read_is_told_as_that(small_volume: Path) -> None:
    path = small_volume / "ledger.db"
    open_sqlite_store(path).close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_volume)], check=True)
    with pytest.raises(StoreReadOnlyError, match="cannot be written where it is"):
        open_sqlite_store(path)
    open_sqlite_store(path, read_only=True).close()


# --- moved and damaged -------------------------------------------------------------------------------------


@pytest.mark.parametrize("replaced", [False, True])
def test_nothing_is_acknowledged_into_a_file_that_is_gone(store: SqliteStore, path: Path, replaced: bool) -> None:
    path.rename(path.with_name("moved.db"))
    if replaced:
        path.touch()
    with pytest.raises(StoreError, match="moved, replaced or deleted") as caught:
        store.append([sample_creation("a2")])
    assert caught.value.code == "store.moved"
    jobs: list[Job[Work]] = [Job(AppendWork([sample_creation(name)])) for name in ("a2", "a3")]
    store._run(jobs)
    assert [job.error.code for job in jobs if isinstance(job.error, StoreError)] == ["store.moved"] * 2
    path.with_name("moved.db").rename(path)
    assert store.append([sample_creation("a2")]) == [Appended(1, 2)]


@pytest.mark.parametrize("gone", [["-wal"], ["-shm"], ["-wal", "-shm"]])
@pytest.mark.parametrize("replaced", [False, True])
def test_nothing_is_acknowledged_into_a_log_that_is_gone(path: Path, gone: list[str], replaced: bool) -> None:
    """It would end with this process, and whoever opens the ledger meanwhile would write without being seen."""
    open_sqlite_store(path).close()
    with open_sqlite_store(path) as store:  # one that is there already, and has not been written to
        assert len(store._places) == 3
        store.append([sample_creation("a1")])
        for suffix in gone:
            Path(f"{path}{suffix}").unlink()
            if replaced:
                Path(f"{path}{suffix}").touch()
        for call in (lambda: store.append([sample_creation("a2")]), lambda: store.lease("a1", "w", 0, 1)):
            with pytest.raises(StoreError, match=f"{path}{gone[0]}, which .* was moved") as caught:
                call()
            assert caught.value.code == "store.moved"
    with open_sqlite_store(path) as again:
        assert [event.action_id for event in again.scan()] == ["a1"], "who ends by himself loses nothing"
        assert again.damage() == []


def test_evidence_that_changed_on_disk_is_never_handed_out(store: SqliteStore, path: Path) -> None:
    item = with_evidence("a2")
    store.append([item])
    other = apsw.Connection(str(path))
    other.execute("UPDATE payload SET body = zeroblob(length(body))")
    other.close()
    with pytest.raises(StoreCorruptError, match="other bytes"):
        store.evidence(TENANT, "a2", item.evidence[0].digest)


def test_evidence_whose_bytes_are_gone_is_absent_until_it_is_recorded_again(store: SqliteStore, path: Path) -> None:
    item = with_evidence("a2")
    store.append([item])
    other = apsw.Connection(str(path))
    other.execute("UPDATE payload SET body = NULL")
    other.close()
    assert store.evidence(TENANT, "a2", item.evidence[0].digest) is None
    store.append([replace(item, expected_version=1)])
    assert store.evidence(TENANT, "a2", item.evidence[0].digest) == item.evidence[0]


@pytest.mark.requirement("LEDGER-append-only")
@pytest.mark.parametrize("statement", ["UPDATE event SET kind = 'x'", "DELETE FROM event"])
def test_an_event_cannot_be_changed_or_removed(store: SqliteStore, statement: str) -> None:
    assert store._writer is not None
    with pytest.raises(apsw.ConstraintError, match="an event is never"):
        store._writer.execute(statement)


# --- values that no database takes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "projection",
    [
        sample_projection("a2", target="\ud800"),
        sample_projection("a2", due_us=2**63),
        sample_projection("a2", contract=None),
    ],
)
def test_a_value_that_cannot_be_stored_fails_its_batch_and_nothing_else(store: SqliteStore, projection: object) -> None:
    before = everything(store)
    bad = replace(sample_append("a2"), projection=projection)  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="cannot be stored") as caught:
        store.append([sample_creation("a3"), bad])
    assert caught.value.code == "store.value"
    assert everything(store) == before
    assert store.append([sample_append("a1", 2)]) == [VersionConflict(1, 0)], "what failed is not remembered"
    assert store.append([sample_append("a1", 1), sample_append("a2")]) == [Appended(2, 2), Appended(1, 3)]


# --- closing and forking -----------------------------------------------------------------------------------


def test_a_scan_that_was_left_half_way_holds_nothing_open(store: SqliteStore) -> None:
    store.append([sample_creation(f"b{number:04}") for number in range(600)])
    log = store.scan()
    next(log)
    store.close()
    with pytest.raises(StoreError, match="is closed"):
        list(log)


def test_closing_waits_for_who_writes_and_refuses_who_comes_later(path: Path) -> None:
    store = open_sqlite_store(path)
    results: list[object] = []

    def work(name: str) -> None:
        for number in range(200):
            try:
                results.append(store.append([sample_creation(f"{name}{number:03}")])[0])
            except ReadbackError as error:
                results.append(error.code)
                return

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    while len(results) < 40:
        assert any(thread.is_alive() for thread in threads)
    store.close()
    for thread in threads:
        thread.join()
    acknowledged = [result for result in results if isinstance(result, Appended)]
    assert {result for result in results if isinstance(result, str)} <= {"store.closed"}
    with open_sqlite_store(path) as again:
        assert len(list(again.scan())) == len(acknowledged)


FORK = """
import gc, os, sys
from readback.stores.sqlite import open_sqlite_store
from readback.errors import ReadbackError
from readback.testing.store_samples import sample_creation
path = sys.argv[1]
store = open_sqlite_store(path)
store.append([sample_creation("a1")])
list(store.scan())
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
    held = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    print([os.readlink(fd) for fd in held if os.path.islink(fd)].count(path), flush=True)
    with open_sqlite_store(path) as own:
        own.append([sample_creation("a3")])
    sys.exit(0)  # runs the interpreter's whole clean-up, in which nothing of the parent's may be closed
os.waitpid(child, 0)
print(os.path.exists(path + "-wal"))
store.append([sample_creation("a4")])
print([event.action_id for event in store.scan()], store.damage())
store.close()
"""


def test_a_forked_child_is_refused_and_does_no_harm(path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORK, str(path)], capture_output=True, text=True, check=True
    )
    assert answer.stdout.splitlines() == ["store.forked", "store.forked", "2", "True", "['a1', 'a3', 'a4'] []"]
    assert answer.stderr == ""
