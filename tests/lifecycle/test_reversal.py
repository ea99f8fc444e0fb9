"""Taking back: compensation, rollback, a transaction left open, and cancellation. Each counts only when it was read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from readback.domain.context import Context
from readback.domain.discrepancy import Discrepancy
from readback.domain.events import EventKind
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import State
from readback.domain.verdict import Verdict
from readback.domain.verification.reading import Reading
from readback.testing.driver_virtual import CallerCancelled, CallHangs
from readback.testing.runtime_virtual import START_US
from tests.lifecycle.house import MEDIUM, STAMPED, House, S
from tests.lifecycle.reviewing import resolve, sound

pytestmark = pytest.mark.slow

MAKE: dict[str, Any] = {"kind": "create", "compensate": {}, **STAMPED}


@pytest.fixture
def empty(house: House) -> House:
    """A house whose shop has nothing in it."""
    house.shop.rows.clear()
    return house


def _wrong(house: House) -> Callable[[Context, Any], object]:
    return lambda ctx, args: house.shop.ship(ctx, args, status="lost")


def _hang(ctx: Context, args: Any) -> object:
    raise CallHangs


# --- compensation -------------------------------------------------------------------------------------------------


@pytest.mark.requirement(
    "STRATEGY-compensation", "TRUTH-hold-compensation", "HS-13", "L19", "REC-03", "STATE-compensating->compensated"
)
def test_a_wrong_effect_of_ours_is_reversed_by_an_action_of_its_own_that_is_verified(empty: House) -> None:
    empty.shop.tool = _wrong(empty)
    told = empty.run(empty.action(**MAKE))
    assert (told.state, told.discrepancy) == (State.COMPENSATED, Discrepancy.VALUE_MISMATCH)
    assert empty.shop.rows == {}
    assert len(empty.shop.undone) == 1
    child = empty.get(told.compensation)
    assert (child.contract, child.verified) == ("undo_ship", True)
    assert State.COMPENSATING in empty.states(told.id)
    assert not told.verified
    assert not told.may_repeat
    assert "reversed through compensation" in told.message


@pytest.mark.requirement("HS-13", "TRUTH-hold-compensation", "L19")
@pytest.mark.parametrize("lie", [{"status": "ok"}, (202, {}), None, "Reversed."])
def test_a_compensation_that_only_says_so_compensates_nothing(empty: House, lie: object) -> None:
    empty.shop.tool = _wrong(empty)
    empty.shop.undo = lambda ctx, args: lie
    told = empty.run(empty.action(**MAKE))
    assert told.state is not State.COMPENSATED
    assert "reversed" not in told.message
    assert empty.shop.rows
    empty.work(90 * 86_400)
    ended = empty.get(told.id)
    assert (ended.state, ended.review) == (State.REVIEW_REQUIRED, "compensation_failed")
    assert State.COMPENSATION_FAILED in empty.states(told.id)
    assert ended.incident
    assert len(empty.shop.undone) == 1


@pytest.mark.requirement("L19", "REC-17", "STATE-compensation-failed->review-required", "STRATEGY-incident")
def test_a_compensation_that_is_refused_is_a_failed_one_and_an_incident(empty: House) -> None:
    empty.shop.tool = _wrong(empty)
    told = empty.run(empty.action(**{**MAKE, "compensate": {"require": {"never": "false"}}}))
    assert (told.state, told.incident) == (State.REVIEW_REQUIRED, f"action:{told.id}:compensation_failed")
    assert State.COMPENSATION_FAILED in empty.states(told.id)
    assert empty.shop.undone == []


@pytest.mark.requirement("L19")
def test_a_compensation_that_may_not_even_be_proposed_is_a_failed_one(empty: House) -> None:
    """The caller's fault of the reversal is no fault of the caller's who ran the action: nothing is raised at him."""
    empty.shop.tool = _wrong(empty)
    told = empty.run(empty.action(**{**MAKE, "compensate": {"principals": ["human:*"]}}))
    assert (told.state, told.incident) == (State.REVIEW_REQUIRED, f"action:{told.id}:compensation_failed")
    assert empty.shop.rows


@pytest.mark.requirement("TRUTH-hold-compensation", "L19", "PRINCIPLE-idempotency")
def test_a_compensation_runs_once_however_often_its_process_dies(empty: House) -> None:
    made = empty.action(**MAKE)
    empty.shop.tool = _wrong(empty)
    shown = empty.shop.show
    empty.shop.undo = lambda ctx, args: {"status": "ok"}  # it takes a while
    pending = empty.run(made, wait_s=11)
    assert pending.state is State.COMPENSATING
    for _ in range(3):
        empty.die()
        pending = empty.wait(pending.id, wait_s=1)
    empty.shop.rows.clear()
    empty.runtime.advance(5)
    told = empty.wait(pending.id)
    assert told.state is State.COMPENSATED
    assert len(empty.shop.undone) == 1
    assert shown({"item": "o-1"}).value is None


@pytest.mark.requirement("L07", "TRUTH-late-compensate-shown", "REC-05")
def test_an_effect_that_landed_behind_a_lost_reply_is_found_by_its_stamp_and_reversed(empty: House) -> None:
    def tool(ctx: Context, args: Any) -> object:
        empty.shop.ship(ctx, args, status="lost")
        raise CallHangs

    empty.shop.tool = tool
    told = empty.run(empty.action(find=True, **MAKE))
    assert told.state is State.COMPENSATED
    assert empty.shop.rows == {}
    assert len(empty.shop.calls) == len(empty.shop.undone) == 1


@pytest.mark.requirement("TRUTH-late-compensate-shown", "L07")
@pytest.mark.parametrize("late_window", ["", "5s"])
def test_where_no_reading_shows_an_effect_nothing_is_reversed(empty: House, late_window: str) -> None:
    empty.shop.tool = _hang
    told = empty.run(empty.action(late_window=late_window or None, find=True, **MAKE))
    assert empty.shop.undone == []
    assert told.state is (State.FAILED if late_window else State.UNKNOWN)
    empty.work(86_400)
    assert empty.shop.undone == []


@pytest.mark.requirement("REC-09", "STATE-partially-committed->compensating", "HS-04")
def test_a_part_that_was_done_is_reversed(empty: House) -> None:
    made = empty.action(
        ensure={
            "shipping": {"status": "authoritative.status == requested.status"},
            "billing": {"paid": "has(authoritative.paid) && authoritative.paid"},
        },
        **MAKE,
    )
    told = empty.run(made)
    assert (told.state, told.discrepancy) == (State.COMPENSATED, Discrepancy.PARTIAL_APPLICATION)
    assert (told.parts_done, told.parts_open) == (("shipping",), ("billing",))
    assert State.PARTIALLY_COMMITTED in empty.states(told.id)


@pytest.mark.requirement("TRUTH-verdict-7")
def test_what_another_actor_changed_is_not_reversed(empty: House) -> None:
    def tool(ctx: Context, args: Any) -> object:
        return empty.shop.ship(ctx, args, status="theirs", stamp="another", author="human:eve")

    empty.shop.tool = tool
    told = empty.run(empty.action(**MAKE))
    assert told.discrepancy is Discrepancy.STALE_STATE
    assert empty.shop.undone == []
    assert not told.may_repeat


def test_a_compensation_is_not_run_where_the_contract_calls_the_action_irreversible(empty: House) -> None:
    empty.shop.tool = _wrong(empty)
    told = empty.run(empty.action(**{**MAKE, "execute": {"timeout": "1s", "reversible": False}}))
    assert (told.state, told.row) == (State.REVIEW_REQUIRED, "REC-04")
    assert empty.shop.undone == []


# --- cancelling ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("TRUTH-time-cancel", "DISC-compensation-required", "REC-own-compensation-required")
def test_a_cancelled_action_whose_effect_is_shown_is_reversed(empty: House) -> None:
    empty.shop.tool = lambda ctx, args: (202, {"status": "accepted"})
    pending = empty.run(empty.action(**MAKE), wait_s=1)
    ctx = replace(_context(pending), stamp=pending.stamp)
    empty.shop.ship(ctx, {"item": "o-1", "status": "shipped"})
    told = empty.cancel(pending.id)
    told = empty.wait(told.id)
    assert (told.state, told.discrepancy) == (State.COMPENSATED, Discrepancy.COMPENSATION_REQUIRED)
    assert empty.shop.rows == {}


def _context(outcome: Outcome) -> Context:
    return Context(outcome.id, "acme", "agent:ops", "op-1", outcome.target, "key", outcome.stamp)


@pytest.mark.requirement("TRUTH-time-cancel", "TRUTH-verdict-9")
def test_a_cancelled_action_that_cannot_be_reversed_is_verified_all_the_same(house: House) -> None:
    house.shop.tool = lambda ctx, args: (202, {"status": "accepted"})
    pending = house.run(house.action(), wait_s=1)
    house.shop.rows["o-1"].update(status="shipped", version=2)
    assert house.cancel(pending.id).verified
    assert EventKind.CANCELLED in house.kinds(pending.id)


def test_cancelling_a_no_op_leaves_it_one(house: House) -> None:
    house.shop.rows["o-1"]["status"] = "shipped"
    house.shop.tool = lambda ctx, args: _stop()
    pending = house.run(house.action(compensate={}))
    told = house.wait(house.cancel(pending.id).id)
    assert (told.verified, told.discrepancy) == (True, Discrepancy.NO_OP_SUCCESS)
    assert house.shop.undone == []


def _stop() -> object:
    raise CallerCancelled


@pytest.mark.requirement("TRUTH-time-cancel")
def test_what_has_ended_stays_as_it_ended(house: House) -> None:
    told = house.run(house.action(compensate={}))
    again = house.cancel(told.id)
    assert again.verified
    assert EventKind.CANCELLED not in house.kinds(told.id)


# --- rollback by hand ---------------------------------------------------------------------------------------------


def _restore(house: House, before: dict[str, Any]) -> None:
    house.shop.undo = lambda ctx, args: house.shop.rows.update({"o-1": dict(before)})


@pytest.mark.requirement("STRATEGY-rollback", "STATE-reconciliation-failed->rolled-back")
def test_a_local_boundary_is_put_back_and_counts_when_the_target_reads_as_before(house: House) -> None:
    _restore(house, house.shop.rows["o-1"])
    house.shop.tool = _wrong(house)
    told = house.run(house.action(rollback=True, **STAMPED))
    assert told.state is State.ROLLED_BACK
    assert "no durable change" in told.message
    assert len(house.shop.undone) == 1


def test_a_target_that_says_true_where_it_said_1_does_not_read_as_before(house: House) -> None:
    house.shop.rows["o-1"]["flags"] = [1]
    _restore(house, {**house.shop.rows["o-1"], "flags": [True]})
    house.shop.tool = _wrong(house)
    told = house.run(house.action(rollback=True, **STAMPED))
    assert told.state is State.REVIEW_REQUIRED


@pytest.mark.requirement("STRATEGY-rollback", "HS-04")
def test_a_part_is_rolled_back_where_that_is_still_possible(house: House) -> None:
    _restore(house, house.shop.rows["o-1"])
    groups = {
        "a": {"status": "authoritative.status == requested.status"},
        "b": {"paid": "has(authoritative.paid) && authoritative.paid"},
    }
    told = house.run(house.action(rollback=True, ensure=groups, **STAMPED))
    assert (told.state, told.discrepancy) == (State.ROLLED_BACK, Discrepancy.PARTIAL_APPLICATION)


@pytest.mark.requirement("STRATEGY-rollback")
@pytest.mark.parametrize("undo", [lambda ctx, args: None, lambda ctx, args: 1 / 0, lambda ctx, args: _stop()])
def test_a_rollback_that_left_something_goes_to_a_person(house: House, undo: Any) -> None:
    house.shop.undo = undo
    house.shop.tool = _wrong(house)
    told = house.run(house.action(rollback=True, **STAMPED))
    if told.state is not State.REVIEW_REQUIRED:
        told = house.wait(told.id)
    assert (told.state, told.review) == (State.REVIEW_REQUIRED, "rollback")
    assert "rolled back" not in told.message
    assert len(house.shop.undone) == 1


# --- a transaction that the tool left open ------------------------------------------------------------------------


@dataclass
class Open:
    """A staged change of the shop's row."""

    house: House
    new: dict[str, Any]
    breaks: str = ""
    answer: object = None
    did: list[str] = field(default_factory=list)

    def read(self) -> Reading:
        self.did.append("read")
        if self.breaks == "read":
            raise ValueError("inside")
        return Reading.of(self.new, version=self.new["version"])

    def commit(self) -> None:
        self.did.append("commit")
        if self.breaks != "commit, and it was not":
            self.house.shop.rows["o-1"] = self.new
        if self.breaks.startswith("commit"):
            raise ConnectionError("lost")

    def abandon(self) -> None:
        self.did.append("abandon")
        if self.breaks == "abandon":
            raise ConnectionError("lost")


