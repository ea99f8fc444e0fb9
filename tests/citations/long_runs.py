"""A long and honest run, made as bytes: calls, evidence and claims in large numbers. Also the measure of what it needs.

`python -m tests.citations.long_runs EVENTS` prints the memory and the time that checking so many takes.
"""

from __future__ import annotations

import json
import sys
import time
import tracemalloc
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

from tests.citations.forging import Event, Forge, canonical, digest, named, node, support
from tests.citations.memory import MemoryFolder

CALLS_SHARE: Final = 0.10
EVIDENCE_SHARE: Final = 0.04
CLAIMS_A_STEP: Final = 2_000


class Lines:
    """A trace in the writing: bytes, and the running hash of its events."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.sum = sha256(b'{"canonicalization_version":1,"events":[')

    def put(self, event: Event) -> None:
        event["idx"] = len(self.written)
        form = canonical(event)
        self.sum.update((b"," if self.written else b"") + form)
        self.written.append(b'{"event":' + form + b',"record":"trace_event"}\n')


def long_run(events: int) -> tuple[dict[str, bytes], int]:
    """The files of a run of about so many events, and how many there are."""
    calls, pieces = int(events * CALLS_SHARE), max(2, int(events * EVIDENCE_SHARE))
    claims = max(1, events - 2 * calls - pieces)
    search: Event = {"tool_name": "retrieve", "arguments": {}}
    looks = [{"tool_name": "look", "arguments": {"n": n}} for n in range(calls)]
    first = node("understand", [])
    nodes = [first, node("gather", [first["id"]], [search, *looks])]
    steps = [node("derive", [nodes[1]["id"]], None, nth=n) for n in range(1 + claims // CLAIMS_A_STEP)]
    verify = node("verify", [each["id"] for each in steps])
    nodes += [*steps, verify, node("finalize", [verify["id"]])]
    lines = Lines()
    forge = Forge(nodes=nodes, searched=False)
    forge.understood()
    evidence = _gather(forge, lines, calls, pieces)
    derived = _derive(forge, lines, evidence, claims, len(steps))
    forge.nodes = [*nodes[:3], *nodes[-2:]]
    forge.concluded(derived)
    _flush(forge, lines)
    files = _sealed(nodes, lines, [each["id"] for each in evidence], derived["structured"]["result_sha256"])
    bodies = {path: data for path, data in forge.files.items() if data is not None}
    files |= bodies
    apart = ("run_meta.json", "fingerprint.txt")
    files["manifest.json"] = canonical({path: digest(data) for path, data in files.items() if path not in apart})
    return files, len(lines.written)


def _flush(forge: Forge, lines: Lines) -> None:
    for event in forge.events:
        lines.put(event)
    forge.events.clear()


def _gather(forge: Forge, lines: Lines, calls: int, pieces: int) -> list[Event]:
    forge.start(1)
    offered = []
    for n in range(pieces):
        text = f"piece {n}"
        sha = digest(text.encode())
        offered.append({"chunk_id": sha, "span": [0, len(text)], "text": text, "uri": f"mem://{n}"})
    forge.put("tool_returned", 1, result={
        "call_id": forge.call(1, 0)["id"], "success": True, "result": {"evidences": offered}, "error": None,
    })  # fmt: skip
    evidence = [forge.register(1, piece) for piece in offered]
    _flush(forge, lines)
    for n in range(calls):
        call = forge.call(1, n + 1)
        forge.put("tool_returned", 1, result={"call_id": call["id"], "success": True, "result": n, "error": None})
        _flush(forge, lines)
    forge.gathered(evidence)
    _flush(forge, lines)
    return evidence


def _derive(forge: Forge, lines: Lines, evidence: list[Event], claims: int, steps: int) -> Event:
    made = 0
    derived: Event = None
    for step in range(2, 2 + steps):
        forge.start(step)
        ids = []
        if derived is None:
            derived = forge.claim(step, "Two pieces.", [forge.cite(evidence[0], 0, 5), forge.cite(evidence[1], 0, 5)])
            ids.append(derived["id"])
        while made < claims and len(ids) < CLAIMS_A_STEP:
            each = evidence[made % len(evidence)]
            cited = [support("evidence", each["id"], forge.files[each["content_path"]] or b"", 0, 5)]
            claim = forge.claim(step, f"Seen {made}.", cited, claim_type="observed", structured=None)
            ids.append(claim["id"])
            made += 1
            _flush(forge, lines)
        forge.finish(step, claim_ids=ids, type="derive")
        _flush(forge, lines)
    return derived


def _sealed(nodes: list[Event], lines: Lines, order: list[str], result: str) -> dict[str, bytes]:
    spec: Event = {
        "description": "q",
        "constraints": {},
        "expected_output_type": "Claim",
        "expected": None,
        "version": 1,
    }
    spec["id"] = named("spec", spec)
    plan: Event = {"problem": "q", "spec_id": spec["id"], "nodes": nodes, "edges": []}
    plan["id"] = named("plan", plan)
    descriptor: Event = {"kind": "Forged", "mode": "live", "tools": []}
    fingerprint = digest(canonical(descriptor))
    checksum = digest(canonical({"plan": plan, "evidence_order": order, "runtime_descriptor": descriptor}))
    told = {"question": "q", "evidence_ids": order, "result_sha256": result, "reasoning_trace_sha256": result}
    rest: Event = {
        "fingerprint_algo": "sha256",
        "metadata": {
            "run_meta": {"seed": 0, "runtime_kind": "Forged", "mode": "live"},
            "reasoning_policy": {"min_supports_per_claim": 2},
            "runtime_fingerprint": fingerprint,
            "invariant_checksum": checksum,
            "reasoning_trace": told,
        },
        "plan_id": plan["id"],
        "runtime_protocol_version": 1,
        "schema_version": 1,
        "spec_id": spec["id"],
    }
    lines.sum.update(b"]," + canonical(rest)[1:])
    name = f"trace_v1_{lines.sum.hexdigest()}"
    header = {"record": "trace_header", "id": name, "canonicalization_version": 1, **rest}
    trace = canonical(header) + b"\n" + b"".join(lines.written)
    meta: Event = {"spec_id": spec["id"], "plan_id": plan["id"], "trace_id": name, "preset": "rar", "seed": 0,
                   "runtime": {"kind": "Forged", "mode": "live"}, "runtime_descriptor": descriptor,
                   "runtime_fingerprint": fingerprint, "invariant_checksum": checksum, "schema_version": 1,
                   "producer_version": "0.1.0"}  # fmt: skip
    meta["run_id"] = named("run", {k: meta[k] for k in ("spec_id", "preset", "seed", "runtime_fingerprint")})
    recorded: Event = {"checks": [], "failures": []}
    recorded |= {"id": digest(canonical(recorded)), "trace_id": None}
    recorded["summary_metrics"] = {"failures": 0, "checks_failed": 0, "checks_total": 0}
    files = {"spec.json": spec, "plan.json": plan, "verify.json": recorded, "run_meta.json": meta}
    return {**{path: canonical(value) for path, value in files.items()}, "trace.jsonl": trace,
            "fingerprint.txt": f"{digest(trace)}\n".encode()}  # fmt: skip


def measured(files: dict[str, bytes]) -> tuple[int, Any]:
    """The most memory, in bytes, that checking these files takes beside them; and the report."""
    from readback.traces import verify_trace

    trace, plan, folder = files["trace.jsonl"], files["plan.json"], MemoryFolder(files)
    tracemalloc.start()
    try:
        report = verify_trace(trace, plan, folder)
        return tracemalloc.get_traced_memory()[1], report
    finally:
        tracemalloc.stop()


def main(asked: Iterator[str]) -> None:
    from readback.traces import verify_trace

    files, events = long_run(int(next(asked)))
    start = time.perf_counter()
    passed = verify_trace(files["trace.jsonl"], files["plan.json"], MemoryFolder(files)).passed
    seconds = time.perf_counter() - start
    peak, _ = measured(files)
    told = {"events": events, "passed": passed, "trace_bytes": len(files["trace.jsonl"]), "seconds": round(seconds, 1)}
    print(json.dumps({**told, "peak_bytes": peak, "bytes_an_event": round(peak / events, 1)}))  # noqa: T201


if __name__ == "__main__":
    main(iter(sys.argv[1:]))
