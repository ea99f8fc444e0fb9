"""One operation is dispatched once in every world, unless its key was released for a reason or the tool honours it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readback.domain.action.key_release import KeyRelease
from readback.domain.outcome.outcome import Outcome
from readback.engine import coordinator
from readback.engine.compiled_contract import CallerContext
from readback.engine.resume import fold
from readback.testing.driver_virtual import Parked, ProcessDied
from readback.testing.world_answers import Answer
from readback.testing.world_effects import Landing
from tests.truth.cells import GROUPS, possible
from tests.truth.stage import ARGUMENTS, ENGINE, ON, PATHS, PRINCIPAL, TENANT, Cell, Played, definition, play

AGAIN: Final = 3
"""How often the same operation is asked for after it has come to its end."""


@st.composite
def worlds(draw: st.DrawFn) -> Cell:
    group = draw(st.sampled_from(GROUPS))
    offers = replace(
        group.offers,
        proven=draw(st.booleans()),
        honours_key=draw(st.booleans()) if group.offers.lookup else group.offers.honours_key,
    )
    landing, answer = draw(st.sampled_from(Landing)), draw(st.sampled_from(Answer))
    cell = Cell(group.kind, group.side_effect, landing, answer, draw(st.sampled_from(PATHS)), offers)
    return cell if possible(landing, answer, offers) else replace(cell, answer=Answer.OK, landing=Landing.ONCE)


def _ask_again(played: Played) -> None:
    """The same operation, proposed anew and driven to its end."""
    made = definition(played.scene.cell.shape)
    proposal = made(**ARGUMENTS)
    proposal.mark_run()
    scope, ticket = CallerContext(TENANT, PRINCIPAL, break_glass="a drill"), coordinator.ActionHandle()
    ON.append(played.scene)
    try:
        work = coordinator.begin(ENGINE, proposal.request("ship it"), scope, played.plans.get, ticket)
        try:
            told = played.driver.drive(work)
        except ProcessDied:
            return
        assert isinstance(told, Outcome | Parked)
    finally:
        ON.pop()


def _dispatches_are_allowed(played: Played) -> None:
    offers = played.scene.cell.offers
    actions = [fold(played.store.events(one.projection.action_id)) for one in played.store.projections()]
    attempted = [one for one in actions if one is not None and one.attempts and not one.context.get("reverses")]
    attempted.sort(key=lambda one: one.created_us)
    calls = len(played.scene.calls)
    assert calls <= sum(one.attempts for one in attempted), "a dispatch that is in no ledger"
    for one in attempted:
        assert one.attempts == 1 or offers.honours_key, "dispatched again, and the tool honours no key"
    for earlier in attempted[:-1]:
        assert earlier.release not in (None, KeyRelease.NONE), "its key was given away, and nothing says why"
    if not offers.honours_key and all(one.release is not KeyRelease.SEARCHED for one in attempted[:-1]):
        left = [one for one in attempted if one.release is not KeyRelease.NEVER_LEFT]
        assert len(left) <= 1, "it may have had two effects"


@pytest.mark.requirement("KEY-three-reasons", "HS-06", "PRINCIPLE-idempotency")
@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(worlds())
def test_one_operation_is_dispatched_once_in_every_world(cell: Cell) -> None:
    played = play(cell)
    for _ in range(AGAIN):
        played.to_the_end()
        _ask_again(played)
    _dispatches_are_allowed(played)
