"""Who may not write a ledger may look at it: nothing is left beside it, and nothing stale is shown for the whole."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from readback.errors import BackupError, StoreError
from readback.stores.sqlite import open_sqlite_store
from readback.stores.sqlite.backup import copy_ledger
from readback.testing.store_samples import sample_creation

NOBODY = 65534
RIGHTS = [(0o755, 0o644), (0o777, 0o644), (0o755, 0o666)]
"""Of the folder and of the file: neither may be written, or one of the two."""

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only the superuser can become another user")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that another user can reach; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory(prefix="readback-rights-") as name:
        Path(name).chmod(0o755)
        (Path(name) / "ledgers").mkdir()
        yield Path(name) / "ledgers"


@contextmanager
def bystander() -> Iterator[None]:
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def written(path: Path, *ids: str) -> None:
    with open_sqlite_store(path) as store:
        store.append([sample_creation(each) for each in ids])


def shared(path: Path, folder_mode: int = 0o755, file_mode: int = 0o644) -> None:
    for each in path.parent.iterdir():
        each.chmod(file_mode)
    path.parent.chmod(folder_mode)


def looked(path: Path) -> list[str]:
    with bystander(), open_sqlite_store(path, read_only=True) as store:
        assert store.damage() == []
        return [each.projection.action_id for each in store.projections()]


@pytest.mark.parametrize(("folder_mode", "file_mode"), RIGHTS)
def test_a_ledger_that_this_user_may_not_write_is_looked_at_and_nothing_is_left_beside_it(
    folder: Path, folder_mode: int, file_mode: int
) -> None:
    path = folder / "ledger.db"
    written(path, "a1", "a2")
    shared(path, folder_mode, file_mode)
    assert looked(path) == ["a1", "a2"]
    assert [each.name for each in folder.iterdir()] == ["ledger.db"]
    written(path, "a3")  # whose log beside it would be the bystander's, and the writer could not write it
    assert looked(path) == ["a1", "a2", "a3"]


def test_a_ledger_behind_a_link_is_looked_at_with_the_log_that_lies_beside_what_the_link_names(folder: Path) -> None:
    path = folder / "ledger.db"
    with open_sqlite_store(path) as store:
        store.append([sample_creation("a1")])
        shared(path)
        (folder.parent / "link.db").symlink_to(path)
        assert looked(folder.parent / "link.db") == ["a1"]


@pytest.mark.parametrize(("folder_mode", "file_mode"), RIGHTS)
def test_what_a_writer_has_not_put_into_the_file_yet_is_seen(folder: Path, folder_mode: int, file_mode: int) -> None:
    path = folder / "ledger.db"
    with open_sqlite_store(path) as store:
        store.append([sample_creation("a1")])
        shared(path, folder_mode, file_mode)
        assert looked(path) == ["a1"]
        store.append([sample_creation("a2")])
        assert looked(path) == ["a1", "a2"]


@pytest.mark.parametrize("hidden", ["-wal", "-shm", "no -shm"])
@pytest.mark.parametrize(("folder_mode", "file_mode"), RIGHTS)
def test_a_log_that_cannot_be_seen_is_never_left_out(
    folder: Path, folder_mode: int, file_mode: int, hidden: str
) -> None:
    path = folder / "ledger.db"
    written(path, "a1")
    with open_sqlite_store(path) as store:
        store.append([sample_creation("a2")])
        left = folder.parent / "left" / "ledger.db"
        shutil.copytree(folder, left.parent)  # as a process leaves it that is killed
    shared(left, folder_mode, file_mode)
    if hidden.startswith("no"):
        Path(f"{left}-shm").unlink()
    else:
        Path(f"{left}{hidden}").chmod(0o600)
    before = sorted(each.name for each in left.parent.iterdir())
    with pytest.raises(StoreError, match="and this user cannot read them") as caught:
        looked(left)
    assert caught.value.code == "store.cannot-open"
    assert "readback resume" in caught.value.remedy
    assert sorted(each.name for each in left.parent.iterdir()) == before
    open_sqlite_store(left).close()
    assert looked(left) == ["a1", "a2"]


def test_what_is_written_after_the_first_look_is_seen_at_the_next(folder: Path) -> None:
    path = folder / "ledger.db"
    written(path, "a1")
    shared(path)
    with bystander(), open_sqlite_store(path, read_only=True) as store:
        assert store.last_seq() == 1
        os.seteuid(0)
        written(path, "a2")  # and put into the file: no log is left
        os.seteuid(NOBODY)
        assert store.last_seq() == 2
        os.seteuid(0)
        with open_sqlite_store(path) as writer:
            writer.append([sample_creation("a3")])
            os.seteuid(NOBODY)
            assert store.last_seq() == 3
            os.seteuid(0)
        os.seteuid(NOBODY)
        assert store.last_seq() == 3


@pytest.mark.parametrize("times", [1, 99])
def test_what_is_written_in_the_moment_of_a_look_is_never_read_by_halves(
    folder: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    path = folder / "ledger.db"
    written(path, "a0")
    shared(path)
    writes: list[str] = []

    def written_meanwhile(_cursor: object, sql: str, _values: object) -> bool:
        if os.geteuid() == NOBODY and "max(seq)" in sql and len(writes) < times:
            writes.append(f"b{len(writes)}")
            os.seteuid(0)
            written(path, writes[-1])
            os.seteuid(NOBODY)
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = written_meanwhile

    monkeypatch.setattr(apsw, "connection_hooks", [watch])
    with bystander(), open_sqlite_store(path, read_only=True) as store:
        if times == 1:
            assert store.last_seq() == 2
            assert [each.projection.action_id for each in store.projections()] == ["a0", "b0"]
        else:
            with pytest.raises(StoreError, match="was written during each attempt to read"):
                store.last_seq()


def test_a_backup_of_a_ledger_that_this_user_may_not_write_is_whole_or_none(folder: Path) -> None:
    path = folder / "ledger.db"
    written(path, "a1")
    shared(path)
    room = folder.parent / "room"
    room.mkdir()
    room.chmod(0o777)

    def overtaken(_done: int, _total: int) -> None:
        os.seteuid(0)
        written(path, "a2")
        os.seteuid(NOBODY)

    with bystander():
        with pytest.raises((StoreError, BackupError)):
            copy_ledger(path, room / "torn.db", 1000, overtaken)
        copy_ledger(path, room / "whole.db", 1000, lambda _done, _total: None)
    assert [each.name for each in room.iterdir()] == ["whole.db"]
    assert looked(room / "whole.db") == ["a1", "a2"]
