"""The expression engine is recorded with a contract and a verdict; where another one began, a person may decide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from readback.canon import Json
from readback.domain.events import Event, EventKind
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import State
from tests.lifecycle.house import House
from tests.lifecycle.rewriting import altered

HOUR_US = 3_600_000_000
EXACT: dict[str, str] = {
    "shipped": "authoritative.status == 'shipped'",
    "cheap": "authoritative.cost <= authoritative.limit",
}
PLAIN: dict[str, str] = {"shipped": "authoritative.status == 'shipped'"}


def unnamed(house: House, action_id: str, name: str | None = None) -> None:
    """As an entry stands in a ledger of the time before engines were named, or of another engine."""

    def older(event: Event) -> Event:
        data = {key: value for key, value in event.data.items() if key != "engine"}
        if name is not None and event.kind is EventKind.PROPOSED:
            data["engine"] = name
        return replace(event, data=data)

    altered(house.store, action_id, older)


def engines(house: House, action_id: str) -> list[tuple[EventKind, Json]]:
    return [(event.kind, event.data["engine"]) for event in house.events(action_id) if "engine" in event.data]


def resumed(
    ensure: dict[str, str], row: dict[str, Json], name: str | None = None, **more: Any
) -> tuple[House, Outcome]:
    """An action whose tool was called under another engine, and which a process of this one goes on with."""
    house = House()
    house.shop.tool = lambda ctx, args: {"status": "ok"}
    begun = house.run(house.action(ensure=ensure, **more), wait_s=0)
    assert begun.state is State.PENDING
    unnamed(house, begun.id, name)
    house.shop.rows["o-1"].update({"status": "shipped", **row})
    due_us = house.folded(begun.id).due_us
    assert due_us is not None
    house.driver._jump(due_us + HOUR_US)
    return house, house.wait(begun.id)


@pytest.mark.requirement("EXPR-recorded")
def test_the_engine_stands_beside_the_contracts_version_and_with_each_verdict() -> None:
    house = House()
    told = house.run(house.action())
    name = house.action().plan.predicates.name
    assert name == "readback-cel/1"
    assert engines(house, told.id) == [(EventKind.PROPOSED, name), (EventKind.JUDGED, name)]
    assert house.folded(told.id).engine == name


@pytest.mark.requirement("EXPR-recorded")
def test_an_old_entry_is_judged_as_ever_where_its_expressions_mean_the_same() -> None:
    house, told = resumed(PLAIN, {})
    assert told.state is State.RECONCILED_SUCCESS
    assert engines(house, told.id)[-1] == (EventKind.JUDGED, "readback-cel/1")


@pytest.mark.requirement("EXPR-recorded")
@pytest.mark.parametrize(
    ("ensure", "row", "name", "said"),
    [
        (EXACT, {"cost": 1, "limit": 2}, None, "the order of numbers"),
        (
            {**PLAIN, "sum": "authoritative.cost + authoritative.limit == 3"},
            {"cost": 1, "limit": 2},
            None,
            "arithmetic",
        ),
        ({**PLAIN, "note": "authoritative.note != 'x'"}, {"note": "x\0y"}, None, "a text with NUL"),
        (PLAIN, {}, "readback-cel/0", "not known here"),
    ],
)
def test_what_another_engine_could_have_judged_otherwise_goes_to_a_person(
    ensure: dict[str, str], row: dict[str, Json], name: str | None, said: str
) -> None:
    house, told = resumed(ensure, row, name)
    assert (told.state, told.verified) == (State.REVIEW_REQUIRED, False)
    judged = [event for event in house.events(told.id) if event.kind is EventKind.JUDGED][-1]
    assert judged.data["finding"] == "policy_version_mismatch"
    assert said in str(judged.data["detail"])
    assert len(house.shop.calls) == 1


def test_a_person_who_has_looked_is_not_asked_again() -> None:
    house, told = resumed(EXACT, {"cost": 1, "limit": 2})
    assert told.state is State.REVIEW_REQUIRED
    assert house.folded(told.id).engine == "readback-cel/1"
