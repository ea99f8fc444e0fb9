"""A backup is one moment of a ledger that others write, whole under its name or not there at all."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from readback import bootstrap
from readback.audit.checks.ledger import audit
from readback.errors import BackupError, StoreError
from readback.ports.storage.store import Append, Evidence
from readback.stores.sqlite import backup
from readback.stores.sqlite.schema import migrations
from readback.testing.store_samples import sample_creation, sample_evidence
from tests.cli.conftest import Desk
from tests.cli.conftest import desk as desk  # the fixture
from tests.privacy.conftest import Shelf
from tests.privacy.conftest import shelf as shelf  # the fixture


def silent(done: int, total: int) -> None:
    """Nobody looks."""


@pytest.mark.requirement("BACKUP-while-writing")
def test_a_copy_that_is_taken_while_others_write_is_one_moment_of_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others commit between any two pieces of it: it is neither begun again nor a mixture."""
    monkeypatch.setattr(backup, "PAGES_AT_ONCE", 4)
    url, out = f"sqlite:///{tmp_path / 'readback.db'}", tmp_path / "copy.db"
    store = bootstrap.store(url)
    bodies = [sample_evidence(b"%d" % n + b"x" * 5_000) for n in range(200)]
    store.append([sample_creation(f"a{n}") for n in range(50)])
    for n, body in enumerate(bodies):
        store.append([_with(f"b{n}", body)])
    pieces = 0

    def meanwhile(done: int, total: int) -> None:
        nonlocal pieces
        pieces += 1
        store.append([_with(f"c{pieces}", sample_evidence(b"later %d" % pieces))])

    before = store.last_seq()
    bootstrap.backup(url, out, meanwhile)
    assert pieces > 50
    copy = bootstrap.store(f"sqlite:///{out}", read_only=True)
    assert copy.last_seq() == before
    assert [e.leaf for e in copy.scan()] == [e.leaf for e in store.scan()][:before]
    assert all(copy.evidence("acme", f"b{n}", body.digest) == body for n, body in enumerate(bodies))
    assert bootstrap.store_damage(copy) == []
    copy.close()
    assert store.last_seq() == before + pieces
    store.close()


def _with(action_id: str, body: Evidence) -> Append:
    return replace(sample_creation(action_id), evidence=(body,))


@pytest.mark.requirement("BACKUP-while-writing")
def test_writers_in_other_threads_are_not_stopped_by_a_copy(shelf: Shelf) -> None:
    shelf.fill({f"p{n}": "words " * 50 for n in range(20)})
    with shelf.open() as rb:
        stop = threading.Event()
        failed: list[StoreError] = []

        def write() -> None:
            n = 0
            while not stop.is_set():
                n += 1
                try:
                    rb.run(shelf.write(page=f"q{n}", text="more"), operation=f"q{n}")
                except StoreError as error:
                    failed.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for number in range(3):
                bootstrap.backup(shelf.url, shelf.folder / f"copy{number}.db", silent)
        finally:
            stop.set()
            writer.join()
    assert failed == []
    for number in range(3):
        copy = bootstrap.store(f"sqlite:///{shelf.folder / f'copy{number}.db'}", read_only=True)
        assert audit(copy).faults == []
        copy.close()


