"""The files beside plan and trace: specification, run description, recorded report, manifest, fingerprint.

Each file is read once and compared with the others. No file is believed. The producer's own report is bound and
recounted, and its verdict has no influence on ours.
"""

from __future__ import annotations

from typing import Final

from readback.canon import sha256_hex
from readback.traces.artifacts import Artifacts, is_plain_path
from readback.traces.format import shapes
from readback.traces.format.fault import (
    PROVENANCE_MAX_BYTES,
    RUN_FILE_MAX_BYTES,
    TRACE_MAX_BYTES,
    ArtifactError,
    TraceInputError,
)
from readback.traces.format.forms import RECORDED_REPORT, RUN_META, SPEC
from readback.traces.format.report import Findings, Place, shown
from readback.traces.format.shapes import Shape, faults_of
from readback.traces.format.strict_json import Value, canonical, strict_json
from readback.traces.plan import Plan

SPEC_FILE: Final = "spec.json"
META_FILE: Final = "run_meta.json"
REPORT_FILE: Final = "verify.json"
MANIFEST_FILE: Final = "manifest.json"
FINGERPRINT_FILE: Final = "fingerprint.txt"
GIVEN: Final = ("trace.jsonl", "plan.json")
BOUND: Final = (*GIVEN, SPEC_FILE, REPORT_FILE)
"""The required entries of every manifest, beside all files of the folder."""
WRITTEN_LATER: Final = (MANIFEST_FILE, META_FILE, FINGERPRINT_FILE, "verify.verify.json", "replay/trace.jsonl")
"""Files without a binding in the manifest: the format writes them after the manifest."""
_FILE_MAX_BYTES: Final = max(PROVENANCE_MAX_BYTES, TRACE_MAX_BYTES)


def check_files(
    artifacts: Artifacts, header: dict[str, Value], plan: Plan, checksum_of: Value, findings: Findings
) -> None:
    """Check the ids of the files' contents and their common run. `checksum_of` computes the checksum from a runtime."""
    spec = _read(SPEC_FILE, SPEC, "schema.spec", artifacts, findings)
    meta = _read(META_FILE, RUN_META, "schema.run-meta", artifacts, findings)
    recorded = _read(REPORT_FILE, RECORDED_REPORT, "schema.verify", artifacts, findings)
    if spec is not None:
        _spec(spec, header, plan, findings)
    if meta is not None:
        _meta(meta, header, plan, findings)
        _checksums(meta, header, checksum_of(meta["runtime_descriptor"]), findings)
    if recorded is not None:
        _recorded(recorded, header["id"], findings)
    if spec is not None and meta is not None and recorded is not None:
        findings.done("content_ids", "bindings", "policy_source")


def check_fingerprint(trace_sha256: str, artifacts: Artifacts, findings: Findings) -> None:
    """Check `fingerprint.txt`: the hash of the trace's bytes and a line end, nothing else."""
    place = Place(FINGERPRINT_FILE)
    try:
        told = artifacts.read(FINGERPRINT_FILE, RUN_FILE_MAX_BYTES)
    except ArtifactError as error:
        findings.fail("fingerprint.missing", place, f"{error.trouble.value}.")
        return
    if told != f"{trace_sha256}\n".encode():
        findings.fail("fingerprint.differs", place)
    findings.done("fingerprint")


def check_manifest(given: dict[str, str], artifacts: Artifacts, findings: Findings) -> None:
    """Check the manifest: every file bound by its hash, with the given plan and trace."""
    place = Place(MANIFEST_FILE)
    try:
        data = artifacts.read(MANIFEST_FILE, RUN_FILE_MAX_BYTES)
        value = strict_json(data, MANIFEST_FILE, bytes_max=RUN_FILE_MAX_BYTES)
        names = sorted(artifacts.names())
    except ArtifactError as error:
        findings.fail("manifest.missing", place, f"{error.path}: {error.trouble.value}.")
        return
    except TraceInputError as error:
        findings.fail("manifest.malformed", place, error.message)
        return
    if not isinstance(value, dict) or not all(shapes.is_hash(each) for each in value.values()):
        findings.fail("manifest.malformed", place)
        return
    for path, digest in value.items():
        _bound(path, digest, given, artifacts, findings)
    for path in BOUND:
        if path not in value:
            findings.fail("manifest.unbound", place, path)
    for path in names:
        if path not in value and path not in WRITTEN_LATER and path not in BOUND:
            findings.fail("manifest.unbound", place, shown(path))
    findings.figures["files_bound"] = len(value)
    findings.done("manifest")


def _bound(path: str, digest: str, given: dict[str, str], artifacts: Artifacts, findings: Findings) -> None:
    place = Place(MANIFEST_FILE)
    if not is_plain_path(path):
        findings.fail("manifest.path", place, shown(path))
        return
    place = place.at(f"/{path.replace('~', '~0').replace('/', '~1')}")
    if path in given and given[path] != digest:
        findings.fail("manifest.hash", place, f"The {path} that was given is another one.")
    try:
        there = artifacts.digest(path, _FILE_MAX_BYTES)
    except ArtifactError as error:
        findings.fail("manifest.no-file", place, f"{error.trouble.value}.")
        return
    if there != digest:
        findings.fail("manifest.hash", place)


