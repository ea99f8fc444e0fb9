"""Numbers that no double keeps, through the executors and the sources: exactly as they are, or refused."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from readback.canon import ExactNumber, decimal_of, json_value, parse_json
from readback.domain.context import Context
from readback.errors import ReaderTypeError, ToolError
from readback.systems.files.source import FileSource
from readback.systems.http.executor import HttpExecutor
from readback.systems.sql.executor import SqlExecutor
from readback.systems.sql.source import SqlSource
from readback.testing.postgres_server import PRIMARY, PostgresPair
from tests.adapters.web import Said, Web, serving

CTX = Context("a-1", "acme", "agent:ops", "pay o-1", "account/1", "key-1", "stamp-1")
TEXTS = ["1.000000000000000001", "9007199254740993", "0.30000000000000001665", "100000000000000000001", "1e23", "0.1"]


def _number(text: str) -> Any:
    return parse_json(text)


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as web:
        yield web


@pytest.mark.parametrize("text", TEXTS)
def test_a_request_over_http_carries_the_number_that_was_asked_for(web: Web, text: str) -> None:
    web.answers["/pay"] = Said(200, {})
    with HttpExecutor(web.url, timeout_s=5) as shop:
        shop.post(CTX, "/pay", json={"amount": _number(text), "name": "é"})
    (asked,) = web.asked
    assert json.loads(asked.body, parse_float=Decimal, parse_int=Decimal) == {"amount": Decimal(text), "name": "é"}
    assert asked.headers["Content-Type"] == "application/json"


def test_a_content_type_of_the_callers_own_is_the_only_one(web: Web) -> None:
    web.answers["/pay"] = Said(200, {})
    with HttpExecutor(web.url, timeout_s=5) as shop:
        shop.post(CTX, "/pay", json={"a": 1}, headers={"content-type": "application/vnd.acme+json"})
    assert web.asked[0].headers["content-type"] == "application/vnd.acme+json"


@pytest.mark.parametrize("text", TEXTS)
def test_a_line_of_a_file_is_read_exactly(tmp_path: Path, text: str) -> None:
    (tmp_path / "graph.jsonl").write_text(f'{{"n": {text}}}\n')
    source = FileSource("graph", tmp_path)
    found: Any = source.lines("graph.jsonl").value
    (shown,) = found["lines"]
    assert decimal_of(shown["n"]) == Decimal(text)
    matched: Any = source.lines("graph.jsonl", [{"n": _number(text)}]).value
    assert matched["lines"] == [shown]


@pytest.mark.parametrize("text", ["1e401", "NaN", "1" * 402])
def test_a_line_with_a_number_that_cannot_be_kept_is_no_reading(tmp_path: Path, text: str) -> None:
    (tmp_path / "graph.jsonl").write_text(f'{{"n": {text}}}\n')
    with pytest.raises(ReaderTypeError, match="Line 1"):
        FileSource("graph", tmp_path).lines("graph.jsonl")


@pytest.fixture
def dsn(ledger_server: PostgresPair) -> str:
    return f"postgresql://postgres@/postgres?host={ledger_server.home}&port={PRIMARY}"


@pytest.mark.parametrize("kind", ["json", "jsonb"])
def test_a_json_column_of_postgresql_is_read_exactly(dsn: str, kind: str) -> None:
    source = SqlSource("bank", lambda: psycopg.connect(dsn))
    for text in TEXTS:
        shown: Any = source.one(f"""select '{{"n": {text}}}'::{kind} as row, {text}::numeric as amount""").value
        assert decimal_of(shown["row"]["n"]) == Decimal(text)
        assert Decimal(str(shown["amount"])) == Decimal(text)
        assert isinstance(shown["amount"], str)


def test_a_number_of_postgresql_that_cannot_be_kept_is_no_reading(dsn: str) -> None:
    source = SqlSource("bank", lambda: psycopg.connect(dsn))
    for asked in ("'NaN'::numeric", "'Infinity'::float8", "'{\"n\": 1e500}'::json"):
        with pytest.raises(ReaderTypeError, match="JSON form"):
            source.one(f"select {asked} as n")


@pytest.mark.parametrize("text", ["1.000000000000000001", "123456789012345678901234567890.5", "100000000000000000001"])
def test_postgresql_is_given_the_number_that_was_asked_for(dsn: str, text: str) -> None:
    executor = SqlExecutor("bank", lambda: psycopg.connect(dsn))
    with psycopg.connect(dsn) as connection:
        connection.execute("create table if not exists exact (key text, n numeric, j jsonb)")
    answer = executor.execute(
        CTX, "insert into exact values (%s, %s, %s) returning n, j", [text, _number(text), f'{{"n": {text}}}']
    )
    rows: Any = answer["rows"]
    (row,) = rows
    assert Decimal(str(row["n"])) == Decimal(text)
    assert decimal_of(row["j"]["n"]) == Decimal(text)
    shown = SqlSource("bank", lambda: psycopg.connect(dsn)).one("select n from exact where key = %s", [text]).value
    assert shown == {"n": str(row["n"])}


@pytest.mark.parametrize("value", [ExactNumber("1.000000000000000001"), 2**64])
def test_sqlite_refuses_a_number_that_it_cannot_keep(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "bank.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table accounts (n)")
        connection.commit()
    with pytest.raises(ToolError):
        SqlExecutor("bank", lambda: sqlite3.connect(path)).execute(CTX, "insert into accounts values (?)", [value])
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select count(*) from accounts").fetchone() == (0,)


def test_a_real_and_an_integer_of_sqlite_are_what_they_are(tmp_path: Path) -> None:
    source = SqlSource("bank", lambda: sqlite3.connect(tmp_path / "bank.db"))
    shown = source.one("select 9007199254740993 as whole, 0.1 as real, '5' as text, 5 as five").value
    assert shown == {"whole": 9007199254740993, "real": 0.1, "text": "5", "five": 5}
    assert json_value(shown) == shown
