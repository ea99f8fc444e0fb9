"""A person decides: what each decision does, that it is done once and by the version he saw, and what it never does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from readback.canon import payload_bytes, sha256_hex
from readback.domain.context import Context
from readback.domain.events import EventKind
from readback.domain.idempotency import Resolution
from readback.domain.people.review import CUT, PACKET_MAX_BYTES, SECTION_MAX_BYTES, bounded
from readback.domain.state import State
from readback.domain.verification.reading import Lookup, Reading
from readback.engine import coordinator
from readback.engine.people import review
from readback.engine.people.review_case import packet
from readback.errors import NotFoundError, ReviewError
from readback.testing.driver_virtual import CallHangs, ProcessDied
from tests.lifecycle.house import HIGH, MEDIUM, STAMPED, TENANT, House
from tests.lifecycle.reviewing import (
    CRITICAL,
    doubtful,
    frozen,
    held,
    look,
    open_to,
    order,
    resolve,
    sound,
    wrong_target,
)

MAKE: dict[str, Any] = {"kind": "create", "compensate": {}, **STAMPED}


def refused(house: House, action_id: str, decision: str, **how: Any) -> str:
    """The code of the refusal; nothing was changed."""
    before = house.store.events(action_id)
    with pytest.raises(ReviewError) as error:
        resolve(house, action_id, decision, **how)
    assert house.store.events(action_id) == before
    return error.value.code


# --- attestations -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("TRUTH-hold-attestation", "TRUTH-hold-resolution")
def test_the_word_that_it_was_done_keeps_the_key_and_verifies_nothing(house: House) -> None:
    made = held(house)
    told = house.run(made)
    assert told.state is State.REVIEW_REQUIRED
    ended = resolve(house, told.id, "attest_done")
    assert (ended.state, ended.verified, ended.resolution) == (told.state, False, Resolution.ATTESTED_DONE)
    assert (ended.review, ended.may_repeat, ended.exit_code) == ("", False, 3)
    assert "A person attested that it was done; that is not a verification." in ended.message
    again = house.run(made)
    assert (again.id, again.replayed, len(house.shop.calls)) == (told.id, True, 1)


@pytest.mark.requirement("TRUTH-hold-attestation", "TRUTH-hold-resolution")
def test_the_word_that_it_was_not_done_frees_the_key_and_the_operation_is_executed_when_it_is_asked_for_again(
    house: House,
) -> None:
    made = held(house)
    told = house.run(made)
    ended = resolve(house, told.id, "attest_not_done")
    assert (ended.verified, ended.resolution) == (False, Resolution.ATTESTED_NOT_DONE)
    assert ended.may_repeat
    assert "allowed: a person attested that it was not done." in ended.for_model()
    again = house.run(made)
    assert again.id != told.id
    assert len(house.shop.calls) == 2
    sound(house)


def test_an_attestation_of_what_stays_unknown_keeps_that_state_too(house: House) -> None:
    house.shop.rows.clear()
    house.shop.tool = lambda ctx, args: (_ for _ in ()).throw(CallHangs())
    house.shop.eyes = lambda ctx, args: Reading.absent()
    made = house.action(kind="create", lookup=True, **STAMPED)
    told = house.run(made)
    assert (told.state, bool(told.review)) == (State.UNKNOWN, True)
    ended = resolve(house, told.id, "attest_not_done")
    assert (ended.state, ended.may_repeat, ended.due_us is not None) == (State.UNKNOWN, True, True)
    record = house.store.key(TENANT, house.folded(told.id).key_hash)
    assert record is not None
    assert record.status == "FAILED_RETRYABLE"


def test_a_reading_that_shows_an_effect_bars_the_word_that_it_was_not_done(house: House) -> None:
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, status="lost")
    told = house.run(house.action(**{**MEDIUM, "identity": {**MEDIUM["identity"], "stamp": "authoritative.stamp"}}))
    assert told.state is State.REVIEW_REQUIRED
    assert "attest_not_done" not in open_to(house, told.id)
    assert refused(house, told.id, "attest_not_done") == "review.not-offered"


# --- late evidence ------------------------------------------------------------------------------------------------


def late(house: House, *, lands: bool, stamp: str | None = None, **options: Any) -> tuple[str, Any]:
    """A call whose connection broke; its effect lands an hour later, or never. Unknown, until somebody says."""
    house.shop.rows.clear()
    arrived: dict[str, Any] = {}

    def tool(ctx: Context, args: Any) -> object:
        if not house.shop.calls[1:]:
            arrived.update(ctx=ctx, args=args)
        raise ConnectionResetError("the line went dead")

    def eyes(ctx: Context, args: Any) -> Reading:
        if lands and arrived and house.shop.now() > 3600:
            house.shop.ship(arrived["ctx"], arrived["args"], **({} if stamp is None else {"stamp": stamp}))
            arrived.clear()
        return house.shop.show(args)

    house.shop.tool, house.shop.eyes = tool, eyes
    made = house.action(**{"late_window": "7200s", **MAKE, **options})
    told = house.run(made)
    assert (told.state, bool(told.review)) == (State.UNKNOWN, True)
    return told.id, made


@pytest.mark.requirement("TRUTH-hold-resolution")
def test_an_effect_that_lands_after_it_was_attested_that_nothing_was_done_contests_that(house: House) -> None:
    action_id, made = late(house, lands=True)
    assert resolve(house, action_id, "attest_not_done").may_repeat
    house.work(7300)
    told = house.get(action_id)
    assert (told.contested, told.review) == (True, "contested")
    assert (told.resolution, told.may_repeat, told.verified) == (Resolution.NONE, False, False)
    assert "contradicts" in told.message
    assert EventKind.CLAIM_CONTESTED in house.kinds(action_id)
    again = house.run(made)
    assert (again.id, again.replayed) == (action_id, True), "the key is taken again"
    ended = resolve(house, action_id, "attest_done")
    assert (ended.contested, ended.resolution) == (False, Resolution.ATTESTED_DONE)


@pytest.mark.requirement("TRUTH-hold-resolution", "L06")
@pytest.mark.parametrize(
    ("kind", "options"), [("set", {"stable_for": "5s"}), ("create", {"find": True})], ids=["stays so", "no search"]
)
def test_an_effect_that_lands_contests_the_word_also_where_success_would_ask_for_more(
    house: House, kind: str, options: dict[str, Any]
) -> None:
    """Whether it stays so, and is the only one, is asked before success is told; here it is asked whether it landed."""

    def broken(ctx: Context, args: Any) -> object:
        raise ConnectionError("down")

    shop = house.shop
    shop.search, shop.record = broken, lambda ctx, args: Lookup.landed() if shop.rows else Lookup.unknown_key()
    action_id, made = late(house, lands=True, stamp="", kind=kind, lookup=True, **options)
    assert resolve(house, action_id, "attest_not_done").may_repeat
    house.work(7300)
    told = house.get(action_id)
    assert (told.contested, told.review, told.may_repeat) == (True, "contested", False)
    again = house.run(made)
    assert (again.id, again.replayed, len(shop.calls)) == (action_id, True, 1)


@pytest.mark.requirement("TRUTH-hold-contested", "L06")
def test_what_landed_after_it_was_attested_that_nothing_was_done_is_not_executed_again(house: House) -> None:
    action_id, _ = late(house, lands=True)
    resolve(house, action_id, "attest_not_done")
    house.work(7300)
    assert house.get(action_id).contested
    assert "reopen" not in open_to(house, action_id)
    assert refused(house, action_id, "reopen") == "review.not-offered"
    assert len(house.shop.calls) == 1


@pytest.mark.requirement("TRUTH-hold-contested")
def test_what_was_contested_and_is_then_verified_again_is_verified_and_contested_no_more(house: House) -> None:
    action_id, _ = late(house, lands=True)
    resolve(house, action_id, "attest_not_done")
    house.work(7300)
    assert house.get(action_id).contested
    told = resolve(house, action_id, "verify_again")
    assert (told.state, told.verified, told.standing, told.review) == (State.RECONCILED_SUCCESS, True, True, "")


@pytest.mark.requirement("TRUTH-hold-contested")
def test_where_the_key_was_used_again_meanwhile_the_late_effect_is_still_contested(house: House) -> None:
    action_id, made = late(house, lands=True)
    resolve(house, action_id, "attest_not_done")
    second = house.run(made)
    assert second.id != action_id
    house.work(7300)
    assert house.get(action_id).contested
    sound(house)


@pytest.mark.requirement("TRUTH-hold-attestation")
def test_a_reading_that_verifies_what_was_attested_is_a_verification(house: House) -> None:
    action_id, _ = late(house, lands=True)
    assert not resolve(house, action_id, "attest_done").verified
    house.work(7300)
    told = house.get(action_id)
    assert (told.verified, told.resolution, told.review) == (True, Resolution.NONE, "")
    sound(house)


@pytest.mark.requirement("TRUTH-hold-contested")
def test_a_reading_that_refutes_what_was_attested_contests_it(house: House) -> None:
    action_id, _ = late(house, lands=False)
    resolve(house, action_id, "attest_done")
    house.work(90 * 86_400)
    told = house.get(action_id)
    assert (told.verified, told.contested, told.review) == (False, True, "contested")
    sound(house)


def test_what_was_attested_is_not_reopened_by_looks_that_say_nothing_new(house: House) -> None:
    action_id, _ = late(house, lands=False)
    resolve(house, action_id, "attest_not_done")
    house.work(90 * 86_400)
    told = house.get(action_id)
    assert (told.contested, told.review, told.may_repeat) == (False, "", True)
    sound(house)


# --- verify again -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("STATE-review-required->pending", "TRUTH-hold-order")
def test_to_verify_again_reads_once_more_now_by_the_strongest_path_and_judges_anew(house: House) -> None:
    readers = (("session", "other_client", "cache"), ("strong", "other_client", "primary"))
    told = house.run(doubtful(house, readers=readers))
    assert told.state is State.REVIEW_REQUIRED
    house.shop.eyes, looks = None, len(house.shop.looks)
    ended = resolve(house, told.id, "verify_again")
    assert (ended.verified, ended.review) == (True, "")
    assert any(State.PENDING in each.path for each in house.events(told.id)[-4:])
    assert len(house.shop.looks) == looks + 1
    assert house.folded(told.id).reading is not None
    assert house.folded(told.id).reading["source"] == "primary"  # type: ignore[index]
    assert len(house.shop.calls) == 1


def test_to_verify_again_in_vain_comes_back_to_the_queue(house: House) -> None:
    told = house.run(doubtful(house))
    ended = resolve(house, told.id, "verify_again")
    assert (ended.state, bool(ended.review)) == (State.REVIEW_REQUIRED, True)
    assert look(house, told.id).version > look(house, told.id).version - 1
    assert resolve(house, told.id, "abandon").state is State.ABANDONED


def test_what_cannot_be_read_cannot_be_verified_again(house: House) -> None:
    told = house.run(held(house))
    assert refused(house, told.id, "verify_again") == "review.not-offered"


# --- compensate ---------------------------------------------------------------------------------------------------


def wrong_and_held(house: House, **options: Any) -> Any:
    """Of high risk and wrong: nothing reverses that by itself, though it could be reversed."""
    house.shop.rows.clear()
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, status="lost")
    identity = {**HIGH["identity"], "stamp": "authoritative.stamp"}
    return house.action(**{**MAKE, **HIGH, "identity": identity, **options}, find=True)


@pytest.mark.requirement("STATE-review-required->compensating", "STRATEGY-manual-review")
def test_a_person_may_reverse_what_no_rule_reverses_by_itself_and_that_is_verified(house: House) -> None:
    told = house.run(wrong_and_held(house))
    assert (told.state, house.shop.undone) == (State.REVIEW_REQUIRED, [])
    assert "compensate" in open_to(house, told.id)
    ended = resolve(house, told.id, "compensate")
    assert (ended.state, ended.review, house.shop.rows) == (State.COMPENSATED, "", {})
    assert house.get(ended.compensation).verified
    assert len(house.shop.undone) == 1


def test_an_ordered_reversal_passes_a_freeze_and_an_automatic_one_does_not(house: House) -> None:
    told = house.run(wrong_and_held(house))
    freezer = House(store=house.store, runtime=house.runtime)
    freezer.run(wrong_target(freezer, name="other", freeze=["tenant"]), "op-9", item="o-1")
    assert "tenant:acme" in frozen(house)
    assert resolve(house, told.id, "compensate").state is State.COMPENSATED
    # The same reversal, begun by the table, is stopped by the freeze, and that is a failed one.
    lower = House(store=house.store, runtime=house.runtime)
    lower.shop.rows.clear()
    lower.shop.tool = lambda ctx, args: _freeze_after(lower, ctx, args)
    for freeze in house.store.freezes(TENANT):
        house.store._content.freezes.pop((TENANT, freeze.subject, freeze.action_id))
    stopped = lower.run(lower.action(**{**MAKE, "name": "low"}), "op-10")
    assert (stopped.state, stopped.review) == (State.REVIEW_REQUIRED, "compensation_failed")
    assert lower.shop.undone == []
    assert lower.get(stopped.compensation).code == "frozen"
    ended = resolve(lower, stopped.id, "compensate", check=False)
    assert (ended.state, len(lower.shop.undone)) == (State.COMPENSATED, 1)


def _freeze_after(house: House, ctx: Context, args: Any) -> object:
    from readback.ports.storage.store import Freeze

    subject = "tenant:acme"
    house.store._content.freezes[TENANT, subject, "x"] = Freeze(TENANT, subject, "x", "elsewhere", 1)
    return house.shop.ship(ctx, args, status="lost")


def test_where_no_reading_shows_an_effect_there_is_nothing_to_reverse(house: House) -> None:
    told = house.run(doubtful(house, compensate={}, kind="create"), item="o-5")
    assert refused(house, told.id, "compensate") == "review.not-offered"


@pytest.mark.requirement("DISC-wrong-target-modified", "L19")
def test_what_acted_on_something_else_is_not_reversed_where_it_was_meant_to_act(house: House) -> None:
    """Its compensation would take away what stands there, and the effect elsewhere would be told as reversed."""
    told = house.run(wrong_target(house, compensate={}, **STAMPED))
    assert (told.state, told.discrepancy) == (State.REVIEW_REQUIRED, "wrong_target_modified")
    there = dict(house.shop.rows)
    assert "compensate" not in open_to(house, told.id)
    assert refused(house, told.id, "compensate") == "review.not-offered"
    assert (house.shop.undone, house.shop.rows) == ([], there)
    assert resolve(house, told.id, "abandon").state is State.ABANDONED


def test_an_ordered_reversal_that_fails_comes_back_to_the_queue(house: House) -> None:
    told = house.run(wrong_and_held(house, compensate={"late_window": "0s"}))
    house.shop.undo = lambda ctx, args: {"status": "ok"}
    ended = resolve(house, told.id, "compensate")
    if ended.state is State.COMPENSATING:
        house.work(90 * 86_400)
        ended = house.get(told.id)
    assert (ended.state, ended.review) == (State.REVIEW_REQUIRED, "compensation_failed")
    assert "verify_again" not in open_to(house, told.id)
    sound(house)


# --- reopen, abandon ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("STATE-review-required->validated")
def test_what_was_attested_as_not_done_may_be_executed_again_under_its_key(house: House) -> None:
    told = house.run(held(house))
    assert refused(house, told.id, "reopen") == "review.not-offered"
    resolve(house, told.id, "attest_not_done")
    ended = resolve(house, told.id, "reopen")
    assert (ended.id, ended.attempts, len(house.shop.calls)) == (told.id, 2, 2)
    assert house.shop.keys[0] == house.shop.keys[1]
    assert ended.state is State.REVIEW_REQUIRED
    assert ended.resolution is Resolution.NONE, "what was said of the first attempt says nothing of the second"


def test_what_was_reopened_passes_its_checks_again_before_it_is_executed(house: House) -> None:
    made = held(house, require={"open": "requested.status != 'x' && scope.budget.left >= 1"})
    house.scope = replace(house.scope, budget={"left": 1})
    told = house.run(made)
    resolve(house, told.id, "attest_not_done")
    ended = resolve(house, told.id, "reopen")  # whoever resumes has no budget
    assert (ended.state, ended.code, len(house.shop.calls)) == (State.FAILED, "precondition", 1)
    assert ended.may_repeat, "it was attested that nothing was done, and nothing was done since"


def test_what_waits_to_be_executed_again_is_not_told_as_never_sent(house: House) -> None:
    told = house.run(held(house))
    resolve(house, told.id, "attest_not_done")
    house.plans.clear()  # nobody here can go on with it
    ended = resolve(house, told.id, "reopen")
    assert (ended.state, ended.attempts, len(house.shop.calls)) == (State.VALIDATED, 1, 1)
    assert ended.message.startswith("The action was attempted; result is unknown.")
    assert "nothing was sent" not in ended.for_model()
    assert "Repetition: do not repeat this action; its result is unknown" in ended.for_model()


def test_where_another_action_has_the_key_by_now_it_is_not_reopened(house: House) -> None:
    made = held(house)
    told = house.run(made)
    resolve(house, told.id, "attest_not_done")
    second = house.run(made)
    assert second.id != told.id
    assert refused(house, told.id, "reopen") == "review.key-taken"


def test_a_key_that_is_free_again_is_taken_over_from_its_holder(house: House) -> None:
    made = held(house)
    told = house.run(made)
    resolve(house, told.id, "attest_not_done")
    second = house.run(made)
    resolve(house, second.id, "attest_not_done")
    assert resolve(house, told.id, "reopen").attempts == 2
    record = house.store.key(TENANT, house.folded(told.id).key_hash)
    assert record is not None
    assert record.action_id == told.id


@pytest.mark.requirement("STATE-review-required->abandoned")
def test_what_is_abandoned_ends_there_and_keeps_its_key(house: House) -> None:
    made = held(house)
    told = house.run(made)
    ended = resolve(house, told.id, "abandon")
    assert (ended.state, ended.review, ended.due_us) == (State.ABANDONED, "", None)
    assert (house.run(made).id, len(house.shop.calls)) == (told.id, 1)


def failed_and_queued(house: House) -> tuple[str, Any]:
    """Of high risk: the tool said that it was done, nothing changed anywhere, and nothing can follow."""
    house.shop.tool = lambda ctx, args: {"status": "ok"}
    made = house.action(**HIGH, find=True, late_window="0s")
    told = house.run(made)
    assert (told.state, told.review) == (State.FAILED, "mismatch")
    assert told.may_repeat
    return told.id, made


def test_a_review_of_what_has_ended_is_closed_and_changes_nothing(house: House) -> None:
    action_id, made = failed_and_queued(house)
    assert open_to(house, action_id) == {"abandon", "attest_done"}
    ended = resolve(house, action_id, "abandon")
    assert (ended.state, ended.review, ended.may_repeat) == (State.FAILED, "", True)
    assert house.run(made).id != action_id


def test_a_failure_that_a_person_denies_keeps_its_key(house: House) -> None:
    action_id, made = failed_and_queued(house)
    ended = resolve(house, action_id, "attest_done")
    assert (ended.state, ended.may_repeat, ended.verified) == (State.FAILED, False, False)
    assert "A person attested that it was done" in ended.message
    assert (house.run(made).id, len(house.shop.calls)) == (action_id, 1)


def test_a_success_under_break_glass_is_confirmed_or_denied(house: House) -> None:
    house.scope = replace(house.scope, break_glass="The site is down.")
    house.shop.rows["o-3"] = {"id": "o-3", "tenant": TENANT, "status": "open", "version": 1, "author": "seed"}
    made = house.action(**CRITICAL)
    first, second = house.run(made), house.run(made, "op-2", item="o-3")
    assert (first.verified, first.review) == (True, "break_glass")
    assert refused(house, first.id, "attest_done") == "review.signature"
    confirmed = resolve(house, first.id, "attest_done", signed=True)
    assert (confirmed.verified, confirmed.standing, confirmed.review) == (True, True, "")
    denied = resolve(house, second.id, "attest_not_done", signed=True)
    assert (denied.verified, denied.standing, denied.contested) == (True, False, True)
    assert "completed successfully" not in denied.message


# --- who, which version, how often --------------------------------------------------------------------------------


@pytest.mark.requirement("TRUTH-hold-once")
def test_a_review_is_resolved_once_and_by_the_version_that_was_looked_at(house: House) -> None:
    told = house.run(held(house))
    version = look(house, told.id).version
    assert refused(house, told.id, "abandon", version=version - 1) == "review.stale"
    assert refused(house, told.id, "abandon", version=version + 1) == "review.stale"
    resolve(house, told.id, "abandon", version=version)
    assert refused(house, told.id, "abandon", version=version) == "review.resolved"
    assert refused(house, told.id, "attest_done") == "review.resolved"


def test_what_waits_for_nobody_is_not_offered_for_a_decision(house: House) -> None:
    """The packet and whoever records agree, decision by decision."""
    closed, _ = failed_and_queued(house)
    resolve(house, closed, "abandon")
    attested = house.run(held(house), operation="op-2").id
    resolve(house, attested, "attest_not_done")
    calm = House()
    done = calm.run(calm.action()).id
    for home, action_id, left in ((calm, done, []), (house, closed, []), (house, attested, ["reopen"])):
        shown = packet(home.store, action_id, TENANT, home.engine.table, home.plans.get)
        assert (shown.reason, [one.decision for one in shown.choices if one.open]) == ("", left)
        for one in shown.choices:
            if not one.open:
                assert one.why_not
                assert refused(home, action_id, one.decision.value) in ("review.resolved", "review.not-offered")


def test_what_waits_for_nobody_cannot_be_decided(house: House) -> None:
    assert refused(house, house.run(house.action()).id, "attest_done") == "review.resolved"


def test_whoever_ran_it_does_not_decide_about_it(house: House) -> None:
    told = house.run(held(house))
    mine = replace(order(house, told.id, "abandon"), who="agent:ops")
    with pytest.raises(ReviewError) as error:
        house.driver.drive(review.resolve(house.engine, mine, TENANT, house.plans.get))
    assert error.value.code == "review.self"


def test_another_tenants_action_does_not_exist_here(house: House) -> None:
    told = house.run(held(house))
    with pytest.raises(NotFoundError):
        house.driver.drive(review.resolve(house.engine, order(house, told.id, "abandon"), "globex", house.plans.get))
    with pytest.raises(NotFoundError):
        packet(house.store, told.id, "globex", house.engine.table, house.plans.get)


@pytest.mark.requirement("TRUTH-hold-once")
def test_of_two_who_decide_at_once_one_does(house: House) -> None:
    told = house.run(held(house))
    first = review.resolve(house.engine, order(house, told.id, "attest_done"), TENANT, house.plans.get)
    second = review.resolve(house.engine, order(house, told.id, "attest_not_done"), TENANT, house.plans.get)
    other = House(store=house.store, runtime=house.runtime, plans=house.plans)
    other.driver.runtime = house.runtime.sibling("virtual/other")
    step = next(first)
    while type(step).__name__ != "Commit":  # the first one has the lease, and goes no further for now
        step = first.send(house.driver._do(step))
    waiting = next(second)
    while type(waiting).__name__ != "Wait":
        waiting = second.send(other.driver._do(waiting))
    with pytest.raises(StopIteration):
        first.send(house.driver._do(step))

    def go_on() -> None:
        answer: object = house.runtime.now_us()
        while True:
            answer = other.driver._do(second.send(answer))

    with pytest.raises(ReviewError) as error:
        go_on()
    assert error.value.code == "review.stale"
    assert house.get(told.id).resolution is Resolution.ATTESTED_DONE
    sound(house)


@pytest.mark.requirement("TRUTH-hold-once")
@pytest.mark.parametrize("decision", ["attest_done", "attest_not_done", "verify_again", "abandon", "compensate"])
def test_a_crash_between_a_decision_and_its_effect_loses_neither(house: House, decision: str) -> None:
    made = wrong_and_held(house) if decision == "compensate" else doubtful(house)
    if decision == "attest_not_done":
        made = held(house)
    told = house.run(made)
    assert told.review
    if decision in ("verify_again",):
        house.shop.eyes = None
    version, said = look(house, told.id).version, list[str]()
    for at in range(40):
        if not house.get(told.id).review and house.folded(told.id).due_us is None:
            break
        house.driver.vanish_at = at
        house.driver.done.clear()
        try:
            resolve(house, told.id, decision, version=version, check=False)
            break
        except ProcessDied:
            house.die()
        except ReviewError as again:  # it is decided already; a worker goes on
            said.append(again.code)
            break
        house.runtime.advance(60)
    house.driver.vanish_at = None
    house.runtime.advance(60)
    house.work(house.shop.now() + 60)
    assert set(said) <= {"review.stale", "review.resolved"}
    resolved = [event for event in house.events(told.id) if event.kind is EventKind.RESOLVED]
    assert len(resolved) == 1
    ended = house.get(told.id)
    assert {
        "attest_done": ended.resolution is Resolution.ATTESTED_DONE,
        "attest_not_done": ended.may_repeat,
        "verify_again": ended.verified,
        "abandon": ended.state is State.ABANDONED,
        "compensate": ended.state is State.COMPENSATED and len(house.shop.undone) == 1,
    }[decision]
    sound(house)


def test_where_the_contract_is_not_here_the_decision_is_left_to_whoever_has_it(house: House) -> None:
    told = house.run(doubtful(house))
    house.shop.eyes = None
    plans = house.plans.copy()
    house.plans.clear()
    ended = resolve(house, told.id, "verify_again")
    assert (ended.state, ended.review) == (State.PENDING, "")
    house.plans.update(plans)
    house.driver.drive(coordinator.advance(house.engine, told.id, TENANT, house.plans.get))
    assert house.get(told.id).verified


def test_where_the_contract_is_another_one_only_what_needs_none_is_offered(house: House) -> None:
    told = house.run(doubtful(house))
    doubtful(house, within="20s", deadline="30s")
    assert open_to(house, told.id) == {"attest_done", "attest_not_done", "abandon"}
    assert refused(house, told.id, "verify_again") == "review.not-offered"
    assert resolve(house, told.id, "attest_done").resolution is Resolution.ATTESTED_DONE


def test_to_cancel_what_waits_before_it_was_executed_ends_its_review(house: House) -> None:
    waiting = house.run(house.action(**CRITICAL))
    assert waiting.hold == "approval"
    ended = house.cancel(waiting.id)
    assert ended.review == ""
    assert house.shop.calls == []
    sound(house)


# --- the packet ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("STRATEGY-manual-review")
def test_the_packet_holds_what_was_intended_asked_answered_and_read_and_what_may_be_done(house: House) -> None:
    told = house.run(wrong_and_held(house))
    found = look(house, told.id)
    body: dict[str, Any] = found.as_json()
    assert (found.id, found.reason, body["review"]) == (told.id, told.review, told.review)
    assert body["requested"] == {"item": "o-1", "status": "shipped"}
    assert body["intended"] == body["requested"]
    assert body["observed"]["body"] == {"status": "ok"}
    assert body["authoritative"]["status"] == "lost"
    assert [one["name"] for one in body["differences"]] == ["status"]
    assert body["readings"]
    assert body["decision"]["row"] == told.row
    assert body["decision"]["rationale"]
    assert body["discrepancy"]["class"] == "value_mismatch"
    assert [one["decision"] for one in body["choices"]] == [one.decision.value for one in found.choices]
    assert all(one["will"] for one in body["choices"])
    assert [one["kind"] for one in body["history"]] == [kind.value for kind in house.kinds(told.id)]
    assert body["version"] == found.version == len(house.events(told.id))


def test_a_packet_hides_what_the_contract_redacts(house: House) -> None:
    told = house.run(wrong_and_held(house, redact=["authoritative.author", "requested.status"]))
    body = str(look(house, told.id).as_json())
    assert "'requested': {'item': 'o-1', 'status': {'$redacted': True}}" in body
    assert "agent:ops" not in str(look(house, told.id).as_json()["authoritative"])


@pytest.mark.requirement("TRUTH-hold-packet")
@pytest.mark.slow
def test_a_value_that_is_too_long_is_cut_with_its_length_and_digest(house: House) -> None:
    long = "x" * 400_000
    house.shop.rows.clear()
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, args, status="lost", blob=long, lines=[*range(40_000)])
    identity = {**HIGH["identity"], "stamp": "authoritative.stamp"}
    told = house.run(house.action(**{**MAKE, **HIGH, "identity": identity}, find=True))
    found = look(house, told.id).as_json()
    assert len(payload_bytes(found)) <= PACKET_MAX_BYTES
    read: Any = found["authoritative"]
    assert read["blob"]["bytes"] == 400_002
    assert read["blob"]["sha256"] == sha256_hex(payload_bytes(long))
    assert read["blob"][CUT].startswith('"xxx')
    assert read["status"] == "lost", "what is short beside it stays whole"


@pytest.mark.parametrize(
    "value",
    [
        "y" * 100_000,
        {"a" * 500 + str(n): "z" * 1000 for n in range(200)},
        [[n] * 50 for n in range(5_000)],
        {"one": {"two": {"three": "w" * 90_000}}, "x": 1},
        ["é" * 30_000, {"k": None}],
        {str(n): n for n in range(10_000)},
    ],
)
def test_no_value_is_longer_than_its_bound_and_none_is_dropped_silently(value: Any) -> None:
    cut = bounded(value)
    assert len(payload_bytes(cut)) <= SECTION_MAX_BYTES + 512
    assert CUT in str(cut)
    assert "sha256" in str(cut)


@pytest.mark.parametrize("value", [None, 0, "text", {}, [], {"a": [1, {"b": "c"}]}])
def test_what_is_short_stays_as_it_is(value: Any) -> None:
    assert bounded(value) is value


def test_a_long_list_keeps_its_beginning_and_its_end() -> None:
    cut: Any = bounded(["v" * 500 + str(n) for n in range(1_000)])
    assert (cut[0], cut[-1]) == ("v" * 500 + "0", "v" * 500 + "999") or CUT in str(cut[0])
    assert any(isinstance(each, dict) and CUT in each for each in cut)


def test_what_waits_for_an_approval_is_in_the_queue_and_may_be_abandoned(house: House) -> None:
    waiting = house.run(house.action(**CRITICAL))
    assert (waiting.state, waiting.review) == (State.VALIDATED, "approval")
    assert open_to(house, waiting.id) == {"abandon"}
    ended = resolve(house, waiting.id, "abandon", signed=True)
    assert (ended.state, ended.review, ended.hold, ended.attempts) == (State.FAILED, "", "", 0)
    assert ended.may_repeat
    house.work(90 * 86_400)
    assert house.shop.calls == []
    sound(house)
