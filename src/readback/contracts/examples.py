"""Examples of a contract: states of the system of record with the verdict that a person expects of each.

A contract file holds the examples. `judged` gives one to the engine's own evaluation and reconciliation, long after the
call: the window is closed and no effect can follow. No system is reached and nothing is recorded. Called by `readback
contracts check` and by the mutation test.

Source: the action verification specification, "State Reconciliation Model".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Final, TypeAlias

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.verdict import Verdict
from readback.domain.verification.observation import normalise
from readback.domain.verification.reading import Presence, Reading, Role, TakenReading
from readback.domain.verification.reconcile import reconcile
from readback.domain.verification.reconciliation import Case, EvaluatedReading, Reconciliation
from readback.engine.compiled_contract import CompiledContract
from readback.engine.stages.evaluate import judge_reading
from readback.errors import ContractError

Steps: TypeAlias = tuple[str | int, ...]
"""The path of a part of a state: names of fields and places in lists."""
STAMP: Final = "rb-example"
TENANT: Final = "default"
PRINCIPAL: Final = "agent:example"
ANSWER: Final[Mapping[str, Json]] = {"status": "ok"}
"""The tool's answer of an example without one: every example of a false success begins with a claim."""
SCOPE_WORDS: Final = ("stamp", "tenant", "principal", "idempotency_key")
"""Of the scope: `{scope.stamp}` as a whole text of a state stands for the value of the example's own action."""
_CALLED_US: Final = 1_000_000
_READ_US: Final = 2_000_000


class ExampleError(ContractError):
    """An example of a contract file cannot be judged: a missing key, an unknown field, or unsuitable arguments.

    The file is not used.
    """

    code = "contract.example"
    remedy_default = "Correct the example; docs/how-to/examples-and-mutants.md lists the keys."


@dataclass(frozen=True, slots=True)
class Example:
    """One example. A state of None means a visible absence.

    Attributes:
        expect: The expected verdict.
        discrepancy: The expected class, such as `value_mismatch`; "" for any.
        before: The state before the call, if `has_before`.
        state: The state after the call, as every reader shows it.
        readings: The state after the call by reader, where readers differ.
        found: The effects of a search by the stamp; None for the state itself.
        stamped: Whether the state bears the action's stamp; None for the default of the contract's kind.
        complete: Whether the reading shows all of the target.
        free: Fields of the state that may have any value, with the reason.
        line: The line of the example in its file, from 1; with `column`.
    """

    name: str
    expect: Verdict
    requested: Mapping[str, Json]
    state: Json = None
    discrepancy: str = ""
    before: Json = None
    has_before: bool = False
    readings: Mapping[str, Json] = field(default_factory=dict)
    found: tuple[Json, ...] | None = None
    observed: Json = None
    tenant: str = TENANT
    stamped: bool | None = None
    complete: bool = True
    free: Mapping[str, str] = field(default_factory=dict)
    line: int = 0
    column: int = 0

    def with_state(self, state: Json) -> Example:
        """Return the example with another state after the call, by every reader and for every search."""
        return replace(self, state=state, readings={}, found=None)


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


def with_value(state: Json, steps: Steps, value: Json) -> Json:
    """Return a copy of a state with another value at a path."""
    if not steps:
        return value
    first, rest = steps[0], steps[1:]
    if isinstance(state, dict) and isinstance(first, str):
        return {**state, first: with_value(state.get(first), rest, value)}
    if isinstance(state, list) and isinstance(first, int):
        return [with_value(each, rest, value) if number == first else each for number, each in enumerate(state)]
    return state


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