def _read(path: str, shape: Shape, code: str, artifacts: Artifacts, findings: Findings) -> dict[str, Value] | None:
    place = Place(path)
    try:
        data = artifacts.read(path, RUN_FILE_MAX_BYTES)
        value: dict[str, Value] = strict_json(data, path, bytes_max=RUN_FILE_MAX_BYTES)
    except ArtifactError as error:
        findings.fail("bind.missing", place, f"{error.trouble.value}.")
        return None
    except TraceInputError as error:
        findings.fail(code, place, error.message)
        return None
    faults = faults_of(value, shape)
    for fault in faults:
        findings.fail(code, place.at(fault.pointer), fault.said)
    return value if not faults else None


def _spec(spec: dict[str, Value], header: dict[str, Value], plan: Plan, findings: Findings) -> None:
    file = Place(SPEC_FILE)
    if shapes.spec_id(spec) != spec["id"]:
        findings.fail("id.spec", file.at("/id"))
    _same(spec["id"], plan.spec_id, file.at("/id"), "plan.json", findings)
    _same(spec["id"], header["spec_id"], file.at("/id"), "trace.jsonl", findings)
    _same(spec["description"], plan.problem, file.at("/description"), "plan.json", findings)
    asked = spec["constraints"].get("min_supports_per_claim")
    least = _least(asked)
    declared = header["metadata"]["reasoning_policy"]["min_supports_per_claim"]
    place = Place("trace.jsonl", 1, "/metadata/reasoning_policy/min_supports_per_claim")
    if declared < 1 or (asked is not None and least != declared):
        findings.fail("policy.declared", place, f"{shown(asked)} is specified.")


def _least(asked: Value) -> int | None:
    """Return the specification's minimum as the format reads it: a number, or the text of a number."""
    if type(asked) not in (int, float, str):
        return None
    try:
        return max(1, int(asked))
    except ValueError:
        return None


def _meta(meta: dict[str, Value], header: dict[str, Value], plan: Plan, findings: Findings) -> None:
    file, told = Place(META_FILE), header["metadata"]["run_meta"]
    runtime, descriptor = meta["runtime"], meta["runtime_descriptor"]
    trace = "trace.jsonl"
    for pointer, here, there, other in (
        ("/plan_id", meta["plan_id"], plan.id, "plan.json"),
        ("/plan_id", meta["plan_id"], header["plan_id"], trace),
        ("/spec_id", meta["spec_id"], header["spec_id"], trace),
        ("/spec_id", meta["spec_id"], plan.spec_id, "plan.json"),
        ("/trace_id", meta["trace_id"], header["id"], trace),
        ("/seed", meta["seed"], told["seed"], trace),
        ("/runtime/kind", runtime["kind"], told["runtime_kind"], trace),
        ("/runtime/mode", runtime["mode"], told["mode"], trace),
        ("/runtime/kind", runtime["kind"], descriptor["kind"], META_FILE),
        ("/runtime/mode", runtime["mode"], descriptor["mode"], META_FILE),
        ("/runtime_fingerprint", meta["runtime_fingerprint"], header["metadata"]["runtime_fingerprint"], trace),
    ):
        _same(here, there, file.at(pointer), other, findings)
    if sha256_hex(canonical(descriptor)) != meta["runtime_fingerprint"]:
        findings.fail("id.runtime", file.at("/runtime_fingerprint"))
    if shapes.run_id(meta["spec_id"], meta) != meta["run_id"]:
        findings.fail("id.run", file.at("/run_id"))


def _checksums(meta: dict[str, Value], header: dict[str, Value], made: str, findings: Findings) -> None:
    if meta["invariant_checksum"] != made:
        findings.fail("id.invariants", Place(META_FILE).at("/invariant_checksum"))
    if header["metadata"]["invariant_checksum"] != made:
        findings.fail("id.invariants", Place("trace.jsonl", 1, "/metadata/invariant_checksum"))


def _recorded(recorded: dict[str, Value], trace_id: str, findings: Findings) -> None:
    file = Place(REPORT_FILE)
    checks, failures = recorded["checks"], recorded["failures"]
    if sha256_hex(canonical({"checks": checks, "failures": failures})) != recorded["id"]:
        findings.fail("id.verify", file.at("/id"))
    failed = sum(not each["passed"] for each in checks)
    counted = {"failures": len(failures), "checks_failed": failed, "checks_total": len(checks)}
    for name, number in counted.items():
        if recorded["summary_metrics"][name] != number:
            findings.fail("schema.verify", file.at(f"/summary_metrics/{name}"), f"There are {number}.")
    if recorded["trace_id"] not in (None, trace_id):
        findings.fail("bind.differs", file.at("/trace_id"), "It is the report of another trace.")
    if failed or failures:
        findings.notes.append(f"The producer's own report has {failed} failed checks; it plays no part in this one.")


def _same(here: Value, there: Value, place: Place, other: str, findings: Findings) -> None:
    if here != there:
        findings.fail("bind.differs", place, f"{other} says {shown(there)}.")
