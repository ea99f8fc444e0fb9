"""What a saga does next, over all that its actions may turn out to be: no effect is left, none is reversed twice."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readback.domain.action.action import Action
from readback.domain.action.action_state import Judgement
from readback.domain.saga.fold import CLOSED, Direction, Region, Saga, StepRecord, StepTerms
from readback.domain.saga.planner import (
    FORWARD_MAX_US,
    FORWARD_TRIES_MAX,
    SagaEnd,
    SagaPlan,
    StepStatus,
    backoff_us,
    has_effect,
    in_order,
    plan_moves,
    slower_us,
    step_status,
)
from readback.domain.side_effect import SideEffect
from readback.domain.state import State

ROUNDS_MAX = 400


def terms(name: str, after: tuple[str, ...], region: Region, kind: str = "create") -> StepTerms:
    undo = "" if region is not Region.BEFORE or kind == "read" else f"undo_{name}"
    return StepTerms(name, f"c_{name}", "1", "h", kind, SideEffect.LOW_RISK_INTERNAL, region, after, undo)


def saga_of(*steps: StepTerms) -> Saga:
    saga = Saga("s", "acme", state=State.EXECUTING, terms=steps, name="x", operation="op")
    saga.steps = {step.name: StepRecord() for step in steps}
    return saga


ENDS = {
    "done": (State.RECONCILED_SUCCESS, {"effect_shown": True, "attribution": "ours"}),
    "noop": (State.RECONCILED_SUCCESS, {"effect_shown": False, "attribution": "already_so"}),
    "other": (State.RECONCILED_SUCCESS, {"effect_shown": True, "attribution": "other_actor"}),
    "failed": (State.FAILED, {"dead": True}),
    "effect": (State.FAILED, {"effect_shown": True, "attribution": "ours"}),
    "stale": (State.FAILED, {"effect_shown": True, "discrepancy": "stale_state"}),
    "reversed": (State.COMPENSATED, {"effect_shown": True}),
    "review": (State.REVIEW_REQUIRED, {}),
    "shown_review": (State.REVIEW_REQUIRED, {"effect_shown": True, "attribution": "ours"}),
}
UNDO_ENDS = ("done", "failed", "review")


@dataclass
class World:
    """Plays a saga's actions by the words that were drawn for them, and notes what was asked of it."""

    saga: Saga
    words: dict[str, list[str]]
    undo_words: dict[str, str]
    delays: dict[str, int]
    now_us: int = 0
    children: dict[str, Action] = field(default_factory=dict)
    step_of: dict[str, str] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    reversed: list[str] = field(default_factory=list)
    ended: SagaEnd | None = None

    def play(self) -> None:
        for _ in range(ROUNDS_MAX):
            moves = plan_moves(self.saga, self.children, self.now_us)
            self._check(moves)
            if moves.turn is not None:
                self.saga.heading, self.saga.because = moves.turn, moves.because
                continue
            if moves.end is not None:
                self.ended = moves.end
                return
            if moves.works:
                self._do(moves)
            else:
                assert moves.until_us is not None, "it waits for nothing"
                self.now_us = max(moves.until_us, self.now_us + 1)
                for child in self.children.values():
                    if child.hold:  # somebody approves
                        child.state, child.hold, child.attempts, child.due_us = State.PENDING, "", 1, self.now_us
        raise AssertionError("it turns in a circle")

    def _check(self, moves: SagaPlan) -> None:
        saga = self.saga
        stands = {s.name: step_status(saga, s.name, self.children) for s in saga.terms}
        if moves.begin:
            assert saga.heading is not Direction.BACKWARD
            for name in moves.begin:
                step = saga.step(name)
                assert all(stands[each] is StepStatus.DONE for each in step.after)
                if step.region is not Region.BEFORE:
                    before = [s.name for s in saga.terms if s.region is Region.BEFORE]
                    assert all(stands[each] is StepStatus.DONE for each in before)
        if moves.reverse:
            self._check_reverse(moves.reverse, stands)

    def _check_reverse(self, name: str, stands: dict[str, StepStatus]) -> None:
        saga = self.saga
        assert saga.heading is Direction.BACKWARD
        assert name not in self.reversed
        assert has_effect(self.children[saga.steps[name].action_id])
        failed = any(s in (StepStatus.FAILED, StepStatus.EFFECT, StepStatus.REVERSED) for s in stands.values())
        assert failed or saga.cancelled, "reversed without a terminal failure"
        open_ = (StepStatus.RUNNING, StepStatus.LATE, StepStatus.HELD, StepStatus.ANNOUNCED, StepStatus.STUCK)
        assert not any(s in open_ for s in stands.values())
        pivots = [s.name for s in saga.terms if s.region is Region.PIVOT]
        assert not any(stands[p] is StepStatus.DONE for p in pivots), "reversed behind the pivot"
        at = self.children[saga.steps[name].action_id].reconciled_us
        for each in self.reversed:
            assert self.children[saga.steps[each].action_id].reconciled_us >= at, "out of order"

    def _do(self, moves: SagaPlan) -> None:
        for name in (*moves.begin, *moves.begun):
            record = self.saga.steps[name]
            if name in moves.begin:
                if record.action_id:
                    record.past = (*record.past, record.action_id)
                record.action_id = f"{name}-{len(record.past)}"
            self.begun.append(name)
            self._new(record.action_id, name, self.saga.step(name).kind)
        for name in moves.withdraw:
            child = self.children[self.saga.steps[name].action_id]
            child.state, child.due_us, child.hold = State.FAILED, None, ""
        for name in (moves.reverse, moves.reversing):
            if name:
                self.saga.steps[name].undo_id = f"undo-{name}"
                self.reversed.append(name)
                self._new(f"undo-{name}", name, "delete")
        for action_id in moves.go_on:
            self._end(self.children[action_id])

    def _new(self, action_id: str, name: str, kind: str) -> None:
        delay = self.delays.get(action_id, 0)
        child = Action(action_id, "acme", kind=kind, attempts=1, state=State.PENDING, due_us=self.now_us + delay)
        self.children[action_id], self.step_of[action_id] = child, name
        if not action_id.startswith("undo-") and self.words[name][0] == "held":
            self.words[name].pop(0)
            child.state, child.hold, child.attempts, child.due_us = State.VALIDATED, "approval", 0, None
            return
        if delay == 0:
            self._end(child)
        elif delay > 50:
            child.state = State.UNKNOWN

    def _end(self, child: Action) -> None:
        name = self.step_of[child.id]
        words = self.words[name]
        word = self.undo_words[name] if child.id.startswith("undo-") else words.pop(0) if len(words) > 1 else words[0]
        can_be = word in ENDS and not (word == "reversed" and child.kind == "read")  # nothing compensates a read
        state, judged = ENDS[word if can_be else "done"]
        child.state, child.due_us = state, None
        child.judgement = Judgement(**judged)  # type: ignore[arg-type]
        self.now_us += 1
        child.reconciled_us = child.updated_us = self.now_us


