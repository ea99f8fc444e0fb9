"""An action keeps the contract that it began with: a process that knows another version goes no further with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from readback.domain.outcome.outcome import Outcome
from readback.domain.state import State
from readback.errors import ContractChangedError
from tests.lifecycle.house import House

HOUR_US = 3_600_000_000
GOES_ON: dict[str, Callable[[House, str], Outcome]] = {
    "wait": lambda house, action_id: house.wait(action_id),
    "a second run": lambda house, _: house.run(house.action(version="2")),
    "cancel": lambda house, action_id: house.cancel(action_id),
}


def begun() -> tuple[House, str]:
    """An action of version 1 that is not settled, and a process that knows version 2 alone."""
    house = House()
    house.shop.tool = lambda ctx, args: {"status": "ok"}
    outcome = house.run(house.action(), wait_s=0)
    assert outcome.state is State.PENDING
    house.die()
    house.shop.rows["o-1"]["status"] = "shipped"
    house.action(version="2")
    due_us = house.folded(outcome.id).due_us
    assert due_us is not None
    house.driver._jump(due_us + HOUR_US)
    return house, outcome.id


@pytest.mark.requirement("LEDGER-tool-contract", "FLEET-versions")
@pytest.mark.parametrize("how", GOES_ON)
def test_another_version_reads_judges_and_calls_nothing(how: str) -> None:
    house, action_id = begun()
    calls, looks, version = len(house.shop.calls), len(house.shop.looks), house.folded(action_id).version
    with pytest.raises(ContractChangedError, match="version 1 then, 2 now"):
        GOES_ON[how](house, action_id)
    assert (len(house.shop.calls), len(house.shop.looks)) == (calls, looks)
    assert house.folded(action_id).version == version
    assert not house.get(action_id).standing


@pytest.mark.parametrize("how", ["wait", "a second run"])
def test_the_version_that_it_began_with_goes_on_where_it_is_kept(how: str) -> None:
    house, action_id = begun()
    old, new = house.action(), house.action(version="2")
    house.plans[old.plan.contract.hash] = old.plan
    told = house.wait(action_id) if how == "wait" else house.run(new)
    assert (told.state, len(house.shop.calls)) == (State.RECONCILED_SUCCESS, 1)


def test_an_approved_action_of_another_version_is_not_attempted_by_a_second_run() -> None:
    house = House()
    asked: dict[str, Any] = {"approval": {"people": 1, "expires": "1h"}}
    first = house.run(house.action(**asked))
    house.die()
    changed = house.action(**asked, version="2")
    house.scope = type(house.scope)(house.scope.tenant, house.scope.principal, break_glass="the house is on fire")
    with pytest.raises(ContractChangedError):
        house.run(changed)
    assert house.shop.calls == []
    assert not house.get(first.id).attempted
