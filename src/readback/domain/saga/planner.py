"""A saga's next moves: a pure, total function of its record and of the current states of its actions.

Called after every possible change. Only states count, not the events behind them. A crash, a lost notification or a
second process therefore changes nothing. The planner never begins a step after a failure before the pivot. It never
reverses a step without a reading of its effect, and never reverses out of order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final, assert_never

from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.discrepancy import Discrepancy
from readback.domain.idempotency import Resolution
from readback.domain.saga.fold import CLOSED, Direction, Region, Saga, StepTerms
from readback.domain.state import TERMINAL, State
from readback.domain.verdict import Attribution

SECOND_US: Final = 1_000_000
LOOK_AGAIN_US: Final = SECOND_US // 2
"""Interval between looks at an action of another process."""
HELD_FIRST_US: Final = 30 * SECOND_US
HELD_MAX_US: Final = 3600 * SECOND_US
"""First and longest interval between looks at a hold."""
REVIEW_FIRST_US: Final = 3600 * SECOND_US
REVIEW_MAX_US: Final = 24 * 3600 * SECOND_US
"""Longest interval during the wait for a person."""
FORWARD_TRIES_MAX: Final = 5
"""Largest number of tries of a step after the pivot, under the same key, before a review."""
FORWARD_FIRST_US: Final = 2 * SECOND_US
FORWARD_MAX_US: Final = 300 * SECOND_US
"""First and longest delay of a retry in forward recovery."""
HOLDS: Final = frozenset({"approval", "deferred", "frozen"})


class StepStatus(StrEnum):
    """Status of a step's action, for its saga."""

    WAITING = "waiting"
    """Not begun."""
    ANNOUNCED = "announced"
    """Announced before its process ended, without a record of the action."""
    RUNNING = "running"
    LATE = "late"
    """Unknown, and checked again: an effect may still land."""
    HELD = "held"
    """Not executed. The action waits for an approval, its source, or a lifted freeze."""
    DONE = "done"
    """Reconciled as success."""
    FAILED = "failed"
    """No effect exists, and none can follow."""
    EFFECT = "effect"
    """Failed, with an effect shown by a reading."""
    REVERSED = "reversed"
    """The action itself or the saga reversed the effect, verified."""
    STUCK = "stuck"
    """Only a person can decide the result."""


_OPEN: Final = frozenset({StepStatus.ANNOUNCED, StepStatus.RUNNING, StepStatus.LATE, StepStatus.HELD})
_TROUBLE: Final = frozenset({StepStatus.FAILED, StepStatus.EFFECT, StepStatus.REVERSED})


class SagaEnd(StrEnum):
    """End of a saga without a person."""

    DONE = "done"
    FAILED = "failed"
    """No step has an effect."""
    REVERSED = "reversed"
    """Every effect was reversed, verified."""
    REVIEW = "review"


@dataclass(frozen=True, slots=True)
class SagaPlan:
    """The records and actions due now. Names refer to steps, ids to actions.

    `news` and `undone`: steps with an ended action, or an ended reversal, not yet recorded. `turn`: a new direction,
    because of `because`; nothing else happens before its record. `begin`: announced first, then begun under that id.
    `begun`: announced already. `withdraw`: not executed so far, and no longer needed. `go_on`: due actions. `reverse`:
    the next step to reverse; `reversing`: announced already. `until_us`: time of the next look without any work now.
    `quiet`: no progress is near. `hold`: the reason of a hold.
    """

    news: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()
    turn: Direction | None = None
    because: str = ""
    reason: str = ""
    begin: tuple[str, ...] = ()
    begun: tuple[str, ...] = ()
    withdraw: tuple[str, ...] = ()
    go_on: tuple[str, ...] = ()
    reverse: str = ""
    reversing: str = ""
    end: SagaEnd | None = None
    until_us: int | None = None
    quiet: bool = False
    hold: str = ""

    @property
    def works(self) -> bool:
        """Whether any work is due now."""
        return bool(self.begin or self.begun or self.withdraw or self.go_on or self.reverse or self.reversing)


Children = Mapping[str, Action]
"""The saga's actions, and their own reversals, by id."""


def plan_moves(saga: Saga, children: Children, now_us: int) -> SagaPlan:
    """Plan the next moves; see this module."""
    if saga.state in CLOSED:
        return SagaPlan()
    return _Planner(saga, children, now_us).moves()


def step_status(saga: Saga, name: str, children: Children) -> StepStatus:
    """The current status of one step."""
    record = saga.steps[name]
    if record.refused:
        return StepStatus.FAILED
    if not record.action_id:
        return StepStatus.WAITING
    child = children.get(record.action_id)
    if child is None:
        return StepStatus.ANNOUNCED
    stands, undo = _standing(child, children), children.get(record.undo_id)
    if undo is not None and undo.state is State.RECONCILED_SUCCESS and not undo.contested:
        return StepStatus.REVERSED if stands in (StepStatus.DONE, StepStatus.EFFECT) else stands
    return stands


