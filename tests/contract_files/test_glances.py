"""Readers of files and of SQLite at a glance: they see what any look sees, or leave it to a thread."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from readback import Context, Reading
from readback.client.files import contract_files
from readback.contracts.functions.callables import Reader
from readback.contracts.functions.verifiers import invariant_check, with_probes
from readback.domain.verdict import Verdict
from readback.domain.verification.reading import Presence
from readback.ports.handlers import Handler
from readback.ports.system_factory import Given, Reference, TemplateParts
from readback.systems.configured.factory import BuiltInSystems, ConfiguredSource
from readback.systems.configured.sources import NEAR_MAX_BYTES
from tests.contract_files.writing import context, contract, written
from tests.sdk.given import opened_async

pytestmark = pytest.mark.requirement("FILE-glance")

BOOK = """
    kind: set
    side_effect: low_risk_internal
    target: entry/{requested.id}
    arguments: {id: string, amount: integer}
    execute:
      sql:
        database: book.db
        statement: "insert or replace into entries values ({requested.id}, {requested.amount})"
    identity: {target: authoritative.id, tenant: not_offered}
    readers:
      - sql: {database: book.db, query: "select * from entries where id = {requested.id}"}
    ensure: {booked: authoritative.amount == requested.amount}
    late_window: 0s
"""
ONE = "select id, amount from entries where id = "
LONG = (
    "with recursive n(i) as (select 1 union all select i + 1 from n where i < 9999)"
    " select count(*) as n from n where i <> "
)


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute("create table entries (id text primary key, amount integer)")
        made.execute("insert into entries values ('a', 1)")
        made.commit()
    return path


def source_of(folder: Path, kind: str = "sql", **fixed: Any) -> ConfiguredSource:
    made = BuiltInSystems().source(kind, "source", fixed, str(folder), 1_000_000)
    assert isinstance(made, ConfiguredSource)
    return made


def query(text: str, value: object) -> dict[str, object]:
    return {"query": TemplateParts((text, ""), (value,))}


def known(source: ConfiguredSource, given: Given) -> ConfiguredSource:
    """One of which a thread has found out where its file lies, since it was asked for a glance in vain."""
    assert source.glance(context(), asked(given)) is None
    source.read(context(), given)
    return source


def asked(given: Given) -> Callable[[], Given]:
    return lambda: given


def unasked() -> Given:
    raise AssertionError("nobody has to know what is asked")


def test_a_glance_shows_what_a_look_shows(book: Path) -> None:
    source = known(source_of(book.parent, database="book.db"), query(ONE, "a"))
    for value, presence in (("a", Presence.PRESENT), ("b", Presence.ABSENT)):
        seen = source.glance(context(), asked(query(ONE, value)))
        assert seen == source.read(context(), query(ONE, value))
        assert seen is not None
        assert seen.presence is presence


@pytest.mark.parametrize("show", ["stat", "text"])
def test_a_glance_at_a_file_shows_what_a_look_shows(show: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello", encoding="utf-8")
    source = known(source_of(tmp_path, "file", root=".", show=show), {"path": "a.txt"})
    for path, presence in (("a.txt", Presence.PRESENT), ("b.txt", Presence.ABSENT)):
        seen = source.glance(context(), asked({"path": path}))
        assert seen == source.read(context(), {"path": path})
        assert seen is not None
        assert seen.presence is presence


def test_what_may_take_longer_at_a_file_is_left_to_a_thread(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello", encoding="utf-8")
    (tmp_path / "large.txt").write_bytes(b"x" * (NEAR_MAX_BYTES + 1))
    (tmp_path / "folder").mkdir()
    source = known(source_of(tmp_path, "file", root="."), {"path": "a.txt"})
    assert source.glance(context(), asked({"path": "a.txt"})) is not None
    for given in (
        {"path": "large.txt"},
        {"path": "folder"},
        {"path": "../a.txt"},
        {"path": "a.txt", "also": {"b": "b"}},
    ):
        assert source.glance(context(), asked(given)) is None


def test_a_lock_is_not_waited_for(book: Path) -> None:
    source = known(source_of(book.parent, database="book.db"), query(ONE, "a"))
    with closing(sqlite3.connect(book, isolation_level=None)) as writer:
        writer.execute("begin exclusive")
        assert source.glance(context(), asked(query(ONE, "a"))) is None
        writer.execute("rollback")
    assert source.glance(context(), asked(query(ONE, "a"))) is not None


@pytest.mark.parametrize("ending", ["-journal", "-wal", "-shm"])
def test_a_pipe_beside_a_database_holds_up_no_event_loop(ending: str, book: Path) -> None:
    source = known(source_of(book.parent, database="book.db"), query(ONE, "a"))
    pipe = book.with_name(book.name + ending)
    os.mkfifo(pipe)
    seen: list[Reading | None] = []
    looking = threading.Thread(
        target=lambda: seen.append(source.glance(context(), asked(query(ONE, "a")))), daemon=True
    )
    looking.start()
    looking.join(5)
    if looking.is_alive():
        os.close(os.open(pipe, os.O_RDWR))  # ends its wait
    assert seen == [None]
    pipe.unlink()
    book.rename(book.with_name("elsewhere.db"))
    book.symlink_to("elsewhere.db")  # beside which such a pipe would lie
    assert source.glance(context(), asked(query(ONE, "a"))) is None


def test_a_statement_that_goes_on_is_interrupted_and_left_to_a_thread(book: Path) -> None:
    source = known(source_of(book.parent, database="book.db"), query(LONG, 0))
    assert source.glance(context(), asked(query(LONG, 0))) is None
    assert source.read(context(), query(LONG, 0)).value == {"n": 9999}
    assert source.glance(context(), asked(query(ONE, "a"))) is not None


@pytest.mark.parametrize("wrong", ["nothing", "no table", "no database"])
def test_what_fails_is_left_to_a_thread_which_tells_it(wrong: str, book: Path) -> None:
    source = known(source_of(book.parent, database="book.db"), query(ONE, "a"))
    text = "select nothing where 1 = " if wrong == "nothing" else "select * from missing where id = "
    if wrong == "no database":
        book.write_bytes(b"no database" * 100)
    assert source.glance(context(), asked(query(text, 1))) is None


def test_a_server_s_database_and_a_system_that_is_no_file_are_never_glanced_at(tmp_path: Path) -> None:
    server = source_of(tmp_path, url="postgresql://localhost:1/x")
    assert server.glance(context(), asked(query(ONE, 1))) is None
    program = source_of(tmp_path, "command", argv=["true"])
    assert program.glance(context(), unasked) is None


def test_where_a_reference_stands_for_something_it_is_left_to_a_thread(
    book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOOK", "book.db")
    source = source_of(book.parent, database=Reference("env", "BOOK"))
    assert source.glance(context(), unasked) is None
    source.read(context(), query(ONE, "a"))
    assert source.glance(context(), unasked) is None


class Threads:
    """In which threads a source was read, and in which it was glanced at with an answer."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.read: list[int] = []
        self.glanced: list[int] = []
        read, glance = ConfiguredSource.read, ConfiguredSource.glance

        def reads(source: ConfiguredSource, ctx: Context, given: Given) -> Reading:
            self.read.append(threading.get_ident())
            return read(source, ctx, given)

        def glances(source: ConfiguredSource, ctx: Context, given: Callable[[], Given]) -> Reading | None:
            found = glance(source, ctx, given)
            self.glanced += [] if found is None else [threading.get_ident()]
            return found

        patch.setattr(ConfiguredSource, "read", reads)
        patch.setattr(ConfiguredSource, "glance", glances)


