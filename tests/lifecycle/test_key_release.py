"""A key stays taken after dispatch, unless nothing can have happened and nothing may still land."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from readback.domain.action.key_release import KeyRelease
from readback.domain.context import Context
from readback.domain.events import EventKind
from readback.domain.state import State
from readback.domain.verification.reading import Lookup, Reading
from readback.errors import NotDispatchedError
from readback.testing.driver_virtual import CallHangs
from tests.lifecycle.house import STAMPED, House

MAKE: dict[str, Any] = {"kind": "create", "late_window": "5s", **STAMPED}


def _elsewhere(house: House) -> Any:
    """A tool that files under a reference of its own form, and leaves no stamp."""

    def tool(ctx: Context, args: Any) -> object:
        return house.shop.ship(ctx, {**args, "item": args["item"].upper()}, stamp="")

    return tool


def _nothing(ctx: Context, args: Any) -> object:
    return {"status": "ok"}


def _hang(ctx: Context, args: Any) -> object:
    raise CallHangs


def _error(ctx: Context, args: Any) -> object:
    return (422, {"error": "no such order"})


def _release(house: House, action_id: str) -> KeyRelease | None:
    return house.folded(action_id).release


@pytest.fixture
def empty(house: House) -> House:
    house.shop.rows.clear()
    return house


@pytest.mark.requirement("KEY-three-reasons", "KEY-absence-frees-nothing")
@pytest.mark.parametrize("kind", ["set", "create"])
@pytest.mark.parametrize("search", ["none", "unproven", "proven by others"])
def test_absence_at_the_asked_for_place_frees_no_key(empty: House, kind: str, search: str) -> None:
    empty.shop.tool = _elsewhere(empty)
    if search == "proven by others":
        empty.shop.rows["canary"] = {"id": "canary", "tenant": "acme", "status": "-", "stamp": "of-others"}
    made = empty.action(find=search != "none", proven=False, **{**MAKE, "kind": kind})
    told = empty.run(made)
    again = [empty.run(made) for _ in range(3)]
    assert len(empty.shop.calls) == 1
    assert (told.state, told.may_repeat, told.verified) == (State.REVIEW_REQUIRED, False, False)
    assert all(each.replayed and each.id == told.id for each in again)


@pytest.mark.requirement("KEY-three-reasons")
def test_a_search_that_is_not_declared_complete_frees_no_key_whatever_it_has_found(empty: House) -> None:
    made = empty.action(find=True, proven=False, **MAKE)
    assert empty.run(made).verified
    empty.shop.tool = _nothing
    told = empty.run(made, "op-2", item="o-2")
    assert (told.state, told.may_repeat) == (State.REVIEW_REQUIRED, False)


@pytest.mark.requirement("KEY-three-reasons", "KEY-sighting")
def test_a_complete_search_frees_the_key_once_it_has_found_an_effect_of_this_contract(empty: House) -> None:
    made = empty.action(find=True, **MAKE)
    empty.store._content.counts.clear()  # a ledger in which it has found nothing yet
    empty.shop.tool = _nothing
    first = empty.run(made)
    assert (first.state, first.may_repeat) == (State.REVIEW_REQUIRED, False)
    empty.shop.tool = None
    assert empty.run(made, "op-2", item="o-2").verified
    empty.shop.tool = _nothing
    third = empty.run(made, "op-3", item="o-3")
    assert (third.state, third.may_repeat) == (State.FAILED, True)
    assert _release(empty, third.id) is KeyRelease.SEARCHED
    assert empty.get(first.id).may_repeat is False, "what ended before that stays as it ended"


@pytest.mark.requirement("KEY-three-reasons")
@pytest.mark.parametrize("changed", [False, True])
def test_a_complete_search_frees_no_key_where_another_actor_changed_the_target(house: House, changed: bool) -> None:
    """The plan behind the operation is stale then, so the same operation must not run again."""
    made = house.action(find=True, late_window="5s", **STAMPED)
    house.shop.rows["o-2"] = {**house.shop.rows["o-1"], "id": "o-2"}
    assert house.run(made, "op-0", item="o-2").verified  # the search has found an effect of this contract

    def tool(ctx: Context, args: Any) -> object:
        if changed:
            house.shop.rows["o-1"] = {**house.shop.rows["o-1"], "status": "held", "version": 2, "stamp": "rb-another"}
        raise CallHangs

    house.shop.tool = tool
    first = house.run(made)
    house.work(60)
    told = house.get(first.id)
    assert (told.state, told.may_repeat) == (State.FAILED, not changed)
    assert _release(house, told.id) is (KeyRelease.NONE if changed else KeyRelease.SEARCHED)


@pytest.mark.requirement("KEY-sighting")
def test_what_another_contract_found_proves_nothing_for_this_one(empty: House) -> None:
    other = empty.action(find=True, **MAKE, name="other")
    made = empty.action(find=True, **MAKE, version="2")
    empty.store._content.counts.clear()
    assert empty.run(other).verified
    assert empty.run(empty.action(find=True, **MAKE, version="1"), "op-2", item="o-2").verified
    empty.shop.tool = _nothing
    told = empty.run(made, "op-3", item="o-3")
    assert (told.state, told.may_repeat) == (State.REVIEW_REQUIRED, False)


@pytest.mark.requirement("KEY-sighting")
def test_a_find_without_our_mark_is_no_proof_of_the_mark(empty: House) -> None:
    """The search goes by something that others bear too: what it shows is not shown to be the tool's mark."""
    made = empty.action(find=True, **{**MAKE, "identity": {"target": "authoritative.id", "tenant": "not_offered"}})
    empty.store._content.counts.clear()
    empty.shop.search = lambda ctx, args: [Reading.of({"id": args["item"], "status": args["status"]})]
    empty.run(made)
    assert not empty.store._content.counts or not any("sighted" in key[2] for key in empty.store._content.counts)


