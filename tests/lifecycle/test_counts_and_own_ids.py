"""Two readings that come to nothing early: a count that does not fit yet, and an id that only a lost answer named."""

from __future__ import annotations

from typing import Any

import pytest

from readback.domain.context import Context
from readback.domain.state import State
from readback.domain.verdict import Verdict
from readback.domain.verification.reading import Reading
from readback.testing.driver_virtual import CallHangs
from tests.lifecycle.house import STAMPED, House

COUNTED: dict[str, Any] = {"ensure": {"once": "authoritative.n == 1"}}


@pytest.fixture
def empty(house: House) -> House:
    house.shop.rows.clear()
    return house


def counting(house: House, *steps: tuple[float, int]) -> None:
    """The reader shows how many there are from so many seconds on."""

    def eyes(ctx: Context, args: Any) -> Reading:
        n = [count for at, count in steps if house.shop.now() >= at][-1] if house.shop.calls else 0
        return Reading.of({"id": args["item"], "tenant": "acme", "n": n, "status": args["status"]})

    house.shop.eyes = eyes


@pytest.mark.requirement("TRUTH-counts")
@pytest.mark.parametrize("kind", ["set", "create"])
def test_a_count_that_is_over_from_the_first_look_on_is_refuted_at_the_close_and_never_verified(
    empty: House, kind: str
) -> None:
    counting(empty, (0, 2))
    told = empty.run(empty.action(kind=kind, **COUNTED, **STAMPED))
    assert not told.verified
    assert empty.shop.looks[-1] >= 10
    assert told.verdict in (Verdict.REFUTED, Verdict.UNDETERMINED)


@pytest.mark.requirement("TRUTH-counts")
def test_a_count_that_has_to_stay_is_not_verified_where_a_second_effect_comes_meanwhile(empty: House) -> None:
    counting(empty, (0, 1), (3, 2))
    told = empty.run(empty.action(stable_for="5s", **COUNTED))
    assert not told.verified


def lost(house: House) -> None:
    """The tool does it, and its answer with the id is lost."""

    def tool(ctx: Context, args: Any) -> object:
        house.shop.ship(ctx, args)
        raise CallHangs

    house.shop.tool = tool


@pytest.mark.requirement("TRUTH-own-ids")
@pytest.mark.parametrize("find", [False, True])
def test_what_only_a_lost_answer_named_is_neither_verified_nor_done_again(empty: House, find: bool) -> None:
    """The reader asks by the id in the answer, as `{observed.id}` does: without an answer it can look at nothing."""
    lost(empty)
    empty.shop.eyes = lambda ctx, args: Reading.not_visible("There is no answer of the tool that would name it.")
    told = empty.run(empty.action(kind="create", find=find, **STAMPED))
    assert (told.verified, told.may_repeat) == (False, False)
    assert told.state in (State.UNKNOWN, State.REVIEW_REQUIRED)
    assert len(empty.shop.calls) == 1


@pytest.mark.requirement("TRUTH-own-ids")
def test_a_reader_by_the_stamp_settles_it_without_the_answer(empty: House) -> None:
    lost(empty)
    rows = empty.shop.rows

    def eyes(ctx: Context, args: Any) -> Reading:
        mine = [each for each in rows.values() if each.get("stamp") == ctx.stamp]
        return Reading.of(mine[0], stamp=ctx.stamp) if mine else Reading.absent()

    empty.shop.eyes = eyes
    told = empty.run(empty.action(kind="create", find=True, **STAMPED))
    assert told.verified
    assert told.state is State.RECONCILED_SUCCESS
    assert len(empty.shop.calls) == 1
