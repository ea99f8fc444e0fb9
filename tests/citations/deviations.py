"""One run for each code: all of it sealed anew, but for the one thing that the code is about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.citations.forging import (
    Event,
    Forge,
    canonical,
    chain,
    honest,
    named,
    node,
    pleading,
    reseal,
    result_hash,
    support,
)

Deviation = Callable[[Path], None]
CASES: dict[str, list[Deviation]] = {}


def case(code: str, make: Callable[[], Forge]) -> None:
    """A run that is written as it stands."""
    CASES.setdefault(code, []).append(lambda folder: (make().write(folder), None)[1])


def altered(code: str, alter: Callable[[Forge], object], make: Callable[[], Forge] = honest) -> None:
    """An honest run, altered before it is sealed."""

    def build() -> Forge:
        forge = make()
        alter(forge)
        return forge

    case(code, build)


def afterwards(code: str, change: Callable[[Path], object], *, sealed: bool = True) -> None:
    """An honest run whose files are changed; manifest and fingerprint are made anew, or left."""

    def deviate(folder: Path) -> None:
        honest().write(folder)
        change(folder)
        if sealed:
            reseal(folder)

    CASES.setdefault(code, []).append(deviate)


def of(forge: Forge, kind: str, nth: int = 0) -> Event:
    return [event for event in forge.events if event["kind"] == kind][nth]


def drop(forge: Forge, kind: str, nth: int = 0) -> None:
    forge.events.remove(of(forge, kind, nth))


def output(forge: Forge, kind: str) -> Event:
    found = [event["output"] for event in forge.events if event["kind"] == "step_finished"]
    return next(each for each in found if each["type"] == kind)


def claim(forge: Forge) -> Event:
    return dict(of(forge, "claim_emitted")["claim"])


def renamed(forge: Forge, **changed: Any) -> None:
    """The claim otherwise, with its own id and its result's hash, wherever they are told."""
    was = of(forge, "claim_emitted")["claim"]
    made = {**was, **changed}
    if "structured" not in changed and made["claim_type"] == "derived":
        made["structured"] = {"result_sha256": result_hash(made)}
    made["id"] = named("claim", {k: v for k, v in made.items() if k != "id"})
    of(forge, "claim_emitted")["claim"] = made
    for event in forge.events:
        if event["kind"] == "step_finished":
            out = event["output"]
            for key in [k for k in out if k.endswith("claim_ids")]:
                out[key] = [made["id"] if each == was["id"] else each for each in out[key]]
            if out.get("final_answer") == was["statement"]:
                out["final_answer"] = made["statement"]


def rewritten(path: str, change: Callable[[Any], object]) -> Callable[[Path], object]:
    """A JSON file (its last line, where it has several) changed in place."""
    import json

    def apply(folder: Path) -> None:
        *head, last = (folder / path).read_bytes().rstrip(b"\n").split(b"\n")
        value = json.loads(last)
        change(value)
        (folder / path).write_bytes(b"\n".join([*head, canonical(value)]) + b"\n")

    return apply


def _swap(forge: Forge, first: int, second: int) -> None:
    forge.events[first], forge.events[second] = forge.events[second], forge.events[first]


def _second_branch() -> Forge:
    """A plan whose last step waits, by an edge, for one that is run after it."""
    nodes = chain()
    nodes.append(node("understand", [], late=True))
    forge = honest(nodes=nodes, edges=[[nodes[5]["id"], nodes[4]["id"]]])
    forge.start(5)
    forge.finish(5, normalized_question="q", assumptions=[], task_type="generic")
    return forge


def _two_derived() -> Forge:
    forge = honest()
    first = claim(forge)
    more = Forge(nodes=forge.nodes, files=dict(forge.files))
    second = more.claim(2, "Another text.", first["supports"])
    at = forge.events.index(of(forge, "claim_emitted"))
    forge.events.insert(at + 1, more.events[0])
    output(forge, "derive")["claim_ids"].append(second["id"])
    return forge


