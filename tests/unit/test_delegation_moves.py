"""What follows an attempt of a delegate, and the words that it is told, to the last character."""

from __future__ import annotations

from dataclasses import replace

import pytest

from readback.delegations.model.loop import NextMove, after
from readback.delegations.model.words import NO_REASON, REASON_MAX_CHARACTERS, bounded
from readback.domain.state import State
from readback.domain.verdict import Verdict
from readback.domain.verification.observation import Observation, ObservationStatus
from tests.unit.test_belief import outcome

ANSWERED = Observation(ObservationStatus.SUCCESS, True, "ok", "", {"response": "Done."}, None, 0)
REFUTED = outcome(1, State.FAILED, verdict=Verdict.REFUTED, attempts=1, observation=ANSWERED)


@pytest.mark.parametrize(
    ("attempt", "retries", "move"),
    [(0, 2, NextMove.AGAIN), (1, 2, NextMove.AGAIN), (2, 2, NextMove.EXHAUSTED), (0, 0, NextMove.EXHAUSTED)],
)
def test_a_refuted_attempt_is_followed_by_as_many_as_are_allowed(attempt: int, retries: int, move: NextMove) -> None:
    assert after(REFUTED, attempt, retries) is move


@pytest.mark.parametrize("seen", [None, replace(ANSWERED, body=None), replace(ANSWERED, body="Done.")])
def test_who_gave_no_answer_is_not_sent_again(seen: Observation | None) -> None:
    assert after(replace(REFUTED, observation=seen), 0, 2) is NextMove.OPEN
    assert after(replace(REFUTED, observation=seen), 2, 2) is NextMove.OPEN


def test_what_is_not_refuted_is_not_sent_again() -> None:
    assert after(outcome(1, State.UNKNOWN, attempts=1), 0, 2) is NextMove.OPEN


def test_a_reason_is_cut_only_where_it_is_too_long() -> None:
    whole = "x" * REASON_MAX_CHARACTERS
    assert bounded(whole) == whole
    assert bounded(whole + "y") == whole[:-1] + "…"
    assert (bounded(" why "), bounded("  ")) == ("why", NO_REASON)
