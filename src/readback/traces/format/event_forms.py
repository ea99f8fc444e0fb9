"""The closed form of each event of a trace.

The format reads two spellings of some keys. Both become the written spelling.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from readback.traces.format.forms import INSUFFICIENT, RETRIEVAL
from readback.traces.format.shapes import (
    Fault,
    Shape,
    count,
    digest,
    faults_of,
    free,
    ident,
    listed,
    mapping,
    nullable,
    one_of,
    record,
    share,
    span,
    text,
    truth,
)
from readback.traces.format.strict_json import Value

CLAIM_STATUSES: Final = ("proposed", "validated", "rejected")
_NO_RETRIEVAL: Final = record({})


def _retrieval_or_none(value: Value, at: str, faults: list[Fault]) -> None:
    (RETRIEVAL if value else _NO_RETRIEVAL)(value, at, faults)


_CALL: Final = record(
    {"id": ident("call"), "tool_name": text, "arguments": mapping, "step_id": ident("node"), "call_idx": count}
)
_RESULT: Final = record({"call_id": ident("call"), "success": truth, "result": free, "error": nullable(text)})
_EVIDENCE: Final = record(
    {"id": ident("ev"), "uri": text, "sha256": digest, "span": span, "chunk_id": digest, "content_path": text}
)
_REFERENCES: Final = {"claim": ident("claim"), "evidence": ident("ev"), "tool_call": ident("call")}


def _support(value: Value, at: str, faults: list[Fault]) -> None:
    kind = value.get("kind") if type(value) is dict else None
    record(
        {
            "kind": one_of(*_REFERENCES),
            "ref_id": _REFERENCES.get(kind, text) if isinstance(kind, str) else text,
            "span": span,
            "snippet_sha256": digest,
            "hash_algo": one_of("sha256"),
        }
    )(value, at, faults)


_CLAIM: Final = record(
    {
        "id": ident("claim"),
        "statement": text,
        "status": text,
        "confidence": share,
        "supports": listed(_support),
        "claim_type": one_of("derived", "observed", "assumed"),
        "structured": nullable(mapping),
    }
)
_CLAIM_IDS: Final = listed(ident("claim"))
OUTPUTS: Final[Mapping[str, Mapping[str, Shape]]] = MappingProxyType(
    {
        "understand": {"normalized_question": text, "assumptions": listed(text), "task_type": text},
        "gather": {
            "evidence_ids": listed(ident("ev")),
            "retrieval_queries": listed(text),
            "retrieval_provenance": _retrieval_or_none,
        },
        "derive": {"claim_ids": _CLAIM_IDS},
        "verify": dict.fromkeys(("validated_claim_ids", "rejected_claim_ids", "missing_support_claim_ids"), _CLAIM_IDS),
        "finalize": {"final_claim_ids": _CLAIM_IDS, "final_answer": nullable(text), "uncertainty": nullable(text)},
        INSUFFICIENT: {"reason": text, "retrieved": count, "required": count},
    }
)
_OUTPUT_SHAPES: Final = {kind: record({"type": one_of(kind), **fields}) for kind, fields in OUTPUTS.items()}


def _output(value: Value, at: str, faults: list[Fault]) -> None:
    kind = value.get("type") if type(value) is dict else None
    shape = _OUTPUT_SHAPES.get(kind) if isinstance(kind, str) else None
    if shape is None:
        faults.append(Fault(f"{at}/type", f"the type of an output is one of {', '.join(_OUTPUT_SHAPES)}"))
    else:
        shape(value, at, faults)


_EVENT_PARTS: Final[dict[str, dict[str, Shape]]] = {
    "step_started": {},
    "step_finished": {"output": _output},
    "tool_called": {"call": _CALL},
    "tool_returned": {"result": _RESULT},
    "evidence_registered": {"evidence": _EVIDENCE},
    "claim_emitted": {"claim": _CLAIM},
}
EVENTS: Final = MappingProxyType(
    {
        kind: record({"kind": one_of(kind), "idx": count, "step_id": ident("node"), **parts})
        for kind, parts in _EVENT_PARTS.items()
    }
)
_LINE: Final = record({"record": one_of("trace_event"), "event": mapping})

_ALIASES: Final = {
    "tool_called": ("call", {"tool_call": "call"}),
    "tool_returned": ("result", {"tool_result": "result"}),
    "claim_emitted": ("claim", {}),
    "step_finished": ("output", {}),
}
_INNER_ALIASES: Final = {
    "tool_called": {},
    "tool_returned": {"ok": "success"},
    "claim_emitted": {"support_refs": "supports"},
    "step_finished": {
        "kind": "type",
        "evidence_refs": "evidence_ids",
        "emitted_claim_ids": "claim_ids",
        "insufficient_support": "missing_support_claim_ids",
    },
}


def event_of(line: Value) -> tuple[Value, list[Fault]]:
    """Return the event of a line, with keys as the format writes them, and all its faults."""
    faults = faults_of(line, _LINE)
    if faults:
        return None, faults
    event = line["event"]
    kind = event.get("kind")
    shape = EVENTS.get(kind) if isinstance(kind, str) else None
    if shape is None:
        return event, [Fault("/event/kind", f"the kind of an event is one of {', '.join(EVENTS)}")]
    if kind in _ALIASES:
        event = _renamed(event, kind)
    return event, [Fault(f"/event{fault.pointer}", fault.said) for fault in faults_of(event, shape)]


def _renamed(event: dict[str, Value], kind: str) -> dict[str, Value]:
    part, outer = _ALIASES[kind]
    event = _with_names(event, outer)
    if isinstance(event.get(part), dict):
        event[part] = _with_names(event[part], _INNER_ALIASES[kind])
    return event


def _with_names(value: dict[str, Value], names: dict[str, str]) -> dict[str, Value]:
    """Unify the spellings of keys. If both spellings are present, both stay, and one is an unknown key."""
    if not any(old in value and new not in value for old, new in names.items()):
        return value
    return {(names[key] if key in names and names[key] not in value else key): part for key, part in value.items()}
