"""Which action is cleared for a call ahead of its attempt: one that nothing but a freeze, or a limit, could stop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from readback.client.authoring.action import ActionDefinition
from readback.domain.contract.limits import Limits, TenantLimits
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import State
from readback.engine import coordinator
from readback.engine.compiled_contract import Request
from readback.engine.engine import Engine
from readback.ports.storage.store import Freeze
from readback.testing.store_samples import sample_creation
from tests.lifecycle.approving import ASKED, BOTH
from tests.lifecycle.house import TENANT, House

pytestmark = pytest.mark.requirement("GATEWAY-ungoverned")

BLIND: dict[str, Any] = {"unverifiable": "nobody shows it", "identity": None, "within": None, "polls": None}


def told(house: House, made: ActionDefinition[Any], operation: str = "", **more: Any) -> Outcome:
    request: Request = house.propose(made).request(operation)
    work = coordinator.begin(
        house.engine, replace(request, ahead=True, **more), house.scope, house.plans.get, coordinator.ActionHandle()
    )
    ended = house.driver.drive(work)
    assert isinstance(ended, Outcome)
    return ended


def test_it_is_cleared_when_the_ledger_was_asked_and_before_its_attempt_is_made_durable(house: House) -> None:
    ended = told(house, house.action(readers=(), **BLIND))
    assert house.driver.done[:4] == ["GetClock", "LoadPreconditions", "AllowEarlyDispatch", "Commit"]
    assert (ended.state, ended.attempts) == (State.UNKNOWN, 1)


@pytest.mark.parametrize(
    "options",
    [
        {"require": {"it is open": "requested.status != 'x'"}},
        {"key_fields": ["item"]},
        ASKED,
    ],
    ids=["a precondition", "a key of its own", "a person to ask"],
)
def test_it_is_not_cleared_where_its_contract_asks_for_more(house: House, options: dict[str, Any]) -> None:
    house.engine = replace(house.engine, approvals=BOTH)
    told(house, house.action(readers=(), **BLIND, **options))
    assert "AllowEarlyDispatch" not in house.driver.done


def test_it_is_not_cleared_where_it_can_be_read(house: House) -> None:
    assert told(house, house.action()).verified
    assert "AllowEarlyDispatch" not in house.driver.done


def test_it_is_not_cleared_under_a_name_by_which_it_may_have_been_run_before(house: House) -> None:
    told(house, house.action(readers=(), **BLIND), "op-1")
    assert "AllowEarlyDispatch" not in house.driver.done


def test_it_is_not_cleared_under_an_id_that_was_announced(house: House) -> None:
    told(house, house.action(readers=(), **BLIND), action_id="act_1")
    assert "AllowEarlyDispatch" not in house.driver.done


def test_it_is_not_cleared_where_it_was_planned_upon_a_claim(house: House) -> None:
    ended = told(house, house.action(readers=(), **BLIND), upon=("claim_of_nothing",))
    assert "AllowEarlyDispatch" not in house.driver.done
    assert (ended.state, house.shop.calls) == (State.FAILED, [])


def test_it_is_not_cleared_under_limits(house: House) -> None:
    house.engine = Engine(limits=Limits(TenantLimits(in_flight=5)))
    told(house, house.action(readers=(), **BLIND))
    assert "AllowEarlyDispatch" not in house.driver.done


def test_it_is_not_cleared_where_it_is_frozen(house: House) -> None:
    stopped = replace(sample_creation("a1"), tenant=TENANT)
    house.store.append([replace(stopped, freezes=(Freeze(TENANT, f"tenant:{TENANT}", "a1", "stop", 1),))])
    ended = told(house, house.action(readers=(), **BLIND))
    assert "AllowEarlyDispatch" not in house.driver.done
    assert (ended.state, house.shop.calls) == (State.FAILED, [])


def test_nobody_is_cleared_who_did_not_ask(house: House) -> None:
    house.run(house.action(readers=(), **BLIND), "")
    assert "AllowEarlyDispatch" not in house.driver.done
