"""The way from one state to another that says what was learned: a table over the transitions.

Called by the engine when a judgement is recorded. It chooses among legal transitions only; it cannot invent one.
"""

from __future__ import annotations

from functools import cache

from readback.domain.state import State, can
from readback.errors import InvariantError

S = State

_WAYPOINTS: dict[State, tuple[tuple[State, ...], ...]] = {
    S.RECONCILED_SUCCESS: ((), (S.COMMITTED,), (S.PENDING, S.COMMITTED), (S.UNKNOWN,)),
    S.PENDING: ((), (S.ACCEPTED,), (S.UNKNOWN,)),
    S.VERIFICATION_TIMEOUT: ((), (S.PENDING,)),
    S.UNKNOWN: ((), (S.VERIFICATION_TIMEOUT,), (S.PENDING,)),
    S.FAILED: ((), (S.PENDING,), (S.RECONCILIATION_FAILED,)),
    S.PARTIALLY_COMMITTED: ((S.COMMITTED,), (S.PENDING, S.COMMITTED)),
    S.COMMITTED: ((), (S.PENDING,)),
}
_AFTER_EFFECT = ((), (S.COMMITTED,), (S.PENDING, S.COMMITTED))
_WITHOUT_EFFECT = ((), (S.UNKNOWN,), (S.PENDING, S.UNKNOWN))


@cache
def shortest_path(now: State, goal: State, effect_shown: bool = False) -> tuple[State, ...]:
    """The states to walk from `now`, `goal` last; empty if that is where we are.

    `effect_shown`: a reading shows an effect, so that a failed reconciliation comes after COMMITTED; else it comes
    after UNKNOWN, since nothing was seen to be committed.
    """
    if now is goal:
        return ()
    for between in _options(goal, effect_shown):
        steps = (*between, goal)
        if all(can(a, b) for a, b in zip((now, *between), steps, strict=True)):
            return steps
    raise InvariantError(f"There is no way from {now} to {goal}.")


def _options(goal: State, effect_shown: bool) -> tuple[tuple[State, ...], ...]:
    if goal is S.RECONCILIATION_FAILED:
        return _AFTER_EFFECT if effect_shown else _WITHOUT_EFFECT
    return _WAYPOINTS.get(goal, ((),))


def path_through(now: State, *goals: State, effect_shown: bool = False) -> tuple[State, ...]:
    """Several goals after one another."""
    steps: tuple[State, ...] = ()
    for goal in goals:
        part = shortest_path(now, goal, effect_shown)
        steps, now = steps + part, goal
    return steps
