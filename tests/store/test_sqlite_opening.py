"""Opening an SQLite ledger: what is believed, what is refused, and that a refusal changes nothing."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from readback.errors import (
    SqliteTooOldError,
    StoreCorruptError,
    StoreError,
    StoreReadOnlyError,
    StoreVersionError,
    UsageError,
)
from readback.stores.sqlite import SqliteStore, open_sqlite_store, path_of, schema
from readback.testing.conformance.store_work import everything
from readback.testing.store_samples import sample_append, sample_creation

NOBODY = 65534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def filled(path: Path, actions: int = 50) -> None:
    with open_sqlite_store(path) as store:
        store.append([sample_creation(f"a{number:03}") for number in range(actions)])


# --- addresses ---------------------------------------------------------------------------------------------


def test_three_slashes_are_relative_and_four_absolute() -> None:
    assert path_of("sqlite:///readback.db") == Path.cwd() / "readback.db"
    assert path_of("sqlite:///var/readback.db") == Path.cwd() / "var/readback.db"
    assert path_of("sqlite:////var/lib/my%20ledger.db") == Path("/var/lib/my ledger.db")
    assert path_of("plain.db") == path_of(Path("plain.db")) == Path.cwd() / "plain.db"


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///", "sqlite://host/x.db", "sqlite:x.db", "sqlite:/x.db", "sqlite:///:memory:"]
)
def test_an_address_without_a_file_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="names no database file"):
        path_of(url)


def test_a_store_opens_by_its_url(path: Path) -> None:
    with open_sqlite_store(f"sqlite:///{path}") as store:
        store.append([sample_creation("a1")])
    with open_sqlite_store(path) as store:
        assert store.projection("a1") is not None


# --- the file ----------------------------------------------------------------------------------------------


def test_a_new_ledger_is_its_owners_alone(path: Path) -> None:
    with open_sqlite_store(path) as store:
        store.append([sample_creation("a1")])
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {"ledger.db": 0o600, "ledger.db-wal": 0o600, "ledger.db-shm": 0o600}


def test_closing_leaves_one_file_and_no_handle(path: Path) -> None:
    store = open_sqlite_store(path)
    store.append([sample_creation("a1")])
    assert store.events("a1")
    store.close()
    assert [file.name for file in path.parent.iterdir()] == ["ledger.db"]
    held = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert [name for name in held if name.startswith(str(path))] == []


def test_the_database_is_as_durable_as_it_says(path: Path) -> None:
    with open_sqlite_store(path) as store:
        writer = store._writer
        assert writer is not None
        assert [writer.pragma(name) for name in ("journal_mode", "synchronous")] == ["wal", 2]


def test_a_missing_folder_is_named(path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist") as caught:
        open_sqlite_store(path / "deeper" / "ledger.db")
    assert caught.value.code == "store.no-folder"
    assert not path.exists()


def test_a_folder_is_not_a_database(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a file"):
        open_sqlite_store(tmp_path)


def test_an_empty_file_becomes_a_ledger(path: Path) -> None:
    path.touch()
    filled(path)
    with open_sqlite_store(path) as store:
        assert len(list(store.projections())) == 50


# --- what is not a ledger ----------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"not a database, but long enough to look at. " * 100, b"\x00" * 8192, b"short"])
def test_garbage_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreCorruptError):
        open_sqlite_store(path)
    assert path.read_bytes() == content


def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE shopping (item)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreCorruptError, match="not one of Readback's") as caught:
        open_sqlite_store(path)
    assert caught.value.code == "store.not-ours"
    assert path.read_bytes() == before


def test_a_ledger_that_another_creates_between_two_looks_is_ours(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []

    def create_at_the_second(_cursor: object, sql: str, _values: object) -> bool:
        if "sqlite_schema" in sql or "application_id" in sql:
            looks.append(sql)
            if len(looks) == 2:
                monkeypatch.setattr(apsw, "connection_hooks", [])
                open_sqlite_store(path).close()
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = create_at_the_second

    monkeypatch.setattr(apsw, "connection_hooks", [watch])
    with open_sqlite_store(path) as store:
        store.append([sample_creation("a1")])
    assert len(looks) >= 2


def test_a_header_that_was_overwritten_is_corrupt(path: Path) -> None:
    filled(path)
    content = path.read_bytes()
    path.write_bytes(b"\x00" * 100 + content[100:])
    with pytest.raises(StoreCorruptError):
        open_sqlite_store(path)


def test_flipped_bytes_are_corrupt_and_never_another_answer(path: Path) -> None:
    """Whatever page is hit: the answer is the right one, or a StoreCorruptError, or `damage` finds it."""
    filled(path, actions=200)
    content = path.read_bytes()
    with open_sqlite_store(path) as store:
        right = list(store.projections())
    for place in range(4096, len(content), 4096):
        path.write_bytes(content[:place] + b"\xff" * 64 + content[place + 64 :])
        noticed = False
        try:
            with open_sqlite_store(path) as store:
                noticed = bool(store.damage()) or list(store.projections()) != right
        except StoreCorruptError:
            noticed = True
        assert noticed, f"the page at {place}"


def test_a_file_that_was_cut_is_corrupt(path: Path) -> None:
    filled(path, actions=200)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(StoreCorruptError), open_sqlite_store(path) as store:
        everything(store)


# --- versions ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("INPUT-store-old-sqlite")
def test_an_sqlite_with_the_wal_defect_is_refused(path: Path) -> None:
    for version in ("3.40.1", "3.51.2", "3.9.0", "2.8.17"):
        with pytest.raises(SqliteTooOldError, match=r"3\.51\.3 or later"):
            open_sqlite_store(path, sqlite_version=version)
    assert not path.exists()
    for version in ("3.51.3", "3.52.0", "4.0.0"):
        open_sqlite_store(path, sqlite_version=version).close()


def test_a_newer_schema_is_refused_and_left_alone(path: Path) -> None:
    filled(path)
    other = apsw.Connection(str(path))
    other.execute("INSERT INTO migration VALUES (999, '0999_later.sql', 'x')")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreVersionError, match="schema 999; this release knows"):
        open_sqlite_store(path)
    with pytest.raises(StoreVersionError):
        open_sqlite_store(path, read_only=True)
    assert path.read_bytes() == before


def test_a_migration_whose_text_has_changed_is_refused(path: Path) -> None:
    filled(path)
    other = apsw.Connection(str(path))
    other.execute("UPDATE migration SET sha256 = 'x' WHERE number = 1")
    other.close()
    with pytest.raises(StoreVersionError, match="another text of migration 0001_ledger"):
        open_sqlite_store(path)


def test_an_older_ledger_is_brought_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path)
    next_one = len(schema.migrations()) + 1
    later = schema.Migration(next_one, "later.sql", "CREATE TABLE later (x INTEGER) STRICT;")
    known = [*schema.migrations(), later]
    monkeypatch.setattr(schema, "migrations", lambda: known)
    with pytest.raises(StoreVersionError, match="older schema"):
        open_sqlite_store(path, read_only=True)
    with open_sqlite_store(path) as store:
        assert len(list(store.projections())) == 50
        assert _rows(store, "SELECT number, name FROM migration")[-1] == (next_one, "later.sql")
    open_sqlite_store(path, read_only=True).close()


def test_a_migration_that_fails_leaves_the_older_ledger(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path)
    known = schema.migrations()
    text = "CREATE TABLE half (x INTEGER); CREATE TABLE event (x INTEGER);"
    broken = schema.Migration(len(known) + 1, "broken.sql", text)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "migrations", lambda: [*known, broken])
        with pytest.raises(StoreError):
            open_sqlite_store(path)
    with open_sqlite_store(path) as store:
        assert _rows(store, "SELECT name FROM sqlite_schema WHERE name = 'half'") == []
        assert len(list(store.projections())) == 50


def test_migrations_are_numbered_without_gaps() -> None:
    assert [step.number for step in schema.migrations()] == list(range(1, len(schema.migrations()) + 1))


# --- rights ------------------------------------------------------------------------------------------------


def test_a_store_that_is_opened_read_only_shows_and_refuses_to_change(path: Path) -> None:
    filled(path)
    with open_sqlite_store(path, read_only=True) as store:
        assert len(list(store.projections())) == 50
        assert store.append([]) == []
        for call in (
            lambda: store.append([sample_append("a001", 1)]),
            lambda: store.lease("a001", "w", 0, 1),
            lambda: store.make_due("a001", 0),
            lambda: store.release("w"),
        ):
            with pytest.raises(StoreReadOnlyError):
                call()
        assert len(store.events("a001")) == 1


def test_a_store_that_is_opened_read_only_is_not_created(path: Path) -> None:
    with pytest.raises(StoreError, match="There is no database"):
        open_sqlite_store(path, read_only=True)
    assert not path.exists()


def test_an_empty_file_holds_no_ledger_and_the_message_names_what_makes_one(path: Path) -> None:
    path.touch()
    with pytest.raises(StoreError, match="is empty: there is no ledger in it yet") as caught:
        open_sqlite_store(path, read_only=True)
    assert "readback run" in caught.value.remedy
    assert path.stat().st_size == 0


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user can reach; pytest's own are closed to others, and stay so."""
    with tempfile.TemporaryDirectory(prefix="readback-rights-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


AS_NOBODY = """
import os, sys
from readback.stores.sqlite import open_sqlite_store
from readback.errors import ReadbackError
os.setuid(int(sys.argv[1]))
try:
    open_sqlite_store(sys.argv[2])
except ReadbackError as error:
    print(error.code)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only the superuser can become another user")
@pytest.mark.parametrize(
    ("folder_mode", "file_mode", "code"),
    [
        (0o777, 0o444, "store.read-only"),
        (0o777, 0o000, "store.cannot-open"),
        (0o755, None, "store.read-only"),
    ],
)
def test_missing_rights_are_said(open_folder: Path, folder_mode: int, file_mode: int | None, code: str) -> None:
    folder = open_folder / "ledgers"
    folder.mkdir()
    path = folder / "ledger.db"
    if file_mode is not None:
        filled(path)
        path.chmod(file_mode)
    folder.chmod(folder_mode)
    command = [sys.executable, "-c", AS_NOBODY, str(NOBODY), str(path)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == [code]


def _rows(store: SqliteStore, sql: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in store._many_rows(sql)]
