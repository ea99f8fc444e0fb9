"""The result of a verification: checks, failures with code and place, figures, and a collector with a closed default.

A check passes only after a complete run without failures. `Findings.done` records the complete run. The report's id is
the hash of its checks and failures, so two reports can be compared.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field
from typing import Final

from readback.canon import Json, sha256_hex
from readback.canon.frozen import dataclass
from readback.traces.format.codes import CHECKS, CODES
from readback.traces.format.fault import FAILURES_KEPT_MAX, TEXT_SHOWN_MAX_CHARACTERS
from readback.traces.format.strict_json import canonical

PASS: Final = "pass"
FAIL: Final = "fail"
SEVERITY: Final = "error"
"""The only severity: no failure is soft."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file. Lines count from 1. `pointer` is a JSON pointer within the line or file."""

    file: str
    line: int = 0
    pointer: str = ""

    def at(self, pointer: str) -> Place:
        """Return a deeper place."""
        return Place(self.file, self.line, self.pointer + pointer)

    @property
    def path(self) -> str:
        """The place as one text: FILE, FILE:LINE, FILE#POINTER or FILE:LINE#POINTER."""
        line = f":{self.line}" if self.line else ""
        return f"{self.file}{line}{'#' if self.pointer else ''}{self.pointer}"


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure. `code` is stable between releases."""

    code: str
    checks: tuple[str, ...]
    invariant: str | None
    message: str
    place: Place
    severity: str = SEVERITY

    def as_json(self) -> dict[str, Json]:
        return {
            "severity": self.severity,
            "code": self.code,
            "checks": list(self.checks),
            "invariant_id": self.invariant,
            "message": self.message,
            "path": self.place.path,
        }


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check: whether its run was complete, and the number of failures."""

    name: str
    run: bool
    failures: int
    details: str = ""

    @property
    def passed(self) -> bool:
        """Whether the check passed. A skipped check did not pass."""
        return self.run and not self.failures

    def as_json(self) -> dict[str, Json]:
        return {
            "name": self.name,
            "passed": self.passed,
            "run": self.run,
            "details": self.details or None,
            "metrics": {"failures": self.failures},
        }


@dataclass(frozen=True, slots=True)
class Report:
    """The whole result. `failures` lists the first failures, and `failures_total` counts all."""

    trace_id: str | None
    checks: tuple[CheckResult, ...]
    failures: tuple[Failure, ...]
    failures_total: int
    figures: dict[str, int]
    notes: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.failures_total and all(check.passed for check in self.checks)

    @property
    def codes(self) -> frozenset[str]:
        """The codes of the listed failures."""
        return frozenset(failure.code for failure in self.failures)

    def as_json(self) -> dict[str, Json]:
        """Return plain data in the form of the format's own report, plus code, path and verdict."""
        judged: dict[str, Json] = {
            "checks": [check.as_json() for check in self.checks],
            "failures": [failure.as_json() for failure in self.failures],
        }
        figures: dict[str, Json] = {
            "failures": self.failures_total,
            "failures_listed": len(self.failures),
            "checks_failed": sum(not check.passed for check in self.checks),
            "checks_total": len(self.checks),
            **self.figures,
        }
        return {
            "verdict": PASS if self.passed else FAIL,
            "id": sha256_hex(canonical(judged)),
            "trace_id": self.trace_id,
            **judged,
            "summary_metrics": figures,
            "notes": list(self.notes),
        }


@dataclass(slots=True)
class Findings:
    """Collects failures during the reading of a trace. Failures above the limit are counted."""

    _failures: list[Failure] = field(default_factory=list)
    _failed: Counter[str] = field(default_factory=Counter)
    _done: set[str] = field(default_factory=set)
    _details: dict[str, str] = field(default_factory=dict)
    _total: int = 0
    figures: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def fail(self, code: str, place: Place, said: str = "") -> None:
        """Record one failure under its code."""
        known = CODES[code]
        message = f"{known.meaning} {said}".strip() if said else known.meaning
        self._record(code, known.checks, known.invariant, message, place)

    def done(self, *checks: str) -> None:
        """Record complete runs of these checks."""
        self._done.update(checks)

    def detail(self, check: str, said: str) -> None:
        """Record a remark about a check."""
        self._details[check] = said

    def report(self, trace_id: str | None) -> Report:
        """Return the report. Every check without a complete run fails."""
        for check in CHECKS:
            if check not in self._done:
                self._record("check.not-run", (check,), None, f"{check} could not be run.", Place("artifacts"))
        results = (CheckResult(c, c in self._done, self._failed[c], self._details.get(c, "")) for c in CHECKS)
        return Report(
            trace_id, tuple(results), tuple(self._failures), self._total, dict(self.figures), tuple(self.notes)
        )

    def _record(self, code: str, checks: tuple[str, ...], invariant: str | None, message: str, place: Place) -> None:
        self._total += 1
        self._failed.update(checks)
        if len(self._failures) < FAILURES_KEPT_MAX:
            self._failures.append(Failure(code, checks, invariant, message, place))


def shown(value: object) -> str:
    """Return an outside value in a form fit for a message."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    said = repr(value[: TEXT_SHOWN_MAX_CHARACTERS + 1] if isinstance(value, str) else value)
    return said if len(said) <= TEXT_SHOWN_MAX_CHARACTERS else said[: TEXT_SHOWN_MAX_CHARACTERS - 1] + "…"
