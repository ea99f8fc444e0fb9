"""Searches by stamp: what one says is of its own moment, and what comes later is looked for again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from readback.domain.context import Context
from readback.domain.discrepancy import Discrepancy
from readback.domain.state import State
from readback.domain.verdict import Attribution
from readback.domain.verification.reading import Lookup, Reading
from tests.lifecycle.house import STAMPED, TENANT, House

Args = Any
Look = Callable[[Context, Args], Reading]


def _others(status: str = "shipped") -> dict[str, Any]:
    return {"id": "o-1", "tenant": TENANT, "status": status, "version": 1}


def _later(house: House, lands: dict[str, str], *, removed: bool = False) -> Look:
    """What is asked for lands after five seconds, with `lands` other than asked; how the shop is seen meanwhile."""
    shop, later = house.shop, dict[str, Any]()

    def tool(ctx: Context, args: Args) -> object:
        later["do"] = lambda: shop.ship(ctx, {**args, **lands})
        return (202, {"status": "accepted"})

    def look(ctx: Context, args: Args) -> Reading:
        if shop.now() >= 5 and "do" in later:
            if removed:
                shop.rows.pop("o-1")
            later.pop("do")()
        return shop.show(args)

    shop.tool, shop.eyes = tool, look
    return look


def test_what_landed_elsewhere_after_the_first_search_is_found_before_anything_is_told_as_failed() -> None:
    house = House()
    house.shop.rows["o-1"] = _others()
    _later(house, {"item": "o-9"}, removed=True)
    told = house.run(house.action(kind="create", find=True, late_window="5s"))
    assert told.discrepancy is Discrepancy.WRONG_TARGET_MODIFIED
    assert not told.may_repeat
    assert len(house.shop.finds) > 1


def test_what_landed_after_the_first_search_is_told_as_done_where_a_later_one_shows_it() -> None:
    house = House()
    house.shop.rows["o-1"] = _others()
    shown = _later(house, {})
    house.shop.eyes = lambda ctx, args: Reading.of({**_seen(shown(ctx, args)), "stamp": ""})
    told = house.run(house.action(kind="create", find=True))
    assert (told.state, told.attribution) == (State.RECONCILED_SUCCESS, Attribution.OURS)


def test_what_is_ours_and_wrong_is_not_told_as_done_since_the_reading_shows_what_is_right_and_anothers() -> None:
    house = House()
    house.shop.rows["o-1"] = _others()
    house.shop.tool = lambda ctx, args: {"status": "ok"}
    house.shop.search = lambda ctx, args: [Reading.of(_others("lost"), stamp=ctx.stamp)]
    told = house.run(house.action(kind="create", find=True))
    assert told.state is not State.RECONCILED_SUCCESS


def test_what_is_ours_and_was_not_ready_yet_is_searched_for_again() -> None:
    house = House()
    house.shop.rows["o-1"] = _others()
    house.shop.tool = lambda ctx, args: {"status": "ok"}
    states = iter(("queued", "queued"))
    house.shop.search = lambda ctx, args: [Reading.of(_others(next(states, "shipped")), stamp=ctx.stamp)]
    told = house.run(house.action(kind="create", find=True))
    assert (told.state, told.attribution) == (State.RECONCILED_SUCCESS, Attribution.OURS)


def _seen(reading: Reading) -> dict[str, Any]:
    assert isinstance(reading.value, dict)
    return reading.value


@pytest.mark.parametrize("answer", ["lost", "error"])
def test_a_missing_target_is_no_failure_where_nobody_could_search(answer: str) -> None:
    """It was removed, ours landed on another one, and the search that would show it gives no answer."""
    house = House()

    def tool(ctx: Context, args: Args) -> object:
        house.shop.rows.pop("o-1")
        house.shop.ship(ctx, {**args, "item": "o-9"})
        if answer == "lost":
            raise ConnectionResetError("the line went dead")
        return (500, {"error": "internal"})

    def broken(ctx: Context, args: Args) -> object:
        raise ConnectionError("down")

    house.shop.tool, house.shop.search = tool, broken
    told = house.run(house.action(find=True, late_window="5s", **STAMPED))
    house.work(86_400)
    told = house.get(told.id)
    assert (told.state, told.row, told.may_repeat) == (State.REVIEW_REQUIRED, "RB-no-op-elsewhere", False)
    assert told.discrepancy is Discrepancy.TARGET_MISSING
    clean = House()
    clean.shop.rows.clear()
    clean.shop.tool = lambda ctx, args: (404, {"error": "no such item"})
    assert clean.run(clean.action(find=True, late_window="5s", **STAMPED)).may_repeat


@pytest.mark.parametrize("shown_by", ["search", "record", "strong reading"])
def test_what_only_a_later_look_of_each_round_shows_to_hold_has_held_since_it_did(shown_by: str) -> None:
    """The first reading of a round leaves it open each time; that it held in the rounds before is not forgotten."""
    house = House()
    shop = house.shop
    shop.rows.clear()
    options: dict[str, Any] = {"kind": "create", "stable_for": "5s", "find": shown_by == "search"}
    if shown_by == "strong reading":
        options |= {"readers": (("replica", "other_client", "copy"), ("strong", "other_client", "orders")), **STAMPED}
        shop.eyes = lambda ctx, args: shop.show(args) if ctx.strong else Reading.absent()
    else:
        shop.record = lambda ctx, args: Lookup.landed() if shop.rows else Lookup.unknown_key()
        options["lookup"] = shown_by == "record"
        shop.eyes = lambda ctx, args: Reading.of({**_others(), "author": "agent:ops"}) if shop.rows else shop.show(args)
    pending = house.run(house.action(**options), wait_s=0)
    house.work(60)
    told = house.get(pending.id)
    assert (told.state, told.attribution) == (State.RECONCILED_SUCCESS, Attribution.OURS)
    assert shop.looks[-1] == 5
    assert len(shop.calls) == 1
