"""Attempts that somebody else makes between two of his calls: durable first, reported once, read whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from readback.audit.checks.ledger import audit
from readback.client.authoring.action import ActionDefinition
from readback.domain.contract.approval import Decision
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import TERMINAL, State
from readback.domain.verdict import Why
from readback.engine import coordinator, external_attempts
from readback.engine.effects import Commit, Ending
from readback.engine.people import approvals
from readback.engine.resume import fold
from readback.errors import ToolError, UsageError
from readback.ports.storage.store import Freeze
from readback.testing.driver_virtual import Parked, ProcessDied
from tests.lifecycle.approving import ASKED, approve, listed, token
from tests.lifecycle.house import TENANT, House

DONE = external_attempts.Report(Ending.RETURNED, {"status": "ok"})


@pytest.fixture
def house() -> Iterator[House]:
    one = House()
    yield one
    report = audit(one.store)
    assert report.ok, report.faults


def hand_out(house: House, made: ActionDefinition[Any], operation: str = "op-1") -> external_attempts.ExternalAttempt:
    request = replace(house.propose(made).request(operation), outside=True)
    work = external_attempts.start_external(
        house.engine, request, house.scope, house.plans.get, coordinator.ActionHandle()
    )
    handed = house.driver.drive(work)
    assert isinstance(handed, external_attempts.ExternalAttempt)
    return handed


def ship(house: House, handed: external_attempts.ExternalAttempt) -> None:
    """What the agent's own tool does meanwhile."""
    house.shop.rows["o-1"] |= {"status": "shipped", "stamp": handed.outcome.stamp, "version": 2}


def report(house: House, action_id: str, said: external_attempts.Report = DONE, wait_s: float | None = None) -> Outcome:
    work = external_attempts.complete_external(house.engine, action_id, TENANT, house.plans.get, said)
    told = house.driver.drive(work, house._until(wait_s))
    return house.get(action_id) if isinstance(told, Parked) else told


@pytest.mark.requirement("HS-05", "PRINCIPLE-idempotency", "HOOK-durable-first", "HOOK-never-made")
def test_the_attempt_is_durable_before_it_is_handed_out_and_no_tool_is_called_from_here(house: House) -> None:
    handed = hand_out(house, house.action())
    assert handed.allowed
    assert handed.outcome.state is State.EXECUTING
    stored = fold(house.store.events(handed.outcome.id))
    assert stored is not None
    assert (stored.attempts, stored.attempt_open) == (1, True)
    assert house.shop.calls == []


def test_what_is_reported_and_read_is_verified(house: House) -> None:
    handed = hand_out(house, house.action())
    ship(house, handed)
    told = report(house, handed.outcome.id)
    assert told.verified
    assert told.observation is not None
    assert told.observation.claims_success
    assert house.shop.calls == []


def test_a_report_of_success_over_an_unchanged_world_is_refuted(house: House) -> None:
    handed = hand_out(house, house.action())
    told = report(house, handed.outcome.id)
    assert not told.verified
    assert told.discrepancy is not None
    assert house.shop.calls == []


@pytest.mark.requirement("HOOK-reported")
def test_a_reported_failure_is_read_too_and_the_world_decides(house: House) -> None:
    handed = hand_out(house, house.action())
    ship(house, handed)
    told = report(house, handed.outcome.id, external_attempts.Report(Ending.RAISED, error=ToolError("exit code 1")))
    assert told.verified


@pytest.mark.requirement("L07", "HS-14", "PRINCIPLE-replayable-evidence", "HOOK-reported", "HOOK-never-made")
@pytest.mark.parametrize("acted", [True, False])
def test_a_report_that_never_comes_leaves_it_unknown_and_it_is_read_and_never_repeated(
    acted: bool, house: House
) -> None:
    made = house.action(execute={"timeout": "1s", "honours_key": True})
    handed = hand_out(house, made)
    if acted:
        ship(house, handed)
    house.die()
    house.work(5)
    assert house.get(handed.outcome.id).state is State.EXECUTING  # its time is not over
    assert house.shop.looks == [0.0]
    house.work(40 * 86_400)
    ended = house.get(handed.outcome.id)
    assert ended.verified is acted
    assert house.shop.calls == []
    assert ended.attempts == 1


@pytest.mark.slow
@pytest.mark.parametrize("acted", [True, False])
def test_whatever_step_a_process_dies_at_the_next_one_finds_the_truth(acted: bool) -> None:
    for step in range(60):
        house = House()
        made = house.action()
        house.driver.vanish_at = step
        handed = told = None
        try:
            handed = hand_out(house, made)
            if acted:
                ship(house, handed)
            told = report(house, handed.outcome.id)
        except ProcessDied:
            house.die()
            known = [stored.projection.action_id for stored in house.store.projections()]
            if handed is not None:
                report(house, handed.outcome.id)  # the agent's next process reports again
            house.work(40 * 86_400)
            for action_id in known:
                ended = house.get(action_id)
                assert ended.verified is (acted and handed is not None)
        assert house.shop.calls == []
        assert audit(house.store).ok
        if told is not None:
            assert step > 10
            return
    raise AssertionError("it never came to an end")