@st.composite
def worlds(draw: st.DrawFn) -> World:
    count = draw(st.integers(1, 6))
    names = [f"s{n}" for n in range(count)]
    pivot = draw(st.integers(-1, count - 1))
    steps: list[StepTerms] = []
    behind: set[str] = set()
    for n, name in enumerate(names):
        after = tuple(sorted(draw(st.sets(st.sampled_from(names[:n]), max_size=3)))) if n else ()
        region = Region.PIVOT if n == pivot else Region.BEFORE
        if pivot >= 0 and (names[pivot] in after or behind & set(after)) and n > pivot:
            region = Region.AFTER
            behind.add(name)
        steps.append(terms(name, after, region, draw(st.sampled_from(["create", "create", "read"]))))
    saga = saga_of(*draw(st.permutations(steps)))
    word = st.sampled_from([*ENDS, "done", "done", "done", "held"])
    words = {
        name: [*draw(st.lists(word, min_size=1, max_size=3)), draw(st.sampled_from(sorted(ENDS)))] for name in names
    }
    undo_words = {name: draw(st.sampled_from(UNDO_ENDS)) for name in names}
    ids = [f"{name}-{n}" for name in names for n in range(2)] + [f"undo-{name}" for name in names]
    delays = {each: draw(st.sampled_from([0, 0, 3, 100])) for each in ids}
    world = World(saga, words, undo_words, delays)
    saga.cancelled = draw(st.booleans()) and draw(st.booleans())
    return world


