"""Leaving an action to the workers from the shell: its id at once, its outcome to who waits; nothing is called here."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from readback.bootstrap import store as open_store
from readback.drivers.driver_sync import SyncDriver
from readback.engine.resume import fold
from tests.cli import shop
from tests.cli.conftest import CONTRACTS, Answer, Desk
from tests.cli.test_processes import ends, newest, real, until

__all__ = ["real"]
HERE = ("--contracts", CONTRACTS)
SHIPPED = ("--arg", "order_id=o-17", "--arg", "carrier=dhl")
GIVEN = ("--arg", "order_id=o-17", "--arg", "note=hello")


def left(desk: Desk, *more: str, operation: str = "one", code: int | None = 0) -> Answer:
    return desk("submit", "annotate", "--operation", operation, *GIVEN, *more, code=code)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def office(desk: Desk, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A ledger of each kind."""
    if request.param == "postgres":
        monkeypatch.setenv("READBACK_URL", request.getfixturevalue("ledger_url"))
    return desk


def test_what_cannot_be_left_anywhere_is_told_in_the_error_alone(desk: Desk) -> None:
    for more in (("--url", "mysql://x"), ("--intended", "[")):
        answer = desk.spawn("submit", "ship", *HERE, *SHIPPED, *more)
        assert answer.code in (2, 5)
        assert "never run" not in answer.err
        assert answer.err.splitlines()[-1].startswith("Next: ")


@pytest.mark.requirement("SUBMIT-durable")
def test_the_id_is_answered_at_once_and_a_worker_that_knows_the_contract_carries_it_out(office: Desk) -> None:
    answer = left(office)
    name = answer.out.strip()
    assert f"readback show {name}" in answer.err
    told = office("show", name, "--json", code=0).json["outcome"]
    assert (told["state"], told["attempts"], told["verified"]) == ("proposed", 0, False)
    assert not shop.path().exists(), "nothing was called"
    assert office("worker", *HERE, "--until-idle", "--json", code=0).json["advanced"] == 1
    assert office("show", name, "--json", code=0).json["outcome"]["verified"]
    assert office("ledger", "verify", "--json", code=0).json["ok"]


@pytest.mark.requirement("SUBMIT-once")
def test_an_operation_is_one_action_and_another_payload_under_it_is_refused(desk: Desk) -> None:
    name = left(desk, "--json").json
    assert name == {"id": name["id"], "operation": "one", "submitted": True, "exit_code": 0}
    assert left(desk, "--json").json["id"] == name["id"]
    assert left(desk, "--arg", "how=lie", "--json", code=2).json["error"]["code"] == "input.payload-conflict"
    assert left(desk, *HERE, "--json").json["id"] == name["id"], "also where the contract is known"
    desk("worker", *HERE, "--until-idle", code=0)
    run = desk("run", "annotate", "--operation", "one", *GIVEN, *HERE, "--json", code=0)
    assert run.json["id"] == name["id"], "and where it is run"


@pytest.mark.requirement("SUBMIT-checked")
@pytest.mark.parametrize(
    ("words", "code", "names"),
    [
        (("annotate", *GIVEN), "input.proposal", "operation"),
        (("annotate", "--operation", "a", "--arg", "carrier"), "input.arguments", "name=value"),
        (("annotate", "--operation", "a", "--arg", "a=1", "--arg", "a=2"), "input.arguments", "twice"),
        (("annotate", "--operation", "a", "--arg-json", "parcels={"), "input.arguments", "JSON"),
        (("annotate", "--operation", "a", "--intended", "[]"), "input.arguments", "--intended"),
        (("annotate", "--operation", "a", "--wait", "-1"), "input.usage", "--wait"),
        (("annotate", "--operation", "a", "--wait", "nan"), "input.usage", "wait"),
        (("", "--operation", "a"), "input.proposal", "contract"),
        (("annotate", "--operation", "\n"), "input.proposal", "operation"),
        (("annotate", *HERE, "--arg", "order_id=o-17"), "input.arguments", "note"),
        (("ship", *HERE, *SHIPPED, "--arg", "parcels=many"), "input.arguments", "parcels"),
        (("ship", *HERE, *SHIPPED, "--arg", "pin=1234"), "input.submission", "ship"),
        (("shop", *HERE, *GIVEN), "input.not-found", "shop"),
        ((), "input.usage", "CONTRACT"),
    ],
)
def test_what_cannot_be_submitted_is_refused_with_its_code_and_nothing_is_recorded(
    desk: Desk, words: tuple[str, ...], code: str, names: str
) -> None:
    answer = desk("submit", *words, "--json", code=2)
    assert answer.json["error"]["code"] == code
    assert names in answer.err
    if desk.ledger.exists():
        assert desk("list", "--json", code=0).json == []