@pytest.mark.requirement("BACKUP-atomic")
def test_a_backup_takes_nothing_elses_place_and_leaves_nothing_half_done(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.fill({"p": "words"})
    out = shelf.folder / "copy.db"
    out.write_bytes(b"something")
    with pytest.raises(BackupError) as taken:
        bootstrap.backup(shelf.url, out, silent)
    assert taken.value.code == "backup.exists"
    assert out.read_bytes() == b"something"
    out.unlink()

    def breaks(done: int, total: int) -> None:
        raise apsw.IOError("The disk went away.")

    with pytest.raises(BackupError) as failed:
        bootstrap.backup(shelf.url, out, breaks)
    assert failed.value.code == "backup.failed"
    with pytest.raises(BackupError):
        bootstrap.backup(shelf.url, shelf.folder / "no" / "folder" / "copy.db", silent)
    with pytest.raises(StoreError):
        bootstrap.backup(f"sqlite:///{shelf.folder / 'none.db'}", out, silent)
    assert sorted(each.name for each in shelf.folder.iterdir() if "copy" in each.name) == []

    def taken_meanwhile(done: int, total: int) -> None:
        out.write_bytes(b"somebody else's")

    with pytest.raises(BackupError) as raced:
        bootstrap.backup(shelf.url, out, taken_meanwhile)
    assert raced.value.code == "backup.exists"
    assert out.read_bytes() == b"somebody else's"
    monkeypatch.setattr(os, "link", _no_links)
    second = shelf.folder / "second.db"
    bootstrap.backup(shelf.url, second, silent)
    assert oct(second.stat().st_mode & 0o777) == "0o600"


def _no_links(*_: object) -> None:
    raise PermissionError(1, "Operation not permitted")


@pytest.fixture
def files_of() -> Iterator[Callable[[int], None]]:
    """No file of this process may get larger than so many bytes from then on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.requirement("BACKUP-atomic")
def test_where_there_are_no_links_no_half_copy_takes_the_name(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, files_of: Callable[[int], None]
) -> None:
    """Nothing more is written once the copy is whole: there may be no room for it twice."""
    shelf.fill({"p": "words"})
    whole, out, third = (shelf.folder / name for name in ("copy.db", "copy2.db", "copy3.db"))
    bootstrap.backup(shelf.url, whole, silent)

    def from_now_on(*_: object) -> None:
        files_of(whole.stat().st_size // 2)
        _no_links()

    monkeypatch.setattr(os, "link", from_now_on)
    bootstrap.backup(shelf.url, out, silent)
    assert out.read_bytes() == whole.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    files_of(resource.RLIM_INFINITY)
    monkeypatch.setattr(os, "link", _no_links)
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(BackupError, match="No space left"):
        bootstrap.backup(shelf.url, third, silent)
    assert sorted(each.name for each in shelf.folder.iterdir() if "copy" in each.name) == ["copy.db", "copy2.db"]


@pytest.mark.requirement("BACKUP-atomic")
def test_a_copy_that_its_file_system_does_not_take_says_why(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, files_of: Callable[[int], None]
) -> None:
    shelf.fill({"p": "words"})
    monkeypatch.setattr(backup, "PAGES_AT_ONCE", 1)
    with pytest.raises(BackupError, match="SQLITE_IOERR_WRITE") as failed:
        bootstrap.backup(shelf.url, shelf.folder / "copy.db", lambda done, total: files_of(8_192))
    assert (failed.value.code, "not an error" in failed.value.message) == ("backup.failed", False)


@pytest.mark.requirement("BACKUP-atomic")
def test_it_is_the_copy_itself_that_is_recomputed_whatever_its_name(desk: Desk) -> None:
    """A percent sign in its name led to another file: one that was made for it, empty and sound."""
    desk.ship("op", code=0)
    head = desk("ledger", "verify", "--json", code=0).json["head"]
    for name in ("copy%20one.db", "copy?a=b.db", "copy#c.db"):
        assert desk("ledger", "backup", "--out", name, "--json", code=0).json["head"] == head
    assert len([*Path().glob("copy*")]) == 3


@pytest.mark.requirement("BACKUP-atomic")
def test_the_command_says_what_the_copy_holds(desk: Desk) -> None:
    desk.ship("op", code=0)
    said = desk("ledger", "backup", "--out", "copy.db", "--json", code=0).json
    head = desk("ledger", "verify", "--json", code=0).json["head"]
    assert said["head"] == head
    assert said["verified"] is True
    assert desk("ledger", "backup", "--out", "copy.db", code=6).err.count("is there already")
    assert "sound" in desk("ledger", "backup", "--out", "second.db", code=0).out
    assert "not recomputed" in desk("ledger", "backup", "--out", "third.db", "--no-verify", code=0).out
    desk("ledger", "verify", "--url", "sqlite:///copy.db", code=0)
    connection = apsw.Connection(str(desk.ledger))
    connection.execute("update action set target = 'another'")
    connection.close()
    damaged = desk("ledger", "backup", "--out", "fourth.db", "--json", code=6).json["error"]
    assert damaged["code"] == "backup.unsound"


@pytest.mark.requirement("BACKUP-atomic")
def test_a_schema_that_this_release_does_not_know_is_told_as_not_compared(desk: Desk) -> None:
    desk.ship("one", code=0)
    assert desk("ledger", "verify", "--json", code=0).json["unchecked"] == []
    known = len(migrations())
    connection = apsw.Connection("readback.db")
    file = f"{known + 1:04d}_later.serves_{known}.sql"
    connection.execute("insert into migration (number, name, sha256) values (?, ?, 'x')", (known + 1, file))
    connection.pragma("user_version", known + 1)
    connection.execute("drop trigger event_is_never_changed")
    connection.close()
    (said,) = desk("ledger", "verify", "--json", code=0).json["unchecked"]
    assert f"schema not compared: step {known + 1} is recorded, and this release knows {known}" in said
    assert said in desk("ledger", "verify", code=0).out
    assert said in desk("ledger", "backup", "--out", "backup.db", code=0).err
    put = ("--to", "sqlite:///again.db", "--accept-loss", "--who", "human:eve")
    assert said in desk("ledger", "restore", "backup.db", *put, code=0).err