@pytest.mark.requirement("HOOK-late-report")
def test_a_report_counts_once_and_a_second_one_is_answered_from_the_record(house: House) -> None:
    handed = hand_out(house, house.action())
    ship(house, handed)
    first = report(house, handed.outcome.id)
    events = len(house.store.events(first.id))
    again = report(house, first.id, external_attempts.Report(Ending.RAISED, error=ToolError("no")))
    assert again.verified
    assert len(house.store.events(first.id)) == events


@pytest.mark.requirement("HOOK-late-report")
def test_a_report_that_comes_after_it_was_given_up_on_is_recorded_and_read(house: House) -> None:
    handed = hand_out(house, house.action(late_window="1h", deadline="20s"))
    house.work(60)
    assert house.get(handed.outcome.id).state is State.UNKNOWN
    ship(house, handed)
    told = report(house, handed.outcome.id)
    assert told.verified
    assert told.observation is not None
    assert told.observation.claims_success


@pytest.mark.requirement("HOOK-late-report")
def test_a_report_of_what_has_ended_changes_nothing(house: House) -> None:
    handed = hand_out(house, house.action(late_window="0s"))
    house.work(3600)
    ended = house.get(handed.outcome.id)
    assert ended.state in TERMINAL
    events = len(house.store.events(ended.id))
    assert report(house, ended.id).state is ended.state
    assert len(house.store.events(ended.id)) == events


@pytest.mark.requirement("PRINCIPLE-idempotency", "HOOK-durable-first")
def test_the_same_operation_is_not_handed_out_twice(house: House) -> None:
    made = house.action()
    first = hand_out(house, made)
    again = hand_out(house, made)
    assert not again.allowed
    assert again.outcome.id == first.outcome.id
    assert again.outcome.replayed


def test_what_is_refused_is_not_handed_out_and_ends_without_an_attempt(house: House) -> None:
    handed = hand_out(house, house.action(require={"open": "before.status == 'gone'"}))
    assert not handed.allowed
    assert (handed.outcome.state, handed.outcome.attempts) == (State.FAILED, 0)


def test_nobody_reports_what_was_not_handed_out(house: House) -> None:
    told = house.run(house.action())
    with pytest.raises(UsageError):
        report(house, told.id)


def test_a_caller_whose_patience_ends_is_told_pending_and_a_worker_goes_on(house: House) -> None:
    handed = hand_out(house, house.action(within="30s", polls=["5s", "5s"]))
    waiting = report(house, handed.outcome.id, wait_s=1)
    assert not waiting.settled
    ship(house, handed)
    house.work(60)
    assert house.get(handed.outcome.id).verified


def test_what_nothing_reads_ends_as_not_checked(house: House) -> None:
    made = house.action(readers=(), unverifiable="nothing reads it", identity=None)
    told = report(house, hand_out(house, made).outcome.id)
    assert not told.verified
    assert told.why is Why.UNVERIFIABLE


@pytest.mark.requirement("HOOK-never-made")
def test_what_needs_an_approval_is_handed_out_to_whoever_asks_again_once_it_is_approved(house: House) -> None:
    listed(house)
    made = house.action(**ASKED)
    held = hand_out(house, made)
    assert not held.allowed
    assert held.outcome.hold == "approval"
    assert not hand_out(house, made).allowed
    approve(house, held.outcome.id)
    house.work(60)  # a worker cannot make the attempt, and does not try
    assert house.get(held.outcome.id).attempts == 0
    handed = hand_out(house, made)
    assert handed.allowed
    assert handed.outcome.id == held.outcome.id
    ship(house, handed)
    assert report(house, handed.outcome.id).verified
    assert house.shop.calls == []


@pytest.mark.requirement("HOOK-denied")
def test_a_frozen_target_is_not_handed_out() -> None:
    house = House()
    frozen = Freeze(TENANT, "resource:item/o-1", "x", "told elsewhere", 1)
    house.store._content.freezes[TENANT, frozen.subject, "x"] = frozen
    handed = hand_out(house, house.action())
    assert not handed.allowed
    assert (handed.outcome.state, handed.outcome.attempts) == (State.FAILED, 0)


@pytest.mark.requirement("HOOK-never-made")
def test_what_is_asked_for_again_while_an_approver_has_it_in_hand_is_handed_out_a_moment_later(house: House) -> None:
    listed(house)
    made = house.action(approval={"people": 1, "expires": "1h"})
    held = hand_out(house, made)
    given = token(house, held.outcome.id)
    approve(house, held.outcome.id, "bob")
    late = approvals.record(held.outcome.id, TENANT, given, house.engine.approvals, Decision.APPROVE)
    step = next(late)
    while not isinstance(step, Commit):
        step = late.send(house.driver._do(step))  # she has the lease, and her word is on its way to the ledger

    def recorded() -> None:
        with suppress(StopIteration):
            late.send(house.driver._do(step))

    house.driver.at(house.runtime.now_us() + 300_000, recorded)
    handed = hand_out(house, made)
    assert handed.allowed
    ship(house, handed)
    assert report(house, handed.outcome.id).verified
