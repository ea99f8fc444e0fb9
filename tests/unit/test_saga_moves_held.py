"""What a saga does next, case by case: each standing, each turn, each wait and each end, as a whole answer."""

from __future__ import annotations

from typing import Any

import pytest

from readback.domain.action import Action, Judgement
from readback.domain.saga import Heading, Region, Saga, StepRecord, StepTerms
from readback.domain.saga_moves import (
    FORWARD_FIRST_US,
    FORWARD_MAX_US,
    FORWARD_TRIES_MAX,
    HELD_FIRST_US,
    HELD_MAX_US,
    HOLDS,
    LOOK_AGAIN_US,
    REVIEW_FIRST_US,
    REVIEW_MAX_US,
    End,
    Moves,
    Standing,
    backoff_us,
    has_effect,
    in_order,
    next_moves,
    slower_us,
    standing_of,
)
from readback.domain.side_effect import SideEffect
from readback.domain.state import State

S, T = State, Standing
SECOND_US = 1_000_000
OURS = Judgement(effect_shown=True, attribution="ours")
NOT_DONE = "attested_not_done"


def step(name: str, *after: str, region: Region = Region.BEFORE) -> StepTerms:
    return StepTerms(name, f"c_{name}", "1", "h", "create", SideEffect.LOW_RISK_INTERNAL, region, after, f"undo_{name}")


def pivot(name: str, *after: str) -> StepTerms:
    return step(name, *after, region=Region.PIVOT)


def behind(name: str, *after: str) -> StepTerms:
    return step(name, *after, region=Region.AFTER)


def saga_of(*steps: StepTerms, heading: Heading = Heading.ONWARD, **known: Any) -> Saga:
    saga = Saga("s", "acme", state=S.EXECUTING, terms=steps, name="x", heading=heading, **known)
    saga.steps = {each.name: StepRecord() for each in steps}
    return saga


def action(state: State, **known: Any) -> Action:
    return Action("x", "acme", state=state, **{"kind": "create", "attempts": 1, **known})


def play(saga: Saga, now_us: int = 0, *, seen: bool = True, **found: Action) -> Moves:
    """The moves where each step's action is the one that has its name, and a reversal's `undo_` before it.

    `seen`: what has ended is on the saga's record already.
    """
    children: dict[str, Action] = {}
    for name, child in found.items():
        child.id, children[name] = name, child
        if name in saga.steps:
            saga.steps[name].action_id = name
            saga.steps[name].state = child.state.value if seen else ""
        elif name.startswith("undo_"):
            record = saga.steps[name.removeprefix("undo_")]
            record.undo_id, record.undo_state = name, child.state.value if seen else ""
    return next_moves(saga, children, now_us)


def done(**known: Any) -> Action:
    return action(S.RECONCILED_SUCCESS, **{"judgement": OURS, **known})


def failed(**known: Any) -> Action:
    return action(S.FAILED, **{"judgement": Judgement(dead=True), **known})


# --- what a step amounts to -----------------------------------------------------------------------------------

