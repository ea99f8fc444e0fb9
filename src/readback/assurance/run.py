"""Run release gates in the order of the specification, and decide on a promotion.

Called by `readback gates`. A gate runs on the same input as the others. Trace replay and predicate diff share one pass
over the history.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from importlib import import_module
from typing import Final

from readback.assurance.gate_input import GateInput, VerificationLogic
from readback.assurance.history.verdicts import judge_history
from readback.assurance.predicate_diff import predicate_diff
from readback.assurance.results import (
    GATES,
    MUST_PASS,
    SCHEMA,
    Finding,
    GateResult,
    GatesReport,
    Standing,
    gate_result,
)
from readback.assurance.review.acknowledgements import NO_ACKNOWLEDGEMENTS, Acknowledgements
from readback.assurance.trace_replay import trace_replay

Gate = Callable[[GateInput], GateResult]
ELSEWHERE: Final[Mapping[str, str]] = {
    "canary": "readback.assurance.drills.canary_gate:canary",
    "failure-injection": "readback.assurance.drills.failure_injection:failure_injection",
    "ledger-schema": "readback.assurance.drills.ledger_schema:ledger_schema",
    "false-success": "readback.assurance.drills.surface_gates:false_success",
    "unknown-state": "readback.assurance.drills.surface_gates:unknown_state",
    "recovery-drill": "readback.assurance.drills.recovery_drill:recovery_drill",
}
"""The module and the function of each further gate, imported at first use."""
_JUDGING: Final = ("trace-replay", "predicate-diff")


def run_gates(
    given: GateInput,
    acknowledged: Acknowledgements = NO_ACKNOWLEDGEMENTS,
    only: Collection[str] = (),
    progress: Callable[[str], None] = lambda _: None,
    *,
    package: str,
) -> GatesReport:
    """Run all gates, or only the named ones. `progress` is called with the name of each gate before its run.
    `package`: the version of the examined package.

    Raises StoreError, HistoryError, and the errors of the gates themselves. A raised error promotes nothing.
    """
    wanted = [each for each in GATES if not only or each in only]
    judged = None
    results = []
    for name in wanted:
        progress(name)
        if name in _JUDGING and judged is None:
            judged = judge_history(given)
        if name == "trace-replay":
            results.append(trace_replay(given, acknowledged, judged))
        elif name == "predicate-diff":
            results.append(predicate_diff(given, acknowledged, judged))
        else:
            results.append(_elsewhere(name, given))
    logic = given.candidate
    return GatesReport(SCHEMA, package, logic.hashes(), logic.table.version, tuple(results))


def _elsewhere(name: str, given: GateInput) -> GateResult:
    place = ELSEWHERE.get(name)
    if place is None:
        said = "This release has no such gate yet, so nothing is known."
        return gate_result(name, [Finding(name, "gate.missing", Standing.UNDETERMINED, said)], {})
    module, _, function = place.partition(":")
    gate: Gate = getattr(import_module(module), function)
    return gate(given)


# --- promotion -----------------------------------------------------------------------------------------------------


def refusals(report: GatesReport, candidate: VerificationLogic, package: str) -> Iterator[Finding]:
    """Yield every reason against a promotion of this logic on the strength of these results.

    The logic must be the examined one by hash. Trace replay, canary, failure injection and ledger schema must have
    passed. The other gates must have run and must not have failed.
    """
    if report.package != package:
        said = f"The gates examined package {report.package}, and {package} is to be promoted."
        yield _refusal("promote.package", Standing.FAILED, said)
    if candidate.table_faults:
        yield _refusal("promote.table", Standing.FAILED, "The recovery table has faults.")
    elif report.table != candidate.table.version:
        said = f"The gates examined table {report.table[:16]}, and {candidate.table.version[:16]} is to be promoted."
        yield _refusal("promote.table", Standing.FAILED, said)
    hashes = candidate.hashes()
    for name in dict.fromkeys([*report.contracts, *hashes]):
        then, now = report.contracts.get(name), hashes.get(name)
        if then != now:
            said = (
                "The gates examined this contract, and it is not to be promoted."
                if now is None
                else "The gates did not examine this contract."
                if then is None
                else f"The gates examined {then[:16]}, and {now[:16]} is to be promoted."
            )
            yield _refusal("promote.contract", Standing.FAILED, said, name)
    results = {each.gate: each for each in report.gates}
    for gate in GATES:
        yield from _gate_refusal(gate, results.get(gate))


def _gate_refusal(gate: str, result: GateResult | None) -> Iterator[Finding]:
    if result is None:
        yield _refusal("promote.gate", Standing.UNDETERMINED, f"The gate {gate} did not run.", gate=gate)
    elif result.standing in (Standing.FAILED, Standing.ERROR):
        yield _refusal("promote.gate", result.standing, f"The gate {gate} is {result.standing.value}.", gate=gate)
    elif result.standing is Standing.UNDETERMINED and gate in MUST_PASS:
        said = f"The gate {gate} is undetermined and must have passed."
        yield _refusal("promote.gate", Standing.UNDETERMINED, said, gate=gate)


def _refusal(code: str, standing: Standing, said: str, contract: str = "", gate: str = "promotion") -> Finding:
    return Finding(gate, code, standing, said, contract)
