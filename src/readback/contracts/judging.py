"""One example judged by the engine's own evaluation and reconciliation, long after the call.

The window is closed and no effect can follow. No system is reached and nothing is recorded. Called by `readback
contracts check` and by the mutation test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.contracts.examples import Example
from readback.domain.verification.observation import normalise
from readback.domain.verification.reading import Presence, Reading, Role, TakenReading
from readback.domain.verification.reconcile import reconcile
from readback.domain.verification.reconciliation import Case, EvaluatedReading, Reconciliation
from readback.engine.compiled_contract import CompiledContract
from readback.engine.stages.evaluate import judge_reading

STAMP: Final = "rb-example"
PRINCIPAL: Final = "agent:example"
ANSWER: Final[Mapping[str, Json]] = {"status": "ok"}
"""The tool's answer of an example without one: every example of a false success begins with a claim."""
SCOPE_WORDS: Final = ("stamp", "tenant", "principal", "idempotency_key")
"""Of the scope: `{scope.stamp}` as a whole text of a state stands for the value of the example's own action."""
_CALLED_US: Final = 1_000_000
_READ_US: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class Judged:
    """An example with the engine's judgement."""

    example: Example
    result: Reconciliation

    @property
    def sound(self) -> bool:
        """Whether the judgement is the expected one."""
        named = self.result.discrepancy.value if self.result.discrepancy is not None else ""
        return self.result.verdict is self.example.expect and self.example.discrepancy in ("", named)

    @property
    def said(self) -> str:
        """The judgement in words, with the clauses behind it."""
        got = self.result.verdict.value
        if self.result.discrepancy is not None:
            got += f" ({self.result.discrepancy.value})"
        broken = [f"{each.name} is {each.truth.value}" for each in self.result.ensure if each.truth.value != "holds"]
        because = ", ".join(broken) or self.result.detail or self.result.why.value
        return f"{got}: {because}" if because and because != "none" else got


def judged(plan: CompiledContract, example: Example) -> Judged:
    """Judge an example by a plan: the contract's own, or one of its mutants."""
    contract = plan.contract
    variables = variables_of(plan, example)
    fill = _Filling(variables["scope"])
    before = None
    if example.has_before and contract.readers:
        taken = _taken(plan, 0, Role.BEFORE, fill.value(example.before), example, 0, stamped=False)
        before = judge_reading(plan, taken, variables)
    variables["before"] = before.taken.reading.value if before is not None else None
    past = None if before is None else before.taken
    stamped = contract.kind.needs_ours if example.stamped is None else example.stamped
    checks = []
    for number, terms in enumerate(contract.readers):
        state = fill.value(example.readings.get(terms.name, example.state))
        taken = _taken(plan, number, Role.CHECK, state, example, _READ_US, stamped=stamped)
        checks.append(judge_reading(plan, taken, variables, past))
    case = Case(
        contract,
        STAMP,
        normalise(ANSWER if example.observed is None else example.observed, _CALLED_US),
        tuple(checks),
        before,
        _found(plan, example, fill, variables, past, stamped=stamped),
        search_proven=contract.has_find,
        window_closed=True,
        dead=True,
    )
    return Judged(example, reconcile(case))


def variables_of(plan: CompiledContract, example: Example) -> dict[str, Json]:
    """Return the roots of expressions for an example, without its states."""
    requested = dict(example.requested)
    scope: dict[str, Json] = {
        "tenant": example.tenant,
        "principal": PRINCIPAL,
        "operation": example.name,
        "stamp": STAMP,
        "idempotency_key": STAMP,
        "target": "",
        "run": "",
        "attempt": 1,
        "attempted_s": _CALLED_US // 1_000_000,
        "budget": {},
    }
    observed = dict(ANSWER) if example.observed is None else example.observed
    variables: dict[str, Json] = {
        "intended": requested, "requested": requested, "observed": observed, "before": None, "authoritative": None,
        "scope": scope,
    }  # fmt: skip
    scope["target"] = plan.target(variables)
    return variables


def _taken(
    plan: CompiledContract, number: int, role: Role, state: Json, example: Example, at_us: int, *, stamped: bool
) -> TakenReading:
    terms = plan.contract.readers[number]
    present = Presence.ABSENT if state is None else Presence.PRESENT
    stamp = STAMP if stamped and state is not None else None
    reading = Reading(present, state, stamp=stamp, complete=example.complete)
    return TakenReading(
        role, terms.name, terms.source, terms.consistency, terms.independence, reading, at_us, at_us + 1
    )


def _found(
    plan: CompiledContract,
    example: Example,
    fill: _Filling,
    variables: dict[str, Json],
    past: TakenReading | None,
    *,
    stamped: bool,
) -> tuple[EvaluatedReading, ...] | None:
    contract = plan.contract
    if not contract.has_find or not contract.readers:
        return None
    given = example.found
    if given is None:
        given = (example.state,) if stamped and example.state is not None else ()
    judgements = []
    for state in given:
        taken = _taken(plan, 0, Role.FIND, fill.value(state), example, _READ_US, stamped=True)
        judgements.append(judge_reading(plan, taken, variables, past))
    return tuple(judgements)


class _Filling:
    """Replaces `{scope.stamp}` and the like in a state by the values of the example's action."""

    def __init__(self, scope: Json) -> None:
        assert isinstance(scope, dict)
        self._words = {f"{{scope.{name}}}": scope[name] for name in SCOPE_WORDS}

    def value(self, state: Json) -> Json:
        if isinstance(state, str):
            return self._words.get(state, state)
        if isinstance(state, dict):
            return {name: self.value(each) for name, each in state.items()}
        if isinstance(state, list):
            return [self.value(each) for each in state]
        return state
