"""The result as a JSON document: written with a hash, and opened again with every field checked.

`readback gates check` writes the document, and `readback gates promote` opens it. The schema is `gates.schema.json` in
this folder, and `readback gates report-schema` prints it.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

from readback.assurance.faults import ResultError
from readback.assurance.results import GATES, SCHEMA, Finding, GateResult, GatesReport, Place, Standing
from readback.canon import Json, ReadbackError, json_text, parse_json, sha256_hex, stored_bytes

FORMAT: Final = "readback/gates-result/1"
RESULT_MAX_BYTES: Final = 268_435_456
_FIELDS: Final = frozenset(
    {"format", "schema", "package", "contracts", "table", "standing", "gates", "inputs", "sha256"}
)


def schema_text() -> str:
    """Return the JSON Schema (2020-12) of the document."""
    return files(__name__.rpartition(".")[0]).joinpath("gates.schema.json").read_text(encoding="utf-8")


def document_of(report: GatesReport, inputs: Mapping[str, Json]) -> dict[str, Json]:
    """Return the document. `inputs`: the names of the examined inputs, for people."""
    whole: dict[str, Json] = {"format": FORMAT, **report.as_json(), "inputs": dict(inputs)}
    return {**whole, "sha256": _hash_of(whole)}


def document_bytes(document: Mapping[str, Json]) -> bytes:
    """Return the document as indented JSON."""
    return json_text(dict(document), indent=2, ensure_ascii=False, sort_keys=True).encode() + b"\n"


def _hash_of(whole: Mapping[str, Json]) -> str:
    rest = {name: value for name, value in whole.items() if name != "sha256"}
    return sha256_hex(stored_bytes(rest, bytes_max=RESULT_MAX_BYTES))


def open_document(data: bytes) -> tuple[GatesReport, str]:
    """Return the results and the document's hash. Raises ResultError for another file, or for an edited one."""
    try:
        whole = parse_json(data, bytes_max=RESULT_MAX_BYTES)
    except ReadbackError as error:
        raise ResultError(f"The file is no result of the gates: {error.message}") from error
    if not isinstance(whole, dict) or whole.get("format") != FORMAT or whole.get("schema") != SCHEMA:
        raise ResultError(f"The file is no result of the form {FORMAT}.", code="gates.result-schema")
    if whole.keys() != _FIELDS or whole["sha256"] != _hash_of(whole):
        raise ResultError("The result does not match its own hash: the file was changed after the run.")
    try:
        report = _report(whole)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ResultError(f"The result has an invalid field: {error}.") from error
    if report.standing.value != whole["standing"]:
        raise ResultError("The result states another standing than its gates.")
    return report, str(whole["sha256"])


def _report(whole: Mapping[str, Any]) -> GatesReport:
    gates = tuple(_gate(each) for each in whole["gates"])
    if len({each.gate for each in gates}) < len(gates):
        raise ValueError("a gate is given twice")
    contracts = {str(name): str(digest) for name, digest in whole["contracts"].items()}
    return GatesReport(SCHEMA, str(whole["package"]), contracts, str(whole["table"]), gates)


def _gate(raw: Mapping[str, Any]) -> GateResult:
    if raw["gate"] not in GATES:
        raise ValueError(f"{raw['gate']!r} is no gate")
    findings = tuple(_finding(each) for each in raw["findings"])
    return GateResult(str(raw["gate"]), Standing(raw["standing"]), findings, dict(raw["counts"]))


def _finding(raw: Mapping[str, Any]) -> Finding:
    at = raw["place"]
    return Finding(
        str(raw["gate"]),
        str(raw["code"]),
        Standing(raw["standing"]),
        str(raw["message"]),
        str(raw["contract"]),
        str(raw["case"]),
        None if at is None else Place(str(at["path"]), int(at["line"]), int(at["column"])),
        tuple(str(each) for each in raw["actions"]),
        dict(raw["detail"]),
    )
