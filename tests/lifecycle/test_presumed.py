"""An attempt whose maker is taken for dead: proved, its call is over; presumed, it may still go on."""

from __future__ import annotations

from contextlib import suppress

import pytest

from readback.audit.checks.ledger import audit
from readback.domain.events import EventKind
from readback.engine.engine import Engine
from readback.engine.stages.execute import DISPATCH_GRACE_US
from readback.testing.driver_virtual import ProcessDied
from tests.lifecycle.house import House

TIMEOUT_US = 60_000_000


def abandoned(engine: Engine) -> House:
    """A house whose process died when its attempt was durable, and before the tool did anything."""
    for step in range(40):
        house = House(engine=engine)
        made = house.action(execute={"timeout": "60s"}, late_window="30s")
        house.driver.vanish_at = step
        with suppress(ProcessDied):
            house.run(made)
        if [*house.store.projections()] and house.events(house.only())[-1].kind is EventKind.ATTEMPTED:
            assert not house.shop.calls
            house.die()
            return house
    raise AssertionError("no attempt was made durable")


@pytest.mark.requirement("FLEET-presumed", "TRUTH-late-dead")
@pytest.mark.parametrize("assume_owner_may_be_alive", [False, True])
def test_what_may_still_land_is_looked_for_from_the_end_of_the_attempts_own_time(
    assume_owner_may_be_alive: bool,
) -> None:
    house = abandoned(Engine(assume_owner_may_be_alive=assume_owner_may_be_alive))
    action_id = house.only()
    executed_us = house.folded(action_id).executed_us
    house.store.release("virtual/1")
    house.work(1.0)
    found = house.folded(action_id)
    resumed = next(each for each in house.events(action_id) if each.kind is EventKind.RESUMED)
    over_us = executed_us + DISPATCH_GRACE_US + TIMEOUT_US
    assert found.ended_us == (over_us if assume_owner_may_be_alive else resumed.at_us)
    house.work(TIMEOUT_US / 1e6)
    assert house.folded(action_id).judgement.dead is not assume_owner_may_be_alive
    house.work(40 * 86_400.0)
    assert house.folded(action_id).judgement.dead
    assert audit(house.store).ok
