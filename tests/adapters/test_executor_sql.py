"""Acting on a real SQLite file: committed statements, and a transaction that waits for its verdict."""

from __future__ import annotations

import signal
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest

from readback.canon import Json
from readback.domain.context import Context
from readback.domain.verification.reading import Presence
from readback.errors import NotDispatchedError, ReaderTypeError, ToolError, UsageError
from readback.ports.handlers import Staged
from readback.systems.sql.executor import ROWS_MAX, SqlExecutor, SqlStaged

CTX = Context("a-1", "acme", "agent:ops", "pay o-1", "account/1", "key-1", "stamp-1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "bank.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table accounts (id text primary key, cents integer, stamp text)")
        connection.execute("insert into accounts values ('a', 100, null), ('b', 0, null)")
        connection.commit()
    return path


@pytest.fixture
def bank(path: Path) -> SqlExecutor:
    return SqlExecutor("bank", lambda: sqlite3.connect(path, timeout=0))


def _cents(path: Path, key: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("select cents from accounts where id = ?", [key]).fetchone()[0])


def test_a_statement_is_committed_and_counted(path: Path, bank: SqlExecutor) -> None:
    answer = bank.execute(CTX, "update accounts set cents = ? where id = ?", [70, "a"])
    assert answer == {"rowcount": 1}
    assert _cents(path, "a") == 70


def test_a_statement_that_met_no_row_says_so(bank: SqlExecutor) -> None:
    assert bank.execute(CTX, "update accounts set cents = 1 where id = ?", ["z"]) == {"rowcount": 0}


def test_returned_rows_are_shown_bounded(path: Path, bank: SqlExecutor) -> None:
    answer = bank.execute(CTX, "insert into accounts values ('c', 5, ?) returning id, cents", [CTX.stamp])
    assert answer == {"rowcount": 1, "rows": [{"id": "c", "cents": 5}]}
    many = "with recursive n(i) as (values(1) union all select i + 1 from n where i <= 150) "
    answer = bank.execute(CTX, f"insert into accounts {many} select 'n' || i, i, null from n returning id")
    assert isinstance(answer["rows"], list)
    assert (len(answer["rows"]), answer["cut"], answer["rowcount"]) == (ROWS_MAX, True, 151)


def test_a_row_without_a_json_form_does_not_hide_that_the_statement_ran(path: Path, bank: SqlExecutor) -> None:
    answer = bank.execute(CTX, "update accounts set cents = 9 where id = 'a' returning 1e999")
    assert answer == {"rowcount": 1, "rows": [], "cut": True}
    assert _cents(path, "a") == 9


def test_a_statement_that_fails_leaves_nothing(path: Path, bank: SqlExecutor) -> None:
    with pytest.raises(ToolError) as caught:
        bank.execute(CTX, "insert into accounts values ('a', 1, null)")
    assert caught.value.code == "tool.sql"
    assert caught.value.details == {"action": "a-1"}
    assert _cents(path, "a") == 100


def test_a_failing_commit_leaves_the_outcome_open(path: Path) -> None:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path)
        connection.execute("pragma foreign_keys = on")
        return connection

    bank = SqlExecutor("bank", connect)
    bank.execute(CTX, "create table p (a references accounts (id) deferrable initially deferred)")
    with pytest.raises(ToolError) as caught:
        bank.execute(CTX, "insert into p values ('nobody')")
    assert caught.value.code == "tool.commit-open"


def _unreachable() -> sqlite3.Connection:
    raise ConnectionRefusedError("nobody listens")


def test_an_open_failure_proves_nothing_unless_the_call_is_the_only_one() -> None:
    with pytest.raises(ToolError) as caught:
        SqlExecutor("bank", _unreachable).execute(CTX, "select 1")
    assert not isinstance(caught.value, NotDispatchedError)
    with pytest.raises(NotDispatchedError):
        SqlExecutor("bank", _unreachable, sole=True).execute(CTX, "select 1")
    with pytest.raises(NotDispatchedError):
        SqlExecutor("bank", _unreachable, sole=True).staged(CTX)


