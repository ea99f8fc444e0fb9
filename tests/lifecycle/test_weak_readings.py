"""A weak reading informs and settles little: it may say whose the effect is, and verifies only an ephemeral write."""

from __future__ import annotations

from typing import Any

import pytest

from readback.domain.context import Context
from readback.domain.state import State
from readback.domain.verdict import Attribution, Verdict
from readback.domain.verification.reading import Lookup, Reading
from readback.errors import ContractError
from readback.testing.driver_virtual import CallHangs
from tests.lifecycle.house import HIGH, STAMPED, House

EPHEMERAL: dict[str, Any] = {"side_effect": "ephemeral_write", "kind": "create"}
WORDS = "Seen at a replica, not confirmed by the record."


def _by(consistency: str) -> dict[str, Any]:
    return {"readers": ((consistency, "other_client", "replica"),)}


@pytest.fixture
def empty(house: House) -> House:
    house.shop.rows.clear()
    return house


@pytest.mark.requirement("WEAK-ephemeral")
def test_a_declared_replica_that_shows_the_stamp_twice_verifies_an_ephemeral_write(empty: House) -> None:
    told = empty.run(empty.action(**_by("replica"), **EPHEMERAL))
    assert (told.state, told.attribution) == (State.RECONCILED_SUCCESS, Attribution.OURS)
    assert empty.shop.looks[-1] >= 10, "the last look is at the close of the window"
    assert len(empty.shop.looks) >= 3, "one before the call, and two after it"


@pytest.mark.requirement("WEAK-ephemeral")
def test_once_is_not_enough(empty: House) -> None:
    """The stamp is shown at the close alone."""
    shop = empty.shop
    shop.eyes = lambda ctx, args: shop.show(args) if shop.now() >= 10 else Reading.absent()
    told = empty.run(empty.action(**_by("replica"), **EPHEMERAL))
    assert not told.verified


@pytest.mark.requirement("WEAK-ephemeral")
def test_what_was_there_before_is_not_verified_by_a_replica(house: House) -> None:
    told = house.run(house.action(**_by("replica"), **{**EPHEMERAL, "kind": "set"}))
    assert not told.verified


@pytest.mark.requirement("WEAK-ephemeral")
def test_a_replica_that_only_says_so_at_run_time_is_no_declared_one(empty: House) -> None:
    shop = empty.shop

    def eyes(ctx: Context, args: Any) -> Reading:
        row = shop.rows.get(args["item"])
        return Reading.absent() if row is None else Reading.of(row, stamp=ctx.stamp, consistency="replica")

    shop.eyes = eyes
    told = empty.run(empty.action(**_by("strong"), **EPHEMERAL))
    assert not told.verified


@pytest.mark.requirement("WEAK-ephemeral")
@pytest.mark.parametrize(
    ("terms", "attributes"),
    [
        ({**EPHEMERAL, **_by("cached")}, True),
        ({**EPHEMERAL, **_by("replica")}, False),
        ({**EPHEMERAL, **_by("replica"), "kind": "delete", "ensure": {"gone": "authoritative == null"}}, True),
        ({**STAMPED, **_by("replica")}, True),
    ],
    ids=["a cache", "no stamp", "a deletion", "low risk"],
)
def test_other_contracts_with_a_weak_reader_alone_are_refused(
    empty: House, terms: dict[str, Any], attributes: bool
) -> None:
    with pytest.raises(ContractError):
        empty.action(attributes=attributes, **terms).load()