def _claimed(forge: Forge, supports: list[Event], **otherwise: Any) -> Event:
    """One more claim, beside the derived one, in the same step."""
    more = Forge(nodes=forge.nodes, files=dict(forge.files))
    made = more.claim(2, "Aside.", supports, claim_type="observed", **otherwise)
    forge.events.insert(forge.events.index(of(forge, "claim_emitted")) + 1, more.events[0])
    output(forge, "derive")["claim_ids"].append(made["id"])
    return made


def _failed(forge: Forge) -> None:
    of(forge, "tool_returned")["result"]["success"] = False


def _twice(kind: str) -> Callable[[Forge], object]:
    def again(forge: Forge) -> None:
        event = of(forge, kind)
        forge.events.insert(forge.events.index(event) + 1, dict(event))

    return again


def _final(forge: Forge, **changed: Any) -> None:
    output(forge, "finalize").update(changed)


def _rejected(forge: Forge) -> None:
    out = output(forge, "verify")
    out["rejected_claim_ids"], out["validated_claim_ids"] = out["validated_claim_ids"], []


def _long(forge: Forge) -> None:
    supports = claim(forge)["supports"]
    longer = [{**supports[0], "span": [0, 4000]}, supports[1]]
    text = "Both."
    for each in longer:
        text += f" [evidence:{each['ref_id']}:{each['span'][0]}-{each['span'][1]}:{each['snippet_sha256']}]"
    renamed(forge, supports=longer, statement=text)


def _other_span(forge: Forge) -> None:
    supports = claim(forge)["supports"]
    moved = [{**supports[0], "span": [1, 22]}, supports[1]]
    text = "Both."
    for each in moved:
        text += f" [evidence:{each['ref_id']}:{each['span'][0]}-{each['span'][1]}:{each['snippet_sha256']}]"
    renamed(forge, supports=moved, statement=text)


def _one_support(forge: Forge) -> None:
    kept = claim(forge)["supports"][:1]
    each = kept[0]
    text = f"One. [evidence:{each['ref_id']}:{each['span'][0]}-{each['span'][1]}:{each['snippet_sha256']}]"
    renamed(forge, supports=kept, statement=text)


def _no_support(forge: Forge) -> None:
    renamed(forge, supports=[], statement="Nothing is cited.")


NOWHERE = "0" * 64


def _offering(change: Callable[[Event], object]) -> Callable[[Forge], object]:
    return lambda forge: change(of(forge, "tool_returned")["result"]["result"]["evidences"][0])


