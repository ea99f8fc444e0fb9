"""The page of a run: totals for each program, one table for each pattern, and the configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.hallucinated_success.contenders import CONTENDERS, LEFT_OUT, Contender
from bench.hallucinated_success.tasks import FAILED, PATTERNS, SUCCESS, UNKNOWN
from bench.side_by_side.environments import versions_of
from bench.side_by_side.page import table

BEGINS: Final = "<!-- figures: `python -m bench.hallucinated_success` writes what follows -->"
ENDS: Final = "<!-- figures end -->"
Run = Mapping[str, Any]


@dataclass(frozen=True)
class Totals:
    """The counts of one program."""

    false_successes: int
    false_alarms: int
    doubled: int
    unknown_told: int
    unknown_runs: int
    calls: float
    reads: float
    seconds: float


def is_false_success(run: Run) -> bool:
    """Success was told, and the task was not done when told, or not for good."""
    return bool(run["told"] == SUCCESS and not (run["done_when_told"] and run["done"]))


def is_false_alarm(run: Run) -> bool:
    """An honest run without a success told, or a failure told of a task that is done."""
    return bool((run["honest"] and run["told"] != SUCCESS) or (run["told"] == FAILED and run["done"]))


def totals(runs: Sequence[Run]) -> Totals:
    """Count one program's runs."""
    dark = [run for run in runs if not run["knowable"]]
    many = len(runs)
    return Totals(
        sum(map(is_false_success, runs)),
        sum(map(is_false_alarm, runs)),
        sum(run["doubled"] for run in runs),
        sum(run["told"] == UNKNOWN for run in dark),
        len(dark),
        sum(run["calls"] for run in runs) / many,
        sum(run["reads"] for run in runs) / many,
        sum(run["seconds"] for run in runs) / many,
    )


def tables(found: Mapping[str, Sequence[Run]]) -> str:
    """Return the figures as Markdown. `found`: the runs by the program's name."""
    shown = [each for each in CONTENDERS if each.name in found]
    faults = sum(1 for each in PATTERNS if not each.honest)
    parts = [
        f"Each program runs {len(PATTERNS)} tasks: {faults} with a fault, {len(PATTERNS) - faults} honest.",
        "## Totals",
        table(
            ("program", "false successes", "false alarms", "own duplicates", "unknown told as such",
             "calls a task", "readings a task", "seconds a task"),
            [_row(each, totals(found[each.name])) for each in shown],
        ),
        "## By pattern",
        table(("run", *(each.title for each in shown)), [_pattern(run, shown, found) for run in _names(found)]),
        "`ok`: as it is. **FS**: false success. **FA**: false alarm. **2x**: a duplicate. `unknown`: told as unknown.",
        "## Programs",
        table(("program", "configuration", "versions"), [_terms(each) for each in shown]),
        "Not run:",
        "\n\n".join(f"- {name}: {why}." for name, why in LEFT_OUT),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _names(found: Mapping[str, Sequence[Run]]) -> list[str]:
    return [run["run"] for run in next(iter(found.values()))]


def _row(contender: Contender, each: Totals) -> tuple[str, ...]:
    return (
        contender.title,
        str(each.false_successes),
        str(each.false_alarms),
        str(each.doubled),
        f"{each.unknown_told} of {each.unknown_runs}",
        f"{each.calls:.2f}",
        f"{each.reads:.1f}",
        f"{each.seconds:.2f}",
    )


def _pattern(name: str, shown: Sequence[Contender], found: Mapping[str, Sequence[Run]]) -> list[str]:
    title = next(each.title for each in PATTERNS if each.name == name)
    label = f"{name[:5]} {title}: {name[6:]}"
    return [label, *(_sign(next(run for run in found[each.name] if run["run"] == name)) for each in shown)]


def _sign(run: Run) -> str:
    marks = ["**FS**"] if is_false_success(run) else ["**FA**"] if is_false_alarm(run) else []
    marks += ["**2x**"] if run["doubled"] else []
    return " ".join(marks) or ("unknown" if run["told"] == UNKNOWN else "ok")


def _terms(each: Contender) -> tuple[str, ...]:
    versions = versions_of(each.environment) if each.environment or each.name == "readback_contract" else {}
    said = ", ".join(f"{name} {number}" for name, number in versions.items())
    return each.title, f"{each.configured}: `programs/{each.name}.py`", said or "standard library"


def keep(page: Path, text: str) -> None:
    """Write the figures between the page's marks."""
    before, begins, rest = page.read_text(encoding="utf-8").partition(BEGINS)
    _, ends, after = rest.partition(ENDS)
    if not begins or not ends:
        raise ValueError(f"{page} has no marks for the figures.")
    page.write_text(f"{before}{BEGINS}\n\n{text}\n{ENDS}{after}", encoding="utf-8")