@pytest.mark.requirement("KEY-tools-words")
@pytest.mark.parametrize("answer", [_error, lambda ctx, args: {"success": False}, lambda ctx, args: "Error: refused"])
def test_the_tools_own_words_free_no_key(house: House, answer: Any) -> None:
    house.shop.tool = answer
    made = house.action(late_window="5s")
    told = house.run(made)
    assert (told.may_repeat, told.verified) == (False, False)
    assert house.run(made).replayed
    assert len(house.shop.calls) == 1


@pytest.mark.requirement("KEY-tools-words")
def test_the_keys_own_record_alone_frees_no_key(house: House) -> None:
    house.shop.tool, house.shop.record = _hang, lambda ctx, args: Lookup.failed("declined")
    told = house.run(house.action(lookup=True))
    assert (told.state, told.may_repeat) == (State.FAILED, False)


@pytest.mark.requirement("KEY-three-reasons")
def test_an_attempt_that_never_left_frees_its_key(house: House) -> None:
    def refuses(ctx: Context, args: Any) -> object:
        raise NotDispatchedError("no connection")

    house.shop.tool = refuses
    told = house.run(house.action())
    assert (told.state, told.may_repeat) == (State.FAILED, True)
    assert _release(house, told.id) is KeyRelease.NEVER_LEFT


@pytest.mark.requirement("KEY-three-reasons")
def test_an_attempt_that_never_left_frees_no_key_of_an_earlier_one_that_did(house: House) -> None:
    shop = house.shop

    def tool(ctx: Context, args: Any) -> object:
        if len(shop.calls) > 1:
            raise NotDispatchedError("no connection")
        raise CallHangs

    shop.tool = tool
    shop.record = lambda ctx, args: Lookup.failed("declined") if len(shop.calls) == 1 else Lookup.pending()
    told = house.run(house.action(lookup=True, late_window="5s", execute={"timeout": "1s", "honours_key": True}))
    assert len(shop.calls) >= 2
    assert not told.may_repeat
    assert told.verdict.value != "not_checked", "the first attempt may have landed, so it is read"


@pytest.mark.requirement("KEY-three-reasons")
def test_an_end_that_was_recorded_before_ends_said_why_keeps_its_meaning(house: House) -> None:
    """A ledger of an earlier release: its records and its projections still agree."""
    house.shop.tool = _error
    told = house.run(house.action(late_window="5s"))
    action = house.folded(told.id)
    assert action.release is KeyRelease.NONE
    action.release = None
    assert action.may_repeat


@pytest.mark.requirement("KEY-sighting")
def test_a_sighting_is_in_the_ledger(empty: House) -> None:
    told = empty.run(empty.action(find=True, **MAKE))
    entries = [e for e in empty.events(told.id) if e.kind is EventKind.READ and e.data["role"] == "find"]
    assert [e.data.get("sighted") for e in entries] == [True]


@pytest.mark.requirement("KEY-absence-frees-nothing")
def test_a_key_that_the_look_up_does_not_know_says_nothing_of_what_landed(empty: House) -> None:
    empty.shop.tool = _nothing
    made = empty.action(lookup=True, **MAKE)
    told = empty.run(made)
    empty.work(100_000)
    assert empty.shop.lookups
    told = empty.get(told.id)
    assert (told.state, told.may_repeat) == (State.REVIEW_REQUIRED, False)
    assert State.FAILED not in empty.states(told.id)


@pytest.mark.requirement("KEY-three-reasons", "KEY-absence-frees-nothing")
@pytest.mark.parametrize(("said", "free"), [(Lookup.failed("declined"), True), (Lookup.unknown_key(), False)])
def test_an_unchanged_region_frees_the_key_beside_a_refusal_alone(house: House, said: Lookup, free: bool) -> None:
    house.shop.tool, house.shop.record = _hang, lambda ctx, args: said
    made = house.action(lookup=True, whole_region=True, late_window="5s", require={"open": "before.status == 'open'"})
    told = house.run(made)
    house.work(100_000)
    told = house.get(told.id)
    assert (told.verified, told.may_repeat) == (False, free)
    assert _release(house, told.id) is (KeyRelease.REFUSED if free else KeyRelease.NONE)


@pytest.mark.requirement("KEY-three-reasons", "KEY-absence-frees-nothing")
def test_a_key_that_the_look_up_does_not_know_ends_no_late_window(empty: House) -> None:
    """The search has proven its mark, and the effect lands after the window, within the declared late window."""
    shop = empty.shop

    landing: list[Callable[[], object]] = []

    def late(ctx: Context, args: Any) -> object:
        landing.append(lambda: shop.ship(ctx, args))
        raise CallHangs

    shop.tool = late
    told = empty.run(empty.action(find=True, lookup=True, **{**MAKE, "late_window": "1h"}))
    assert shop.lookups
    assert (told.state in (State.UNKNOWN, State.PENDING), told.may_repeat) == (True, False)
    assert State.FAILED not in empty.states(told.id)
    landing[0]()
    empty.work(3_600)
    assert empty.get(told.id).verified
    assert len(shop.calls) == 1
