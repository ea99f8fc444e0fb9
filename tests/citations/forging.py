"""A maker of run folders, written from the format's description and not from the checker: honest ones, and whole lies.

Whatever a test changes before `write` is sealed anew: ids of spec, plan and trace, checksum, manifest and fingerprint
fit it. So a failure that comes of it is found by what the change means, and not by a hash.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from readback.decisions.interop.run_folder import RunFolder
from readback.traces import DEFAULT_POLICY, Policy, Report, verify_trace

Event = Any
"""A JSON object in the making."""
DOCS = {"d1": "Python is a language. It is widely used for scripts.", "d2": "Rüst is a language of safety."}
KINDS = ("understand", "gather", "derive", "verify", "finalize")


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def named(kind: str, value: Any) -> str:
    return f"{kind}_v1_{digest(canonical(value))}"


def but(value: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: part for key, part in value.items() if key not in keys}


def node(kind: str, before: list[str], requests: list[dict[str, Any]] | None = None, **parameters: Any) -> Event:
    made = {"kind": kind, "deps": before, "params": {"preset": "rar", **parameters}}
    step = {"kind": kind, "notes": "", "tool_requests": requests or []}
    return {
        "id": named("node", made),
        "kind": kind,
        "dependencies": before,
        "step": step,
        "parameters": made["params"],
    }


def chain(asked: int = 1) -> list[Event]:
    """The five steps, one after another."""
    nodes: list[Event] = []
    for kind in KINDS:
        requests = [{"tool_name": "retrieve", "arguments": {"query": "q", "n": n}} for n in range(asked)]
        nodes.append(node(kind, [nodes[-1]["id"]] if nodes else [], requests if kind == "gather" else None))
    return nodes


@dataclass
class Forge:
    """One run in the making."""

    constraints: dict[str, Any] = field(default_factory=lambda: {"min_supports_per_claim": 2})
    nodes: list[Event] = field(default_factory=chain)
    edges: list[list[str]] = field(default_factory=list)
    docs: dict[str, str] = field(default_factory=lambda: dict(DOCS))
    events: list[Event] = field(default_factory=list)
    header: dict[str, Any] = field(default_factory=dict)
    """What is to stand in the trace's header other than is right."""
    metadata: dict[str, Any] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    recorded: dict[str, Any] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)
    """What the manifest says otherwise; None leaves a path out."""
    files: dict[str, bytes | None] = field(default_factory=dict)
    """Files that are otherwise, or (None) not there; bound by the manifest all the same."""
    numbered: bool = True
    searched: bool = True

    def put(self, kind: str, step: int, **parts: Any) -> Event:
        self.events.append({"kind": kind, "idx": 0, "step_id": self.nodes[step]["id"], **parts})
        return self.events[-1]

    def call(self, step: int, index: int = 0) -> Event:
        request = self.nodes[step]["step"]["tool_requests"][index]
        made = {"step_id": self.nodes[step]["id"], "i": index, "tool": request["tool_name"]}
        made["args"] = request["arguments"]
        call = {"id": named("call", made), "tool_name": made["tool"], "arguments": made["args"]}
        return self.put("tool_called", step, call={**call, "step_id": made["step_id"], "call_idx": index})["call"]

    def piece(self, doc: str) -> Event:
        """A whole document, as the search offers it."""
        data = self.docs[doc].encode()
        sha = digest(data)
        return {
            "chunk_id": sha, "chunk_sha256": sha, "chunk_span": [0, len(data)], "doc_id": doc, "doc_sha256": sha,
            "span": [0, len(data)], "text": self.docs[doc], "uri": f"corpus://{doc}#0-{len(data)}",
            "score": 0.5, "title": doc, "source": "t",
        }  # fmt: skip

    def answer(self, step: int, call: Event, pieces: list[Event], **otherwise: Any) -> Event:
        result = {"evidences": pieces, "provenance": self.retrieval()}
        made = {"call_id": call["id"], "success": True, "result": result, "error": None, **otherwise}
        return self.put("tool_returned", step, result=made)["result"]

    def register(self, step: int, piece: Event) -> Event:
        made = {"uri": piece["uri"], "sha256": digest(piece["text"].encode()), "span": piece["span"]}
        made["chunk_id"] = piece["chunk_id"]
        name = named("ev", made)
        self.files.setdefault(f"evidence/{name}.txt", piece["text"].encode())
        return self.put(
            "evidence_registered", step, evidence={**made, "id": name, "content_path": f"evidence/{name}.txt"}
        )["evidence"]

    def cite(self, evidence: Event, start: int, end: int) -> Event:
        """A support: bytes of the evidence's own file."""
        data = self.files[evidence["content_path"]] or b""
        return support("evidence", evidence["id"], data, start, end)

    def claim(self, step: int, text: str, supports: list[Event], **otherwise: Any) -> Event:
        for each in supports:
            if each["kind"] == "evidence":
                text += f" [evidence:{each['ref_id']}:{each['span'][0]}-{each['span'][1]}:{each['snippet_sha256']}]"
        claim: Event = {"statement": text, "status": "proposed", "confidence": 0.7, "supports": supports}
        claim |= {"claim_type": "derived", "structured": {}, **otherwise}
        if claim["claim_type"] == "derived" and claim["structured"] == {}:
            claim["structured"] = {"result_sha256": result_hash(claim)}
        return self.put("claim_emitted", step, claim={**claim, "id": named("claim", claim)})["claim"]

    def start(self, step: int) -> None:
        self.put("step_started", step)

    def finish(self, step: int, **output: Any) -> Event:
        output.setdefault("type", self.nodes[step]["kind"])
        return self.put("step_finished", step, output=output)["output"]

    def understood(self) -> None:
        self.start(0)
        self.finish(0, normalized_question="q", assumptions=[], task_type="generic")

    def gathered(self, evidence: list[Event]) -> None:
        provenance = self.retrieval() if self.searched else {}
        ids = [each["id"] for each in evidence]
        self.finish(1, evidence_ids=ids, retrieval_queries=["q"], retrieval_provenance=provenance)

    def concluded(self, *claims: Event, validated: list[str] | None = None) -> None:
        ids = sorted(claim["id"] for claim in claims) if validated is None else validated
        self.start(3)
        self.finish(3, validated_claim_ids=ids, rejected_claim_ids=[], missing_support_claim_ids=[])
        self.start(4)
        answer = next((claim["statement"] for claim in claims if claim["id"] in ids), None)
        self.finish(4, final_claim_ids=ids, final_answer=answer, uncertainty=None if ids else "none")

    # --- files ---

    def corpus(self) -> bytes:
        return b"".join(
            canonical({"doc_id": d, "title": d, "source": "t", "text": t}) + b"\n" for d, t in self.docs.items()
        )

    def chunks(self) -> list[Event]:
        pieces = [self.piece(doc) for doc in self.docs]
        return [
            {**{k: p[k] for k in ("chunk_id", "chunk_sha256", "doc_id", "doc_sha256")},
             "start_byte": p["span"][0], "end_byte": p["span"][1]}
            for p in pieces
        ]  # fmt: skip

    def index(self) -> bytes:
        return canonical({"corpus_sha256": digest(self.corpus()), "chunk_chars": 800, "overlap_chars": 120,
                          "max_chunks": None, "max_docs": None, "schema_version": 1,
                          "chunks": self.chunks()})  # fmt: skip

    def retrieval(self) -> Event:
        settings = {"b": 0.75, "chunk_chars": 800, "corpus_max_bytes": None, "k1": 1.2, "lazy_index": False,
                    "max_chunks": None, "max_docs": None, "overlap_chars": 120, "parallel_scoring": False,
                    "tokenizer": "unicode_word"}  # fmt: skip
        return {
            **settings,
            "schema_version": 1,
            "config_sha256": digest(canonical(settings)),
            "corpus_sha256": digest(self.corpus()),
            "index_sha256": digest(self.index()),
            "corpus_path": "provenance/corpus.jsonl",
            "index_path": "provenance/index/bm25_index.json",
            "chunks_path": "provenance/chunks.jsonl",
        }

    def write(self, folder: Path) -> Path:
        """Seals and writes the run."""
        spec: Event = {
            "description": "q",
            "constraints": self.constraints,
            "expected_output_type": "Claim",
            "expected": None,
        }
        spec = {**spec, "version": 1, **self.spec}
        spec.setdefault("id", named("spec", spec))
        plan = {"problem": "q", "spec_id": spec["id"], "nodes": self.nodes, "edges": self.edges, **self.plan}
        plan.setdefault("id", named("plan", plan))
        descriptor = {"kind": "Forged", "mode": "live", "tools": []}
        fingerprint = digest(canonical(descriptor))
        order = [event["evidence"]["id"] for event in self.events if event["kind"] == "evidence_registered"]
        checksum = digest(canonical({"plan": plan, "evidence_order": order, "runtime_descriptor": descriptor}))
        header = self._header(spec, plan, order, fingerprint, checksum)
        meta = {"run_id": "", "spec_id": spec["id"], "plan_id": plan["id"], "trace_id": header["id"], "preset": "rar",
                "seed": 0, "runtime": {"kind": "Forged", "mode": "live"}, "runtime_descriptor": descriptor,
                "runtime_fingerprint": fingerprint, "invariant_checksum": checksum, "schema_version": 1,
                "producer_version": "0.1.0"}  # fmt: skip
        meta["run_id"] = named("run", {k: meta[k] for k in ("spec_id", "preset", "seed", "runtime_fingerprint")})
        lines = [header, *({"record": "trace_event", "event": event} for event in self.events)]
        self._write(folder, "spec.json", canonical(spec) + b"\n")
        self._write(folder, "plan.json", canonical(plan) + b"\n")
        self._write(folder, "trace.jsonl", b"".join(canonical(line) + b"\n" for line in lines))
        self._write(folder, "run_meta.json", canonical({**meta, **self.meta}))
        self._write(folder, "verify.json", canonical(self._recorded()))
        if self.searched:
            self._write(folder, "provenance/corpus.jsonl", self.corpus())
            self._write(folder, "provenance/chunks.jsonl", b"".join(canonical(c) + b"\n" for c in self.chunks()))
            self._write(folder, "provenance/index/bm25_index.json", self.index())
            self._write(folder, "provenance/retrieval_provenance.json", canonical(self.retrieval()) + b"\n")
        for path in self.files:
            self._write(folder, path, b"")
        reseal(folder, self.manifest)
        return folder

    def _header(self, spec: Event, plan: Event, order: list[str], fingerprint: str, checksum: str) -> Event:
        results = [
            event["claim"]["structured"]["result_sha256"]
            for event in self.events
            if event["kind"] == "claim_emitted" and "result_sha256" in (event["claim"]["structured"] or {})
        ]
        metadata = {
            "run_meta": {"seed": 0, "runtime_kind": "Forged", "mode": "live"},
            "reasoning_policy": {"min_supports_per_claim": self.constraints.get("min_supports_per_claim", 2)},
            "runtime_fingerprint": fingerprint,
            "invariant_checksum": checksum,
        }
        if self.searched:
            metadata["retrieval_provenance"] = self.retrieval()
        if results:
            told = {"question": "q", "evidence_ids": order, "result_sha256": results[0]}
            metadata["reasoning_trace"] = {**told, "reasoning_trace_sha256": results[0]}
        metadata = {key: part for key, part in {**metadata, **self.metadata}.items() if part is not ...}
        header = {"spec_id": spec["id"], "plan_id": plan["id"], "metadata": metadata, "runtime_protocol_version": 1}
        header |= {"schema_version": 1, "fingerprint_algo": "sha256", "canonicalization_version": 1, **self.header}
        if self.numbered:
            for index, event in enumerate(self.events):
                event["idx"] = index
        made = named("trace", {**but(header, "id"), "events": self.events})
        return {"record": "trace_header", "id": made, **header}

    def _recorded(self) -> Event:
        checks = [{"name": "core_invariants", "passed": True, "details": None, "metrics": {}}]
        report: Event = {"checks": checks, "failures": [], "trace_id": None, **but(self.recorded, "id")}
        report["id"] = digest(canonical({"checks": report["checks"], "failures": report["failures"]}))
        counts = {"failures": float(len(report["failures"])), "checks_total": float(len(report["checks"]))}
        counts["checks_failed"] = float(sum(not check["passed"] for check in report["checks"]))
        return {"summary_metrics": counts, **report, **self.recorded}

    def _write(self, folder: Path, path: str, data: bytes) -> None:
        wanted = self.files.get(path, data)
        if wanted is not None:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(wanted)
        else:
            (folder / path).unlink(missing_ok=True)


