"""The result as JUnit XML: a suite for each gate, and a case for each finding.

An undetermined finding is `skipped` with its reason. The exit code of the command still is 3, so a green test report
never hides an undetermined gate.
"""

from __future__ import annotations

import re
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

from readback.assurance.results import Finding, GateResult, GatesReport, Standing

_INVALID: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CHILD: Final = {Standing.FAILED: "failure", Standing.ERROR: "error", Standing.UNDETERMINED: "skipped"}


def junit_xml(report: GatesReport) -> bytes:
    """Return the XML document."""
    every = [finding for gate in report.gates for finding in gate.findings]
    root = Element("testsuites", {"name": "readback gates", **_totals(every)})
    for gate in report.gates:
        _suite(root, gate)
    written: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _totals(findings: list[Finding] | tuple[Finding, ...]) -> dict[str, str]:
    counted = {
        name: sum(finding.standing is standing for finding in findings)
        for name, standing in (
            ("failures", Standing.FAILED),
            ("errors", Standing.ERROR),
            ("skipped", Standing.UNDETERMINED),
        )
    }
    return {"tests": str(len(findings)), **{name: str(many) for name, many in counted.items()}}


def _suite(root: Element, gate: GateResult) -> None:
    suite = SubElement(root, "testsuite", {"name": gate.gate, **_totals(gate.findings)})
    listed = SubElement(suite, "properties")
    for name, value in gate.counts.items():
        SubElement(listed, "property", {"name": _clean(name), "value": str(value)})
    for finding in gate.findings:
        named = " ".join(part for part in (finding.contract, finding.case) if part) or finding.code
        case = SubElement(suite, "testcase", {"classname": f"readback.gates.{gate.gate}", "name": _clean(named)})
        if finding.place is not None:
            case.set("file", _clean(finding.place.path))
            case.set("line", str(finding.place.line))
        child = _CHILD.get(finding.standing)
        if child is not None:
            said = SubElement(case, child, {"message": _clean(finding.message), "type": finding.code})
            said.text = _clean("\n".join(finding.actions[:100])) or None


def _clean(text: str) -> str:
    """Replace characters that XML cannot hold."""
    return _INVALID.sub("\N{REPLACEMENT CHARACTER}", text)
