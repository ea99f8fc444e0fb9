"""Spans after kill -9 of a real process at every durable step equal the spans of an undisturbed run."""

from __future__ import annotations

from pathlib import Path

import pytest

from readback.stores.sqlite import open_sqlite_store
from readback.telemetry.spans import Span
from tests.crash.nursery import Nursery
from tests.crash.test_every_step import Story, points_of
from tests.telemetry.chains import chain, check_each, check_links, check_same, spans_in


def spans_of_story(story: Story) -> list[Span]:
    store = open_sqlite_store(story.folder / "ledger.db")
    try:
        spans = spans_in(store)
        assert spans == spans_in(store, piece=1), "a second projector gives other spans"
        return spans
    finally:
        store.close()


@pytest.mark.requirement("SPAN-crash", "SPAN-deterministic")
@pytest.mark.parametrize("scenario", ["create", "spoil"])
def test_the_chain_of_a_killed_process_equals_the_chain_of_an_undisturbed_one(
    nursery: Nursery, stories: Path, scenario: str
) -> None:
    total = points_of(nursery, stories, scenario)
    calm = Story(nursery, stories, scenario)
    assert not calm.go("run").killed
    calm.finish("resume")
    expected = chain(spans_of_story(calm), scenario)
    calm.close()
    for kill_at in range(1, total + 1):
        story = Story(nursery, stories, scenario)
        assert story.go("run", kill_at).killed
        story.finish("run+resume")
        spans = spans_of_story(story)
        check_each(spans)
        check_links(spans)
        check_same(chain(spans, scenario), expected)
        story.close()
