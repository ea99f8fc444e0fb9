"""A lost request goes out again under a key that the tool honours: after a look, and within bounds."""

from __future__ import annotations

from typing import Any

import pytest

from readback.domain.context import Context
from readback.domain.contract.contract import ATTEMPTS_MAX
from readback.domain.events import EventKind
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import State
from readback.domain.verification.reading import Lookup, Reading
from readback.errors import PayloadConflictError
from readback.ports.storage.store import Freeze
from readback.testing.driver_virtual import CallHangs, ProcessDied
from tests.lifecycle.approving import approve, listed
from tests.lifecycle.house import STAMPED, TENANT, House, S

TERMS: dict[str, Any] = {"timeout": "1s", "honours_key": True}
KEYED: dict[str, Any] = {"execute": TERMS, "kind": "create", **STAMPED}
KNOWN: dict[str, Any] = {**KEYED, "execute": {**TERMS, "key_valid_for": "1h"}}


def _lost(ctx: Context, args: Any) -> object:
    raise CallHangs


def _reset(ctx: Context, args: Any) -> object:
    raise ConnectionResetError("lost")


def _unavailable(ctx: Context, args: Any) -> object:
    return (503, {"error": "unavailable"})


def _busy(ctx: Context, args: Any) -> object:
    return (429, {})


def _dies(ctx: Context, args: Any) -> object:
    raise ProcessDied


@pytest.fixture
def empty(house: House) -> House:
    house.shop.rows.clear()
    return house


def _first(house: House, fault: Any, then: Any = None) -> None:
    """The first call goes wrong, the later ones do what they are asked, once a key."""
    shop = house.shop
    done: set[str] = set()

    def tool(ctx: Context, args: Any) -> object:
        if len(shop.calls) == 1:
            return fault(ctx, args)
        if then is not None:
            return then(ctx, args)
        if ctx.idempotency_key not in done:
            done.add(ctx.idempotency_key)
            shop.ship(ctx, args)
        return {"status": "ok"}

    shop.tool = tool


def _again_elsewhere(house: House, told_id: str) -> Outcome:
    house.die()
    return house.wait(told_id)


@pytest.mark.requirement("KEY-honoured-is-used")
@pytest.mark.parametrize("fault", [_lost, _reset, _unavailable, _busy])
@pytest.mark.parametrize("late_window", [None, "1d"])
def test_a_lost_request_goes_out_again_under_its_honoured_key_and_is_verified(
    empty: House, fault: Any, late_window: str | None
) -> None:
    _first(empty, fault)
    told = empty.run(empty.action(late_window=late_window, **KEYED))
    assert (told.state, told.verified, told.attempts) == (State.RECONCILED_SUCCESS, True, 2)
    shop = empty.shop
    assert len(shop.calls) == 2
    assert len(set(shop.keys)) == len(set(shop.stamps)) == 1, "the same request"
    assert any(shop.calls[0] <= look < shop.calls[1] for look in shop.looks), "it was read before"
    assert shop.calls[1] - shop.calls[0] >= 1, "with backoff"


@pytest.mark.requirement("KEY-honoured-is-used")
@pytest.mark.parametrize("fault", [_lost, _unavailable])
def test_a_fault_that_repeats_ends_unknown_after_a_bounded_number_of_attempts(empty: House, fault: Any) -> None:
    empty.shop.tool = fault
    told = empty.run(empty.action(compensate={}, **KEYED))
    empty.work(86_400)
    calls = empty.shop.calls
    assert len(calls) == ATTEMPTS_MAX
    assert calls[2] - calls[1] > calls[1] - calls[0], "with a growing backoff"
    assert calls[-1] < 10 + 1, "while the deadline allows"
    assert (told.verified, told.may_repeat) == (False, False)
    assert told.state in (State.UNKNOWN, State.REVIEW_REQUIRED)


@pytest.mark.requirement("KEY-honoured-is-used")
def test_a_server_error_that_repeats_is_no_failure_also_when_nothing_may_land_any_more(empty: House) -> None:
    empty.shop.tool = _unavailable
    told = empty.run(empty.action(late_window="5s", **KEYED))
    assert (told.state, told.may_repeat) == (State.REVIEW_REQUIRED, False)


