"""A query of a contract file's SQLite database has bounds of time, of memory and of what it may do."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from readback.domain.verification.reading import Presence
from readback.errors import ReaderFailedError, ReaderTypeError
from readback.ports.system_factory import TemplateParts
from readback.systems.configured.factory import BuiltInSystems
from tests.contract_files.writing import context

pytestmark = pytest.mark.requirement("SEC-sql-bounded")
ENDLESS = "with recursive r(n) as (select 1 union all select n + 1 from r)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "a.db") as made:
        made.execute("create table t (a, b)")
        made.execute("insert into t values (?, ?)", ("x" * 100_000, 1))
    made.close()
    return tmp_path


def source(folder: Path, timeout_us: int = 1_000_000) -> Any:
    return BuiltInSystems().source("sql", "s", {"database": "a.db"}, str(folder), timeout_us)


def asked(sql: str, *values: object) -> dict[str, object]:
    texts = tuple(sql.split("?"))
    return {"query": TemplateParts(texts, values)}


@pytest.mark.parametrize(
    "sql",
    [
        f"{ENDLESS} select count(*) from r",
        f"{ENDLESS}, s(x) as (select randomblob(900000) from r) select max(x) from s",
        "select instr(hex(zeroblob(500000)), hex(zeroblob(260000)) || '1')",
        "select trim(hex(zeroblob(500000)), replace(hex(zeroblob(50000)), '0', 'b') || '0')",
        f"{ENDLESS} select n from r order by n desc",
    ],
)
def test_a_query_that_goes_on_ends_with_its_time_also_inside_one_function(folder: Path, sql: str) -> None:
    found = source(folder).read(context(), asked(sql))
    assert found.presence is Presence.UNAVAILABLE
    assert "interrupted" in found.detail or "took over" in found.detail


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("select " + ",".join(f"randomblob(1000000) as c{n}" for n in range(2_000)), ReaderFailedError),
        ("select " + ",".join(f"randomblob(30000) as c{n}" for n in range(2_000)), ReaderTypeError),
        ("select zeroblob(1000000000)", ReaderFailedError),
    ],
)
def test_a_row_that_is_too_much_for_a_reading_is_refused(folder: Path, sql: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"memory|more than|too big"):
        source(folder, 20_000_000).read(context(), asked(sql))


@pytest.mark.parametrize("each", [30_000, 300_000])
def test_a_search_that_gives_more_than_a_reading_holds_is_refused(folder: Path, each: int) -> None:
    sql = f"with recursive r(n) as (select 1 union all select n + 1 from r limit 900) select randomblob({each}) from r"
    with pytest.raises(ReaderTypeError, match="more than"):
        source(folder, 20_000_000).find(context(), asked(sql))


def test_long_values_are_shown_as_they_are_with_all_beside_them(folder: Path) -> None:
    sql = "select a, b, x'00ff' as c, zeroblob(40000) as d, 0.1 as e, null as f, ? as g, ? as h from t"
    found = source(folder, 20_000_000).read(context(), asked(sql, "it's", 9_007_199_254_740_993))
    plain = source(folder, 20_000_000).read(context(), asked(sql.replace("a, b", "b").replace("40000", "1"), "it's", 5))
    assert isinstance(found.value, dict)
    assert isinstance(plain.value, dict)
    assert found.value["a"] == "x" * 100_000
    assert found.value["h"] == 9_007_199_254_740_993
    assert {name: found.value[name] for name in "bcefg"} == {name: plain.value[name] for name in "bcefg"}
    assert str(found.value["d"]).count("A") > 50_000
    assert [each.value for each in source(folder, 20_000_000).find(context(), asked("select a from t"))] == [
        {"a": "x" * 100_000}
    ]


def test_a_text_that_one_function_makes_too_long_is_not_shown_as_nothing(folder: Path) -> None:
    found = source(folder).read(context(), asked("select printf('%40000d', 1) as p"))
    assert isinstance(found.value, dict)
    assert len(str(found.value["p"])) == 40_000


@pytest.mark.parametrize(
    "sql",
    [
        "attach 'other.db' as o",
        "vacuum into 'other.db'",
        "pragma user_version = 7",
        "with x as (select 1) insert into t values (1, 2)",
        "select load_extension('other')",
        "select fts3_tokenizer('simple')",
        "select * from pragma_journal_mode('delete')",
        "select 1; delete from t",
    ],
)
def test_a_query_writes_attaches_and_loads_nothing(folder: Path, sql: str) -> None:
    before = (folder / "a.db").read_bytes()
    with pytest.raises(ReaderFailedError):
        source(folder).read(context(), asked(sql))
    assert (folder / "a.db").read_bytes() == before
    assert [each.name for each in folder.iterdir()] == ["a.db"]
