"""Accepted work in an intermediate state is neither refuted nor reversed while nothing says that it is over."""

from __future__ import annotations

from typing import Any

import pytest

from readback.domain.action.claim import ClaimKind, ClaimStatus, Reason
from readback.domain.action.claim import ClaimStatus as C
from readback.domain.context import Context
from readback.domain.discrepancy import Discrepancy
from readback.domain.state import State
from readback.domain.verdict import Verdict
from readback.domain.verification.reading import Lookup
from tests.lifecycle.claiming import claim, person
from tests.lifecycle.house import STAMPED, House

JOB: dict[str, Any] = {"kind": "create", "compensate": {}, **STAMPED}
QUEUED: dict[str, Any] = {"intermediate": {"queued": "authoritative.status in ['queued', 'running']"}}


def _job(house: House, answer: object, state: str = "running", done_after_s: float | None = None) -> None:
    """A service that takes a job in, and finishes it later."""
    shop = house.shop
    shop.rows.clear()

    def tool(ctx: Context, args: Any) -> object:
        shop.ship(ctx, args, status=state)
        return answer

    def eyes(ctx: Context, args: Any) -> object:
        if done_after_s is not None and shop.calls and shop.now() >= shop.calls[0] + done_after_s:
            shop.rows[args["item"]].update(status=args["status"], version=2)
        return shop.show(args)

    shop.tool, shop.eyes = tool, eyes


@pytest.mark.requirement("MIDWAY-not-refuted")
@pytest.mark.parametrize("answer", [(202, {"status": "accepted"}), {"status": "pending"}])
@pytest.mark.parametrize("late_window", [None, "1h"])
def test_an_accepted_job_that_outlasts_the_window_is_not_reversed_and_a_later_look_verifies_it(
    house: House, answer: object, late_window: str | None
) -> None:
    _job(house, answer, done_after_s=25)
    told = house.run(house.action(late_window=late_window, **JOB))
    assert (told.state, told.verdict) == (State.UNKNOWN, Verdict.UNDETERMINED)
    assert not told.may_repeat
    house.work(600)
    assert house.get(told.id).verified
    assert house.shop.undone == []
    assert len(house.shop.calls) == 1


@pytest.mark.requirement("MIDWAY-not-refuted")
def test_a_state_that_the_contract_calls_intermediate_is_not_reversed_whatever_the_tool_said(house: House) -> None:
    _job(house, {"status": "ok"}, done_after_s=25)
    told = house.run(house.action(late_window="1h", **JOB, **QUEUED))
    assert (told.state, told.row) == (State.UNKNOWN, "RB-value-late")
    house.work(600)
    assert house.get(told.id).verified
    assert house.shop.undone == []


@pytest.mark.requirement("MIDWAY-not-refuted")
def test_any_other_wrong_value_stays_a_mismatch(house: House) -> None:
    _job(house, {"status": "ok"}, state="lost")
    told = house.run(house.action(late_window="1h", **JOB, **QUEUED))
    assert told.discrepancy is Discrepancy.VALUE_MISMATCH
    assert told.state is State.COMPENSATED


@pytest.mark.requirement("MIDWAY-not-refuted")
def test_what_failed_for_good_is_refuted_though_it_was_accepted(house: House) -> None:
    _job(house, (202, {"status": "accepted"}), state="failed")
    made = house.action(late_window="1h", fails_when={"failed": "authoritative.status == 'failed'"}, **JOB)
    told = house.run(made)
    assert (told.state, told.verdict) == (State.COMPENSATED, Verdict.REFUTED)


@pytest.mark.requirement("MIDWAY-not-refuted")
def test_what_is_over_and_not_as_wanted_is_a_mismatch_again(house: House) -> None:
    """The late window has passed, so nothing of it can follow."""
    _job(house, (202, {"status": "accepted"}))
    told = house.run(house.action(late_window="30s", **JOB))
    assert told.state is State.UNKNOWN
    house.work(600)
    ended = house.get(told.id)
    assert (ended.state, ended.discrepancy) == (State.COMPENSATED, Discrepancy.VALUE_MISMATCH)


@pytest.mark.requirement("MIDWAY-not-refuted")
def test_a_key_whose_record_is_final_is_over(house: House) -> None:
    _job(house, (202, {"status": "accepted"}))
    house.shop.record = lambda ctx, args: Lookup.failed("aborted")
    told = house.run(house.action(lookup=True, **JOB))
    assert told.verdict is Verdict.REFUTED


@pytest.mark.requirement("MIDWAY-reinstated")
def test_a_claim_that_was_contested_stands_again_when_a_later_look_verifies_it(house: House) -> None:
    _job(house, (202, {"status": "accepted"}), done_after_s=25)
    told = house.run(house.action(**JOB))
    found = claim(house, told.id, ClaimKind.HAPPENED).said
    assert found is not None
    assert found.status is ClaimStatus.CONTESTED
    house.work(600)
    found = claim(house, told.id, ClaimKind.HAPPENED).said
    assert found is not None
    assert (found.status, found.reason) == (ClaimStatus.REINSTATED, Reason.VERIFIED)


@pytest.mark.requirement("MIDWAY-reinstated")
def test_a_claim_that_a_person_retracted_stays_retracted(house: House) -> None:
    _job(house, (202, {"status": "accepted"}), done_after_s=25)
    told = house.run(house.action(**JOB))
    person(house, told.id, C.RETRACTED, ClaimKind.HAPPENED)
    house.work(600)
    found = claim(house, told.id, ClaimKind.HAPPENED).said
    assert found is not None
    assert found.status is ClaimStatus.RETRACTED
