"""The checks in order, and every failure code with its failed checks and its broken invariant.

The first ten checks are the format's own, under its names. The others are ours. A code never changes its meaning. A
plea is the output `insufficient_evidence`: a step reports too little evidence.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, NamedTuple

FORMAT_CHECKS: Final = (
    "core_invariants",
    "tool_linkage",
    "claim_justifications",
    "derived_claim_grounding",
    "reasoning_trace",
    "insufficient_reasoning",
    "finalize_present",
    "required_steps",
    "evidence_hashes",
    "support_spans",
)
STRICTER_CHECKS: Final = (
    "content_ids",
    "bindings",
    "step_topology",
    "step_pairing",
    "single_result",
    "evidence_origin",
    "evidence_present",
    "span_coordinates",
    "claim_outcomes",
    "policy_source",
    "provenance",
    "manifest",
    "fingerprint",
)
CHECKS: Final = FORMAT_CHECKS + STRICTER_CHECKS


class Code(NamedTuple):
    """The meaning of a code."""

    checks: tuple[str, ...]
    invariant: str | None
    meaning: str


_SCH, _TLK, _LNK = "INV-SCH-001", "INV-TLK-001", "INV-LNK-001"
_GRD, _FEW, _ORD, _EVD = "INV-GRD-001", "INV-GRD-002", "INV-ORD-001", "INV-EVD-001"


def _code(checks: str, invariant: str | None, meaning: str) -> Code:
    return Code(tuple(checks.split()), invariant, meaning)


CODES: Final = MappingProxyType(
    {
        # of the forms
        "schema.plan": _code("core_invariants", _SCH, "The plan is not of the closed form."),
        "schema.header": _code("core_invariants", _SCH, "The trace's first line is no header of the closed form."),
        "schema.event": _code("core_invariants", _SCH, "An event is not of the closed form of its kind."),
        "schema.version": _code("core_invariants", _SCH, "A version or algorithm that is not supported."),
        "schema.spec": _code("bindings", _SCH, "The specification is not of the closed form."),
        "schema.run-meta": _code("bindings", _SCH, "The run's description is not of the closed form."),
        "schema.verify": _code("content_ids", _SCH, "The recorded report is not of the closed form, or miscounts."),
        "event.index": _code("core_invariants", _SCH, "Events are not numbered 0, 1, 2 and on."),
        "event.outside-step": _code("core_invariants step_pairing", _SCH, "It happened in no step that was open."),
        # of the plan
        "plan.duplicate-node": _code("core_invariants", _SCH, "Two nodes of the plan bear one id."),
        "plan.unknown-node": _code("core_invariants", _SCH, "A dependency or an edge names no node of the plan."),
        "plan.cycle": _code("core_invariants step_topology", _SCH, "The plan waits for itself."),
        "step.unknown": _code("core_invariants", _SCH, "A step that the plan does not have."),
        "step.before-dependency": _code("step_topology", _ORD, "A step began before one that it waits for ended."),
        "step.started-twice": _code("step_pairing", _SCH, "A step began twice."),
        "step.unstarted": _code("step_pairing", _SCH, "A step ended that had not begun."),
        "step.finished-twice": _code("step_pairing", _SCH, "A step ended twice."),
        "step.unfinished": _code("core_invariants step_pairing", _SCH, "A step began and never ended."),
        "step.never-run": _code("step_pairing required_steps", _ORD, "A step of the plan never began."),
        "step.other-output": _code("step_pairing", _SCH, "A step's output is not of the step's kind."),
        "step.required-missing": _code("required_steps", _ORD, "One of the five kinds of output is not there."),
        "finalize.missing": _code("finalize_present", _ORD, "Nothing was finalized."),
        # of tools
        "call.duplicate": _code("core_invariants tool_linkage", _SCH, "Two calls bear one id."),
        "call.unanswered": _code("core_invariants tool_linkage", _TLK, "A call has no result."),
        "call.unplanned": _code("tool_linkage bindings", _TLK, "A call that the plan does not ask for there."),
        "call.left-out": _code("tool_linkage bindings", _TLK, "A step ended without a call that the plan asks for."),
        "call.other-step": _code("tool_linkage", _TLK, "Call, result and event are not of one step."),
        "result.unknown-call": _code("core_invariants tool_linkage", _TLK, "A result of a call that there was not."),
        "result.second": _code("single_result", _TLK, "A call has a second result."),
        "result.contradiction": _code("single_result", _TLK, "A result says success and error at once."),
        # of evidence
        "evidence.duplicate": _code("core_invariants", _SCH, "Two pieces of evidence bear one id."),
        "evidence.path": _code("evidence_hashes", _EVD, "Evidence is kept elsewhere than under its own id."),
        "evidence.missing": _code("evidence_hashes evidence_present", _EVD, "The file of the evidence is not there."),
        "evidence.unreadable": _code("evidence_hashes evidence_present", _EVD, "The file cannot be had as it is."),
        "evidence.hash": _code("evidence_hashes", _EVD, "The file's bytes are not those that were registered."),
        "evidence.failed-call": _code("evidence_origin", _EVD, "Evidence from a tool call that failed."),
        "evidence.no-call": _code("evidence_origin", _EVD, "Evidence that no tool call in its step brought."),
        "evidence.not-in-result": _code("evidence_origin", _EVD, "It is not what the call's result offers next."),
        "evidence.left-out": _code("evidence_origin", _EVD, "A search offered more than was registered."),
        "evidence.list": _code("evidence_origin", _EVD, "A list of evidence is not what was registered, in order."),
        # of spans
        "span.document": _code("span_coordinates", _EVD, "The span in the document does not fit uri, chunk or bytes."),
        "span.chunk": _code("support_spans span_coordinates", _EVD, "Span or hash is not that of its chunk."),
        "span.bounds": _code("support_spans", _EVD, "A cited span lies outside what it indexes."),
        "span.hash": _code("support_spans", _EVD, "The cited bytes do not have the cited hash."),
        "span.too-much": _code("support_spans", None, "More is cited than is read again."),
        "span.no-bytes": _code("support_spans evidence_present", _EVD, "The bytes that are cited are not to be had."),
        # of claims
        "claim.duplicate": _code("core_invariants", _SCH, "Two claims bear one id."),
        "support.unknown-claim": _code("claim_justifications", _LNK, "A support names no claim made before."),
        "support.unknown-evidence": _code("claim_justifications", _LNK, "A support names no evidence from before."),
        "support.unknown-call": _code("claim_justifications", _LNK, "A support names no answered call from before."),
        "support.failed-call": _code("claim_justifications", _LNK, "A support rests on a tool call that failed."),
        "grounding.no-evidence": _code("derived_claim_grounding", _GRD, "A derived claim cites no evidence."),
        "grounding.too-few": _code("derived_claim_grounding", _FEW, "A derived claim cites too little evidence."),
        "grounding.marker-missing": _code("derived_claim_grounding", _GRD, "A support has no marker in the text."),
        "grounding.marker-extra": _code("derived_claim_grounding", _GRD, "A marker in the text has no support."),
        "grounding.marker-malformed": _code("derived_claim_grounding", _GRD, "What begins as a marker is none."),
        "reasoning.missing": _code("reasoning_trace", None, "A derived claim, and no description of the reasoning."),
        "reasoning.no-hash": _code("reasoning_trace", None, "A derived claim without the hash of its result."),
        "reasoning.several": _code("reasoning_trace", None, "Derived claims with more than one result."),
        "reasoning.differs": _code("reasoning_trace", None, "The described reasoning is not that of the claim."),
        "insufficient.neither": _code("insufficient_reasoning", None, "Neither a derived claim nor a plea."),
        "insufficient.both": _code("insufficient_reasoning", None, "A plea, and an unmarked derived claim."),
        "insufficient.mark-alone": _code("insufficient_reasoning", None, "A mark of insufficiency without a plea."),
        "insufficient.counts": _code("insufficient_reasoning", None, "The plea miscounts."),
        "outcome.unknown-claim": _code("claim_outcomes", _LNK, "A list names a claim that was not made."),
        "outcome.twice": _code("claim_outcomes", None, "A list names one claim twice."),
        "outcome.derived-list": _code("claim_outcomes", _LNK, "A step lists other claims than it made."),
        "outcome.contradiction": _code("claim_outcomes", _LNK, "A claim is validated and rejected at once."),
        "outcome.unsupported": _code("claim_outcomes", _GRD, "A claim is validated without any support."),
        "final.rejected": _code("claim_outcomes", _GRD, "A rejected claim is final."),
        "final.unsupported": _code("claim_outcomes", _GRD, "A claim without support, or marked so, is final."),
        "final.not-validated": _code("claim_outcomes", _GRD, "A claim that nothing validated is final."),
        "final.answer": _code("claim_outcomes", _GRD, "The answer is not the text of a final claim."),
        # of ids and bindings
        "id.spec": _code("content_ids", None, "The specification's id is not that of its content."),
        "id.plan": _code("content_ids", None, "The plan's id is not that of its content."),
        "id.node": _code("content_ids", None, "A node's id is not that of its content."),
        "id.call": _code("content_ids", None, "A call's id is not that of its content."),
        "id.evidence": _code("content_ids", None, "The evidence's id is not that of its content."),
        "id.claim": _code("content_ids", None, "A claim's id is not that of its content."),
        "id.result": _code("content_ids reasoning_trace", None, "A result's hash is not that of the claim."),
        "id.trace": _code("content_ids", None, "The trace's id is not that of its content."),
        "id.run": _code("content_ids", None, "The run's id is not that of its content."),
        "id.runtime": _code("content_ids", None, "The runtime's fingerprint is not that of its description."),
        "id.invariants": _code("content_ids", None, "The checksum over plan, evidence and runtime does not hold."),
        "id.verify": _code("content_ids", None, "The recorded report's id is not that of its content."),
        "id.config": _code("content_ids provenance", None, "The retrieval's hash is not that of its settings."),
        "bind.differs": _code("bindings", None, "Two files of the run say two things of one."),
        "bind.missing": _code("bindings content_ids", None, "A file that the run must have is not to be had."),
        "policy.declared": _code("policy_source", None, "The run declares another policy than its specification."),
        # of files
        "provenance.missing": _code("provenance", _EVD, "Evidence from documents, and the documents are not there."),
        "provenance.malformed": _code("provenance", _SCH, "A file of documents, chunks or settings is malformed."),
        "provenance.hash": _code("provenance", _EVD, "A file, document or chunk does not have its declared hash."),
        "provenance.differs": _code("provenance", None, "The settings of the retrieval are told in two ways."),
        "manifest.missing": _code("manifest", None, "There is no manifest that can be read."),
        "manifest.malformed": _code("manifest", _SCH, "The manifest is no flat object of paths and hashes."),
        "manifest.unbound": _code("manifest", None, "A file that the manifest must bind is not in it."),
        "manifest.hash": _code("manifest", None, "A file is not the one that the manifest binds."),
        "manifest.no-file": _code("manifest", None, "The manifest binds a file that cannot be had."),
        "manifest.path": _code("manifest", "INV-ART-001", "The manifest, or the folder, holds a path that is none."),
        "fingerprint.missing": _code("fingerprint", None, "There is no fingerprint that can be read."),
        "fingerprint.differs": _code("fingerprint", None, "The fingerprint is not that of the trace."),
        "check.not-run": _code("", None, "A check could not be run; that is never a pass."),
    }
)
