"""The failure-injection gate: every fault against every contract, in simulated worlds.

A contract without a world is undetermined. Accepting an injected fault as success, naming another class,
permitting a repetition or wording the end otherwise fails by name. A fault without a meaning for a contract is
counted as not run. Compensations run inside the worlds of the reversed actions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, assert_never

from readback.assurance.gate_input import GateInput
from readback.assurance.results import NOT_RUN, Finding, GateResult, Standing, gate_result
from readback.canon import Json
from readback.engine.compiled_contract import CompiledContract
from readback.testing.faults import judge
from readback.testing.faults.judge import Injection, inject_all

GATE: Final = "failure-injection"


def failure_injection(given: GateInput) -> GateResult:
    """Inject every fault into every contract of the candidate, in the input's `worlds`.

    Returns the result, with a finding for each contract and each fault that applies to it.
    """
    counts: Counter[str] = Counter(contracts=0, injections=0, held=0, holes=0, undetermined=0, not_applicable=0)
    return gate_result(GATE, list(_findings(given, counts)), counts)


def acting_plans(given: GateInput) -> list[CompiledContract]:
    """Return the candidate's contracts without the compensations."""
    plans = given.candidate.plans
    reversals = {plan.compensation.contract.name for plan in plans.values() if plan.compensation is not None}
    return [plan for name, plan in sorted(plans.items()) if name not in reversals]


def _findings(given: GateInput, counts: Counter[str]) -> Iterator[Finding]:
    for plan in acting_plans(given):
        counts["contracts"] += 1
        name = plan.contract.name
        world = given.worlds.get(name)
        if world is None:
            counts["undetermined"] += 1
            said = f"{name!r} has no simulated world, so no fault was injected. State one with --worlds."
            yield _finding(given, plan, "no-world", Standing.UNDETERMINED, said, "")
            continue
        results = inject_all(plan, world, given.candidate.table)
        if len({(each.code, each.message) for each in results}) == 1 and results[0].code == "world-misfit":
            counts["undetermined"] += 1
            yield _finding(given, plan, "world-misfit", Standing.UNDETERMINED, results[0].message, "")
            continue
        for each in results:
            if each.standing is judge.Standing.NOT_APPLICABLE:
                counts["not_applicable"] += 1
                counts[f"{NOT_RUN}{name} {each.fault.value}"] = 1
            else:
                yield _of(given, plan, each, counts)


def _of(given: GateInput, plan: CompiledContract, injection: Injection, counts: Counter[str]) -> Finding:
    counts["injections"] += 1
    match injection.standing:
        case judge.Standing.HELD:
            counts["held"] += 1
            standing = Standing.PASSED
        case judge.Standing.HOLE:
            counts["holes"] += 1
            standing = Standing.FAILED
        case judge.Standing.UNDETERMINED:
            counts["undetermined"] += 1
            standing = Standing.UNDETERMINED
        case judge.Standing.NOT_APPLICABLE:
            raise AssertionError("a fault that does not apply has passed nothing and is no finding")
        case _:
            assert_never(injection.standing)
    detail: dict[str, Json] = {
        "state": injection.state,
        "verdict": injection.verdict,
        "class": injection.discrepancy,
        "row": injection.row,
        "words": injection.words,
        "calls": injection.calls,
    }
    return _finding(given, plan, injection.code, standing, injection.message, injection.fault.value, detail)


def _finding(
    given: GateInput,
    plan: CompiledContract,
    code: str,
    standing: Standing,
    message: str,
    case: str,
    detail: Mapping[str, Json] | None = None,
) -> Finding:
    contract = plan.contract
    return Finding(
        GATE,
        f"inject.{code}",
        standing,
        message,
        f"{contract.name}@{contract.version}",
        case,
        given.candidate.place(contract.name),
        (),
        detail or {},
    )
