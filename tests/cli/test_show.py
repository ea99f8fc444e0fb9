"""The picture of one action and its explanation: from the ledger alone, whole, and safe to look at."""

from __future__ import annotations

import json
import re

import pytest

from readback.cli.terminal import moment, safe, span, value
from readback.domain.state import State
from readback.domain.verdict import Why
from readback.views.explain import explained
from readback.views.state_help import CODES, MEANINGS, WHY_OPEN
from tests.cli.conftest import CONTRACTS, Desk

HOSTILE = "\x1b[2J\x1b[31mVERIFIED\x07\u202eexe\u2028[bold]x[/bold] :smile: \x9b1m"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")


def test_show_draws_every_part_of_an_action(desk: Desk) -> None:
    outcome = desk.ship("ship o-17", pin="1234", code=0)
    shown = desk("show", outcome["id"], "-v", code=0).out
    for part in (
        "VERIFIED",
        "verified (stored: reconciled_success)",
        "The action completed successfully.",
        "Postconditions",
        "authoritative.carrier == requested.carrier",
        "States side by side",
        "requested",
        "observed",
        "before",
        "authoritative",
        "Identity of what was read",
        "Readings",
        "orders-file",
        "other client",
        "strong",
        "Decision",
        "RB-verified",
        "Lifecycle",
        "attempt 1, at most 20.00 s",
        "tool: success",
        "trust level",
        "3 (reconciled)",
        outcome["stamp"],
        outcome["ledger_entry"],
        "(redacted)",
        "What the model may be told",
    ):
        assert part in shown, part
    assert "1234" not in shown


@pytest.mark.requirement("LEDGER-answers")
def test_from_the_ledger_alone_it_can_be_said_what_was_intended_changed_verified_and_recovered(desk: Desk) -> None:
    """No contract is loaded, and the system of record has gone."""
    outcome = desk.ship(
        "a", "--intended", '{"status": "shipped", "by": "noon"}', carrier="ups", how="wrong", pin="1234"
    )
    (desk.folder / "shop.json").unlink()
    told = desk.spawn("show", outcome["id"], "--json", code=0).json
    assert told["states"]["intended"] == {"status": "shipped", "by": "noon"}
    assert told["states"]["requested"]["carrier"] == "ups"
    assert told["states"]["requested"]["pin"] == {"$redacted": True}
    assert told["states"]["observed"]["status"] == "ok"
    assert told["states"]["before"]["carrier"] == ""
    assert told["states"]["authoritative"]["carrier"] == "slow"
    assert [(p["name"], p["truth"]) for p in told["postconditions"]] == [("shipped", "holds"), ("carrier", "violated")]
    assert dict(map(tuple, told["postconditions"][1]["values"])) == {
        "authoritative.carrier": "slow",
        "requested.carrier": "ups",
    }
    check = next(r for r in told["readings"] if r["role"] == "check")
    assert (check["source"], check["consistency"], check["independence"]) == ("orders-file", "strong", "other_client")
    assert told["discrepancy"]["code"] == "DISC-value-mismatch"
    assert told["decision"]["row"] == outcome["row"]
    assert told["decision"]["rationale"]
    assert told["decision"]["table_is_present_one"]
    assert told["status"]["reconciliation"] == "REVIEW_REQUIRED"
    assert told["key"]["status"] == "PENDING"
    assert told["contract"]["name"] == "ship"
    assert [event["version"] for event in told["events"]] == list(range(1, len(told["events"]) + 1))
    assert all(
        event["previous"] == before["leaf"] for before, event in zip(told["events"], told["events"][1:], strict=False)
    )
    assert told["times"]["executed_us"] <= told["times"]["verified_us"]
    assert told["outcome"]["message"] == outcome["message"]


def test_an_action_is_found_by_its_stamp(desk: Desk) -> None:
    outcome = desk.ship("a", code=0)
    assert desk("show", outcome["stamp"], "--json", code=0).json["outcome"]["id"] == outcome["id"]


@pytest.mark.parametrize("command", ["show", "explain", "list", "run"])
def test_no_value_from_outside_reaches_the_terminal_as_it_is(desk: Desk, command: str) -> None:
    given = ["--arg", "order_id=\u202eo-17", "--arg", f"carrier={HOSTILE}", "--operation", "[bold]op[/bold]"]
    ran = desk("run", "ship", "--contracts", CONTRACTS, *given)
    shown = ran
    if command != "run":
        listed = desk("list", "--json", code=0).json[0]
        shown = desk(*(("list",) if command == "list" else (command, listed["id"])), code=0)
    text = shown.out + shown.err
    assert CONTROL.sub("", text) == text
    assert "\\u202e" in text
    assert "\\u001b[2J" in text or command != "show"
    assert "[bold]op[/bold]" in text or command not in ("run", "show")


