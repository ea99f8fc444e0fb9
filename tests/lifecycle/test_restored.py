"""An action that a restored ledger held: whatever is read afterwards, a person says that it was not done, or nobody."""

from __future__ import annotations

from typing import Any

import pytest

from readback.audit.maintenance.restore import hold_in_flight
from readback.client.authoring.action import ActionDefinition
from readback.domain.context import Context
from readback.domain.discrepancy import Discrepancy
from readback.domain.state import State
from readback.domain.verification.reading import Lookup
from tests.lifecycle.house import STAMPED, House
from tests.lifecycle.reviewing import resolve

MAKE: dict[str, Any] = {"kind": "create", "late_window": "5s", "find": True, **STAMPED}


def _lost(ctx: Context, args: Any) -> object:
    raise ConnectionError("The connection was cut.")


def _in_flight(house: House, **options: Any) -> tuple[ActionDefinition[Any], str]:
    house.shop.rows.clear()
    house.shop.tool = _lost
    made = house.action(**{**MAKE, **options})
    return made, house.run(made, wait_s=0).id


def _restored(house: House, **options: Any) -> tuple[ActionDefinition[Any], str]:
    made, action_id = _in_flight(house, **options)
    assert hold_in_flight(house.store, "human:eve", "The disk broke.", house.runtime.now_us()).actions == 1
    return made, action_id


def test_without_a_restore_an_attempt_of_which_nothing_is_found_fails_without_a_person(house: House) -> None:
    _, action_id = _in_flight(house)
    house.work(60)
    assert house.get(action_id).state is State.FAILED
    assert State.REVIEW_REQUIRED not in house.states(action_id)


@pytest.mark.requirement("RESTORE-in-flight-held")
def test_a_restored_action_of_which_nothing_is_found_stays_with_a_person(house: House) -> None:
    made, action_id = _restored(house)
    house.work(60)
    told = resolve(house, action_id, "verify_again")
    assert (told.state, told.may_repeat) == (State.REVIEW_REQUIRED, False)
    house.work(100_000)
    assert State.FAILED not in house.states(action_id)
    house.shop.tool = None
    again = house.run(made)
    assert (again.id, again.verified, len(house.shop.calls)) == (action_id, False, 1)
    resolve(house, action_id, "attest_not_done")
    assert house.run(made).verified


@pytest.mark.requirement("RESTORE-in-flight-held")
def test_a_restored_action_fails_by_itself_only_where_the_key_s_record_says_that_it_failed(house: House) -> None:
    _, action_id = _restored(house, lookup=True)
    house.shop.record = lambda ctx, args: Lookup.failed()
    resolve(house, action_id, "verify_again")
    house.work(60)
    assert house.get(action_id).state is State.FAILED


@pytest.mark.requirement("RESTORE-in-flight-held", "KEY-three-reasons")
@pytest.mark.parametrize("restored", [False, True])
def test_a_refusal_and_an_unchanged_region_free_no_key_of_a_restored_action(restored: bool, house: House) -> None:
    """Another attempt may have been made after the backup: no reading of now can tell."""
    house.shop.tool, house.shop.record = _lost, lambda ctx, args: Lookup.pending()
    seen = {"whole_region": True, "require": {"open": "before.status == 'open'"}}
    action_id = house.run(house.action(lookup=True, late_window="5s", **seen), wait_s=0).id
    if restored:
        hold_in_flight(house.store, "human:eve", "The disk broke.", house.runtime.now_us())
    house.shop.record = lambda ctx, args: Lookup.failed("declined")
    if restored:
        resolve(house, action_id, "verify_again")
    house.work(60)
    told = house.get(action_id)
    assert (told.state, told.may_repeat) == (State.FAILED, not restored)


@pytest.mark.requirement("RESTORE-in-flight-held")
@pytest.mark.parametrize("restored", [False, True])
def test_what_another_changed_meanwhile_ends_a_restored_action_by_a_persons_word_alone(
    restored: bool, house: House
) -> None:
    house.shop.tool = _lost
    action_id = house.run(house.action(late_window="5s", find=True, **STAMPED), wait_s=0).id
    if restored:
        hold_in_flight(house.store, "human:eve", "The disk broke.", house.runtime.now_us())
    house.shop.rows["o-1"] = {**house.shop.rows["o-1"], "status": "held", "stamp": "rb-other", "version": 7}
    if restored:
        resolve(house, action_id, "verify_again")
    house.work(60)
    told = house.get(action_id)
    assert (told.state, told.discrepancy) == (
        State.REVIEW_REQUIRED if restored else State.FAILED,
        Discrepancy.STALE_STATE,
    )
    assert (State.FAILED in house.states(action_id)) is not restored


@pytest.mark.requirement("RESTORE-in-flight-held")
@pytest.mark.parametrize("restored", [False, True])
def test_a_restored_action_is_not_sent_again_though_its_key_is_honoured(restored: bool, house: House) -> None:
    house.shop.rows.clear()
    house.shop.tool = _lost
    honours = {"execute": {"timeout": "1s", "honours_key": True}, "key_valid_for": "1h", "within": "60s"}
    action_id = house.run(house.action(**{**MAKE, **honours, "late_window": None}), wait_s=0).id
    calls = len(house.shop.calls)
    if restored:
        hold_in_flight(house.store, "human:eve", "The disk broke.", house.runtime.now_us())
        resolve(house, action_id, "verify_again")
    house.shop.tool = None
    house.work(120)
    assert (len(house.shop.calls) > calls) is not restored
    assert house.get(action_id).verified is not restored


@pytest.mark.requirement("RESTORE-in-flight-held")
@pytest.mark.parametrize("said", [Lookup.unknown_key(), Lookup.pending()])
def test_a_restored_action_whose_key_has_no_final_record_stays_with_a_person(said: Lookup, house: House) -> None:
    _, action_id = _restored(house, lookup=True)
    house.shop.record = lambda ctx, args: said
    resolve(house, action_id, "verify_again")
    house.work(100_000)
    assert house.get(action_id).state is State.REVIEW_REQUIRED
    assert State.FAILED not in house.states(action_id)
