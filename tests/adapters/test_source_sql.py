"""Reading rows of a real SQLite file: what is there, what is not, and what cannot be told."""

from __future__ import annotations

import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from readback.domain.normal_form import NormalForm
from readback.domain.side_effect import Consistency
from readback.domain.verification.reading import Presence, Reading
from readback.errors import ReaderFailedError, ReaderTypeError, UsageError
from readback.systems.sql.source import ROWS_MAX, VALUE_MAX_BYTES, SqlSource
from readback.testing.conformance.source import SOURCE_RULES, Rule

TABLE = "create table orders (id text primary key, tenant text, status text, version integer, stamp text)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "orders.db"
    _write(path, TABLE)
    return path


@pytest.fixture
def orders(path: Path) -> SqlSource:
    return SqlSource("orders-db", lambda: sqlite3.connect(path))


def _write(path: Path, sql: str, *params: object) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(sql, params)
        connection.commit()


def _add(path: Path, key: str, stamp: str | None = "s-1") -> None:
    _write(path, "insert into orders values (?, 'acme', 'new', 3, ?)", key, stamp)


class World:
    """The order table, with one order in it or none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.source = SqlSource("orders-db", lambda: sqlite3.connect(f"file:{path}?mode=ro", uri=True))

    def put(self, text: str) -> None:
        self.remove()
        _write(self.path, "insert into orders values ('o-1', 'acme', ?, 1, 's')", text)

    def remove(self) -> None:
        _write(self.path, "delete from orders")

    def read(self) -> Reading:
        return self.source.one("select * from orders where id = ?", ["o-1"])

    def cut(self) -> None:
        self.path.rename(self.path.with_suffix(".away"))

    def mend(self) -> None:
        if not self.path.exists():
            self.path.with_suffix(".away").rename(self.path)

    def hide(self) -> bool:
        return False


@pytest.mark.parametrize("rule", SOURCE_RULES, ids=lambda rule: rule.__name__)
def test_an_sql_source_keeps_the_rules_of_sources(rule: Rule, path: Path) -> None:
    rule(World(path))


def test_a_row_is_a_reading_with_its_marks_lifted(path: Path, orders: SqlSource) -> None:
    _add(path, "o-1")
    found = orders.one("select * from orders where id = ?", ["o-1"], version="version", stamp="stamp", author="tenant")
    assert found.presence is Presence.PRESENT
    assert found.value == {"id": "o-1", "tenant": "acme", "status": "new", "version": 3, "stamp": "s-1"}
    assert (found.version, found.stamp, found.author) == (3, "s-1", "acme")


def test_a_mark_that_is_null_is_no_mark(path: Path, orders: SqlSource) -> None:
    _add(path, "o-1", None)
    assert orders.one("select * from orders", stamp="stamp").stamp is None


def test_no_row_is_absence(orders: SqlSource) -> None:
    assert orders.one("select * from orders where id = ?", ["o-9"]).presence is Presence.ABSENT


@pytest.mark.requirement("INPUT-reader-wrong-type")
@pytest.mark.parametrize(
    "sql",
    [
        "select * from orders",
        "select id, id from orders limit 1",
        "select 1e999 as infinite",
    ],
)
def test_what_is_not_one_row_with_a_json_form_is_a_verifier_error(path: Path, orders: SqlSource, sql: str) -> None:
    _add(path, "o-1")
    _add(path, "o-2")
    with pytest.raises(ReaderTypeError):
        orders.one(sql)


def test_a_column_that_is_named_and_not_there_is_a_verifier_error(path: Path, orders: SqlSource) -> None:
    _add(path, "o-1")
    with pytest.raises(ReaderTypeError, match="writer"):
        orders.one("select * from orders", author="writer")


def test_a_version_is_a_number_or_a_text(path: Path, orders: SqlSource) -> None:
    _add(path, "o-1")
    with pytest.raises(ReaderTypeError, match="neither a number nor a text"):
        orders.one("select x'00' as version from orders", version="version")


def test_a_scalar_is_the_single_value(path: Path, orders: SqlSource) -> None:
    _add(path, "o-1")
    assert orders.scalar("select count(*) from orders").value == 1
    assert orders.scalar("select id from orders where id = 'o-9'").presence is Presence.ABSENT
    with pytest.raises(ReaderTypeError, match="several columns for one value"):
        orders.scalar("select * from orders")


def test_a_search_brings_every_row(path: Path, orders: SqlSource) -> None:
    _add(path, "o-1")
    _add(path, "o-2")
    found = orders.all("select * from orders where stamp = ? order by id", ["s-1"], stamp="stamp")
    assert [(each.value["id"], each.stamp) for each in found if isinstance(each.value, dict)] == [
        ("o-1", "s-1"),
        ("o-2", "s-1"),
    ]
    assert orders.all("select * from orders where stamp = 'other'") == []


def test_a_search_that_could_not_see_everything_raises(path: Path, orders: SqlSource) -> None:
    many = "with recursive n(i) as (values(1) union all select i + 1 from n where i <= ?) select i from n"
    assert len(orders.all(many, [ROWS_MAX - 1])) == ROWS_MAX
    with pytest.raises(ReaderFailedError, match="more than"):
        orders.all(many, [ROWS_MAX])
    path.unlink()
    path.mkdir()
    with pytest.raises(ReaderFailedError, match="could not be searched"):
        orders.all("select * from orders")


@pytest.mark.requirement("INPUT-reader-raises")
@pytest.mark.parametrize("sql", ["select * from nowhere", "select nonsense from orders", "select (("])
def test_a_query_that_the_database_refuses_is_a_verifier_error(orders: SqlSource, sql: str) -> None:
    with pytest.raises(ReaderFailedError) as caught:
        orders.one(sql)
    assert caught.value.code == "verifier.reader-failed"


@pytest.mark.parametrize(
    "sql",
    [
        "delete from orders",
        "  -- select\n update orders set status = 'x'",
        "pragma user_version = 7",
        "/* with */ insert into orders values (1)",
        "",
        "\n" + " " * 64 + "update orders set status = 'x'",
        "/**/" * 64 + "delete from orders",
    ],
    ids=["delete", "update", "pragma", "insert", "nothing", "far behind spaces", "far behind comments"],
)
def test_a_statement_that_writes_is_refused(path: Path, orders: SqlSource, sql: str) -> None:
    _add(path, "o-1")
    with pytest.raises(ReaderFailedError, match="reads only"):
        orders.one(sql)
    assert orders.scalar("select count(*) from orders").value == 1


def test_a_write_in_the_dress_of_a_query_changes_nothing(path: Path, orders: SqlSource) -> None:
    _add(path, "o-1")
    with pytest.raises(ReaderFailedError):
        orders.one("with gone as (select 1) delete from orders returning *")
    assert orders.scalar("select count(*) from orders").value == 1


def test_comments_and_brackets_before_a_query_do_no_harm(orders: SqlSource) -> None:
    assert orders.scalar("-- how many\n/* really */ select count(*) from orders").value == 0
    assert orders.scalar("values (7)").value == 7


@pytest.mark.requirement("L14")
def test_a_replica_says_of_itself_what_it_is(path: Path) -> None:
    replica = SqlSource("replica", lambda: sqlite3.connect(path), consistency="replica")
    _add(path, "o-1")
    assert replica.one("select * from orders").consistency is Consistency.REPLICA
    assert replica.scalar("select count(*) from orders").consistency is Consistency.REPLICA
    assert replica.one("select * from orders where id = 'o-9'").consistency is Consistency.REPLICA
    assert [each.consistency for each in replica.all("select * from orders")] == [Consistency.REPLICA]
    with pytest.raises(ReaderFailedError, match="empty search proves nothing"):
        replica.all("select * from orders where id = 'o-9'")
    strong = SqlSource("primary", lambda: sqlite3.connect(path), consistency="strong")
    assert strong.all("select * from orders where id = 'o-9'") == []


@pytest.fixture
def locked(path: Path) -> Iterator[Path]:
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("pragma locking_mode = exclusive")
        holder.execute("begin exclusive")
        yield path
        holder.execute("rollback")


def test_a_locked_database_is_unavailable_and_not_absent(locked: Path) -> None:
    orders = SqlSource("orders-db", lambda: sqlite3.connect(locked, timeout=0))
    found = orders.one("select * from orders")
    assert found.presence is Presence.UNAVAILABLE
    assert "locked" in found.detail
    with pytest.raises(ReaderFailedError):
        orders.ping()


def test_a_file_that_is_no_database_is_a_verifier_error(path: Path, orders: SqlSource) -> None:
    path.write_bytes(b"not a database, not at all" * 100)
    with pytest.raises(ReaderFailedError, match="not a database"):
        orders.one("select * from orders")


class OtherDriverError(Exception):
    """As `psycopg.OperationalError` presents itself: by name and by SQLSTATE."""

    def __init__(self, sqlstate: str | None) -> None:
        super().__init__(f"state {sqlstate}")
        self.sqlstate = sqlstate


DatabaseError = type("DatabaseError", (OtherDriverError,), {})
OperationalError = type("OperationalError", (DatabaseError,), {})


@pytest.mark.parametrize(
    ("sqlstate", "presence"),
    [
        (None, Presence.UNAVAILABLE),
        ("08006", Presence.UNAVAILABLE),
        ("57P01", Presence.UNAVAILABLE),
        ("40001", Presence.UNAVAILABLE),
        ("42501", Presence.NOT_VISIBLE),
        ("28P01", Presence.NOT_VISIBLE),
    ],
)
def test_other_drivers_are_understood_by_their_states(sqlstate: str | None, presence: Presence) -> None:
    def connect() -> sqlite3.Connection:
        raise OperationalError(sqlstate)

    assert SqlSource("other", connect).one("select 1").presence is presence


def test_a_state_that_means_a_wrong_query_is_a_verifier_error() -> None:
    def connect() -> sqlite3.Connection:
        raise DatabaseError("42P01")

    with pytest.raises(ReaderFailedError):
        SqlSource("other", connect).one("select 1")


def test_an_unreachable_server_is_unavailable() -> None:
    def connect() -> sqlite3.Connection:
        raise ConnectionRefusedError("nobody listens")

    assert SqlSource("other", connect).one("select 1").presence is Presence.UNAVAILABLE


def test_an_error_of_the_caller_is_not_dressed_up() -> None:
    def connect() -> sqlite3.Connection:
        raise KeyError("settings")

    with pytest.raises(KeyError):
        SqlSource("other", connect).one("select 1")


def test_a_source_has_a_name(path: Path) -> None:
    with pytest.raises(UsageError):
        SqlSource("", lambda: sqlite3.connect(path))


@pytest.mark.requirement("IDENT-normal-form")
def test_truth_values_that_a_database_keeps_as_numbers_are_shown_as_such_where_that_is_said(path: Path) -> None:
    source = SqlSource("orders", lambda: sqlite3.connect(path))
    query = "select 1 as done, 0 as late, null as held, 1 as count"
    assert source.one(query).value == {"done": 1, "late": 0, "held": None, "count": 1}
    shown = source.one(query, booleans=["done", "late", "held"]).value
    assert shown == {"done": True, "late": False, "held": None, "count": 1}
    assert isinstance(shown, dict)
    assert [type(shown[name]) for name in ("done", "late", "count")] == [bool, bool, int]
    assert source.all(query, booleans=["done"])[0].value == {"done": True, "late": 0, "held": None, "count": 1}
    for wrong in ("select 2 as done", "select 'yes' as done", "select 1 as other"):
        with pytest.raises(ReaderTypeError):
            source.one(wrong, booleans=["done"])


@pytest.mark.requirement("IDENT-normal-form")
def test_a_column_of_uuids_says_by_which_rule_it_is_compared(path: Path) -> None:
    sqlite3.register_converter("uuid_of_test", lambda raw: UUID(raw.decode()))
    opened = partial(sqlite3.connect, path, detect_types=sqlite3.PARSE_COLNAMES)
    source = SqlSource("orders", opened)
    found = source.one("""select '550e8400-e29b-41d4-a716-446655440000' as "id [uuid_of_test]", 'x' as name""")
    assert found.forms == (("id", (NormalForm.UUID,)),)


# --- what a query may do -----------------------------------------------------------------------------------------


@pytest.mark.requirement("SEC-sql-bounded")
@pytest.mark.parametrize(
    "sql",
    [
        "with x as (select 1) delete from orders",
        "with x as (select 1) insert into orders (id) select 'o-9'",
        "select load_extension('x')",
        "select fts3_tokenizer('simple')",
        "select * from pragma_hard_heap_limit(1)",
        "select * from pragma_journal_mode('delete')",
    ],
)
def test_a_query_changes_nothing_and_sets_nothing(sql: str, path: Path, orders: SqlSource) -> None:
    _add(path, "o-1")
    before = path.read_bytes()
    with pytest.raises(ReaderFailedError):
        orders.one(sql)
    assert path.read_bytes() == before
    with closing(sqlite3.connect(":memory:")) as other:
        assert other.execute("pragma hard_heap_limit").fetchone() == (0,)


@pytest.mark.requirement("SEC-sql-bounded")
@pytest.mark.parametrize(
    "sql",
    [
        "with recursive r(n) as (select 1 union all select n + 1 from r) select count(*) as n from r",
        "select count(*) as n from generate a, generate b, generate c where a.x || b.x || c.x like '%9%9%1x'",
    ],
)
def test_a_query_without_end_is_interrupted(sql: str, path: Path) -> None:
    _write(path, "create table generate (x)")
    with closing(sqlite3.connect(path)) as connection:
        connection.executemany("insert into generate values (?)", [(at,) for at in range(2_000)])
        connection.commit()
    source = SqlSource("orders-db", lambda: sqlite3.connect(path, check_same_thread=False), timeout_s=0.3)
    found = source.one(sql)
    assert found.presence is Presence.UNAVAILABLE
    assert "interrupted" in found.detail


@pytest.mark.requirement("SEC-sql-bounded")
@pytest.mark.parametrize(
    "sql",
    [
        "select hex(zeroblob(3000000)) as x",
        "select printf('%.*c', 2000000000, 'x') as x",
        "select replace(hex(zeroblob(500000)), '0', 'abc') as x",
        "select 'a' like (select group_concat('%a', '') from generate) as x",
    ],
)
def test_no_value_is_computed_that_is_longer_than_a_reading(sql: str, path: Path, orders: SqlSource) -> None:
    _write(path, "create table generate (x)")
    with closing(sqlite3.connect(path)) as connection:
        connection.executemany("insert into generate values (?)", [(at,) for at in range(2_000)])
        connection.commit()
    tracemalloc.start()
    try:
        with suppress(ReaderFailedError, ReaderTypeError):
            assert len(str(orders.one(sql).value)) < 2 * VALUE_MAX_BYTES
        assert tracemalloc.get_traced_memory()[1] < 16 * VALUE_MAX_BYTES
    finally:
        tracemalloc.stop()


def test_views_and_json_and_full_text_are_read_as_before(path: Path, orders: SqlSource) -> None:
    _add(path, "o-1")
    _write(path, "create view v as select id from orders")
    _write(path, "create virtual table words using fts5 (x)")
    _write(path, "insert into words values ('one two')")
    assert orders.one("select id from v").value == {"id": "o-1"}
    assert orders.one("select value from json_each('[7]')").value == {"value": 7}
    assert orders.one("select x from words where words match 'two'").value == {"x": "one two"}
    assert orders.one("select name from pragma_table_info('orders') where pk").value == {"name": "id"}
