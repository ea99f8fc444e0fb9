"""What steps put out: lists of evidence and claims that are what they must be, and an answer that rests on them.

The last of the folds of a trace. A rejected, unsupported or unvalidated claim is never final.
"""

from __future__ import annotations

from readback.traces.fold.claims import ASSUMED, DERIVED, MARKED, REJECTED, SUPPORTED, VALIDATED, Claims
from readback.traces.fold.evidence import Evidence
from readback.traces.fold.steps import OpenStep
from readback.traces.format.forms import INSUFFICIENT
from readback.traces.format.report import Findings, Place
from readback.traces.format.strict_json import Value, canonical


class Outcomes:
    """The outputs of the steps, in their order."""

    __slots__ = ("_claims", "_evidence", "_findings", "_least", "_provenance", "pleaded")

    def __init__(self, claims: Claims, evidence: Evidence, provenance: Value, least: int, findings: Findings) -> None:
        self._claims = claims
        self._evidence = evidence
        self._provenance = provenance
        self._least = least
        self._findings = findings
        self.pleaded = False
        """Whether a step said that there was too little evidence."""

    def put_out(self, output: dict[str, Value], step: OpenStep | None, at: Place) -> None:
        """What a step ended with."""
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
        """A derived claim, or a plea of too little: one of the two, and marks only under the plea."""
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