@pytest.mark.requirement("KEY-honoured-frees-nothing")
def test_an_honoured_key_frees_nothing(empty: House) -> None:
    empty.shop.tool = _lost
    made = empty.action(**KEYED)
    told = empty.run(made)
    again = empty.run(made)
    assert (again.id, again.replayed) == (told.id, True)
    with pytest.raises(PayloadConflictError):
        empty.run(made, status="returned")
    assert len(empty.shop.calls) == ATTEMPTS_MAX


@pytest.mark.requirement("KEY-honoured-is-used")
def test_without_an_honoured_key_nothing_is_sent_again(empty: House) -> None:
    _first(empty, _lost)
    told = empty.run(empty.action(**{**KEYED, "execute": {"timeout": "1s"}}))
    assert (len(empty.shop.calls), told.verified) == (1, False)


@pytest.mark.requirement("KEY-honoured-is-used")
def test_what_the_tool_answered_is_not_sent_again(empty: House) -> None:
    for answer in ({"status": "ok"}, (422, {"error": "no"}), {"success": False}, (202, {})):
        house = House()
        house.shop.rows.clear()
        house.shop.tool = lambda ctx, args, answer=answer: answer
        house.run(house.action(**KEYED))
        assert len(house.shop.calls) == 1, answer


@pytest.mark.requirement("KEY-honoured-is-used")
def test_the_key_is_looked_up_before_and_only_an_unknown_key_is_sent_again(empty: House) -> None:
    _first(empty, _lost)
    told = empty.run(empty.action(lookup=True, **KEYED))
    assert (told.verified, len(empty.shop.calls)) == (True, 2)
    assert empty.shop.lookups[0] < empty.shop.calls[1]
    for record in (Lookup.pending, lambda: Lookup.landed({"id": 1})):
        house = House()
        house.shop.rows.clear()
        house.shop.tool, house.shop.record = _lost, lambda ctx, args, record=record: record()
        house.run(house.action(lookup=True, **KEYED))
        assert len(house.shop.calls) == 1


@pytest.mark.requirement("KEY-honoured-is-used")
def test_where_nothing_can_be_read_nothing_is_sent_again(empty: House) -> None:
    empty.shop.tool = _lost
    empty.shop.eyes = lambda ctx, args: Reading.unavailable("503")
    empty.run(empty.action(**KEYED))
    assert len(empty.shop.calls) == 1


@pytest.mark.requirement("KEY-honoured-is-used")
def test_what_landed_though_its_answer_was_lost_is_not_sent_again(empty: House) -> None:
    def landed(ctx: Context, args: Any) -> object:
        empty.shop.ship(ctx, args)
        raise CallHangs

    empty.shop.tool = landed
    told = empty.run(empty.action(**KEYED))
    assert (told.verified, told.attempts) == (True, 1)


# --- after a restart ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("KEY-retention")
def test_a_process_that_died_before_it_sent_leaves_a_request_that_goes_out_again(empty: House) -> None:
    _first(empty, _dies)
    with pytest.raises(ProcessDied):
        empty.run(empty.action(**KNOWN))
    told = _again_elsewhere(empty, empty.only())
    assert (told.verified, told.attempts) == (True, 2)
    assert len(set(empty.shop.keys)) == len(set(empty.shop.stamps)) == 1


@pytest.mark.requirement("KEY-retention")
@pytest.mark.parametrize(("terms", "after_s"), [(KEYED, 0), (KNOWN, 3600), (KNOWN, 86_400)])
def test_after_a_restart_nothing_is_sent_again_outside_of_the_declared_retention(
    empty: House, terms: dict[str, Any], after_s: int
) -> None:
    _first(empty, _dies)
    with pytest.raises(ProcessDied):
        empty.run(empty.action(**terms))
    empty.runtime.advance(after_s)
    told = _again_elsewhere(empty, empty.only())
    assert (len(empty.shop.calls), told.verified, told.may_repeat) == (1, False, False)


