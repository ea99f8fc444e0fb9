"""Results of release gates: one shape for all gates, reports and `readback gates promote`. Values only.

An undetermined gate is neither passed nor failed. The worst standing of several counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass

SCHEMA: Final = 1
"""The version of the report's form."""
GATES: Final = (
    "trace-replay",
    "predicate-diff",
    "canary",
    "failure-injection",
    "recovery-drill",
    "ledger-schema",
    "false-success",
    "unknown-state",
)
"""The gates in the order of the specification."""
MUST_PASS: Final = frozenset({"trace-replay", "canary", "failure-injection", "ledger-schema"})
"""Gates required to pass before a promotion. The other gates are required not to fail."""


NOT_RUN: Final = "not run: "
"""Begins the name of a count for a part without a run: not installed, or without a meaning for the contract.

Such a part has neither passed nor failed.
"""


class Standing(StrEnum):
    """The result of a gate or of one finding."""

    PASSED = "passed"
    FAILED = "failed"
    UNDETERMINED = "undetermined"
    """The evidence decides neither way: too little history, erased evidence, no simulated world, no twin."""
    ERROR = "error"
    """The gate itself failed."""

    @property
    def exit_code(self) -> int:
        """The command line's exit code."""
        return EXIT_OF[self]


EXIT_OF: Final = {Standing.PASSED: 0, Standing.FAILED: 1, Standing.UNDETERMINED: 3, Standing.ERROR: 5}
_WORST_FIRST: Final = (Standing.ERROR, Standing.FAILED, Standing.UNDETERMINED)


def worst(standings: Iterable[Standing]) -> Standing:
    """Return the worst standing: error, failed, undetermined, passed. No standing at all is undetermined."""
    found = frozenset(standings)
    if not found:
        return Standing.UNDETERMINED
    return next((each for each in _WORST_FIRST if each in found), Standing.PASSED)


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a contract file or a table. Lines and columns begin at 1."""

    path: str
    line: int
    column: int

    def as_json(self) -> dict[str, Json]:
        return {"path": self.path, "line": self.line, "column": self.column}


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a gate, such as a changed verdict or a drilled recovery.

    `contract` is `name@version`, "" for none. `case` names the fault or the drill. `code` is stable between releases.
    """

    gate: str
    code: str
    standing: Standing
    message: str
    contract: str = ""
    case: str = ""
    place: Place | None = None
    actions: tuple[str, ...] = ()
    detail: Mapping[str, Json] = field(default_factory=dict)

    def as_json(self) -> dict[str, Json]:
        return {
            "gate": self.gate,
            "code": self.code,
            "standing": self.standing.value,
            "message": self.message,
            "contract": self.contract,
            "case": self.case,
            "place": None if self.place is None else self.place.as_json(),
            "actions": [*self.actions],
            "detail": dict(self.detail),
        }


@dataclass(frozen=True, slots=True)
class GateResult:
    """The result of one gate. `counts`: the amount examined, by name."""

    gate: str
    standing: Standing
    findings: tuple[Finding, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Json]:
        return {
            "gate": self.gate,
            "standing": self.standing.value,
            "findings": [each.as_json() for each in self.findings],
            "counts": dict(self.counts),
        }


def gate_result(gate: str, findings: Iterable[Finding], counts: Mapping[str, int]) -> GateResult:
    """Return the result of a gate with the worst standing of its findings. A gate without findings is undetermined."""
    listed = tuple(findings)
    return GateResult(gate, worst(each.standing for each in listed), listed, counts)


@dataclass(frozen=True, slots=True)
class GatesReport:
    """The results of one run, bound to the examined logic by hash.

    `contracts`: the content hash of each candidate contract, by `name@version`. `table`: the version of the recovery
    table, a hash of its rows. `package`: the version of this package.
    """

    schema: int
    package: str
    contracts: Mapping[str, str]
    table: str
    gates: tuple[GateResult, ...]

    @property
    def standing(self) -> Standing:
        """The worst standing of all gates."""
        return worst(each.standing for each in self.gates)

    def as_json(self) -> dict[str, Json]:
        return {
            "schema": self.schema,
            "package": self.package,
            "contracts": dict(self.contracts),
            "table": self.table,
            "standing": self.standing.value,
            "gates": [each.as_json() for each in self.gates],
        }
