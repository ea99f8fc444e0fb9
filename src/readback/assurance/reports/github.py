"""The result for GitHub: a job summary in Markdown, and workflow commands that annotate contract files.

The summary has a table of gates, the matrix of recorded and candidate verdicts, and the worst findings.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from readback.assurance.results import Finding, GateResult, GatesReport, Standing

WORST_MAX: Final = 10
ANNOTATIONS_MAX: Final = 50
_COMMAND: Final = {Standing.FAILED: "error", Standing.ERROR: "error", Standing.UNDETERMINED: "warning"}
_RANK: Final = {Standing.ERROR: 0, Standing.FAILED: 1, Standing.UNDETERMINED: 2, Standing.PASSED: 3}
_ARROW: Final = " -> "


def summary(report: GatesReport) -> str:
    """Return the job summary as Markdown."""
    lines = [f"## Release gates: {report.standing.value}", ""]
    lines += ["| gate | result | findings |", "|---|---|---|"]
    for gate in report.gates:
        open_ = sum(each.standing is not Standing.PASSED for each in gate.findings)
        lines.append(f"| {gate.gate} | {gate.standing.value} | {open_} of {len(gate.findings)} open |")
    for gate in report.gates:
        lines += _matrix(gate)
    findings = sorted(_open(report), key=_severity)
    if findings:
        lines += ["", f"### Worst findings ({min(len(findings), WORST_MAX)} of {len(findings)})", ""]
        lines += [_line(each) for each in findings[:WORST_MAX]]
    hashed = [f"- `{name}` `{digest[:16]}`" for name, digest in report.contracts.items()]
    lines += [
        "",
        "### Examined",
        "",
        f"- package `{report.package}`",
        f"- recovery table `{report.table[:16]}`",
        *hashed,
    ]
    return "\n".join(lines) + "\n"


def _open(report: GatesReport) -> list[Finding]:
    return [each for gate in report.gates for each in gate.findings if each.standing is not Standing.PASSED]


def _severity(finding: Finding) -> tuple[int, bool, int]:
    return _RANK[finding.standing], finding.code != "replay.changed-to-verified", -len(finding.actions)


def _matrix(gate: GateResult) -> list[str]:
    pairs = {tuple(name.split(_ARROW)): many for name, many in gate.counts.items() if _ARROW in name}
    if not pairs:
        return []
    rows = sorted({pair[0] for pair in pairs})
    columns = sorted({pair[1] for pair in pairs})
    lines = ["", f"### Verdicts, recorded by candidate ({gate.gate})", ""]
    lines += [f"| recorded \\ candidate | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for row in rows:
        cells = [str(pairs.get((row, column), 0)) for column in columns]
        cells = [
            f"**{cell}**" if column != row and cell != "0" else cell
            for cell, column in zip(cells, columns, strict=True)
        ]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return lines


def _line(finding: Finding) -> str:
    at = finding.place
    where = "" if at is None else f" ({_plain(at.path)}:{at.line}:{at.column})"
    named = f"`{finding.contract}` " if finding.contract else ""
    return f"- **{finding.standing.value}** {named}{_plain(finding.message)}{where}"


def _plain(text: str) -> str:
    """Return text without Markdown or HTML of its own: outside values must not format the summary."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{each}" if each in "`*_[]|#" else " " if each in "\r\n" else each for each in escaped)


def workflow_commands(report: GatesReport) -> Iterator[str]:
    """Yield workflow commands for open findings with a place, the worst first."""
    for finding in sorted(_open(report), key=_severity)[:ANNOTATIONS_MAX]:
        at = finding.place
        place = "" if at is None else f"file={_property(_relative(at.path))},line={at.line},col={at.column},"
        title = _property(f"{finding.gate}: {finding.code}")
        yield f"::{_COMMAND[finding.standing]} {place}title={title}::{_data(finding.message)}"


def _relative(path: str) -> str:
    place, base = Path(path).absolute(), Path.cwd()
    return place.relative_to(base).as_posix() if place.is_relative_to(base) else path


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
