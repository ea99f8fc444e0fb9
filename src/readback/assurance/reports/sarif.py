"""The result as SARIF 2.1.0: a rule for each gate, and a result at the contract's file, line and column.

Code scanning shows these results beside the changed line. Only failed, undetermined and acknowledged findings appear.
"""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Final
from urllib.parse import quote

from readback.assurance.results import GATES, Finding, GatesReport, Standing
from readback.canon import Json, json_text, sha256_hex

VERSION: Final = "2.1.0"
SCHEMA_URI: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
RULES: Final = {
    "trace-replay": "Recorded actions keep their verdict, class, row and state.",
    "predicate-diff": "Changed predicates, windows, identities and rows are reviewed.",
    "canary": "The candidate agrees with the incumbent on live evidence.",
    "failure-injection": "Injected faults end in the specified class and words.",
    "recovery-drill": "Each recovery runs and is verified on a sandbox.",
    "ledger-schema": "Old and new ledgers open, verify and replay.",
    "false-success": "Completion is told after reconciliation only.",
    "unknown-state": "An unknown result blocks the second mutation.",
}
_LEVEL: Final = {
    Standing.FAILED: "error",
    Standing.ERROR: "error",
    Standing.UNDETERMINED: "warning",
    Standing.PASSED: "note",
}


def sarif_json(report: GatesReport, root: str = "") -> bytes:
    """Return the SARIF log. `root`: the folder that paths are relative to; "" for the working folder."""
    rules: list[Json] = [
        {"id": gate, "shortDescription": {"text": RULES[gate]}, "defaultConfiguration": {"level": "error"}}
        for gate in GATES
    ]
    base = Path(root) if root else Path.cwd()
    results: list[Json] = [
        _result(report, finding, base)
        for gate in report.gates
        for finding in gate.findings
        if finding.standing is not Standing.PASSED or finding.detail.get("reason")
    ]
    driver: dict[str, Json] = {"name": "readback gates", "semanticVersion": report.package, "rules": rules}
    run: dict[str, Json] = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": report.standing is not Standing.ERROR}],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    log: dict[str, Json] = {"$schema": SCHEMA_URI, "version": VERSION, "runs": [run]}
    return json_text(log, indent=2, ensure_ascii=False).encode() + b"\n"


def _result(report: GatesReport, finding: Finding, base: Path) -> dict[str, Json]:
    digest = report.contracts.get(finding.contract, report.table)
    print_ = sha256_hex("\n".join((digest, finding.gate, finding.code, finding.case)).encode())
    location: dict[str, Json] = {}
    if finding.place is not None:
        region: dict[str, Json] = {"startLine": finding.place.line, "startColumn": finding.place.column}
        artifact: dict[str, Json] = {"uri": _uri(finding.place.path, base)}
        location["physicalLocation"] = {"artifactLocation": artifact, "region": region}
    if finding.contract:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.contract, "kind": "module"}]
    return {
        "ruleId": finding.gate,
        "ruleIndex": GATES.index(finding.gate),
        "level": _LEVEL[finding.standing],
        "message": {"text": finding.message},
        "locations": [location] if location else [],
        "partialFingerprints": {"readbackFinding/v1": print_},
        "properties": {"code": finding.code, "case": finding.case, "standing": finding.standing.value},
    }


def _uri(path: str, base: Path) -> str:
    """Return a relative reference where the file is below the base, else an absolute one."""
    place = Path(path).absolute()
    if place.is_relative_to(base.absolute()):
        return quote(PurePath(place.relative_to(base.absolute())).as_posix())
    return place.as_uri()
