"""The canary gate: the recorded comparison of a canary, judged by the bounds.

The gate reads the tally of the newest canary for exactly the candidate's content hashes. Without a canary,
or below the minimum, the gate is undetermined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from readback.assurance.canary.tally import CanaryRun, problems
from readback.assurance.gate_input import GateInput
from readback.assurance.results import Finding, GateResult, Standing, gate_result
from readback.canon import Json

GATE: Final = "canary"


def canary(given: GateInput) -> GateResult:
    """Judge the newest canary of each changed contract, of the input's `canaries`.

    Returns the result, with a finding for each changed contract. Without a changed contract the gate passes.
    """
    runs = given.canaries()
    changed = _changed(given)
    counts: dict[str, int] = {"contracts": len(changed), "compared": 0, "mismatches": 0}
    findings = [finding for name, digest in changed.items() for finding in _findings(given, name, digest, runs, counts)]
    if not changed and given.incumbent is not None:
        findings.append(
            Finding(GATE, "canary.unchanged", Standing.PASSED, "No contract differs from the one in force.")
        )
    return gate_result(GATE, findings, counts)


def canary_standing(run: CanaryRun) -> Standing:
    """Return the standing of a canary by the bounds and the minimum."""
    if problems(run.terms, run.tally):
        return Standing.FAILED
    return Standing.PASSED if run.tally.compared >= run.terms.minimum else Standing.UNDETERMINED


def _changed(given: GateInput) -> dict[str, str]:
    """Return the content hash of each comparable contract. A new contract has no incumbent."""
    before = given.incumbent.plans if given.incumbent is not None else {}
    plans = given.candidate.plans
    return {
        name: plan.contract.hash
        for name, plan in sorted(plans.items())
        if given.incumbent is None or (name in before and before[name].contract.hash != plan.contract.hash)
    }


def _findings(
    given: GateInput, name: str, digest: str, runs: Sequence[CanaryRun], counts: dict[str, int]
) -> Iterator[Finding]:
    contract = given.candidate.plans[name].contract
    named, place = f"{name}@{contract.version}", given.candidate.place(name)
    run = next((each for each in runs if each.terms.contracts.get(name) == digest), None)
    if run is None:
        said = f"No canary has asked {name!r} with the hash {digest[:12]}. Run `readback gates canary start`."
        yield Finding(GATE, "canary.missing", Standing.UNDETERMINED, said, named, place=place)
        return
    tally = run.tally
    counts["compared"] += tally.compared
    counts["mismatches"] += tally.mismatches
    detail: Mapping[str, Json] = {"canary": run.id, "stopped": run.stopped, **tally.as_json()}
    broken = problems(run.terms, tally)
    for code, said in broken:
        yield Finding(GATE, code, Standing.FAILED, said, named, run.id, place, tally.differing, detail)
    if broken:
        return
    if canary_standing(run) is Standing.UNDETERMINED:
        said = f"The canary compared {tally.compared} actions; the minimum is {run.terms.minimum}."
        yield Finding(GATE, "canary.too-small", Standing.UNDETERMINED, said, named, run.id, place, (), detail)
        return
    said = f"{tally.compared} actions compared, {tally.mismatches} with another verdict."
    yield Finding(GATE, "canary.within-bounds", Standing.PASSED, said, named, run.id, place, (), detail)
