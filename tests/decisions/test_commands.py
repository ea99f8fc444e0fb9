"""`readback decisions`: what each command answers, writes and ends with, over real files and a real database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from readback.cli.cli import main
from readback.decisions.model.seals import matching_rule
from tests.decisions.given import ABSENT, CORPUS, changed, verifier, written

PUBLISHED = CORPUS / "deepsigma" / "dte" / "account_quarantine.dte.yaml"
EPISODE = CORPUS / "deepsigma" / "episodes" / "01_success.json"
USED = ["--hops", "1", "--fanout", "1", "--tool-calls", "1", "--chain-depth", "1"]
SANE = """
from readback import VerificationResult

def verify(context):
    count = context["authoritative"]["count"]
    return VerificationResult("pass" if count < 100 else "fail", f"count is {count}")
"""
Command = Callable[..., Result]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the contracts that `init` writes, an envelope, and a verifier."""
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, ["init", "."]).exit_code == 0
    safe = {"allowedActionTypes": ["set_stock", "write_note"]}
    methods = {"methods": ["read_after_write", "sane"], "requiredAboveBlastRadius": "none"}
    written(tmp_path, changed(safeAction=safe, verification=methods, deadlineMs=60_000), "stock.dte.json")
    verifier(tmp_path, SANE, "sane")
    return tmp_path


