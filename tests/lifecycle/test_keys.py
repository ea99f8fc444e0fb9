"""One operation is executed once: joining, replaying, refusing, and the one repetition that is allowed."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pytest

from readback.domain.context import Context
from readback.domain.contract.contract import ATTEMPTS_MAX
from readback.domain.events import EventKind
from readback.domain.idempotency import KEY_KEPT_US
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import State
from readback.domain.verification.reading import Lookup
from readback.errors import PayloadConflictError, ProposalError
from readback.testing.driver_virtual import CallerCancelled, CallHangs, ProcessDied
from tests.lifecycle.house import HIGH, MEDIUM, House, S


def _nothing(ctx: Context, args: Any) -> object:
    return {"status": "ok"}


def _error(ctx: Context, args: Any) -> object:
    return (500, {"error": "internal"})


def _hang(ctx: Context, args: Any) -> object:
    raise CallHangs


def _failed(ctx: Context, args: Any) -> Lookup:
    return Lookup.failed("declined")


@pytest.mark.requirement("HS-06", "TRUTH-keys-second-run", "PRINCIPLE-idempotency")
def test_a_second_run_of_the_same_operation_gets_the_recorded_outcome_and_calls_nothing(house: House) -> None:
    made = house.action()
    first = house.run(made)
    again = house.run(made)
    assert (first.replayed, again.replayed) == (False, True)
    assert replace(again, replayed=False) == first
    assert len(house.shop.calls) == 1
    assert "nothing was executed again" in again.message
    assert len(list(house.store.projections())) == 1


@pytest.mark.requirement("TRUTH-keys-second-run")
def test_a_second_run_joins_the_first_while_that_is_in_flight(house: House) -> None:
    house.shop.tool = _nothing
    made = house.action()
    pending = house.run(made, wait_s=1)
    house.driver.at(house.runtime.now_us() + 3 * S, lambda: house.shop.rows["o-1"].update(status="shipped", version=2))
    joined = house.run(made)
    assert (joined.id, joined.verified, joined.replayed) == (pending.id, True, True)
    assert len(house.shop.calls) == 1


@pytest.mark.requirement("HS-06", "HS-14", "TRUTH-late-no-repeat")
@pytest.mark.parametrize("days", [0, 1, 300])
def test_an_unknown_outcome_blocks_a_second_execution_for_ever(house: House, days: int) -> None:
    house.shop.tool = _hang
    made = house.action(compensate={}, late_window="399d")
    unknown = house.run(made)
    house.runtime.advance(days * 86_400)
    again = house.run(made)
    assert unknown.state is again.state is State.UNKNOWN
    assert (again.id, again.replayed, again.may_repeat) == (unknown.id, True, False)
    assert "do not repeat this action" in again.for_model()
    assert len(house.shop.calls) == 1


@pytest.mark.requirement("HS-06", "L20")
def test_the_same_operation_with_another_payload_is_refused_and_the_first_is_untouched(house: House) -> None:
    made = house.action()
    first = house.run(made)
    with pytest.raises(PayloadConflictError) as caught:
        house.run(made, status="returned")
    assert caught.value.details["action"] == first.id
    assert replace(house.get(first.id), replayed=False) == first
    assert len(house.shop.calls) == 1


@pytest.mark.requirement("TRUTH-keys-inputs")
def test_declared_key_fields_name_the_operation_where_the_caller_does_not(house: House) -> None:
    made = house.action(key_fields=["item"], **MEDIUM)
    first = house.run(made, "")
    again = house.run(made, "")
    assert (again.id, again.replayed) == (first.id, True)
    with pytest.raises(PayloadConflictError):
        house.run(made, "", status="returned")
    house.shop.rows["o-2"] = {**house.shop.rows["o-1"], "id": "o-2", "status": "open"}
    assert house.run(made, "", item="o-2").id != first.id


@pytest.mark.requirement("TRUTH-keys-operation-required")
def test_from_medium_risk_up_an_operation_is_required_and_below_it_is_drawn_fresh(house: House) -> None:
    for risky in (MEDIUM, HIGH):
        with pytest.raises(ProposalError):
            house.run(house.action(name=f"ship-{risky['side_effect']}", **risky), "")
    assert house.shop.calls == []
    made = house.action()
    first, second = house.run(made, ""), house.run(made, "")
    assert first.id != second.id
    assert len(set(house.shop.keys)) == 2


def _refuted(house: House, **options: Any) -> Outcome:
    house.shop.tool, house.shop.record = _nothing, _failed
    return house.run(house.action(lookup=True, **options))


@pytest.mark.requirement("TRUTH-late-no-repeat", "TRUTH-late-dead")
def test_what_a_proven_search_does_not_find_may_be_run_again_under_the_same_name(house: House) -> None:
    house.shop.tool = _nothing
    made = house.action(find=True, late_window="5s")
    failed = house.run(made)
    assert (failed.state, failed.may_repeat) == (State.FAILED, True)
    house.shop.tool = None
    again = house.run(made)
    assert (again.verified, again.replayed) == (True, False)
    assert again.id != failed.id
    assert house.get(failed.id).state is State.FAILED
    assert len(set(house.shop.keys)) == 1  # the same key: a provider that honours it can tell
    assert len(set(house.shop.stamps)) == 2


def test_a_record_that_is_older_than_it_is_kept_no_longer_answers(house: House) -> None:
    made = house.action(noop="allow")
    first = house.run(made)
    house.runtime.advance(KEY_KEPT_US / S + 1)
    assert house.run(made).id != first.id


# --- the retry under the same key ---------------------------------------------------------------------------------

KEYED: dict[str, Any] = {"execute": {"timeout": "1s", "honours_key": True, "key_valid_for": "1d"}}


@pytest.mark.requirement("L06", "REC-RULE-no-blind-retry", "STATE-failed->validated", "TRUTH-hold-order")
def test_only_what_is_refuted_dead_and_keyed_is_tried_again_and_under_the_same_key(house: House) -> None:
    shop = house.shop
    shop.record = _failed
    shop.tool = lambda ctx, args: shop.ship(ctx, args) if len(shop.calls) > 1 else _error(ctx, args)
    told = house.run(house.action(lookup=True, **KEYED))
    assert (told.verified, told.attempts) == (True, 2)
    assert len(set(shop.keys)) == len(set(shop.stamps)) == 1
    states = house.states(told.id)
    assert states.count(State.EXECUTING) == 2
    assert states[states.index(State.FAILED) + 1] is State.VALIDATED
    assert shop.looks[1:-1], "it was verified before it was tried again"


@pytest.mark.requirement("L06")
def test_attempts_have_an_end(house: House) -> None:
    told = _refuted(house, **KEYED)
    assert len(house.shop.calls) <= ATTEMPTS_MAX
    assert (told.state, told.may_repeat) == (State.FAILED, False)


@pytest.mark.requirement("L06", "L08", "L12", "TRUTH-verdict-9")
@pytest.mark.parametrize(
    ("tool", "options"),
    [
        (_error, {}),
        (_hang, {}),
        (_nothing, {}),
        (lambda ctx, args: {"accepted": False}, {}),
        (lambda ctx, args: {"success": False}, KEYED),  # keyed, and not dead
    ],
)
def test_nothing_else_is_called_a_second_time(house: House, tool: Any, options: dict[str, Any]) -> None:
    house.shop.tool = tool
    told = house.run(house.action(compensate={}, **options))
    house.work(86_400)
    assert len(house.shop.calls) == 1
    assert len(house.shop.looks) > 2
    assert not told.verified


def test_high_risk_is_not_tried_again_by_the_engine(house: House) -> None:
    told = _refuted(house, **KEYED, **HIGH)
    assert len(house.shop.calls) == 1
    assert told.state is State.FAILED


def test_an_attempt_that_crashed_is_not_taken_for_the_dead_one_before_it(house: House) -> None:
    """What the look-up said of the first attempt says nothing of the second."""
    shop = house.shop

    def tool(ctx: Context, args: Any) -> object:
        if len(shop.calls) > 1:
            raise ProcessDied
        return _error(ctx, args)

    shop.tool = tool
    shop.record = lambda ctx, args: _failed(ctx, args) if len(shop.calls) == 1 else Lookup.pending()
    made = house.action(lookup=True, compensate={}, late_window="1h", **KEYED)
    with pytest.raises(ProcessDied):
        house.run(made)
    house.die()
    told = house.wait(house.only())
    assert (told.attempts, told.state, told.may_repeat) == (2, State.UNKNOWN, False)
    assert len(shop.calls) == 2


def test_a_cancelled_action_is_not_tried_again(house: House) -> None:
    shop = house.shop

    def stop(ctx: Context, args: Any) -> object:
        raise CallerCancelled

    shop.tool, shop.record = stop, lambda ctx, args: Lookup.pending()
    made = house.action(lookup=True, **KEYED)
    pending = house.run(made)
    shop.record = _failed
    house.cancel(pending.id)
    ended = house.wait(pending.id)
    assert (ended.state, len(shop.calls)) == (State.FAILED, 1)


def _dead_before_the_second_attempt(**options: Any) -> House:
    """A house whose process died when another attempt had been allowed, and not yet begun."""
    for steps in range(8, 60):
        house = House()
        house.shop.tool, house.shop.record = _nothing, _failed
        made = house.action(lookup=True, **KEYED, **options)
        house.driver.vanish_at = steps
        with contextlib.suppress(ProcessDied):
            house.run(made)
        if house.folded(house.only()).state is State.VALIDATED:
            house.die()
            return house
    raise AssertionError("it never stood there")


def test_an_attempt_that_was_allowed_is_made_by_whoever_comes_next() -> None:
    house = _dead_before_the_second_attempt()
    house.shop.tool = None
    told = house.wait(house.only())
    assert (told.verified, told.attempts, len(house.shop.calls)) == (True, 2, 2)


@pytest.mark.requirement("TRUTH-time-cancel")
def test_an_attempt_that_was_allowed_and_cancelled_before_it_began_is_not_made() -> None:
    house = _dead_before_the_second_attempt()
    ended = house.cancel(house.only())
    assert (ended.state, ended.code, len(house.shop.calls)) == (State.FAILED, "cancelled", 1)
    assert not ended.may_repeat, "the first attempt left"
    assert house.kinds(ended.id)[-1] is EventKind.CANCELLED


def test_arguments_that_are_known_as_redacted_only_are_not_sent() -> None:
    house = _dead_before_the_second_attempt(redact=["requested.status"])
    ended = house.wait(house.only())
    assert (ended.state, ended.code, len(house.shop.calls)) == (State.FAILED, "arguments.redacted", 1)
