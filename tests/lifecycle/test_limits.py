"""A tenant's limits in the engine: what is new is refused before anything acts, what has begun is only slowed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from readback import bootstrap
from readback.domain.contract.limits import Limits, TenantLimits
from readback.domain.state import State
from readback.domain.verdict import Verdict
from readback.engine.compiled_contract import CallerContext
from readback.engine.engine import Engine
from readback.errors import EvidenceLimitError, InFlightLimitError, LimitError
from readback.testing.driver_virtual import ProcessDied, VirtualDriver
from tests.lifecycle.house import House, S

MINUTE = 60


def limited(house: House, **limits: int) -> House:
    house.engine = Engine(limits=Limits(TenantLimits(**limits)))
    return house


def pending(house: House, number: int, made: Any) -> Any:
    """An action that waits: its tool lies, and its window is open."""
    item = f"p-{number}"
    house.shop.rows[item] = {"id": item, "tenant": "acme", "status": "open", "version": 1, "author": "seed"}
    return house.run(made, f"op {number}", item=item, wait_s=0)


def lying(house: House, **options: Any) -> Any:
    house.shop.tool = lambda ctx, args: {"status": "ok"}
    return house.action(deadline="1h", within="30m", polls=["0s", "10m"], **options)


@pytest.mark.requirement("TENANT-in-flight")
def test_a_new_action_over_the_limit_is_refused_before_anything_acts(house: House) -> None:
    made = lying(limited(house, in_flight=2))
    for number in range(2):
        assert pending(house, number, made).state is State.PENDING
    calls, entries = len(house.shop.calls), sum(1 for _ in house.store.scan())
    with pytest.raises(InFlightLimitError, match="2 actions in flight") as refused:
        pending(house, 3, made)
    assert refused.value.code == "limit.in-flight"
    assert refused.value.exit_code == 2
    assert len(house.shop.calls) == calls, "the tool was not called"
    assert sum(1 for _ in house.store.scan()) == entries, "nothing was recorded"


@pytest.mark.requirement("TENANT-in-flight")
def test_a_repeated_operation_is_answered_also_at_the_limit(house: House) -> None:
    made = lying(limited(house, in_flight=1))
    first = pending(house, 1, made)
    assert pending(house, 1, made).id == first.id


@pytest.mark.requirement("TENANT-in-flight")
def test_there_is_room_again_when_something_has_ended(house: House) -> None:
    made = lying(limited(house, in_flight=1), late_window="0s")
    pending(house, 1, made)
    with pytest.raises(LimitError):
        pending(house, 2, made)
    house.work(2 * 3600)
    assert pending(house, 3, made).state is State.PENDING


@pytest.mark.requirement("TENANT-in-flight")
def test_a_compensation_is_never_refused(house: House) -> None:
    made = house.action(name="breaks", compensate={})
    other = lying(limited(house, in_flight=1), name="waits")
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, status="broken")
    reversed_ = house.run(made, "breaks", item="b-1")
    assert reversed_.state is State.COMPENSATED
    house.shop.tool = lambda ctx, args: {"status": "ok"}
    pending(house, 1, other)
    assert house.store.in_flight("acme") == 1
    house.engine = Engine()  # begun before there was a limit
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, status="broken")
    house.shop.undo = lambda ctx, args: None
    begun = house.run(made, "breaks again", item="b-2", wait_s=0)
    limited(house, in_flight=1)
    house.shop.undo = None
    house.work(2 * 3600)
    assert house.get(begun.id).compensation, "its reversal was begun"


@pytest.mark.requirement("TENANT-evidence")
def test_a_tenant_at_its_quota_begins_nothing_and_ends_what_it_began(house: House) -> None:
    made = lying(limited(house, evidence_bytes=6_000))
    begun = [pending(house, number, made) for number in range(2)]
    while house.store.evidence_bytes("acme") < 6_000:
        begun.append(pending(house, len(begun), made))
    calls = len(house.shop.calls)
    with pytest.raises(EvidenceLimitError) as refused:
        pending(house, 99, made)
    assert refused.value.code == "limit.evidence"
    assert len(house.shop.calls) == calls
    house.shop.tool = None
    for number, each in enumerate(begun):
        row = house.shop.rows[f"p-{number}"]
        row.update(status="shipped", version=2, stamp=each.stamp)
    house.work(2 * 3600)
    for each in begun:
        told = house.get(each.id)
        assert told.verified, "what has begun is recorded to its end"
        assert told.authoritative is not None, "and whole"


@pytest.mark.requirement("TENANT-pace")
def test_looks_over_the_rate_come_later_and_none_is_dropped(house: House) -> None:
    made = limited(house, polls_per_minute=3).action(deadline="2h", within="1h", polls=["0s", "20s"], late_window="0s")
    house.shop.tool = lambda ctx, args: {"status": "ok"}
    begun = [pending(house, number, made) for number in range(6)]
    looks_at_once = len(house.shop.looks)
    house.work(3 * 3600)
    after = house.shop.looks[looks_at_once:]
    assert after == sorted(after)
    for each in begun:
        assert house.get(each.id).verdict is Verdict.REFUTED, "each was looked at to its end"
    checks = _checks_by_minute(house)
    assert max(checks.values()) <= 3, checks


@pytest.mark.requirement("TENANT-pace")
def test_a_look_that_was_put_off_survives_the_process(tmp_path: Path) -> None:
    store = bootstrap.store(f"sqlite:///{tmp_path / 'l.db'}")
    house = limited(House(store=store), polls_per_minute=1)  # type: ignore[arg-type]
    made = house.action(deadline="2h", within="1h", late_window="0s")
    first, second, third = (pending(house, number, made) for number in range(3))
    assert first.verified
    assert [each.state for each in (second, third)] == [State.PENDING, State.PENDING], "their first look comes later"
    due = [each.due_us for each in (second, third)]
    assert all(at is not None and at > house.runtime.now_us() for at in due)
    house.die()
    house.work(5 * MINUTE)
    assert [house.get(each.id).state for each in (second, third)] == [State.RECONCILED_SUCCESS] * 2
    assert len(house.shop.calls) == 3, "and nothing was called again"
    store.close()


@pytest.mark.requirement("TENANT-pace")
@pytest.mark.parametrize("step", range(14))
def test_whoever_dies_at_any_step_loses_no_look(step: int) -> None:
    house = limited(House(), polls_per_minute=1)
    made = house.action(deadline="2h", within="1h", late_window="0s")
    pending(house, 0, made)
    house.driver.vanish_at = step
    house.driver.done.clear()
    with suppress(ProcessDied):
        pending(house, 1, made)
    house.die()
    house.work(5 * 3600)
    told = [house.get(stored.projection.action_id) for stored in house.store.projections()]
    assert sum(each.verified for each in told) == len(house.shop.calls) <= 2
    assert all(each.settled and each.due_us is None for each in told)


def test_each_tenant_has_its_own(house: House) -> None:
    house.engine = Engine(limits=Limits(tenants={"acme": TenantLimits(in_flight=1)}))
    made = lying(house)
    pending(house, 1, made)
    with pytest.raises(InFlightLimitError):
        pending(house, 2, made)
    house.scope = CallerContext("globex", "agent:ops")
    assert house.engine.limits is not None
    assert house.engine.limits.of("globex") == TenantLimits()
    request = house.propose(made, "p-1", "shipped").request("globex 1")
    house.driver.drive(house.engine.run(request, house.scope), house.runtime.now_us())
    assert house.store.in_flight("acme") == 1


def test_where_nobody_is_limited_nothing_is_asked(house: House) -> None:
    house.run(house.action())
    assert not {"Pace", "Weigh"} & set(house.driver.done)
    other = limited(House(), in_flight=5)
    other.run(other.action())
    assert not {"Pace", "Weigh"} & set(other.driver.done), "what is in flight is asked within the append"
    assert isinstance(other.driver, VirtualDriver)


def _checks_by_minute(house: House) -> dict[int, int]:
    found: dict[int, int] = {}
    for stored in house.store.projections():
        for event in house.events(stored.projection.action_id):
            if event.kind == "read" and event.data["role"] == "check":
                started = event.data["started"]
                assert isinstance(started, int)
                found[started // (MINUTE * S)] = found.get(started // (MINUTE * S), 0) + 1
    return found
