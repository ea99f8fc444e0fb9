"""What is told of a state that is open: the reason, the class past the deadline, and the search that failed."""

from __future__ import annotations

from typing import Any

import pytest

from readback.domain.context import Context
from readback.domain.discrepancy import Discrepancy
from readback.domain.state import State
from readback.domain.verdict import Verdict, Why
from readback.domain.verification.reading import Presence, Reading
from tests.lifecycle.approving import ASKED, CRITICAL, approve, listed
from tests.lifecycle.house import HIGH, STAMPED, House

pytestmark = pytest.mark.slow


def test_a_failed_search_is_named_with_its_reason_wherever_the_action_is_told(house: House) -> None:
    def broken(ctx: Context, args: Any) -> object:
        raise RuntimeError("the list goes on on another page")

    house.shop.rows.clear()
    house.shop.search = broken
    told = house.run(house.action(kind="create", find=True, late_window="0s", **HIGH))
    assert (told.verdict, told.discrepancy) == (Verdict.UNDETERMINED, Discrepancy.UNVERIFIABLE_STATE)
    assert "The search for what this action left failed: " in told.detail
    assert "raised RuntimeError: the list goes on on another page" in told.detail
    for text in (told.for_model(), house.get(told.id).for_model()):
        assert "the list goes on on another page" in text
        assert "Open because: " in text
        assert "committed" not in text


@pytest.mark.parametrize(
    ("eyes", "why"),
    [
        (lambda ctx, args: Reading.unavailable("503"), Why.UNREACHABLE),
        (lambda ctx, args: Reading.not_visible("404"), Why.INCOMPLETE),
    ],
)
def test_what_cannot_be_read_until_the_deadline_has_a_class_and_a_reason(house: House, eyes: Any, why: Why) -> None:
    house.shop.eyes = lambda ctx, args: eyes(ctx, args) if house.shop.calls else house.shop.show(args)
    told = house.run(house.action())
    assert (told.verdict, told.why) == (Verdict.UNDETERMINED, why)
    expected = Discrepancy.UNVERIFIABLE_STATE if why is Why.UNREACHABLE else Discrepancy.UNKNOWN_STATE
    assert told.discrepancy is expected
    assert f"Open because: {why.value}." in told.for_model()


def test_a_text_where_a_number_is_compared_has_a_class(house: House) -> None:
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, total="5")
    told = house.run(house.action(ensure={"total": "authoritative.total > 3"}))
    assert not told.verified
    assert told.discrepancy in (Discrepancy.UNKNOWN_STATE, Discrepancy.VALUE_MISMATCH)
    assert told.verdict is Verdict.UNDETERMINED


def test_a_change_beside_the_declared_fields_is_told_as_that(house: House) -> None:
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, paid=7)
    frame = ["status", "version", "stamp", "author"]
    told = house.run(house.action(may_change=frame, **STAMPED))
    assert (told.verdict, told.discrepancy) == (Verdict.REFUTED, Discrepancy.VALUE_MISMATCH)
    assert told.detail == "Changed beside the declared fields: paid."
    assert "fields changed beside those that the action declares" in told.message
    assert "Changed beside the declared fields: paid." in told.for_model()


GROUPS = {
    "shipping": {"status": "authoritative.status == requested.status"},
    "billing": {"paid": "has(authoritative.paid) && authoritative.paid == 5"},
}


@pytest.mark.parametrize(
    ("written", "discrepancy"),
    [({"paid": 4}, Discrepancy.VALUE_MISMATCH), ({}, Discrepancy.PARTIAL_APPLICATION)],
)
def test_one_of_several_parts_with_a_wrong_value_is_a_wrong_value_and_a_missing_one_is_partial(
    house: House, written: Any, discrepancy: Discrepancy
) -> None:
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, **written)
    told = house.run(
        house.action(ensure=GROUPS, may_change=["status", "version", "stamp", "author", "paid"], **STAMPED)
    )
    assert (told.verdict, told.discrepancy) == (Verdict.REFUTED, discrepancy)
    assert (told.parts_done, told.parts_open) == (("shipping",), ("billing",))


def test_a_reader_is_told_nothing_of_before_until_the_call_also_under_an_approval(house: House) -> None:
    listed(house)
    seen: list[tuple[int, object]] = []

    def look(ctx: Context, args: Any) -> Reading:
        seen.append((len(house.shop.calls), ctx.before))
        return house.shop.show(args)

    house.shop.eyes = look
    made = house.action(require={"open": "before.status == 'open'"}, **ASKED)
    held = house.run(made)
    approve(house, held.id)
    house.work(1)
    assert house.get(held.id).verified
    before = [told for calls, told in seen if not calls]
    assert len(before) >= 2
    assert before == [None] * len(before)
    assert any(told is not None for calls, told in seen if calls)


def test_a_critical_mutation_with_one_source_is_read_for_the_person_and_never_verified(house: House) -> None:
    listed(house)
    one = {**CRITICAL, "readers": (("strong", "other_system", "ledger"),), "unverifiable": "There is one source."}
    held = house.run(house.action(**one))
    assert (held.state, held.hold, house.shop.calls) == (State.VALIDATED, "approval", [])
    approve(house, held.id)
    house.work(600)
    told = house.get(held.id)
    assert len(house.shop.calls) == 1
    assert house.shop.looks
    assert not told.verified
    assert (told.state, told.verdict, told.why) == (State.REVIEW_REQUIRED, Verdict.UNDETERMINED, Why.UNVERIFIABLE)
    assert isinstance(told.authoritative, dict)
    assert told.authoritative["status"] == "shipped"
    assert "informs, and verifies nothing" in told.detail
    assert Presence.PRESENT.value in {str(each.data.get("presence")) for each in house.events(held.id)}