def _transfer(bank: SqlExecutor, cents: int) -> SqlStaged:
    with bank.staged(CTX) as staged:
        staged.execute("update accounts set cents = cents - ?, stamp = ? where id = 'a'", [cents, CTX.stamp])
        staged.execute("update accounts set cents = cents + ? where id = 'b'", [cents])
        staged.look("select * from accounts where id = ?", ["a"], version="cents", stamp="stamp")
    return staged


@pytest.mark.requirement("INPUT-reader-wrong-type")
@pytest.mark.parametrize(
    "look",
    [
        "select id, 9e999 as cents from accounts where id = ?",
        "select 'a' as id, 9e999 as cents union all select id, cents from accounts where id = ?",
        "select id, cents, stamp, 0 as cents from accounts where id = ?",
        "update accounts set stamp = null where id = ?",
    ],
)
def test_a_look_that_cannot_show_the_row_inside_a_transaction_is_no_absence(bank: SqlExecutor, look: str) -> None:
    with bank.staged(CTX) as staged:
        staged.execute("delete from accounts where id = 'nobody'")
        staged.look(look, ["a"])
    with pytest.raises(ReaderTypeError):
        staged.read()
    staged.abandon()


def test_a_staged_transaction_is_read_before_it_is_committed(path: Path, bank: SqlExecutor) -> None:
    staged: Staged = _transfer(bank, 30)
    assert staged.answer == {"rowcount": 1}
    found = staged.read()
    assert found.value == {"id": "a", "cents": 70, "stamp": "stamp-1"}
    assert (found.version, found.stamp) == (70, "stamp-1")
    assert _cents(path, "a") == 100
    assert staged.commit() == {"transaction": "committed"}
    assert (_cents(path, "a"), _cents(path, "b")) == (70, 30)


def test_an_abandoned_transaction_leaves_no_trace(path: Path, bank: SqlExecutor) -> None:
    staged = _transfer(bank, 30)
    assert staged.abandon() == {"transaction": "abandoned"}
    assert (_cents(path, "a"), _cents(path, "b")) == (100, 0)
    assert bank.execute(CTX, "update accounts set cents = 1 where id = 'a'") == {"rowcount": 1}, "it left a lock"


def test_a_staged_transaction_may_be_settled_from_another_thread(path: Path, bank: SqlExecutor) -> None:
    staged = _transfer(bank, 30)
    with ThreadPoolExecutor(1) as other:
        assert other.submit(staged.read).result().presence is Presence.PRESENT
        other.submit(staged.commit).result()
    assert _cents(path, "b") == 30


def test_an_error_in_the_block_abandons_the_transaction(path: Path, bank: SqlExecutor) -> None:
    staged = bank.staged(CTX)
    staged.execute("update accounts set cents = 0 where id = 'a'")
    with pytest.raises(ToolError) as caught, staged:
        staged.execute("insert into nowhere values (1)")
    assert caught.value.code == "tool.sql"
    assert _cents(path, "a") == 100
    with pytest.raises(UsageError, match="abandoned already"):
        staged.commit()


def test_a_transaction_is_settled_once(path: Path, bank: SqlExecutor) -> None:
    staged = _transfer(bank, 10)
    staged.commit()
    for act in (staged.commit, staged.abandon, staged.read, lambda: staged.execute("delete from accounts")):
        with pytest.raises(UsageError, match="committed already"):
            act()
    assert _cents(path, "a") == 90


@pytest.mark.parametrize("isolation", ["", None, "IMMEDIATE"])
def test_a_transaction_stays_open_whatever_the_habits_of_the_connection(path: Path, isolation: str | None) -> None:
    bank = SqlExecutor("bank", lambda: sqlite3.connect(path, isolation_level=isolation))  # type: ignore[arg-type]
    with bank.staged(CTX) as staged:
        staged.execute("create table later (id text)")
        staged.execute("insert into accounts values ('n', 1, null)")
    staged.abandon()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select count(*) from accounts").fetchone() == (2,)
        assert connection.execute("select count(*) from sqlite_master where name = 'later'").fetchone() == (0,)


