"""What a person may decide about a workflow, and about what is known as redacted only."""

from __future__ import annotations

import pytest

from readback.domain.idempotency import Resolution
from readback.domain.people.review import OF_STEPS, Decision, ReviewFacts, choice, choices
from readback.domain.state import State

STANDING = ReviewFacts(State.REVIEW_REQUIRED, "partial", effect_shown=True, reversible=True)


@pytest.mark.parametrize("decision", [Decision.ATTEST_DONE, Decision.ATTEST_NOT_DONE, Decision.REOPEN])
def test_of_a_workflow_nothing_is_attested_and_it_is_not_reopened(decision: Decision) -> None:
    workflow = ReviewFacts(State.REVIEW_REQUIRED, "partial", workflow=True)
    assert choice(decision, workflow).why_not == OF_STEPS
    assert choice(decision, STANDING).why_not != OF_STEPS
    assert choice(Decision.ABANDON, workflow).open


def test_what_is_known_as_redacted_only_is_not_reversed_and_anything_else_is() -> None:
    blind = ReviewFacts(State.REVIEW_REQUIRED, "partial", effect_shown=True, reversible=True, blind=True)
    assert choice(Decision.COMPENSATE, STANDING).open
    assert not choice(Decision.COMPENSATE, blind).open


@pytest.mark.parametrize("state", State)
def test_where_nobody_is_waited_for_nothing_is_offered_but_to_reopen_what_was_attested_as_not_done(
    state: State,
) -> None:
    assert not [one for one in choices(ReviewFacts(state, "", effect_shown=True, reversible=True)) if one.open]
    denied = ReviewFacts(state, "", resolution=Resolution.ATTESTED_NOT_DONE)
    left = [Decision.REOPEN] if state in (State.REVIEW_REQUIRED, State.UNKNOWN) else []
    assert [one.decision for one in choices(denied) if one.open] == left
