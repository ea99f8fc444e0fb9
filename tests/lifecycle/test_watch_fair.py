"""A watch beside everything else: crashes, limits, other contracts, sagas, and what failed and may still land."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import pytest

from readback.audit.checks.ledger import audit
from readback.audit.feedback.fold import feedback_of
from readback.audit.record.bundle import make_bundle, open_bundle
from readback.audit.replay.action import replay
from readback.bootstrap import predicate_engine
from readback.contracts.recorded import recorded_plan
from readback.domain.action.claim import ClaimKind, ClaimStatus, Reason, last_event_of
from readback.domain.context import Context
from readback.domain.contract.limits import Limits, TenantLimits
from readback.domain.contract.watch import WatchEnd
from readback.domain.events import EventKind
from readback.domain.outcome.outcome import Outcome
from readback.domain.records.replayed import Comparison
from readback.domain.recovery.table import DEFAULT_TABLE
from readback.domain.state import State
from readback.engine import coordinator
from readback.engine.engine import Engine
from readback.testing.driver_virtual import CallHangs, ProcessDied
from tests.lifecycle.house import STAMPED, TENANT, House
from tests.lifecycle.reviewing import sound
from tests.lifecycle.trip import Trip
from tests.lifecycle.watching import (
    AGREED,
    DAILY,
    DAY,
    HOUR,
    MINUTE,
    change,
    claim_events,
    claim_status,
    on,
    state_of,
    watched,
)

Args = Mapping[str, Any]
FALLEN = [EventKind.CLAIM_CONTESTED, EventKind.CLAIM_RETRACTED]


# --- dying ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("WATCH-crash", "TRUTH-time-durable-wait")
@pytest.mark.parametrize("drifts", [False, True])
def test_whoever_dies_between_a_look_and_its_record_leaves_it_to_the_next(drifts: bool) -> None:
    for step in range(60):
        house = House()
        told = watched(house)
        if drifts:
            change(house, status="lost")
        house.driver.done.clear()
        house.driver.vanish_at = step
        due = house.store.next_due_us()
        assert due is not None
        house.driver._jump(due)
        died = False
        try:
            house.driver.drive(coordinator.advance(house.engine, told.id, TENANT, house.plans.get))
        except ProcessDied:
            died = True
        assert audit(house.store).ok
        house.die()
        house.work(2 * HOUR)
        sound(house)
        assert claim_events(house, told.id) == (FALLEN if drifts else [])
        assert len(house.shop.calls) == 1
        assert state_of(house, told.id).looks == 1
        if not died:
            assert step >= 5
            return
    raise AssertionError("it never came to an end")


@pytest.mark.requirement("WATCH-crash")
def test_looks_go_on_however_often_processes_die(house: House) -> None:
    told = watched(house)
    for day in range(1, 20):
        house.driver.done.clear()
        house.driver.vanish_at = day % 9
        with contextlib.suppress(ProcessDied):
            house.work(day * DAY)
        house.die()
    change(house, status="lost")
    on(house, 40)
    assert claim_events(house, told.id) == FALLEN


# --- others who wait -----------------------------------------------------------------------------------------------


def _many(house: House, count: int, watch: Any = DAILY) -> list[Outcome]:
    made = house.action(watch=watch, identity=AGREED)
    told = []
    for number in range(count):
        item = f"m-{number}"
        house.shop.rows[item] = {"id": item, "tenant": TENANT, "status": "open", "version": 1, "author": "seed"}
        told.append(house.run(made, f"op {number}", item=item))
    assert all(each.verified for each in told)
    return told


@pytest.mark.requirement("WATCH-fair")
def test_a_backlog_of_looks_comes_after_every_first_verification(house: House) -> None:
    told = _many(house, 20)
    house.driver._jump(house.runtime.now_us() + round(3 * DAY * 1_000_000))  # nobody worked for three days
    house.shop.tool = lambda ctx, args: {"status": "ok"}
    fresh = house.run(house.action(name="slow", within="30m", deadline="1h", polls=["0s", "10m"]), "new", wait_s=0)
    assert fresh.due_us is not None
    house.driver._jump(fresh.due_us)
    due = house.store.due(house.runtime.now_us(), 100)
    assert due[0] == fresh.id
    assert set(due[1:]) == {each.id for each in told}
    assert house.store.due(house.runtime.now_us(), 1) == [fresh.id]


@pytest.mark.requirement("WATCH-fair", "WATCH-settled", "TENANT-in-flight")
def test_what_is_watched_is_not_in_flight(house: House) -> None:
    house.engine = Engine(limits=Limits(TenantLimits(in_flight=2)))
    _many(house, 6)
    assert house.store.in_flight(TENANT) == 0


@pytest.mark.requirement("WATCH-fair", "TENANT-pace")
def test_looks_take_half_of_a_tenants_rate_and_leave_the_rest(house: House) -> None:
    house.engine = Engine(limits=Limits(TenantLimits(polls_per_minute=4)))
    started = house.runtime.now_us()
    told = _many(house, 12, {"after": "1m", "every": "1d", "for": "2d"})
    minutes: dict[int, int] = {}
    for each in told:
        assert each.due_us is not None
        minute = (each.due_us - started) // 60_000_000
        minutes[minute] = minutes.get(minute, 0) + 1
    assert max(minutes.values()) == 2
    assert house.store.pace(TENANT, started, started + 5 * 60_000_000, 4) == started + 5 * 60_000_000, "there is room"


@pytest.mark.requirement("WATCH-fair")
def test_the_least_rate_lets_looks_go_on(house: House) -> None:
    house.engine = Engine(limits=Limits(TenantLimits(polls_per_minute=1)))
    told = watched(house, "1h")
    on(house, 2)
    assert state_of(house, told.id).over == WatchEnd.TIME


# --- ends ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("WATCH-undetermined", "WATCH-ends")
def test_a_look_under_another_contract_is_put_off_and_says_nothing(house: House) -> None:
    told = watched(house)
    house.action(watch=DAILY, identity=AGREED, version="2")
    change(house, status="lost")
    on(house, 3)
    now = house.get(told.id)
    assert (now.state, now.standing, claim_events(house, told.id)) == (State.RECONCILED_SUCCESS, True, [])
    assert state_of(house, told.id).failing > 1
    house.action(watch=DAILY, identity=AGREED)
    on(house, 7)
    assert claim_events(house, told.id) == FALLEN, "whoever has the contract looks again"


def test_a_look_that_is_put_off_is_recorded_with_the_changed_contract_as_its_reason(house: House) -> None:
    told = watched(house)
    house.action(watch=DAILY, identity=AGREED, version="2")
    on(house, 3)
    looks = [event.data for event in house.events(told.id) if event.kind is EventKind.WATCHED]
    assert {(data["verdict"], data["error"]) for data in looks} == {("undetermined", "contract.changed")}


@pytest.mark.requirement("WATCH-ends", "WATCH-undetermined")
def test_what_nobody_can_look_at_any_more_ends_with_its_time(house: House) -> None:
    told = watched(house)
    house.action(version="2")
    on(house, 60)
    assert (state_of(house, told.id).over, house.get(told.id).due_us) == (WatchEnd.UNREAD, None)
    assert house.get(told.id).standing


@pytest.mark.requirement("WATCH-asked")
@pytest.mark.slow
def test_the_record_under_the_key_answers_as_long_as_it_is_watched(house: House) -> None:
    made = house.action(watch={"every": "1d", "for": "90d"}, identity=AGREED)
    told = house.run(made)
    house.work(80 * DAY)
    again = house.run(made)
    assert (again.id, again.replayed, len(house.shop.calls)) == (told.id, True, 1)


# --- what failed, and may still land -------------------------------------------------------------------------------


def _lost_to_another(house: House, late_window: str = "2h", **options: Any) -> Outcome:
    """The call hangs, and somebody else changes the target: the plan is stale. It failed, and may land."""

    def tool(ctx: Context, args: Args) -> object:
        house.shop.rows["o-1"] = {**house.shop.rows["o-1"], "status": "held", "version": 2, "stamp": "rb-another"}
        raise CallHangs

    house.shop.tool = tool
    return house.run(house.action(late_window=late_window, **STAMPED, **options))


@pytest.mark.requirement("WATCH-late", "TRUTH-late-polling")
def test_what_failed_is_looked_at_through_its_late_window(house: House) -> None:
    told = _lost_to_another(house)
    assert (told.state, told.row, told.may_repeat) == (State.FAILED, "REC-11", False)
    assert told.due_us is not None
    before, entries = len(house.shop.looks), len(house.events(told.id))
    on(house, 2)
    now = house.get(told.id)
    assert (now.state, now.due_us, now.may_repeat, now.contested) == (State.FAILED, None, False, False)
    assert 3 <= len(house.shop.looks) - before <= 12
    assert set(house.kinds(told.id)[entries:]) == {EventKind.WATCHED}
    assert max(house.shop.looks) >= 2 * HOUR
    assert house.shop.looks[before] - house.shop.looks[before - 1] <= 2 * MINUTE
    assert len(house.shop.calls) == 1


@pytest.mark.requirement("WATCH-late", "TRUTH-late-landing")
@pytest.mark.parametrize("stamped", [True, False])
@pytest.mark.parametrize("options", [{}, {"stable_for": "5s"}], ids=["at once", "what has to stay so"])
def test_a_late_landing_contests_the_failure_that_was_told(
    house: House, options: dict[str, Any], stamped: bool
) -> None:
    """Whether it stays so is asked before success is told; here it is asked whether it landed."""
    told = _lost_to_another(house, **options)
    assert not told.contested
    row = house.shop.rows["o-1"]
    stamp = house.shop.stamps[-1] if stamped else ""
    house.shop.rows["o-1"] = {**row, "status": "shipped", "version": 3, "stamp": stamp}
    on(house, 1)
    now = house.get(told.id)
    assert (now.state, now.contested, now.review, now.may_repeat) == (State.FAILED, True, "contested", False)
    said = last_event_of(house.folded(told.id).claims, ClaimKind.HAPPENED)
    assert said is not None
    assert (said.status, said.reason) == (ClaimStatus.CONTESTED, Reason.LATE_EFFECT)
    assert now.due_us is None
    assert len(house.shop.calls) == 1


@pytest.mark.requirement("WATCH-late", "WATCH-crash")
def test_whoever_dies_while_looking_at_what_failed_leaves_it_to_the_next() -> None:
    for step in range(1, 12):
        house = House()
        told = _lost_to_another(house)
        house.driver.done.clear()
        house.driver.vanish_at = step
        with contextlib.suppress(ProcessDied):
            house.work(HOUR)
        house.die()
        house.shop.rows["o-1"] = {**house.shop.rows["o-1"], "status": "shipped", "stamp": house.shop.stamps[-1]}
        on(house, 1)
        assert house.get(told.id).contested
        assert len(house.shop.calls) == 1


@pytest.mark.requirement("WATCH-late")
def test_a_late_landing_of_what_stayed_unknown_is_told_as_it_is(house: House) -> None:
    house.shop.tool = lambda ctx, args: (_ for _ in ()).throw(CallHangs())
    told = house.run(house.action(late_window="6h", **STAMPED))
    assert told.state is State.UNKNOWN
    house.work(HOUR)
    house.shop.ship(
        Context(told.id, TENANT, "agent:ops", "op-1", told.target, "", house.shop.stamps[-1], 1),
        {"item": "o-1", "status": "shipped"},
    )
    on(house, 1)
    now = house.get(told.id)
    assert (now.state, now.standing, len(house.shop.calls)) == (State.RECONCILED_SUCCESS, True, 1)


@pytest.mark.requirement("WATCH-late")
def test_what_failed_is_not_judged_under_another_contract(house: House) -> None:
    told = _lost_to_another(house)
    house.action(late_window="3h", **STAMPED)
    on(house, 3)
    now = house.get(told.id)
    assert (now.state, now.due_us, now.contested) == (State.FAILED, None, False)


@pytest.mark.requirement("WATCH-asked")
def test_a_late_success_is_watched_from_then_on(house: House) -> None:
    house.shop.tool = lambda ctx, args: (_ for _ in ()).throw(CallHangs())
    told = house.run(house.action(late_window="6h", watch=DAILY, **STAMPED))
    house.shop.rows["o-1"] = {
        **house.shop.rows["o-1"],
        "status": "shipped",
        "version": 2,
        "stamp": house.shop.stamps[-1],
    }
    on(house, 4)
    assert house.get(told.id).standing
    assert state_of(house, told.id).looks >= 3
    change(house, status="lost")
    on(house, 6)
    assert claim_status(house, told.id) is ClaimStatus.RETRACTED


# --- made again of the record --------------------------------------------------------------------------------------


@pytest.mark.requirement("WATCH-class")
@pytest.mark.parametrize(
    "fields",
    [
        {"status": "lost"},
        {"status": "lost", "author": "agent:night"},
        {"status": "lost", "stamp": "rb-another"},
        {"tenant": "globex"},
        None,
    ],
)
@pytest.mark.parametrize("kind", ["set", "create"])
def test_a_drift_is_judged_the_same_again_of_the_record_alone(house: House, kind: str, fields: Any) -> None:
    house.shop.rows.clear()
    told = watched(house, {**DAILY, "ensure": ["status"]}, kind=kind)
    held = dict(house.shop.rows["o-1"])
    if fields is None:
        house.shop.rows.clear()
    else:
        change(house, **fields)
    house.work(3 * DAY)
    house.shop.rows["o-1"] = {**held, "version": 9}
    on(house, 6)
    assert claim_events(house, told.id) == [*FALLEN, EventKind.CLAIM_REINSTATED]
    events = house.store.events(told.id)
    bundle = open_bundle(make_bundle(events, lambda digest: _body(house, digest), [DEFAULT_TABLE]))
    contract = bundle.json_of(house.folded(told.id).contract_ref)
    assert isinstance(contract, dict)
    plan = recorded_plan(contract, house.folded(told.id).contract_hash, ["item", "status"], predicate_engine())
    assert plan.contract.watch == house.plans["ship"].contract.watch  # type: ignore[union-attr]
    again = replay(bundle, plan)
    assert [each.comparison for each in again.judgements] == [Comparison.SAME] * 3, again.judgements


def _body(house: House, digest: str) -> bytes | None:
    found = house.store.evidence(TENANT, house.store.keeper(TENANT, digest) or "", digest)
    return None if found is None else found.body


@pytest.mark.requirement("WATCH-faults", "FEEDBACK-counted")
def test_a_drift_is_counted_by_itself_and_not_against_the_tool(house: House) -> None:
    told = watched(house)
    change(house, status="lost")
    on(house, 3)
    feedback = feedback_of(house.store.scan())
    contract, tool = feedback.contracts["ship"], feedback.tools["ship"]
    assert (contract.verified, contract.refuted, contract.drifted) == (1, 0, 1)
    assert (tool.claimed, tool.claimed_refuted) == (1, 0)
    assert feedback.sources["orders"].readings == 2 + state_of(house, told.id).looks


# --- what was taken back -------------------------------------------------------------------------------------------


@pytest.mark.requirement("WATCH-ends")
def test_what_its_saga_took_back_is_watched_no_more() -> None:
    trip = Trip()
    trip.load("hotel", watch=DAILY)
    trip.world.faults["car"] = "refused"
    told = trip.run()
    hotel = trip.saga(told.id).steps["hotel"].action_id
    trip.work(3 * DAY)
    assert (trip.get(told.id).state, trip.world.undone) == (State.COMPENSATED, ["hotel", "flight"])
    trip.check()
    kinds = [event.kind for event in trip.events(hotel)]
    assert kinds[kinds.index(EventKind.JUDGED) + 1 :] == FALLEN, "it was taken back, and nobody looks any more"
    assert (trip.outcome(hotel).state, trip.store.next_due_us()) == (State.COMPENSATED, None)


@pytest.mark.requirement("WATCH-drift")
def test_a_step_of_a_saga_that_drifts_after_its_end_is_a_drift_of_its_own() -> None:
    trip = Trip()
    trip.load("hotel", watch=DAILY)
    told = trip.run()
    hotel = trip.saga(told.id).steps["hotel"].action_id
    assert told.verified
    trip.work(2 * DAY)
    row = trip.world.rows["hotel", "t-1"]
    row["price"] = 99
    trip.work(2 * DAY)
    trip.check()
    step = trip.outcome(hotel)
    assert (step.review, step.standing, trip.world.undone, len(trip.world.calls)) == ("drift", False, [], 5)
    assert trip.get(told.id).state is State.RECONCILED_SUCCESS
