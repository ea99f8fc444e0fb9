"""Watching after success: looks go on, a drift withdraws the claim that it holds, and nothing is ever done about it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from readback.domain.action.claim import ClaimKind, ClaimStatus, Reason, last_event_of
from readback.domain.context import Context
from readback.domain.contract.watch import WatchEnd
from readback.domain.discrepancy import Discrepancy
from readback.domain.events import EventKind
from readback.domain.people.review import DRIFT
from readback.domain.state import State
from readback.domain.verdict import Verdict
from readback.domain.verification.reading import Reading
from tests.lifecycle.approving import CRITICAL, approve, listed
from tests.lifecycle.house import SHIP, TENANT, House
from tests.lifecycle.reviewing import sound
from tests.lifecycle.watching import (
    AGREED,
    DAILY,
    DAY,
    HOUR,
    change,
    claim_events,
    claim_status,
    holds,
    looks,
    on,
    state_of,
    watched,
)

Args = Mapping[str, Any]
FALLEN = [EventKind.CLAIM_CONTESTED, EventKind.CLAIM_RETRACTED]
ENTRY_MAX_BYTES = 1_000


# --- what is asked for ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("WATCH-asked")
def test_what_nobody_asked_to_watch_is_over_with_its_success(house: House) -> None:
    told = house.run(house.action())
    assert (told.verified, told.due_us) == (True, None)
    on(house, 400)
    assert EventKind.WATCHED not in house.kinds(told.id)
    assert house.folded(told.id).watch is None


@pytest.mark.requirement("WATCH-asked", "WATCH-bounded")
def test_a_single_duration_is_one_look(house: House) -> None:
    told = watched(house, "1h")
    before = len(house.shop.looks)
    on(house, 30)
    assert len(house.shop.looks) == before + 1
    assert HOUR <= house.shop.looks[-1] <= 1.1 * HOUR
    assert (house.get(told.id).due_us, state_of(house, told.id).over) == (None, WatchEnd.TIME)


@pytest.mark.requirement("WATCH-asked", "WATCH-bounded")
def test_it_is_looked_at_on_its_schedule_and_then_no_more(house: House) -> None:
    told = watched(house)
    made = len(house.shop.looks)
    on(house, 60)
    seen = house.shop.looks[made:]
    assert HOUR <= seen[0] <= 1.1 * HOUR
    pauses = [after - before for before, after in pairwise(seen)]
    assert all(DAY <= pause <= 1.1 * DAY for pause in pauses)
    assert 27 <= len(seen) <= 30
    assert seen[-1] <= 30 * DAY
    assert house.get(told.id).due_us is None
    assert len(house.shop.calls) == 1


@pytest.mark.slow
@pytest.mark.requirement("WATCH-bounded")
def test_a_year_of_daily_looks_is_a_year_of_small_entries(house: House) -> None:
    told = watched(house, {"every": "1d", "for": "365d"})
    before = len(house.events(told.id))
    evidence = house.store.evidence_bytes(TENANT)
    house.work(370 * DAY)
    entries = house.store.events(told.id)[before:]
    assert 330 <= len(entries) <= 365
    assert {entry.kind for entry in entries} == {"watched"}
    assert max(len(entry.envelope) for entry in entries) < ENTRY_MAX_BYTES
    assert house.store.evidence_bytes(TENANT) == evidence, "a quiet look keeps no payload"
    assert house.get(told.id).standing
    sound(house)


@pytest.mark.requirement("WATCH-settled")
def test_whoever_waits_for_a_watched_success_is_answered_at_once(house: House) -> None:
    told = watched(house)
    at = house.runtime.now_us()
    again = house.wait(told.id)
    assert (house.runtime.now_us(), again.verified, again.settled) == (at, True, True)
    assert house.run(house.action(watch=DAILY, identity=AGREED)).replayed


@pytest.mark.requirement("WATCH-asked")
def test_only_the_named_postconditions_have_to_hold_later(house: House) -> None:
    ensure = {**SHIP["ensure"], "version": "authoritative.version == 2"}
    told = watched(house, {**DAILY, "ensure": ["status"]}, ensure=ensure)
    change(house, note="read by somebody")
    on(house, 3)
    assert (house.get(told.id).standing, claim_events(house, told.id)) == (True, [])
    change(house, status="lost")
    on(house, 6)
    assert claim_status(house, told.id) is ClaimStatus.RETRACTED


# --- it drifts -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("WATCH-drift", "WATCH-claim")
def test_a_drift_is_a_discrepancy_a_retraction_and_a_review(house: House) -> None:
    told = watched(house)
    on(house, 2)
    change(house, status="lost", author="agent:ops")
    on(house, 5)
    now = house.get(told.id)
    assert (now.state, now.verdict, now.discrepancy) == (
        State.RECONCILED_SUCCESS,
        Verdict.REFUTED,
        Discrepancy.VALUE_MISMATCH,
    )
    assert (now.verified, now.standing, now.contested, now.review, now.row) == (False, False, True, DRIFT, "RB-drift")
    assert claim_events(house, told.id) == FALLEN
    said = holds(house, told.id)
    assert said is not None
    assert (said.status, said.reason) == (ClaimStatus.RETRACTED, Reason.DRIFTED)
    assert last_event_of(house.folded(told.id).claims, ClaimKind.HAPPENED) is None, "that it happened stands"
    assert (now.exit_code, "completed" in now.message) == (1, False)
    assert not now.told
    assert len(house.shop.calls) == 1
    assert not now.may_repeat
    stored = house.store.projection(told.id)
    assert stored is not None
    assert (stored.projection.review, stored.projection.claim) == (DRIFT, "retracted")


@pytest.mark.requirement("WATCH-class", "TRUTH-verdict-7")
@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"status": "lost"}, Discrepancy.VALUE_MISMATCH),
        ({"status": "lost", "stamp": "rb-another"}, Discrepancy.STALE_STATE),
        ({"status": "lost", "author": "agent:night"}, Discrepancy.STALE_STATE),
        ({"status": "lost", "stamp": "", "author": "agent:night"}, Discrepancy.STALE_STATE),
        ({"tenant": "globex"}, Discrepancy.WRONG_TARGET_MODIFIED),
    ],
)
def test_the_class_of_a_drift_says_who_changed_what(house: House, fields: Any, found: Discrepancy) -> None:
    told = watched(house)
    change(house, **fields)
    on(house, 1)
    now = house.get(told.id)
    assert (now.discrepancy, now.review, claim_status(house, told.id)) == (found, DRIFT, ClaimStatus.RETRACTED)
    assert now.state is State.RECONCILED_SUCCESS


@pytest.mark.requirement("WATCH-class")
@pytest.mark.parametrize("kind", ["set", "create"])
def test_what_was_deleted_is_missing(house: House, kind: str) -> None:
    house.shop.rows.clear()
    told = watched(house, kind=kind)
    house.shop.rows.clear()
    on(house, 1)
    assert house.get(told.id).discrepancy is Discrepancy.TARGET_MISSING
    assert claim_events(house, told.id) == FALLEN


@pytest.mark.requirement("WATCH-class")
def test_what_was_deleted_and_is_there_again_has_drifted(house: House) -> None:
    house.shop.tool = lambda ctx, args: house.shop.rows.pop(args["item"]) and {"status": "ok"}
    told = watched(house, kind="delete", ensure={"gone": "authoritative == null"}, identity=SHIP["identity"])
    on(house, 2)
    assert house.get(told.id).standing
    house.shop.rows["o-1"] = {"id": "o-1", "tenant": TENANT, "status": "open", "version": 1, "stamp": "rb-new"}
    on(house, 4)
    assert (house.get(told.id).discrepancy, claim_status(house, told.id)) == (
        Discrepancy.STALE_STATE,
        ClaimStatus.RETRACTED,
    )


@pytest.mark.requirement("WATCH-class")
def test_a_part_that_fell_is_named(house: House) -> None:
    groups = {
        "shipping": {"status": "authoritative.status == requested.status"},
        "stock": {"version": "authoritative.version >= 1"},
    }
    told = watched(house, ensure=groups)
    change(house, status="lost")
    on(house, 1)
    now = house.get(told.id)
    assert (now.discrepancy, now.parts_done, now.parts_open) == (
        Discrepancy.VALUE_MISMATCH,
        ("stock",),
        ("shipping",),
    )


@pytest.mark.requirement("WATCH-class")
def test_what_fails_for_good_later_has_drifted_also_where_no_reader_is_strong(house: House) -> None:
    told = watched(
        house,
        fails_when="has(authoritative.bounced) && authoritative.bounced",
        readers=(("session", "other_client", "orders"),),
    )
    change(house, bounced=True)
    on(house, 1)
    assert claim_events(house, told.id) == FALLEN
    change(house, bounced=False)
    on(house, 3)
    assert house.get(told.id).standing


@pytest.mark.requirement("WATCH-others")
@pytest.mark.parametrize("kind", ["set", "create"])
def test_what_others_change_beside_it_is_no_drift(house: House, kind: str) -> None:
    house.shop.rows.clear()
    told = watched(house, kind=kind, **({"may_change": ["status"]} if kind == "set" else {}))
    change(house, note="packed by hand", author="human:bob", stamp="rb-another")
    on(house, 3)
    assert (house.get(told.id).standing, claim_events(house, told.id)) == (True, [])
    assert looks(house, told.id) == 3


@pytest.mark.requirement("WATCH-drift")
def test_a_critical_mutation_drifts_only_where_as_many_readers_as_it_needs_agree(house: House) -> None:
    split = {"on": False}
    shown = iter(range(10_000))

    def eyes(ctx: Context, args: Args) -> Reading:
        seen = house.shop.show(args)
        if split["on"] and next(shown) % 2:
            return Reading.of({**seen.value, "status": "open"}, version=seen.version, stamp=seen.stamp)  # type: ignore[dict-item]
        return seen

    house.shop.eyes = eyes
    made = listed(house).action(watch=DAILY, **CRITICAL)
    approve(house, house.run(made).id)
    told = house.run(made)
    assert told.verified, (told.state, told.detail)
    split["on"] = True
    on(house, 3)
    assert claim_events(house, told.id) == [], "they contradict each other: that says nothing"
    split["on"] = False
    change(house, status="lost")
    on(house, 6)
    assert claim_events(house, told.id) == FALLEN