def test_a_database_that_another_holds_is_a_tool_error(path: Path, bank: SqlExecutor) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("begin immediate")
        with pytest.raises(ToolError) as caught:
            bank.staged(CTX)
    assert caught.value.code == "tool.sql"


def test_a_look_is_named_and_shows_one_row(path: Path, bank: SqlExecutor) -> None:
    with bank.staged(CTX) as staged:
        staged.execute("delete from accounts where id = 'b'")
    with pytest.raises(UsageError, match="look"):
        staged.read()
    staged.look("select * from accounts where id = 'b'")
    assert staged.read().presence is Presence.ABSENT
    staged.look("select 1 as one union select 2")
    with pytest.raises(ReaderTypeError, match="at most one"):
        staged.read()
    staged.look("select 1 as one", version="version")
    with pytest.raises(ReaderTypeError, match="columns"):
        staged.read()
    staged.abandon()


def test_other_drivers_leave_their_autocommit(path: Path) -> None:
    opened: list[Other] = []

    def connect() -> Other:
        opened.append(Other(path))
        return opened[-1]

    staged = SqlExecutor("other", connect).staged(CTX)
    assert opened[0].autocommit is False
    staged.abandon()
    assert opened[0].closed


class Other:
    """A connection as another DB-API driver would give it: autocommit until told not to, rows as mappings."""

    def __init__(self, path: Path) -> None:
        self.autocommit = True
        self.closed = False

    def cursor(self) -> Other:
        return self

    description = (("id",), ("cents",))
    rowcount = 1

    def execute(self, sql: str, params: object) -> None:
        self.sql = sql

    def fetchmany(self, limit: int) -> list[dict[str, Json]]:
        return [{"id": "a", "cents": 1}]

    def commit(self) -> None: ...
    def rollback(self) -> None: ...

    def close(self) -> None:
        self.closed = True


def test_rows_that_are_mappings_are_taken_as_they_are(path: Path) -> None:
    answer = SqlExecutor("other", lambda: Other(path)).execute(CTX, "select * from accounts")
    assert answer == {"rowcount": 1, "rows": [{"id": "a", "cents": 1}]}


@pytest.mark.requirement("STRATEGY-rollback")
@pytest.mark.parametrize("word", ["commit", "rollback"])
def test_a_statement_that_ends_the_transaction_is_refused(path: Path, bank: SqlExecutor, word: str) -> None:
    with bank.staged(CTX) as staged:
        staged.execute("update accounts set cents = 1 where id = 'a'")
        with pytest.raises(ToolError, match="ended the transaction") as caught:
            staged.execute(word)
        staged.abandon()
    assert caught.value.code == "tool.commit-open"


def test_a_statement_that_is_still_running_does_not_hold_up_the_rollback(path: Path, bank: SqlExecutor) -> None:
    """Its caller was interrupted, as it is when an action is over its time."""
    endless = "with recursive n(i) as (values(1) union all select i + 1 from n) select max(i) from n"
    main, began = threading.main_thread().ident, threading.Event()
    assert main is not None

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=0)
        # Seldom: a thread that takes the interpreter again and again can keep it from every other for minutes.
        connection.set_progress_handler(began.set, 1_000_000)
        return connection

    def interrupt() -> None:
        began.wait()
        signal.pthread_kill(main, signal.SIGINT)

    with suppress(KeyboardInterrupt), SqlExecutor("slow", connect).staged(CTX) as staged:
        staged.execute("update accounts set cents = 1 where id = 'a'")
        began.clear()
        threading.Thread(target=interrupt).start()
        staged.execute(endless)
    assert _cents(path, "a") == 100
    bank.execute(CTX, "update accounts set cents = 2 where id = 'a'")