@pytest.mark.requirement("KEY-retention")
def test_the_end_of_the_retention_is_the_end_also_without_a_restart(empty: House) -> None:
    _first(empty, _lost)
    brief = {**KEYED, "execute": {**TERMS, "key_valid_for": "1500ms"}}
    told = empty.run(empty.action(**brief))
    assert len(empty.shop.calls) == 2
    assert told.verified
    house = House()
    house.shop.rows.clear()
    _first(house, _lost)
    house.run(house.action(**{**KEYED, "execute": {**TERMS, "key_valid_for": "1s"}}))
    assert len(house.shop.calls) == 1


# --- never after --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("KEY-never-after")
def test_a_cancelled_request_is_not_sent_again(empty: House) -> None:
    _first(empty, _lost)
    made = empty.action(**KNOWN)
    pending = empty.run(made, wait_s=1.5)
    assert pending.state is State.PENDING
    empty.cancel(pending.id)
    empty.work(3600)
    assert len(empty.shop.calls) == 1


@pytest.mark.requirement("KEY-never-after")
@pytest.mark.parametrize("when", ["before", "in between"])
def test_a_frozen_target_is_not_acted_on_again(empty: House, when: str) -> None:
    def freeze() -> None:
        frozen = Freeze(TENANT, "tenant:acme", "somebody", "elsewhere", 1)
        empty.store._content.freezes[TENANT, "tenant:acme", "somebody"] = frozen

    _first(empty, _lost)
    made = empty.action(**KEYED)
    at_s = 1.5 if when == "before" else 2.0
    empty.driver.at(empty.runtime.now_us() + round(at_s * S), freeze)
    told = empty.run(made)
    assert len(empty.shop.calls) == 1
    assert not told.verified
    assert told.state is not State.FAILED


@pytest.mark.requirement("KEY-never-after")
def test_an_approval_that_is_over_lets_nothing_go_out_again(empty: House) -> None:
    _first(empty, _lost)
    listed(empty)
    made = empty.action(approval={"people": 1, "expires": "1500ms"}, **KNOWN)
    held = empty.run(made)
    approve(empty, held.id)
    told = empty.wait(held.id)
    assert len(empty.shop.calls) == 1
    assert not told.verified


@pytest.mark.requirement("KEY-honoured-is-used")
def test_each_repetition_is_an_attempt_on_record(empty: House) -> None:
    _first(empty, _lost)
    told = empty.run(empty.action(**KEYED))
    kinds = empty.kinds(told.id)
    assert kinds.count(EventKind.ATTEMPTED) == 2
    rows = [e.data["row"] for e in empty.events(told.id) if e.kind is EventKind.JUDGED]
    assert "RB-mismatch-resend" in rows
    states = empty.states(told.id)
    assert State.FAILED not in states


@pytest.mark.requirement("KEY-honoured-is-used")
def test_a_reading_that_decides_nothing_is_looked_at_again_on_schedule_and_not_in_a_circle(empty: House) -> None:
    """What is read is another tenant's: the request is due to go out again, and no row lets it."""
    empty.shop.tool = _unavailable
    empty.shop.eyes = lambda ctx, args: Reading.of({"id": "o-1", "tenant": "another", "status": "open"})
    empty.run(empty.action(**KEYED))
    assert len(empty.shop.looks) < 12
    assert len(empty.shop.calls) == 1


@pytest.mark.requirement("KEY-honoured-is-used")
def test_what_was_seen_once_and_is_gone_is_not_sent_again(empty: House) -> None:
    """The request landed, with another value, and somebody took the object away."""
    shop = empty.shop

    def lands(ctx: Context, args: Any) -> object:
        shop.ship(ctx, {**args, "status": "packing"})
        empty.driver.at(empty.runtime.now_us() + round(1.7 * S), shop.rows.clear)
        raise CallHangs

    shop.tool = lands
    told = empty.run(empty.action(intermediate={"status": "authoritative.status == 'packing'"}, **KEYED))
    empty.work(3_600)
    assert len(shop.calls) == 1
    assert not empty.get(told.id).verified