def test_on_an_event_loop_a_quick_reader_needs_a_thread_at_first_only(
    book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = Threads(monkeypatch)
    actions = contract_files(written(book.parent / "c.yaml", contract(BOOK)))

    async def main() -> None:
        async with opened_async() as rb:
            for n in range(5):
                outcome = await rb.run(actions["one"](id=f"e-{n}", amount=n), operation=f"op {n}")
                assert outcome.verified
                assert outcome.observation is not None

    asyncio.run(main())
    here = threading.get_ident()
    assert here not in threads.read
    assert set(threads.glanced) == {here}
    assert len(threads.read) == 3, "one to find out that it is quick, and each that was asked for a glance in vain"
    assert len(threads.read) + len(threads.glanced) == 10


def test_a_lie_is_caught_at_a_glance(book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = Threads(monkeypatch)
    lying = BOOK.replace("({requested.id}, {requested.amount})", "({requested.id}, 13)")
    actions = contract_files(written(book.parent / "c.yaml", contract(lying)))

    async def main() -> None:
        async with opened_async() as rb:
            for n in range(5):
                outcome = await rb.run(actions["one"](id=f"e-{n}", amount=n), operation=f"op {n}")
                assert not outcome.verified
                assert outcome.verdict is Verdict.REFUTED

    asyncio.run(main())
    assert threads.glanced


def test_whoever_looks_in_another_way_is_not_asked_for_the_old_ones_glance() -> None:
    seen = Reading.of({"id": "a"})
    glancing = Reader("eye", lambda ctx, given: seen, False, "book", "strong", "other_client", glance=lambda *_: seen)
    probed = with_probes(glancing, tuple(invariant_check("none", lambda ctx: True, source="book").values()))
    assert glancing.glance is not None
    assert probed.glance is None, "a glance would pass by the probes"

    async def after_async(*_: object) -> object:
        return None

    hand = Handler("eye", glancing.look, glance=glancing.glance)
    assert hand.then(lambda *_: None, after_async).glance is None
