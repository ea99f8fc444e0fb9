"""`readback events`: positions, dead letters, sending again, and what there is to tell, from the shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readback import bootstrap
from tests.cli.conftest import CONTRACTS, Desk

Say = Any


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Say:
    """Writes the user's settings."""
    folder = tmp_path / "config" / "readback"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return lambda text: (folder / "config.toml").write_text(text, encoding="utf-8")


@pytest.fixture
def bus(tmp_path: Path, say: Say) -> Path:
    """A subscriber that takes everything into a file, and gives up at once where it cannot."""
    path = tmp_path / "bus" / "told.jsonl"
    path.parent.mkdir()
    say(f'[subscribers.bus]\nfile = "{path}"\nattempts = 1\ngive_up_s = 0\n')
    return path


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.requirement("CLAIM-events")
def test_what_a_command_does_is_told_before_it_ends(desk: Desk, bus: Path) -> None:
    told = desk.ship("one", code=0)
    [event] = lines(bus)
    assert (event["type"], event["subject"]) == ("readback.action.reconciled", told["id"])
    [row] = desk("events", "list", "--json", code=0).json
    assert (row["name"], row["where"], row["waiting"], row["dead"]) == ("bus", str(bus), 0, 0)
    assert "bus" in desk("events", "list", code=0).out


