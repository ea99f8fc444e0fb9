"""One pass over a trace: lines in order, each event to its folds, each id recomputed.

A kept event takes a row of about sixty bytes, so a trace may be long. `verify` runs the pass between the files of the
run. The pass never looks ahead.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from readback.traces.artifacts import Artifacts
from readback.traces.fold.claims import ASSUMED, DERIVED, MARKED, REJECTED, SUPPORTED, VALIDATED, Claims
from readback.traces.fold.evidence import Evidence
from readback.traces.fold.steps import OpenStep, Steps
from readback.traces.fold.tools import Tools
from readback.traces.format.event_forms import event_of
from readback.traces.format.fault import EVENTS_MAX, LINE_MAX_BYTES
from readback.traces.format.forms import HEADER, INSUFFICIENT, SCHEMA_VERSIONS
from readback.traces.format.policy import Policy
from readback.traces.format.report import Findings, Place
from readback.traces.format.shapes import faults_of
from readback.traces.format.strict_json import Value, canonical, refused, strict_json
from readback.traces.plan import Plan
from readback.traces.provenance import Provenance

# What steps put out: lists of evidence and claims that are what they must be, and an answer that rests on them.


class Outcomes:
    """The outputs of the steps, in order."""

    __slots__ = ("_claims", "_evidence", "_findings", "_least", "_provenance", "pleaded")

    def __init__(self, claims: Claims, evidence: Evidence, provenance: Value, least: int, findings: Findings) -> None:
        self._claims = claims
        self._evidence = evidence
        self._provenance = provenance
        self._least = least
        self._findings = findings
        self.pleaded = False
        """Whether a step reported too little evidence."""

    def put_out(self, output: dict[str, Value], step: OpenStep | None, at: Place) -> None:
        """Take the output of a step."""
        kind = output["type"]
        if kind == "gather":
            self._gathered(output, at)
        elif kind == "derive":
            self._derived(output, step, at)
        elif kind == INSUFFICIENT:
            self._pleaded(output, step, at)
        elif kind == "verify":
            self._judged(output, at)
        elif kind == "finalize":
            self._final(output, at)

    def end(self, trace: Place) -> None:
        """Check the end: either a derived claim or a plea of too little evidence, with marks only under the plea."""
        if self.pleaded and self._claims.derived:
            self._findings.fail("insufficient.both", trace)
        if not self.pleaded and self._claims.marked:
            self._findings.fail("insufficient.mark-alone", trace)
        if not self.pleaded and not self._claims.derived:
            self._findings.fail("insufficient.neither", trace)
        self._findings.done("insufficient_reasoning", "claim_outcomes")

    def _gathered(self, output: dict[str, Value], at: Place) -> None:
        if not self._evidence.lists(output["evidence_ids"]):
            self._findings.fail("evidence.list", at.at("/evidence_ids"))
        told = output["retrieval_provenance"]
        if (told or len(self._evidence)) and canonical(told) != canonical(self._provenance or {}):
            self._findings.fail("provenance.differs", at.at("/retrieval_provenance"))

    def _derived(self, output: dict[str, Value], step: OpenStep | None, at: Place) -> None:
        rows = [self._claims.row(each) for each in output["claim_ids"]]
        if step is None or rows != list(step.claims):
            self._findings.fail("outcome.derived-list", at.at("/claim_ids"))

    def _pleaded(self, output: dict[str, Value], step: OpenStep | None, at: Place) -> None:
        self.pleaded = True
        there = len(self._evidence)
        if output["retrieved"] != there:
            self._findings.fail("insufficient.counts", at.at("/retrieved"), f"{there} were registered.")
        if output["required"] != self._least:
            self._findings.fail("insufficient.counts", at.at("/required"), f"The run declares {self._least}.")
        if output["retrieved"] >= output["required"]:
            self._findings.fail("insufficient.counts", at, "There was as much as was required.")

    def _judged(self, output: dict[str, Value], at: Place) -> None:
        flags = self._claims.flags
        for name, flag in (
            ("rejected_claim_ids", REJECTED),
            ("missing_support_claim_ids", REJECTED),
            ("validated_claim_ids", VALIDATED),
        ):
            self._once(output[name], at.at(f"/{name}"))
            for index, each in enumerate(output[name]):
                row = self._claims.row(each)
                here = at.at(f"/{name}/{index}")
                if row < 0:
                    self._findings.fail("outcome.unknown-claim", here)
                    continue
                if flag == VALIDATED and not flags[row] & (SUPPORTED | ASSUMED):
                    self._findings.fail("outcome.unsupported", here)
                flags[row] |= flag
                if flags[row] & VALIDATED and flags[row] & REJECTED:
                    self._findings.fail("outcome.contradiction", here)

    def _once(self, ids: list[str], at: Place) -> None:
        if len(set(ids)) != len(ids):
            self._findings.fail("outcome.twice", at)

    def _final(self, output: dict[str, Value], at: Place) -> None:
        rows = set()
        self._once(output["final_claim_ids"], at.at("/final_claim_ids"))
        for index, each in enumerate(output["final_claim_ids"]):
            row = self._claims.row(each)
            here = at.at(f"/final_claim_ids/{index}")
            if row < 0:
                self._findings.fail("outcome.unknown-claim", here)
                continue
            rows.add(row)
            flags = self._claims.flags[row]
            if flags & REJECTED:
                self._findings.fail("final.rejected", here)
            if flags & MARKED or (flags & DERIVED and not flags & SUPPORTED):
                self._findings.fail("final.unsupported", here)
            if not flags & VALIDATED:
                self._findings.fail("final.not-validated", here)
        answer = output["final_answer"]
        if answer is not None and not any(self._claims.statement(row) == answer for row in rows):
            self._findings.fail("final.answer", at.at("/final_answer"))
        if answer is None and rows:
            self._findings.fail("final.answer", at.at("/final_answer"), "There are final claims.")


FILE: Final = "trace.jsonl"
_SUPPORTED: Final = {
    "runtime_protocol_version": (1,),
    "schema_version": SCHEMA_VERSIONS,
    "fingerprint_algo": ("sha256",),
    "canonicalization_version": (1,),
}


def lines_of(trace: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, offset and bytes of each line. Raises TraceInputError for an oversized line."""
    start, number, size = 0, 0, len(trace)
    while start < size:
        end = trace.find(b"\n", start)
        end = size if end < 0 else end
        number += 1
        if end - start > LINE_MAX_BYTES or number > EVENTS_MAX:
            raise refused("too-large", f"{FILE}:{number}", f"a line of {end - start} bytes, over {LINE_MAX_BYTES}")
        yield number, start, trace[start:end].removesuffix(b"\r")
        start = end + 1


