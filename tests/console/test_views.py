"""Plain data behind the pages: differences, spans of time, places in a graph, and the ids of a moment."""

from __future__ import annotations

from typing import Any

import pytest

from readback.adapters.runtime_system import SystemRuntime
from readback.canon import Json
from readback.domain.saga.outcome import StepOutcome, StepWord
from readback.server.console.listing import id_at
from readback.server.console.rendering import PageFacts, block, is_zone
from readback.views.fields import FIELDS_MAX, side_by_side
from readback.views.saga_graph import _columns
from readback.views.text import safe
from readback.views.timeline import ENTRIES_MAX, timeline_of


def states(**given: Json) -> dict[str, Json]:
    return {name: given.get(name) for name in ("intended", "requested", "observed", "before", "authoritative")}


def differing(**given: Json) -> list[str]:
    return [row.field for row in side_by_side(states(**given)).rows if row.differs]


@pytest.mark.requirement("CONSOLE-action")
def test_values_are_compared_whole_and_not_as_they_are_cut() -> None:
    long = "x" * 500
    assert differing(intended={"note": f"{long}a"}, authoritative={"note": f"{long}b"}) == ["note"]
    assert differing(intended={"note": long}, authoritative={"note": long}) == []
    assert differing(intended={"count": 7}, authoritative={"count": "7"}) == ["count"]


@pytest.mark.requirement("CONSOLE-action")
def test_an_intended_field_that_is_missing_differs_and_a_requested_one_does_not() -> None:
    assert differing(intended={"status": "paid"}, authoritative={"id": "1"}) == ["status"]
    assert differing(requested={"order": "1", "status": "paid"}, authoritative={"id": "1", "status": "open"}) == [
        "status"
    ]
    assert differing(intended={"status": "paid"}) == []


def test_more_fields_than_a_page_holds_are_counted() -> None:
    found = side_by_side(states(authoritative={f"f{n}": n for n in range(FIELDS_MAX + 7)}))
    assert (len(found.rows), found.left_out) == (FIELDS_MAX, 7)


@pytest.mark.requirement("CONSOLE-saga")
def test_a_step_stands_behind_its_longest_chain_of_prerequisites() -> None:
    after = {"a": (), "b": ("a",), "c": ("a", "b"), "d": ("missing",)}
    assert _columns(after) == {"a": 0, "b": 1, "c": 2, "d": 0}


@pytest.mark.requirement("CONSOLE-saga")
def test_a_damaged_saga_with_a_cycle_is_drawn_all_the_same() -> None:
    assert set(_columns({"a": ("b",), "b": ("a",)})) == {"a", "b"}
    assert StepOutcome("a", StepWord.FAILED, "c", "compensatable").state is None


def event(version: int, kind: str, at_us: int, **data: Any) -> dict[str, Any]:
    return {"version": version, "seq": version, "kind": kind, "at_us": at_us, "path": [], "leaf": "", "data": data}


@pytest.mark.requirement("CONSOLE-action")
def test_calls_readings_and_waits_are_spans_of_time() -> None:
    found = timeline_of(
        [
            event(1, "attempted", 10, attempt=1, timeout=100),
            event(2, "observed", 30, ended=25, status="success"),
            event(3, "judged", 40, due=90, verdict="undetermined", why="propagating", row="REC-01", recovery="retry"),
            event(4, "signalled", 95),
            event(5, "attempted", 100, attempt=2, timeout=100),
            event(6, "resumed", 180),
        ]
    )
    assert [(each.kind, each.from_us, each.until_us) for each in found.bars] == [
        ("call", 10, 25),
        ("wait", 40, 95),
        ("call", 100, 180),
    ]
    assert "no answer" in found.bars[-1].label
    assert (found.from_us, found.until_us) == (10, 180)


def test_a_long_timeline_keeps_both_ends_and_counts_the_middle() -> None:
    found = timeline_of([event(n, "signalled", n) for n in range(1, ENTRIES_MAX + 51)])
    assert (found.left_out, found.entries[0].version, found.entries[-1].version) == (50, 1, ENTRIES_MAX + 50)


@pytest.mark.requirement("CONSOLE-list")
def test_the_ids_of_a_moment_begin_at_the_lowest() -> None:
    runtime = SystemRuntime()
    before = runtime.now_us()
    made = runtime.new_id()
    assert id_at(before - 1_000) < made < id_at(runtime.now_us() + 1_000)
    assert len(id_at(0)) == len(made)


@pytest.mark.requirement("CONSOLE-inert")
def test_a_block_of_text_is_inert_line_by_line_and_bounded() -> None:
    shown = block("<b>\x1b[31m\n\u202eevil\u2028" + "x" * 10_000)
    assert "&lt;b&gt;\\x1b[31m\n\\u202eevil\\u2028" in shown
    assert "cut: 1" in shown
    assert len(shown) < 6_000
    assert "\\x00" in safe("\x00")


@pytest.mark.requirement("CONSOLE-time-zone")
def test_a_moment_outside_the_calendar_is_shown_as_a_number() -> None:
    assert PageFacts(zone="Europe/Riga").when(10**20) == str(10**20)
    assert PageFacts().when(0) == "-"
    assert [is_zone(name) for name in ("UTC", "Asia/Tokyo", "../etc/passwd", "")] == [True, True, False, False]