def support(kind: str, named_thing: str, data: bytes, start: int, end: int) -> Event:
    sha = digest(data[start:end])
    return {"kind": kind, "ref_id": named_thing, "span": [start, end], "snippet_sha256": sha, "hash_algo": "sha256"}


def result_hash(claim: Event) -> str:
    cited = ";".join(f"{s['ref_id']}:{s['span'][0]}-{s['span'][1]}:{s['snippet_sha256']}" for s in claim["supports"])
    return digest(f"{claim['statement']}|{cited}".encode())


def honest(alter: Callable[[Forge], None] = lambda _: None, **options: Any) -> Forge:
    """One call, two pieces of evidence, a derived claim and an answer. `alter` comes before the first event."""
    forge = Forge(**options)
    alter(forge)
    forge.understood()
    forge.start(1)
    call = forge.call(1)
    pieces = [forge.piece(doc) for doc in forge.docs]
    forge.answer(1, call, pieces)
    evidence = [forge.register(1, piece) for piece in pieces]
    forge.gathered(evidence)
    forge.start(2)
    claim = forge.claim(2, "Both are languages.", [forge.cite(evidence[0], 0, 21), forge.cite(evidence[1], 0, 14)])
    forge.finish(2, claim_ids=[claim["id"]])
    forge.concluded(claim)
    return forge


