"""Safe twins: an action's target for experiments, declared by the contract's author.

Read by drills. A twin runs the action's own code against a harmless target: another definition made by the same
function, bound to a sandbox, or the action itself with arguments that always mean a sandbox. Anything else is refused
here, before any call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Protocol

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.contracts.functions.arguments import ArgumentSchema
from readback.contracts.templates import Template
from readback.engine.compiled_contract import CompiledContract
from readback.errors import DrillRefusedError


class Drillable(Protocol):
    """The parts of a decorated action needed by a drill. `unverified` is the bare function."""

    unverified: Callable[..., object]

    @property
    def name(self) -> str:
        """The contract's name."""
        ...

    @property
    def plan(self) -> CompiledContract:
        """The compiled contract with its handlers."""
        ...

    @property
    def arguments(self) -> ArgumentSchema:
        """The argument schema."""
        ...


@dataclass(frozen=True, slots=True)
class SafeTarget:
    """A declared twin. `action`: another definition of the same code; None for the action itself, with `fixed`."""

    action: Drillable | None = None
    fixed: Mapping[str, object] = field(default_factory=dict)


def safe_twin(
    action: Drillable, declared: SafeTarget | None, arguments: Mapping[str, object]
) -> tuple[CompiledContract, Mapping[str, object], Mapping[str, Json]]:
    """Return the plan and arguments for a drill. Raises DrillRefusedError, ArgumentError, ContractError."""
    if declared is None:
        raise DrillRefusedError(f"The action {action.name!r} declares no safe twin.")
    target = action if declared.action is None else declared.action
    if declared.action is not None:
        _same_code_elsewhere(action, declared.action)
    elif not declared.fixed:
        raise DrillRefusedError(f"The twin of {action.name!r} is the action itself, on its real target.")
    for name, value in declared.fixed.items():
        if name in arguments and arguments[name] != value:
            raise DrillRefusedError(
                f"The twin of {action.name!r} has {name}={value!r}. Another value is not the declared twin."
            )
    if declared.action is None:
        _fixes_its_target(action, declared.fixed)
    bound, requested = target.arguments.bind((), {**arguments, **declared.fixed})
    return target.plan, bound, requested


def _same_code_elsewhere(action: Drillable, twin: Drillable) -> None:
    mine, theirs = inspect.unwrap(action.unverified), inspect.unwrap(twin.unverified)
    if mine is theirs or (_code(mine) is _code(theirs) and _bound(mine) == _bound(theirs)):
        raise DrillRefusedError(f"The twin of {action.name!r} acts on the action's own target.")
    if _code(mine) is not _code(theirs):
        raise DrillRefusedError(
            f"The twin of {action.name!r} runs other code, so a drill shows nothing about the action.",
            remedy="Create both with one function that takes the target.",
        )
    if action.plan.contract.execution != twin.plan.contract.execution:
        raise DrillRefusedError(f"The twin of {action.name!r} makes other claims about its tool.")


def _fixes_its_target(action: Drillable, fixed: Mapping[str, object]) -> None:
    template = action.plan.target
    paths = template.paths if isinstance(template, Template) else ()
    named = {path[1] for path in paths if path[0] == "requested"}
    if not named or not named <= set(fixed):
        missing = ", ".join(sorted(named - set(fixed))) or "an argument"
        raise DrillRefusedError(
            f"The twin of {action.name!r} does not fix {missing} of its target.",
            remedy="Fix every argument of the contract's target; the target must name at least one.",
        )


def _code(function: Any) -> object:
    return getattr(function, "__code__", None) or type(function)


def _bound(function: Any) -> tuple[object, ...]:
    """Return the bound values besides the arguments: only these let two functions of the same code act on different
    targets.
    """
    if not hasattr(function, "__code__"):
        return (id(function),)
    cells = tuple(id(cell.cell_contents) for cell in function.__closure__ or ())
    return (*cells, id(getattr(function, "__self__", None)), repr(function.__defaults__), repr(function.__kwdefaults__))
