"""Claims: what a verified action claims, what is said against it, who relied on it, and who may take it back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from readback.audit.checks.ledger import audit
from readback.domain.action.claim import DEPENDANTS_NAMED_MAX, ClaimKind, ClaimStatus
from readback.domain.context import Context
from readback.domain.events import Event, EventKind
from readback.domain.state import State
from readback.domain.verdict import Verdict
from readback.domain.verification.reading import Reading
from readback.engine.claims.entries import NAMED_MAX, REVERSED
from readback.engine.compiled_contract import CallerContext
from readback.errors import NOT_STANDING, ClaimError, StoreCorruptError
from readback.testing.driver_virtual import CallHangs, ProcessDied
from tests.lifecycle.claiming import EVE, SAID, claim, person, said, status, upon
from tests.lifecycle.house import MEDIUM, STAMPED, House
from tests.lifecycle.reviewing import CRITICAL, resolve, sound

K, C = ClaimKind, ClaimStatus


def accepted(house: House, **terms: Any) -> Any:
    """A tool that says that it took it, and never does it."""
    house.shop.tool = lambda ctx, args: (202, {"status": "queued"})
    return house.action(late_window="1h", deadline="20s", **{**STAMPED, **terms})


# --- made by being verified ---------------------------------------------------------------------------------------


@pytest.mark.requirement("CLAIM-made")
def test_a_verified_action_claims_that_it_happened_and_that_it_holds_and_no_entry_is_written_for_that(
    house: House,
) -> None:
    told = house.run(house.action())
    assert [(each.id, each.status) for each in told.claims] == [
        (f"{told.id}:happened", C.STANDING),
        (f"{told.id}:holds", C.STANDING),
    ]
    assert told.standing
    assert not any(event.kind in SAID for event in house.events(told.id))
    assert house.kinds(told.id)[-1] is EventKind.JUDGED


@pytest.mark.requirement("CLAIM-made")
def test_a_claim_names_the_entries_that_it_stands_on(house: House) -> None:
    told = house.run(house.action())
    found = claim(house, told.id)
    stored = {each.version: each for each in house.store.events(told.id)}
    assert [each.kind for each in found.grounds] == ["attempted", "observed", "read", "judged"]
    assert all(stored[each.version].leaf.hex() == each.leaf for each in found.grounds)
    assert (found.made_us, found.said, found.version) == (house.events(told.id)[-1].at_us, None, len(stored))


@pytest.mark.requirement("CLAIM-refused-has-none")
def test_what_the_tool_refused_was_never_claimed_and_is_not_retracted(house: House) -> None:
    house.shop.tool = lambda ctx, args: (422, {"error": "no"})
    told = house.run(house.action(late_window="0s"))
    assert (told.state, told.claims) == (State.FAILED, ())
    assert said(house.events(told.id)) == []
    assert status(house, told.id) == (C.NONE, C.NONE)


@pytest.mark.requirement("CLAIM-refused-has-none")
def test_what_got_no_answer_was_never_claimed(house: House) -> None:
    def never(ctx: Context, args: Any) -> object:
        raise CallHangs

    house.shop.tool = never
    told = house.run(house.action(late_window="1h", deadline="20s"))
    assert (told.state, told.claims) == (State.UNKNOWN, ())


@pytest.mark.requirement("CLAIM-refused-has-none")
def test_a_reading_alone_claims_nothing_by_the_tools_word(house: House) -> None:
    house.shop.eyes = lambda ctx, args: Reading.of({"id": "o-1", "tenant": "acme", "status": "open"})
    told = house.run(house.action(kind="read", side_effect="read_only"))
    assert (told.verified, told.claims) == (False, ())


# --- accepted and not verified ------------------------------------------------------------------------------------


@pytest.mark.requirement("CLAIM-retracted", "CLAIM-contested", "L13")
def test_what_was_accepted_and_not_verified_in_time_is_contested_at_once_although_nobody_was_told(house: House) -> None:
    told = house.run(accepted(house))
    assert told.state is State.UNKNOWN
    assert said(house.events(told.id)) == [("happened", "contested", "unverified")]
    [found] = told.claims
    assert found.said is not None
    assert (found.kind, found.status, found.said.confidence) == (K.HAPPENED, C.CONTESTED, "0.99")
    assert not told.contested, "nothing that was told is contradicted"
    assert "Claim: that it happened is contested (unverified, confidence 0.99)." in told.for_model()
    assert [stored.projection.claim for stored in house.store.projections()] == ["contested"]


@pytest.mark.requirement("CLAIM-retracted", "L13")
def test_it_is_retracted_once_a_final_reading_denies_it_and_contested_before_that(house: House) -> None:
    told = house.run(accepted(house))
    house.work(3 * 3600)
    ended = house.get(told.id)
    assert ended.verdict is Verdict.REFUTED
    assert said(house.events(told.id)) == [
        ("happened", "contested", "unverified"),
        ("happened", "retracted", "refuted"),
    ]
    assert status(house, told.id) == (C.RETRACTED, C.RETRACTED)
    sound(house)


@pytest.mark.requirement("CLAIM-retracted")
def test_what_fails_at_once_after_the_tool_said_ok_is_contested_and_retracted_in_one_append(house: House) -> None:
    house.shop.tool = lambda ctx, args: {"status": "ok"}
    told = house.run(house.action(late_window="0s"))
    assert told.verdict is Verdict.REFUTED
    assert said(house.events(told.id)) == [
        ("happened", "contested", "refuted"),
        ("happened", "retracted", "refuted"),
    ]
    assert house.kinds(told.id)[-3:] == [EventKind.JUDGED, EventKind.CLAIM_CONTESTED, EventKind.CLAIM_RETRACTED]


@pytest.mark.requirement("CLAIM-reinstated", "TRUTH-late-contest", "L13")
def test_what_is_verified_late_is_reinstated(house: House) -> None:
    made = accepted(house)
    told = house.run(made)
    house.shop.ship(_context(house, told.id), {"item": "o-1", "status": "shipped"})
    house.work(3600)
    later = house.get(told.id)
    assert (later.verified, later.standing) == (True, True)
    assert said(house.events(told.id)) == [
        ("happened", "contested", "unverified"),
        ("happened", "reinstated", "verified"),
    ]
    assert [each.status for each in later.claims] == [C.REINSTATED, C.STANDING]
    assert "It was contested since, and stands again." in later.message
    sound(house)


@pytest.mark.requirement("CLAIM-contested")
def test_where_nothing_could_be_read_the_doubt_is_as_great_as_the_claim(house: House) -> None:
    made = accepted(house)

    def down(ctx: Context, args: Any) -> Reading:
        if house.shop.calls:
            raise OSError("no route")
        return house.shop.show(args)

    house.shop.eyes = down
    told = house.run(made)
    [(_, what, why)] = said(house.events(told.id))
    assert (what, why) == ("contested", "undetermined")
    assert claim(house, told.id).said.confidence == "0.50"  # type: ignore[union-attr]


@pytest.mark.requirement("TRUTH-late-contest")
def test_a_late_landing_contests_what_a_person_said(house: House) -> None:
    landed: list[Any] = []

    def tool(ctx: Context, args: Any) -> object:
        landed.append((ctx, args))
        raise ConnectionResetError("gone")

    house.shop.rows.clear()
    house.shop.tool = tool
    made = house.action(
        **{
            "kind": "create",
            "late_window": "7200s",
            **MEDIUM,
            "identity": {**MEDIUM["identity"], **STAMPED["identity"]},
        }
    )
    told = house.run(made)
    resolve(house, told.id, "attest_not_done")
    house.shop.ship(*landed[0])
    house.work(7300)
    later = house.get(told.id)
    assert (later.contested, later.review) == (True, "contested")
    assert said(house.events(told.id)) == [("happened", "contested", "late_effect")]
    sound(house)


def _context(house: House, action_id: str) -> Context:
    a = house.folded(action_id)
    return Context(a.id, a.tenant, a.principal, a.operation, a.target, "", a.stamp, 1, False, None, "", "")


# --- a person's word ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("CLAIM-person", "CLAIM-retracted", "L13")
def test_a_person_retracts_what_was_verified_and_it_stands_no_more(house: House) -> None:
    told = house.run(house.action())
    person(house, told.id, C.RETRACTED)
    later = house.get(told.id)
    assert (later.verified, later.standing, later.contested, later.exit_code) == (True, False, True, 1)
    assert status(house, told.id) == (C.RETRACTED, C.RETRACTED)
    assert "completed successfully" not in later.message + later.for_model()
    assert "That it was done is retracted." in later.message
    found = claim(house, told.id).said
    assert found is not None
    assert (found.who, found.note, found.reason.value) == (EVE, "Seen by hand.", "person")
    assert later.review == "", "who has looked at it is not asked to"
    sound(house)


@pytest.mark.requirement("CLAIM-reinstated", "CLAIM-person", "L13")
def test_a_person_reinstates_what_was_retracted(house: House) -> None:
    told = house.run(house.action())
    person(house, told.id, C.RETRACTED, K.HOLDS)
    held = house.get(told.id)
    assert status(house, told.id) == (C.STANDING, C.RETRACTED)
    assert "It was done then, and what it left holds no more" in held.message
    person(house, told.id, C.REINSTATED, K.HOLDS)
    later = house.get(told.id)
    assert (later.standing, later.contested, later.exit_code) == (True, False, 0)
    assert claim(house, told.id, K.HOLDS).said.advice.value == "go_on"  # type: ignore[union-attr]
    sound(house)


@pytest.mark.requirement("CLAIM-person")
def test_what_cannot_be_said_of_a_claim_is_refused_and_nothing_is_changed(house: House) -> None:
    told = house.run(house.action())
    before = house.store.events(told.id)
    cases: list[tuple[str, dict[str, Any]]] = [
        ("claim.not-offered", {"status": C.REINSTATED}),
        ("claim.self", {"status": C.RETRACTED, "who": house.scope.principal}),
        ("claim.stale", {"status": C.RETRACTED, "version": 1}),
    ]
    for code, given in cases:
        with pytest.raises(ClaimError) as refused:
            person(house, told.id, **given)
        assert refused.value.code == code
    assert house.store.events(told.id) == before
    person(house, told.id, C.RETRACTED)
    with pytest.raises(ClaimError, match="already"):
        person(house, told.id, C.RETRACTED)


@pytest.mark.requirement("CLAIM-person")
def test_what_was_never_verified_is_attested_in_review_and_not_reinstated(house: House) -> None:
    told = house.run(accepted(house))
    with pytest.raises(ClaimError, match="never verified"):
        person(house, told.id, C.REINSTATED)
    with pytest.raises(ClaimError, match="nothing is claimed"):
        person(house, told.id, C.RETRACTED, K.HOLDS)
    person(house, told.id, C.RETRACTED)
    later = house.get(told.id)
    assert (claim(house, told.id).status, later.contested, later.state) == (C.RETRACTED, False, State.UNKNOWN)


@pytest.mark.requirement("CLAIM-person")
def test_about_a_critical_mutation_only_a_signed_word_counts(house: House) -> None:
    house.engine = replace(house.engine, approvals=replace(house.engine.approvals, break_glass=True))
    house.scope = replace(house.scope, break_glass="The night is short.")
    told = house.run(house.action(**CRITICAL))
    assert told.verified
    with pytest.raises(ClaimError) as refused:
        person(house, told.id, C.RETRACTED)
    assert refused.value.code == "claim.signature"
    person(house, told.id, C.RETRACTED, signed=True)
    assert claim(house, told.id).said.signed_by == EVE  # type: ignore[union-attr]


@pytest.mark.requirement("CLAIM-person")
def test_an_attestation_says_what_it_means_for_the_claim(house: House) -> None:
    told = house.run(accepted(house))
    house.runtime.advance(60)
    resolve(house, told.id, "attest_not_done") if told.review else person(house, told.id, C.RETRACTED)
    assert claim(house, told.id).status is C.RETRACTED


# --- who relied on it ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("CLAIM-relied-on")
def test_what_is_planned_upon_a_standing_claim_is_executed_and_kept_so(house: House) -> None:
    made = house.action()
    first = house.run(made)
    second = upon(house, made, "op-2", f"{first.id}:holds")
    assert (second.verified, second.fallen) == (True, ())
    assert house.store.dependants("acme", f"{first.id}:holds", 9) == [second.id]
    sound(house)


@pytest.mark.requirement("CLAIM-relied-on")
@pytest.mark.parametrize("fallen", ["retracted", "pending", "unknown id", "other kind"])
def test_what_is_planned_upon_a_claim_that_does_not_stand_is_refused_before_anything_acts(
    house: House, fallen: str
) -> None:
    made = house.action()
    if fallen == "pending":
        first = house.run(accepted(house)).id
        house.shop.tool = None
    else:
        first = "nobody" if fallen == "unknown id" else house.run(made).id
    if fallen == "retracted":
        person(house, first, C.RETRACTED, K.HAPPENED)
    if fallen == "other kind":
        person(house, first, C.RETRACTED, K.HOLDS)
    calls, looks = len(house.shop.calls), len(house.shop.looks)
    told = upon(house, made, "op-2", f"{first}:holds")
    assert (told.state, told.code, told.attempts) == (State.FAILED, NOT_STANDING, 0)
    assert (len(house.shop.calls), len(house.shop.looks)) == (calls, looks)
    assert "What it was planned upon stands no more." in told.message
    assert "Next: plan again" in told.for_model()
    assert not told.repeat_allowed
    assert told.fallen == (f"{first}:holds",)
    if fallen == "other kind":
        assert upon(house, made, "op-3", f"{first}:happened").verified, "that it happened stands"
    sound(house)


@pytest.mark.parametrize(("fallen", "named"), [(1, 1), (NAMED_MAX, NAMED_MAX), (NAMED_MAX + 2, NAMED_MAX)])
def test_a_refusal_names_the_claims_that_do_not_stand_and_counts_those_beyond_its_limit(
    house: House, fallen: int, named: int
) -> None:
    claims = [f"nobody{number}:holds" for number in range(fallen)]
    told = upon(house, house.action(), "op-1", *claims)
    more = f" and {fallen - named} more" if fallen > named else ""
    reasons = [str(event.data.get("detail", "")) for event in house.events(told.id)]
    assert f"({', '.join(claims[:named])}{more})" in "".join(reasons)


@pytest.mark.requirement("CLAIM-relied-on")
def test_a_claim_of_another_tenant_never_stands_for_what_is_planned_upon_it(house: House) -> None:
    theirs = House(store=house.store, runtime=house.runtime, scope=CallerContext("globex", "agent:ops"))
    free = {"side_effect": "ephemeral_write", "identity": {"target": "authoritative.id"}}  # the shop's rows are acme's
    first = theirs.run(theirs.action(**free))
    assert first.standing
    told = upon(house, house.action(), "op-2", f"{first.id}:holds")
    assert (told.state, told.code, told.attempts) == (State.FAILED, NOT_STANDING, 0)
    assert told.fallen == (f"{first.id}:holds",)
    assert house.shop.calls == []


@pytest.mark.requirement("CLAIM-relied-on", "CLAIM-dependants")
def test_a_retraction_names_everybody_who_relied_on_it_and_reaches_every_outcome(house: House) -> None:
    made = house.action()
    first = house.run(made)
    second = upon(house, made, "op-2", f"{first.id}:holds", item="o-2")
    third = upon(house, made, "op-3", f"{second.id}:holds", item="o-3")
    apart = house.run(made, "op-4", item="o-4")
    person(house, first.id, C.RETRACTED, K.HOLDS)
    found = claim(house, first.id, K.HOLDS).said
    assert found is not None
    assert (found.dependants, found.more) == ((second.id, third.id), 0)
    for each in (second.id, third.id):
        told = house.get(each)
        assert (told.verified, told.standing, told.fallen) == (True, True, (f"{first.id}:holds",))
        assert told.message.endswith("What it was planned upon stands no more.")
        assert "Next: plan again from what is so now" in told.for_model()
    assert house.get(apart.id).fallen == ()
    refused = upon(house, made, "op-5", f"{third.id}:holds", item="o-5")
    assert (refused.code, refused.fallen) == (NOT_STANDING, (f"{first.id}:holds",))
    person(house, first.id, C.REINSTATED, K.HOLDS)
    assert house.get(third.id).fallen == ()
    sound(house)


@pytest.mark.requirement("CLAIM-dependants")
def test_so_many_dependants_are_named_and_of_the_others_there_is_a_number(house: House) -> None:
    made = house.action()
    first = house.run(made)
    for number in range(DEPENDANTS_NAMED_MAX + 3):
        upon(house, made, f"op-{number + 2}", f"{first.id}:holds", item=f"o-{number + 2}")
    person(house, first.id, C.RETRACTED, K.HAPPENED)
    found = claim(house, first.id).said
    assert found is not None
    assert (len(found.dependants), found.more) == (DEPENDANTS_NAMED_MAX, 3)


@pytest.mark.requirement("CLAIM-relied-on")
def test_what_fell_while_it_waited_for_an_approval_is_not_executed(house: House) -> None:
    """The check is made again before each attempt."""
    made = house.action()
    first = house.run(made)
    house.shop.tool = lambda ctx, args: (house.shop.rows["o-1"].update(status="open"), (422, {}))[1]
    again = house.action(name="again", execute={"timeout": "1s", "honours_key": True}, late_window="0s", deadline="20s")
    told_first: list[str] = []

    def once(ctx: Context, args: Any) -> object:
        if not told_first:
            told_first.append(ctx.action_id)
            person(house, first.id, C.RETRACTED, K.HOLDS)
        return (422, {})

    house.shop.tool = once
    told = upon(house, again, "op-2", f"{first.id}:holds")
    assert told.state is State.FAILED
    assert told.fallen == (f"{first.id}:holds",)
    assert len(house.shop.calls) == 2, "one for each action, and no second attempt"


# --- reversal -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("CLAIM-reversed")
def test_what_was_verified_and_reversed_holds_no_more_and_still_happened(house: House) -> None:
    made = house.action(compensate={}, stable_for="3s", **STAMPED)
    pending = house.run(made, wait_s=1)
    ended = house.cancel(pending.id)
    house.work(60)
    ended = house.get(pending.id)
    assert ended.state is State.COMPENSATED
    assert said(house.events(pending.id)) == [("holds", "contested", "reversed"), ("holds", "retracted", "reversed")]
    assert status(house, pending.id) == (C.STANDING, C.RETRACTED)
    with pytest.raises(ClaimError, match="reversal was verified"):
        person(house, pending.id, C.REINSTATED, K.HOLDS)
    sound(house)


@pytest.mark.parametrize("kind", [K.HAPPENED, K.HOLDS])
def test_what_was_reversed_is_not_told_as_reversed_any_more_where_the_reversal_was_taken_back(
    house: House, kind: ClaimKind
) -> None:
    pending = house.run(house.action(compensate={}, stable_for="3s", **STAMPED), wait_s=1)
    house.cancel(pending.id)
    house.work(60)
    ended = house.get(pending.id)
    assert "reversed through a verified compensation" in ended.for_model()
    person(house, ended.compensation, C.RETRACTED, kind)
    now = house.get(pending.id)
    assert (now.state, now.contested, now.repeat_allowed) == (State.COMPENSATED, True, False)
    assert "reversed through" not in now.for_model() + now.message
    assert now.message.startswith("The final state is unknown and requires review.")


@pytest.mark.requirement("CLAIM-reversed")
def test_a_retraction_that_is_cut_short_is_whole_or_not_there(house: House) -> None:
    """Whichever step the process dies at, both entries of a claim stand, or neither does, and the next one ends it."""
    for step in range(200):
        other = House()
        made = other.action(compensate={}, stable_for="3s", **STAMPED)
        pending = other.run(made, wait_s=1)
        other.driver.vanish_at = len(other.driver.done) + step
        try:
            other.cancel(pending.id)
        except ProcessDied:
            assert len(said(other.events(pending.id))) in (0, 2)
            other.die()
            other.work(600)
        else:
            assert step > 4
            return
        assert other.get(pending.id).state in (State.COMPENSATED, State.RECONCILED_SUCCESS)
        reversed_ = other.get(pending.id).state is State.COMPENSATED
        assert (status(other, pending.id)[1] is C.RETRACTED) is reversed_
        sound(other)
    raise AssertionError("it never came to an end")


# --- what the ledger refuses --------------------------------------------------------------------------------------


@pytest.mark.requirement("CLAIM-order", "L13")
def test_an_entry_that_retracts_what_was_not_contested_cannot_be(house: House) -> None:
    told = house.run(house.action())
    action = house.folded(told.id)
    from readback.domain.action.claim import data_of

    with pytest.raises(StoreCorruptError, match="standing before"):
        action.apply(Event(EventKind.CLAIM_RETRACTED, 1, (), data_of(REVERSED)), "00")
    with pytest.raises(StoreCorruptError, match="holds an unknown word"):
        action.apply(Event(EventKind.CLAIM_CONTESTED, 1, (), {**data_of(REVERSED), "reason": "whim"}), "00")
    with pytest.raises(StoreCorruptError, match="confidence"):
        action.apply(Event(EventKind.CLAIM_CONTESTED, 1, (), {**data_of(REVERSED), "confidence": "very"}), "00")
    with pytest.raises(StoreCorruptError, match="list"):
        action.apply(Event(EventKind.CLAIM_CONTESTED, 1, (), {**data_of(REVERSED), "dependants": "a"}), "00")


@pytest.mark.requirement("CLAIM-audited")
def test_the_audit_finds_a_reliance_that_is_lost_and_one_that_is_made_up(house: House) -> None:
    made = house.action()
    first = house.run(made)
    second = upon(house, made, "op-2", f"{first.id}:holds")
    rows = house.store._content.reliances
    rows.clear()
    assert [fault.code for fault in audit(house.store).faults] == ["reliance"]
    rows.update({("acme", f"{first.id}:holds", second.id), ("acme", f"{first.id}:happened", second.id)})
    assert [fault.code for fault in audit(house.store).faults] == ["reliance"]
    rows.discard(("acme", f"{first.id}:happened", second.id))
    rows.add(("acme", f"{first.id}:holds", "nobody"))
    assert "nobody" in audit(house.store).faults[0].what
