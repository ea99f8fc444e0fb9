"""The whole verification in order: plan, header, provenance, events, then the other files.

The single entry point. It raises for bytes without a plan or a trace. The report holds everything else.
"""

from __future__ import annotations

from readback.canon import sha256_hex
from readback.traces.artifacts import Artifacts
from readback.traces.fold.fold import Fold, lines_of, read_header
from readback.traces.format.fault import PLAN_MAX_BYTES, TRACE_MAX_BYTES
from readback.traces.format.policy import DEFAULT_POLICY, Policy
from readback.traces.format.report import Findings, Place, Report
from readback.traces.format.strict_json import Value, refused, strict_json
from readback.traces.plan import Plan, read_plan
from readback.traces.provenance import read_provenance
from readback.traces.run_files import check_files, check_fingerprint, check_manifest


def verify_trace(
    trace: bytes, plan: bytes, artifacts: Artifacts | None = None, policy: Policy = DEFAULT_POLICY
) -> Report:
    """Judge a reasoning trace. Without `artifacts` the checks of files do not run, and the report fails.

    Raises TraceInputError if the input is no plan or no trace.
    """
    if len(trace) > TRACE_MAX_BYTES:
        raise refused("too-large", "trace.jsonl", f"{len(trace)} bytes, over {TRACE_MAX_BYTES}")
    findings = Findings()
    made = read_plan(strict_json(plan, "plan.json", bytes_max=PLAN_MAX_BYTES), findings)
    lines = lines_of(trace)
    first = next(lines, None)
    if first is None:
        raise refused("malformed", "trace.jsonl", "it is empty")
    header = read_header(first[2], findings)
    fold: Fold | None = None
    if made is not None and header is not None:
        _bind(header, made, findings)
        _say_policy(policy, header, findings)
        provenance = read_provenance(header["metadata"], artifacts, findings)
        fold = Fold(trace, header, made, policy, artifacts, provenance, findings)
        for number, offset, line in lines:
            fold.take(number, offset, line)
        fold.end()
        if artifacts is not None:
            findings.done("support_spans")
            check_files(artifacts, header, made, fold.checksum, findings)
    if artifacts is not None:
        given = {"trace.jsonl": sha256_hex(trace), "plan.json": sha256_hex(plan)}
        check_fingerprint(given["trace.jsonl"], artifacts, findings)
        check_manifest(given, artifacts, findings)
    return findings.report(header["id"] if header is not None else None)


def _bind(header: dict[str, Value], plan: Plan, findings: Findings) -> None:
    place = Place("trace.jsonl", 1)
    if header["plan_id"] != plan.id:
        findings.fail("bind.differs", place.at("/plan_id"), f"plan.json says {plan.id}.")
    if header["spec_id"] != plan.spec_id:
        findings.fail("bind.differs", place.at("/spec_id"), f"plan.json says {plan.spec_id}.")


def _say_policy(policy: Policy, header: dict[str, Value], findings: Findings) -> None:
    declared = header["metadata"]["reasoning_policy"]["min_supports_per_claim"]
    whose = "the caller's policy" if policy.given else "the default policy"
    least = max(policy.min_supports_per_claim, declared)
    said = f"at least {least} supports a derived claim: {whose} asks for {policy.min_supports_per_claim}"
    findings.detail("policy_source", f"{said}, the run declares {declared}")
