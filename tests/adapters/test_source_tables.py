"""A database by its tables: what there is, and what a statement would make of it, on a copy that nobody else sees."""

from __future__ import annotations

import resource
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from readback.domain.verification.reading import Presence
from readback.systems.tables import trial
from readback.systems.tables.source import TablesSource

MADE = (
    "create table o (r real default (random()), id integer primary key autoincrement, n text, "
    "at text default current_timestamp)",
    "create table p (x, d text check (date(d) is not null))",
    "create trigger t after delete on o begin insert into p values (old.n, '2001-01-01'); end",
    "insert into o (n) values ('a'), ('b')",
)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    run(tmp_path / "data.db", *MADE)
    return tmp_path / "data.db"


def run(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for each in statements:
            connection.execute(each)
        connection.commit()


def value(path: Path, statement: str = "") -> dict[str, Any]:
    found = TablesSource("shop", path).state(statement).value
    assert isinstance(found, dict)
    return found


@pytest.mark.requirement("PACK-foreseen")
@pytest.mark.parametrize(
    "statement",
    [
        "insert into o (n) values ('c')",
        "insert into o (n, at) values ('c', datetime('now', '+1 day'))",
        "insert into p values (strftime('%s', 'now'), '2002-01-01')",
        "insert into p values (hex(randomblob(4)), date('now'))",
        "update o set n = n || 'x' where id > 1",
        "delete from o where id = 1",
        "drop table p",
        "create table q (a)",
        "create index i on p (x)",
        "alter table p add column k",
    ],
)
def test_what_a_statement_makes_is_foreseen_and_neither_nothing_nor_twice_is_taken_for_it(
    statement: str, database: Path
) -> None:
    before = value(database, statement)
    assert before["error"] == ""
    assert before["foreseen"]
    assert not set(before["foreseen"]) <= set(before["facts"])
    run(database, statement)
    once = set(value(database)["facts"])
    assert set(before["foreseen"]) <= once
    if statement.startswith(("insert", "update")):
        run(database, statement)
        assert not set(before["foreseen"]) <= set(value(database)["facts"])


@pytest.mark.requirement("PACK-foreseen")
@pytest.mark.parametrize("chance", ["random()", "randomblob(4)", "abs(random())"])
def test_a_row_that_chance_picks_is_left_open_and_how_many_are_left_is_not(chance: str, database: Path) -> None:
    run(database, *(f"insert into p values ('{name}', '2001-01-01')" for name in "cde"))
    foreseen = value(database, f"delete from p where x = (select x from p order by {chance} limit 1)")["foreseen"]
    assert "p: rows: 2" in foreseen
    for picked in "cde":
        other = database.with_name(f"{picked}.db")
        shutil.copy(database, other)
        run(other, f"delete from p where x = '{picked}'")
        assert set(foreseen) <= set(value(other)["facts"])


@pytest.mark.requirement("PACK-foreseen")
@pytest.mark.parametrize(
    "statement",
    [
        "update o set at = datetime('now')",
        "update o set at = current_timestamp where id = 1",
        "update o set r = random()",
        "delete from o where random() < 0",
        "update o set n = case when random() > 0 then n else 'z' end",
    ],
)
def test_what_only_time_or_chance_would_show_is_named_as_it_is_before(statement: str, database: Path) -> None:
    run(database, "update o set at = '2001-01-01 00:00:00', r = 0.5")
    before = value(database, statement)
    assert set(before["foreseen"]) <= set(before["facts"]), "nothing sure tells it done from not done"
    assert before["left_open"]
    assert set(before["left_open"]) <= set(before["facts"])


@pytest.mark.requirement("PACK-foreseen")
@pytest.mark.parametrize(
    ("statement", "done"),
    [
        ("delete from o where at < datetime('now')", ["new"]),
        ("delete from o where at between datetime('now', '-40 years') and current_timestamp", ["new"]),
        ("update o set n = 'soon' where at > date('now') returning n", ["old", "soon"]),
        ("delete from o where at < datetime('now', '-100 years')", ["old", "new"]),
    ],
)
def test_what_a_statement_does_by_the_time_of_day_is_foreseen_as_of_now(
    statement: str, done: list[str], database: Path
) -> None:
    run(database, "delete from o", "delete from p")
    run(database, "insert into o (n, at) values ('old', '2020-01-01'), ('new', '2999-01-01')")
    before = value(database, statement)
    assert (before["error"], before["left_open"]) == ("", [])
    assert (set(before["foreseen"]) <= set(before["facts"])) is (done == ["old", "new"])
    run(database, statement)
    assert set(before["foreseen"]) <= set(value(database)["facts"])
    with closing(sqlite3.connect(database)) as connection:
        assert [row[0] for row in connection.execute("select n from o order by id")] == done


def test_a_statement_that_fails_by_chance_is_neither_foreseen_nor_an_error(database: Path) -> None:
    run(database, "create table q (a check (a <> 1))")
    found = value(database, "insert into q values (random())")
    assert found.keys() == {"facts", "bounded"}


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("nonsense", "syntax error"),
        ("insert into nowhere values (1)", "no such table"),
        ("insert into p values (1, 'no date')", "CHECK"),
        ("select 1; select 2", "one statement"),
    ],
)
def test_what_a_statement_cannot_do_is_an_error_beforehand(statement: str, said: str, database: Path) -> None:
    found = value(database, statement)
    assert said in found["error"]
    assert found["foreseen"] == []


