"""What a short contract assumes is listed wherever the contract is looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from readback.cli.cli import main

MODULE = """
from readback import Readback, action

ORDERS = {"o-17": {"status": "open"}}


@action("order/{order_id}", ensure="authoritative.status == 'shipped'", within="1s")
def ship_order(order_id: str) -> None:
    ORDERS[order_id] = {"status": "shipped"}


@ship_order.read
def order(order_id: str):
    return ORDERS.get(order_id)
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"shop_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("READBACK_URL", "sqlite:///ledger.db")
    return name


def run(*words: str) -> str:
    done = CliRunner().invoke(main, words, standalone_mode=False)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.stdout


def test_check_and_doctor_list_what_is_assumed(shop: str) -> None:
    said = run("contracts", "check", shop)
    assert "assumed: side_effect: low_risk_internal" in said
    assert "assumed: readers.order: nothing is declared of it" in said
    told = json.loads(run("contracts", "check", shop, "--json"))
    assert "kind: set" in told["assumed"]["ship_order"]
    assert "rests on assumptions" in run("doctor", "--contracts", shop)


def test_explain_lists_what_is_assumed_from_the_ledger_alone(shop: str) -> None:
    told = json.loads(run("run", "ship_order", "--arg", "order_id=o-17", "--contracts", shop, "--json"))
    assert "rests on assumptions: kind: set" in run("explain", told["id"]).replace("\n", " ")
