"""What a saga does next, case by case: each standing, each turn, each wait and each end, as a whole answer."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from readback.domain.action.action import Action
from readback.domain.action.action_state import Judgement
from readback.domain.saga.fold import Direction
from readback.domain.saga.planner import (
    FORWARD_FIRST_US,
    FORWARD_MAX_US,
    FORWARD_TRIES_MAX,
    HELD_FIRST_US,
    HELD_MAX_US,
    HOLDS,
    LOOK_AGAIN_US,
    REVIEW_FIRST_US,
    REVIEW_MAX_US,
    SagaEnd,
    SagaPlan,
    StepStatus,
    backoff_us,
    has_effect,
    slower_us,
    step_status,
)
from readback.domain.state import State
from tests.unit.sagas_given import NOT_DONE, OURS, SECOND_US, action, behind, done, failed, pivot, play, saga_of, step

S, T = State, StepStatus

# --- what a step amounts to -----------------------------------------------------------------------------------

STANDS: list[tuple[State, dict[str, Any], StepStatus]] = [
    (S.RECONCILED_SUCCESS, {}, T.DONE),
    (S.RECONCILED_SUCCESS, {"contested": True}, T.STUCK),
    (S.FAILED, {}, T.FAILED),
    (S.FAILED, {"judgement": OURS}, T.EFFECT),
    (S.ROLLED_BACK, {}, T.FAILED),
    (S.ROLLED_BACK, {"judgement": OURS}, T.EFFECT),
    (S.COMPENSATED, {"judgement": OURS}, T.REVERSED),
    (S.ABANDONED, {"attempts": 0}, T.FAILED),
    (S.ABANDONED, {}, T.STUCK),
    (S.REVIEW_REQUIRED, {}, T.STUCK),
    (S.REVIEW_REQUIRED, {"resolution": NOT_DONE}, T.FAILED),
    (S.REVIEW_REQUIRED, {"resolution": NOT_DONE, "contested": True}, T.STUCK),
    (S.REVIEW_REQUIRED, {"resolution": "attested_done"}, T.STUCK),
    (S.REVIEW_REQUIRED, {"attempts": 0}, T.STUCK),
    (S.REVIEW_REQUIRED, {"attempts": 0, "hold": "other"}, T.STUCK),
    *((S.REVIEW_REQUIRED, {"attempts": 0, "hold": hold}, T.HELD) for hold in ("approval", "deferred", "frozen")),
    *((S.REVIEW_REQUIRED, {"hold": hold}, T.STUCK) for hold in ("approval", "deferred", "frozen")),
    (S.COMPENSATION_FAILED, {}, T.STUCK),
    (S.UNKNOWN, {}, T.STUCK),
    (S.UNKNOWN, {"due_us": 0}, T.LATE),
    (S.UNKNOWN, {"due_us": 5, "resolution": NOT_DONE}, T.LATE),
    (S.UNKNOWN, {"resolution": NOT_DONE}, T.FAILED),
    (S.UNKNOWN, {"resolution": "attested_done"}, T.STUCK),
    (S.UNKNOWN, {"kind": "read"}, T.FAILED),
    (S.COMPENSATING, {}, T.RUNNING),
    (S.COMPENSATING, {"compensation_id": "own"}, T.RUNNING),
    (S.COMPENSATING, {"compensation_id": "late"}, T.LATE),
    (S.VALIDATED, {}, T.RUNNING),
    (S.VALIDATED, {"attempts": 0}, T.RUNNING),
    (S.VALIDATED, {"hold": "approval"}, T.RUNNING),
    (S.VALIDATED, {"attempts": 0, "hold": "approval"}, T.HELD),
    (S.VALIDATED, {"attempts": 0, "hold": "anything"}, T.HELD),
    *((state, {}, T.RUNNING) for state in (S.PROPOSED, S.EXECUTING, S.ACCEPTED, S.PENDING, S.COMMITTED)),
    *((state, {}, T.RUNNING) for state in (S.PARTIALLY_COMMITTED, S.RECONCILIATION_FAILED)),
    *((state, {}, T.RUNNING) for state in (S.VERIFICATION_TIMEOUT, S.FORWARD_RECOVERY)),
]


@pytest.mark.parametrize(("state", "known", "wanted"), STANDS)
def test_a_step_amounts_to_what_its_action_is(state: State, known: dict[str, Any], wanted: StepStatus) -> None:
    saga = saga_of(step("a"))
    saga.steps["a"].action_id = "x"
    others = {"own": action(S.PENDING), "late": action(S.UNKNOWN)}
    assert step_status(saga, "a", {"x": action(state, **known), **others}) is wanted


def test_the_standings_are_told_for_every_state() -> None:
    assert {state for state, _, _ in STANDS} == set(State)
    assert frozenset({"approval", "deferred", "frozen"}) == HOLDS


def test_a_step_without_an_action_is_waiting_announced_or_refused() -> None:
    saga = saga_of(step("a"))
    assert step_status(saga, "a", {}) is T.WAITING
    saga.steps["a"].action_id = "x"
    assert step_status(saga, "a", {}) is T.ANNOUNCED
    saga.steps["a"].refused = "invalid"
    assert step_status(saga, "a", {"x": done()}) is T.FAILED


@pytest.mark.parametrize(
    ("child", "undo", "wanted"),
    [
        (done(), done(), T.REVERSED),
        (failed(judgement=OURS), done(), T.REVERSED),
        (failed(), done(), T.FAILED),
        (action(S.REVIEW_REQUIRED), done(), T.STUCK),
        (done(), done(contested=True), T.DONE),
        (done(), action(S.PENDING), T.DONE),
        (failed(judgement=OURS), failed(), T.EFFECT),
    ],
)
def test_a_step_is_reversed_where_its_reversal_is_verified(child: Action, undo: Action, wanted: StepStatus) -> None:
    saga = saga_of(step("a"))
    saga.steps["a"].action_id, saga.steps["a"].undo_id = "x", "u"
    assert step_status(saga, "a", {"x": child, "u": undo}) is wanted


@pytest.mark.parametrize(
    ("kind", "judged", "wanted"),
    [
        ("create", {"effect_shown": True, "attribution": "ours"}, True),
        ("create", {"effect_shown": True, "attribution": "unknown"}, True),
        ("create", {"effect_shown": False, "attribution": "ours"}, False),
        ("read", {"effect_shown": True, "attribution": "ours"}, False),
        ("create", {"effect_shown": True, "attribution": "other_actor"}, False),
        ("create", {"effect_shown": True, "attribution": "already_so"}, False),
        ("create", {"effect_shown": True, "attribution": "ours", "discrepancy": "stale_state"}, False),
        ("create", {"effect_shown": True, "attribution": "ours", "discrepancy": "partial_application"}, True),
    ],
)
def test_an_effect_is_ours_to_reverse_where_a_reading_shows_it(kind: str, judged: Any, wanted: bool) -> None:
    assert has_effect(action(S.FAILED, kind=kind, judgement=Judgement(**judged))) is wanted


# --- which way ------------------------------------------------------------------------------------------------


def test_a_failure_turns_it_back_because_of_the_first_step_that_failed() -> None:
    moves = play(saga_of(step("a"), step("b"), step("c")), seen=False, a=done(), b=failed(), c=failed())
    assert moves == SagaPlan(("a", "b", "c"), turn=Direction.BACKWARD, because="b", reason="step_failed")


@pytest.mark.parametrize(
    "trouble", [failed(), failed(judgement=OURS), action(S.COMPENSATED)], ids=("failed", "effect", "reversed")
)
def test_any_trouble_turns_it(trouble: Action) -> None:
    assert play(saga_of(step("a"), step("b")), a=done(), b=trouble).turn is Direction.BACKWARD


def test_behind_the_pivot_a_failure_turns_it_forward() -> None:
    moves = play(saga_of(pivot("p"), behind("z", "p")), seen=False, p=done(), z=failed())
    assert moves == SagaPlan(("p", "z"), turn=Direction.FORWARD, because="z", reason="step_failed")


def test_what_is_cancelled_turns_back_because_of_no_step() -> None:
    moves = play(saga_of(step("a"), pivot("p", "a"), cancelled=True), seen=False, a=done())
    assert moves == SagaPlan(("a",), turn=Direction.BACKWARD, because="", reason="cancelled")
    works = play(saga_of(step("a"), pivot("p", "a"), cancelled=True), a=action(S.PENDING))
    assert (works.turn, works.reason) == (Direction.BACKWARD, "cancelled")
    refused = play(saga_of(step("a"), pivot("p"), cancelled=True), a=done(), p=failed())
    assert (refused.turn, refused.because, refused.reason) == (Direction.BACKWARD, "p", "step_failed")
    both = play(saga_of(step("a"), step("b"), cancelled=True), a=done(), b=failed())
    assert (both.turn, both.because, both.reason) == (Direction.BACKWARD, "b", "step_failed")


def test_what_is_cancelled_behind_its_pivot_goes_on() -> None:
    moves = play(saga_of(pivot("p"), behind("z", "p"), cancelled=True), p=done())
    assert moves == SagaPlan(begin=("z",), quiet=True)


@pytest.mark.parametrize("state", [S.EXECUTING, S.VALIDATED, S.UNKNOWN])
def test_what_is_cancelled_while_its_pivot_is_open_waits_for_it(state: State) -> None:
    hold, due = ("approval", None) if state is S.VALIDATED else ("", 9)
    open_ = action(state, attempts=0 if hold else 1, hold=hold, due_us=due)
    moves = play(saga_of(step("a"), pivot("p"), cancelled=True), a=done(), p=open_)
    assert moves.turn is None
    assert moves.withdraw == (("p",) if hold else ())
    assert moves.begin == ()


def test_what_is_cancelled_while_only_a_person_can_say_what_its_pivot_did_is_his() -> None:
    moves = play(saga_of(step("a"), pivot("p"), cancelled=True), a=done(), p=action(S.REVIEW_REQUIRED))
    assert moves == SagaPlan(end=SagaEnd.REVIEW, because="p", reason="step_stuck")


@pytest.mark.parametrize(
    ("child", "passed"),
    [
        (done(judgement=Judgement()), True),
        (failed(judgement=OURS), True),
        (action(S.PENDING, judgement=OURS), True),
        (action(S.COMPENSATED, judgement=OURS), False),
        (action(S.ROLLED_BACK, judgement=OURS), False),
        (failed(), False),
    ],
)
def test_the_point_of_no_return_lies_behind_where_its_effect_is_shown_and_not_undone(
    child: Action, passed: bool
) -> None:
    saga = saga_of(step("a"), pivot("p"), behind("z", "p"), heading=Direction.BACKWARD)
    moves = play(saga, seen=False, a=done(), p=child)
    assert (moves.turn is Direction.FORWARD) is passed
    if passed:
        assert (moves.reason, moves.because, moves.news[0]) == ("pivot_passed", "", "a")


def test_a_verified_step_that_is_no_pivot_is_no_point_of_no_return() -> None:
    saga = saga_of(step("a"), pivot("p", "a"), heading=Direction.BACKWARD)
    assert play(saga, a=done()).turn is None


def test_what_is_being_reversed_or_was_to_be_is_not_turned_forward() -> None:
    saga = saga_of(step("a"), pivot("p"), heading=Direction.BACKWARD)
    saga.steps["a"].undo_past = ("u0",)
    assert play(saga, a=done(), p=done()) == SagaPlan(end=SagaEnd.REVIEW, reason="step_stuck")
    begun = saga_of(step("a"), pivot("p"), heading=Direction.BACKWARD)
    moves = play(begun, seen=False, a=done(), p=done(), undo_a=action(S.FAILED))
    assert moves == SagaPlan(("a", "p"), ("a",), end=SagaEnd.REVIEW, reason="step_stuck")


def test_a_turn_forward_tells_what_ended_and_which_reversal_did() -> None:
    saga = saga_of(step("a"), pivot("p"), heading=Direction.BACKWARD)
    moves = play(saga, seen=False, a=done(), p=done())
    assert moves == SagaPlan(("a", "p"), turn=Direction.FORWARD, reason="pivot_passed")


def test_where_nothing_is_to_be_done_nothing_is_said() -> None:
    assert not any(getattr(SagaPlan(), each.name) for each in fields(SagaPlan))
    assert (SagaPlan().turn, SagaPlan().end, SagaPlan().until_us) == (None, None, None)
    words = "waiting announced running late held done failed effect reversed stuck"
    assert [each.value for each in StepStatus] == words.split()
    assert [each.value for each in SagaEnd] == ["done", "failed", "reversed", "review"]


# --- onward ---------------------------------------------------------------------------------------------------


def test_it_is_done_when_every_step_is() -> None:
    assert play(saga_of(step("a"), step("b")), seen=False, a=done(), b=done()) == SagaPlan(("a", "b"), end=SagaEnd.DONE)
    assert play(saga_of(step("a"), step("b")), a=done(), b=done()) == SagaPlan(end=SagaEnd.DONE)


def test_a_step_begins_when_what_it_comes_after_is_verified_and_the_pivot_when_everything_before_is() -> None:
    steps = (step("a"), step("b"), step("c", "a"), pivot("p", "a"), behind("z", "p"), behind("y"))
    assert play(saga_of(*steps)) == SagaPlan(begin=("a", "b"), quiet=True)
    assert play(saga_of(*steps), a=done()) == SagaPlan(begin=("b", "c"), quiet=True)
    assert play(saga_of(*steps), a=done(), b=done()) == SagaPlan(begin=("c",), quiet=True)
    assert play(saga_of(*steps), a=done(), b=done(), c=done()) == SagaPlan(begin=("p", "y"), quiet=True)
    found: dict[str, Any] = {name: done() for name in "abcp"}
    assert play(saga_of(*steps), **found) == SagaPlan(begin=("z", "y"), quiet=True)


def test_what_was_announced_is_begun_and_what_is_due_gone_on_with() -> None:
    saga = saga_of(step("a"), step("b"), step("c"))
    saga.steps["c"].action_id = "c"
    moves = play(saga, 10, a=action(S.PENDING, due_us=10), b=action(S.PENDING, due_us=11))
    assert moves == SagaPlan(begun=("c",), go_on=("a",), until_us=10)
    assert moves.works


def test_nothing_is_begun_where_only_a_person_can_say_what_became_of_a_step() -> None:
    steps = (step("a"), step("b"), step("c"), step("d"))
    moves = play(saga_of(*steps), a=action(S.REVIEW_REQUIRED), b=action(S.PENDING, due_us=9))
    assert moves == SagaPlan(until_us=9)
    saga = saga_of(*steps)
    saga.steps["d"].action_id = "d"
    held = action(S.VALIDATED, attempts=0, hold="approval")
    moves = play(saga, a=action(S.REVIEW_REQUIRED), c=held)
    assert moves == SagaPlan(withdraw=("c", "d"), quiet=True)
    ended = play(saga_of(*steps), seen=False, a=done(), b=action(S.REVIEW_REQUIRED), c=action(S.COMPENSATION_FAILED))
    assert ended == SagaPlan(("a", "b", "c"), end=SagaEnd.REVIEW, because="b", reason="step_stuck")


@pytest.mark.parametrize(
    "field", ["begin", "begun", "withdraw", "go_on", "reverse", "reversing", "news", "undone", "hold"]
)
def test_it_works_where_something_is_done_now(field: str) -> None:
    value = "a" if field in ("reverse", "reversing", "hold") else ("a",)
    moves = SagaPlan(**{field: value})  # type: ignore[arg-type]
    assert moves.works is (field not in ("news", "undone", "hold"))


# --- waiting --------------------------------------------------------------------------------------------------


def test_what_holds_it_is_looked_at_ever_more_slowly() -> None:
    for looks, wait in ((0, 30), (1, 60), (2, 120), (6, 1920), (7, 3600), (30, 3600)):
        moves = play(saga_of(step("a"), looks=looks), 5, a=action(S.VALIDATED, attempts=0, hold="approval"))
        assert moves == SagaPlan(until_us=5 + wait * SECOND_US, quiet=True, hold="approval")


def test_the_first_that_holds_it_is_named_where_nothing_runs() -> None:
    first, second = (action(S.VALIDATED, attempts=0, hold=hold, due_us=9) for hold in ("deferred", "approval"))
    assert play(saga_of(step("a"), step("b")), a=first, b=second) == SagaPlan(until_us=9, quiet=True, hold="deferred")
    running = play(saga_of(step("a"), step("b")), a=action(S.PENDING, due_us=7), b=second)
    assert running == SagaPlan(until_us=7)
    late = play(saga_of(step("a"), step("b")), a=action(S.UNKNOWN, due_us=7), b=second)
    assert late == SagaPlan(until_us=7, quiet=True, hold="approval")


def test_what_is_unknown_is_waited_for_quietly() -> None:
    assert play(saga_of(step("a")), a=action(S.UNKNOWN, due_us=7)) == SagaPlan(until_us=7, quiet=True)
    assert play(saga_of(step("a")), 7, a=action(S.UNKNOWN, due_us=7)) == SagaPlan(go_on=("a",), until_us=7, quiet=True)


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        (None, SagaPlan(until_us=100 + 30 * SECOND_US)),
        (action(S.PENDING), SagaPlan(until_us=100 + SECOND_US // 2)),
        (action(S.PENDING, due_us=140), SagaPlan(until_us=140)),
        (action(S.PENDING, due_us=0), SagaPlan(go_on=("own",), until_us=0)),
        (action(S.UNKNOWN, due_us=140), SagaPlan(until_us=140, quiet=True)),
        (action(S.FAILED), SagaPlan(go_on=("a",), until_us=0)),
        (done(due_us=150), SagaPlan(go_on=("a",), until_us=0)),
    ],
)
def test_an_action_that_is_being_reversed_waits_for_its_reversal(own: Action | None, wanted: SagaPlan) -> None:
    found: dict[str, Any] = {
        "a": action(S.COMPENSATING, compensation_id="own"),
        **({} if own is None else {"own": own}),
    }
    assert play(saga_of(step("a")), 100, **found) == wanted


def test_only_an_action_that_is_being_reversed_waits_for_a_reversal() -> None:
    found: dict[str, Any] = {
        "a": action(S.PENDING, compensation_id="own", due_us=200),
        "own": action(S.PENDING, due_us=140),
    }
    assert play(saga_of(step("a")), 100, **found) == SagaPlan(until_us=200)


def test_the_waits_are_these() -> None:
    assert (LOOK_AGAIN_US, HELD_FIRST_US, HELD_MAX_US) == (500_000, 30 * SECOND_US, 3600 * SECOND_US)
    assert (REVIEW_FIRST_US, REVIEW_MAX_US) == (3600 * SECOND_US, 86_400 * SECOND_US)
    assert (FORWARD_TRIES_MAX, FORWARD_FIRST_US, FORWARD_MAX_US) == (5, 2 * SECOND_US, 300 * SECOND_US)
    assert [backoff_us(tries) // SECOND_US for tries in (0, 1, 2, 3, 8, 9, 99)] == [2, 2, 4, 8, 256, 300, 300]
    assert [slower_us(1, 2**30, looks) for looks in (0, 1, 19, 20, 21, 25)] == [1, 2, 2**19, 2**20, 2**20, 2**20]
