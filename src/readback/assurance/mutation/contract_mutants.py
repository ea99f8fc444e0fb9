"""Mutants of a contract: a clause dropped, weakened, or with another field or comparison; an identity key ignored.

A mutant is a compiled contract for a mutation test alone. Called by `trial`. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.contracts.examples import Example
from readback.domain.predicate import Postcondition
from readback.engine.compiled_contract import Check, CompiledContract
from readback.errors import ExpressionError
from readback.ports.predicates import ExpressionMutant

Mutate: TypeAlias = Callable[[str, Mapping[str, Sequence[str]]], Sequence[ExpressionMutant]]
DROP: Final = "drop"
IDENTITY: Final = "ignore identity"
FRAME: Final = "ignore frame"
SIBLINGS_MAX: Final = 4
"""Siblings of one field for swaps. More would repeat the same test."""


@dataclass(frozen=True, slots=True)
class ContractMutant:
    """A changed contract. `name`: the kind and the clause, and the change where a clause has several mutants."""

    name: str
    kind: str
    clause: str
    said: str
    plan: CompiledContract


def contract_mutants(plan: CompiledContract, examples: Iterable[Example], mutate: Mutate) -> tuple[ContractMutant, ...]:
    """Return the mutants of a contract, in the order of the clauses. `mutate`: `bootstrap.expression_mutants`."""
    fields = fields_shown(examples)
    return (*_of_clauses(plan, fields, mutate), *_of_identity(plan), *_of_frame(plan))


def _of_clauses(
    plan: CompiledContract, fields: Mapping[str, Sequence[str]], mutate: Mutate
) -> Iterator[ContractMutant]:
    for number, check in enumerate(plan.ensure):
        clause = check.postcondition.name
        without = (*plan.ensure[:number], *plan.ensure[number + 1 :])
        if without:
            yield ContractMutant(f"{DROP}:{clause}", DROP, clause, "the clause is dropped", _ensuring(plan, without))
        if check.predicate is None:
            continue
        for each in mutate(check.predicate.source, fields):
            changed = _changed(plan, check, each.source)
            if changed is not None:
                ensure = (*plan.ensure[:number], changed, *plan.ensure[number + 1 :])
                name = f"{each.kind}:{clause}: {each.said}"
                yield ContractMutant(name, each.kind, clause, each.said, _ensuring(plan, ensure))


def _of_identity(plan: CompiledContract) -> Iterator[ContractMutant]:
    for check in plan.identity:
        left = tuple(each for each in plan.identity if each is not check)
        said = f"identity.{check.key} is not compared"
        yield ContractMutant(f"{IDENTITY}:{check.key}", IDENTITY, check.key, said, replace(plan, identity=left))


def _of_frame(plan: CompiledContract) -> Iterator[ContractMutant]:
    if plan.contract.may_change is not None:
        loose = replace(plan, contract=replace(plan.contract, may_change=None))
        yield ContractMutant(f"{FRAME}:may_change", FRAME, "may_change", "any field may change", loose)


def _changed(plan: CompiledContract, check: Check, source: str) -> Check | None:
    """Return the clause with another expression; None where the type checker refuses the expression."""
    try:
        predicate = plan.predicates.compile(source)
    except ExpressionError:
        return None
    return replace(check, predicate=predicate, postcondition=replace(check.postcondition, expression=source))


def _ensuring(plan: CompiledContract, ensure: tuple[Check, ...]) -> CompiledContract:
    contract = replace(plan.contract, ensure=tuple(each.postcondition for each in ensure))
    return replace(plan, ensure=ensure, contract=contract)


def with_clause(plan: CompiledContract, source: str) -> CompiledContract | None:
    """Return the contract with another clause; None if the clause does not compile."""
    try:
        predicate = plan.predicates.compile(source)
    except ExpressionError:
        return None
    return _ensuring(plan, (*plan.ensure, Check(Postcondition("proposed", source), predicate)))


def fields_shown(examples: Iterable[Example]) -> dict[str, list[str]]:
    """Return, by field of the examples' states, the siblings of the same type, under both roots."""
    found: dict[str, dict[str, set[str]]] = {}
    for example in examples:
        for state in (example.before, example.state, *example.readings.values(), *(example.found or ())):
            _add_fields("", state, found)
    alike: dict[str, list[str]] = {}
    for path, kinds in found.items():
        for name, own in kinds.items():
            others = [each for each, theirs in kinds.items() if each != name and own & theirs]
            for root in ("authoritative", "before"):
                alike[f"{root}{path}.{name}"] = others[:SIBLINGS_MAX]
    return alike


def _add_fields(path: str, state: Json, found: dict[str, dict[str, set[str]]]) -> None:
    if not isinstance(state, dict):
        return
    for name, value in state.items():
        if value is not None:
            found.setdefault(path, {}).setdefault(name, set()).add(type(value).__name__)
        if name.isidentifier():
            _add_fields(f"{path}.{name}", value, found)