# of the forms
altered("schema.plan", lambda f: f.nodes[0].update(more=1))
altered("schema.header", lambda f: f.header.update(more=1))
altered("schema.event", lambda f: of(f, "tool_called")["call"].update(more=1))
altered("schema.event", lambda f: renamed(f, status="perhaps"))
altered("schema.version", lambda f: f.header.update(schema_version=3))
altered("schema.version", lambda f: f.header.update(fingerprint_algo="md5"))
altered("schema.spec", lambda f: f.spec.update(more=1))
altered("schema.run-meta", lambda f: f.meta.update(schema_version=2))
altered(
    "schema.verify", lambda f: f.recorded.update(summary_metrics={"failures": 1, "checks_failed": 0, "checks_total": 1})
)
altered("event.index", lambda f: _numbered_by_hand(f))
altered("event.outside-step", lambda f: _swap(f, 3, 2))
# of the plan
case("plan.duplicate-node", lambda: honest(nodes=[*chain(), chain()[0]]))
case("plan.unknown-node", lambda: honest(edges=[[chain()[0]["id"], named("node", "nobody")]]))
case("plan.cycle", lambda: honest(edges=[[chain()[4]["id"], chain()[0]["id"]]]))
altered("step.unknown", lambda f: of(f, "step_started").update(step_id=named("node", "nobody")))
case("step.before-dependency", _second_branch)
altered("step.started-twice", _twice("step_started"))
altered("step.unstarted", lambda f: drop(f, "step_started", 3))
altered("step.finished-twice", _twice("step_finished"))
altered("step.unfinished", lambda f: drop(f, "step_finished", 3))
case("step.never-run", lambda: honest(nodes=[*chain(), node("gather", [])]))
altered("step.other-output", lambda f: of(f, "step_finished", 3).update(output=of(f, "step_finished")["output"]))
altered("step.required-missing", lambda f: drop(f, "step_finished", 3))
altered("finalize.missing", lambda f: drop(f, "step_finished", 4))
# of tools
altered("call.duplicate", _twice("tool_called"))
altered("call.unanswered", lambda f: drop(f, "tool_returned"))
case("call.unplanned", lambda: _unplanned())
case("call.left-out", lambda: honest(nodes=chain(2)))
altered("call.other-step", lambda f: of(f, "tool_returned").update(step_id=f.nodes[0]["id"]))
altered("result.unknown-call", lambda f: of(f, "tool_returned")["result"].update(call_id=named("call", "nobody")))
altered("result.second", _twice("tool_returned"))
altered("result.contradiction", lambda f: of(f, "tool_returned")["result"].update(error="it broke"))
# of evidence
altered("evidence.duplicate", _twice("evidence_registered"))
altered("evidence.path", lambda f: of(f, "evidence_registered")["evidence"].update(content_path="../spec.json"))
altered("evidence.path", lambda f: of(f, "evidence_registered")["evidence"].update(content_path=""))
altered("evidence.missing", lambda f: f.files.update({of(f, "evidence_registered")["evidence"]["content_path"]: None}))
altered("evidence.hash", lambda f: f.files.update({of(f, "evidence_registered")["evidence"]["content_path"]: b"other"}))
altered("evidence.failed-call", _failed)
altered("evidence.no-call", lambda f: _without(f, "tool_called", "tool_returned"))
altered("evidence.not-in-result", lambda f: of(f, "tool_returned")["result"]["result"].update(evidences=[]))
altered("evidence.not-in-result", lambda f: of(f, "tool_returned")["result"]["result"]["evidences"].reverse())
altered("evidence.left-out", lambda f: drop(f, "evidence_registered", 1))
altered("evidence.list", lambda f: output(f, "gather")["evidence_ids"].reverse())
altered("evidence.list", lambda f: output(f, "gather").update(evidence_ids=[]))
# of spans
altered("span.document", lambda f: _moved(f, span=[0, 51]))
altered("span.document", lambda f: _moved(f, chunk_id=NOWHERE))
altered("span.document", lambda f: _moved(f, uri="corpus:nothing"))
altered("span.chunk", lambda f: f.files.update({"provenance/chunks.jsonl": b""}))
altered("span.bounds", _long)
altered("span.hash", _other_span)
altered("span.no-bytes", lambda f: f.files.update({of(f, "evidence_registered")["evidence"]["content_path"]: None}))
# of claims
altered("claim.duplicate", _twice("claim_emitted"))
altered("support.unknown-claim", lambda f: _claimed(f, [support("claim", named("claim", "nobody"), b"text", 0, 4)]))
altered("support.unknown-evidence", lambda f: _claimed(f, [support("evidence", named("ev", "nobody"), b"text", 0, 4)]))
altered("support.unknown-call", lambda f: _claimed(f, [support("tool_call", named("call", "nobody"), b"text", 0, 4)]))
altered("support.failed-call", lambda f: _cites_failed_call(f))
altered("span.hash", lambda f: _claimed(f, [support("claim", claim(f)["id"], b"Neither", 0, 7)]))
altered("grounding.no-evidence", _no_support)
altered("grounding.too-few", _one_support)
altered("grounding.marker-missing", lambda f: renamed(f, statement="No marker at all."))
altered(
    "grounding.marker-extra", lambda f: renamed(f, statement=claim(f)["statement"] + f" [evidence:x:0-1:{NOWHERE}]")
)
altered("grounding.marker-malformed", lambda f: renamed(f, statement=claim(f)["statement"] + " [evidence:d1]"))
altered("reasoning.missing", lambda f: f.metadata.update(reasoning_trace=...))
altered("reasoning.no-hash", lambda f: renamed(f, structured={}))
case("reasoning.several", _two_derived)
altered(
    "reasoning.differs",
    lambda f: f.metadata.update(
        reasoning_trace={
            "question": "another",
            "evidence_ids": [],
            "result_sha256": NOWHERE,
            "reasoning_trace_sha256": NOWHERE,
        }
    ),
)
altered("insufficient.neither", lambda f: renamed(f, claim_type="observed", structured=None))
altered("insufficient.both", lambda f: _plea(f))
altered(
    "insufficient.counts",
    lambda f: next(e["output"] for e in f.events if e.get("output", {}).get("type") == "insufficient_evidence").update(
        retrieved=1
    ),
    pleading,
)
altered("outcome.unknown-claim", lambda f: output(f, "verify").update(rejected_claim_ids=[named("claim", "nobody")]))
altered("outcome.unknown-claim", lambda f: output(f, "finalize")["final_claim_ids"].append(named("claim", "nobody")))
altered("outcome.twice", lambda f: output(f, "verify")["validated_claim_ids"].append(claim(f)["id"]))
altered("outcome.twice", lambda f: output(f, "finalize")["final_claim_ids"].append(claim(f)["id"]))
altered("outcome.derived-list", lambda f: output(f, "derive").update(claim_ids=[]))
altered(
    "outcome.contradiction",
    lambda f: output(f, "verify").update(rejected_claim_ids=output(f, "verify")["validated_claim_ids"]),
)
altered("outcome.unsupported", _no_support)
altered("final.rejected", _rejected)
altered("final.rejected", lambda f: renamed(f, status="rejected"))
altered("final.unsupported", _no_support)
altered("final.not-validated", lambda f: output(f, "verify").update(validated_claim_ids=[]))
altered("final.answer", lambda f: _final(f, final_answer="Something else."))
altered("final.answer", lambda f: _final(f, final_answer=None))
# of ids and bindings
altered("id.spec", lambda f: f.spec.update(id=named("spec", "other")))
altered("id.plan", lambda f: f.plan.update(id=named("plan", "other")))
case("id.node", lambda: honest(nodes=_misnamed()))
altered("id.call", lambda f: of(f, "tool_called")["call"].update(arguments={"query": "another"}))
altered("id.evidence", lambda f: of(f, "evidence_registered")["evidence"].update(uri="corpus://d9#0-52"))
altered("id.claim", lambda f: of(f, "claim_emitted")["claim"].update(confidence=1))
altered("id.result", lambda f: renamed(f, structured={"result_sha256": NOWHERE}))
altered("id.trace", lambda f: f.header.update(id=named("trace", "other")))
altered("id.run", lambda f: f.meta.update(preset="other"))
altered("id.runtime", lambda f: f.meta.update(runtime_fingerprint=NOWHERE))
altered("id.invariants", lambda f: f.meta.update(invariant_checksum=NOWHERE))
altered("id.invariants", lambda f: f.metadata.update(invariant_checksum=NOWHERE))
altered("id.verify", lambda f: f.recorded.update(id=NOWHERE))
altered("id.config", lambda f: f.metadata.update(retrieval_provenance={**f.retrieval(), "k1": 9.5}))
altered("bind.differs", lambda f: f.plan.update(problem="another"))
altered("bind.differs", lambda f: f.header.update(plan_id=named("plan", "other")))
altered("bind.differs", lambda f: f.header.update(spec_id=named("spec", "other")))
altered("bind.differs", lambda f: f.meta.update(seed=1))
altered("bind.differs", lambda f: f.recorded.update(trace_id=named("trace", "other")))
altered("bind.missing", lambda f: f.files.update({"run_meta.json": None}))
altered("policy.declared", lambda f: f.metadata.update(reasoning_policy={"min_supports_per_claim": 1}))
# of files
altered("provenance.missing", lambda f: f.files.update({"provenance/corpus.jsonl": None}))
altered("provenance.missing", lambda f: f.metadata.update(retrieval_provenance=...))
altered("provenance.malformed", lambda f: f.files.update({"provenance/chunks.jsonl": b"{}\n"}))
altered("provenance.malformed", _offering(lambda piece: piece.pop("text")))
altered("provenance.hash", lambda f: f.files.update({"provenance/corpus.jsonl": f.corpus() + f.corpus()}))
altered("provenance.hash", _offering(lambda piece: piece.update(chunk_sha256=NOWHERE)))
altered("provenance.differs", lambda f: output(f, "gather").update(retrieval_provenance={}))
altered("provenance.differs", lambda f: f.files.update({"provenance/retrieval_provenance.json": b"{}"}))
afterwards("manifest.missing", lambda d: (d / "manifest.json").unlink(), sealed=False)
afterwards("manifest.malformed", lambda d: (d / "manifest.json").write_text('{"a": 1}'), sealed=False)
afterwards("manifest.malformed", lambda d: (d / "manifest.json").write_text("[1]"), sealed=False)
afterwards("manifest.unbound", lambda d: (d / "manifest.json").write_text("{}"), sealed=False)
afterwards("manifest.unbound", lambda d: (d / "evidence" / "more.txt").write_text("x"), sealed=False)
afterwards("manifest.hash", lambda d: (d / "spec.json").write_text("{}"), sealed=False)
altered("manifest.no-file", lambda f: f.manifest.update({"evidence/nobody.txt": NOWHERE}))
altered("manifest.path", lambda f: f.manifest.update({"../outside": NOWHERE}))
afterwards("fingerprint.missing", lambda d: (d / "fingerprint.txt").unlink(), sealed=False)
afterwards("fingerprint.differs", lambda d: (d / "fingerprint.txt").write_text(NOWHERE + "\n"), sealed=False)
afterwards("evidence.unreadable", lambda d: _linked(next((d / "evidence").iterdir())), sealed=False)


