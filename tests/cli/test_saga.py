"""Sagas at the shell: listed, shown as a tree, explained, and gone on with by whoever has the contracts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from readback import bootstrap
from readback.domain.action.claim import ClaimKind, ClaimStatus
from readback.domain.state import EXIT_UNDETERMINED, EXIT_VERIFIED
from readback.ports.storage.store import LedgerStore
from tests.cli.conftest import Desk
from tests.lifecycle.claiming import person
from tests.lifecycle.trip import TENANT, S, Trip


@pytest.fixture
def store(desk: Desk) -> Iterator[LedgerStore]:
    opened = bootstrap.store(f"sqlite:///{desk.ledger}")
    yield opened
    opened.close()


@pytest.fixture
def trip(desk: Desk, store: LedgerStore) -> Trip:
    return Trip(store=store, runtime=desk.runtime)


def test_a_saga_is_listed_beside_its_actions(desk: Desk, trip: Trip) -> None:
    told = trip.run()
    rows = desk("list", "--tenant", TENANT, "--json", code=0).json
    saga = next(row for row in rows if row["id"] == told.id)
    assert (saga["contract"], saga["state"], saga["operation"]) == ("saga:trip", "reconciled_success", "op-1")
    assert len(rows) == 6
    assert "saga:trip" in desk("list", "--tenant", TENANT, code=0).out


@pytest.mark.requirement("SAGA-shell", "SAGA-standing")
def test_a_saga_with_a_fallen_step_is_not_listed_as_verified(desk: Desk, trip: Trip) -> None:
    told = trip.run()
    assert "read back at 2026-01-01 00:00:00" in desk("show", told.id, "--tenant", TENANT, code=0).out
    flight = told.steps["flight"].outcome
    assert flight is not None
    person(trip, flight.id, ClaimStatus.RETRACTED, ClaimKind.HOLDS)
    row = next(row for row in desk("list", "--tenant", TENANT, "--json", code=0).json if row["id"] == told.id)
    assert row["exit_code"] == trip.get(told.id).exit_code == EXIT_UNDETERMINED
    person(trip, flight.id, ClaimStatus.REINSTATED, ClaimKind.HOLDS)
    row = next(row for row in desk("list", "--tenant", TENANT, "--json", code=0).json if row["id"] == told.id)
    assert row["exit_code"] == trip.get(told.id).exit_code == EXIT_VERIFIED


@pytest.mark.requirement("SAGA-shell")
def test_show_draws_every_step_with_its_action_and_its_reversal(desk: Desk, trip: Trip) -> None:
    trip.world.faults["charge"] = "refused"
    told = trip.run()
    trip.work()
    shown = desk("show", told.id, "--tenant", TENANT, code=0).out
    assert "COMPENSATED  saga:trip on op-1" in shown
    for line in (
        "flight: reversed, verified (flight)",
        "car: reversed, verified (car, after flight, hotel)",
        "charge: failed (charge, the pivot, after car)",
        "ticket: not begun (ticket, after charge)",
    ):
        assert line in shown
    picture = desk("show", told.id, "--tenant", TENANT, "--json", code=0).json
    assert picture["outcome"]["kind"] == "saga"
    assert [step["word"] for step in picture["steps"]] == ["reversed", "reversed", "reversed", "failed", "not_begun"]
    assert picture["steps"][0]["reversal"]["verified"] is True
    assert picture["key"]["status"] == "COMPENSATED"
    assert picture["decision"]["row"] == "REC-09"
    assert [event["kind"] for event in picture["events"]][-1] == "saga_ended"


def test_explain_says_which_way_it_went_and_why(desk: Desk, trip: Trip) -> None:
    assert trip.run(trip.steps("t-0"), "op-0").verified  # from here on, a search that finds nothing shows something
    trip.world.faults["ticket"] = "refused"
    told = trip.run()
    trip.work(200_000)
    said = desk("explain", told.id, "--tenant", TENANT, code=0).out
    assert "The saga is past its pivot" in said
    assert "has used all its attempts. The step is ticket." in said
    assert "begun 5 times under one key" in said
    assert "Tell a user only: The action partially completed" in said
    data = desk("explain", told.id, "--tenant", TENANT, "--json", code=0).json
    assert data["state"] == "review_required"
    assert any(told.id in line for line in data["commands"])


def test_resume_without_the_contracts_leaves_a_saga_as_it_is(desk: Desk, trip: Trip) -> None:
    trip.world.faults["car"] = "late"
    trip.driver.drive(trip.begin(), desk.runtime.now_us() + S)
    saga_id = trip.saga_ids()[0]
    version = trip.saga(saga_id).version
    desk.runtime.advance(3_600)
    answer = desk("resume", "--tenant", TENANT, "--contracts", "tests.cli.shop", "--json")
    assert saga_id in [each["action"] for each in answer.json["errors"]]
    assert trip.saga(saga_id).version == version
    trip.work()
    assert trip.get(saga_id).verified
    assert desk("ledger", "verify", code=0).code == 0


def test_every_command_that_reads_a_ledger_reads_one_with_sagas(desk: Desk, trip: Trip) -> None:
    trip.world.faults["ticket"] = "refused"
    told = trip.run()
    trip.work(200_000)
    for command in (
        ("doctor",),
        ("belief", "--run", "run-1", "--tenant", TENANT),
        ("review", "list", "--tenant", TENANT),
        ("review", "show", told.id, "--tenant", TENANT),
        ("incidents", "list", "--tenant", TENANT),
        ("freezes", "list", "--tenant", TENANT),
        ("worker", "--until-idle", "--all-tenants", "--contracts", "tests.cli.shop"),
    ):
        answer = desk(*command)
        assert "Traceback" not in answer.err + answer.out, command
        assert answer.code in (0, 1, 3, 4, 5), (command, answer)
    assert told.id in desk("review", "list", "--tenant", TENANT, code=0).out
