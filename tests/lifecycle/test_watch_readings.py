"""What a later look may conclude, and from which readings: never from a weak one, never from none; and who decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from readback.domain.action.claim import ClaimStatus
from readback.domain.context import Context
from readback.domain.contract.watch import CHANGES_MAX, WatchEnd
from readback.domain.events import EventKind
from readback.domain.people.review import DRIFT
from readback.domain.side_effect import Consistency
from readback.domain.state import State
from readback.domain.verdict import Why
from readback.domain.verification.reading import Reading
from readback.engine.outbox import messages_of
from readback.engine.people import review
from readback.engine.people.review import Order
from readback.errors import ReviewError
from tests.lifecycle.house import TENANT, House
from tests.lifecycle.reviewing import look, open_to, resolve, sound
from tests.lifecycle.watching import (
    AGREED,
    DAILY,
    DAY,
    HOUR,
    MINUTE,
    change,
    claim_events,
    claim_status,
    looks,
    on,
    state_of,
    watched,
)

Args = Mapping[str, Any]
FALLEN = [EventKind.CLAIM_CONTESTED, EventKind.CLAIM_RETRACTED]
BACK = EventKind.CLAIM_REINSTATED
TWO = (("session", "other_client", "near"), ("strong", "other_client", "orders"))


def down(ctx: Context, args: Args) -> Reading:
    raise ConnectionError("down")


def _broken(ctx: Context, args: Args) -> Any:
    return [{"status": "shipped"}]


# --- undetermined --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("WATCH-undetermined", "PRINCIPLE-unknown-first-class")
@pytest.mark.parametrize(
    "eyes",
    [
        down,
        _broken,
        lambda ctx, args: Reading.unavailable("503"),
        lambda ctx, args: Reading.absent(complete=False),
        lambda ctx, args: Reading.not_visible("404"),
        lambda ctx, args: Reading.of({"id": "o-9", "tenant": "globex", "status": "open"}),
        lambda ctx, args: Reading.of({"id": "o-1", "tenant": TENANT}),
    ],
)
def test_what_cannot_be_told_never_withdraws_a_claim(house: House, eyes: Any) -> None:
    told = watched(house)
    house.shop.eyes = eyes
    on(house, 60)
    now = house.get(told.id)
    assert (now.standing, now.verified, claim_events(house, told.id)) == (True, True, [])
    seen = state_of(house, told.id)
    assert (seen.over, seen.failing == seen.looks, now.due_us) == (WatchEnd.UNREAD, True, None)
    assert len(house.events(told.id)) < 60


@pytest.mark.requirement("WATCH-undetermined")
def test_a_look_that_could_not_tell_is_made_again_soon_and_then_more_seldom(house: House) -> None:
    told = watched(house)
    house.shop.eyes = down
    made = len(house.shop.looks)
    on(house, 4)
    seen = house.shop.looks[made:]
    pauses = [round(after - before) for before, after in pairwise(seen)]
    assert MINUTE <= pauses[0] <= 1.1 * MINUTE
    assert all(after > before for before, after in pairwise(pauses[:9]))
    assert max(pauses) <= 1.1 * DAY
    house.shop.eyes = None
    house.work(40 * DAY)
    assert (state_of(house, told.id).failing, state_of(house, told.id).over) == (0, WatchEnd.TIME)


@pytest.mark.requirement("WATCH-undetermined", "WATCH-bounded")
def test_a_single_look_that_could_not_tell_is_made_again_for_a_day(house: House) -> None:
    told = watched(house, "1h")
    house.shop.eyes = down
    on(house, 0.5)
    assert house.get(told.id).due_us is not None
    on(house, 3)
    assert (state_of(house, told.id).over, house.get(told.id).due_us) == (WatchEnd.UNREAD, None)
    assert house.shop.looks[-1] <= DAY + 2 * HOUR


@pytest.mark.requirement("WATCH-faults", "TRUTH-verdict-10")
def test_a_source_that_fails_is_counted_once_an_action_and_repeatedly_an_incident(house: House) -> None:
    told = watched(house)
    house.shop.eyes = _broken
    on(house, 3)
    assert house.store.counts(TENANT) == [("source:orders", "verifier_error", 1)], "over actions, and not over looks"
    house.shop.eyes = None
    on(house, 8)
    assert house.store.counts(TENANT) == []
    others = [house.run(house.action(watch=DAILY, identity=AGREED), f"op {n}").id for n in (2, 3)]
    house.shop.eyes = _broken
    on(house, 12)
    [incident] = house.store.incidents(TENANT)
    assert incident.cause.endswith("orders")
    assert incident.action_id in (told.id, *others)
    refused = house.run(house.action(name="another"), "op 9")
    assert (refused.state, len(house.shop.calls)) == (State.FAILED, 3), "pre-flight asks, and nothing is called"
    assert all(house.get(each).standing for each in (told.id, *others))


@pytest.mark.requirement("WATCH-faults")
def test_a_drift_is_no_fault_of_the_tool(house: House) -> None:
    told = watched(house)
    change(house, status="lost")
    on(house, 2)
    assert claim_events(house, told.id) == FALLEN
    assert house.store.counts(TENANT) == []


# --- weak and strong -----------------------------------------------------------------------------------------------


def _near(house: House, old: dict[str, Any]) -> None:
    """A session reader that shows an older state; the strong one shows what is."""

    def eyes(ctx: Context, args: Args) -> Reading:
        if ctx.strong:
            return house.shop.show(args)
        return Reading.of(old, version=old["version"], stamp=old.get("stamp"))

    house.shop.eyes = eyes


@pytest.mark.requirement("WATCH-strong", "HS-07")
def test_a_replica_that_lags_withdraws_nothing(house: House) -> None:
    before = dict(house.shop.rows["o-1"])
    told = watched(house, readers=TWO)
    _near(house, before)
    on(house, 5)
    assert (house.get(told.id).standing, claim_events(house, told.id)) == (True, [])
    assert looks(house, told.id) == 5


@pytest.mark.requirement("WATCH-strong", "WATCH-drift")
def test_what_a_weaker_reading_shows_is_asked_of_the_strongest_before_anything_is_said(house: House) -> None:
    told = watched(house, readers=TWO)
    change(house, status="lost")
    on(house, 1)
    assert claim_events(house, told.id) == FALLEN
    reading = house.folded(told.id).reading
    assert reading is not None
    assert (reading["consistency"], house.shop.strong[-2:]) == ("strong", [False, True])


@pytest.mark.requirement("WATCH-back", "WATCH-strong")
def test_an_old_state_does_not_bring_a_claim_back(house: House) -> None:
    told = watched(house, readers=TWO)
    held = dict(house.shop.rows["o-1"])
    change(house, status="lost")
    on(house, 1)
    _near(house, held)
    on(house, 6)
    assert claim_events(house, told.id) == FALLEN
    assert not house.get(told.id).standing

    def lowered(ctx: Context, args: Args) -> Reading:
        shown = Reading.of(held, version=2, stamp=str(held["stamp"]))
        return replace(shown, consistency=Consistency.SESSION)

    house.shop.eyes = lowered
    on(house, 12)
    assert claim_events(house, told.id) == FALLEN
    assert state_of(house, told.id).why == Why.STALE
    house.shop.eyes = None
    change(house, status="shipped")
    on(house, 20)
    assert claim_events(house, told.id) == [*FALLEN, BACK]
    assert house.get(told.id).standing


# --- back, and otherwise -------------------------------------------------------------------------------------------


@pytest.mark.requirement("WATCH-back", "WATCH-claim")
def test_what_is_back_as_it_was_is_reinstated_and_waits_for_nobody(house: House) -> None:
    told = watched(house)
    change(house, status="lost")
    on(house, 2)
    assert house.get(told.id).review == DRIFT
    change(house, status="shipped")
    on(house, 4)
    now = house.get(told.id)
    assert (now.standing, now.review, now.contested, now.discrepancy) == (True, "", False, None)
    assert claim_events(house, told.id) == [*FALLEN, BACK]
    assert "completed" in now.message
    assert claim_status(house, told.id) is ClaimStatus.REINSTATED


@pytest.mark.requirement("WATCH-bounded")
def test_what_stays_fallen_is_said_once_and_what_changes_again_is_said_again(house: House) -> None:
    told = watched(house)
    change(house, status="lost")
    on(house, 5)
    entries = len(house.events(told.id))
    on(house, 9)
    assert set(house.kinds(told.id)[entries:]) == {EventKind.WATCHED}
    change(house, status="broken")
    on(house, 10)
    judged = [event for event in house.events(told.id) if event.kind is EventKind.JUDGED]
    assert len(judged) == 3
    assert claim_events(house, told.id) == FALLEN, "it was withdrawn already"


@pytest.mark.requirement("WATCH-ends", "WATCH-bounded")
@pytest.mark.slow
def test_what_flaps_too_often_is_left_to_a_person(house: House) -> None:
    told = watched(house, {"every": "1h", "for": "30d"})
    hours = 0.0
    while house.get(told.id).due_us is not None:
        status = house.shop.rows["o-1"]["status"]
        change(house, status="lost" if status == "shipped" else "shipped")
        hours += 1.2
        house.work(hours * HOUR)
    sound(house)
    seen = state_of(house, told.id)
    assert (seen.changes, seen.over, seen.drifted) == (CHANGES_MAX, WatchEnd.CHANGES, True)
    assert house.get(told.id).review == DRIFT
    assert len(house.events(told.id)) < 8 * CHANGES_MAX


# --- people --------------------------------------------------------------------------------------------------------


def fallen(house: House, **options: Any) -> str:
    told = watched(house, **options)
    change(house, status="lost", author="human:bob")
    on(house, 1)
    assert house.get(told.id).review == DRIFT
    return told.id


@pytest.mark.requirement("WATCH-decided")
def test_the_packet_says_what_drifted(house: House) -> None:
    action_id = fallen(house)
    packet = look(house, action_id)
    body = packet.as_json()
    assert (packet.reason, packet.state) == (DRIFT, "reconciled_success")
    assert body["drift"]["changed"] == ["author", "status", "version"]  # type: ignore[call-overload, index]
    assert body["drift"]["held"]["status"] == "shipped"  # type: ignore[call-overload, index]
    assert body["authoritative"]["status"] == "lost"  # type: ignore[call-overload, index]
    assert body["differences"][0]["name"] == "status"  # type: ignore[call-overload, index]
    assert body["discrepancy"]["class"] == "stale_state"  # type: ignore[call-overload, index]


@pytest.mark.requirement("WATCH-decided")
def test_a_drift_can_be_known_denied_looked_at_again_or_closed_and_nothing_else(house: House) -> None:
    action_id = fallen(house)
    assert open_to(house, action_id) == {"attest_done", "attest_not_done", "verify_again", "abandon"}
    why = {one.decision.value: one.why_not for one in look(house, action_id).choices if not one.open}
    assert set(why) == {"compensate", "go_forward", "reopen"}
    assert all("by a new action" in said for said in why.values())
    for decision in why:
        with pytest.raises(ReviewError):
            resolve(house, action_id, decision)


@pytest.mark.requirement("WATCH-decided", "WATCH-ends")
def test_closing_a_drift_ends_its_watch(house: House) -> None:
    action_id = fallen(house)
    made = len(house.shop.looks)
    now = resolve(house, action_id, "abandon")
    assert (now.state, now.review, now.due_us, now.standing) == (State.RECONCILED_SUCCESS, "", None, False)
    on(house, 40)
    assert len(house.shop.looks) == made
    assert claim_status(house, action_id) is ClaimStatus.RETRACTED


@pytest.mark.requirement("WATCH-decided")
def test_a_drift_that_somebody_knows_of_is_watched_on_and_may_come_back(house: House) -> None:
    action_id = fallen(house)
    now = resolve(house, action_id, "attest_done")
    assert (now.review, now.standing, claim_status(house, action_id)) == ("", False, ClaimStatus.REINSTATED)
    assert (now.exit_code, "completed" in now.message) == (3, False), "a person's word is no reading"
    on(house, 4)
    assert house.get(action_id).review == "", "the same drift is no news"
    change(house, status="broken")
    on(house, 6)
    assert (house.get(action_id).review, claim_status(house, action_id)) == (DRIFT, ClaimStatus.RETRACTED)
    change(house, status="shipped")
    on(house, 8)
    assert house.get(action_id).standing


@pytest.mark.requirement("WATCH-decided", "WATCH-ends")
def test_whoever_says_that_it_was_never_done_ends_its_watch(house: House) -> None:
    action_id = fallen(house)
    now = resolve(house, action_id, "attest_not_done")
    assert (now.standing, now.may_repeat) == (False, False)
    on(house, 40)
    assert state_of(house, action_id).over == WatchEnd.WITHDRAWN
    assert len(house.shop.calls) == 1


@pytest.mark.requirement("WATCH-decided", "WATCH-back")
@pytest.mark.parametrize("late", [False, True])
def test_verifying_again_reads_at_once_by_the_strongest_path(house: House, late: bool) -> None:
    action_id = fallen(house, watch="1h" if late else DAILY, readers=TWO)
    before = house.runtime.now_us()
    now = resolve(house, action_id, "verify_again")
    assert (now.review, now.standing, house.shop.strong[-1]) == (DRIFT, False, True)
    assert house.runtime.now_us() == before
    house.shop.eyes = down
    now = resolve(house, action_id, "verify_again")
    assert (now.review, now.standing) == (DRIFT, False), "what could not be told stays before a person"
    house.shop.eyes = None
    change(house, status="shipped")
    now = resolve(house, action_id, "verify_again")
    assert (now.review, now.standing) == ("", True)
    assert len(house.shop.calls) == 1


@pytest.mark.requirement("WATCH-decided")
def test_nobody_decides_about_what_he_did_himself(house: House) -> None:
    action_id = fallen(house)
    own = Order(action_id, look(house, action_id).choices[0].decision, look(house, action_id).version, "agent:ops", "x")
    with pytest.raises(ReviewError) as refused:
        house.driver.drive(review.resolve(house.engine, own, TENANT, house.plans.get))
    assert refused.value.code == "review.self"


@pytest.mark.requirement("WATCH-claim", "WATCH-bounded")
def test_subscribers_are_told_what_fell_and_came_back_and_nothing_of_quiet_looks(house: House) -> None:
    told = watched(house)
    before = len(house.events(told.id))
    on(house, 2)
    change(house, status="lost")
    on(house, 4)
    change(house, status="shipped")
    on(house, 6)
    history = house.store.events(told.id)
    names = [one.name.value for at in range(before, len(history)) for one in messages_of("log", history[: at + 1])]
    assert names == ["review.required", "claim.contested", "claim.retracted", "claim.reinstated"]


@pytest.mark.requirement("WATCH-faults", "WATCH-undetermined")
def test_a_reader_that_asks_for_what_was_redacted_is_not_at_fault(house: House) -> None:
    told = watched(house, {**DAILY, "ensure": ["shipped"]}, ensure=SHIPPED, redact=["requested.status"])

    def eyes(ctx: Context, args: Args) -> Reading:
        return house.shop.show(args) if args["status"] else Reading.absent()

    house.shop.eyes = eyes
    on(house, 5)
    assert (house.get(told.id).standing, state_of(house, told.id).failing > 0) == (True, True)
    assert house.store.counts(TENANT) == []
    house.shop.eyes = None
    change(house, status="lost")
    on(house, 8)
    assert claim_events(house, told.id) == FALLEN, "a reader that does not ask for it can tell"


SHIPPED = {"shipped": "authoritative.status == 'shipped'", "status": "authoritative.status == requested.status"}
