"""The fold of attempts that others make, and of what a restore makes uncertain."""

from __future__ import annotations

from typing import Any

import pytest

from readback.canon import Json
from readback.domain.action.action import Action
from readback.domain.events import Event, EventKind
from readback.domain.state import State
from readback.errors import StoreCorruptError
from tests.unit.test_domain_action_people import PROPOSAL

K, S = EventKind, State


def attempted(**changes: Json) -> Action:
    """An action whose attempt has begun at 100."""
    action = Action("act-1", "acme", version=1, state=S.VALIDATED)
    action.apply(Event(K.ATTEMPTED, 100, (S.EXECUTING,), {"attempt": 1, "timeout": 50, **changes}), "ff")
    return action


def observed(action: Action, ended: int, **changes: Json) -> Action:
    action.apply(Event(K.OBSERVED, ended, (), {"ended": ended, **changes}, {"observation": "o1"}), "ff")
    return action


def test_an_attempt_is_due_at_once_and_one_that_was_handed_out_when_its_time_is_over() -> None:
    assert attempted().due_us == 100
    assert attempted(due=900).due_us == 900


@pytest.mark.parametrize(("due", "ended", "then"), [(900, 300, 300), (900, 900, 900), (200, 300, 200)])
def test_the_report_of_an_attempt_made_outside_makes_it_due_at_once(due: int, ended: int, then: int) -> None:
    assert observed(attempted(due=due), ended).due_us == then


def test_a_report_that_names_its_own_time_is_due_then_and_what_nobody_waits_for_stays_so() -> None:
    assert observed(attempted(due=900), 300, due=400).due_us == 400
    ended = attempted(due=900)
    ended.due_us = None
    assert observed(ended, 300).due_us is None


def test_a_resumption_ends_the_attempt_when_it_says_or_else_when_it_is_made() -> None:
    for data, ended in (({"ended": 700}, 700), ({}, 250)):
        action = attempted()
        action.apply(Event(K.RESUMED, 250, (), dict[str, Json](data)), "ff")
        assert (action.attempt_open, action.ended_us) == (False, ended)


def test_an_action_that_is_run_at_once_and_names_no_contract_is_corrupt() -> None:
    with pytest.raises(StoreCorruptError, match="contract"):
        Action("act-1", "acme").apply(Event(K.PROPOSED, 100, (S.PROPOSED,), PROPOSAL, {"request": "r1"}), "ff")


def restored(observation: dict[str, Any]) -> Action:
    action = observed(attempted(), 300, **observation)
    action.apply(Event(K.HELD, 400, (S.UNKNOWN, S.REVIEW_REQUIRED), {"hold": "restored", "code": "restored"}), "ff")
    return action


def test_after_a_restore_it_no_longer_counts_that_an_attempt_was_not_sent() -> None:
    unsent = restored({"dispatched": False})
    assert (unsent.observation, unsent.observation_ref, unsent.restored) == (None, "", True)
    for told in ({"dispatched": True}, {}):
        kept = restored(told)
        assert (kept.observation, kept.observation_ref) == ({"ended": 300, **told}, "o1")
