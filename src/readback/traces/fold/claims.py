"""Claims: every support resolved to bytes, every derived claim grounded by citations. One of the folds of a trace.

The span of a support counts within its kind's bytes: the file of the evidence, the text of the claim (UTF-8), or the
canonical JSON of the call's result. Spans of different kinds are never compared.
"""

from __future__ import annotations

import re
from array import array
from typing import Final, NamedTuple

from readback.canon import sha256_hex
from readback.traces.digest_rows import DigestRows
from readback.traces.fold.evidence import Evidence
from readback.traces.fold.steps import OpenStep
from readback.traces.fold.tools import Tools, key_of
from readback.traces.format import shapes
from readback.traces.format.event_forms import CLAIM_STATUSES, event_of
from readback.traces.format.fault import CITED_MAX_BYTES, LINE_MAX_BYTES
from readback.traces.format.policy import Policy
from readback.traces.format.report import Findings, Place, shown
from readback.traces.format.strict_json import Value, canonical, strict_json

# Citation markers in a text: `[evidence:ID:B0-B1:SHA256]`, and what only looks like one.

_OPENING: Final = re.compile(r"\[\s*evidence\s*:", re.IGNORECASE)
_MARKER: Final = re.compile(
    r"\[evidence:(?P<eid>[^:\]]{1,200}):(?P<b0>0|[1-9][0-9]{0,18})-(?P<b1>0|[1-9][0-9]{0,18}):(?P<sha>[0-9a-f]{64})\]"
)


class Citation(NamedTuple):
    """Bytes of one piece of evidence, counted in the evidence's file, and their hash."""

    evidence_id: str
    start: int
    end: int
    sha256: str


def citations(text: str) -> tuple[set[Citation], int]:
    """Return the markers of a text, and the number of malformed markers."""
    found = {Citation(hit["eid"], int(hit["b0"]), int(hit["b1"]), hit["sha"]) for hit in _MARKER.finditer(text)}
    whole = {hit.start() for hit in _MARKER.finditer(text)}
    malformed = sum(hit.start() not in whole for hit in _OPENING.finditer(text))
    return found, malformed


DERIVED: Final = 1
MARKED: Final = 2
SUPPORTED: Final = 4
ASSUMED: Final = 8
REJECTED: Final = 16
VALIDATED: Final = 32
_RESULTS_KEPT_MAX: Final = 2
_PARSING: Final = 8
"""The cost of a parsed byte in units of a hashed byte."""


