"""The SQLite pack against its server, honest and lied about; what is true is looked up in the database file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.packs.desk import ALL, Case, Desk, desk_of, every, held_against_the_truth, installed

pytestmark = pytest.mark.slow
FILE = "data.db"
OPEN = "(id integer primary key, n text, at text default current_timestamp)"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("sqlite") / "work"
    server = installed("sqlite", "bin", "mcp-server-sqlite")
    with desk_of(folder, "pack:sqlite", [server, "--db-path", str(folder / FILE)]) as desk:
        yield desk


def run(folder: Path, *statements: str) -> list[Any]:
    rows: list[Any] = []
    with closing(sqlite3.connect(folder / FILE)) as database:
        for statement in statements:
            rows = database.execute(statement).fetchall()
        database.commit()
    return rows


def table(folder: Path, n: str, *rows: str) -> str:
    """A table of its own for each test, and one beside it to which a lie goes; by its name."""
    name = f"place_{n.replace('-', '_')}"
    for each in (name, name.replace("place", "elsewhere")):
        run(folder, f"create table {each} {OPEN}", *(f"insert into {each}(n) values ('{row}')" for row in rows))
    return name


def rows(folder: Path, n: str) -> list[str]:
    return [row[0] for row in run(folder, f"select n from place_{n.replace('-', '_')} order by id")]


def insert(folder: Path, n: str) -> Mapping[str, Any]:
    return {"query": f"INSERT INTO {table(folder, n)}(n) VALUES ('one'), ('two')"}


def inserted(folder: Path, n: str) -> bool:
    return rows(folder, n) == ["one", "two"]


def update(folder: Path, n: str) -> Mapping[str, Any]:
    return {"query": f"UPDATE {table(folder, n, 'a', 'b')} SET n = n || 'x', at = datetime('now') WHERE n LIKE 'a%'"}


def updated(folder: Path, n: str) -> bool:
    return rows(folder, n) == ["ax", "b"]


def delete(folder: Path, n: str) -> Mapping[str, Any]:
    return {"query": f"DELETE FROM {table(folder, n, 'a', 'b')} WHERE n = 'a'"}


def deleted(folder: Path, n: str) -> bool:
    return rows(folder, n) == ["b"]


def expire(folder: Path, n: str) -> Mapping[str, Any]:
    name = table(folder, n, "a", "b")
    run(
        folder,
        f"update {name} set at = '2001-01-01' where n = 'a'",
        f"update {name} set at = '2999-01-01' where n = 'b'",
    )
    return {"query": f"DELETE FROM {name} WHERE at < datetime('now')"}


def create(folder: Path, n: str) -> Mapping[str, Any]:
    return {"query": f"CREATE TABLE place_{n.replace('-', '_')} {OPEN}"}


def created(folder: Path, n: str) -> bool:
    listed = run(folder, "select name from sqlite_master where type = 'table'")
    return (f"place_{n.replace('-', '_')}",) in listed


CASES = (
    Case("insert", "write_query", insert, inserted, ALL),
    Case("update", "write_query", update, updated),
    Case("delete", "write_query", delete, deleted),
    Case("expire", "write_query", expire, deleted, ("", "drop", "elsewhere")),
    Case("create", "create_table", create, created),
)


@pytest.mark.requirement("PACK-sqlite")
@pytest.mark.parametrize(("case", "lie"), every(CASES))
def test_the_client_is_told_that_it_is_done_where_the_database_says_so_and_nowhere_else(
    desk: Desk, case: Case, lie: str
) -> None:
    held_against_the_truth(desk, case, lie)


def test_a_failure_that_the_server_answers_as_if_it_were_none_is_not_told_as_done(desk: Desk) -> None:
    told = desk.call("write_query", {"query": "INSERT INTO nowhere VALUES (1)"})
    assert told.verified is False


def test_a_statement_that_the_server_forgets_to_commit_is_not_told_as_done(desk: Desk) -> None:
    name = table(desk.folder, "forgotten")
    told = desk.call("write_query", {"query": f"REPLACE INTO {name}(id, n) VALUES (1, 'a')"})
    assert rows(desk.folder, "forgotten") == []
    assert told.verified is False


@pytest.mark.requirement("PACK-sqlite")
def test_what_only_the_time_would_show_is_told_as_done_where_it_shows_it_and_nowhere_else(desk: Desk) -> None:
    name = table(desk.folder, "touched", "a")
    run(desk.folder, f"update {name} set at = '2001-01-01'")
    touch = {"query": f"UPDATE {name} SET at = datetime('now')"}
    dropped = desk.call("write_query", touch, "drop")
    assert run(desk.folder, f"select at from {name}") == [("2001-01-01",)]
    assert (dropped.verified, dropped.outcome["verdict"]) == (False, "undetermined")
    assert desk.call("write_query", touch).verified is True


def test_what_is_written_to_a_table_of_full_text_is_told_as_done(desk: Desk) -> None:
    run(desk.folder, "create virtual table place_docs using fts5 (body)")
    write = {"query": "INSERT INTO place_docs VALUES ('one two')"}
    assert desk.call("write_query", write, "drop").verified is False
    assert desk.call("write_query", write).verified
    assert run(desk.folder, "select body from place_docs where place_docs match 'two'") == [("one two",)]
