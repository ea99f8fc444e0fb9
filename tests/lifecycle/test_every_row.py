"""Every row of the recovery table ends in its action in the engine: each is walked to, and what it says is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from readback.domain.context import Context
from readback.domain.events import EventKind
from readback.domain.recovery.table import DEFAULT_TABLE
from readback.domain.state import State
from readback.domain.verification.reading import Reading
from tests.lifecycle.rows import GUARDS, WAITING, WALKS, Stage

pytestmark = pytest.mark.slow

ROWS = [row.id for row in DEFAULT_TABLE.rows]


def test_every_row_is_walked_or_waits_for_its_stage_or_guards_the_table() -> None:
    told = [*WALKS, *WAITING, *GUARDS]
    assert sorted(told) == sorted(ROWS)
    assert not [row for row in GUARDS if row.startswith("REC-")]
    assert all(reason for reason in (*WAITING.values(), *GUARDS.values()))


@pytest.mark.requirement("REC-01", "REC-02", "REC-03", "REC-04", "REC-05", "REC-06", "REC-07", "REC-08", "REC-09")
@pytest.mark.requirement(
    "REC-11", "REC-12", "REC-13", "REC-14", "REC-15", "REC-16", "REC-17", "REC-18", "REC-19", "REC-20", "REC-21"
)
@pytest.mark.requirement("REC-RULE-version")
@pytest.mark.parametrize("row_id", WALKS)
def test_a_row_ends_in_its_action(row_id: str) -> None:
    walk, stage = WALKS[row_id], Stage()
    told = walk.play(stage.house)
    row = DEFAULT_TABLE.row(row_id)
    assert row is not None
    assert row_id in stage.table.decided, stage.table.decided
    assert row.action is walk.action
    assert (told.state, len(stage.shop.calls)) == (walk.end, walk.calls), (told.row, told.detail)
    assert told.verified is (walk.end is State.RECONCILED_SUCCESS and not walk.drifts)
    assert (row.freezes, row.opens_incident) == (walk.freezes, walk.incident)
    assert bool(told.incident) is walk.incident
    if walk.end is State.REVIEW_REQUIRED or walk.drifts:
        assert told.review
    assert not GUARDS.keys() & set(stage.table.decided)


@pytest.mark.requirement("REC-RULE-version")
@pytest.mark.parametrize("row_id", sorted(set(WALKS) - {"REC-02"}))
def test_a_row_that_decided_stands_in_the_ledger_with_the_version_of_its_table(row_id: str) -> None:
    """A forced reading is part of the look that it is forced in: the row that stands there is that of the reading."""
    walk, stage = WALKS[row_id], Stage()
    told = walk.play(stage.house)
    events = stage.house.events(told.id)
    rows = [event.data.get("row") for event in events]
    assert row_id in rows
    told_by = (EventKind.JUDGED, EventKind.REJECTED, EventKind.APPROVAL_REQUESTED, EventKind.SAGA_TURNED)
    judged = [event.data for event in events if event.kind in told_by]
    assert {data["table"] for data in judged if data.get("row")} == {DEFAULT_TABLE.version}
    frozen = {subject for data in judged for subject in data.get("freeze") or ()}
    assert (f"resource:{told.target}" in frozen) is walk.freezes
    recovery = [data["recovery"] for data in judged if data.get("row") == row_id]
    assert set(recovery) <= {walk.action.value}


@pytest.mark.requirement("REC-13")
@pytest.mark.parametrize("wrong", ["value", "place", "unread"])
def test_a_second_effect_is_no_replay_unless_each_is_as_required_and_one_alone_would_be_a_success(wrong: str) -> None:
    stage = Stage()
    house, shop = stage.house, stage.shop
    shop.rows.clear()

    def search(ctx: Context, args: object) -> list[Reading]:
        second = {**shop.rows["o-1"], **({"status": "lost"} if wrong == "value" else {})}
        second = {**second, **({"id": "o-2"} if wrong == "place" else {})}
        return [Reading.of(shop.rows["o-1"], stamp=ctx.stamp), Reading.of(second, stamp=ctx.stamp)]

    def look(ctx: Context, args: Mapping[str, Any]) -> Reading:
        if wrong == "unread" and shop.calls:
            raise ConnectionError("down")
        return shop.show(args)

    shop.search, shop.eyes = search, look
    told = house.run(house.action(kind="create", find=True, noop="equivalent"))
    assert told.state is State.REVIEW_REQUIRED
    assert told.row == ("REC-14" if wrong == "place" else "RB-duplicate")
    assert not told.verified


@pytest.mark.requirement("REC-13")
@pytest.mark.parametrize("down_s", [0, 2], ids=["from the first reading", "after it"])
def test_a_second_effect_is_a_replay_also_where_what_it_leaves_has_to_stay_so(down_s: int) -> None:
    stage = Stage()
    house, shop = stage.house, stage.shop
    shop.rows.clear()

    def search(ctx: Context, args: object) -> list[Reading]:
        if shop.now() < down_s:
            raise ConnectionError("down")
        return [Reading.of(shop.rows["o-1"], stamp=ctx.stamp)] * 2

    shop.search = search
    told = house.run(house.action(kind="create", find=True, noop="equivalent", stable_for="5s"))
    assert (told.state, told.row, told.discrepancy) == (State.RECONCILED_SUCCESS, "REC-13", None)
    assert shop.looks[-1] == 5
    spoilt = Stage()
    spoilt.shop.rows.clear()
    spoilt.shop.search = lambda ctx, args: [Reading.of(spoilt.shop.rows["o-1"], stamp=ctx.stamp)] * 2
    held = spoilt.house.run(spoilt.house.action(kind="create", find=True, noop="equivalent", stable_for="5s"), wait_s=3)
    assert not held.verified
    spoilt.shop.rows["o-1"]["status"] = "lost"
    assert spoilt.house.wait(held.id).state is State.REVIEW_REQUIRED


def test_a_strong_reading_is_forced_at_once(  # REC-02
) -> None:
    stage = Stage()
    WALKS["REC-02"].play(stage.house)
    assert stage.shop.strong[-2:] == [False, True]
    assert stage.shop.looks[-2:] == [0, 0]


def test_a_frozen_timeout_is_still_looked_at_and_never_called_again() -> None:
    stage = Stage()
    told = WALKS["REC-08"].play(stage.house)
    looks = len(stage.shop.looks)
    stage.house.work(86_400)
    assert len(stage.shop.looks) > looks
    assert len(stage.shop.calls) == 1
    assert stage.house.get(told.id).state is State.REVIEW_REQUIRED
    assert not told.may_repeat


@pytest.mark.requirement("L19")
def test_a_reversal_that_ends_without_effect_while_its_action_waits_is_not_begun_again() -> None:
    """What is refuted and dead frees its key: that of a reversal is not there for a second one."""
    stage = Stage()
    told = WALKS["REC-17"].play(stage.house)
    assert len(stage.shop.undone) == 1
    assert told.incident.endswith("compensation_failed")
