"""When the engine looks, how long it goes on, and what it says meanwhile: hours under virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from readback.domain.context import Context
from readback.domain.discrepancy import Discrepancy
from readback.domain.events import EventKind
from readback.domain.state import State
from readback.domain.verdict import Verdict, Why
from readback.domain.verification.reading import Lookup, Reading
from readback.engine.schedule import JITTER_PERCENT, LATE_POLL_FIRST_US, LATE_POLL_MAX_US
from readback.testing.driver_virtual import CallHangs
from readback.testing.runtime_virtual import START_US
from tests.lifecycle.house import HIGH, STAMPED, House, S, Shop

SPREAD = 1 + JITTER_PERCENT / 100


def _never(ctx: Context, args: Any) -> object:
    return {"status": "ok"}


def _shipped_from(shop: Shop, at_s: float) -> Any:
    """The tool says ok at once, and the effect is there at that time."""

    def look(ctx: Context, args: Any) -> Reading:
        if shop.now() >= at_s and shop.rows["o-1"]["status"] != "shipped":
            shop.ship(ctx, args)
        return shop.show(args)

    return look


@pytest.mark.requirement("TRUTH-time-polls")
def test_readings_follow_the_contracts_delays_with_a_bounded_jitter(house: House) -> None:
    house.shop.tool = _never
    house.run(house.action(polls=["0s", "2s", "4s"], within="60s"))
    gaps = [b - a for a, b in zip(house.shop.looks[1:], house.shop.looks[2:], strict=False)]
    assert house.shop.looks[:2] == [0, 0]  # before, and at once after
    for gap, delay in zip(gaps, (2, 4, 8, 16), strict=False):
        assert delay <= gap <= delay * SPREAD
    assert house.shop.looks[-1] == 60


def test_many_actions_spread_and_one_repeats_exactly(house: House) -> None:
    twin = House()
    for each in (house, twin):
        each.shop.tool = _never
        each.run(each.action())
    assert house.shop.looks == twin.shop.looks
    house.shop.looks.clear()
    house.shop.rows["o-2"] = {**house.shop.rows["o-1"], "id": "o-2"}
    started = house.shop.now()
    house.run(house.action(), "op-2", item="o-2")
    assert [round(look - started, 3) for look in house.shop.looks] != [round(look, 3) for look in twin.shop.looks]


@pytest.mark.requirement("TRUTH-time-polls", "STATE-accepted->pending")
def test_a_first_delay_is_waited_out_durably_before_the_first_look(house: House) -> None:
    made = house.action(polls=["3s", "2s"])
    house.shop.tool = lambda ctx, args: (house.shop.ship(ctx, args), (202, {"status": "accepted"}))[1]
    pending = house.run(made, wait_s=1)
    assert pending.state is State.PENDING
    assert house.states(pending.id)[-2:] == [State.ACCEPTED, State.PENDING]
    assert house.shop.looks == [0]
    house.die()
    told = house.wait(pending.id)
    assert told.verified
    assert 3 <= house.shop.looks[1] <= 3 * SPREAD
    assert len(house.shop.calls) == 1


@pytest.mark.requirement("TRUTH-time-window", "TRUTH-verdict-4")
def test_the_last_look_of_the_window_is_a_strong_one_at_its_close(house: House) -> None:
    house.shop.tool = _never
    readers = (("session", "other_client", "session"), ("strong", "other_client", "primary"))
    house.shop.eyes = lambda ctx, args: Reading.of({"id": "o-1", "tenant": "acme", "status": "open"}, version=2)
    told = house.run(house.action(readers=readers, late_window="0s", expected_version=None))
    assert house.shop.looks[-1] == 10
    assert house.shop.strong[-1] is True
    assert told.due_us is None or told.due_us > START_US + 10 * S


@pytest.mark.requirement("TRUTH-time-window", "HS-09")
def test_what_appears_just_before_the_close_is_told(house: House) -> None:
    house.shop.tool = _never
    house.shop.eyes = _shipped_from(house.shop, 9.9)
    assert house.run(house.action()).verified
    assert house.shop.looks[-1] == 10


@pytest.mark.requirement("TRUTH-time-stable-for")
def test_with_stable_for_success_is_told_once_it_has_held_for_so_long(house: House) -> None:
    made = house.action(stable_for="3s", polls=["0s", "1s"])
    pending = house.run(made, wait_s=2)
    assert (pending.state, pending.why) == (State.PENDING, Why.SETTLING)
    assert house.wait(pending.id).verified
    assert house.shop.looks[-1] == 3


@pytest.mark.requirement("TRUTH-time-stable-for")
def test_a_state_that_does_not_hold_begins_its_time_anew(house: House) -> None:
    shop = house.shop

    def look(ctx: Context, args: Any) -> Reading:
        shown = "shipped" if not 1 <= shop.now() < 2.9 else "open"
        return Reading.of({"id": "o-1", "tenant": "acme", "status": shown if shop.calls else "open"})

    shop.eyes = look
    told = house.run(house.action(stable_for="3s", polls=["0s", "1s", "1s", "1s", "1s", "1s", "1s"], within="20s"))
    assert told.verified
    first_again = next(look for look in shop.looks if look >= 2.9)
    assert shop.looks[-1] == pytest.approx(first_again + 3)


@pytest.mark.requirement("TRUTH-time-stable-for")
def test_the_time_for_which_it_held_survives_a_restart(house: House) -> None:
    made = house.action(stable_for="8s")
    pending = house.run(made, wait_s=1)
    house.die()
    assert house.wait(pending.id).verified
    assert house.shop.looks[-1] == 8


@pytest.mark.requirement("TRUTH-time-deadline", "TRUTH-late-absence", "STATE-verification-timeout->unknown")
def test_after_the_deadline_the_state_has_timed_out_and_the_table_says_what_follows(house: House) -> None:
    house.shop.eyes = lambda ctx, args: _down(house.shop, args)
    told = house.run(house.action(deadline="30s", compensate={}))
    assert State.VERIFICATION_TIMEOUT in house.states(told.id)
    assert (told.state, told.row) == (State.UNKNOWN, "RB-timeout-no-effect")
    assert told.why is Why.UNREACHABLE
    assert house.shop.looks[-1] == 30
    assert not told.may_repeat
    assert not house.shop.undone


def _down(shop: Shop, args: Any) -> Reading:
    if shop.calls:
        raise ConnectionError("down")
    return shop.show(args)


@pytest.mark.requirement("TRUTH-late-polling", "REC-own-unknown")
def test_slow_polling_goes_on_after_unknown_ever_more_slowly_until_the_late_window_has_passed(house: House) -> None:
    house.shop.tool = _never
    told = house.run(house.action(late_window="6h", compensate={}))
    assert told.state is State.UNKNOWN
    house.work(7 * 3600)
    late = [look for look in house.shop.looks if look > 10]
    gaps = [b - a for a, b in zip([10.0, *late], late, strict=False)]
    assert LATE_POLL_FIRST_US / S <= gaps[0] <= LATE_POLL_FIRST_US / S * SPREAD
    assert max(gaps) <= LATE_POLL_MAX_US / S * SPREAD
    assert late[-1] == 6 * 3600
    ended = house.get(told.id)
    assert ended.state in (State.FAILED, State.REVIEW_REQUIRED)
    assert house.store.next_due_us() is None


@pytest.mark.requirement("TRUTH-late-polling")
@pytest.mark.parametrize("slow_s", [0, 20])
def test_looks_for_a_late_effect_come_on_time_however_long_each_of_them_takes(house: House, slow_s: int) -> None:
    def look(ctx: Context, args: Any) -> Reading:
        if house.shop.now() > 10:
            house.driver._jump(house.runtime.now_us() + slow_s * S)
        return house.shop.show(args)

    house.shop.tool, house.shop.eyes = _never, look
    told = house.run(house.action(late_window="6h", compensate={}))
    assert told.state is State.UNKNOWN
    house.work(7 * 3600)
    late = [look for look in house.shop.looks if look > 10]
    moments = [10 + each for each in (30, 90, 210, 450, 930, 1890, 3810, 7410, 11010, 14610, 18210)]
    assert len(late) >= len(moments)
    for moment, look in zip(moments, late, strict=False):
        assert moment <= look <= moment + 2, (moment, late)


def test_without_a_late_window_slow_polling_ends_with_a_person(house: House) -> None:
    house.shop.tool = _never
    told = house.run(house.action(compensate={}))
    house.work(60 * 86_400)
    ended = house.get(told.id)
    assert ended.state is State.REVIEW_REQUIRED
    assert ended.review
    assert house.store.next_due_us() is None
    assert len(house.shop.looks) < 40


@pytest.mark.requirement("TRUTH-late-landing", "STATE-unknown->reconciled-success")
def test_an_effect_that_lands_late_is_recorded_and_the_unknown_outcome_no_longer_stands(house: House) -> None:
    house.shop.tool = lambda ctx, args: _hang()
    house.shop.eyes = _shipped_from(house.shop, 300)
    told = house.run(house.action(late_window="1h", compensate={}, **STAMPED))
    assert (told.state, told.verified, told.may_repeat) == (State.UNKNOWN, False, False)
    house.work(3600)
    later = house.get(told.id)
    assert later.verified
    assert later.attribution.value == "ours"
    assert house.states(told.id)[-1] is State.RECONCILED_SUCCESS
    assert len(house.shop.calls) == 1


def _hang() -> object:
    raise CallHangs


@pytest.mark.requirement("TRUTH-late-landing", "STATE-RULE-terminal")
def test_what_is_seen_while_a_person_decides_is_recorded_and_changes_no_state(house: House) -> None:
    shop, landing = house.shop, _shipped_from(house.shop, 300)
    shop.tool = lambda ctx, args: _hang()
    shop.eyes = lambda ctx, args: landing(ctx, args) if shop.now() >= 200 else _down(shop, args)
    told = house.run(house.action(late_window="1h", **STAMPED))
    assert (told.state, told.contested) == (State.REVIEW_REQUIRED, False)
    house.work(3600)
    later = house.get(told.id)
    assert later.state is State.REVIEW_REQUIRED
    assert later.contested
    assert later.verdict is Verdict.VERIFIED
    assert not later.verified
    assert "completed successfully" not in later.message + later.for_model()
    assert EventKind.CLAIM_CONTESTED in house.kinds(told.id)


@pytest.mark.requirement("TRUTH-time-signal", "TRUTH-time-level-based")
def test_a_signal_wakes_the_next_reading_and_proves_nothing(house: House) -> None:
    house.shop.tool = _never
    made = house.action(polls=["0s", "30s"], within="60s")
    pending = house.run(made, wait_s=1)
    house.driver.at(START_US + 5 * S, lambda: house.store.make_due(pending.id, house.runtime.now_us()))
    still = house.wait(pending.id, wait_s=10)
    assert house.shop.looks[-1] == 5
    assert still.state is State.PENDING
    house.driver.at(START_US + 20 * S, lambda: house.shop.rows["o-1"].update(status="shipped", version=2))
    house.driver.at(START_US + 20 * S, lambda: house.store.make_due(pending.id, house.runtime.now_us()))
    assert house.wait(pending.id, wait_s=15).verified
    assert house.shop.looks[-1] == 20


@pytest.mark.requirement("TRUTH-time-signal")
def test_a_signal_during_an_unknown_state_makes_the_next_wait_look_at_once(house: House) -> None:
    house.shop.tool = _never
    unknown = house.run(house.action(compensate={}, late_window="1h"))
    assert unknown.state is State.UNKNOWN
    assert house.wait(unknown.id).state is State.UNKNOWN
    looks = len(house.shop.looks)
    assert looks == len(house.shop.looks)
    house.shop.rows["o-1"].update(status="shipped", version=2)
    assert house.store.make_due(unknown.id, house.runtime.now_us())
    assert house.wait(unknown.id).verified


@pytest.mark.requirement("TRUTH-time-level-based")
def test_lost_and_doubled_wake_ups_change_nothing(house: House) -> None:
    house.shop.tool = _never
    made = house.action()
    pending = house.run(made, wait_s=3)
    for _ in range(5):
        house.work(house.shop.now())
    house.shop.rows["o-1"].update(status="shipped", version=2)
    house.runtime.advance(5)
    for _ in range(3):
        house.work(house.shop.now())
    assert house.get(pending.id).verified
    assert house.kinds(pending.id).count(EventKind.ATTEMPTED) == 1


@pytest.mark.requirement("TRUTH-time-wait", "HS-03", "HS-11")
def test_run_answers_pending_once_its_wait_has_passed(house: House) -> None:
    house.shop.tool = lambda ctx, args: (202, {"status": "accepted"})
    house.shop.eyes = _shipped_from(house.shop, 6)
    pending = house.run(house.action(), wait_s=3)
    assert (pending.state, pending.settled) == (State.PENDING, False)
    assert "pending" in pending.message
    assert "completed successfully" not in pending.message + pending.for_model()
    assert house.shop.now() == 3
    assert house.wait(pending.id).verified


@pytest.mark.requirement("TRUTH-verdict-2")
def test_two_effects_that_a_search_shows_are_told_at_once_and_one_that_comes_later_at_the_close(house: House) -> None:
    terms = {"kind": "create", "within": "5m", "deadline": "5m", "polls": ["0s", "2s"], **HIGH}
    made = house.action(find=True, **terms)

    def twice(ctx: Context, args: Any) -> object:
        house.shop.ship(ctx, args)
        house.shop.rows["another"] = dict(house.shop.rows[args["item"]])
        return {"status": "ok"}

    house.shop.rows.clear()
    house.shop.tool = twice
    told = house.run(made, "at once")
    assert (told.discrepancy, house.shop.now(), house.shop.finds) == (Discrepancy.DUPLICATE_SIDE_EFFECT, 0, [0])
    later = House()
    later.shop.rows.clear()
    later.driver.at(
        later.runtime.now_us() + 200 * S, lambda: later.shop.rows.update(another=dict(later.shop.rows["o-1"]))
    )
    told = later.run(later.action(find=True, **terms))
    assert (told.discrepancy, later.shop.finds) == (Discrepancy.DUPLICATE_SIDE_EFFECT, [0, 300])


@pytest.mark.requirement("TRUTH-source-frugal", "TRUTH-verdict-6")
def test_while_everything_holds_nothing_is_read_before_the_moment_that_settles_it(house: House) -> None:
    made = house.action(kind="create", find=True, within="5m", deadline="5m", polls=["0s", "2s", "4s", "8s"], **HIGH)
    house.shop.rows.clear()
    assert house.run(made).verified
    assert house.shop.looks == [0, 300]
    assert house.shop.finds == [0, 300], "two that are there already are told at once"


@pytest.mark.requirement("TRUTH-source-frugal")
def test_an_action_that_verifies_at_once_is_read_once_and_committed_twice(house: House) -> None:
    told = house.run(house.action(find=True, lookup=True))
    assert told.verified
    assert house.shop.looks == [0, 0]  # before and after
    assert not house.shop.finds
    assert not house.shop.lookups
    assert house.driver.done.count("Commit") == 2


@pytest.mark.requirement("TRUTH-source-best-used")
def test_the_record_under_the_key_is_asked_when_it_may_settle_what_the_reading_leaves_open(house: House) -> None:
    house.shop.tool = lambda ctx, args: _hang()
    house.shop.record = lambda ctx, args: Lookup.failed("declined")
    told = house.run(house.action(lookup=True, compensate={}))
    assert (told.state, told.may_repeat) == (State.FAILED, False)
    assert len(house.shop.lookups) == 1  # what is final is not asked again
    assert told.discrepancy is Discrepancy.NO_OP_FAILURE


def test_a_tool_that_ran_too_late_is_not_called(house: House) -> None:
    """The process slept between the commit and the call: then nothing was sent, and that is known."""
    append = house.store.append

    def slow(batch: Any) -> Any:
        kept = append(batch)
        house.runtime.advance(60)
        return kept

    house.store.append = slow  # type: ignore[method-assign]
    told = house.run(house.action())
    assert (told.state, told.may_repeat) == (State.FAILED, True)
    assert house.shop.calls == []
    assert "not been executed" in told.message
