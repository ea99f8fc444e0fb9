"""What a saga that turned does next, case by case: what is reversed and in which order, and what is tried again."""

from __future__ import annotations

from typing import Any

import pytest

from readback.domain.action.action import Action
from readback.domain.action.action_state import Judgement
from readback.domain.saga.fold import Direction, Saga
from readback.domain.saga.planner import SagaEnd, SagaPlan, in_order
from readback.domain.state import State
from tests.unit.sagas_given import NOT_DONE, OURS, SECOND_US, action, behind, done, failed, pivot, play, saga_of, step

S = State

# --- backward -------------------------------------------------------------------------------------------------

BACK = Direction.BACKWARD


def test_backward_nothing_is_reversed_while_anything_is_open_and_what_is_held_is_withdrawn() -> None:
    saga = saga_of(step("a"), step("b"), step("c"), step("d"), heading=BACK)
    saga.steps["d"].action_id = "d"
    held = action(S.VALIDATED, attempts=0, hold="approval", due_us=3)
    moves = play(saga, 9, a=done(), b=action(S.PENDING, due_us=9), c=held)
    assert moves == SagaPlan(withdraw=("c", "d"), go_on=("b",), until_us=9)
    late = play(saga_of(step("a"), step("b"), heading=BACK), a=done(), b=action(S.UNKNOWN, due_us=9))
    assert late == SagaPlan(until_us=9, quiet=True)


def test_backward_nothing_is_reversed_while_a_step_is_stuck() -> None:
    moves = play(
        saga_of(step("a"), step("b"), heading=BACK), seen=False, a=done(), b=action(S.REVIEW_REQUIRED), undo_a=failed()
    )
    assert moves == SagaPlan(("a", "b"), ("a",), end=SagaEnd.REVIEW, because="b", reason="step_stuck")


def test_what_was_verified_last_is_reversed_first() -> None:
    steps = (step("c", "b"), step("a"), step("b", "a"), step("f"))
    found: dict[str, Any] = {
        "a": done(reconciled_us=9),
        "b": done(reconciled_us=5),
        "c": done(reconciled_us=5),
        "f": failed(),
    }
    assert play(saga_of(*steps, heading=BACK), **found) == SagaPlan(reverse="a")
    undone: dict[str, Any] = {"undo_a": done(), **found}
    assert play(saga_of(*steps, heading=BACK), **undone) == SagaPlan(reverse="c"), "of two at one time the later step"
    assert play(saga_of(*steps, heading=BACK), undo_c=done(), **undone) == SagaPlan(reverse="b")
    ended = play(saga_of(*steps, heading=BACK), seen=False, undo_b=done(), undo_c=done(), **undone)
    assert ended == SagaPlan(("c", "a", "b", "f"), ("c", "a", "b"), end=SagaEnd.REVERSED)


def test_a_failure_with_an_effect_is_reversed_and_what_has_none_is_not() -> None:
    effect, nothing = failed(judgement=OURS), done(judgement=Judgement(attribution="already_so"))
    assert play(saga_of(step("a"), step("b"), heading=BACK), a=nothing, b=effect) == SagaPlan(reverse="b")
    moves = play(saga_of(step("a"), step("b"), step("c"), heading=BACK), seen=False, a=nothing, b=failed())
    assert moves == SagaPlan(("a", "b"), end=SagaEnd.FAILED)
    itself = play(saga_of(step("a"), heading=BACK), a=action(S.COMPENSATED, judgement=OURS))
    assert itself == SagaPlan(end=SagaEnd.REVERSED)


@pytest.mark.parametrize(
    ("undo", "wanted"),
    [
        (action(S.PENDING, due_us=9), SagaPlan(until_us=9)),
        (action(S.PENDING), SagaPlan(until_us=5 + 30 * SECOND_US)),
        (action(S.PENDING, due_us=4), SagaPlan(go_on=("undo_a",), until_us=4)),
        (action(S.UNKNOWN, due_us=9), SagaPlan(until_us=9, quiet=True)),
        (action(S.UNKNOWN), None),
        (failed(), None),
        (action(S.ROLLED_BACK), None),
        (action(S.REVIEW_REQUIRED), None),
        (done(contested=True), None),
    ],
)
def test_a_reversal_is_waited_for_and_only_a_person_goes_on_where_it_came_to_nothing(
    undo: Action, wanted: SagaPlan | None
) -> None:
    moves = play(saga_of(step("a"), step("b"), heading=BACK), 5, a=done(), b=failed(), undo_a=undo)
    assert moves == (wanted or SagaPlan(end=SagaEnd.REVIEW, because="a", reason="compensation_failed"))


