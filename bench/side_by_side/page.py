"""The tables of a run, and the page that keeps them: what stands between its two marks is written anew."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.side_by_side.contenders import RATIOS
from bench.side_by_side.environments import versions_of
from bench.side_by_side.peer import RECOVERY_S_MAX
from bench.side_by_side.rounds import ROUNDS, WIDTHS, Figures, Flight

BEGINS: Final = "<!-- figures: `make bench` writes what follows -->"
ENDS: Final = "<!-- figures end -->"
NONE: Final = "—"
Row = Sequence[str]


def tables(found: Sequence[Figures], machine: Mapping[str, str], server: Mapping[str, str], warned: str = "") -> str:
    """All of it, as Markdown. `warned`: stands above everything."""
    parts = [
        warned,
        "### The machine",
        table(("", ""), [(name, value) for name, value in machine.items()]),
        "### Actions a second",
        table(("program", *(f"{w} in flight" for w in WIDTHS)), [_rates(each) for each in found]),
        f"The median of {ROUNDS} slices, their lowest and highest behind it.",
        "### Readback beside the others",
        table(("", "in flight", "times its actions a second", "wanted", "its CPU, times ours"), ratios(found)),
        "The median over the rounds of the ratio within a round; the CPU is that of an action, the server's included.",
        "### Added latency, milliseconds",
        table(("program", *(f"{w} in flight: p50, p99" for w in WIDTHS)), [_latencies(each) for each in found]),
        "### What an action costs",
        table(
            (
                "program", "CPU at 1, µs", "CPU at 16, µs", "CPU at 256, µs", "server's CPU at 16, µs", "bytes kept",
                "peak memory, MB", "disk flushes at 1",
            ),
            [_costs(each) for each in found],
        ),
        "### After kill -9",
        table(
            ("program", "settled, s after the new process's start", "calls of the tool", "how"),
            [_recovered(each) for each in found if each.contender.recovers],
        ),
        "### What each promises, and its version",
        table(("program", "durable steps of an action", "asked of its store", "versions"), [_terms(e) for e in found]),
        "PostgreSQL: " + ", ".join(f"`{name} = {value}`" for name, value in server.items()) + "." if server else "",
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"


def ratios(found: Sequence[Figures]) -> list[Row]:
    """Who is held against whom, where both were measured."""
    by_name = {each.contender.name: each for each in found}
    rows: list[Row] = []
    for ours, theirs, width, wanted in RATIOS:
        if ours in by_name and theirs in by_name:
            a, b = by_name[ours], by_name[theirs]
            each = zip(a.flights[width].rates, b.flights[width].rates, strict=True)
            times = statistics.median(x / y for x, y in each)
            what = f"{a.contender.title}, against {b.contender.title}"
            spent = _spent(b.flights[width]) / _spent(a.flights[width])
            rows.append((what, str(width), _times(times), wanted, _times(spent)))
    return rows


def _spent(flight: Flight) -> float:
    """Microseconds of processor time that an action took, everywhere."""
    return _middle(flight.cpu_us) + _middle(flight.server_us)


def _times(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio >= 1 else f"{ratio:.2f}"


def keep(page: Path, text: str) -> None:
    """Puts the tables into the page. Raises ValueError where it has no place for them."""
    before, begins, rest = page.read_text(encoding="utf-8").partition(BEGINS)
    _, ends, after = rest.partition(ENDS)
    if not begins or not ends:
        raise ValueError(f"{page.name} has no marks for the figures")
    page.write_text(f"{before}{BEGINS}\n\n{text}\n{ENDS}{after}", encoding="utf-8")


def percentile(took_us: Sequence[int], part: float) -> float:
    """The smallest that so much of them is not above; NaN of none."""
    ordered = sorted(took_us)
    return float(ordered[min(len(ordered) - 1, int(len(ordered) * part))]) if ordered else float("nan")


def table(head: Row, rows: Sequence[Row]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _rates(each: Figures) -> Row:
    def cell(flight: Flight) -> str:
        if not flight.rates:
            return NONE
        return f"{statistics.median(flight.rates):,.0f} ({min(flight.rates):,.0f} to {max(flight.rates):,.0f})"

    return _row(each, cell)


def _latencies(each: Figures) -> Row:
    def cell(flight: Flight) -> str:
        p50, p99 = percentile(flight.took_us, 0.5) / 1000, percentile(flight.took_us, 0.99) / 1000
        return f"{p50:,.2f}, {p99:,.2f}"

    return _row(each, cell)


def _row(each: Figures, cell: Callable[[Flight], str]) -> Row:
    return (each.contender.title, *(cell(each.flights[width]) for width in WIDTHS))


def _costs(each: Figures) -> Row:
    at = each.flights
    server = f"{_middle(at[16].server_us):,.0f}" if each.contender.store == "postgres" else NONE
    shown = f"{_middle(at[1].flushes):.1f}" if at[1].flushes else NONE
    cpu = (f"{_middle(at[width].cpu_us):,.0f}" for width in WIDTHS)
    return (each.contender.title, *cpu, server, f"{each.bytes_each:,.0f}", f"{each.peak_mb:,.0f}", shown)


def _recovered(each: Figures) -> Row:
    found = each.recovered
    if found is None:
        return (each.contender.title, NONE, NONE, each.contender.promises)
    seconds = f"not within {RECOVERY_S_MAX:.0f}" if found.seconds is None else f"{found.seconds:.2f}"
    return (each.contender.title, seconds, str(found.calls), each.contender.promises)


def _terms(each: Figures) -> Row:
    settings = ", ".join(f"{name} {value}" for name, value in each.settings.items()) or NONE
    versions = versions_of(each.contender.environment)
    return (
        each.contender.title, each.contender.commits, settings,
        ", ".join(f"{name} {number}" for name, number in versions.items()),
    )  # fmt: skip


def _middle(figures: Sequence[float]) -> float:
    return statistics.median(figures) if figures else float("nan")
