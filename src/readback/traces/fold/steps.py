"""Open and finished steps, and whether each started at a permitted time. One of the folds of a trace."""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import field
from typing import Final, NamedTuple

from readback.canon.frozen import dataclass
from readback.traces.format.forms import INSUFFICIENT, NODE_KINDS
from readback.traces.format.report import Findings, Place, shown
from readback.traces.format.strict_json import Value
from readback.traces.plan import Plan

_NOT_BEGUN, _OPEN, _DONE = 0, 1, 2
REQUIRED: Final = NODE_KINDS


class Piece(NamedTuple):
    """One piece of evidence in a tool's result."""

    uri: str
    chunk_id: str
    start: int
    end: int
    sha256: str


@dataclass(slots=True)
class OpenStep:
    """The events of an open step."""

    number: int
    calls: int = 0
    answered: int = -1
    """The last answered call."""
    succeeded: bool = False
    offered: deque[Piece] = field(default_factory=deque)
    """Pieces of the answer without a registration so far."""
    due: bool = False
    """Whether all pieces need a registration."""
    claims: array[int] = field(default_factory=lambda: array("I"))


class Steps:
    """Starts and ends, against the plan."""

    __slots__ = ("_findings", "_open", "_outputs", "_plan", "_states")

    def __init__(self, plan: Plan, findings: Findings) -> None:
        self._plan = plan
        self._findings = findings
        self._states = bytearray(len(plan.nodes))
        self._open: dict[int, OpenStep] = {}
        self._outputs: set[str] = set()

    def started(self, event: dict[str, Value], place: Place) -> None:
        """Take the start of a step. All steps before it must have ended."""
        number = self._number(event, place)
        if number < 0:
            return
        if self._states[number] != _NOT_BEGUN:
            self._findings.fail("step.started-twice", place.at("/step_id"))
            return
        for earlier in self._plan.nodes[number].before:
            if self._states[earlier] != _DONE:
                said = f"It waits for {self._plan.nodes[earlier].id}."
                self._findings.fail("step.before-dependency", place.at("/step_id"), said)
        self._states[number] = _OPEN
        self._open[number] = OpenStep(number)

    def finished(self, event: dict[str, Value], place: Place) -> OpenStep | None:
        """Take the end of a step with an output of its kind. Return the step if it was open."""
        number = self._number(event, place)
        output = event["output"]["type"]
        self._outputs.add("derive" if output == INSUFFICIENT else output)
        if number < 0:
            return None
        node = self._plan.nodes[number]
        if output != node.kind and (node.kind, output) != ("derive", INSUFFICIENT):
            self._findings.fail("step.other-output", place.at("/output/type"), f"The step is of kind {node.kind}.")
        step = self._open.pop(number, None)
        self.all_registered(step, place)
        if step is None:
            code = "step.finished-twice" if self._states[number] == _DONE else "step.unstarted"
            self._findings.fail(code, place.at("/step_id"))
        elif step.calls < node.calls:
            said = f"{node.calls} are asked for, {step.calls} were made."
            self._findings.fail("call.left-out", place.at("/step_id"), said)
        self._states[number] = _DONE
        return step

    def open(self, event: dict[str, Value], place: Place) -> OpenStep | None:
        """Return the step of an event."""
        number = self._number(event, place)
        step = self._open.get(number)
        if step is None and number >= 0:
            self._findings.fail("event.outside-step", place.at("/step_id"))
        return step

    def all_registered(self, step: OpenStep | None, place: Place) -> None:
        """Check for a complete registration: every piece of a search becomes evidence."""
        if step is not None and step.due and step.offered:
            self._findings.fail("evidence.left-out", place, f"{len(step.offered)} pieces were not registered.")
        if step is not None:
            step.offered.clear()

    def end(self, trace: Place) -> None:
        """Take the end of the trace, and report steps without a start or an end."""
        for number in sorted(self._open):
            self._findings.fail("step.unfinished", trace, self._plan.nodes[number].id)
        for number, state in enumerate(self._states):
            if state == _NOT_BEGUN:
                self._findings.fail("step.never-run", Place("plan.json").at(f"/nodes/{number}/id"))
        for kind in REQUIRED:
            if kind not in self._outputs:
                self._findings.fail("step.required-missing", trace, f"There is no output of kind {kind}.")
        if "finalize" not in self._outputs:
            self._findings.fail("finalize.missing", trace)
        self._findings.done("step_topology", "step_pairing", "required_steps", "finalize_present")

    def _number(self, event: dict[str, Value], place: Place) -> int:
        number = self._plan.place(event["step_id"])
        if number < 0:
            self._findings.fail("step.unknown", place.at("/step_id"), shown(event["step_id"]))
        return number