def _standing(child: Action, children: Children) -> StepStatus:
    match child.state:
        case State.RECONCILED_SUCCESS:
            return StepStatus.STUCK if child.contested else StepStatus.DONE
        case State.FAILED | State.ROLLED_BACK:
            return StepStatus.EFFECT if has_effect(child) else StepStatus.FAILED
        case State.COMPENSATED:
            return StepStatus.REVERSED
        case State.ABANDONED:
            return StepStatus.STUCK if child.attempts else StepStatus.FAILED
        case State.REVIEW_REQUIRED if child.attested is Resolution.ATTESTED_NOT_DONE:
            return StepStatus.FAILED
        case State.REVIEW_REQUIRED:
            return StepStatus.HELD if child.attempts == 0 and child.hold in HOLDS else StepStatus.STUCK
        case State.COMPENSATION_FAILED:
            return StepStatus.STUCK
        case State.UNKNOWN:
            if child.due_us is not None:
                return StepStatus.LATE
            if child.attested is Resolution.ATTESTED_NOT_DONE:
                return StepStatus.FAILED
            return StepStatus.FAILED if child.kind == "read" else StepStatus.STUCK
        case State.COMPENSATING:
            own = children.get(child.compensation_id)
            return StepStatus.LATE if own is not None and own.state is State.UNKNOWN else StepStatus.RUNNING
        case State.VALIDATED:
            return StepStatus.HELD if child.hold and child.attempts == 0 else StepStatus.RUNNING
        case (
            State.PROPOSED
            | State.EXECUTING
            | State.ACCEPTED
            | State.PENDING
            | State.COMMITTED
            | State.PARTIALLY_COMMITTED
            | State.RECONCILIATION_FAILED
            | State.VERIFICATION_TIMEOUT
            | State.FORWARD_RECOVERY
        ):
            return StepStatus.RUNNING
        case _:
            assert_never(child.state)


def has_effect(action: Action) -> bool:
    """A reading shows an effect to reverse. An earlier state or another actor's effect does not count."""
    judged = action.judgement
    return (
        action.kind != "read"
        and judged.effect_shown
        and judged.attribution not in (Attribution.OTHER_ACTOR.value, Attribution.ALREADY_SO.value)
        and judged.discrepancy != Discrepancy.STALE_STATE.value
    )


def has_ended(reversal: Action) -> bool:
    """No progress without a person: the action has ended, or stays unknown and is no longer checked."""
    return reversal.state in TERMINAL or (reversal.state is State.UNKNOWN and reversal.due_us is None)


def backoff_us(tries: int) -> int:
    """Delay between a step's `tries`th try and the next try."""
    return min(FORWARD_FIRST_US << min(max(tries - 1, 0), 20), FORWARD_MAX_US)


