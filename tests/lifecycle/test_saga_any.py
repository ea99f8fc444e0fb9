"""Any saga in any world: random graphs, faults, deaths and cancellations; what has to hold holds in the end."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from readback.client.step import SagaStep
from readback.domain.saga.outcome import StepWord
from readback.domain.state import State
from readback.errors import StoreError
from readback.testing.driver_virtual import ProcessDied
from tests.lifecycle.trip import AFTER, DAY, S, Trip

FAULTS = ("", "", "", "refused", "lost", "vanished", "wrong", "late", "once")
UNDO_FAULTS = ("", "", "", "lost", "lies", "refused", "vanished", "late", "once", "partly", "forestalled")


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    names = [f"s{n}" for n in range(draw(st.integers(2, 5)))]
    pivot = draw(st.sampled_from([None, *names]))
    after = {n: sorted(draw(st.sets(st.sampled_from(names[:i]), max_size=2))) if i else [] for i, n in enumerate(names)}
    return {
        "names": names,
        "pivot": pivot,
        "after": after,
        "faults": {name: draw(st.sampled_from(FAULTS)) for name in names},
        "undo": {name: draw(st.sampled_from(UNDO_FAULTS)) for name in names},
        "dies": draw(st.lists(st.integers(3, 90), max_size=3)),
        "stops": draw(st.sampled_from([None, None, 1, 12, 100])),
    }


def _steps(trip: Trip, plan: dict[str, Any]) -> list[SagaStep]:
    made = []
    for name in plan["names"]:
        proposal = trip.load(name, undo=AFTER, **AFTER)(trip="t-1", price=len(made))
        made.append(proposal.as_step(name, after=plan["after"][name], pivot=name == plan["pivot"]))
    return made


@pytest.mark.requirement("SAGA-processes", "SAGA-effect-shown", "SAGA-words")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans())
@pytest.mark.slow
def test_whatever_happens_nothing_is_left_that_is_not_told(plan: dict[str, Any]) -> None:
    trip = Trip()
    trip.world.faults.update({name: fault for name, fault in plan["faults"].items() if fault})
    trip.world.undo_faults.update({name: fault for name, fault in plan["undo"].items() if fault})
    dies = list(plan["dies"])
    trip.driver.vanish_at = dies.pop(0) if dies else None
    with suppress(ProcessDied, StoreError):
        trip.driver.drive(trip.begin(_steps(trip, plan)), trip.runtime.now_us() + 5 * S)
    _live(trip, dies, plan["stops"])
    if not trip.saga_ids():
        return
    told = trip.get(trip.saga_ids()[0])
    trip.check()
    there = {name for name, _ in trip.world.rows}
    words = {name: step.word for name, step in told.steps.items()}
    assert told.state in (State.RECONCILED_SUCCESS, State.FAILED, State.COMPENSATED, State.REVIEW_REQUIRED)
    for name, word in words.items():
        if word in (StepWord.COMPLETED, StepWord.NOT_REVERSED):
            assert name in there or word is StepWord.NOT_REVERSED, (name, word)
        if word in (StepWord.REVERSED, StepWord.FAILED, StepWord.NOT_BEGUN):
            assert name not in there, (name, word)
    if plan["pivot"] in there and told.state is not State.REVIEW_REQUIRED:
        assert told.verified
        assert trip.world.undone == []


def _live(trip: Trip, dies: list[int], stops: float | None) -> None:
    """Workers take it on, and die as they are told to; somebody may want it stopped meanwhile."""
    while True:
        trip.die()
        with suppress(ProcessDied, StoreError):
            if stops is not None and trip.saga_ids():
                trip.work(stops)
                trip.stop(trip.saga_ids()[0])
                stops = None
            trip.work(3 * DAY, vanish_at=dies.pop(0) if dies else None)
            return
