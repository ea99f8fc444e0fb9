"""Writes docs/reference/metrics.md from the tables of `readback.telemetry.metrics`.

`python scripts/metrics_page.py --write` writes the page, `--check` fails where the page differs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from readback.telemetry.metrics import (
    ALL_SERIES,
    BY_CONTRACT,
    BY_SOURCE,
    COUNTS,
    METRICS,
    OLDEST,
    PENDING,
    PREFIX,
    VERSION_AGE,
    VERSIONS,
)
from readback.telemetry.prometheus_files import WINDOW

PAGE: Final = Path(__file__).parent.parent / "docs" / "reference" / "metrics.md"
HEAD: Final = """# Metrics

At the end of this page the definition of each metric and each exported series is known.

The series come from the ledger's entries alone. `readback metrics` prints the series, and `readback worker
--metrics-port` serves the series. [Watch Readback with Prometheus](../how-to/prometheus.md) has the first steps.
This page is made by `scripts/metrics_page.py`.

## The nineteen metrics

Each ratio is a recording rule over two counters. The rule keeps the labels `ledger` and `contract`. `readback
metrics --json` has the same metrics over the whole ledger.
"""
LABELS: Final = """## Labels

| label | meaning |
|---|---|
| `ledger` | the beginning of the log's name, on each series |
| `contract`, `kind`, `side_effect` | the group of an action, on each series of contracts |
| `tenant` | with `--tenant-label` only |
| constant labels | by `--label NAME=VALUE` |

No label holds an action id, a target, a principal, a run or an operation. Groups beyond 2,000 and names beyond 200
in a group share the value `_other`.
"""
NOT_COUNTED: Final = """## What is not counted

- A repeated request with a known key makes no entry. The request receives the first result, and no metric counts
  the request.

- A text of an agent is no entry. `readback report` checks such a text. A false statement there does not raise
  `readback_false_success_total`.

- An entry without a position in the log is not counted yet. A PostgreSQL ledger assigns positions within moments.
"""


def page() -> str:
    """Return the page."""
    lines = [HEAD]
    for one in METRICS:
        lines.append(f"### {one.title}\n\n{one.text}\n")
        lines.append(f"- Formula of the specification: {_code(one.formula)}\n")
        if one.id in COUNTS:
            lines.append(f"- Numerator: `{PREFIX}{one.over}`\n\n- Denominator: `{PREFIX}{one.under}`\n")
        alert = f"[{one.alert}](../runbooks.md#{one.alert.lower()})"
        lines.append(f"- Recording rule: `{one.rule}`, over {WINDOW}\n\n- Alert: {alert}\n")
    lines.append("## Series of contracts\n\n" + _table([*BY_CONTRACT, PENDING, OLDEST, VERSIONS, VERSION_AGE]))
    lines.append("## Series of systems of record\n\n" + _table([*BY_SOURCE]))
    rest = [one for one in ALL_SERIES if one not in BY_CONTRACT and one not in BY_SOURCE]
    lines.append("## Series of the ledger\n\n" + _table([one for one in rest if one.name.startswith("ledger_")]))
    return "\n".join([*lines, LABELS, NOT_COUNTED]).rstrip() + "\n"


def _code(formula: str) -> str:
    return formula if " " in formula and "/" not in formula else f"`{formula}`"


def _table(series: list[object]) -> str:
    rows = ["| series | type | further labels | meaning |", "|---|---|---|---|"]
    for one in series:
        labels = ", ".join(f"`{label}`" for label in one.labels)  # type: ignore[attr-defined]
        rows.append(f"| `{PREFIX}{one.name}` | {one.kind} | {labels} | {one.text} |")  # type: ignore[attr-defined]
    return "\n".join(rows) + "\n"


def main(arguments: list[str]) -> int:
    """Write or check the page."""
    if arguments == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") == page():
        return 0
    print("docs/reference/metrics.md differs. Run: python scripts/metrics_page.py --write", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