class Claims:
    """Every claim of the trace, in sixty bytes each. The texts stay in the trace."""

    __slots__ = (
        "_evidence",
        "_findings",
        "_least",
        "_left",
        "_offsets",
        "_policy",
        "_rows",
        "_tools",
        "_trace",
        "derived",
        "flags",
        "marked",
        "results",
    )  # fmt: skip

    def __init__(
        self, trace: bytes, tools: Tools, evidence: Evidence, policy: Policy, least: int, findings: Findings
    ) -> None:
        self._trace = trace
        self._tools = tools
        self._evidence = evidence
        self._policy = policy
        self._least = least
        self._findings = findings
        self._left = CITED_MAX_BYTES
        self._rows = DigestRows()
        self._offsets = array("Q")
        self.flags = bytearray()
        self.derived = 0
        """Derived claims without a mark."""
        self.marked = 0
        self.results: set[str] = set()
        """Declared hashes of the derived results. Two suffice to detect a contradiction."""

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, claim_id: str) -> int:
        """Return the number of a claim, or -1."""
        return self._rows.find(key_of(claim_id))

    def statement(self, row: int) -> str:
        """Return the text of a claim."""
        return str(self._event(self._offsets[row])["claim"]["statement"])

    def emitted(self, event: dict[str, Value], step: OpenStep | None, place: Place, offset: int) -> None:
        """Take a claim event."""
        claim, at = event["claim"], place.at("/claim")
        if shapes.claim_id(claim) != claim["id"]:
            self._findings.fail("id.claim", at.at("/id"))
        if claim["status"] not in CLAIM_STATUSES and claim["status"] not in self._policy.insufficient_statuses:
            self._findings.fail("schema.event", place.at("/claim/status"), shown(claim["status"]))
        cited = self._supports(claim, at)
        self._ground(claim, cited, at)
        row, new = self._rows.add(key_of(claim["id"]))
        if not new:
            self._findings.fail("claim.duplicate", at.at("/id"))
            return
        self._offsets.append(offset)
        self.flags.append(self._flags(claim))
        if step is not None:
            step.claims.append(row)

    def end(self) -> None:
        """Take the end of the trace."""
        self._findings.figures["claims"] = len(self)
        self._findings.figures["derived_claims"] = self.derived + self.marked
        self._findings.done("claim_justifications", "derived_claim_grounding")

    def _flags(self, claim: dict[str, Value]) -> int:
        flags = SUPPORTED if claim["supports"] else 0
        flags |= ASSUMED if claim["claim_type"] == "assumed" else 0
        flags |= REJECTED if claim["status"] == "rejected" else 0
        flags |= MARKED if self._policy.marks(claim) else 0
        return flags | (DERIVED if claim["claim_type"] == "derived" else 0)

    def _ground(self, claim: dict[str, Value], cited: set[Citation], at: Place) -> None:
        """Check the grounds of a claim: equal sets of markers and supports, enough supports, and the hash of the
        result.
        """
        structured = claim["structured"] or {}
        if "result_sha256" in structured and structured["result_sha256"] != shapes.result_hash(claim):
            self._findings.fail("id.result", at.at("/structured/result_sha256"))
        marked, malformed = citations(claim["statement"])
        for _ in range(malformed):
            self._findings.fail("grounding.marker-malformed", at.at("/statement"))
        for each in sorted(marked - cited):
            self._findings.fail("grounding.marker-extra", at.at("/statement"), each.evidence_id)
        if claim["claim_type"] != "derived":
            return
        for each in sorted(cited - marked):
            self._findings.fail("grounding.marker-missing", at.at("/statement"), each.evidence_id)
        if self._policy.marks(claim):
            self.marked += 1
            return
        self.derived += 1
        if not cited:
            self._findings.fail("grounding.no-evidence", at.at("/supports"))
        elif len(cited) < self._least:
            self._findings.fail("grounding.too-few", at.at("/supports"), f"{len(cited)} of {self._least}.")
        if not shapes.is_hash(structured.get("result_sha256")):
            self._findings.fail("reasoning.no-hash", at.at("/structured"))
        elif len(self.results) < _RESULTS_KEPT_MAX:
            self.results.add(structured["result_sha256"])

    def _supports(self, claim: dict[str, Value], at: Place) -> set[Citation]:
        """Resolve every support. Return the supports with cited evidence."""
        cited: set[Citation] = set()
        for index, support in enumerate(claim["supports"]):
            here = at.at(f"/supports/{index}")
            start, end = support["span"]
            if support["kind"] == "evidence":
                cited.add(Citation(support["ref_id"], start, end, support["snippet_sha256"]))
            if self._left < 0:
                self._findings.fail("span.too-much", here)
                break
            found, data = self._bytes_of(support, here)
            if not found:
                continue
            self._left -= len(data or b"")
            if data is None:
                self._findings.fail("span.no-bytes", here.at("/ref_id"))
            elif end > len(data):
                self._findings.fail("span.bounds", here.at("/span"), f"There are {len(data)} bytes.")
            elif sha256_hex(data[start:end]) != support["snippet_sha256"]:
                self._findings.fail("span.hash", here.at("/snippet_sha256"))
        return cited

    def _bytes_of(self, support: dict[str, Value], at: Place) -> tuple[bool, bytes | None]:
        """Return whether a support names an earlier part, and the bytes of its span."""
        named = support["ref_id"]
        if support["kind"] == "evidence":
            row = self._evidence.row(named)
            if row < 0:
                self._findings.fail("support.unknown-evidence", at.at("/ref_id"))
            return row >= 0, self._evidence.data(row, named) if row >= 0 else None
        if support["kind"] == "claim":
            row = self.row(named)
            if row < 0:
                self._findings.fail("support.unknown-claim", at.at("/ref_id"))
            return row >= 0, self.statement(row).encode() if row >= 0 else None
        answered, succeeded, offset = self._tools.answer(named)
        if not answered:
            self._findings.fail("support.unknown-call", at.at("/ref_id"))
            return False, None
        if not succeeded:
            self._findings.fail("support.failed-call", at.at("/ref_id"))
        return True, canonical(self._event(offset)["result"]["result"])

    def _event(self, offset: int) -> Value:
        """Parse an event again from its line. The first reading checked the form."""
        end = self._trace.find(b"\n", offset)
        self._left -= _PARSING * ((end if end >= 0 else len(self._trace)) - offset)
        line = self._trace[offset : end if end >= 0 else len(self._trace)]
        return event_of(strict_json(line, "trace.jsonl", bytes_max=LINE_MAX_BYTES))[0]
