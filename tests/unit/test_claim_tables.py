"""What is fixed about claims: their bounds, what each reason amounts to, and the fields of an entry about one."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from readback.canon import Json
from readback.domain.action import claim as claims
from readback.domain.action.claim import (
    ADVICE,
    CLAIM_ID_MAX,
    CONTRADICTS,
    EVENT_OF,
    FALLEN,
    NO_PERSON,
    REASONS,
    Advice,
    Claim,
    ClaimBasis,
    ClaimChange,
    ClaimEvent,
    ClaimKind,
    ClaimStatement,
    ClaimStatus,
    Reason,
    after,
    claim_event_in,
    contradicted,
    data_of,
    holds,
    last_event_of,
    parse_claim_id,
    status_of,
    worst,
)
from readback.domain.events import Event, EventKind
from readback.domain.people.signed_statement import SignedStatement
from readback.errors import MalformedClaimError, StoreCorruptError

K, C, R, A = ClaimKind, ClaimStatus, Reason, Advice
HELD = ClaimEvent(K.HOLDS, C.CONTESTED, R.DRIFTED, "0.99", A.PLAN_AGAIN, 50, 9)
DATA: dict[str, Json] = {
    "claim": "holds",
    "reason": "person",
    "confidence": "0.95",
    "recommended": "investigate",
    "who": "human:eve",
    "note": "Seen.",
    "signed_by": "eve",
    "dependants": ["a1", "a2"],
    "more": 3,
}


def test_the_bounds_of_claims_are_these() -> None:
    assert (claims.DEPENDANTS_NAMED_MAX, claims.DEPENDANTS_SEEN_MAX) == (32, 1_000)
    assert (claims.DEPENDS_ON_MAX, CLAIM_ID_MAX) == (32, 256)


def test_each_reason_has_this_confidence_and_this_advice() -> None:
    assert {reason: (row.confidence, row.advice) for reason, row in REASONS.items()} == {
        R.UNVERIFIED: ("0.99", A.INVESTIGATE),
        R.UNDETERMINED: ("0.50", A.VERIFY_AGAIN),
        R.REFUTED: ("0.999", A.PLAN_AGAIN),
        R.DENIED: ("0.99", A.INVESTIGATE),
        R.LATE_EFFECT: ("0.99", A.INVESTIGATE),
        R.DRIFTED: ("0.99", A.PLAN_AGAIN),
        R.REVERSED: ("0.999", A.PLAN_AGAIN),
        R.PERSON: ("0.95", A.INVESTIGATE),
        R.VERIFIED: ("0.999", A.GO_ON),
        R.RESTORED: ("0.99", A.GO_ON),
    }


def test_each_advice_is_said_in_its_own_words() -> None:
    openings = {A.INVESTIGATE: "Investigate", A.VERIFY_AGAIN: "Verify", A.PLAN_AGAIN: "Plan", A.GO_ON: "It can be"}
    assert {advice: text for advice, text in ADVICE.items() if text.startswith(openings[advice])} == dict(ADVICE)
    assert set(ADVICE) == set(Advice)


def test_what_contradicts_somebody_and_what_has_fallen_are_these() -> None:
    assert {R.DENIED, R.LATE_EFFECT, R.DRIFTED, R.PERSON} == CONTRADICTS
    assert {C.CONTESTED, C.RETRACTED} == FALLEN
    assert EVENT_OF == {
        C.CONTESTED: EventKind.CLAIM_CONTESTED,
        C.RETRACTED: EventKind.CLAIM_RETRACTED,
        C.REINSTATED: EventKind.CLAIM_REINSTATED,
    }


@pytest.mark.parametrize("status", ClaimStatus)
def test_a_claim_may_be_relied_on_while_it_stands_and_once_it_stands_again(status: ClaimStatus) -> None:
    assert Claim("a:holds", "a", K.HOLDS, status, 7).standing is (status in (C.STANDING, C.REINSTATED))


def test_a_claim_of_which_nothing_was_said_is_plain_data_of_its_making() -> None:
    assert Claim("act-1:holds", "act-1", K.HOLDS, C.STANDING, 7).as_json() == {
        "id": "act-1:holds",
        "action": "act-1",
        "kind": "holds",
        "status": "standing",
        "standing": True,
        "made_us": 7,
        "version": 0,
        "reason": "",
        "confidence": "",
        "recommended_action": "",
        "at_us": 7,
        "who": "",
        "note": "",
        "signed_by": "",
        "dependants": [],
        "dependants_more": 0,
        "grounds": [],
    }


def test_a_claim_of_which_something_was_said_tells_it_with_who_said_it_and_whom_it_concerns() -> None:
    said = replace(HELD, who="human:eve", note="Seen.", signed_by="eve", dependants=("a1", "a2"), more=3)
    grounds = (ClaimBasis(4, "judged", "f4"), ClaimBasis(6, "read", "f6"))
    assert Claim("act-1:holds", "act-1", K.HOLDS, C.CONTESTED, 7, said, grounds, 9).as_json() == {
        "id": "act-1:holds",
        "action": "act-1",
        "kind": "holds",
        "status": "contested",
        "standing": False,
        "made_us": 7,
        "version": 9,
        "reason": "drifted",
        "confidence": "0.99",
        "recommended_action": "plan_again",
        "at_us": 50,
        "who": "human:eve",
        "note": "Seen.",
        "signed_by": "eve",
        "dependants": ["a1", "a2"],
        "dependants_more": 3,
        "grounds": [{"version": 4, "kind": "judged", "leaf": "f4"}, {"version": 6, "kind": "read", "leaf": "f6"}],
    }


def test_an_id_of_the_longest_is_still_one_and_the_next_is_none() -> None:
    longest = "x" * (CLAIM_ID_MAX - len(":holds"))
    assert parse_claim_id(longest + ":holds") == (longest, K.HOLDS)
    assert parse_claim_id("x" * CLAIM_ID_MAX) == ("x" * CLAIM_ID_MAX, K.HOLDS)
    with pytest.raises(MalformedClaimError):
        parse_claim_id("x" + longest + ":holds")


def test_an_id_may_hold_colons_before_its_kind() -> None:
    assert parse_claim_id("saga-1:step:happened") == ("saga-1:step", K.HAPPENED)


def test_an_id_that_is_none_is_named_no_longer_than_one() -> None:
    with pytest.raises(MalformedClaimError) as raised:
        parse_claim_id("y" * (CLAIM_ID_MAX * 2))
    assert "y" * CLAIM_ID_MAX in str(raised.value)
    assert "y" * (CLAIM_ID_MAX + 1) not in str(raised.value)


@pytest.mark.parametrize("kind", EVENT_OF.values(), ids=lambda kind: kind.value)
def test_an_entry_about_a_claim_is_read_field_by_field(kind: EventKind) -> None:
    (status,) = (status for status, of in EVENT_OF.items() if of is kind)
    named: dict[str, Any] = {"who": "human:eve", "note": "Seen.", "signed_by": "eve", "dependants": ("a1", "a2")}
    expected = ClaimEvent(K.HOLDS, status, R.PERSON, "0.95", A.INVESTIGATE, 100, 8, **named, more=3)
    assert claim_event_in(Event(kind, 100, (), DATA), 8) == expected


@pytest.mark.parametrize("name", DATA)
def test_an_entry_about_a_claim_that_lacks_a_field_says_which(name: str) -> None:
    data = {key: value for key, value in DATA.items() if key != name}
    with pytest.raises(KeyError, match=name):
        claim_event_in(Event(EventKind.CLAIM_CONTESTED, 100, (), data), 8)


@pytest.mark.parametrize("confidence", ["1", "0.5", "0.123456"])
def test_a_confidence_is_a_short_decimal_up_to_one(confidence: str) -> None:
    found = claim_event_in(Event(EventKind.CLAIM_CONTESTED, 100, (), {**DATA, "confidence": confidence}), 8)
    assert found.confidence == confidence


@pytest.mark.parametrize("confidence", ["0", "1.0", "0.", "0.1234567", "10", "0.5~", " 0.5", "05"])
def test_what_is_no_such_decimal_is_corrupt(confidence: str) -> None:
    with pytest.raises(StoreCorruptError, match="confidence"):
        claim_event_in(Event(EventKind.CLAIM_CONTESTED, 100, (), {**DATA, "confidence": confidence}), 8)


def test_what_is_written_of_a_change_is_the_reasons_row_and_a_persons_word() -> None:
    change = ClaimChange(K.HAPPENED, C.RETRACTED, R.UNDETERMINED)
    assert data_of(
        change, ("a1",), 2, ClaimStatement("human:eve", "Seen.", SignedStatement("eve", "k1", b"[]", b"s"))
    ) == {
        "claim": "happened",
        "reason": "undetermined",
        "confidence": "0.50",
        "recommended": "verify_again",
        "who": "human:eve",
        "note": "Seen.",
        "signed_by": "eve",
        "dependants": ["a1"],
        "more": 2,
    }
    nobodys = {"who": "", "note": "", "signed_by": "", "dependants": [], "more": 0}
    assert data_of(change).items() >= nobodys.items()
    assert ClaimStatement() == NO_PERSON == ClaimStatement("", "", None)


@pytest.mark.parametrize("status", [C.CONTESTED, C.RETRACTED, C.REINSTATED])
def test_what_is_reinstated_can_be_relied_on_again_for_whatever_reason(status: ClaimStatus) -> None:
    advice = data_of(ClaimChange(K.HOLDS, status, R.PERSON))["recommended"]
    assert advice == ("go_on" if status is C.REINSTATED else "investigate")


def test_what_was_said_of_the_one_claim_is_not_said_of_the_other() -> None:
    happened = replace(HELD, kind=K.HAPPENED)
    assert last_event_of((happened, HELD), K.HOLDS) is HELD
    assert last_event_of((happened,), K.HOLDS) is None
    assert last_event_of((), K.HAPPENED) is None


def test_that_it_holds_falls_with_that_it_happened() -> None:
    for happened, held, made in product((None, *EVENT_OF), (None, *EVENT_OF), (False, True)):
        both = ((K.HAPPENED, happened), (K.HOLDS, held))
        said = tuple(replace(HELD, kind=kind, status=status) for kind, status in both if status is not None)
        unsaid = C.STANDING if made else C.NONE
        assert status_of(said, K.HAPPENED, made=made) is (happened or unsaid)
        wanted = happened if happened in FALLEN and held not in FALLEN else held or unsaid
        assert status_of(said, K.HOLDS, made=made) is wanted
        assert holds(said) is (happened not in FALLEN and held not in FALLEN)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ((), ""),
        ((C.REINSTATED,), "reinstated"),
        ((C.REINSTATED, C.CONTESTED), "contested"),
        ((C.CONTESTED, C.RETRACTED), "retracted"),
        ((C.REINSTATED, C.RETRACTED), "retracted"),
    ],
)
def test_the_worst_that_was_said_is_retracted_then_contested_then_reinstated(
    found: tuple[ClaimStatus, ...], wanted: str
) -> None:
    said = tuple(replace(HELD, kind=kind, status=status) for kind, status in zip(K, found, strict=False))
    assert worst(said) == worst(said[::-1]) == wanted


def test_one_more_thing_said_takes_the_place_of_what_was_said_of_the_same_claim() -> None:
    happened, later = replace(HELD, kind=K.HAPPENED), replace(HELD, at_us=60)
    assert after((), HELD) == (HELD,)
    assert after((HELD,), later) == (later,)
    assert after((HELD,), happened) == (happened, HELD)
    assert after((happened, HELD), later) == (happened, later)


def test_only_what_has_fallen_for_a_contradiction_contradicts() -> None:
    assert contradicted(()) is False
    for status, reason in product(EVENT_OF, Reason):
        one = replace(HELD, status=status, reason=reason)
        found = status is not C.REINSTATED and reason in (R.DENIED, R.LATE_EFFECT, R.DRIFTED, R.PERSON)
        assert contradicted((one,)) is found
        assert contradicted((replace(HELD, kind=K.HAPPENED, status=C.REINSTATED), one)) is found