def _staging(house: House, status: str = "shipped", breaks: str = "") -> list[Open]:
    made: list[Open] = []

    def tool(ctx: Context, args: Any) -> object:
        row = {**house.shop.rows.get("o-1", {}), "id": "o-1", "tenant": "acme", "status": status, "version": 2}
        made.append(Open(house, {**row, "stamp": ctx.stamp, "author": ctx.principal}, breaks, {"status": "ok"}))
        return made[-1]

    house.shop.tool = tool
    return made


@pytest.mark.requirement("STRATEGY-rollback")
def test_what_holds_inside_is_committed_and_verified_from_outside(house: House) -> None:
    staged = _staging(house)
    told = house.run(house.action())
    assert told.verified
    assert staged[0].did == ["read", "commit"]


@pytest.mark.requirement("STRATEGY-rollback", "STATE-executing->rolled-back")
@pytest.mark.parametrize("kind", ["set", "create"])
@pytest.mark.parametrize("breaks", ["", "read"])
def test_what_does_not_hold_inside_is_dropped_and_may_be_repeated(house: House, kind: str, breaks: str) -> None:
    if kind == "create":
        house.shop.rows.clear()
    staged = _staging(house, "lost", breaks)
    told = house.run(house.action(kind=kind, **STAMPED))
    assert (told.state, told.may_repeat) == (State.ROLLED_BACK, True)
    assert staged[0].did == ["read", "abandon"]
    assert "no durable change" in told.message


