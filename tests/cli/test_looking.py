"""List, doctor, version, and the programs that are started from here: what they answer, and what they leave alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from readback.cli.checks.doctor_checks import EXAMINATIONS
from tests.cli.conftest import CONTRACTS, Desk

# --- list ----------------------------------------------------------------------------------------------------


def test_list_shows_the_newest_first_and_filters(desk: Desk) -> None:
    desk.ship("a", "--run", "morning", code=0)
    desk.runtime.advance(1)
    desk.ship("b", "--wait", "0", how="lie", carrier="ups", code=3)
    desk.runtime.advance(1)
    desk.run("wipe", "--operation", "w", order_id="o-17", code=4)
    rows = desk("list", "--json", code=0).json
    assert [row["operation"] for row in rows] == ["w", "b", "a"]
    assert [row["state"] for row in rows] == ["validated", "pending", "reconciled_success"]
    assert [row["exit_code"] for row in rows] == [4, 3, 0]
    for option, value, wanted in [
        ("--state", "pending", ["b"]),
        ("--contract", "wipe", ["w"]),
        ("--run", "morning", ["a"]),
        ("--limit", "2", ["w", "b"]),
    ]:
        assert [row["operation"] for row in desk("list", "--json", option, value).json] == wanted
    shown = desk("list", code=0).out
    assert all(row["id"] in shown for row in rows)
    assert "The newest 1 are shown" in desk("list", "--limit", "1", code=0).err


def test_a_narrow_terminal_cuts_nothing_off_the_list(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    done = desk.ship("a", code=0)
    left = desk.ship("b", "--wait", "0", how="lie", carrier="ups", code=3)
    for columns in ("20", "40", "77"):
        monkeypatch.setenv("COLUMNS", columns)
        shown = desk("list", code=0).out
        for outcome, said in ((done, "verified"), (left, "pending (undetermined)")):
            assert outcome["id"] in shown
            assert said in shown
        assert "ship on order/o-17" in shown
    monkeypatch.setenv("COLUMNS", "78")
    assert "verdict" in desk("list", code=0).out


def test_an_empty_list_says_where_there_is_something(desk: Desk) -> None:
    desk.ship("a", code=0)
    answer = desk("list", "--tenant", "acme", code=0)
    assert answer.out == ""
    assert "Tenant acme has no actions" in answer.err
    assert "there are actions of: default" in answer.err
    assert "No action of tenant default matches" in desk("list", "--state", "failed", code=0).err


def test_looking_changes_nothing(desk: Desk) -> None:
    outcome = desk.ship("a", "--wait", "0", how="lie", code=3)
    before = desk.ledger.read_bytes()
    for command in (("list",), ("show", outcome["id"]), ("explain", outcome["id"]), ("ledger", "verify"), ("doctor",)):
        desk(*command, code=0)
    assert desk.ledger.read_bytes() == before


# --- doctor --------------------------------------------------------------------------------------------------


def test_doctor_in_an_empty_folder_finds_nothing_wrong_and_leaves_nothing(desk: Desk) -> None:
    answer = desk.spawn("doctor", code=0)
    assert "This installation is sound." in answer.out
    assert answer.err == ""
    assert os.listdir(desk.folder) == []
    told = desk.spawn("doctor", "--json", code=0).json
    assert told["sound"]
    assert {each["name"] for each in told["findings"]} >= {"python", "settings", "clock", "expressions", "store"}
    assert next(f for f in told["findings"] if f["name"] == "store")["details"]["commit_us"] > 0


def test_doctor_looks_at_contracts_and_at_the_work_that_waits(desk: Desk) -> None:
    desk.ship("a", "--wait", "0", how="lie", code=3)
    desk.runtime.advance(3600)
    told = desk("doctor", "--contracts", CONTRACTS, "--json", code=0).json["findings"]
    found = {each["name"]: each for each in told}
    assert "ship" in found["contracts"]["details"]["names"]
    assert found["work"]["level"] == "warning"
    assert found["work"]["details"]["overdue"] == 1
    assert "readback resume" in found["work"]["remedy"]
    assert found["permissions"]["level"] == "ok"


def test_doctor_warns_of_a_ledger_that_others_may_read(desk: Desk) -> None:
    desk.ship("a", code=0)
    desk.ledger.chmod(0o644)
    answer = desk("doctor", code=0)
    assert "others may read or write it" in answer.out
    assert "chmod 600" in answer.out


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("--contracts", "no.such"), 2, "There is no module 'no.such'"),
        (("--url", "sqlite:////no/such/folder/x.db"), 6, "does not exist"),
        (("--url", "mysql://x"), 5, "No ledger store supports"),
    ],
)
def test_doctor_goes_on_after_a_fault_and_ends_with_its_code(
    desk: Desk, args: tuple[str, ...], code: int, said: str
) -> None:
    answer = desk("doctor", *args, code=code)
    assert said in answer.out
    assert "1 faults." in answer.out
    assert "store" in answer.out


def test_doctor_names_a_damaged_ledger(desk: Desk) -> None:
    desk.ledger.write_bytes(b"x" * 4096)
    answer = desk("doctor", "--json", code=6)
    assert answer.json["findings"][-1]["details"]["code"] == "store.corrupt"


def test_doctor_says_so_where_a_clock_stands_in_another_age(desk: Desk) -> None:
    desk.runtime._clock.now_us = 1_000_000
    assert "The clock says 1970-01-01" in desk("doctor", code=5).out


def test_doctor_says_so_where_the_ledger_has_entries_of_the_future(desk: Desk) -> None:
    desk.ship("a", code=0)
    desk.runtime._clock.now_us -= 3_600_000_000
    assert "later than the current time" in desk("doctor", code=0).out


def test_an_examination_that_breaks_is_a_fault_of_that_examination(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> Any:
        raise ImportError("No module named 'missing_part'")

    monkeypatch.setitem(EXAMINATIONS, "expressions", broken)
    answer = desk("doctor", code=5)
    assert "missing_part" in answer.out
    assert "Install Readback again" in answer.out


# --- version, demo, bench ------------------------------------------------------------------------------------


def test_version_names_what_a_report_of_a_fault_needs(desk: Desk) -> None:
    import apsw

    from readback.domain.recovery.table import DEFAULT_TABLE

    told = desk("version", "--json", code=0).json
    assert told["sqlite"] == apsw.sqlite_lib_version()
    assert told["recovery_table"] == DEFAULT_TABLE.version
    assert told["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "recovery table" in desk("version", code=0).out


@pytest.mark.parametrize(("command", "home", "name"), [("demo", "demo", "run_demo"), ("bench", "bench", "run_bench")])
def test_a_program_is_started_with_what_was_asked_and_its_code_is_the_answer(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, command: str, home: str, name: str
) -> None:
    asked: list[tuple[object, ...]] = []

    def program(*args: object) -> int:
        asked.append(args)
        return 1

    fake = ModuleType(f"readback.{home}.main")
    setattr(fake, name, program)
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    desk(command, "--json", code=1)
    assert asked[0][0] is True
    if command == "demo":
        desk(command, "--folder", "there", code=1)
        desk(command, "-v", code=1)
        assert asked[1:] == [(False, Path("there"), False), (False, None, True)]


def test_the_demo_says_which_extra_it_needs(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("readback.cli.demo_and_bench.find_spec", lambda name: None if name == "pymap" else True)
    answer = desk("demo", code=5)
    assert "needs pymap" in answer.err
    assert "readback-ai[demo]" in answer.err
