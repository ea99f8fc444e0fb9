"""An outcome that rests on weak readings says so, to the user and to the model alike."""

from __future__ import annotations

from typing import Any

import pytest

from readback.domain.context import Context
from readback.domain.state import State
from readback.domain.verification.open_class import WEAK
from readback.domain.verification.reading import Reading
from tests.lifecycle.house import STAMPED, House

pytestmark = pytest.mark.requirement("WEAK-says-so")
EPHEMERAL: dict[str, Any] = {"side_effect": "ephemeral_write", "kind": "create"}
SEEN = "Seen at a replica, not confirmed by the record."


@pytest.fixture
def empty(house: House) -> House:
    house.shop.rows.clear()
    return house


@pytest.mark.parametrize(
    ("consistency", "independence", "word"),
    [("replica", "other_client", WEAK[0]), ("strong", "same_client", WEAK[3]), ("strong", "other_client", "")],
)
def test_a_verified_outcome_says_what_weak_reading_it_rests_on(
    empty: House, consistency: str, independence: str, word: str
) -> None:
    told = empty.run(empty.action(readers=((consistency, independence, "replica"),), **EPHEMERAL))
    assert told.state is State.RECONCILED_SUCCESS
    for text in (told.message, told.for_model(), empty.wait(told.id).message):
        assert any(each in text for each in WEAK) is bool(word)
        assert word in text


def test_it_rests_on_a_strong_reading_by_another_client_where_there_is_one(empty: House) -> None:
    readers = (("strong", "other_client", "orders"), ("strong", "same_client", "own"))
    told = empty.run(empty.action(readers=readers, **EPHEMERAL))
    assert told.verified
    assert not any(each in told.message + told.for_model() for each in WEAK)


def test_what_is_open_and_was_seen_weakly_says_so_to_the_user_too(empty: House) -> None:
    def eyes(ctx: Context, args: Any) -> Reading:
        if ctx.strong:
            return Reading.unavailable("503")
        row = empty.shop.rows.get(args["item"])
        return Reading.absent() if row is None else Reading.of(row, stamp=ctx.stamp)

    empty.shop.eyes = eyes
    readers = (("replica", "other_client", "replica"), ("strong", "other_client", "orders"))
    told = empty.run(empty.action(readers=readers, kind="create", **STAMPED), wait_s=5)
    assert not told.verified
    assert SEEN in told.message
    assert SEEN in told.for_model()