def pleading(**options: Any) -> Forge:
    """A run that says that there was too little evidence: nothing was searched, nothing is claimed."""
    forge = Forge(nodes=chain(0), searched=False, **options)
    forge.understood()
    forge.start(1)
    forge.gathered([])
    forge.start(2)
    forge.finish(2, type="insufficient_evidence", reason="too little", retrieved=0, required=2)
    forge.concluded()
    return forge


def marked_run(**otherwise: Any) -> Forge:
    """A plea of too little evidence, and yet a derived claim, with a mark."""
    forge = Forge(nodes=chain(0), searched=False)
    forge.understood()
    forge.start(1)
    forge.gathered([])
    forge.start(2)
    forge.claim(2, "It may be so.", [], **otherwise)
    forge.finish(2, type="insufficient_evidence", reason="too little", retrieved=0, required=2)
    forge.concluded()
    return forge


def reseal(folder: Path, otherwise: dict[str, Any] | None = None) -> None:
    """Manifest and fingerprint of what lies there now."""
    apart = {"manifest.json", "run_meta.json", "fingerprint.txt"}
    paths = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()}
    bound = {path: digest(at.read_bytes()) for path, at in sorted(paths.items()) if path not in apart}
    bound = {path: sha for path, sha in {**bound, **(otherwise or {})}.items() if sha is not None}
    (folder / "manifest.json").write_bytes(canonical(bound))
    if "trace.jsonl" in paths:
        (folder / "fingerprint.txt").write_text(digest(paths["trace.jsonl"].read_bytes()) + "\n")


def judged(folder: Path, policy: Policy = DEFAULT_POLICY) -> Report:
    """What the checker says of a folder."""
    with RunFolder(folder) as files:
        return verify_trace((folder / "trace.jsonl").read_bytes(), (folder / "plan.json").read_bytes(), files, policy)
