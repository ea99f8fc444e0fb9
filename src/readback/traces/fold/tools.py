"""Tool calls: each as planned, each with one result. One of the folds of a trace."""

from __future__ import annotations

from array import array
from collections import deque
from typing import Final

from readback.canon import sha256_hex
from readback.traces.digest_rows import DigestRows
from readback.traces.fold.steps import OpenStep, Piece
from readback.traces.format import shapes
from readback.traces.format.fault import FAILURES_KEPT_MAX
from readback.traces.format.report import Findings, Place, shown
from readback.traces.format.strict_json import Value
from readback.traces.plan import Plan, request_digest

_UNANSWERED, _SUCCEEDED, _FAILED = 0, 1, 2
SEARCH: Final = "retrieve"
"""The tool with results as evidence, complete and in order."""
_NO_STEP: Final = 2**32 - 1


def key_of(identifier: str) -> bytes:
    """Return the digest of a content id. The forms have checked the id."""
    return bytes.fromhex(identifier[-64:])


class Tools:
    """Every call of the trace, in sixty bytes each."""

    __slots__ = ("_answers", "_findings", "_lines", "_plan", "_rows", "_searches", "_states", "_steps")

    def __init__(self, plan: Plan, findings: Findings) -> None:
        self._plan = plan
        self._findings = findings
        self._rows = DigestRows()
        self._states = bytearray()
        self._searches = bytearray()
        self._steps = array("I")
        self._lines = array("I")
        self._answers = array("Q")

    def __len__(self) -> int:
        return len(self._rows)

    def called(self, event: dict[str, Value], step: OpenStep | None, place: Place) -> None:
        """Take a call: of this step and content, the next in the plan."""
        call, at = event["call"], place.at("/call")
        if shapes.call_id(call) != call["id"]:
            self._findings.fail("id.call", at.at("/id"))
        if call["step_id"] != event["step_id"]:
            self._findings.fail("call.other-step", at.at("/step_id"))
        _, new = self._rows.add(key_of(call["id"]))
        if not new:
            self._findings.fail("call.duplicate", at.at("/id"))
            return
        self._states.append(_UNANSWERED)
        self._searches.append(call["tool_name"] == SEARCH)
        self._steps.append(step.number if step is not None else _NO_STEP)
        self._lines.append(place.line)
        self._answers.append(0)
        if step is None:
            return
        asked = request_digest(call["tool_name"], call["arguments"])
        if call["call_idx"] != step.calls or not self._plan.nodes[step.number].asks(step.calls, asked):
            self._findings.fail("call.unplanned", at, f"Its tool is {shown(call['tool_name'])}.")
        step.calls += 1

    def returned(self, event: dict[str, Value], step: OpenStep | None, place: Place, offset: int) -> None:
        """Take a result of an unanswered call of the same step."""
        result, at = event["result"], place.at("/result")
        row = self._rows.find(key_of(result["call_id"]))
        if row < 0:
            self._findings.fail("result.unknown-call", at.at("/call_id"))
            return
        if self._states[row] != _UNANSWERED:
            self._findings.fail("result.second", at.at("/call_id"))
            return
        if result["success"] and result["error"] is not None:
            self._findings.fail("result.contradiction", at.at("/error"))
        if self._steps[row] != (step.number if step is not None else _NO_STEP):
            self._findings.fail("call.other-step", place.at("/step_id"))
        self._states[row] = _SUCCEEDED if result["success"] else _FAILED
        self._answers[row] = offset
        if step is not None:
            step.answered, step.succeeded = row, result["success"]
            step.offered = offered(result["result"], at.at("/result"), self._findings)
            step.due = bool(result["success"] and self._searches[row])

    def answer(self, call_id: str) -> tuple[bool, bool, int]:
        """Return whether a call was answered, whether with success, and its place in the trace."""
        row = self._rows.find(key_of(call_id))
        if row < 0 or self._states[row] == _UNANSWERED:
            return False, False, 0
        return True, self._states[row] == _SUCCEEDED, self._answers[row]

    def end(self) -> None:
        """Take the end of the trace, and report unanswered calls."""
        told = 0
        for row, state in enumerate(self._states):
            if state == _UNANSWERED:
                self._findings.fail("call.unanswered", Place("trace.jsonl", self._lines[row]).at("/event/call/id"))
                told += 1
                if told > FAILURES_KEPT_MAX:
                    break
        self._findings.figures["tool_calls"] = len(self)
        self._findings.done("tool_linkage", "single_result")


def offered(result: Value, at: Place, findings: Findings) -> deque[Piece]:
    """Return the pieces of evidence in a result. Every hash is recomputed."""
    pieces = result.get("evidences") if isinstance(result, dict) else None
    found: deque[Piece] = deque()
    for index, piece in enumerate(pieces if isinstance(pieces, list) else ()):
        here = at.at(f"/evidences/{index}")
        made = _piece(piece)
        if made is None:
            findings.fail("provenance.malformed", here, "It has no text with uri, chunk and span.")
            continue
        for name in ("chunk_id", "chunk_sha256"):
            if piece.get(name, made.sha256) != made.sha256:
                findings.fail("provenance.hash", here.at(f"/{name}"))
        if piece.get("chunk_span", piece["span"]) != piece["span"]:
            findings.fail("provenance.differs", here.at("/chunk_span"))
        found.append(made)
    return found


def _piece(piece: Value) -> Piece | None:
    if not isinstance(piece, dict) or not isinstance(piece.get("text"), str):
        return None
    uri, chunk, span = piece.get("uri"), piece.get("chunk_id"), piece.get("span")
    if not isinstance(uri, str) or not isinstance(chunk, str) or not isinstance(span, list) or len(span) != 2:
        return None
    if not all(type(each) is int for each in span):
        return None
    return Piece(uri, chunk, span[0], span[1], sha256_hex(piece["text"].encode()))
