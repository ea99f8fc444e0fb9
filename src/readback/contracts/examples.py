"""Examples of a contract: states of the system of record with the verdict that a person expects of each.

A contract file holds the examples, and `judging` judges each. Values only, so a file loads without the engine's stages.

Source: the action verification specification, "State Reconciliation Model".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Final, TypeAlias

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.verdict import Verdict
from readback.errors import ContractError

Steps: TypeAlias = tuple[str | int, ...]
"""The path of a part of a state: names of fields and places in lists."""
TENANT: Final = "default"


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
