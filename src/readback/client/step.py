"""A step of a saga: a proposal with a name, predecessors, and the pivot's mark. A step is inert, like a proposal.

Made by `Proposal.as_step` for `Readback.saga`. `from_step` stands for a later value of an earlier step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.saga.fold import Reference
from readback.engine.compiled_contract import CompiledContract
from readback.engine.saga.begin import StepRequest
from readback.errors import HonestyError, ProposalError


class Planned(Protocol):
    """An action with a plan."""

    @property
    def plan(self) -> CompiledContract:
        """The compiled contract with its handlers."""
        ...


class Proposed(Protocol):
    """The parts of a proposal needed by a step."""

    @property
    def definition(self) -> Planned:
        """The proposed action."""
        ...

    @property
    def requested(self) -> Mapping[str, Json]:
        """The arguments without references."""
        ...

    @property
    def intended(self) -> Mapping[str, Json] | None:
        """The goal, where different from the request."""
        ...

    @property
    def references(self) -> Mapping[str, Reference]:
        """Arguments that stand for values of earlier steps."""
        ...

    def mark_run(self) -> None:
        """Mark the proposal as run."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class SagaStep:
    """One step of a saga, made by `Proposal.as_step`. `after`: steps to verify before this step begins. `pivot`: the
    point of no return. Before the pivot everything can be reversed, after the pivot everything is completed.

    Example:
        >>> from readback import Readback, verified
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> with Readback.open("memory:") as rb:
        ...     rb.saga([switch().as_step("on", pivot=True)]).verified
        True
    """

    proposal: Proposed
    name: str
    after: tuple[str, ...] = ()
    pivot: bool = False

    def __bool__(self) -> NoReturn:
        raise HonestyError("A step has no truth value: nothing has happened yet.")

    def defined(self) -> StepRequest:
        """Return the step as the engine's definition. The proposal counts as run."""
        made = self.proposal
        made.mark_run()
        return StepRequest(
            self.name, made.definition.plan, made.requested, made.intended, made.references, self.after, self.pivot
        )


def names_of(after: object) -> tuple[str, ...]:
    """Return the names under `after`, each once.

    Raises ProposalError for anything else: a text is no list of letters.
    """
    if isinstance(after, str) or not isinstance(after, Sequence) or not all(isinstance(n, str) for n in after):
        raise ProposalError("`after` takes names of steps.", remedy='Pass a tuple, such as after=("hotel",).')
    return tuple(dict.fromkeys(after))


def from_step(step: str, path: str) -> Any:
    """Stand for a value of an earlier step of the saga, as an argument, validated when the step begins.

    A missing or unfit value keeps the step from starting, and the saga turns back.

    Args:
        step: The earlier step's name.
        path: The path into the earlier step's reconciled authoritative state ("price"), or with "requested." into the
            earlier step's request.

    Example:
        >>> from readback import from_step
        >>> from_step("quote", "price")
        from_step('quote', 'price')
    """
    given: tuple[object, ...] = (step, path)
    for value in given:
        if not isinstance(value, str) or not value:
            raise ProposalError("from_step takes the name of a step and a path in its state.")
    return Reference(step, path)