def test_json_is_ascii_and_whole(desk: Desk) -> None:
    given = ["--arg", "order_id=o-17", "--arg", f"carrier={HOSTILE}", "--operation", "a", "--arg", "how=lie", "--json"]
    outcome = desk("run", "ship", "--contracts", CONTRACTS, *given).json
    answer = desk("show", outcome["id"], "--json", code=0)
    assert answer.out.isascii()
    assert answer.json["states"]["requested"]["carrier"] == HOSTILE


def test_output_without_a_terminal_has_no_colours(desk: Desk) -> None:
    outcome = desk.ship("a", code=0)
    for command in (("list",), ("show", outcome["id"]), ("explain", outcome["id"]), ("doctor",), ("ledger", "verify")):
        assert "\x1b" not in desk.spawn(*command, code=0).out


def test_a_terminal_that_knows_only_ascii_gets_ascii_marks(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = desk.ship("a", code=0)
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    shown = desk.spawn("show", outcome["id"], code=0).out
    assert "+ VERIFIED" in shown


# --- explain -------------------------------------------------------------------------------------------------


def test_explain_says_why_and_what_may_be_done_now(desk: Desk) -> None:
    outcome = desk.ship("a", "--wait", "0", how="lie", code=3)
    told = desk("explain", outcome["id"], code=0).out
    assert "The tool answered success" in told
    assert "That is evidence, not truth." in told
    assert "Postcondition 'shipped' is violated" in told
    assert "Row REC-01 of the specification decided: retry verification." in told
    assert "Do not repeat the operation" in told
    assert "readback resume --contracts MODULE" in told
    as_data = desk("explain", outcome["id"], "--json", code=0).json
    assert as_data["exit_code"] == 3
    assert not as_data["may_repeat"]


def test_the_next_commands_name_the_ledger_and_the_tenant_that_were_asked(desk: Desk) -> None:
    url = f"sqlite:///{desk.folder}/other name.db"
    outcome = desk.ship("a", "--wait", "0", "--url", url, "--tenant", "acme & co", code=1)
    told = desk("explain", outcome["id"], "--url", url, "--tenant", "acme & co", "--json", code=0).json
    assert told["commands"][0] == f"readback show {outcome['id']} --url '{url}' --tenant 'acme & co'"


def test_what_was_never_called_is_explained_so(desk: Desk) -> None:
    outcome = desk.run("wipe", "--operation", "w", order_id="o-17", code=4).json
    told = desk("explain", outcome["id"], "--json", code=0).json
    assert "Nothing was called." in told["why"]
    assert CODES["approval.required"] in told["why"]


@pytest.mark.parametrize("state", list(State))
def test_every_state_is_explained_with_commands_that_exist(desk: Desk, state: State) -> None:
    from dataclasses import replace

    from readback.cli.cli import COMMANDS
    from readback.cli.sessions import reading, settings_of
    from readback.views.action import outcome_and_picture

    ran = desk.ship("a", code=0)
    settings = settings_of()
    with reading(settings) as session:
        outcome, picture = outcome_and_picture(session, ran["id"])
    verdict = outcome.verdict if state is State.RECONCILED_SUCCESS else type(outcome.verdict).UNDETERMINED
    told = explained(replace(outcome, state=state, verdict=verdict), picture, "", "")
    assert told["why"]
    assert told["now"]
    commands = told["commands"]
    assert isinstance(commands, list)
    for command in commands:
        assert isinstance(command, str)
        words = command.split()
        assert words[0] == "readback"
        assert words[1] in COMMANDS
        assert "{" not in command
    if state is not State.RECONCILED_SUCCESS:
        assert "completed successfully" not in json.dumps(told)


def test_every_state_and_every_open_verdict_has_its_words() -> None:
    assert set(MEANINGS) == set(State)
    assert set(WHY_OPEN) == set(Why)


# --- values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a\nb", "a\\x0ab"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\u202e", "\\u202e"),
        ("\U000e0001", "\\U000e0001"),
        ("é ✓ 漢", "é ✓ 漢"),
        ("x" * 500, "x" * 399 + "…"),
    ],
)
def test_text_is_made_safe_and_bounded(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_text_of_controls_alone_does_not_grow_over_its_bound() -> None:
    assert len(safe("\x00" * 10_000)) <= 800


def test_seven_and_the_text_seven_look_different() -> None:
    assert value(7) == "7"
    assert value("7") == '"7"'
    assert value(None) == "null"


@pytest.mark.parametrize(
    ("us", "shown"),
    [
        (0, "0 us"),
        (999, "999 us"),
        (1_500, "1.5 ms"),
        (2_500_000, "2.50 s"),
        (-5, "-5 us"),
        (3_725_000_000, "1 h 2 min 5 s"),
    ],
)
def test_spans_are_for_people(us: int, shown: str) -> None:
    assert span(us) == shown


@pytest.mark.parametrize(
    ("at_us", "shown"),
    [(0, "-"), (1_767_225_600_123_456, "2026-01-01 00:00:00.123Z"), (2**62, str(2**62))],
)
def test_times_are_utc(at_us: int, shown: str) -> None:
    assert moment(at_us) == shown