def test_a_reversal_that_was_announced_is_begun_and_one_that_was_refused_is_a_persons() -> None:
    saga = saga_of(step("a"), heading=BACK)
    saga.steps["a"].undo_id = "gone"
    assert play(saga, seen=False, a=done()) == SagaPlan(("a",), reversing="a")
    saga.steps["a"].undo_state = "refused"
    moves = play(saga, seen=False, a=done())
    assert moves == SagaPlan(("a",), end=SagaEnd.REVIEW, because="a", reason="compensation_failed")


def test_a_reversal_is_news_once_it_has_ended() -> None:
    def undone(undo: Action, *, seen: bool = False) -> tuple[str, ...]:
        return play(saga_of(step("a"), step("b"), heading=BACK), seen=seen, a=done(), undo_a=undo).undone

    assert undone(done()) == undone(failed()) == ("a",)
    assert undone(action(S.PENDING, due_us=9)) == undone(action(S.UNKNOWN, due_us=9)) == undone(done(), seen=True) == ()


def test_an_action_is_news_once_it_has_ended() -> None:
    for child in (action(S.PENDING), action(S.UNKNOWN, due_us=4), action(S.VALIDATED, attempts=0, hold="approval")):
        assert play(saga_of(step("a")), seen=False, a=child).news == ()
    for child in (failed(), action(S.REVIEW_REQUIRED), action(S.UNKNOWN), action(S.COMPENSATED)):
        assert play(saga_of(step("a")), seen=False, a=child).news == ("a",)
        assert play(saga_of(step("a")), a=child).news == ()


# --- forward --------------------------------------------------------------------------------------------------

FORTH = Direction.FORWARD


def ahead(tries: int = 1, **known: Any) -> Saga:
    saga = saga_of(pivot("p"), behind("y", "p"), behind("z", "p"), heading=FORTH, **known)
    saga.steps["z"].past = tuple(f"z{n}" for n in range(tries - 1))
    return saga


def test_forward_it_is_done_when_every_step_is() -> None:
    assert play(ahead(), seen=False, p=done(), y=done(), z=done()) == SagaPlan(("p", "y", "z"), end=SagaEnd.DONE)


def test_forward_a_failure_is_tried_again_after_a_wait_that_grows() -> None:
    for tries, wait in ((1, 2), (2, 4), (4, 16)):
        at_us = 100 + wait * SECOND_US
        early = play(ahead(tries), at_us - 1, p=done(), y=done(), z=failed(updated_us=100))
        assert early == SagaPlan(until_us=at_us)
        now = play(ahead(tries), at_us, p=done(), y=done(), z=failed(updated_us=100))
        assert now == SagaPlan(begin=("z",), quiet=True)


def test_forward_what_is_open_is_gone_on_with_meanwhile() -> None:
    at_us = 2 * SECOND_US
    first = play(ahead(), 50, seen=False, p=done(), y=action(S.PENDING, due_us=40), z=failed())
    assert first == SagaPlan(("p", "z"), go_on=("y",), until_us=40)
    later = play(ahead(), 50, p=done(), y=action(S.UNKNOWN, due_us=3 * at_us), z=failed())
    assert later == SagaPlan(until_us=at_us)
    sooner = play(ahead(), 50, p=done(), y=action(S.UNKNOWN, due_us=60), z=failed())
    assert sooner == SagaPlan(until_us=60)
    held = play(ahead(), 50, p=done(), y=action(S.VALIDATED, attempts=0, hold="frozen", due_us=60), z=failed())
    assert held == SagaPlan(until_us=60, hold="frozen")
    begins = play(ahead(), 50, p=done(), z=failed())
    assert begins == SagaPlan(begin=("y",), until_us=at_us)
    saga = ahead()
    saga.steps["y"].action_id = "y"
    assert play(saga, 50, p=done(), z=failed()) == SagaPlan(begun=("y",), until_us=at_us)