@pytest.mark.parametrize(("breaks", "verified"), [("commit, and it was", True), ("commit, and it was not", False)])
def test_a_commit_whose_answer_was_lost_is_read_from_outside(house: House, breaks: str, verified: bool) -> None:
    _staging(house, breaks=breaks)
    told = house.run(house.action())
    assert told.verified is verified
    assert not told.may_repeat
    assert told.state is not State.ROLLED_BACK


def test_a_boundary_that_may_not_have_been_dropped_is_not_told_as_rolled_back(house: House) -> None:
    _staging(house, "lost", "abandon")
    told = house.run(house.action())
    assert told.state not in (State.ROLLED_BACK, State.RECONCILED_SUCCESS)
    assert not told.may_repeat


def test_a_dropped_transaction_whose_target_cannot_be_read_is_not_told_as_rolled_back(house: House) -> None:
    _staging(house, "lost")

    def look(ctx: Context, args: Any) -> Reading:
        if house.shop.calls:
            raise ConnectionError("down")
        return house.shop.show(args)

    house.shop.eyes = look
    told = house.run(house.action())
    assert told.state is not State.ROLLED_BACK
    assert told.verdict is Verdict.UNDETERMINED
    assert house.runtime.now_us() >= START_US + 10 * S


def test_medium_risk_is_reversed_alike(empty: House) -> None:
    empty.shop.tool = _wrong(empty)
    marks = {**MEDIUM, "identity": {**MEDIUM["identity"], "stamp": "authoritative.stamp"}}
    told = empty.run(empty.action(kind="create", compensate={}, **marks))
    assert told.state is State.COMPENSATED