@pytest.mark.requirement("PRIVACY-secrets")
def test_a_webhook_is_named_by_its_host_and_a_command_by_its_program(
    desk: Desk, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path of a webhook is a key to many services, and a command may be given one."""
    desk.ship("one", code=0)
    monkeypatch.setenv("HOOK_SECRET", "k" * 32)
    say(
        '[subscribers.app]\nwebhook = "https://hooks.example:8443/T0/canary"\nsecret = "env:HOOK_SECRET"\n'
        '[subscribers.asked]\nwebhook = "https://hooks.example?token=canary"\nsecret = "env:HOOK_SECRET"\n'
        '[subscribers.pager]\ncommand = ["/bin/true", "--key", "canary"]\n'
    )
    told = desk("events", "list", "--json", code=0)
    where = {row["name"]: row["where"] for row in told.json}
    assert (where["app"], where["asked"]) == ("https://hooks.example:8443", "https://hooks.example")
    assert where["pager"] == "/bin/true"
    assert "canary" not in told.out + desk("events", "list", code=0).out


def test_where_nobody_is_told_the_list_says_so(desk: Desk) -> None:
    desk.ship("one", code=0)
    assert desk("events", "list", "--json", code=0).json == []
    assert "There is no subscriber" in desk("events", "list", code=0).err
    assert desk("events", "dead", "--json", code=0).json == []
    assert "no dead letter" in desk("events", "dead", code=0).err


@pytest.mark.requirement("CLAIM-fallback")
def test_what_died_is_listed_and_sent_again(desk: Desk, bus: Path) -> None:
    desk.ship("before", code=0)
    bus.parent.rename(bus.parent.with_name("away"))
    desk.ship("one", order_id="o-99", how="lie", code=3)
    desk.ship("two", code=0)
    dead = desk("events", "dead", "--json", code=0).json
    names = [row["event"] for row in dead]
    assert names[0] == "verification.failed"
    assert names[-1] == "action.reconciled"
    assert {row["subscriber"] for row in dead} == {"bus"}
    fallen = lines(Path(f"{desk.ledger}.operator.jsonl"))
    assert [event["id"] for event in fallen] == [row["id"] for row in dead], "the operator was told each of them"
    assert {event["undeliveredto"] for event in fallen} == {"bus"}
    assert dead[0]["id"] in desk("events", "dead", code=0).out

    refused = desk("events", "resend", dead[0]["id"], "--json", code=3).json
    assert refused == {"taken": [], "left": [dead[0]["id"]]}
    assert desk("events", "dead", "--json", code=0).json[0]["tried"] == 2
    bus.parent.with_name("away").rename(bus.parent)
    assert desk("events", "resend", dead[0]["id"], code=0).out == "Delivered: 1. Refused: 0.\n"
    answer = desk("events", "resend", "--all", "--subscriber", "bus", "--json", code=0).json
    assert answer == {"taken": [row["id"] for row in dead[1:]], "left": []}
    assert [event["id"] for event in lines(bus)][1:] == [row["id"] for row in dead]
    assert desk("events", "dead", "--json", code=0).json == []
    desk("ledger", "verify", code=0)


def test_another_tenants_letters_and_messages_are_not_seen(desk: Desk, bus: Path) -> None:
    bus.parent.rename(bus.parent.with_name("away"))
    desk.ship("one", code=0)
    [dead] = desk("events", "dead", "--json", code=0).json
    assert desk("events", "dead", "--tenant", "globex", "--json", code=0).json == []
    desk("events", "resend", dead["id"], "--tenant", "globex", code=2)
    assert desk("events", "tail", "--tenant", "globex", "--json", code=0).out == ""


def test_a_programs_subscriber_is_its_tenants_and_told_by_the_program(desk: Desk) -> None:
    desk.ship("one", code=0)
    store = bootstrap.store(f"sqlite:///{desk.ledger}")
    store.enrol("default/app", 0)
    store.enrol("globex/app", 0)
    store.close()
    [row] = desk("events", "list", "--json", code=0).json
    assert (row["name"], row["where"]) == ("default/app", "a program")


@pytest.mark.parametrize(
    "given",
    [
        ("resend",),
        ("resend", "x", "--all"),
        ("resend", "no-such-id"),
        ("begin", "bus"),
        ("begin", "bus", "--now", "--from-start"),
        ("begin", "nobody", "--now"),
        ("begin", "bus", "--after", "9999"),
        ("tail", "--event", "no.such"),
        ("tail", "--after", "1", "--from-start"),
    ],
)
def test_what_makes_no_sense_is_refused(desk: Desk, bus: Path, given: tuple[str, ...]) -> None:
    desk.ship("one", code=0)
    desk("events", *given, code=2)


def test_a_ledger_that_is_not_there_is_not_made(desk: Desk, bus: Path) -> None:
    for given in (("list",), ("dead",), ("resend", "--all"), ("begin", "bus", "--now"), ("tail",)):
        desk("events", *given, code=6)
    assert not desk.ledger.exists()


def test_a_subscriber_can_be_told_everything_again(desk: Desk, bus: Path) -> None:
    desk.ship("one", code=0)
    desk.ship("two", code=0)
    first = lines(bus)
    assert desk("events", "begin", "bus", "--from-start", "--json", code=0).json == {"name": "bus", "after_seq": 0}
    desk("resume", "--contracts", CONTRACTS, "--json")
    assert lines(bus) == first + first, "with the ids that it had"
    assert "after entry" in desk("events", "begin", "bus", "--now", code=0).out
    desk("resume", "--contracts", CONTRACTS, "--json")
    assert len(lines(bus)) == 4


def test_a_subscriber_that_is_new_begins_now_or_where_it_asks_to(desk: Desk, tmp_path: Path, say: Say) -> None:
    desk.ship("one", code=0)
    late, early = tmp_path / "late.jsonl", tmp_path / "early.jsonl"
    say(f'[subscribers.late]\nfile = "{late}"\n[subscribers.early]\nfile = "{early}"\nfrom_start = true\n')
    [row, other] = desk("events", "list", "--json", code=0).json
    assert (row["name"], row["after_seq"], other["after_seq"]) == ("early", None, None)
    desk("resume", "--contracts", CONTRACTS, "--json")
    assert [len(lines(path)) for path in (late, early)] == [0, 1]
    desk.ship("two", code=0)
    assert [len(lines(path)) for path in (late, early)] == [1, 2]


def test_what_there_is_to_tell_is_shown(desk: Desk) -> None:
    desk.ship("one", code=0)
    desk.ship("two", order_id="o-99", how="lie", code=3)
    answer = desk("events", "tail", "--json", "--from-start", code=0).out.splitlines()
    events = [json.loads(line) for line in answer]
    assert [event["type"] for event in events][:2] == ["readback.action.reconciled", "readback.verification.failed"]
    last = desk("events", "tail", "--json", "--limit", "1", code=0).json
    assert last == events[-1]
    under = desk("events", "tail", "--json", "--underscore", "--event", "verification_failed", code=0).json
    assert under["type"] == "readback_verification_failed"
    after = desk("events", "tail", "--json", "--after", "6", code=0).out.splitlines()
    assert [json.loads(line) for line in after] == events[1:]
    assert "action.reconciled" in desk("events", "tail", code=0).out


def test_following_shows_what_comes_and_ends_when_interrupted(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.ship("one", code=0)
    turns: list[float] = []

    def sleep(seconds: float) -> None:
        turns.append(seconds)
        if len(turns) == 1:
            monkeypatch.undo()
            monkeypatch.chdir(desk.folder)
            monkeypatch.setenv("SHOP_FILE", str(desk.folder / "shop.json"))
            monkeypatch.setattr(bootstrap, "runtime", lambda: desk.runtime)
            desk.ship("two", code=0)
            monkeypatch.setattr(desk.runtime, "sleep", sleep)
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr(desk.runtime, "sleep", sleep)
    answer = desk("events", "tail", "--json", "--follow", code=0).out.splitlines()
    assert [json.loads(line)["type"] for line in answer] == ["readback.action.reconciled"] * 2


def test_a_command_that_only_looks_tells_nobody(desk: Desk, tmp_path: Path, say: Say) -> None:
    desk.ship("one", code=0)
    path = tmp_path / "told.jsonl"
    say(f'[subscribers.bus]\nfile = "{path}"\nfrom_start = true\n')
    for command in (("list",), ("events", "list"), ("events", "tail"), ("review", "list"), ("incidents", "list")):
        desk(*command, code=0)
    assert not path.exists()
