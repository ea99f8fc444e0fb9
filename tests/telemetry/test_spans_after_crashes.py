"""The chain after a crash equals the chain without one: the spans follow from the entries, and the entries survive."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from readback.domain.tracing import names
from readback.telemetry.spans import Span, Stretch
from readback.testing.driver_virtual import ProcessDied
from tests.lifecycle.house import House
from tests.lifecycle.scenes import SCENES, Scene
from tests.lifecycle.trip import Trip
from tests.telemetry.chains import chain, check_each, check_links, check_same, spans_in
from tests.telemetry.test_spans import CALLER, called

DAYS = 40 * 86_400.0
by_name: dict[str, Any] = {"ids": lambda scene: scene.name}


def finished(house: House, scene: Scene, step: int | None) -> tuple[list[Span], bool]:
    """All spans of a scene, where its process dies before a step, and the next process finishes."""
    made = scene.set_up(house)
    house.driver.vanish_at = step
    died = False
    try:
        house.run(made)
    except ProcessDied:
        died = True
        house.die()
        house.run(made)
    house.work(DAYS)
    return spans_in(house.store), died


@pytest.mark.requirement("SPAN-crash")
@pytest.mark.parametrize("scene", SCENES, **by_name)
@pytest.mark.slow
def test_the_chain_after_a_death_at_any_step_equals_the_chain_without_it(scene: Scene) -> None:
    undisturbed, died = finished(House(scope=called()), scene, None)
    assert not died
    expected = chain(undisturbed, "ship")
    interrupted = 0
    for step in range(400):
        house = House(scope=called())
        spans, died = finished(house, scene, step)
        if not died:
            break
        check_each(spans)
        check_links(spans, [CALLER])
        found = chain(spans, "ship")
        cut = [span for span in spans if span.attributes.get(names.INTERRUPTED)]
        interrupted += bool(cut)
        check_same(found, expected)
    else:
        raise AssertionError("it never came to an end")
    if scene.calls:
        assert interrupted, "no death cut a span short"


@pytest.mark.requirement("SPAN-crash", "SPAN-stretches")
def test_an_execution_without_an_answer_ends_when_the_next_process_takes_over_and_says_so() -> None:
    for step in range(40):
        house = House(scope=called())
        house.driver.vanish_at = step
        with contextlib.suppress(ProcessDied):
            house.run(house.action(find=True))
        if house.shop.calls:
            break
    house.die()
    house.work(DAYS)
    spans = spans_in(house.store)
    (execution,) = [s for s in spans if s.name == "execute_tool ship" and s.attributes.get(names.INTERRUPTED)]
    assert execution.attributes[names.OBSERVATION] == "none"
    assert execution.error == ""
    mine = [span for span in spans if span.attributes[names.ACTION_ID] == execution.attributes[names.ACTION_ID]]
    first, second = [span for span in mine if span.root][:2]
    assert first.attributes[names.INTERRUPTED] is True
    assert (first.attributes[names.STRETCH], second.attributes[names.STRETCH]) == (Stretch.CALL, Stretch.RESUME)
    assert first.end_us <= second.start_us


@pytest.mark.requirement("SPAN-crash", "SPAN-sagas")
@pytest.mark.slow
def test_a_saga_that_loses_its_process_at_any_step_keeps_a_span_for_each_step() -> None:
    expected: set[object] | None = None
    for step in (None, *range(0, 120, 7)):
        trip = Trip(scope=called(), keyed=True)
        trip.driver.vanish_at = step
        try:
            trip.run()
        except ProcessDied:
            trip.die()
            trip.run()
        spans = spans_in(trip.store)
        check_each(spans)
        check_links(spans, [CALLER])
        steps = {span.attributes[names.SAGA_STEP] for span in spans if names.SAGA_STEP in span.attributes}
        expected = steps if expected is None else expected
        assert steps == expected
