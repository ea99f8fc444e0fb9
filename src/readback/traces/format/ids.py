"""How every id and hash of the format is made, so that each can be made again.

A table of the recipes that are written into files; there are none that look at what was declared.
"""

from __future__ import annotations

import re
from typing import Final

from readback.canon import sha256_hex
from readback.traces.format.strict_json import Value, canonical

CONFIG_KEYS: Final = (
    "b", "chunk_chars", "corpus_max_bytes", "k1", "lazy_index", "max_chunks", "max_docs", "overlap_chars",
    "parallel_scoring", "tokenizer",
)  # fmt: skip
"""What of a retrieval's provenance `config_sha256` covers."""
_HEX: Final = re.compile(r"[0-9a-f]{64}")


def is_hash(text: object) -> bool:
    """Sixty-four lower-case hexadecimal digits."""
    return isinstance(text, str) and _HEX.fullmatch(text) is not None


def stable_id(kind: str, value: Value) -> str:
    """The id of a thing by its content."""
    return f"{kind}_v1_{sha256_hex(canonical(value))}"


def spec_id(spec: dict[str, Value]) -> str:
    """Of everything in it but the id."""
    return stable_id("spec", _but(spec, "id"))


def plan_id(plan: dict[str, Value]) -> str:
    """Of everything in it but the id."""
    return stable_id("plan", _but(plan, "id"))


def node_id(node: dict[str, Value]) -> str:
    """Of kind, dependencies and parameters; its step is covered by the plan's id."""
    return stable_id("node", {"kind": node["kind"], "deps": node["dependencies"], "params": node["parameters"]})


def call_id(call: dict[str, Value]) -> str:
    """Of the step, the place within it, the tool and its arguments."""
    made = {"step_id": call["step_id"], "i": call["call_idx"], "tool": call["tool_name"], "args": call["arguments"]}
    return stable_id("call", made)


def evidence_id(evidence: dict[str, Value]) -> str:
    """Of where it is from and what it holds, not of where it is kept."""
    return stable_id("ev", {key: evidence[key] for key in ("uri", "sha256", "span", "chunk_id")})


def claim_id(claim: dict[str, Value]) -> str:
    """Of everything in it but the id."""
    return stable_id("claim", _but(claim, "id"))


def result_hash(claim: dict[str, Value]) -> str:
    """Of the statement and its supports in order."""
    cited = ";".join(
        f"{each['ref_id']}:{each['span'][0]}-{each['span'][1]}:{each['snippet_sha256']}" for each in claim["supports"]
    )
    return sha256_hex(f"{claim['statement']}|{cited}".encode())


def run_id(spec: str, meta: dict[str, Value]) -> str:
    """Of the specification, the preset, the seed and the runtime."""
    made = {"spec_id": spec, **{key: meta[key] for key in ("preset", "seed", "runtime_fingerprint")}}
    return stable_id("run", made)


def config_hash(provenance: dict[str, Value]) -> str:
    """Of how documents were cut and searched."""
    return sha256_hex(canonical({key: provenance[key] for key in CONFIG_KEYS}))


def _but(value: dict[str, Value], left_out: str) -> dict[str, Value]:
    return {key: part for key, part in value.items() if key != left_out}