@pytest.mark.requirement("STATE-compensation-failed")
@pytest.mark.parametrize("word", ["attest_done", "attest_not_done"])
def test_what_waits_for_a_reversal_that_stays_unknown_goes_to_a_person_and_waits_no_more(
    house: House, word: str
) -> None:
    """Somebody has said what became of the reversal, so that nobody asks for it any more; no reading shows it."""
    house.shop.tool, house.shop.undo = _wrong(house), lambda ctx, args: {"status": "ok"}
    made = house.action(find=True, deadline="30s", compensate={"deadline": "30s", "late_window": "100s"}, **STAMPED)
    told = house.run(made, wait_s=45)
    reversal = house.folded(told.id).compensation_id
    assert (told.state, house.get(reversal).state) == (State.COMPENSATING, State.UNKNOWN)
    resolve(house, reversal, word)
    house.work(400)
    assert (house.get(reversal).state, house.folded(reversal).due_us) == (State.UNKNOWN, None)
    told, entries = house.get(told.id), len(house.events(told.id))
    assert (told.state, told.review) == (State.REVIEW_REQUIRED, "compensation_failed")
    house.work(4_000)
    assert len(house.events(told.id)) == entries
    sound(house)


@pytest.mark.requirement("TRUTH-time-cancel", "TRUTH-verdict-7")
def test_what_another_actor_made_so_is_not_reversed_when_the_action_is_cancelled(house: House) -> None:
    """It is as it was wanted, and it is not ours: the contract's reversal would take his change back."""

    def tool(ctx: Context, args: Any) -> object:
        house.shop.ship(ctx, args, stamp="another", author="human:eve")
        return (202, {"status": "accepted"})

    house.shop.tool = tool
    agreed = {**STAMPED["identity"], "actor": "authoritative.author"}
    pending = house.run(house.action(compensate={}, identity=agreed, polls=["3s"]), wait_s=1)
    assert pending.state is State.PENDING
    told = house.cancel(pending.id)
    assert house.shop.undone == []
    assert (told.verified, told.attribution.value) == (True, "other_actor")
    assert house.shop.rows["o-1"]["author"] == "human:eve"
    sound(house)