STANDS: list[tuple[State, dict[str, Any], Standing]] = [
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
def test_a_step_amounts_to_what_its_action_is(state: State, known: dict[str, Any], wanted: Standing) -> None:
    saga = saga_of(step("a"))
    saga.steps["a"].action_id = "x"
    others = {"own": action(S.PENDING), "late": action(S.UNKNOWN)}
    assert standing_of(saga, "a", {"x": action(state, **known), **others}) is wanted


def test_the_standings_are_told_for_every_state() -> None:
    assert {state for state, _, _ in STANDS} == set(State)
    assert frozenset({"approval", "deferred", "frozen"}) == HOLDS


def test_a_step_without_an_action_is_waiting_announced_or_refused() -> None:
    saga = saga_of(step("a"))
    assert standing_of(saga, "a", {}) is T.WAITING
    saga.steps["a"].action_id = "x"
    assert standing_of(saga, "a", {}) is T.ANNOUNCED
    saga.steps["a"].refused = "invalid"
    assert standing_of(saga, "a", {"x": done()}) is T.FAILED


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
def test_a_step_is_reversed_where_its_reversal_is_verified(child: Action, undo: Action, wanted: Standing) -> None:
    saga = saga_of(step("a"))
    saga.steps["a"].action_id, saga.steps["a"].undo_id = "x", "u"
    assert standing_of(saga, "a", {"x": child, "u": undo}) is wanted


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
    assert moves == Moves(("a", "b", "c"), turn=Heading.BACKWARD, because="b", reason="step_failed")


@pytest.mark.parametrize(
    "trouble", [failed(), failed(judgement=OURS), action(S.COMPENSATED)], ids=("failed", "effect", "reversed")
)
def test_any_trouble_turns_it(trouble: Action) -> None:
    assert play(saga_of(step("a"), step("b")), a=done(), b=trouble).turn is Heading.BACKWARD


def test_behind_the_pivot_a_failure_turns_it_forward() -> None:
    moves = play(saga_of(pivot("p"), behind("z", "p")), seen=False, p=done(), z=failed())
    assert moves == Moves(("p", "z"), turn=Heading.FORWARD, because="z", reason="step_failed")


def test_what_is_cancelled_turns_back_because_of_no_step() -> None:
    moves = play(saga_of(step("a"), pivot("p", "a"), cancelled=True), seen=False, a=done())
    assert moves == Moves(("a",), turn=Heading.BACKWARD, because="", reason="cancelled")
    both = play(saga_of(step("a"), step("b"), cancelled=True), a=done(), b=failed())
    assert (both.turn, both.because, both.reason) == (Heading.BACKWARD, "b", "step_failed")


def test_what_is_cancelled_behind_its_pivot_goes_on() -> None:
    moves = play(saga_of(pivot("p"), behind("z", "p"), cancelled=True), p=done())
    assert moves == Moves(begin=("z",), quiet=True)


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
    assert moves == Moves(end=End.REVIEW, because="p", reason="step_stuck")


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
    saga = saga_of(step("a"), pivot("p"), behind("z", "p"), heading=Heading.BACKWARD)
    moves = play(saga, seen=False, a=done(), p=child)
    assert (moves.turn is Heading.FORWARD) is passed
    if passed:
        assert (moves.reason, moves.because, moves.news[0]) == ("pivot_passed", "", "a")


def test_a_verified_step_that_is_no_pivot_is_no_point_of_no_return() -> None:
    saga = saga_of(step("a"), pivot("p", "a"), heading=Heading.BACKWARD)
    assert play(saga, a=done()).turn is None


def test_what_is_being_reversed_or_was_to_be_is_not_turned_forward() -> None:
    saga = saga_of(step("a"), pivot("p"), heading=Heading.BACKWARD)
    saga.steps["a"].undo_past = ("u0",)
    assert play(saga, a=done(), p=done()) == Moves(end=End.REVIEW, reason="step_stuck")
    begun = saga_of(step("a"), pivot("p"), heading=Heading.BACKWARD)
    moves = play(begun, seen=False, a=done(), p=done(), undo_a=action(S.FAILED))
    assert moves == Moves(("a", "p"), ("a",), end=End.REVIEW, reason="step_stuck")


def test_a_turn_forward_tells_what_ended_and_which_reversal_did() -> None:
    saga = saga_of(step("a"), pivot("p"), heading=Heading.BACKWARD)
    moves = play(saga, seen=False, a=done(), p=done())
    assert moves == Moves(("a", "p"), turn=Heading.FORWARD, reason="pivot_passed")


# --- onward ---------------------------------------------------------------------------------------------------


def test_it_is_done_when_every_step_is() -> None:
    assert play(saga_of(step("a"), step("b")), seen=False, a=done(), b=done()) == Moves(("a", "b"), end=End.DONE)
    assert play(saga_of(step("a"), step("b")), a=done(), b=done()) == Moves(end=End.DONE)


def test_a_step_begins_when_what_it_comes_after_is_verified_and_the_pivot_when_everything_before_is() -> None:
    steps = (step("a"), step("b"), step("c", "a"), pivot("p", "a"), behind("z", "p"), behind("y"))
    assert play(saga_of(*steps)) == Moves(begin=("a", "b"), quiet=True)
    assert play(saga_of(*steps), a=done()) == Moves(begin=("b", "c"), quiet=True)
    assert play(saga_of(*steps), a=done(), b=done()) == Moves(begin=("c",), quiet=True)
    assert play(saga_of(*steps), a=done(), b=done(), c=done()) == Moves(begin=("p", "y"), quiet=True)
    found = {name: done() for name in "abcp"}
    assert play(saga_of(*steps), **found) == Moves(begin=("z", "y"), quiet=True)


def test_what_was_announced_is_begun_and_what_is_due_gone_on_with() -> None:
    saga = saga_of(step("a"), step("b"), step("c"))
    saga.steps["c"].action_id = "c"
    moves = play(saga, 10, a=action(S.PENDING, due_us=10), b=action(S.PENDING, due_us=11))
    assert moves == Moves(begun=("c",), go_on=("a",), until_us=10)
    assert moves.works


def test_nothing_is_begun_where_only_a_person_can_say_what_became_of_a_step() -> None:
    steps = (step("a"), step("b"), step("c"), step("d"))
    moves = play(saga_of(*steps), a=action(S.REVIEW_REQUIRED), b=action(S.PENDING, due_us=9))
    assert moves == Moves(until_us=9)
    saga = saga_of(*steps)
    saga.steps["d"].action_id = "d"
    held = action(S.VALIDATED, attempts=0, hold="approval")
    moves = play(saga, a=action(S.REVIEW_REQUIRED), c=held)
    assert moves == Moves(withdraw=("c", "d"), quiet=True)
    ended = play(saga_of(*steps), seen=False, a=done(), b=action(S.REVIEW_REQUIRED), c=action(S.COMPENSATION_FAILED))
    assert ended == Moves(("a", "b", "c"), end=End.REVIEW, because="b", reason="step_stuck")


@pytest.mark.parametrize(
    "field", ["begin", "begun", "withdraw", "go_on", "reverse", "reversing", "news", "undone", "hold"]
)
def test_it_works_where_something_is_done_now(field: str) -> None:
    value = "a" if field in ("reverse", "reversing", "hold") else ("a",)
    moves = Moves(**{field: value})  # type: ignore[arg-type]
    assert moves.works is (field not in ("news", "undone", "hold"))


# --- waiting --------------------------------------------------------------------------------------------------


def test_what_holds_it_is_looked_at_ever_more_slowly() -> None:
    for looks, wait in ((0, 30), (1, 60), (2, 120), (6, 1920), (7, 3600), (30, 3600)):
        moves = play(saga_of(step("a"), looks=looks), 5, a=action(S.VALIDATED, attempts=0, hold="approval"))
        assert moves == Moves(until_us=5 + wait * SECOND_US, quiet=True, hold="approval")


def test_the_first_that_holds_it_is_named_where_nothing_runs() -> None:
    first, second = (action(S.VALIDATED, attempts=0, hold=hold, due_us=9) for hold in ("deferred", "approval"))
    assert play(saga_of(step("a"), step("b")), a=first, b=second) == Moves(until_us=9, quiet=True, hold="deferred")
    running = play(saga_of(step("a"), step("b")), a=action(S.PENDING, due_us=7), b=second)
    assert running == Moves(until_us=7)
    late = play(saga_of(step("a"), step("b")), a=action(S.UNKNOWN, due_us=7), b=second)
    assert late == Moves(until_us=7, quiet=True, hold="approval")


def test_what_is_unknown_is_waited_for_quietly() -> None:
    assert play(saga_of(step("a")), a=action(S.UNKNOWN, due_us=7)) == Moves(until_us=7, quiet=True)
    assert play(saga_of(step("a")), 7, a=action(S.UNKNOWN, due_us=7)) == Moves(go_on=("a",), until_us=7, quiet=True)


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        (None, Moves(until_us=100 + 30 * SECOND_US)),
        (action(S.PENDING), Moves(until_us=100 + SECOND_US // 2)),
        (action(S.PENDING, due_us=140), Moves(until_us=140)),
        (action(S.PENDING, due_us=0), Moves(go_on=("own",), until_us=0)),
        (action(S.UNKNOWN, due_us=140), Moves(until_us=140, quiet=True)),
        (action(S.FAILED), Moves(go_on=("a",), until_us=0)),
        (done(due_us=150), Moves(go_on=("a",), until_us=0)),
    ],
)
def test_an_action_that_is_being_reversed_waits_for_its_reversal(own: Action | None, wanted: Moves) -> None:
    found = {"a": action(S.COMPENSATING, compensation_id="own"), **({} if own is None else {"own": own})}
    assert play(saga_of(step("a")), 100, **found) == wanted


def test_only_an_action_that_is_being_reversed_waits_for_a_reversal() -> None:
    found = {"a": action(S.PENDING, compensation_id="own", due_us=200), "own": action(S.PENDING, due_us=140)}
    assert play(saga_of(step("a")), 100, **found) == Moves(until_us=200)


def test_the_waits_are_these() -> None:
    assert (LOOK_AGAIN_US, HELD_FIRST_US, HELD_MAX_US) == (500_000, 30 * SECOND_US, 3600 * SECOND_US)
    assert (REVIEW_FIRST_US, REVIEW_MAX_US) == (3600 * SECOND_US, 86_400 * SECOND_US)
    assert (FORWARD_TRIES_MAX, FORWARD_FIRST_US, FORWARD_MAX_US) == (5, 2 * SECOND_US, 300 * SECOND_US)
    assert [backoff_us(tries) // SECOND_US for tries in (0, 1, 2, 3, 8, 9, 99)] == [2, 2, 4, 8, 256, 300, 300]
    assert [slower_us(1, 2**30, looks) for looks in (0, 1, 19, 20, 21, 25)] == [1, 2, 2**19, 2**20, 2**20, 2**20]


# --- backward -------------------------------------------------------------------------------------------------

BACK = Heading.BACKWARD


def test_backward_nothing_is_reversed_while_anything_is_open_and_what_is_held_is_withdrawn() -> None:
    saga = saga_of(step("a"), step("b"), step("c"), step("d"), heading=BACK)
    saga.steps["d"].action_id = "d"
    held = action(S.VALIDATED, attempts=0, hold="approval", due_us=3)
    moves = play(saga, 9, a=done(), b=action(S.PENDING, due_us=9), c=held)
    assert moves == Moves(withdraw=("c", "d"), go_on=("b",), until_us=9)
    late = play(saga_of(step("a"), step("b"), heading=BACK), a=done(), b=action(S.UNKNOWN, due_us=9))
    assert late == Moves(until_us=9, quiet=True)


def test_backward_nothing_is_reversed_while_a_step_is_stuck() -> None:
    moves = play(
        saga_of(step("a"), step("b"), heading=BACK), seen=False, a=done(), b=action(S.REVIEW_REQUIRED), undo_a=failed()
    )
    assert moves == Moves(("a", "b"), ("a",), end=End.REVIEW, because="b", reason="step_stuck")


def test_what_was_verified_last_is_reversed_first() -> None:
    steps = (step("c", "b"), step("a"), step("b", "a"), step("f"))
    found = {"a": done(reconciled_us=9), "b": done(reconciled_us=5), "c": done(reconciled_us=5), "f": failed()}
    assert play(saga_of(*steps, heading=BACK), **found) == Moves(reverse="a")
    undone = {"undo_a": done(), **found}
    assert play(saga_of(*steps, heading=BACK), **undone) == Moves(reverse="c"), "of two at one time the later step"
    assert play(saga_of(*steps, heading=BACK), undo_c=done(), **undone) == Moves(reverse="b")
    ended = play(saga_of(*steps, heading=BACK), seen=False, undo_b=done(), undo_c=done(), **undone)
    assert ended == Moves(("c", "a", "b", "f"), ("c", "a", "b"), end=End.REVERSED)


def test_a_failure_with_an_effect_is_reversed_and_what_has_none_is_not() -> None:
    effect, nothing = failed(judgement=OURS), done(judgement=Judgement(attribution="already_so"))
    assert play(saga_of(step("a"), step("b"), heading=BACK), a=nothing, b=effect) == Moves(reverse="b")
    moves = play(saga_of(step("a"), step("b"), step("c"), heading=BACK), seen=False, a=nothing, b=failed())
    assert moves == Moves(("a", "b"), end=End.FAILED)
    itself = play(saga_of(step("a"), heading=BACK), a=action(S.COMPENSATED, judgement=OURS))
    assert itself == Moves(end=End.REVERSED)


@pytest.mark.parametrize(
    ("undo", "wanted"),
    [
        (action(S.PENDING, due_us=9), Moves(until_us=9)),
        (action(S.PENDING, due_us=4), Moves(go_on=("undo_a",), until_us=4)),
        (action(S.UNKNOWN, due_us=9), Moves(until_us=9, quiet=True)),
        (action(S.UNKNOWN), None),
        (failed(), None),
        (action(S.ROLLED_BACK), None),
        (action(S.REVIEW_REQUIRED), None),
        (done(contested=True), None),
    ],
)
def test_a_reversal_is_waited_for_and_only_a_person_goes_on_where_it_came_to_nothing(
    undo: Action, wanted: Moves | None
) -> None:
    moves = play(saga_of(step("a"), step("b"), heading=BACK), 5, a=done(), b=failed(), undo_a=undo)
    assert moves == (wanted or Moves(end=End.REVIEW, because="a", reason="compensation_failed"))


def test_a_reversal_that_was_announced_is_begun_and_one_that_was_refused_is_a_persons() -> None:
    saga = saga_of(step("a"), heading=BACK)
    saga.steps["a"].undo_id = "gone"
    assert play(saga, seen=False, a=done()) == Moves(("a",), reversing="a")
    saga.steps["a"].undo_state = "refused"
    moves = play(saga, seen=False, a=done())
    assert moves == Moves(("a",), end=End.REVIEW, because="a", reason="compensation_failed")


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

FORTH = Heading.FORWARD


def ahead(tries: int = 1, **known: Any) -> Saga:
    saga = saga_of(pivot("p"), behind("y", "p"), behind("z", "p"), heading=FORTH, **known)
    saga.steps["z"].past = tuple(f"z{n}" for n in range(tries - 1))
    return saga


def test_forward_it_is_done_when_every_step_is() -> None:
    assert play(ahead(), seen=False, p=done(), y=done(), z=done()) == Moves(("p", "y", "z"), end=End.DONE)


def test_forward_a_failure_is_tried_again_after_a_wait_that_grows() -> None:
    for tries, wait in ((1, 2), (2, 4), (4, 16)):
        at_us = 100 + wait * SECOND_US
        early = play(ahead(tries), at_us - 1, p=done(), y=done(), z=failed(updated_us=100))
        assert early == Moves(until_us=at_us)
        now = play(ahead(tries), at_us, p=done(), y=done(), z=failed(updated_us=100))
        assert now == Moves(begin=("z",), quiet=True)


def test_forward_what_is_open_is_gone_on_with_meanwhile() -> None:
    at_us = 2 * SECOND_US
    first = play(ahead(), 50, seen=False, p=done(), y=action(S.PENDING, due_us=40), z=failed())
    assert first == Moves(("p", "z"), go_on=("y",), until_us=40)
    later = play(ahead(), 50, p=done(), y=action(S.UNKNOWN, due_us=3 * at_us), z=failed())
    assert later == Moves(until_us=at_us)
    sooner = play(ahead(), 50, p=done(), y=action(S.UNKNOWN, due_us=60), z=failed())
    assert sooner == Moves(until_us=60)
    held = play(ahead(), 50, p=done(), y=action(S.VALIDATED, attempts=0, hold="frozen", due_us=60), z=failed())
    assert held == Moves(until_us=60, hold="frozen")
    begins = play(ahead(), 50, p=done(), z=failed())
    assert begins == Moves(begin=("y",), until_us=at_us)
    saga = ahead()
    saga.steps["y"].action_id = "y"
    assert play(saga, 50, p=done(), z=failed()) == Moves(begun=("y",), until_us=at_us)


def test_forward_of_two_failures_the_earlier_is_waited_for() -> None:
    saga = ahead()
    saga.steps["y"].past = ("y0", "y1")
    moves = play(saga, 50, p=done(), y=failed(), z=failed())
    assert moves == Moves(until_us=2 * SECOND_US)
    now = play(saga, 2 * SECOND_US, p=done(), y=failed(), z=failed())
    assert now == Moves(begin=("z",), until_us=8 * SECOND_US)


def test_forward_there_are_not_too_many_tries_but_those_that_a_person_forgave() -> None:
    found = {"p": done(), "y": done()}
    assert play(ahead(4), 10**9, **found, z=failed()).begin == ("z",)
    spent = play(ahead(5), 10**9, seen=False, **found, z=failed())
    assert spent == Moves(("p", "y", "z"), end=End.REVIEW, because="z", reason="forward_exhausted")
    assert play(ahead(5, forgiven=1), 10**9, **found, z=failed()).begin == ("z",)
    assert play(ahead(9, forgiven=4), 10**9, **found, z=failed()).end is End.REVIEW


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
    assert moves == Moves(end=End.REVIEW, because="z", reason=reason)


def test_forward_what_was_refused_is_not_tried_again() -> None:
    saga = ahead()
    saga.steps["z"].refused = "invalid"
    moves = play(saga, 10**9, p=done(), y=done(), z=failed())
    assert moves == Moves(end=End.REVIEW, because="z", reason="forward_exhausted")
    never = ahead()
    never.steps["z"].refused = "invalid"
    assert play(never, 10**9, p=done(), y=done()).end is End.REVIEW


def test_forward_what_is_open_is_waited_for_before_a_person_is_asked() -> None:
    moves = play(ahead(), 5, p=done(), y=action(S.UNKNOWN, due_us=9), z=action(S.REVIEW_REQUIRED))
    assert moves == Moves(until_us=9, quiet=True)
    saga = saga_of(pivot("p"), behind("y", "p"), behind("z", "y"), heading=FORTH)
    blocked = play(saga, 5, seen=False, p=done(), y=action(S.REVIEW_REQUIRED), undo_p=failed())
    assert blocked == Moves(("p", "y"), ("p",), end=End.REVIEW, because="y", reason="step_stuck")


def test_steps_of_a_circle_are_all_there() -> None:
    assert [each.name for each in in_order((step("a", "b"), step("b", "a"), step("c")))] == ["c", "a", "b"]