def test_forward_of_two_failures_the_earlier_is_waited_for() -> None:
    saga = ahead()
    saga.steps["y"].past = ("y0", "y1")
    moves = play(saga, 50, p=done(), y=failed(), z=failed())
    assert moves == SagaPlan(until_us=2 * SECOND_US)
    now = play(saga, 2 * SECOND_US, p=done(), y=failed(), z=failed())
    assert now == SagaPlan(begin=("z",), until_us=8 * SECOND_US)


def test_forward_there_are_not_too_many_tries_but_those_that_a_person_forgave() -> None:
    found: dict[str, Any] = {"p": done(), "y": done()}
    assert play(ahead(4), 10**9, **found, z=failed()).begin == ("z",)
    spent = play(ahead(5), 10**9, seen=False, **found, z=failed())
    assert spent == SagaPlan(("p", "y", "z"), end=SagaEnd.REVIEW, because="z", reason="forward_exhausted")
    assert play(ahead(5, forgiven=1), 10**9, **found, z=failed()).begin == ("z",)
    assert play(ahead(9, forgiven=4), 10**9, **found, z=failed()).end is SagaEnd.REVIEW


@pytest.mark.parametrize(
    ("child", "reason"),
    [
        (failed(judgement=Judgement()), "forward_exhausted"),
        (failed(judgement=OURS), "forward_exhausted"),
        (failed(judgement=OURS, resolution=NOT_DONE), "forward_exhausted"),
        (action(S.COMPENSATED), "forward_exhausted"),
        (action(S.REVIEW_REQUIRED), "step_stuck"),
    ],
)
def test_forward_only_what_has_no_effect_and_can_have_none_is_tried_again(child: Action, reason: str) -> None:
    moves = play(ahead(), 10**9, p=done(), y=done(), z=child)
    assert moves == SagaPlan(end=SagaEnd.REVIEW, because="z", reason=reason)


def test_forward_what_was_refused_is_not_tried_again() -> None:
    saga = ahead()
    saga.steps["z"].refused = "invalid"
    moves = play(saga, 10**9, p=done(), y=done(), z=failed())
    assert moves == SagaPlan(end=SagaEnd.REVIEW, because="z", reason="forward_exhausted")
    never = ahead()
    never.steps["z"].refused = "invalid"
    assert play(never, 10**9, p=done(), y=done()).end is SagaEnd.REVIEW


def test_forward_what_is_open_is_waited_for_before_a_person_is_asked() -> None:
    moves = play(ahead(), 5, p=done(), y=action(S.UNKNOWN, due_us=9), z=action(S.REVIEW_REQUIRED))
    assert moves == SagaPlan(until_us=9, quiet=True)
    saga = saga_of(pivot("p"), behind("y", "p"), behind("z", "y"), heading=FORTH)
    blocked = play(saga, 5, seen=False, p=done(), y=action(S.REVIEW_REQUIRED), undo_p=failed())
    assert blocked == SagaPlan(("p", "y"), ("p",), end=SagaEnd.REVIEW, because="y", reason="step_stuck")


def test_forward_what_can_begin_begins_beside_what_is_stuck() -> None:
    moves = play(ahead(), 5, p=done(), y=action(S.REVIEW_REQUIRED))
    assert moves == SagaPlan(begin=("z",), quiet=True)


def test_forward_where_nothing_can_begin_and_nothing_failed_a_person_is_asked_about_the_whole() -> None:
    saga = saga_of(pivot("p"), behind("y", "z"), behind("z", "y"), heading=FORTH)
    assert play(saga, 5, p=done()) == SagaPlan(end=SagaEnd.REVIEW, because="", reason="forward_exhausted")


def test_steps_of_a_circle_are_all_there() -> None:
    assert [each.name for each in in_order((step("a", "b"), step("b", "a"), step("c")))] == ["c", "a", "b"]