_ENDLESS = "with recursive a (n) as (select 1 union all select n + 1 from a) select count(*) from a"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("attach 'other.db' as other", "not authorized"),
        ("pragma user_version = 3", "not authorized"),
        ("insert into o (n) values (zeroblob(900000000))", "too big"),
        pytest.param(_ENDLESS, "interrupted", marks=pytest.mark.slow),
    ],
)
def test_what_our_own_bounds_stop_is_neither_foreseen_nor_an_error(statement: str, said: str, database: Path) -> None:
    found = value(database, statement)
    assert said in found["bounded"]
    assert "error" not in found, "the tool has no such bound, and may have done it"
    assert "foreseen" not in found
    assert found["facts"] == value(database)["facts"]


def test_nothing_is_written_by_looking(database: Path) -> None:
    bytes_before = database.read_bytes()
    value(database, "delete from o")
    assert database.read_bytes() == bytes_before
    assert sorted(each.name for each in database.parent.iterdir()) == ["data.db"]


def test_equal_versions_are_equal_facts(database: Path) -> None:
    source = TablesSource("shop", database)
    first = source.state("insert into o (n) values ('c')").version
    run(database, "update o set n = n")
    assert source.state().version == first
    run(database, "update o set n = 'z' where id = 1")
    assert source.state().version != first


