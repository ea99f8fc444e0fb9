"""The trips of these tests: what is compiled once for all of them acts upon the world of each."""

from __future__ import annotations

from readback.domain.state import State
from tests.lifecycle.trip import Trip, compiled, contract


def test_trips_beside_each_other_have_each_their_own_world() -> None:
    one, other = Trip(), Trip()
    other.world.faults["car"] = "refused"
    mixed = other.steps()  # loaded last: one's own contracts are not the last that took the seats
    assert one.run().state is State.RECONCILED_SUCCESS
    told = other.run(mixed)
    other.work()
    assert other.get(told.id).state is State.COMPENSATED
    assert {name for name, _ in one.world.rows} == {"flight", "hotel", "car", "charge", "ticket"}
    assert other.world.rows == {}
    assert sorted(other.world.undone) == ["flight", "hotel"]
    assert one.world.undone == []


def test_what_is_compiled_once_is_the_contract_that_each_would_compile() -> None:
    world = Trip().world
    terms = {"execute": {"timeout": "1s", "honours_key": True}}
    for undo in (None, {}, terms):
        kept, own = compiled(world, "flight", undo, terms), contract(world, "flight", undo=undo, **terms)
        assert kept.contract == own.contract
        assert kept.name == own.name
        assert (kept.compensation is None) is (own.compensation is None) is (undo == {})
        if kept.compensation is not None and own.compensation is not None:
            assert kept.compensation.contract == own.compensation.contract
            assert kept.plan.compensation is kept.compensation.plan
    assert compiled(world, "flight", None, {"within": "9s"}).contract != compiled(world, "flight", None, {}).contract