def read_header(line: bytes, findings: Findings) -> dict[str, Value] | None:
    """Return the trace's first line, or None if malformed. Raises TraceInputError."""
    value = strict_json(line, f"{FILE}:1", bytes_max=LINE_MAX_BYTES)
    place = Place(FILE, 1)
    faults = faults_of(value, HEADER)
    for fault in faults:
        findings.fail("schema.header", place.at(fault.pointer), fault.said)
    if faults:
        return None
    for key, known in _SUPPORTED.items():
        if value[key] not in known:
            findings.fail("schema.version", place.at(f"/{key}"))
    made: dict[str, Value] = value
    return made


class Fold:
    """The state of a trace so far."""

    def __init__(
        self,
        trace: bytes,
        header: dict[str, Value],
        plan: Plan,
        policy: Policy,
        artifacts: Artifacts | None,
        provenance: Provenance,
        findings: Findings,
    ) -> None:
        metadata = header["metadata"]
        declared = metadata["reasoning_policy"]["min_supports_per_claim"]
        least = max(policy.min_supports_per_claim, declared)
        self._header = header
        self._plan = plan
        self._findings = findings
        self._count = 0
        self._steps = Steps(plan, findings)
        self._tools = Tools(plan, findings)
        self._evidence = Evidence(artifacts, provenance, findings)
        self._claims = Claims(trace, self._tools, self._evidence, policy, least, findings)
        self._documents = provenance
        self._provenance = metadata.get("retrieval_provenance")
        self._outcomes = Outcomes(self._claims, self._evidence, self._provenance, declared, findings)
        self._id = sha256(b'{"canonicalization_version":' + canonical(header["canonicalization_version"]))
        self._id.update(b',"events":[')
        self._order = sha256(b'{"evidence_order":[')

    def take(self, number: int, offset: int, line: bytes) -> None:
        """Take the next event. Raises TraceInputError for a line without JSON."""
        value = strict_json(line, f"{FILE}:{number}", bytes_max=LINE_MAX_BYTES)
        place = Place(FILE, number)
        event, faults = event_of(value)
        self._id.update(b"," if self._count else b"")
        if event is not None:
            self._id.update(canonical(event))
        index, self._count = self._count, self._count + 1
        for fault in faults:
            self._findings.fail("schema.event", place.at(fault.pointer), fault.said)
        if faults:
            return
        at = place.at("/event")
        if event["idx"] != index:
            self._findings.fail("event.index", at.at("/idx"), f"{index} is next.")
        self._handed(event, at, offset)

    def _handed(self, event: dict[str, Value], at: Place, offset: int) -> None:
        match event["kind"]:
            case "step_started":
                self._steps.started(event, at)
            case "step_finished":
                step = self._steps.finished(event, at)
                self._outcomes.put_out(event["output"], step, at.at("/output"))
            case "tool_called":
                self._tools.called(event, self._steps.open(event, at), at)
            case "tool_returned":
                self._returned(event, at, offset)
            case "evidence_registered":
                new = self._evidence.registered(event, self._steps.open(event, at), at)
                first = new and len(self._evidence) == 1
                self._order.update((b"" if first else b",") + canonical(event["evidence"]["id"]))
            case _:
                self._claims.emitted(event, self._steps.open(event, at), at, offset)

    def _returned(self, event: dict[str, Value], at: Place, offset: int) -> None:
        step = self._steps.open(event, at)
        self._steps.all_registered(step, at)
        self._tools.returned(event, step, at, offset)
        result = event["result"]["result"]
        if not isinstance(result, dict) or not isinstance(result.get("evidences"), list):
            return
        for index, piece in enumerate(result["evidences"]):
            self._documents.check_piece(piece, at.at(f"/result/result/evidences/{index}"), self._findings)
        if "provenance" in result and canonical(result["provenance"]) != canonical(self._provenance):
            self._findings.fail("provenance.differs", at.at("/result/result/provenance"))

    def end(self) -> None:
        """Take the end of the trace: check the id and every fact about the whole."""
        trace = Place(FILE)
        self._findings.figures["events"] = self._count
        apart = ("id", "record", "canonicalization_version")
        rest = {key: value for key, value in self._header.items() if key not in apart}
        self._id.update(b"]," + canonical(rest)[1:])
        if f"trace_v1_{self._id.hexdigest()}" != self._header["id"]:
            self._findings.fail("id.trace", Place(FILE, 1, "/id"))
        self._steps.end(trace)
        self._tools.end()
        self._evidence.end()
        self._claims.end()
        self._outcomes.end(trace)
        self._reasoning()
        self._findings.done("core_invariants")

    def checksum(self, descriptor: Value) -> str:
        """Return the format's checksum over evidence, plan and runtime."""
        whole = self._order.copy()
        whole.update(b'],"plan":' + self._plan.written + b',"runtime_descriptor":' + canonical(descriptor) + b"}")
        return whole.hexdigest()

    def _reasoning(self) -> None:
        """Check the header's reasoning against the single derived claim."""
        told, place = self._header["metadata"].get("reasoning_trace"), Place(FILE, 1, "/metadata/reasoning_trace")
        results = self._claims.results
        if len(results) > 1:
            self._findings.fail("reasoning.several", place)
        if told is None and self._claims.derived:
            self._findings.fail("reasoning.missing", place)
        if told is not None:
            if not self._claims.derived and not self._claims.marked:
                self._findings.fail("reasoning.differs", place, "There is no derived claim.")
            for key in ("result_sha256", "reasoning_trace_sha256"):
                if results and told[key] not in results:
                    self._findings.fail("reasoning.differs", place.at(f"/{key}"))
            if told["result_sha256"] != told["reasoning_trace_sha256"]:
                self._findings.fail("reasoning.differs", place, "Its two hashes differ.")
            if told["question"] != self._plan.problem:
                self._findings.fail("reasoning.differs", place.at("/question"))
            if not self._evidence.lists(told["evidence_ids"]):
                self._findings.fail("evidence.list", place.at("/evidence_ids"))
        self._findings.done("reasoning_trace")
