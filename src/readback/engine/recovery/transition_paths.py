"""The path between two states, by what was learned: a table over the transitions.

Called by the engine for each recorded judgement. Chooses among legal transitions only.
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
    """The states to pass from `now`, `goal` last; empty if already there.

    `effect_shown`: a reading shows an effect, so a failed reconciliation follows COMMITTED. Otherwise it follows
    UNKNOWN, since no commit was seen.
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
    """The path through several goals in turn."""
    steps: tuple[State, ...] = ()
    for goal in goals:
        part = shortest_path(now, goal, effect_shown)
        steps, now = steps + part, goal
    return steps
