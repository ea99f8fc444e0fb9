"""Sagas and their actions as the tests of their moves are given them."""

from __future__ import annotations

from typing import Any

from readback.domain.action.action import Action
from readback.domain.action.action_state import Judgement
from readback.domain.saga.fold import Direction, Region, Saga, StepRecord, StepTerms
from readback.domain.saga.planner import SagaPlan, plan_moves
from readback.domain.side_effect import SideEffect
from readback.domain.state import State

S = State
SECOND_US = 1_000_000
OURS = Judgement(effect_shown=True, attribution="ours")
NOT_DONE = "attested_not_done"


def step(name: str, *after: str, region: Region = Region.BEFORE) -> StepTerms:
    return StepTerms(name, f"c_{name}", "1", "h", "create", SideEffect.LOW_RISK_INTERNAL, region, after, f"undo_{name}")


def pivot(name: str, *after: str) -> StepTerms:
    return step(name, *after, region=Region.PIVOT)


def behind(name: str, *after: str) -> StepTerms:
    return step(name, *after, region=Region.AFTER)


def saga_of(*steps: StepTerms, heading: Direction = Direction.ONWARD, **known: Any) -> Saga:
    saga = Saga("s", "acme", state=S.EXECUTING, terms=steps, name="x", heading=heading, **known)
    saga.steps = {each.name: StepRecord() for each in steps}
    return saga


def action(state: State, **known: Any) -> Action:
    return Action("x", "acme", state=state, **{"kind": "create", "attempts": 1, **known})


def play(saga: Saga, now_us: int = 0, *, seen: bool = True, **found: Action) -> SagaPlan:
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
    return plan_moves(saga, children, now_us)


def done(**known: Any) -> Action:
    return action(S.RECONCILED_SUCCESS, **{"judgement": OURS, **known})


def failed(**known: Any) -> Action:
    return action(S.FAILED, **{"judgement": Judgement(dead=True), **known})