def _numbered_by_hand(forge: Forge) -> None:
    forge.numbered = False
    for event in forge.events:
        event["idx"] = 7


def _without(forge: Forge, *kinds: str) -> None:
    for kind in kinds:
        drop(forge, kind)


def _cites_failed_call(forge: Forge) -> None:
    _failed(forge)
    _claimed(forge, [support("tool_call", of(forge, "tool_called")["call"]["id"], b"{", 0, 1)])


def _unplanned() -> Forge:
    forge = honest()
    forge.plan["nodes"] = [{**each, "step": {**each["step"], "tool_requests": []}} for each in forge.nodes]
    return forge


def _misnamed() -> list[Event]:
    nodes = chain()
    nodes[4]["parameters"] = {"preset": "other"}
    return nodes


def _linked(file: Path) -> None:
    file.rename(file.parent.parent / "kept")
    file.symlink_to(file.parent.parent / "kept")


def _moved(forge: Forge, **changed: Any) -> None:
    """The first piece of evidence told otherwise, by the result and by its own id alike."""
    piece = of(forge, "tool_returned")["result"]["result"]["evidences"][0]
    piece.update(changed)
    if "span" in changed:
        piece["chunk_span"] = changed["span"]
    evidence = of(forge, "evidence_registered")["evidence"]
    evidence.update({key: piece[key] for key in ("uri", "span", "chunk_id")})


def _plea(forge: Forge) -> None:
    event = of(forge, "step_finished", 2)
    event["output"] = {"type": "insufficient_evidence", "reason": "too little", "retrieved": 2, "required": 2}