@pytest.mark.requirement("STRATEGY-compensation", "L19", "REC-09", "REC-10")
@settings(max_examples=400, deadline=None)
@given(worlds())
@pytest.mark.requirement("SAGA-terminal-only", "SAGA-effect-shown", "SAGA-reverse-order")
@pytest.mark.slow
def test_whatever_its_actions_turn_out_to_be_it_ends_and_leaves_no_effect_unaccounted_for(world: World) -> None:
    world.play()
    saga, end = world.saga, world.ended
    stands = {s.name: step_status(saga, s.name, world.children) for s in saga.terms}
    left = [n for n in saga.steps if (c := world.children.get(saga.steps[n].action_id)) and has_effect(c)]
    undone = [n for n in world.reversed if world.undo_words[n] == "done"]
    assert len(world.reversed) == len(set(world.reversed))
    match end:
        case SagaEnd.DONE:
            assert set(stands.values()) <= {StepStatus.DONE}
            assert world.reversed == []
        case SagaEnd.FAILED:
            assert left == []
        case SagaEnd.REVERSED:
            # A read that was taken back has no effect of its own, and is REVERSED all the same.
            assert {stands[name] for name in (*left, *undone)} <= {StepStatus.REVERSED}
            assert StepStatus.REVERSED in stands.values()
        case SagaEnd.REVIEW:
            reasons = (StepStatus.STUCK, StepStatus.FAILED, StepStatus.EFFECT, StepStatus.REVERSED)
            assert any(s in reasons for s in stands.values()) or undone != world.reversed
        case None:
            raise AssertionError("it did not end")


@pytest.mark.parametrize("state", sorted(CLOSED))
def test_what_has_ended_moves_no_more(state: State) -> None:
    saga = saga_of(terms("a", (), Region.BEFORE))
    saga.state = state
    assert plan_moves(saga, {}, 0) == SagaPlan()


def test_every_state_of_an_action_has_a_standing() -> None:
    for state in State:
        for due in (None, 5):
            for attempts in (0, 1):
                saga = saga_of(terms("a", (), Region.BEFORE))
                saga.steps["a"].action_id = "x"
                child = Action("x", "acme", state=state, due_us=due, attempts=attempts, kind="create")
                assert step_status(saga, "a", {"x": child}) in StepStatus
                assert isinstance(plan_moves(saga, {"x": child}, 0), SagaPlan)


def test_a_step_that_was_announced_and_not_begun_is_begun_or_taken_out_of_the_game() -> None:
    saga = saga_of(terms("a", (), Region.BEFORE), terms("b", (), Region.BEFORE))
    saga.steps["a"].action_id, saga.steps["b"].action_id = "x", "y"
    failed = Action("y", "acme", state=State.FAILED, kind="create")
    assert plan_moves(saga, {}, 0).begun == ("a", "b")
    saga.heading = Direction.BACKWARD
    assert plan_moves(saga, {"y": failed}, 0).withdraw == ("a",)


def test_another_try_after_the_pivot_waits_ever_longer_and_not_for_ever() -> None:
    waits = [backoff_us(tries) for tries in range(1, 30)]
    assert waits == sorted(waits)
    assert waits[-1] == FORWARD_MAX_US
    assert FORWARD_TRIES_MAX >= 2
    assert slower_us(3, 100, 50) == 100


def test_steps_stand_after_those_that_they_wait_for() -> None:
    a, b, c = (terms(n, x, Region.BEFORE) for n, x in (("a", ("c",)), ("b", ()), ("c", ("b",))))
    assert [step.name for step in in_order((a, b, c))] == ["b", "c", "a"]


def test_behind_its_pivot_a_saga_goes_forward_whatever_it_was_told_and_what_was_reversed_is_not_done() -> None:
    saga = saga_of(terms("a", (), Region.BEFORE), terms("p", ("a",), Region.PIVOT))
    saga.heading = Direction.BACKWARD
    shown = Judgement(effect_shown=True, attribution="ours")
    done = {n: Action(n, "acme", state=State.RECONCILED_SUCCESS, kind="create", judgement=shown) for n in ("a", "p")}
    saga.steps["a"].action_id, saga.steps["p"].action_id = "a", "p"
    assert plan_moves(saga, done, 0).turn is Direction.FORWARD
    saga.steps["a"].undo_id = "u"
    undo = {**done, "u": Action("u", "acme", state=State.RECONCILED_SUCCESS, kind="delete")}
    assert step_status(saga, "a", undo) is StepStatus.REVERSED
    assert plan_moves(saga, undo, 0).end is SagaEnd.REVIEW
    saga.heading = Direction.FORWARD
    assert plan_moves(saga, undo, 0).end is SagaEnd.REVIEW
