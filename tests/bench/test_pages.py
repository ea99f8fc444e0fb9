"""What a run is kept as: the tables of the page of benchmarks, and the breakdown of the hot path."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import breakdown
from bench.side_by_side.__main__ import PAGE
from bench.side_by_side.contenders import CONTENDERS, RATIOS
from bench.side_by_side.machine import described, fsync_times_us, warning
from bench.side_by_side.page import BEGINS, ENDS, keep, percentile, ratios, tables
from bench.side_by_side.peer import Recovery
from bench.side_by_side.rounds import WIDTHS, Figures, Flight


def figures(rates: dict[str, list[float]]) -> list[Figures]:
    """Of every program, with these rates where they are given."""
    found = []
    for each in CONTENDERS:
        flight = Flight(rates.get(each.name, [10.0, 20.0, 30.0]), [5.0], [7.0], [2.0], [1_000, 2_000])
        found.append(Figures(each, dict.fromkeys(WIDTHS, flight), {"synchronous": 2}, 9, 70.0, 50.0, Recovery(None, 1)))
    return found


@pytest.mark.requirement("BENCH-page")
def test_the_tables_have_every_program_and_every_ratio() -> None:
    found = figures({"readback-sqlite": [100.0, 400.0, 900.0]})
    text = tables(found, {"cores": "2"}, {"fsync": "on"})
    assert all(text.count(f"| {each.title} |") >= 4 for each in CONTENDERS if each.recovers)
    assert "| cores | 2 |" in text
    assert "`fsync = on`" in text
    assert len(ratios(found)) == len(RATIOS)
    ours = next(row for row in ratios(found) if row[0] == "Readback, SQLite, against DBOS, SQLite")
    assert ours[1:] == ("16", "20.0", "at least 30", "1.0"), "the median of 10, 20 and 30 times, at the same CPU"


@pytest.mark.requirement("BENCH-page")
def test_a_ratio_of_who_was_not_measured_is_left_out() -> None:
    assert ratios([each for each in figures({}) if each.contender.name.startswith("dbos")]) == []


@pytest.mark.requirement("BENCH-page")
def test_a_page_keeps_what_stands_round_its_marks_and_is_refused_without_them(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGINS}\nold\n{ENDS}\nafter\n", encoding="utf-8")
    keep(page, "new\n")
    keep(page, "newer\n")
    assert page.read_text(encoding="utf-8") == f"before\n{BEGINS}\n\nnewer\n\n{ENDS}\nafter\n"
    page.write_text("nothing\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no marks"):
        keep(page, "new\n")
    assert page.read_text(encoding="utf-8") == "nothing\n"


@pytest.mark.requirement("BENCH-page")
@pytest.mark.parametrize("page", [PAGE, breakdown.PAGE], ids=lambda page: str(page.name))
def test_the_pages_have_a_place_for_the_figures(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count(BEGINS) == text.count(ENDS) == 1
    assert text.index(BEGINS) < text.index(ENDS)


@pytest.mark.requirement("BENCH-page")
def test_the_machine_is_described_and_not_named(tmp_path: Path) -> None:
    machine = described(tmp_path)
    assert {"cores", "memory", "kernel", "Python", "file system"} <= {*machine}
    middle, late = fsync_times_us(tmp_path)
    assert 0 < middle <= late
    assert not any(str(tmp_path) in value for value in machine.values())


@pytest.mark.requirement("BENCH-page")
def test_figures_of_a_busy_machine_say_so() -> None:
    assert warning(0.0) == ""
    assert "1000.0 processes" in warning(1000.0)
    assert tables(figures({}), {}, {}, warning(1000.0)).startswith("**The machine was busy")


def test_a_percentile_is_one_of_the_times() -> None:
    assert [percentile([4, 1, 3, 2], part) for part in (0.0, 0.5, 0.99, 1.0)] == [1.0, 3.0, 4.0, 4.0]


@pytest.mark.slow
@pytest.mark.requirement("BENCH-breakdown")
def test_the_breakdown_gives_all_time_that_was_seen_to_somebody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A sample comes each 4 ms where the kernel counts so: of a hundred, a quarter of all time is not missed.
    for name, size in {"SEQUENTIAL": 400, "IN_FLIGHT": 400, "WARM": 4, "WIDTH": 8}.items():
        monkeypatch.setattr(breakdown, name, size)
    found = {
        "one": breakdown.sequential(f"sqlite:///{tmp_path / 'one.db'}"),
        "many": breakdown.in_flight(f"sqlite:///{tmp_path / 'many.db'}"),
    }
    for each in found.values():
        assert sum(each.by_module.values()) == sum(each.by_thread.values()) > 0
        assert each.cpu_s > 0
        assert each.wall_s > 0
        assert any(module.startswith("engine/") for module in each.by_module)
    text = breakdown.shown(found, {"cores": "2"})
    assert "| the whole, by the clock |" in text
    assert "### The modules: many" in text
