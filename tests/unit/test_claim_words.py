"""What is said of claims: which words for which claim, to users, to the model and to people."""

from __future__ import annotations

from dataclasses import replace

import pytest

from readback.domain.action.claim import Advice, Claim, ClaimEvent, ClaimKind, ClaimStatus, Reason
from readback.domain.outcome.claim_words import (
    CONTRADICTED,
    REINSTATED,
    against,
    describe_claim,
    model_line,
    reinstated,
)

K, C, R, A = ClaimKind, ClaimStatus, Reason, Advice
HELD = ClaimEvent(K.HOLDS, C.CONTESTED, R.DRIFTED, "0.99", A.PLAN_AGAIN, 50, 9)


def said(happened: ClaimStatus | None, held: ClaimStatus | None, reason: Reason = R.DRIFTED) -> tuple[ClaimEvent, ...]:
    """What was said of the two claims of an action."""
    both = ((K.HAPPENED, happened), (K.HOLDS, held))
    return tuple(replace(HELD, kind=kind, status=status, reason=reason) for kind, status in both if status)


@pytest.mark.parametrize(
    ("happened", "held", "words"),
    [
        (C.RETRACTED, None, " That it was done is retracted."),
        (C.RETRACTED, C.RETRACTED, " That it was done is retracted."),
        (C.RETRACTED, C.CONTESTED, " That it was done is retracted."),
        (None, C.RETRACTED, " It was done then, and what it left holds no more: that is retracted."),
        (C.CONTESTED, C.RETRACTED, " It was done then, and what it left holds no more: that is retracted."),
        (None, C.CONTESTED, " It was done then; that what it left still holds is contested."),
        (C.REINSTATED, C.CONTESTED, " It was done then; that what it left still holds is contested."),
        (C.CONTESTED, None, ""),
        (C.REINSTATED, C.REINSTATED, ""),
        (None, None, ""),
    ],
)
def test_who_was_told_of_a_success_hears_the_gravest_of_what_was_said_against_it(
    happened: ClaimStatus | None, held: ClaimStatus | None, words: str
) -> None:
    found = said(happened, held)
    assert against(found, told=True, contested=False) == words
    assert against(found, told=False, contested=False) == ""
    assert against(found, told=True, contested=True) == (words or CONTRADICTED)
    assert against(found, told=False, contested=True) == CONTRADICTED


@pytest.mark.parametrize("reason", Reason)
def test_a_contradiction_is_a_persons_only_where_a_person_said_it_of_the_deed(reason: Reason) -> None:
    by_a_person = " A person contradicts what was found before."
    assert by_a_person != CONTRADICTED == " A later reading contradicts what was found before."
    of_the_deed = against(said(C.CONTESTED, None, reason), told=False, contested=True)
    assert of_the_deed == (by_a_person if reason is R.PERSON else CONTRADICTED)
    assert against(said(None, C.CONTESTED, reason), told=False, contested=True) == CONTRADICTED
    assert against(said(C.CONTESTED, None, reason), told=False, contested=False) == ""


@pytest.mark.parametrize(
    ("happened", "held", "again"),
    [
        (None, C.REINSTATED, True),
        (C.REINSTATED, C.REINSTATED, True),
        (C.REINSTATED, C.CONTESTED, False),
        (C.RETRACTED, C.REINSTATED, False),
        (None, None, False),
    ],
)
def test_a_success_stands_again_once_nothing_that_was_said_against_it_is_left(
    happened: ClaimStatus | None, held: ClaimStatus | None, again: bool
) -> None:
    assert reinstated(said(happened, held)) == (REINSTATED if again else "")
    assert REINSTATED == " It was contested since, and stands again."


def test_the_model_is_told_which_claim_how_it_stands_why_and_what_to_do() -> None:
    line = "Claim: that it holds is contested (drifted, confidence 0.99). Plan again what was planned upon it."
    assert model_line(HELD) == line
    other = ClaimEvent(K.HAPPENED, C.REINSTATED, R.PERSON, "0.95", A.GO_ON, 1, 1)
    assert model_line(other) == (
        "Claim: that it happened is reinstated (person, confidence 0.95). It can be relied on again."
    )


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (C.NONE, "Nothing is claimed: it was not verified, or not so far."),
        (C.STANDING, "It stands."),
        (C.CONTESTED, "It is contested: do not rely on it."),
        (C.RETRACTED, "It is retracted: do not rely on it."),
        (C.REINSTATED, "It was contested, and stands again."),
    ],
)
def test_a_person_is_told_how_a_claim_stands_and_why_if_that_was_said_of_it(status: ClaimStatus, text: str) -> None:
    bare = Claim("act-1:holds", "act-1", K.HOLDS, status, 7)
    assert describe_claim(bare) == text
    why = " Why: a later reading shows that it no longer holds. Plan again what was planned upon it."
    assert describe_claim(replace(bare, said=replace(HELD, status=status))) == text + why
    of_another = C.CONTESTED if status is not C.CONTESTED else C.RETRACTED
    assert describe_claim(replace(bare, said=replace(HELD, status=of_another))) == text