@pytest.mark.requirement("WEAK-informs")
def test_a_weak_reading_with_our_stamp_sets_attribution_and_its_own_words(empty: House) -> None:
    def eyes(ctx: Context, args: Any) -> Reading:
        if ctx.strong:
            return Reading.unavailable("503")
        row = empty.shop.rows.get(args["item"])
        return Reading.absent() if row is None else Reading.of(row, stamp=ctx.stamp)

    empty.shop.eyes = eyes
    readers = (("replica", "other_client", "replica"), ("strong", "other_client", "orders"))
    told = empty.run(empty.action(readers=readers, kind="create", **STAMPED), wait_s=5)
    assert (told.verdict, told.verified) == (Verdict.UNDETERMINED, False)
    events = [e.data for e in empty.events(told.id) if e.kind.value == "judged"]
    assert any(data["detail"].startswith(WORDS) and data["attribution"] == "ours" for data in events)


@pytest.mark.requirement("WEAK-informs")
def test_a_reading_never_raises_what_its_reader_declared(empty: House) -> None:
    """A session reading needs evidence that it is later than the call, whatever it says of itself."""

    def eyes(ctx: Context, args: Any) -> Reading:
        row = empty.shop.rows.get(args["item"])
        return Reading.absent() if row is None else Reading.of({**row, "stamp": ""}, consistency="strong")

    empty.shop.eyes = eyes
    told = empty.run(empty.action(**_by("session"), attributes=False))
    assert not told.verified
    read = [e.data for e in empty.events(told.id) if e.kind.value == "read"]
    assert {data["consistency"] for data in read} == {"session"}


# --- what other careless logic would tell -----------------------------------------------------------------------------


@pytest.mark.requirement("TRUTH-late-dead")
def test_a_key_that_is_not_known_says_nothing_of_what_may_still_land(empty: House) -> None:
    def tool(ctx: Context, args: Any) -> object:
        raise CallHangs

    empty.shop.tool = tool
    told = empty.run(empty.action(kind="create", lookup=True, **STAMPED))
    assert (told.verified, told.may_repeat) == (False, False)
    assert told.state is not State.FAILED
    empty.work(600)
    assert empty.get(told.id).state is not State.FAILED
    assert Lookup.unknown_key().status == "unknown_key"


@pytest.mark.requirement("TRUTH-verdict-6")
def test_a_second_effect_that_shows_after_an_early_search_is_found_at_the_close(empty: House) -> None:
    shop = empty.shop

    def search(ctx: Context, args: Any) -> list[Reading]:
        ours = [Reading.of(row, stamp=ctx.stamp) for row in shop.rows.values() if row.get("stamp") == ctx.stamp]
        return ours * (2 if shop.now() >= 9 else 1)

    def eyes(ctx: Context, args: Any) -> Reading:
        """At first nothing shows whose it is, so that the search is asked early."""
        row = shop.rows.get(args["item"])
        if row is None:
            return Reading.absent()
        return Reading.of(
            row if shop.now() >= 9 else {**row, "stamp": ""}, stamp=ctx.stamp if shop.now() >= 9 else None
        )

    shop.search, shop.eyes = search, eyes
    terms = {**HIGH, "identity": {**HIGH["identity"], "actor": "not_offered", "stamp": "not_offered"}}
    told = empty.run(empty.action(kind="create", find=True, **terms))
    assert any(at < 9 for at in shop.finds), "it was searched early"
    assert any(at >= 10 for at in shop.finds), "and again at the close"
    assert not told.verified
    assert told.discrepancy is not None
    assert told.discrepancy.value == "duplicate_side_effect"


@pytest.mark.requirement("TRUTH-verdict-5")
def test_an_effect_whose_tenant_nobody_can_tell_is_not_reversed_at_the_deadline(empty: House) -> None:
    shop = empty.shop

    def eyes(ctx: Context, args: Any) -> Reading:
        row = shop.rows.get(args["item"])
        if row is None:
            return Reading.absent()
        return Reading.of({k: v for k, v in row.items() if k != "tenant"}, stamp=ctx.stamp)

    shop.eyes = eyes
    told = empty.run(empty.action(kind="create", compensate={}, **STAMPED))
    assert shop.undone == []
    assert told.state is not State.COMPENSATED
    assert told.verdict is Verdict.UNDETERMINED
