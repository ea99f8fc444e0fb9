"""Start, stop and show a canary. Every check comes before the first record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from readback.assurance.canary.records import CanaryRecords, CanaryState, Opened, runs_of
from readback.assurance.canary.tally import problems
from readback.assurance.canary.terms import (
    BASIS_POINTS,
    MINIMUM_DEFAULT,
    CanaryRunningError,
    CanaryStageError,
    CanaryTerms,
    CanaryTermsError,
    NoCanaryError,
    NoIncumbentError,
    Stage,
)
from readback.engine.compiled_contract import CompiledContract

Plans = Mapping[str, CompiledContract]
BY_PERSON = "by a person"


def start_canary(
    ledger: Opened,
    candidate: Plans,
    incumbent: Plans,
    *,
    tenants: Sequence[str] = (),
    percent: float = 100.0,
    minimum: int = MINIMUM_DEFAULT,
    mismatches_max: int = 0,
    errors_max: int = 0,
    stage: Stage = Stage.COMPARE,
) -> CanaryState:
    """Start the canary of a ledger.

    Args:
        ledger: The open ledger.
        candidate: The candidate's contracts, by name. Contracts equal to the incumbent's are left out.
        incumbent: The contracts in force, by name.
        tenants: The tenants of the subset; empty for every tenant.
        percent: The share of tenant and target pairs in the subset.
        minimum: Fewest compared actions for a decision.
        mismatches_max: The canary stops itself above this number of other verdicts.
        errors_max: The canary stops itself above this number of the candidate's errors.
        stage: DECIDE lets the candidate decide for the subset, after a passed first stage.

    Returns:
        The state. The worker asks from the start's place in the log on.

    Raises:
        NoIncumbentError: A candidate has no contract of its name in force.
        SameContractError: Every candidate is in force already.
        CanaryRunningError: Another canary is running.
        CanaryStageError: The first stage has not passed for exactly these contracts.
        CanaryTermsError: A term is out of range.
    """
    records = CanaryRecords(ledger)
    present = records.state()
    if present is not None and present.running:
        raise CanaryRunningError(f"The canary {present.id} is running.")
    missing = sorted(name for name in candidate if name not in incumbent)
    if missing:
        raise NoIncumbentError(f"The candidate {missing[0]!r} has no incumbent.")
    changed = {name: plan for name, plan in candidate.items() if plan.contract.hash != incumbent[name].contract.hash}
    chosen = changed or candidate
    if not 0 < percent <= 100:
        raise CanaryTermsError(f"The share is {percent} percent, and must be above 0 and up to 100.")
    terms = CanaryTerms(
        {name: plan.contract.hash for name, plan in sorted(chosen.items())},
        {name: incumbent[name].contract.hash for name in sorted(chosen)},
        tuple(dict.fromkeys(tenants)),
        max(int(percent * BASIS_POINTS / 100), 1),
        minimum,
        mismatches_max,
        errors_max,
        stage,
        present.record if present is not None else "",
    )
    if stage is Stage.DECIDE:
        _passed_before(records, terms)
    return records.start(terms)


def _passed_before(records: CanaryRecords, terms: CanaryTerms) -> None:
    for run in runs_of(records):
        same = run.terms.contracts == terms.contracts and run.terms.incumbents == terms.incumbents
        if not same or run.terms.stage is not Stage.COMPARE:
            continue
        if run.tally.compared < run.terms.minimum:
            said = f"The first stage compared {run.tally.compared} actions; its minimum is {run.terms.minimum}."
            raise CanaryStageError(said)
        broken = problems(run.terms, run.tally)
        if broken:
            raise CanaryStageError(f"The first stage did not pass: {broken[0][1]}")
        return
    raise CanaryStageError("No first stage has compared exactly these contracts.")


def stop_canary(ledger: Opened, reason: str = BY_PERSON) -> CanaryState:
    """Stop the running canary, and record the reason. Raises NoCanaryError."""
    records = CanaryRecords(ledger)
    present = records.state()
    if present is None or not present.running:
        raise NoCanaryError("No canary is running.")
    return records.stop(present, reason)
