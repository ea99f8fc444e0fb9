"""How a claim stands after anything that can be said of it, in any order: every sequence up to a length is walked."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from readback.canon import Json, parse_json
from readback.domain.action.action import Action
from readback.domain.action.claim import (
    ADVICE,
    CLAIM_ID_MAX,
    CONTRADICTS,
    EVENT_OF,
    FALLEN,
    REASONS,
    Advice,
    Claim,
    ClaimChange,
    ClaimEvent,
    ClaimKind,
    ClaimStatement,
    ClaimStatus,
    Reason,
    claim_bytes,
    claim_id,
    contradicted,
    data_of,
    holds,
    last_event_of,
    may_follow,
    own_status,
    parse_claim_id,
    status_of,
    worst,
)
from readback.domain.events import Event, EventKind
from readback.domain.outcome import claim_words
from readback.domain.people.signed_statement import SignedStatement
from readback.domain.state import State
from readback.engine.claims.entries import stages
from readback.errors import MalformedClaimError, StoreCorruptError

K, C, R = ClaimKind, ClaimStatus, Reason
SAYABLE = (C.CONTESTED, C.RETRACTED, C.REINSTATED)
LENGTH = 5


def verified() -> Action:
    return Action("act-1", "acme", state=State.RECONCILED_SUCCESS, claimed_us=7)


def change(kind: ClaimKind, status: ClaimStatus) -> ClaimChange:
    return ClaimChange(kind, status, R.RESTORED if status is C.REINSTATED else R.DRIFTED)


def say(action: Action, each: ClaimChange) -> list[ClaimChange]:
    done = list(stages(action, each))
    for one in done:
        action.apply(Event(EVENT_OF[one.status], 100, (), data_of(one)), "ff")
    return done


@pytest.mark.requirement("CLAIM-order", "L13")
@pytest.mark.slow
def test_whatever_is_said_in_whatever_order_a_claim_is_contested_before_it_falls_and_may_always_be_reinstated() -> None:
    wanted = [change(kind, status) for kind, status in product(K, SAYABLE)]
    for sequence in product(wanted, repeat=LENGTH):
        action, log = verified(), list[ClaimChange]()
        for each in sequence:
            log += say(action, each)
        for kind in K:
            _check_order([each.status for each in log if each.kind is kind])
            own = own_status(action.claims, kind, made=True)
            assert own is ([C.STANDING] + [each.status for each in log if each.kind is kind])[-1]
            _check_standing(action, kind)
        assert action.contested is contradicted(action.claims)
        assert action.claim == worst(action.claims)
        assert holds(action.claims) is (status_of(action.claims, K.HOLDS, made=True) not in FALLEN)


def _check_order(said: list[ClaimStatus]) -> None:
    before = C.STANDING
    for status in said:
        match status:
            case C.RETRACTED:
                assert before is C.CONTESTED
            case C.REINSTATED:
                assert before in FALLEN
            case _:
                assert status is C.CONTESTED
        before = status


def _check_standing(action: Action, kind: ClaimKind) -> None:
    """That it holds falls with that it happened, and not the other way round."""
    own, stands = own_status(action.claims, kind, made=True), status_of(action.claims, kind, made=True)
    happened = own_status(action.claims, K.HAPPENED, made=True)
    if kind is K.HAPPENED or own in FALLEN or happened not in FALLEN:
        assert stands is own
    else:
        assert stands is happened


@pytest.mark.requirement("CLAIM-order")
@pytest.mark.parametrize(("before", "after"), list(product(C, C)))
def test_what_may_follow_what_is_this_table_and_the_fold_holds_to_it(before: ClaimStatus, after: ClaimStatus) -> None:
    allowed = {
        C.CONTESTED: set(C),
        C.RETRACTED: {C.CONTESTED},
        C.REINSTATED: {C.CONTESTED, C.RETRACTED},
    }
    assert may_follow(before, after) is (after in allowed and before in allowed[after])
    if after not in EVENT_OF or before in (C.NONE, C.STANDING):
        return
    action = verified()
    action.claims = (_said(K.HOLDS, before),)
    event = Event(EVENT_OF[after], 100, (), data_of(ClaimChange(K.HOLDS, after, R.DRIFTED)))
    if may_follow(before, after):
        action.apply(event, "ff")
        assert own_status(action.claims, K.HOLDS, made=True) is after
        return
    with pytest.raises(StoreCorruptError, match=before.value):
        action.apply(event, "ff")


def _said(kind: ClaimKind, status: ClaimStatus, reason: Reason = R.DRIFTED, **more: Any) -> ClaimEvent:
    row = REASONS[reason]
    return ClaimEvent(kind, status, reason, row.confidence, row.advice, 1, 1, **more)


def test_what_was_said_with_the_same_reason_is_not_said_again_and_with_another_it_is() -> None:
    action = verified()
    contest = ClaimChange(K.HOLDS, C.CONTESTED, R.DRIFTED)
    assert say(action, contest) == [contest]
    assert say(action, contest) == []
    other = ClaimChange(K.HOLDS, C.CONTESTED, R.PERSON)
    assert say(action, other) == [other]
    retract = ClaimChange(K.HOLDS, C.RETRACTED, R.DRIFTED)
    assert say(action, retract) == [retract]
    assert say(action, retract) == []
    assert say(action, ClaimChange(K.HOLDS, C.RETRACTED, R.PERSON)) == []


@pytest.mark.requirement("CLAIM-reversed")
@pytest.mark.parametrize("reason", [R.DRIFTED, R.PERSON])
def test_what_fell_already_and_is_taken_back_falls_anew_and_once(reason: Reason) -> None:
    action, reversed_ = verified(), ClaimChange(K.HOLDS, C.RETRACTED, R.REVERSED)
    say(action, ClaimChange(K.HOLDS, C.RETRACTED, reason))
    assert say(action, reversed_) == [ClaimChange(K.HOLDS, C.CONTESTED, R.REVERSED), reversed_]
    assert say(action, reversed_) == []
    assert say(action, ClaimChange(K.HOLDS, C.RETRACTED, reason)) == []


def test_what_stands_is_not_reinstated() -> None:
    action = verified()
    assert say(action, ClaimChange(K.HOLDS, C.REINSTATED, R.RESTORED)) == []
    assert action.claims == ()


@pytest.mark.parametrize("reason", Reason)
def test_what_contradicts_somebody_is_put_before_a_person_unless_it_is_one(reason: Reason) -> None:
    action = verified()
    action.due_us = 9
    say(action, ClaimChange(K.HOLDS, C.CONTESTED, reason))
    assert action.contested is (reason in CONTRADICTS)
    assert action.review == ("contested" if reason in CONTRADICTS - {R.PERSON} else "")
    assert (action.due_us is None) is (reason is R.REVERSED)
    say(action, ClaimChange(K.HOLDS, C.REINSTATED, R.RESTORED))
    assert (action.contested, action.review) == (False, "")


def test_a_persons_word_about_what_was_never_verified_contradicts_nobody() -> None:
    action = Action("act-1", "acme", state=State.UNKNOWN)
    say(action, ClaimChange(K.HAPPENED, C.RETRACTED, R.PERSON))
    assert (action.contested, action.review, action.claim) == (False, "", "retracted")


def test_every_reason_has_a_confidence_an_advice_and_words_and_every_advice_a_sentence() -> None:
    assert set(REASONS) == set(Reason)
    assert set(ADVICE) == set(Advice)
    for reason in Reason:
        for status in SAYABLE:
            data = data_of(
                ClaimChange(K.HOLDS, status, reason),
                ("a",),
                2,
                ClaimStatement("human:eve", "Seen.", SignedStatement("eve", "k1", b"[]", b"s")),
            )
            action = verified()
            action.claims = (_said(K.HOLDS, C.CONTESTED),)
            action.apply(Event(EVENT_OF[status], 5, (), data), "ff")
            found = last_event_of(action.claims, K.HOLDS)
            assert found is not None
            assert 0 < float(found.confidence) <= 1
            assert (found.who, found.note, found.signed_by, found.dependants, found.more) == (
                *("human:eve", "Seen.", "eve"),
                *(("a",), 2),
            )
            assert (found.advice is Advice.GO_ON) is (status is C.REINSTATED or reason in (R.VERIFIED, R.RESTORED))
            line = claim_words.model_line(found)
            assert "human:eve" not in line
            assert "Seen." not in line


@pytest.mark.parametrize("field", ["claim", "reason", "recommended", "confidence", "dependants", "more"])
@pytest.mark.parametrize("value", ["whim", 7, None, ["x"], "1e3", "2", "-0.5"])
def test_an_entry_with_a_word_that_is_none_of_ours_is_refused(field: str, value: Json) -> None:
    if (field, value) in (("dependants", ["x"]), ("more", 7)):
        return
    data = {**data_of(ClaimChange(K.HOLDS, C.CONTESTED, R.DRIFTED)), field: value}
    with pytest.raises(StoreCorruptError):
        verified().apply(Event(EventKind.CLAIM_CONTESTED, 1, (), data), "ff")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("act-1:happened", ("act-1", K.HAPPENED)),
        ("act-1:holds", ("act-1", K.HOLDS)),
        ("act-1", ("act-1", K.HOLDS)),
    ],
)
def test_an_id_names_an_action_and_which_of_its_claims(text: str, found: tuple[str, ClaimKind]) -> None:
    assert parse_claim_id(text) == found
    assert parse_claim_id(claim_id(*found)) == found


@pytest.mark.parametrize("text", ["", ":holds", "a:b", "a:holds ", "a\nb", "x" * CLAIM_ID_MAX + ":holds", "a:HOLDS"])
def test_what_is_no_claim_id_is_refused(text: str) -> None:
    with pytest.raises(MalformedClaimError):
        parse_claim_id(text)


def test_what_an_approver_signs_binds_all_that_it_is_about() -> None:
    given: list[Any] = ["act-1:holds", "acme", 7, "retracted", "human:eve", "Seen."]
    message = claim_bytes(*given)
    assert parse_json(message) == ["readback/claim/1", "acme", "act-1:holds", *given[2:]]
    for place, other in enumerate(["act-1:happened", "globex", 8, "reinstated", "human:max", "Heard."]):
        assert claim_bytes(*given[:place], other, *given[place + 1 :]) != message


def test_a_claim_as_plain_data_and_in_words() -> None:
    plain = Claim("act-1:holds", "act-1", K.HOLDS, C.STANDING, 7)
    assert plain.standing
    assert plain.as_json()["reason"] == ""
    assert claim_words.describe_claim(plain) == "It stands."
    fallen = Claim("act-1:holds", "act-1", K.HOLDS, C.RETRACTED, 7, _said(K.HOLDS, C.RETRACTED, who="human:eve"))
    assert not fallen.standing
    assert fallen.as_json()["recommended_action"] == "plan_again"
    assert claim_words.describe_claim(fallen) == (
        "It is retracted: do not rely on it. Why: a later reading shows that it no longer holds. "
        "Plan again what was planned upon it."
    )
    other = Claim("act-1:holds", "act-1", K.HOLDS, C.CONTESTED, 7, _said(K.HOLDS, C.REINSTATED))
    assert claim_words.describe_claim(other) == "It is contested: do not rely on it."
