"""Freezes and incidents: what is severe stops whatever is new on it, unexecuted, until a person lifts that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from readback.domain.context import Context
from readback.domain.contract.freezing import freeze_subjects
from readback.domain.events import EventKind
from readback.domain.state import State
from readback.domain.verification.reading import Reading
from readback.engine import coordinator
from readback.engine.effects import Commit
from readback.errors import NotFoundError, ReviewError
from readback.ports.storage.store import Append, Freeze
from readback.testing.driver_virtual import ProcessDied
from tests.lifecycle.house import MEDIUM, STAMPED, TENANT, House
from tests.lifecycle.reviewing import CRITICAL, doubtful, frozen, lift, resolve, sound, wrong_target


@pytest.mark.requirement("STRATEGY-fail-closed-hold", "REC-14", "TRUTH-hold-not-state")
def test_a_wrong_target_freezes_what_was_aimed_at_and_new_actions_on_it_are_refused_unexecuted(house: House) -> None:
    first = house.run(wrong_target(house))
    assert (first.state, frozen(house)) == (State.REVIEW_REQUIRED, ["resource:item/o-1"])
    house.shop.tool = None
    made, looks = house.action(), len(house.shop.looks)
    told = house.run(made, "op-2")
    assert (told.state, told.code) == (State.FAILED, "frozen")
    assert first.id in told.detail
    assert "resource:item/o-1" in told.detail
    assert (len(house.shop.calls), len(house.shop.looks)) == (1, looks), "no reader is asked for nothing"
    assert told.may_repeat
    assert (told.attempts, told.row, told.review) == (0, "RB-failed-before-effect", "")
    assert "frozen" in told.message
    assert "not now" in told.for_model()
    sound(house)


def test_other_targets_are_not_frozen(house: House) -> None:
    house.run(wrong_target(house))
    house.shop.tool = None
    house.shop.rows["o-3"] = {"id": "o-3", "tenant": TENANT, "status": "open", "version": 1, "author": "seed"}
    assert house.run(house.action(), "op-2", item="o-3").verified


def test_the_same_operation_is_executed_once_the_freeze_is_lifted(house: House) -> None:
    first = house.run(wrong_target(house))
    house.shop.tool = None
    made = house.action()
    refused = house.run(made, "op-2")
    lift(house, "resource:item/o-1", first.id)
    assert frozen(house) == []
    told = house.run(made, "op-2")
    assert (told.verified, told.replayed) == (True, False)
    assert told.id != refused.id
    event = house.events(first.id)[-1]
    assert (event.kind, event.data["who"], event.data["lift"]) == (EventKind.LIFTED, "human:eve", ["resource:item/o-1"])
    sound(house)


@pytest.mark.parametrize(
    ("scopes", "same", "contract", "principal", "refused"),
    [
        (["resource"], True, "ship", "agent:ops", True),
        (["resource"], False, "ship", "agent:ops", False),
        (["principal"], False, "other", "agent:ops", True),
        (["principal"], False, "ship", "agent:else", False),
        (["tool"], False, "ship", "agent:else", True),
        (["tool"], False, "other", "agent:ops", False),
        (["tenant"], False, "other", "agent:else", True),
    ],
)
def test_a_contract_says_what_is_frozen_beside_its_target(
    house: House, scopes: list[str], same: bool, contract: str, principal: str, refused: bool
) -> None:
    house.run(wrong_target(house, freeze=scopes))
    house.shop.tool = None
    item = "o-1" if same else "o-3"
    house.shop.rows["o-3"] = {"id": "o-3", "tenant": TENANT, "status": "open", "version": 1, "author": "seed"}
    house.scope = replace(house.scope, principal=principal)
    told = house.run(house.action(name=contract), "op-2", item=item)
    assert (told.code == "frozen") is refused
    assert told.verified is not refused


def test_a_read_touches_nothing_and_is_not_refused(house: House) -> None:
    house.run(wrong_target(house, freeze=["tenant"]))
    house.shop.tool = lambda ctx, args: {"status": "ok"}
    ensure = {"there": "authoritative != null"}
    assert house.run(house.action(kind="read", side_effect="read_only", ensure=ensure, name="see"), "op-2").verified


def test_several_actions_freeze_one_subject_and_the_last_one_frees_it(house: House) -> None:
    first = house.run(wrong_target(house, freeze=["tool"]))
    house.shop.rows.pop("o-2")
    house.shop.rows["o-3"] = {"id": "o-3", "tenant": TENANT, "status": "open", "version": 1, "author": "seed"}
    other = house.run(wrong_target(house, name="other", freeze=["principal"]), "op-2", item="o-3")
    assert other.code == ""
    third = house.run(house.action(), "op-3", item="o-3")
    assert third.code == "frozen"
    for subject in ("tool:ship", "resource:item/o-1"):
        lift(house, subject, first.id)
    assert sorted(frozen(house)) == ["principal:agent:ops", "resource:item/o-3"]
    with pytest.raises(NotFoundError):
        lift(house, "tool:ship", first.id)
    with pytest.raises(NotFoundError):
        lift(house, "tool:ship", other.id)
    sound(house)


def test_another_tenant_is_not_frozen(house: House) -> None:
    house.run(wrong_target(house, freeze=["tenant", "principal", "tool"]))
    subjects = freeze_subjects(tenant="globex", principal="agent:ops", contract="ship", target="item/o-1")
    assert house.store.frozen("globex", subjects) is None
    assert house.store.frozen(TENANT, subjects) is not None


# --- the race: it is frozen between the check and the commit ------------------------------------------------------


class Meanwhile:
    """Freezes a subject just before an attempt is made durable: the check beforehand saw nothing."""

    def __init__(self, house: House, subject: str) -> None:
        self._store, self._append, self.done = house.store, house.store.append, False
        self._subject, self._house = subject, house
        house.store.append = self.append  # type: ignore[method-assign]

    def append(self, batch: Any) -> Any:
        if not self.done and any(item.require_not_frozen for item in batch):
            self.done = True
            with self._store._open():
                freeze = Freeze(TENANT, self._subject, "somebody", "elsewhere", 1)
                self._store._content.freezes[TENANT, self._subject, "somebody"] = freeze
        return self._append(batch)


@pytest.mark.requirement("TRUTH-hold-freeze")
@pytest.mark.parametrize("options", [{}, {"kind": "create"}, {"require": {"any": "true"}}])
def test_a_freeze_that_comes_after_the_check_stops_the_attempt_in_its_own_transaction(
    house: House, options: dict[str, Any]
) -> None:
    race = Meanwhile(house, "resource:item/o-1")
    told = house.run(house.action(**options))
    assert race.done
    assert (told.state, told.code, told.attempts) == (State.FAILED, "frozen", 0)
    assert house.shop.calls == []
    assert house.kinds(told.id) == [EventKind.PROPOSED, EventKind.REJECTED]
    assert house.store.key(TENANT, house.folded(told.id).key_hash) is None, "nothing was reserved"
    assert told.may_repeat


def test_a_freeze_stops_a_second_attempt_under_the_same_key_too_and_the_first_ones_end_stands(house: House) -> None:
    def refuse(ctx: Context, args: Any) -> object:
        house.store._content.freezes[TENANT, "tenant:acme", "somebody"] = Freeze(
            TENANT, "tenant:acme", "somebody", "elsewhere", 1
        )
        return {"success": False}

    house.shop.rows.clear()
    house.shop.tool = refuse
    made = house.action(kind="create", execute={"timeout": "1s", "honours_key": True}, late_window="5s", find=True)
    told = house.run(made)
    assert (told.state, told.code, told.attempts) == (State.FAILED, "frozen", 1)
    assert len(house.shop.calls) == 1
    assert told.may_repeat, "the first attempt is refuted and dead, and no second one was made"
    house.store._content.freezes.clear()
    sound(house)


def test_a_process_that_dies_after_the_refusal_leaves_nothing_behind(house: House) -> None:
    house.run(wrong_target(house))
    house.shop.tool = None
    for at in range(12):
        house.driver.vanish_at, made = at, house.action()
        house.driver.done.clear()
        try:
            told = house.run(made, f"op-{at}")
        except ProcessDied:
            house.die()
            continue
        assert told.code == "frozen"
        break
    assert len(house.shop.calls) == 1
    house.work(10)
    sound(house)


# --- who freezes --------------------------------------------------------------------------------------------------


def critical(house: House, **options: Any) -> Any:
    house.scope = replace(house.scope, break_glass="The site is down.")
    return house.action(**CRITICAL, late_window="0s", **options)


@pytest.mark.requirement("CLASS-critical-mutation", "STRATEGY-fail-closed-hold")
def test_a_critical_mutation_that_was_executed_and_is_not_verified_freezes(house: House) -> None:
    made = critical(house)
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, status="lost")
    told = house.run(made)
    assert not told.verified
    assert frozen(house) == ["resource:item/o-1"]
    with pytest.raises(ReviewError) as refused:
        lift(house, "resource:item/o-1", told.id)
    assert refused.value.code == "review.signature"
    lift(house, "resource:item/o-1", told.id, signed=True)
    assert frozen(house) == []
    sound(house)


def test_a_critical_mutation_that_is_verified_freezes_nothing_and_is_reviewed_since_nobody_approved_it(
    house: House,
) -> None:
    told = house.run(critical(house))
    assert (told.verified, told.review) == (True, "break_glass")
    assert frozen(house) == []


def test_a_critical_mutation_that_was_never_dispatched_freezes_nothing(house: House) -> None:
    from readback.errors import NotDispatchedError

    def tool(ctx: Context, args: Any) -> object:
        raise NotDispatchedError("no line")

    made = critical(house)
    house.shop.tool = tool
    assert house.run(made).state is State.FAILED
    assert frozen(house) == []


def test_a_mismatch_below_critical_freezes_nothing(house: House) -> None:
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, status="lost")
    told = house.run(house.action(**MEDIUM))
    assert (told.state, frozen(house)) == (State.REVIEW_REQUIRED, [])


def test_what_was_lifted_is_not_frozen_again_by_another_look_that_says_nothing_new(house: House) -> None:
    made = critical(house)
    house.shop.tool = lambda ctx, args: (500, {})
    house.shop.eyes = lambda ctx, args: Reading.unavailable("down") if house.shop.calls else house.shop.show(args)
    told = house.run(made)
    assert frozen(house) == ["resource:item/o-1"]
    lift(house, "resource:item/o-1", told.id, signed=True)
    house.work(90 * 86_400)
    assert frozen(house) == []
    sound(house)


# --- incidents ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("STRATEGY-incident", "TRUTH-hold-incident")
def test_an_incident_is_opened_once_a_cause_with_its_severity(house: House) -> None:
    told = house.run(wrong_target(house))
    [incident] = house.store.incidents(TENANT)
    assert (incident.severity, incident.seen, incident.action_id) == ("critical", 1, told.id)
    assert incident.cause == told.incident == f"action:{told.id}:wrong_target"
    assert incident.id in {f"inc-{told.id}-{n}" for n in range(1, 20)}
    house.work(90 * 86_400)  # looked at again and again: nothing new
    assert house.store.incidents(TENANT) == [incident]
    sound(house)


@pytest.mark.requirement("STRATEGY-incident", "CLASS-RULE-repeated-mismatch")
def test_a_verifier_that_keeps_failing_is_one_incident_of_its_source(house: House) -> None:
    def eyes(ctx: Context, args: Any) -> Any:
        return "not a reading" if house.shop.calls else house.shop.show(args)

    house.shop.eyes = eyes
    made = house.action(deadline="10s", **STAMPED)
    for number in range(5):
        house.shop.calls.clear()
        house.shop.rows["o-1"]["status"] = "open"
        house.run(made, f"op-{number}")
    [incident] = house.store.incidents(TENANT)
    assert (incident.cause, incident.severity) == ("source:orders", "medium")
    assert incident.seen >= 2
    sound(house)


@pytest.mark.requirement("TRUTH-hold-incident")
def test_an_incident_is_closed_when_the_review_of_its_action_is_resolved_and_a_new_one_may_open(house: House) -> None:
    told = house.run(wrong_target(house))
    resolve(house, told.id, "attest_done")
    assert house.store.incidents(TENANT) == []
    [closed] = house.store.incidents(TENANT, open_only=False)
    assert closed.closed_us == house.folded(told.id).updated_us
    sound(house)


def test_a_failed_compensation_is_an_incident_and_a_critical_one_freezes(house: House) -> None:
    house.shop.rows.clear()
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, status="lost")
    house.shop.undo = lambda ctx, args: {"status": "ok"}
    made = house.action(kind="create", compensate={"late_window": "0s"}, **STAMPED)
    told = house.run(made)
    house.work(90 * 86_400)
    told = house.get(told.id)
    assert told.incident == f"action:{told.id}:compensation_failed"
    assert [i.severity for i in house.store.incidents(TENANT) if i.cause == told.incident] == ["high"]
    sound(house)


def test_whoever_escalates_without_the_contract_freezes_what_was_critical(house: House) -> None:
    made = critical(house)
    house.shop.eyes = lambda ctx, args: Reading.unavailable("down") if house.shop.calls else house.shop.show(args)
    waiting = house.run(made, wait_s=1)
    assert waiting.state not in (State.REVIEW_REQUIRED, State.UNKNOWN)
    critical(house, ensure={"other": "authoritative.status == 'x'"})  # the contract is another one now
    house.runtime.advance(3600)
    house.driver.drive(coordinator.advance(house.engine, waiting.id, TENANT, house.plans.get))
    told = house.get(waiting.id)
    assert (told.state, told.hold, frozen(house)) == (State.REVIEW_REQUIRED, "contract.changed", ["resource:item/o-1"])
    sound(house)


def test_only_attempts_carry_what_may_not_be_frozen(house: House) -> None:
    seen: list[Append] = []
    work = coordinator.begin(
        house.engine,
        house.propose(house.action()).request("op-1"),
        house.scope,
        house.plans.get,
        coordinator.ActionHandle(),
    )
    step = next(work)
    while True:
        if isinstance(step, Commit):
            seen.append(step.append)
        try:
            step = work.send(house.driver._do(step))
        except StopIteration:
            break
    kinds = [[event.kind for event in append.events] for append in seen]
    carrying = [bool(append.require_not_frozen) for append in seen]
    assert carrying == ["attempted" in each for each in kinds]
    assert seen[0].require_not_frozen == ("resource:item/o-1", "principal:agent:ops", "tool:ship", "tenant:acme")


def test_a_doubtful_one_freezes_only_if_it_is_critical(house: House) -> None:
    told = house.run(doubtful(house))
    assert told.review
    assert frozen(house) == []
