"""What a verification found: checks, failures with code and place, figures. And the collector that fails closed.

A check passes only if it was run to its end and nothing failed in it; `Findings.done` says that it was. The report's id
is the hash of its checks and failures, so that two reports can be compared.
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
"""The only one: there is no soft failure."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in which file; lines count from one, `pointer` is a JSON pointer into that line or file."""

    file: str
    line: int = 0
    pointer: str = ""

    def at(self, pointer: str) -> Place:
        """Deeper in."""
        return Place(self.file, self.line, self.pointer + pointer)

    @property
    def path(self) -> str:
        """One text: FILE, FILE:LINE, FILE#POINTER or FILE:LINE#POINTER."""
        line = f":{self.line}" if self.line else ""
        return f"{self.file}{line}{'#' if self.pointer else ''}{self.pointer}"


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that is wrong. `code` is stable between releases."""

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
    """One check: whether it was run to its end, and how often something failed in it."""

    name: str
    run: bool
    failures: int
    details: str = ""

    @property
    def passed(self) -> bool:
        """Skipped is not passed."""
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
    """The whole answer. `failures` lists the first of them; `failures_total` counts all."""

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
        """Of the failures that are listed."""
        return frozenset(failure.code for failure in self.failures)

    def as_json(self) -> dict[str, Json]:
        """The form for machines; of the format's own report, with code, path and verdict added."""
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
    """Collects while a trace is read. Bounded: what is over the limit is counted."""

    _failures: list[Failure] = field(default_factory=list)
    _failed: Counter[str] = field(default_factory=Counter)
    _done: set[str] = field(default_factory=set)
    _details: dict[str, str] = field(default_factory=dict)
    _total: int = 0
    figures: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def fail(self, code: str, place: Place, said: str = "") -> None:
        """Records one failure under its code."""
        known = CODES[code]
        message = f"{known.meaning} {said}".strip() if said else known.meaning
        self._record(code, known.checks, known.invariant, message, place)

    def done(self, *checks: str) -> None:
        """These checks were run to their end."""
        self._done.update(checks)

    def detail(self, check: str, said: str) -> None:
        """A word about how a check was made."""
        self._details[check] = said

    def report(self, trace_id: str | None) -> Report:
        """Every check that was not run fails, whatever the reason."""
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
    """A value from outside as it may stand in a message."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    said = repr(value[: TEXT_SHOWN_MAX_CHARACTERS + 1] if isinstance(value, str) else value)
    return said if len(said) <= TEXT_SHOWN_MAX_CHARACTERS else said[: TEXT_SHOWN_MAX_CHARACTERS - 1] + "…"
