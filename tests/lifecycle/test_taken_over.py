"""What others made of a place meanwhile is not ours to take back, and what nobody could look at is not nothing."""

from __future__ import annotations

from typing import Any, Final

import pytest

from readback.domain.context import Context
from readback.domain.discrepancy import Discrepancy
from readback.domain.state import State
from readback.domain.verification.reading import Lookup, Reading
from tests.lifecycle.house import MEDIUM, SHIP, STAMPED, TENANT, House

Args = Any
EVES: Final[dict[str, Any]] = {"id": "o-1", "tenant": TENANT, "status": "lost", "stamp": "", "version": 7}


def _takes_the_place(house: House) -> None:
    """The tool does it, and somebody else's record stands there before anybody looks."""

    def tool(ctx: Context, args: Args) -> object:
        house.shop.ship(ctx, {**args, "item": "o-1-2"})
        house.shop.rows["o-1"] = dict(EVES)
        raise ConnectionResetError("lost")

    house.shop.rows.clear()
    house.shop.tool = tool


@pytest.mark.requirement("TRUTH-verdict-7")
def test_what_bears_no_stamp_of_ours_is_not_taken_back_since_the_keys_record_says_that_ours_landed() -> None:
    house = House()
    _takes_the_place(house)
    house.shop.record = lambda ctx, args: Lookup.landed({"id": "o-1-2"})
    terms = {"kind": "create", "lookup": True, "compensate": {}, "late_window": "1s"}
    told = house.run(house.action(**terms, **STAMPED))
    assert (told.state, told.may_repeat) == (State.REVIEW_REQUIRED, False)
    assert (house.shop.undone, house.shop.rows["o-1"]) == ([], EVES)


@pytest.mark.requirement("TRUTH-verdict-7")
def test_what_bears_no_stamp_of_ours_is_not_taken_back_where_the_search_shows_ours_as_it_was_asked_for() -> None:
    house = House()
    _takes_the_place(house)
    ours = {**EVES, "status": "shipped"}
    house.shop.search = lambda ctx, args: [Reading.of({**ours, "stamp": ctx.stamp}, stamp=ctx.stamp)]
    told = house.run(house.action(kind="create", find=True, compensate={}, late_window="1s", **STAMPED))
    assert (told.state, told.may_repeat) == (State.REVIEW_REQUIRED, False)
    assert (house.shop.undone, house.shop.rows["o-1"]) == ([], EVES)


def test_what_was_deleted_and_made_again_by_somebody_is_not_taken_back() -> None:
    house = House()
    house.shop.record = lambda ctx, args: Lookup.landed()

    def tool(ctx: Context, args: Args) -> object:
        house.shop.rows["o-1"] = {**EVES, "author": "seed"}
        raise ConnectionResetError("lost")

    house.shop.tool = tool
    undo = {"kind": "create", "ensure": {"there": "authoritative != null"}}
    gone = {"ensure": {"gone": "authoritative == null"}, "kind": "delete", "late_window": "1s"}
    told = house.run(house.action(lookup=True, compensate=undo, **gone))
    assert (told.state, house.shop.undone) == (State.REVIEW_REQUIRED, [])


def test_a_timeout_takes_nothing_back_where_a_weak_reading_shows_anothers_mark() -> None:
    house = House()
    _takes_the_place(house)
    house.shop.search = lambda ctx, args: [Reading.of({**EVES, "stamp": ctx.stamp}, stamp=ctx.stamp)]
    house.shop.eyes = lambda ctx, args: Reading.of({**EVES, "author": "human:eve"}, version=7)
    identity = {**MEDIUM["identity"], "stamp": "authoritative.stamp"}
    session = (("session", "other_client", "orders"),)
    made = house.action(
        readers=session, kind="create", find=True, compensate={}, **{**MEDIUM, "identity": identity}, late_window="1s"
    )
    told = house.run(made, wait_s=60)
    assert (told.verified, told.may_repeat, house.shop.undone) == (False, False, [])


