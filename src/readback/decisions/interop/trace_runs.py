"""Imports a run folder of a reasoning agent: the run's own report beside the results of our checks.

Used by `readback import trace`. The run's own report is evidence. The checks are those of `readback trace verify`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from readback.canon import Json, sha256_hex
from readback.decisions.contracts.document import Finding
from readback.decisions.interop.imported import Imported, Statement, backed, refuse_any
from readback.decisions.interop.run_folder import RunFolder
from readback.traces import DEFAULT_POLICY, ArtifactError, TraceError, verify_trace
from readback.traces.artifacts import ArtifactTrouble
from readback.traces.format.fault import PLAN_MAX_BYTES, RUN_FILE_MAX_BYTES, TRACE_MAX_BYTES
from readback.traces.format.strict_json import strict_json

TRACE, PLAN, REPORT = "trace.jsonl", "plan.json", "verify.json"
_KEYS: Final = ("checks", "failures")


def import_trace(folder: Path) -> Imported:
    """Import a run folder. Raises ForeignFileError without a trace or a plan, or for a malformed report."""
    try:
        with RunFolder(folder) as run:
            trace, plan = run.read(TRACE, TRACE_MAX_BYTES), run.read(PLAN, PLAN_MAX_BYTES)
            report = verify_trace(trace, plan, run, DEFAULT_POLICY)
            own = _own_report(run)
    except TraceError as error:
        refuse_any([Finding("", error.message)], "run folder of a trace", str(folder))
        raise AssertionError("refused above") from error
    failures = own.get("failures", []) if own is not None else []
    said = "no report" if own is None else "failed" if failures else "passed"
    evidence: dict[str, Json] = {"checks": own.get("checks", [])} if own is not None else {}
    facts: dict[str, Json] = {
        "passed": report.passed,
        "failures": report.failures_total,
        "checks_failed": [check.name for check in report.checks if not check.passed],
    }
    notes = () if report.passed else ("Our checks of the trace failed: `readback trace verify` names each place.",)
    statement = Statement("the run's own report", said, evidence, backed(evidence, passing=said == "passed"))
    return Imported("trace", sha256_hex(trace), (statement,), facts, sound=report.passed, notes=notes)


def _own_report(run: RunFolder) -> dict[str, Json] | None:
    try:
        content = run.read(REPORT, RUN_FILE_MAX_BYTES)
    except ArtifactError as error:
        if error.trouble is ArtifactTrouble.MISSING:
            return None
        raise  # it is there, whatever it says
    found = strict_json(content, REPORT, bytes_max=RUN_FILE_MAX_BYTES)
    if not isinstance(found, dict) or not all(isinstance(found.get(key), list) for key in _KEYS):
        refuse_any([Finding("", "The run has no lists of checks and failures.")], "report of a run", REPORT)
    assert isinstance(found, dict)
    return found