@pytest.mark.requirement("SEC-sql-bounded")
@pytest.mark.parametrize(
    "statement",
    [
        "insert into p select instr(hex(zeroblob(6000000)), hex(zeroblob(3000000))||'1'), '2001-01-01'",
        "insert into p select hex(zeroblob(3000000)) like '%0%0%0%0%0%0%1%0', '2001-01-01'",
        "insert into p select replace(hex(zeroblob(20000)), '0', hex(zeroblob(2000))), '2001-01-01'",
    ],
)
def test_one_long_function_ends_with_the_time_of_the_reading(statement: str, database: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    found = TablesSource("shop", database, timeout_s=2.0).state(statement).value
    assert isinstance(found, dict)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 0.5, "this process computes none of it"
    assert "bounded" in found or found["error"] == ""
    assert found["facts"] == value(database)["facts"]


@pytest.mark.requirement("SEC-sql-bounded")
def test_a_schema_that_computes_without_end_makes_the_reading_unavailable(database: Path) -> None:
    long = "instr(hex(zeroblob(6000000)), hex(zeroblob(3000000))||'1')"
    run(database, "create table slow (a)", "insert into slow values (1)", f"alter table slow add column b as ({long})")
    assert TablesSource("shop", database, timeout_s=1.0).state().presence is Presence.UNAVAILABLE


def test_a_file_that_is_not_there_is_absent_and_one_that_is_no_database_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database at all, " * 100)
    assert TablesSource("shop", tmp_path / "none.db").state().presence is Presence.ABSENT
    assert TablesSource("shop", tmp_path / "text.db").state().presence is Presence.UNAVAILABLE
    assert not (tmp_path / "none.db").exists()


@pytest.mark.requirement("PACK-foreseen")
@pytest.mark.parametrize(
    "statement",
    [
        "insert into p values (last_insert_rowid(), '2001-01-01')",
        "insert into p select CHANGES( ), '2001-01-01'",
        "insert into p select 'x', '2001-01-01' where total_changes() = 0",
    ],
)
def test_what_a_statement_takes_from_the_connection_that_it_comes_over_is_left_open(
    statement: str, database: Path
) -> None:
    foreseen = value(database, statement)["foreseen"]
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("insert into o (n) values ('d')")  # over the very connection, before
        connection.rollback()
        connection.execute(statement)
        connection.commit()
    assert set(foreseen) <= set(value(database)["facts"])


@pytest.mark.requirement("PACK-foreseen")
def test_what_a_statement_makes_of_a_table_of_full_text_is_foreseen_but_for_the_insides_of_its_index(
    database: Path,
) -> None:
    run(database, "create virtual table docs using fts5 (title, body)", "insert into docs values ('a', 'one two')")
    statement = "insert into docs values ('b', 'two three')"
    foreseen = value(database, statement)
    assert foreseen["error"] == ""
    assert foreseen["left_open"] == []
    assert {each.partition(":")[0] for each in foreseen["foreseen"]} == {"docs"}
    assert not set(foreseen["foreseen"]) <= set(foreseen["facts"])
    run(database, statement)
    assert set(foreseen["foreseen"]) <= set(value(database)["facts"])
    run(database, statement)
    assert not set(foreseen["foreseen"]) <= set(value(database)["facts"])


@pytest.mark.requirement("PACK-foreseen")
def test_what_only_the_insides_of_an_index_would_show_is_named_as_it_is_before(database: Path) -> None:
    run(database, "create virtual table docs using fts5 (title)", "insert into docs values ('a')")
    run(database, "insert into docs values ('b')")
    statement = "insert into docs (docs) values ('optimize')"
    shown = value(database, statement)
    assert shown["left_open"]
    assert set(shown["left_open"]) <= set(shown["facts"])
    run(database, statement)
    assert not set(shown["left_open"]) <= set(value(database)["facts"])


class Older(sqlite3.Connection):
    """A library that does not list its tables by what they are."""

    def execute(self, statement: str, /, *values: Any) -> sqlite3.Cursor:
        return super().execute(statement.replace("pragma_table_list", "pragma_no_such_list"), *values)


@pytest.mark.requirement("PACK-foreseen")
def test_a_library_that_does_not_list_its_insides_foresees_too(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def connected(*given: Any, **more: Any) -> sqlite3.Connection:
        return plain(*given, **{**more, "factory": Older})

    def value(database: Path, statement: str) -> dict[str, Any]:
        one, other = trial._state(str(database), statement, 5.0)
        return one | other

    plain = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", connected)
    foreseen = value(database, "insert into o (n) values ('c')")
    assert foreseen["error"] == ""
    assert "o: rows: 3" in foreseen["foreseen"]
    run(database, "create virtual table docs using fts5 (title)", "create table document (x)")
    foreseen = value(database, "insert into docs values ('b')")
    assert {each.partition(":")[0] for each in foreseen["foreseen"]} == {"docs"}
