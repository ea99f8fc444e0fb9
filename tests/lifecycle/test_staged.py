"""What a tool left open: committed only when all of it is as the contract says, else dropped, and shown to be."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from readback.domain.context import Context
from readback.domain.events import EventKind
from readback.domain.state import State
from readback.domain.verification.reading import Presence, Reading
from readback.errors import NotDispatchedError
from readback.testing.driver_virtual import CallHangs, ProcessDied
from tests.lifecycle.house import STAMPED, House, S

EPHEMERAL: dict[str, Any] = {"side_effect": "ephemeral_write", **STAMPED}


@dataclass
class Open:
    """A staged change of the shop's row. `leaks`: something of it is visible although it is dropped."""

    house: House
    inside: Reading
    row: dict[str, Any]
    leaks: dict[str, Any] | None = None
    refuses: bool = False
    answer: object = None
    did: list[str] = field(default_factory=list)

    def read(self) -> Reading:
        self.did.append("read")
        return self.inside

    def commit(self) -> None:
        self.did.append("commit")
        if self.refuses:
            raise NotDispatchedError("somebody else was faster")
        self.house.shop.rows["o-1"] = self.row

    def abandon(self) -> None:
        self.did.append("abandon")
        if self.leaks is not None:
            self.house.shop.rows[str(self.leaks["id"])] = self.leaks


def staging(house: House, inside: dict[str, Any] | Reading | None = None, **more: Any) -> list[Open]:
    """`inside`: what the row shows inside the boundary beside what was asked for."""
    made: list[Open] = []

    def tool(ctx: Context, args: Any) -> object:
        old = house.shop.rows.get("o-1", {"id": "o-1", "tenant": "acme", "version": 0})
        row = {**old, "status": "shipped", "version": 2, "stamp": ctx.stamp, "author": ctx.principal}
        if isinstance(inside, dict):
            row |= inside
        seen = inside if isinstance(inside, Reading) else Reading.of(row, version=2)
        leaks = more.get("leaks")
        stamped = None if leaks is None else {**row, "stamp": ctx.stamp, **leaks}
        made.append(Open(house, seen, row, stamped, more.get("refuses", False), {"status": "ok"}))
        return made[-1]

    house.shop.tool = tool
    return made


@pytest.mark.requirement("STRATEGY-rollback")
@pytest.mark.parametrize(
    ("inside", "options", "why"),
    [
        ({"status": "lost"}, {}, "postconditions"),
        ({"tenant": "other"}, {}, "another target or tenant"),
        ({"declined": True}, {"fails_when": "has(authoritative.declined)"}, "terminal failure"),
        ({"id": "o-2"}, {}, "another target or tenant"),
        ({"author": "eve", "paid": 1}, {"may_change": ["status", "version", "stamp"]}, "may not change"),
        (Reading.unavailable("locked"), {}, "postconditions"),
        (Reading(Presence.NOT_VISIBLE), {}, "postconditions"),
    ],
)
def test_what_is_not_as_the_contract_says_inside_is_never_committed(
    house: House, inside: Any, options: dict[str, Any], why: str
) -> None:
    before = dict(house.shop.rows["o-1"])
    made = staging(house, inside)
    told = house.run(house.action(**STAMPED, **options))
    assert (told.state, told.may_repeat) == (State.ROLLED_BACK, True)
    assert made[0].did == ["read", "abandon"]
    assert house.shop.rows == {"o-1": before}
    assert why in told.detail


def test_a_look_that_shows_less_than_the_reader_is_compared_by_what_both_show(house: House) -> None:
    house.shop.rows["o-1"]["beside"] = 1
    made = staging(house, Reading.of({"id": "o-1", "tenant": "acme", "status": "shipped"}))
    told = house.run(house.action(may_change=["status", "version", "stamp", "author"], **STAMPED))
    assert told.verified
    assert made[0].did == ["read", "commit"]


