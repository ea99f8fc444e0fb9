"""The closed form of each file of a run. An unknown key is a fault. `event_forms` has the forms of events."""

from __future__ import annotations

from typing import Final

from readback.traces.format.shapes import (
    Fault,
    count,
    digest,
    free,
    ident,
    listed,
    mapping,
    nullable,
    number,
    one_of,
    record,
    text,
    truth,
    whole,
)
from readback.traces.format.strict_json import Value

NODE_KINDS: Final = ("understand", "gather", "derive", "verify", "finalize")
INSUFFICIENT: Final = "insufficient_evidence"
SCHEMA_VERSIONS: Final = (1, 2)

SPEC: Final = record(
    {
        "id": ident("spec"),
        "description": text,
        "constraints": mapping,
        "expected_output_type": text,
        "expected": free,
        "version": one_of(1),
    }
)
_REQUEST: Final = record({"tool_name": text, "arguments": mapping})
_STEP: Final = record({"kind": one_of(*NODE_KINDS), "notes": text, "tool_requests": listed(_REQUEST)})
NODE: Final = record(
    {
        "id": ident("node"),
        "kind": one_of(*NODE_KINDS),
        "dependencies": listed(ident("node")),
        "step": _STEP,
        "parameters": mapping,
    }
)
PLAN: Final = record(
    {
        "id": ident("plan"),
        "problem": text,
        "spec_id": ident("spec"),
        "nodes": listed(NODE),
        "edges": listed(listed(ident("node"), length=2)),
    }
)

RETRIEVAL: Final = record(
    {
        "schema_version": one_of(1),
        **dict.fromkeys(("corpus_sha256", "index_sha256", "config_sha256"), digest),
        **dict.fromkeys(("corpus_path", "index_path", "chunks_path", "tokenizer"), text),
        **dict.fromkeys(("chunk_chars", "overlap_chars"), count),
        **dict.fromkeys(("max_chunks", "max_docs", "corpus_max_bytes"), nullable(count)),
        **dict.fromkeys(("k1", "b"), number),
        **dict.fromkeys(("parallel_scoring", "lazy_index"), truth),
    }
)
_METADATA_PARTS: Final = {
    "run_meta": record({"seed": whole, "runtime_kind": text, "mode": one_of("live", "frozen")}),
    "reasoning_policy": record({"min_supports_per_claim": whole}),
    "runtime_fingerprint": digest,
    "invariant_checksum": digest,
}
_METADATA_MORE: Final = {
    "reasoning_trace": record(
        {
            "question": text,
            "evidence_ids": listed(ident("ev")),
            "result_sha256": digest,
            "reasoning_trace_sha256": digest,
        }
    ),
    "retrieval_provenance": RETRIEVAL,
}


def _metadata(value: Value, at: str, faults: list[Fault]) -> None:
    more = {key: shape for key, shape in _METADATA_MORE.items() if type(value) is dict and key in value}
    record({**_METADATA_PARTS, **more})(value, at, faults)


HEADER: Final = record(
    {
        "record": one_of("trace_header"),
        "id": ident("trace"),
        "metadata": _metadata,
        "spec_id": ident("spec"),
        "plan_id": ident("plan"),
        "runtime_protocol_version": whole,
        "schema_version": whole,
        "fingerprint_algo": text,
        "canonicalization_version": whole,
    }
)

RUN_META: Final = record(
    {
        "run_id": ident("run"),
        "spec_id": ident("spec"),
        "plan_id": ident("plan"),
        "trace_id": ident("trace"),
        "preset": text,
        "seed": whole,
        "runtime": record({"kind": text, "mode": one_of("live", "frozen")}),
        "runtime_descriptor": record(
            {
                "kind": text,
                "mode": one_of("live", "frozen"),
                "tools": listed(record({"name": text, "version": text, "config_fingerprint": ident("toolcfg")})),
            }
        ),
        "runtime_fingerprint": digest,
        "invariant_checksum": digest,
        "schema_version": one_of(1),
        "producer_version": text,
    }
)
_CHECKED: Final = record({"name": text, "passed": truth, "details": nullable(text), "metrics": mapping})
_FAILED: Final = record(
    {"severity": one_of("info", "warning", "error"), "message": text, "invariant_id": nullable(text)}
)
RECORDED_REPORT: Final = record(
    {
        "id": digest,
        "checks": listed(_CHECKED),
        "failures": listed(_FAILED),
        "summary_metrics": record({"failures": number, "checks_failed": number, "checks_total": number}),
        "trace_id": nullable(ident("trace")),
    }
)


def document(value: Value, at: str, faults: list[Fault]) -> None:
    """A line of the documents. The user owns this file, so only the used keys have a fixed form."""
    mapping(value, at, faults)
    if type(value) is dict:
        text(value.get("doc_id"), f"{at}/doc_id", faults)
        text(value.get("text"), f"{at}/text", faults)


CHUNK: Final = record(
    {
        "chunk_id": digest,
        "chunk_sha256": digest,
        "doc_id": text,
        "doc_sha256": digest,
        "start_byte": count,
        "end_byte": count,
    }
)