class _Planner:
    """One look at a saga."""

    def __init__(self, saga: Saga, children: Children, now_us: int) -> None:
        self.saga, self.children, self.now_us = saga, children, now_us
        self.stands = {step.name: step_status(saga, step.name, children) for step in saga.terms}
        self.news = tuple(s.name for s in saga.terms if self._is_news(s.name))
        self.undone = tuple(s.name for s in saga.terms if self._undo_is_news(s.name))

    def moves(self) -> SagaPlan:
        turn = self._turn()
        if turn is not None:
            return turn
        match self.saga.heading:
            case Direction.ONWARD:
                return self._onward()
            case Direction.BACKWARD:
                return self._backward()
            case Direction.FORWARD:
                return self._forward()
            case _:
                assert_never(self.saga.heading)

    # --- the current state ---

    def child(self, name: str) -> Action | None:
        return self.children.get(self.saga.steps[name].action_id)

    def named(self, *standings: StepStatus) -> tuple[str, ...]:
        return tuple(name for name, stands in self.stands.items() if stands in standings)

    def _is_news(self, name: str) -> bool:
        child = self.child(name)
        return child is not None and self.stands[name] not in _OPEN and self.saga.steps[name].state != child.state.value

    def _undo_is_news(self, name: str) -> bool:
        record = self.saga.steps[name]
        undo = self.children.get(record.undo_id)
        return undo is not None and undo.state in TERMINAL and record.undo_state != undo.state.value

    def pivot_passed(self) -> bool:
        """The pivot is verified, or a reading shows its effect."""
        for step in self.saga.terms:
            child = self.child(step.name)
            if step.region is not Region.PIVOT or child is None:
                continue
            undone = child.state in (State.COMPENSATED, State.ROLLED_BACK)
            if self.stands[step.name] is StepStatus.DONE or (has_effect(child) and not undone):
                return True
        return False

    def _pivot_begun(self) -> bool:
        """The pivot has passed or failed, or its direction is unknown: a cancellation comes too late."""
        return any(s.region is Region.PIVOT and self.stands[s.name] is not StepStatus.WAITING for s in self.saga.terms)

    # --- the direction ---

    def _turn(self) -> SagaPlan | None:
        if self.saga.heading is Direction.BACKWARD and self.pivot_passed() and not self._reversing():
            return SagaPlan(self.news, self.undone, turn=Direction.FORWARD, reason="pivot_passed")
        if self.saga.heading is not Direction.ONWARD:
            return None
        failed = self.named(*_TROUBLE)
        stops = self.saga.cancelled and not self._pivot_begun()
        if not failed and not stops:
            return None
        because = failed[0] if failed else ""
        if self.pivot_passed():
            return SagaPlan(self.news, turn=Direction.FORWARD, because=because, reason="step_failed")
        return SagaPlan(
            self.news, turn=Direction.BACKWARD, because=because, reason="step_failed" if failed else "cancelled"
        )

    def _reversing(self) -> bool:
        return any(record.undo_id or record.undo_past for record in self.saga.steps.values())

    def _onward(self) -> SagaPlan:
        if all(stands is StepStatus.DONE for stands in self.stands.values()):
            return SagaPlan(self.news, end=SagaEnd.DONE)
        stuck = self.named(StepStatus.STUCK)
        stops = bool(stuck) or (self.saga.cancelled and not self.pivot_passed())
        return self._stopping(stuck) if stops else self._going()

    def _going(self) -> SagaPlan:
        return self._with_open(begin=self._ready(), begun=self.named(StepStatus.ANNOUNCED))

    def _stopping(self, stuck: tuple[str, ...]) -> SagaPlan:
        """Begin nothing more. Wait for running steps, then for a person."""
        if self.named(*_OPEN):
            return self._with_open(withdraw=self.named(StepStatus.HELD, StepStatus.ANNOUNCED))
        return SagaPlan(
            self.news, self.undone, end=SagaEnd.REVIEW, because=stuck[0] if stuck else "", reason="step_stuck"
        )

    def _ready(self) -> tuple[str, ...]:
        """Steps with verified predecessors. The pivot waits for everything before it."""
        before = [s.name for s in self.saga.terms if s.region is Region.BEFORE]
        return tuple(
            step.name
            for step in self.saga.terms
            if self.stands[step.name] is StepStatus.WAITING and self._cleared(step, before)
        )

    def _cleared(self, step: StepTerms, before: list[str]) -> bool:
        needed = step.after if step.region is Region.BEFORE else (*step.after, *before)
        return all(self.stands[name] is StepStatus.DONE for name in needed)

    # --- backward ---

    def _backward(self) -> SagaPlan:
        if self.named(*_OPEN):
            return self._with_open(withdraw=self.named(StepStatus.HELD, StepStatus.ANNOUNCED))
        stuck = self.named(StepStatus.STUCK)
        if stuck or self.pivot_passed():
            because = stuck[0] if stuck else ""
            return SagaPlan(self.news, self.undone, end=SagaEnd.REVIEW, because=because, reason="step_stuck")
        effects = self._effects()
        if effects:
            return self._reverse(effects[0])
        return SagaPlan(
            self.news, self.undone, end=SagaEnd.REVERSED if self.named(StepStatus.REVERSED) else SagaEnd.FAILED
        )

    def _effects(self) -> list[str]:
        """Steps with an effect to reverse, the last committed first. Reversed steps are excluded."""
        place = {step.name: number for number, step in enumerate(in_order(self.saga.terms))}
        found = [(c.reconciled_us, place[n], n) for n in self.stands if (c := self._reversible(n)) is not None]
        return [name for _, _, name in sorted(found, reverse=True)]

    def _reversible(self, name: str) -> Action | None:
        child = self.child(name)
        if child is None or self.stands[name] not in (StepStatus.DONE, StepStatus.EFFECT):
            return None
        return child if has_effect(child) else None

    def _reverse(self, name: str) -> SagaPlan:
        record = self.saga.steps[name]
        failed = SagaPlan(self.news, self.undone, end=SagaEnd.REVIEW, because=name, reason="compensation_failed")
        if record.undo_state == "refused":
            return failed
        if not record.undo_id:
            return SagaPlan(self.news, self.undone, reverse=name)
        undo = self.children.get(record.undo_id)
        if undo is None:
            return SagaPlan(self.news, self.undone, reversing=name)
        if has_ended(undo):
            return failed
        return self._waiting([undo], quiet=undo.state is State.UNKNOWN)

    # --- forward ---

    def _forward(self) -> SagaPlan:
        if all(stands is StepStatus.DONE for stands in self.stands.values()):
            return SagaPlan(self.news, end=SagaEnd.DONE)
        again = [name for name in self.named(*_TROUBLE) if self._may_try(name)]
        at = {name: self._try_at_us(name) for name in again}
        begin = (*self._ready(), *(name for name in again if at[name] <= self.now_us))
        moves = self._with_open(begin=begin, begun=self.named(StepStatus.ANNOUNCED))
        if moves.works or self.named(*_OPEN) or again:
            later = min((us for us in at.values() if us > self.now_us), default=None)
            return _sooner(moves, later)
        stuck = self.named(StepStatus.STUCK, *_TROUBLE)
        reason = "step_stuck" if self.named(StepStatus.STUCK) else "forward_exhausted"
        return SagaPlan(self.news, self.undone, end=SagaEnd.REVIEW, because=stuck[0] if stuck else "", reason=reason)

    def _may_try(self, name: str) -> bool:
        """The last try left nothing and can have no later effect, and tries remain."""
        record, child = self.saga.steps[name], self.child(name)
        if record.refused or child is None or record.tries - self.saga.forgiven >= FORWARD_TRIES_MAX:
            return False
        return self.stands[name] is StepStatus.FAILED and child.may_repeat

    def _try_at_us(self, name: str) -> int:
        child = self.child(name)
        return 0 if child is None else child.updated_us + backoff_us(self.saga.steps[name].tries)

    # --- open actions ---

    def _with_open(
        self, *, begin: tuple[str, ...] = (), begun: tuple[str, ...] = (), withdraw: tuple[str, ...] = ()
    ) -> SagaPlan:
        """These moves, and the resumption of open actions."""
        standing = ((n, s) for n, s in self.stands.items() if n not in withdraw)
        running = [n for n, s in standing if s in (StepStatus.RUNNING, StepStatus.LATE, StepStatus.HELD)]
        actions = [child for name in running if (child := self.child(name)) is not None]
        active = self.named(StepStatus.RUNNING)
        moves = self._waiting(actions, quiet=not active)
        held = [c.hold for n, c in self._held() if n not in withdraw]
        return SagaPlan(
            self.news,
            self.undone,
            begin=begin,
            begun=begun,
            withdraw=withdraw,
            go_on=moves.go_on,
            until_us=moves.until_us,
            quiet=moves.quiet,
            hold=held[0] if held and not active else "",
        )

    def _held(self) -> list[tuple[str, Action]]:
        return [(n, c) for n in self.named(StepStatus.HELD) if (c := self.child(n)) is not None]

    def _waiting(self, actions: list[Action], *, quiet: bool) -> SagaPlan:
        """Resume due actions, else wait for the first due time."""
        due = [self._due(action) for action in actions]
        ready = tuple(action_id for action_id, at_us in due if at_us <= self.now_us)
        until = min((at_us for _, at_us in due), default=None)
        return SagaPlan(self.news, self.undone, go_on=ready, until_us=until, quiet=quiet)

    def _due(self, action: Action) -> tuple[str, int]:
        """The action to resume, and the time. An action under reversal waits for its reversal."""
        own = self.children.get(action.compensation_id) if action.state is State.COMPENSATING else None
        if own is not None and own.state not in TERMINAL:
            return own.id, own.due_us if own.due_us is not None else self.now_us + LOOK_AGAIN_US
        if own is not None:
            return action.id, 0
        if action.due_us is not None:
            return action.id, action.due_us
        return action.id, self.now_us + slower_us(HELD_FIRST_US, HELD_MAX_US, self.saga.looks)


def _sooner(moves: SagaPlan, at_us: int | None) -> SagaPlan:
    if at_us is None:
        return moves
    until = at_us if moves.until_us is None else min(moves.until_us, at_us)
    return replace(moves, until_us=until, quiet=False)


def slower_us(first_us: int, most_us: int, looks: int) -> int:
    """The interval after so many looks: doubled with each look, up to `most_us`."""
    return min(first_us << min(looks, 20), most_us)


def in_order(terms: tuple[StepTerms, ...]) -> tuple[StepTerms, ...]:
    """The steps in topological order. Among equals, the order of definition counts."""
    placed: list[StepTerms] = []
    names: set[str] = set()
    left = list(terms)
    while left:
        ready = next((step for step in left if names.issuperset(step.after)), left[0])
        placed.append(ready)
        names.add(ready.name)
        left.remove(ready)
    return tuple(placed)