@pytest.mark.requirement("STRATEGY-rollback")
def test_without_a_reading_before_the_outside_is_read_while_the_boundary_is_open(house: House) -> None:
    """The class asks for no image before; what is outside an open boundary is one."""
    made = staging(house, {"status": "lost"})
    told = house.run(house.action(**EPHEMERAL))
    assert (told.state, told.may_repeat) == (State.ROLLED_BACK, True)
    assert made[0].did == ["read", "abandon"]
    assert len(house.shop.looks) == 2


@pytest.mark.requirement("STRATEGY-rollback")
@pytest.mark.parametrize("options", [STAMPED, EPHEMERAL])
def test_a_boundary_that_leaks_into_its_target_is_not_told_as_rolled_back(house: House, options: Any) -> None:
    staging(house, {"status": "lost"}, leaks={})
    told = house.run(house.action(**options))
    assert told.state is not State.ROLLED_BACK
    assert not told.may_repeat


@pytest.mark.requirement("STRATEGY-rollback")
def test_a_boundary_that_leaks_elsewhere_is_found_by_its_stamp(house: House) -> None:
    staging(house, {"status": "lost"}, leaks={"id": "o-9"})
    told = house.run(house.action(find=True, **STAMPED))
    assert (told.state, told.discrepancy) == (State.REVIEW_REQUIRED, "wrong_target_modified")
    assert house.run(house.action(find=True, **STAMPED), "op-2").code == "frozen"
    clean = House()
    staging(clean, {"status": "lost"})
    assert clean.run(clean.action(find=True, **STAMPED)).state is State.ROLLED_BACK


def test_where_nobody_could_search_nothing_is_told_as_rolled_back(house: House) -> None:
    def broken(ctx: Context, args: Any) -> object:
        raise ConnectionError("down")

    house.shop.search = broken
    staging(house, {"status": "lost"})
    told = house.run(house.action(find=True, **STAMPED))
    assert told.state is not State.ROLLED_BACK
    assert not told.verified


@pytest.mark.requirement("STRATEGY-rollback", "STATE-executing->rolled-back")
def test_a_commit_that_was_refused_is_rolled_back_when_nothing_is_visible(house: House) -> None:
    made = staging(house, refuses=True)
    told = house.run(house.action(**STAMPED))
    assert (told.state, told.may_repeat, told.discrepancy) == (State.ROLLED_BACK, True, None)
    assert made[0].did == ["read", "commit"]
    assert "somebody else was faster" in told.detail


def test_a_rollback_by_hand_that_leaves_something_elsewhere_goes_to_a_person(house: House) -> None:
    first = dict(house.shop.rows["o-1"])

    def undo(ctx: Context, args: Any) -> object:
        house.shop.rows["o-9"] = {**house.shop.rows["o-1"], "id": "o-9", "tenant": "acme"}
        house.shop.rows["o-1"] = dict(first)
        return None

    house.shop.undo = undo
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, status="lost")
    told = house.run(house.action(rollback=True, find=True, **STAMPED))
    assert (told.state, told.review) == (State.REVIEW_REQUIRED, "rollback")


@pytest.mark.requirement("TRUTH-late-dead", "STRATEGY-rollback")
def test_a_commit_that_hangs_is_a_part_of_the_call_after_a_crash_too() -> None:
    """Nothing of it is dead before its late window is over, counted from when the commit was given up."""
    ended = []
    for step in (None, *range(4, 14)):
        house = House()
        shop = house.shop
        made = staging(house)
        stage = shop.tool
        assert stage is not None
        shop.tool = lambda ctx, args, stage=stage: _hanging(stage(ctx, args))
        house.driver.vanish_at = step
        with suppress(ProcessDied):
            house.run(house.action(late_window="20s", **STAMPED))
        house.die()
        house.work(86_400)
        told = house.get(house.only())
        settled = [e for e in house.events(told.id) if e.kind is EventKind.STAGED_SETTLED]
        if not settled:
            continue  # it died before the commit was on record
        assert (told.state, len(made)) == (State.REVIEW_REQUIRED, 1)
        ended.append(house.folded(told.id).reconciled_us - settled[0].at_us)
    assert len(ended) > 4
    assert min(ended) >= 20 * S


def _hanging(staged: Any) -> Any:
    def commit() -> None:
        raise CallHangs

    staged.commit = commit
    return staged