def told(*args: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(main, ["decisions", *args, "--json"])
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return result.exit_code, found


def run(*args: str, count: int = 12, operation: str = "o1") -> tuple[int, dict[str, Any]]:
    named = ["--verifiers", "verifiers", "--contracts", "contracts.yaml"]
    given = ["--arg", "sku=mug", "--arg", f"count={count}", "--operation", operation]
    return told("run", "stock.dte.json", "set_stock", *named, *given, *USED, *args)


def in_stock(desk: Path) -> int:
    with closing(sqlite3.connect(desk / "stock.db")) as database:
        return int(database.execute("select count from stock where sku = 'mug'").fetchone()[0])


@pytest.mark.requirement("DT-commands", "DT-custom", "DT-episode")
def test_an_action_runs_under_its_envelope_and_leaves_a_sealed_episode(desk: Path) -> None:
    code, found = run("--age", "stock=3", "--episode", "ep.json", "--drifts", "drifts.jsonl", "--tier", "tiny")
    assert (code, found["proceed"], found["verification"]) == (0, True, "pass")
    assert in_stock(desk) == 12
    episode = json.loads((desk / "ep.json").read_text(encoding="utf-8"))
    assert episode == found["episode"]
    assert matching_rule(episode) == "sorted-ascii"
    assert episode["verification"]["details"]["methods"]["sane"]["detail"] == "count is 12"
    assert (desk / "drifts.jsonl").read_text(encoding="utf-8") == ""
    shown, said = told("show", "ep.json")
    assert (shown, said["seal"], said["sound"]) == (0, "sorted-ascii", True)


@pytest.mark.requirement("DT-commands", "DT-proceed", "DT-drift")
def test_a_verifier_that_says_no_is_told_and_the_command_does_not_end_with_zero(desk: Path) -> None:
    code, found = run("--drifts", "drifts.jsonl", count=500)
    assert (found["proceed"], found["verification"]) == (False, "fail")
    assert code != 0
    lines = [json.loads(line) for line in (desk / "drifts.jsonl").read_text(encoding="utf-8").splitlines()]
    assert ("verify", "yellow") in [(each["driftType"], each["severity"]) for each in lines]
    assert in_stock(desk) == 500


@pytest.mark.requirement("DT-commands", "DT-limits", "DT-freshness")
@pytest.mark.parametrize(
    "more", [("--age", "stock=101"), ("--fanout", "99"), ("--tier", "large")], ids=["stale", "fanout", "tier"]
)
def test_what_breaks_a_rule_is_not_executed(desk: Path, more: tuple[str, ...]) -> None:
    before = in_stock(desk)
    code, found = run(*more)
    assert (code, found["proceed"], found["outcome"]) == (1, False, None)
    assert in_stock(desk) == before
    assert found["episode"]["outcome"]["code"] == "abstain"


def test_too_little_time_for_the_plan_ends_without_an_action(desk: Path) -> None:
    code, found = run("--plan-ms", "58000", "--age", "stock=1")
    assert (code, found["outcome"]) == (1, None)
    assert found["episode"]["outcome"]["reason"] == "degrade_step=cache_bundle"


def test_repeating_the_command_answers_and_executes_nothing(desk: Path) -> None:
    assert run()[0] == 0
    with closing(sqlite3.connect(desk / "stock.db")) as database, database:
        database.execute("update stock set count = 7 where sku = 'mug'")
    code, found = run()
    assert (code, found["episode"]["verification"]["details"]["outcome"]["replayed"]) == (0, True)
    assert in_stock(desk) == 7


def test_an_episode_that_is_there_is_not_overwritten_and_nothing_is_executed(desk: Path) -> None:
    (desk / "ep.json").write_text("mine", encoding="utf-8")
    before = in_stock(desk)
    code, found = run("--episode", "ep.json")
    assert (code, found["error"]["code"]) == (2, "input.usage")
    assert (in_stock(desk), (desk / "ep.json").read_text(encoding="utf-8")) == (before, "mine")


@pytest.mark.parametrize("age", ["stock", "stock=", "=1", "stock=-1", "stock=1.5", "stock=" + "9" * 16, "stock=٣"])
def test_an_age_that_is_none_is_refused(desk: Path, age: str) -> None:
    assert run("--age", age)[0] == 2


@pytest.mark.parametrize("left", ["--hops", "--fanout", "--tool-calls", "--chain-depth"])
def test_counts_have_no_default(desk: Path, left: str) -> None:
    at = USED.index(left)
    args = ["decisions", "run", "stock.dte.json", "set_stock", *USED[:at], *USED[at + 2 :]]
    assert CliRunner().invoke(main, args).exit_code == 2


# --- check ---


@ABSENT
@pytest.mark.requirement("DT-commands", "DT-methods")
def test_check_refuses_the_published_envelope_until_its_method_is_there(desk: Path) -> None:
    code, found = told("check", str(PUBLISHED))
    assert code == 5
    assert [(each["key"], each["line"]) for each in found["envelopes"][0]["faults"]] == [
        ("verification.methods[1]", 35)
    ]
    verifier(desk, "def verify(context): ...", "health_check")
    code, found = told("check", str(PUBLISHED), "--verifiers", "verifiers")
    assert (code, found["envelopes"][0]["methods"]) == (0, ["read_after_write", "health_check"])


@pytest.mark.requirement("DT-commands")
def test_check_holds_the_contracts_of_the_allowed_actions_against_the_envelope(desk: Path) -> None:
    args = ["stock.dte.json", "--verifiers", "verifiers", "--contracts", "contracts.yaml"]
    assert told("check", *args)[0] == 0
    methods = {"methods": ["invariant_check"], "requiredAboveBlastRadius": "none"}
    written(desk, changed(safeAction={"allowedActionTypes": ["set_stock", "gone"]}, verification=methods), "two.json")
    code, found = told("check", "two.json", "--contracts", "contracts.yaml")
    assert code == 5
    assert "invariant_check" in found["envelopes"][0]["faults"][0]["reason"]
    assert found["envelopes"][0]["without_contract"] == ["gone"]
    result = CliRunner().invoke(main, ["decisions", "check", "two.json", "stock.dte.json", "--verifiers", "verifiers"])
    assert result.exit_code == 0
    assert result.stdout.count("sound") == 2


# --- seal and show ---


@ABSENT
@pytest.mark.requirement("DT-commands", "DT-seal")
def test_an_episode_is_sealed_once_and_a_changed_one_does_not_hold(desk: Path) -> None:
    episode = json.loads(EPISODE.read_text(encoding="utf-8"))
    whole = episode.pop("seal")
    written(desk, episode, "open.json")
    assert CliRunner().invoke(main, ["decisions", "seal", "open.json", "--out", "sealed.json"]).exit_code == 0
    made = json.loads((desk / "sealed.json").read_text(encoding="utf-8"))
    assert made["seal"]["sealHash"] == whole["sealHash"]
    assert told("show", "sealed.json")[0] == 0
    assert told("seal", "sealed.json")[0] == 2, "it is not sealed over"
    assert told("seal", "open.json", "--out", "sealed.json")[0] == 2, "nor is a file written over"
    made["outcome"]["code"] = "fail"
    written(desk, made, "changed.json")
    code, found = told("show", "changed.json")
    assert (code, found["sound"], found["seal"]) == (1, False, "")


@ABSENT
@pytest.mark.requirement("DT-commands")
def test_show_knows_an_envelope_and_a_drift_event_by_what_is_in_them() -> None:
    # An envelope and a drift event have no seal to check, so neither has a check mark.
    for file, kind in ((PUBLISHED, "envelope"), (CORPUS / "deepsigma" / "drift" / "time_drift.json", "drift")):
        code, found = told("show", str(file))
        assert (code, found["kind"]) == (0, kind)
        assert CliRunner().invoke(main, ["decisions", "show", str(file)]).stdout.startswith("· " + kind)
    assert told("show", str(CORPUS / "README.md"))[0] == 2
    assert told("show", "/nowhere/at/all")[0] == 2