def test_arguments_are_text_where_the_contract_is_not_known_and_what_it_takes_where_it_is(desk: Desk) -> None:
    def requested(name: str) -> object:
        kept = open_store(f"sqlite:///{desk.ledger}", read_only=True)
        try:
            action = fold(kept.events(name))
            assert action is not None
            evidence = kept.evidence("default", name, action.request_ref)
            assert evidence is not None
            return json.loads(evidence.body)["requested"]["order_id"]
        finally:
            kept.close()

    for more, expected in ((("--arg", "order_id=2"), "2"), (("--arg-json", "order_id=2"), 2)):
        answer = desk("submit", "annotate", "--operation", str(more), *more, "--arg", "note=hello", code=0)
        assert requested(answer.out.strip()) == expected
    known = desk("submit", "annotate", *HERE, "--arg", "order_id=2", "--arg", "note=hello", code=0)
    assert requested(known.out.strip()) == "2"
    desk("submit", "annotate", *HERE, "--arg-json", "order_id=2", "--arg", "note=hello", code=2)


def test_who_waits_gets_the_outcome_and_its_exit_code_and_calls_nothing(desk: Desk) -> None:
    """Also where the contract is at hand: it is for the workers."""
    answer = left(desk, *HERE, "--wait", "30", "--json", code=3)
    assert (answer.json["state"], answer.json["attempts"]) == ("proposed", 0)
    assert not shop.path().exists()
    assert f"readback explain {answer.json['id']}" in answer.err
    desk("worker", *HERE, "--until-idle", code=0)
    answer = left(desk, "--wait", "0", "--json", code=0)
    assert answer.json["verified"]
    assert "VERIFIED" in left(desk, "--wait", "inf", code=0).out


@pytest.mark.requirement("SUBMIT-checked")
def test_what_its_contract_does_not_allow_ends_as_failed_where_a_worker_meets_it(desk: Desk) -> None:
    name = desk("submit", "annotate", "--operation", "one", "--arg", "order_id=o-17", code=0).out.strip()
    desk("worker", *HERE, "--until-idle", code=1)
    told = desk("show", name, "--json", code=0).json["outcome"]
    assert (told["state"], told["code"], told["attempts"]) == ("failed", "input.arguments", 0)


@pytest.mark.slow
@pytest.mark.requirement("SUBMIT-durable")
def test_a_worker_of_another_process_answers_who_waits(real: Desk) -> None:
    worker = real.process("worker", *HERE, "--poll", "0.05")
    answer = real.spawn("submit", "annotate", "--operation", "one", *GIVEN, "--wait", "60", "--json", code=0)
    assert answer.json["verified"]
    worker.send_signal(signal.SIGTERM)
    assert ends(worker)[0] == 0


@pytest.mark.requirement("SUBMIT-durable")
@pytest.mark.parametrize("known", [False, True])
def test_an_interruption_right_after_the_commit_names_the_action_that_is_on_record(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    drive, driven = SyncDriver.drive, list[object]()

    def interrupted(driver: SyncDriver, *given: Any) -> object:
        driven.append(drive(driver, *given))
        if len(driven) == 1:  # the commit is durable, and the command does not have the answer yet
            raise KeyboardInterrupt
        return driven[-1]

    monkeypatch.setattr(SyncDriver, "drive", interrupted)
    answer = left(desk, *(HERE if known else ()), code=3)
    assert f"{driven[0]} as proposed:" in answer.err


def test_who_is_interrupted_while_he_waits_leaves_it_to_the_workers(real: Desk) -> None:
    started = real.process("submit", "annotate", "--operation", "one", *GIVEN, "--wait", "inf", "--json")
    until(lambda: newest(real) == "proposed")
    started.send_signal(signal.SIGINT)
    code, out, err = ends(started)
    assert code == 3, err
    assert " as proposed:" in err
    assert '"proposed"' in out
    assert real.spawn("worker", *HERE, "--until-idle", "--json", code=0).json["advanced"] == 1
