"""Each discrepancy class from end to end: what the world did, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from readback.domain.context import Context
from readback.domain.discrepancy import Discrepancy
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import State
from readback.domain.verdict import Verdict, Why
from readback.domain.verification.reading import Reading
from tests.lifecycle.house import STAMPED, House
from tests.requirements.manifest import requirement_ids


def _nothing(ctx: Context, args: Any) -> object:
    return {"status": "ok"}


def _no_op_success(house: House) -> Outcome:
    house.shop.rows["o-1"]["status"] = "shipped"
    house.shop.tool = _nothing
    return house.run(house.action())


def _no_op_failure(house: House) -> Outcome:
    house.shop.tool = _nothing
    return house.run(house.action(find=True, late_window="5s"))


def _value_mismatch(house: House) -> Outcome:
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, status="lost")
    return house.run(house.action(**STAMPED))


def _stale_state(house: House) -> Outcome:
    theirs = {"status": "lost", "stamp": "another", "author": "human:eve"}
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, **theirs)
    return house.run(house.action(**STAMPED))


def _partial(house: House) -> Outcome:
    groups = {
        "shipping": {"status": "authoritative.status == requested.status"},
        "billing": {"paid": "has(authoritative.paid) && authoritative.paid"},
    }
    return house.run(house.action(ensure=groups, **STAMPED))


def _duplicate(house: House) -> Outcome:
    house.shop.rows.clear()
    house.shop.search = lambda ctx, args: [Reading.of(house.shop.rows["o-1"], stamp=ctx.stamp)] * 2
    return house.run(house.action(kind="create", find=True))


def _wrong_target(house: House) -> Outcome:
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, {**args, "item": "o-2"})
    return house.run(house.action(find=True))


def _target_missing(house: House) -> Outcome:
    house.shop.tool = lambda ctx, args: (house.shop.rows.clear(), (500, {}))[1]
    return house.run(house.action(late_window="5s"))


def _propagation(house: House) -> Outcome:
    """What bears our stamp is there, and does not show what was asked for yet."""
    house.shop.tool = lambda ctx, args: (house.shop.ship(ctx, args, status="on its way"), (202, {}))[1]
    return house.run(house.action(**STAMPED), wait_s=3)


def _unverifiable(house: House) -> Outcome:
    return house.run(house.action(readers=(), unverifiable="The printer has no queue to look into.", identity=None))


def _compensation_required(house: House) -> Outcome:
    house.shop.rows.clear()
    house.shop.tool = lambda ctx, args: (202, {})
    pending = house.run(house.action(kind="create", compensate={}, **STAMPED), wait_s=1)
    ctx = Context(pending.id, "acme", "agent:ops", "op-1", pending.target, "key", pending.stamp)
    house.shop.ship(ctx, {"item": "o-1", "status": "shipped"})
    return house.wait(house.cancel(pending.id).id)


def _unknown(house: House) -> Outcome:
    """What is there is as wanted, and nothing shows whose doing it is."""
    house.shop.rows.clear()
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, stamp="")
    return house.run(house.action(kind="create", lookup=True))


Play = Callable[[House], Outcome]
PLAYED: dict[str, tuple[Play, State, Verdict]] = {
    "DISC-no-op-success": (_no_op_success, State.RECONCILED_SUCCESS, Verdict.VERIFIED),
    "DISC-no-op-failure": (_no_op_failure, State.FAILED, Verdict.REFUTED),
    "DISC-value-mismatch": (_value_mismatch, State.REVIEW_REQUIRED, Verdict.REFUTED),
    "DISC-stale-state": (_stale_state, State.FAILED, Verdict.REFUTED),
    "DISC-partial-application": (_partial, State.REVIEW_REQUIRED, Verdict.REFUTED),
    "DISC-duplicate-side-effect": (_duplicate, State.REVIEW_REQUIRED, Verdict.REFUTED),
    "DISC-wrong-target-modified": (_wrong_target, State.REVIEW_REQUIRED, Verdict.REFUTED),
    "DISC-target-missing": (_target_missing, State.FAILED, Verdict.REFUTED),
    "DISC-propagation-delay": (_propagation, State.PENDING, Verdict.UNDETERMINED),
    "DISC-unverifiable-state": (_unverifiable, State.UNKNOWN, Verdict.UNDETERMINED),
    "DISC-compensation-required": (_compensation_required, State.COMPENSATED, Verdict.VERIFIED),
    "DISC-unknown-state": (_unknown, State.UNKNOWN, Verdict.UNDETERMINED),
}


@pytest.mark.parametrize("requirement_id", requirement_ids("DISC"))
def test_each_class_is_told_as_what_it_is(requirement_id: str, house: House) -> None:
    play, state, verdict = PLAYED[requirement_id]
    told = play(house)
    assert told.discrepancy is Discrepancy(requirement_id.removeprefix("DISC-").replace("-", "_"))
    assert (told.state, told.verdict) == (state, verdict)
    assert told.verified is (requirement_id == "DISC-no-op-success")
    if not told.verified:
        assert "completed successfully" not in told.message + told.for_model()
        assert told.discrepancy.value in told.for_model()
    assert len(house.shop.calls) == 1


@pytest.mark.requirement("CLASS-RULE-no-path", "REC-15", "REC-16")
@pytest.mark.parametrize(
    ("risk", "state", "row"),
    [
        ("low_risk_internal", State.UNKNOWN, "REC-15"),
        ("medium_risk_write", State.REVIEW_REQUIRED, "RB-unverifiable-medium"),
        ("high_risk_external", State.REVIEW_REQUIRED, "REC-16"),
    ],
)
def test_what_nothing_can_verify_is_never_told_as_done(house: House, risk: str, state: State, row: str) -> None:
    made = house.action(readers=(), unverifiable="It has no memory.", identity=None, side_effect=risk)
    told = house.run(made)
    assert (told.state, told.row, told.why) == (state, row, Why.UNVERIFIABLE)
    assert not told.may_repeat
    house.work(86_400)
    assert house.get(told.id).state is state
    assert house.store.next_due_us() is None
    assert len(house.shop.calls) == 1
