"""`readback gates canary` and `readback worker --canary`, from the shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from readback.cli.cli import main

IN_FORCE, PROPOSED = "tests.canary.in_force", "tests.canary.proposed"


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEPOT", str(tmp_path))
    monkeypatch.setenv("READBACK_TENANT", "acme")
    return f"sqlite:///{tmp_path / 'ledger.db'}"


def run(*args: str) -> Any:
    return CliRunner().invoke(main, list(args))


def start(url: str, *more: str) -> Any:
    return run("gates", "canary", "start", "--candidate", PROPOSED, "--contracts", IN_FORCE, "--url", url, *more)


def work(url: str, *orders: str) -> None:
    for order in orders:
        said = run(
            "submit", "ship", "--arg", f"order={order}", "--operation", order, "--contracts", IN_FORCE, "--url", url
        )
        assert said.exit_code == 0, said.output
    said = run("worker", "--until-idle", "--contracts", IN_FORCE, "--canary", PROPOSED, "--url", url, "--poll", "0.02")
    assert said.exit_code == 0, said.output


@pytest.mark.requirement("CANARY-record", "CANARY-gate")
def test_a_worker_asks_the_started_candidate_and_the_status_counts(url: str) -> None:
    assert run("gates", "canary", "status", "--url", url).exit_code == 6, "there is no ledger"
    started = start(url, "--minimum", "2", "--json")
    assert started.exit_code == 0, started.output
    assert json.loads(started.stdout)["running"] is True
    work(url, "o-1", "o-2")
    said = run("gates", "canary", "status", "--url", url, "--json")
    told = json.loads(said.stdout)
    assert (said.exit_code, told["standing"], told["running"]) == (0, "passed", True)
    assert told["canaries"][0]["tally"]["matrix"] == {"verified>verified": 2}
    work(url, "bare-3")
    said = run("gates", "canary", "status", "--url", url)
    assert said.exit_code == 1
    assert "broken: The candidate gave another verdict 1 times" in said.stdout
    assert "stopped: mismatches" in said.stdout


@pytest.mark.requirement("CANARY-gate")
def test_the_gate_reads_the_canary_of_the_ledger_with_the_history(url: str) -> None:
    start(url, "--minimum", "1")
    work(url, "o-1")
    said = run(
        "gates", "check", "--only", "canary", "--contracts", PROPOSED, "--against", url, "--history", url, "--json"
    )
    (gate,) = json.loads(said.stdout)["gates"]
    assert [each["code"] for each in gate["findings"]] == ["canary.within-bounds"], said.output
    assert said.exit_code == 0


@pytest.mark.requirement("CANARY-refused")
def test_a_start_without_an_incumbent_is_refused_with_a_code(url: str) -> None:
    refused = run(
        "gates", "canary", "start", "--candidate", PROPOSED, "--contracts", "tests.drills.desk", "--url", url, "--json"
    )
    assert (refused.exit_code, json.loads(refused.stdout)["error"]["code"]) == (2, "canary.no-incumbent")
    twice = start(url), start(url, "--json")
    assert (twice[0].exit_code, json.loads(twice[1].stdout)["error"]["code"]) == (0, "canary.running")
    assert run("gates", "canary", "stop", "--url", url).exit_code == 0
    assert json.loads(run("gates", "canary", "stop", "--url", url, "--json").stdout)["error"]["code"] == "canary.none"
    assert json.loads(start(url, "--decide", "--json").stdout)["error"]["code"] == "canary.stage"


@pytest.mark.requirement("CANARY-second-stage")
def test_a_worker_with_the_candidate_finishes_what_the_candidate_began(url: str) -> None:
    start(url, "--minimum", "1")
    work(url, "o-1")
    run("gates", "canary", "stop", "--url", url)
    assert start(url, "--minimum", "1", "--decide").exit_code == 0
    work(url, "o-2")
    said = run("gates", "canary", "status", "--url", url, "--json")
    assert json.loads(said.stdout)["canaries"][0]["terms"]["stage"] == "decide"
