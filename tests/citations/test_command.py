"""`readback trace verify`: words for people, one JSON value for machines, and exit codes that a script can trust."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from readback.cli.cli import main
from readback.traces import read_policy
from readback.traces.format.codes import CHECKS, CODES
from tests.architecture.tree import ROOT
from tests.citations.deviations import of
from tests.citations.forging import canonical, honest, marked_run


def asked(run: Path, *more: str, artifacts: bool = True) -> Result:
    given = ["--trace", str(run / "trace.jsonl"), "--plan", str(run / "plan.json")]
    folder = ["--artifacts", str(run)] if artifacts else []
    return CliRunner().invoke(main, ["trace", "verify", *given, *folder, *more])


@pytest.mark.requirement("L01", "VC-report")
def test_a_valid_run_ends_with_zero_and_lists_every_check(tmp_path: Path) -> None:
    run = honest().write(tmp_path)
    spoken, told = asked(run), asked(run, "--json")
    assert (spoken.exit_code, told.exit_code) == (0, 0)
    assert "passed: 23 of 23 checks" in spoken.stdout
    assert all(check in spoken.stdout for check in CHECKS)
    answer = json.loads(told.stdout)
    assert answer["verdict"] == "pass"
    assert answer["failures"] == []
    assert [check["name"] for check in answer["checks"]] == list(CHECKS)
    assert answer["summary_metrics"] == {
        "failures": 0, "failures_listed": 0, "checks_failed": 0, "checks_total": 23, "events": 15, "tool_calls": 1,
        "evidence": 2, "claims": 1, "derived_claims": 1, "files_bound": 10,
    }  # fmt: skip


@pytest.mark.requirement("L01", "VC-report", "VC-fail-closed")
def test_a_failed_run_ends_with_one_and_names_code_and_place(tmp_path: Path) -> None:
    forge = honest()
    of(forge, "tool_returned")["result"]["success"] = False
    run = forge.write(tmp_path)
    spoken, told = asked(run), asked(run, "--json")
    assert (spoken.exit_code, told.exit_code) == (1, 1)
    assert "evidence.failed-call  trace.jsonl:7#/event/evidence" in spoken.stdout
    assert "do not rely" in spoken.stderr
    answer = json.loads(told.stdout)
    assert answer["verdict"] == "fail"
    failure = answer["failures"][0]
    assert failure["severity"] == "error"
    assert set(failure) == {"severity", "code", "checks", "invariant_id", "message", "path"}
    assert {each["code"] for each in answer["failures"]} == {"evidence.failed-call"}
    assert {each["invariant_id"] for each in answer["failures"]} == {"INV-EVD-001"}


@pytest.mark.requirement("L02")
def test_without_the_runs_folder_it_fails(tmp_path: Path) -> None:
    run = honest().write(tmp_path)
    told = asked(run, artifacts=False)
    assert told.exit_code == 1
    assert "not run" in told.stdout


@pytest.mark.parametrize("missing", ["trace.jsonl", "plan.json"])
def test_a_file_that_is_not_there_is_bad_input(missing: str, tmp_path: Path) -> None:
    run = honest().write(tmp_path)
    (run / missing).unlink()
    told = asked(run, "--json")
    assert told.exit_code == 2
    assert json.loads(told.stdout)["error"]["code"] == "trace.input.missing"


def test_a_folder_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    run = honest().write(tmp_path)
    told = asked(run, "--artifacts", str(tmp_path / "nowhere"))
    assert told.exit_code == 2
    assert "Next:" in told.stderr


def test_a_trace_that_is_no_json_is_bad_input_and_its_line_is_named(tmp_path: Path) -> None:
    run = honest().write(tmp_path)
    (run / "trace.jsonl").write_bytes((run / "trace.jsonl").read_bytes()[:-20])
    told = asked(run, "--json")
    assert told.exit_code == 2
    assert "trace.jsonl:" in json.loads(told.stdout)["error"]["message"]


@pytest.mark.requirement("VC-insufficient-evidence", "L23")
def test_the_callers_policy_decides_what_a_mark_is(tmp_path: Path) -> None:
    run = marked_run(structured={"insufficient": True}).write(tmp_path / "run")
    policy = tmp_path / "policy.json"
    marks: Any = {"structured": [{"key": "insufficient", "equals": True}]}
    policy.write_bytes(canonical({"version": 1, "insufficient": marks}))
    assert asked(run).exit_code == 1
    assert asked(run, "--policy", str(policy)).exit_code == 0


@pytest.mark.requirement("L23")
def test_a_policy_out_of_the_runs_own_folder_is_refused(tmp_path: Path) -> None:
    run = honest().write(tmp_path / "run")
    (tmp_path / "way").symlink_to(run)
    (run / "policy.json").write_bytes(canonical({"version": 1}))
    for way in (run, tmp_path / "way"):
        told = asked(run, "--policy", str(way / "policy.json"), "--json")
        assert told.exit_code == 5
        assert json.loads(told.stdout)["error"]["code"] == "trace.policy"


@pytest.mark.parametrize("name", ["nowhere.json", "link.json", "folder"])
def test_a_policy_that_is_not_to_be_had_cannot_be_used(name: str, tmp_path: Path) -> None:
    run = honest().write(tmp_path / "run")
    (tmp_path / "folder").mkdir()
    (tmp_path / "policy.json").write_text('{"version": 1}')
    (tmp_path / "link.json").symlink_to(tmp_path / "policy.json")
    told = asked(run, "--policy", str(tmp_path / name), "--json")
    assert told.exit_code == 5
    error = json.loads(told.stdout)["error"]
    assert (error["code"], error["remedy"].partition(";")[0]) == (
        "trace.policy",
        "Name a regular file of your own that can be read",
    )


def test_another_runs_trace_is_not_taken_for_this_ones(tmp_path: Path) -> None:
    one = honest().write(tmp_path / "one")
    other = honest(constraints={"min_supports_per_claim": 1}).write(tmp_path / "other")
    given = ["--trace", str(one / "trace.jsonl"), "--plan", str(other / "plan.json"), "--artifacts", str(one)]
    told = CliRunner().invoke(main, ["trace", "verify", *given, "--json"])
    assert told.exit_code == 1
    assert {"bind.differs", "manifest.hash"} <= {each["code"] for each in json.loads(told.stdout)["failures"]}


def test_nothing_in_a_trace_moves_the_cursor(tmp_path: Path) -> None:
    forge = honest()
    of(forge, "tool_called")["call"]["tool_name"] = "x\x1b[2J\n\u202e"
    told = asked(forge.write(tmp_path))
    assert told.exit_code == 1
    assert "\x1b" not in told.stdout
    assert "\u202e" not in told.stdout


def test_the_page_shows_a_policy_that_is_one_and_codes_that_there_are() -> None:
    page = (ROOT / "docs" / "traces.md").read_text(encoding="utf-8")
    shown = re.search(r"```json\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    policy = read_policy(shown[1].encode(), "docs/traces.md")
    assert (policy.min_supports_per_claim, len(policy.insufficient_marks)) == (2, 1)
    assert set(re.findall(r"✗ ([a-z.-]+)", page)) <= set(CODES)
    assert all(f"`{check}`" in page for check in CHECKS)
