"""A step of a saga: a proposal with its name, what it waits for, and whether it is the pivot. Inert, like a proposal.

Made by `Proposal.as_step`, taken by `Readback.saga`. `from_step` stands for a value that an earlier step will have.
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
    """What is proposed: anything with a plan."""

    @property
    def plan(self) -> CompiledContract:
        """The compiled contract with its hands."""
        ...


class Proposed(Protocol):
    """A proposal, as far as a step needs it."""

    @property
    def definition(self) -> Planned:
        """Its action."""
        ...

    @property
    def requested(self) -> Mapping[str, Json]:
        """Its arguments, less those that are references."""
        ...

    @property
    def intended(self) -> Mapping[str, Json] | None:
        """Its goal, where that differs."""
        ...

    @property
    def references(self) -> Mapping[str, Reference]:
        """Arguments that stand for values of earlier steps."""
        ...

    def mark_run(self) -> None:
        """It is used up."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class SagaStep:
    """One step of a saga. `after`: steps that have to be verified before it begins. `pivot`: the point of no return:
    before it everything can be reversed, after it everything is completed.
    """

    proposal: Proposed
    name: str
    after: tuple[str, ...] = ()
    pivot: bool = False

    def __bool__(self) -> NoReturn:
        raise HonestyError("A step is neither true nor false: nothing has happened yet.")

    def defined(self) -> StepRequest:
        """The step as the engine takes it. Its proposal is used up."""
        made = self.proposal
        made.mark_run()
        return StepRequest(
            self.name, made.definition.plan, made.requested, made.intended, made.references, self.after, self.pivot
        )


def names_of(after: object) -> tuple[str, ...]:
    """The names under `after`, each once. Raises ProposalError for anything else: a text is not a list of letters."""
    if isinstance(after, str) or not isinstance(after, Sequence) or not all(isinstance(n, str) for n in after):
        raise ProposalError("`after` takes names of steps.", remedy='Pass a tuple, such as after=("hotel",).')
    return tuple(dict.fromkeys(after))


def from_step(step: str, path: str) -> Any:
    """A value of an earlier step of the saga, to be passed as an argument: bound and validated when the step begins.

    `path` leads into that step's reconciled authoritative state ("price"), or with "requested." into what was asked of
    it. What is not there then, or does not fit, keeps the step from being begun, and the saga turns back.
    """
    given: tuple[object, ...] = (step, path)
    for value in given:
        if not isinstance(value, str) or not value:
            raise ProposalError("from_step takes the name of a step and a path in its state.")
    return Reference(step, path)
