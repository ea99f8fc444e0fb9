"""`readback review`, `freezes` and `incidents`: what an operator sees, decides and lifts at the shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CONTRACTS, Desk

WHO = ("--who", "human:eve")


@pytest.fixture
def twice(desk: Desk) -> Any:
    """A charge that was made twice: it is held, frozen and an incident."""
    return desk.run("charge", "--operation", "c-1", ref="c-1", amount="5", how="twice", code=4).json


def resolve(desk: Desk, action_id: str, decision: str, *more: str, code: int = 0) -> Any:
    version = desk("review", "show", action_id, "--json", code=0).json["version"]
    given = ("--decision", decision, "--expect-version", str(version), "--reason", "Because.", *WHO)
    return desk("review", "resolve", action_id, *given, *more, code=code)


def test_the_queue_lists_what_waits_and_nothing_that_is_settled(desk: Desk, twice: Any) -> None:
    desk.ship("fine", code=0)
    [row] = desk("review", "list", "--json", code=0).json
    assert (row["id"], row["review"], row["state"]) == (twice["id"], "duplicate_side_effect", "review_required")
    assert row["incident"] == f"action:{twice['id']}:duplicate_side_effect"
    told = desk("review", "list", code=0)
    assert twice["id"] in told.out
    assert "Next: readback review show ID" in told.err


def test_an_empty_queue_says_so(desk: Desk) -> None:
    desk.ship("fine", code=0)
    for command in ("review", "freezes", "incidents"):
        assert desk(command, "list", "--json", code=0).json == []
        assert "tenant default" in desk(command, "list", code=0).err


def test_one_is_shown_with_what_may_be_decided_and_the_next_command(desk: Desk, twice: Any) -> None:
    told = desk("review", "show", twice["id"], code=0)
    for word in (
        "duplicate side effect",
        "States side by side",
        "What may be decided",
        "attest_done",
        "Not possible: A reading shows an effect of the action.",
        "resource:charge/c-1",
        f"readback review resolve {twice['id']} --decision attest_done --expect-version",
    ):
        assert word in told.out, word
    packet = desk("review", "show", twice["stamp"], "--json", code=0).json
    assert packet["id"] == twice["id"]
    assert {one["decision"]: one["open"] for one in packet["choices"]} == {
        "attest_done": True,
        "attest_not_done": False,
        "verify_again": True,
        "compensate": True,
        "go_forward": False,
        "abandon": True,
        "reopen": False,
    }


def test_a_decision_is_recorded_and_shown_and_closes_the_incident(desk: Desk, twice: Any) -> None:
    told = resolve(desk, twice["id"], "attest_done")
    assert "Recorded: attest done, by human:eve." in told.out
    assert "attested that it was done" in told.out
    assert desk("review", "list", "--json", code=0).json == []
    assert desk("incidents", "list", "--json", code=0).json == []
    [closed] = desk("incidents", "list", "--all", "--json", code=0).json
    assert (closed["open"], closed["severity"]) == (False, "high")
    assert desk("show", twice["id"], "--json", code=0).json["outcome"]["resolution"] == "attested_done"
    assert desk("ledger", "verify", code=0)


def test_a_decision_that_acts_is_done_where_the_contract_is_and_else_left_to_whoever_has_it(
    desk: Desk, twice: Any
) -> None:
    told = resolve(desk, twice["id"], "compensate")
    assert "Next: readback resume --contracts MODULE" in told.err
    desk("resume", "--contracts", CONTRACTS, "--json")
    assert desk("show", twice["id"], "--json", code=0).json["outcome"]["state"] == "compensated"


def test_a_decision_that_acts_is_done_at_once(desk: Desk, twice: Any) -> None:
    answer = resolve(desk, twice["id"], "compensate", "--contracts", CONTRACTS, "--json")
    assert answer.json["outcome"]["state"] == "compensated"
    assert json.loads(Path(desk.folder / "shop.json.charges").read_text()) == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--expect-version", "1", "--decision", "abandon"), "version"),
        (("--expect-version", "99", "--decision", "abandon"), "version"),
        (("--expect-version", "8", "--decision", "attest_not_done"), "not possible"),
        (("--expect-version", "8", "--decision", "shrug"), "shrug"),
        (("--expect-version", "0", "--decision", "abandon"), "0"),
        (("--decision", "abandon"), "--expect-version"),
        (("--expect-version", "8", "--decision", "abandon", "--who", "agent:local"), "another person"),
        (("--expect-version", "8", "--decision", "abandon", "--reason", " "), "reason"),
        (("--expect-version", "8", "--decision", "abandon", "--reason", "x" * 5000), "reason"),
        (("--expect-version", "8", "--decision", "abandon", "--who", "eve\x1b[31m"), "who"),
    ],
)
def test_a_decision_that_cannot_be_taken_changes_nothing(desk: Desk, twice: Any, more: Any, said: str) -> None:
    before = desk("review", "show", twice["id"], "--json", code=0).json
    if "8" in more:
        more = tuple(str(before["version"]) if each == "8" else each for each in more)
    answer = desk("review", "resolve", twice["id"], "--reason", "Because.", *WHO, *more, code=2)
    assert said in answer.err
    assert desk("review", "show", twice["id"], "--json", code=0).json == before


def test_a_review_is_resolved_once(desk: Desk, twice: Any) -> None:
    version = str(desk("review", "show", twice["id"], "--json", code=0).json["version"])
    given = ("--decision", "abandon", "--expect-version", version, "--reason", "Because.", *WHO)
    desk("review", "resolve", twice["id"], *given, code=0)
    again = desk("review", "resolve", twice["id"], *given, "--json", code=2).json
    assert again["error"]["code"] == "review.resolved"


def test_what_is_frozen_is_listed_refused_and_lifted(desk: Desk, twice: Any) -> None:
    [row] = desk("freezes", "list", "--json", code=0).json
    assert (row["subject"], row["action"], row["reason"]) == (
        "resource:charge/c-1",
        twice["id"],
        "duplicate_side_effect",
    )
    assert "resource:charge/c-1" in desk("freezes", "list", code=0).out
    refused = desk.run("charge", "--operation", "c-2", ref="c-1", amount="5", code=1).json
    assert (refused["code"], refused["may_repeat"]) == ("frozen", True)
    assert "frozen" in desk("explain", refused["id"], code=0).out
    lifted = desk("freezes", "lift", "resource:charge/c-1", "--reason", "Refunded.", *WHO, code=0)
    assert lifted.out == f"Lifted: resource:charge/c-1, frozen by {twice['id']}.\n"
    assert desk("freezes", "list", "--json", code=0).json == []
    desk("freezes", "lift", "resource:charge/c-1", "--reason", "Again.", *WHO, code=2)
    assert desk("ledger", "verify", code=0)


def test_whoever_froze_it_does_not_lift_it(desk: Desk, twice: Any) -> None:
    answer = desk("freezes", "lift", "resource:charge/c-1", "--reason", "x", "--who", "agent:local", "--json", code=2)
    assert answer.json["error"]["code"] == "review.self"


def test_an_incident_is_listed_and_shown_with_its_next_command(desk: Desk, twice: Any) -> None:
    [row] = desk("incidents", "list", "--json", code=0).json
    lines = Path(f"{desk.ledger}.operator.jsonl").read_text().splitlines()
    assert [json.loads(line)["data"]["incident"] for line in lines] == [row["id"]], "nobody else is told of incidents"
    assert row["id"] in desk("incidents", "list", code=0).out
    shown = desk("incidents", "show", row["id"], code=0)
    assert row["cause"] in shown.out
    assert f"Next: readback review show {twice['id']}" in shown.err
    desk("incidents", "show", "inc-none-1", code=2)


def test_an_incident_goes_to_the_command_that_the_settings_name(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "config" / "readback"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    pager = f'[subscribers.pager]\ncommand = ["tee", "{tmp_path / "told.json"}"]\nevents = ["incident.opened"]\n'
    (folder / "config.toml").write_text(pager, encoding="utf-8")
    told = desk.run("charge", "--operation", "c-1", ref="c-1", amount="5", how="twice", code=4).json
    assert json.loads((tmp_path / "told.json").read_text())["subject"] == told["id"]
    assert not Path(f"{desk.ledger}.operator.jsonl").exists()


def test_a_dead_sink_fails_no_action_and_is_told_when_it_is_back(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "config" / "readback"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    told, script = tmp_path / "told.json", tmp_path / "tell"
    pager = f'[subscribers.pager]\ncommand = ["{script}"]\nevents = ["incident.opened"]\n'
    (folder / "config.toml").write_text(pager, encoding="utf-8")
    desk.run("charge", "--operation", "c-1", ref="c-1", amount="5", how="twice", code=4)
    [operator] = Path(f"{desk.ledger}.operator.jsonl").read_text().splitlines()
    assert json.loads(operator)["undeliveredto"] == "pager", "an incident waits for nobody"
    script.write_text(f"#!/bin/sh\ncat > {told}\n", encoding="utf-8")
    script.chmod(0o700)
    desk.runtime.advance(60)
    desk("resume", "--contracts", CONTRACTS, "--json")
    assert json.loads(told.read_text())["data"]["severity"] == "high"


def test_another_tenants_queue_freezes_and_incidents_are_not_seen(desk: Desk, twice: Any) -> None:
    for command in ("review", "freezes", "incidents"):
        assert desk(command, "list", "--tenant", "globex", "--json", code=0).json == []
    desk("review", "show", twice["id"], "--tenant", "globex", code=2)
    desk("freezes", "lift", "resource:charge/c-1", "--reason", "x", *WHO, "--tenant", "globex", code=2)