@pytest.mark.requirement("TRUTH-kind-elsewhere")
@pytest.mark.parametrize("honours_key", [False, True])
def test_where_the_search_gives_no_answer_nobody_has_looked_elsewhere_whatever_the_tool_says(honours_key: bool) -> None:
    house = House()
    house.shop.rows.clear()

    def tool(ctx: Context, args: Args) -> object:
        house.shop.ship(ctx, {**args, "item": "o-9"})
        raise ConnectionResetError("lost")

    def down(ctx: Context, args: Args) -> object:
        raise ConnectionError("The search does not answer.")

    house.shop.tool, house.shop.search = tool, down
    terms = {**SHIP, "execute": {"timeout": "1s", "honours_key": honours_key}}
    told = house.run(house.action(find=True, **{**terms, "kind": "create", "late_window": "5s"}))
    house.work(3600)
    assert (house.get(told.id).state, told.may_repeat) == (State.REVIEW_REQUIRED, False)
    assert len(house.shop.calls) == (3 if honours_key else 1)


def test_a_set_that_landed_by_the_keys_record_and_whose_target_is_gone_since_is_not_free_to_be_repeated() -> None:
    house = House()
    house.shop.record = lambda ctx, args: Lookup.landed()

    def tool(ctx: Context, args: Args) -> object:
        house.shop.rows.clear()
        raise ConnectionResetError("lost")

    house.shop.tool = tool
    told = house.run(house.action(lookup=True, late_window="5s"))
    assert (told.discrepancy, told.may_repeat) == (Discrepancy.STALE_STATE, False)


@pytest.mark.parametrize("answer", [(202, {"status": "accepted"}), {"status": "pending"}])
def test_what_a_local_tool_says_to_be_on_its_way_may_still_land(answer: object) -> None:
    house = House()
    house.shop.rows.clear()
    house.shop.tool = lambda ctx, args: answer
    made = house.action(kind="create", side_effect="ephemeral_write", find=True)
    told = house.run(made)
    assert (told.state, told.may_repeat) == (State.UNKNOWN, False)
    house.shop.ship(
        Context(told.id, TENANT, "agent:ops", "op-1", "item/o-1", "", told.stamp), {"item": "o-1", "status": "shipped"}
    )
    house.work(600)
    assert house.get(told.id).verified


def test_what_held_already_has_to_stay_so_as_long_as_the_contract_says() -> None:
    house = House()
    house.shop.rows["o-1"]["status"] = "shipped"
    house.shop.tool = lambda ctx, args: {"status": "ok"}
    house.shop.eyes = lambda ctx, args: Reading.of(
        {**house.shop.rows["o-1"], "status": "shipped" if house.shop.now() < 3 else "lost", "author": "human:eve"},
        version=1 if house.shop.now() < 3 else 2,
    )
    told = house.run(house.action(stable_for="6s", noop="allow"))
    assert not told.verified
    house.shop.eyes = None
    told = house.run(house.action(stable_for="6s", noop="allow"), "op-2")
    assert (told.discrepancy, told.verified) == (Discrepancy.NO_OP_SUCCESS, True)
    assert house.shop.looks[-1] - house.shop.calls[-1] >= 6


@pytest.mark.requirement("TRUTH-verdict-7")
@pytest.mark.parametrize("after", [None, {"status": "shipped", "stamp": "", "author": "human:eve"}])
def test_what_a_reading_showed_to_be_ours_and_somebody_changed_since_is_not_free_to_be_repeated(after: Any) -> None:
    house = House()
    house.shop.rows.clear()

    def tool(ctx: Context, args: Args) -> object:
        house.shop.ship(ctx, args, status="queued")
        raise ConnectionResetError("lost")

    def look(ctx: Context, args: Args) -> Reading:
        if house.shop.now() > 1 and after is None:
            house.shop.rows.pop("o-1", None)
        elif house.shop.now() > 1 and after is not None:
            house.shop.rows["o-1"] |= after
        return house.shop.show(args)

    house.shop.tool, house.shop.eyes = tool, look
    identity = {**MEDIUM["identity"], "stamp": "authoritative.stamp"}
    told = house.run(house.action(**{**MEDIUM, "kind": "create", "identity": identity, "late_window": "8s"}))
    assert (told.discrepancy, told.may_repeat) == (Discrepancy.STALE_STATE, False)
    assert not told.verified
