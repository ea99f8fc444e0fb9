"""A proposal: an action with its bound and validated arguments, before anything has happened.

Made by calling a decorated function, taken by `Readback.run`. It is inert: it holds values, and does nothing.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from readback.canon import Json, UnsupportedValueError, ValueTooLargeError, json_value
from readback.domain.saga.fold import Reference
from readback.engine.compiled_contract import CompiledContract, Request
from readback.engine.values.argument_copies import copy_arguments, own_json
from readback.errors import ArgumentError, HonestyError, OversizeError, ProposalError, UsageError

if TYPE_CHECKING:
    from readback.client.step import SagaStep
    from readback.domain.outcome.outcome import Outcome


class UnusedProposalWarning(RuntimeWarning):
    """A proposal was dropped without being run: the action it names has not happened."""


class Definition(Protocol):
    """What is proposed: an action by its name and its plan."""

    @property
    def name(self) -> str:
        """The contract's name."""
        ...

    @property
    def plan(self) -> CompiledContract:
        """The compiled contract with its hands."""
        ...


class Proposal:
    """One call of an action, not made yet. `arguments`: as the tool gets them; `requested`: the same as JSON.

    `step` names the plan's step that it serves, `intended` the goal where it differs from the request. What it was
    made with is what is run: these three are copies, and changing one changes nothing else.
    A proposal is run once. `bool(proposal)` raises HonestyError, since nothing has been done.
    """

    __slots__ = (
        "__weakref__", "_arguments", "_file", "_intended", "_line", "_requested", "_used", "definition", "operation",
        "step",
    )  # fmt: skip

    def __init__(
        self,
        definition: Definition,
        arguments: Mapping[str, object],
        requested: Mapping[str, Json],
        *,
        step: str = "",
        intended: Mapping[str, Json] | None = None,
        proposed_in: FrameType | None = None,
        operation: str = "",
    ) -> None:
        self._used = False
        self.definition = definition
        self._arguments = arguments
        self._requested = requested
        self.step = step
        self._intended = intended
        self.operation = operation
        """What its contract calls this intent, where whoever runs it does not say."""
        self._file = "" if proposed_in is None else proposed_in.f_code.co_filename
        self._line = 0 if proposed_in is None else proposed_in.f_lineno

    @property
    def arguments(self) -> dict[str, object]:
        """The arguments as the tool gets them."""
        return copy_arguments(self._arguments)

    @property
    def requested(self) -> dict[str, Json]:
        """The same as JSON."""
        return own_json(self._requested)

    @property
    def intended(self) -> dict[str, Json] | None:
        """The goal, where it differs from the request."""
        return None if self._intended is None else own_json(self._intended)

    @property
    def used(self) -> bool:
        """It was run, or another proposal was made from it."""
        return self._used

    def planned(self, *, step: str = "", intended: Mapping[str, object] | None = None) -> Proposal:
        """The same proposal with the plan's step and the goal that it comes from. This one is used up by it.

        Raises ArgumentError or OversizeError for a goal that has no JSON form.
        """
        goal = self._intended if intended is None else _goal(intended)
        self.mark_run()
        step = step or self.step
        planned = Proposal(
            self.definition, self._arguments, self._requested, step=step, intended=goal, operation=self.operation
        )
        planned._file, planned._line = self._file, self._line
        return planned

    def under(self, definition: Definition) -> Proposal:
        """The same proposal of another definition, whose contract is narrower. It does not mark this one as run."""
        return Proposal(
            definition,
            self._arguments,
            self._requested,
            step=self.step,
            intended=self._intended,
            operation=self.operation,
        )

    @property
    def references(self) -> Mapping[str, Reference]:
        """Arguments that stand for values of earlier steps: such a proposal can be run as a step only."""
        if len(self._arguments) == len(self._requested):
            return {}
        return {name: value for name, value in self._arguments.items() if isinstance(value, Reference)}

    def as_step(self, name: str, *, after: Sequence[str] = (), pivot: bool = False) -> SagaStep:
        """This proposal as a step of a saga: `name` in it, `after` the steps that have to be verified before it begins.

        `pivot`: the point of no return. Raises ProposalError.
        """
        from readback.client.step import SagaStep, names_of

        return SagaStep(self, name, names_of(after), bool(pivot))

    def run(self, *, operation: str | None = None, wait: float | None = None, run: str | None = None) -> Outcome:
        """Run it in the client in use; see `readback.use`. With an AsyncReadback in use, await `run_async()`.

        Raises:
            UsageError: no client is in use, or the client in use is an AsyncReadback.

        Example:
            >>> from readback import Readback, use, verified
            >>> lamp = {"on": False}
            >>> def switch_on() -> None: lamp["on"] = True
            >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
            >>> with Readback.open("memory:") as rb, use(rb):
            ...     switch().run().verified
            True
        """
        client: Any = _client_in_use(is_async=False)
        outcome: Outcome = client.run(self, operation=operation, wait=wait, run=run)
        return outcome

    async def run_async(
        self, *, operation: str | None = None, wait: float | None = None, run: str | None = None
    ) -> Outcome:
        """Run it in the AsyncReadback in use; see `readback.use`. Raises UsageError as `run` does."""
        client: Any = _client_in_use(is_async=True)
        outcome: Outcome = await client.run(self, operation=operation, wait=wait, run=run)
        return outcome

    def mark_run(self) -> None:
        """Called by what runs it. Raises ProposalError the second time."""
        if self._used:
            raise ProposalError("This proposal was run already.", remedy="Propose the action again.")
        self._used = True

    def request(
        self,
        operation: str = "",
        replaces: str = "",
        intended: Mapping[str, Json] | None = None,
        step: str = "",
        upon: tuple[str, ...] = (),
        ahead: bool = False,
    ) -> Request:
        """What the engine takes; a goal and a step that are given here come before its own. It does not mark the
        proposal as run. Raises ProposalError for one that refers to other steps.
        """
        if len(self._arguments) != len(self._requested):
            raise ProposalError(
                f"{self.definition.name!r} refers to other steps, and is run by itself.",
                remedy="Pass it to `saga` as a step, or give it values.",
            )
        return Request(
            self.definition.plan,
            self._arguments,
            self._requested,
            operation,
            self._intended if intended is None else intended,
            step or self.step,
            replaces,
            upon=upon,
            ahead=ahead,
        )

    def __bool__(self) -> NoReturn:
        raise HonestyError("A proposal is neither true nor false: nothing has happened yet.")

    def __repr__(self) -> str:
        """The action and the names of its arguments; no values, which may be secret or long."""
        state = "run" if self._used else "not run"
        return f"<Proposal {self.definition.name}({', '.join(self._requested)}), {state}>"

    def __del__(self) -> None:
        if getattr(self, "_used", True) or sys.is_finalizing():
            return
        warnings.warn_explicit(
            f"The proposal {self.definition.name!r} was never run: nothing has happened. Pass it to `run`.",
            UnusedProposalWarning,
            self._file or "<proposal>",
            self._line or 1,
        )


def _client_in_use(*, is_async: bool) -> object:
    from readback.client.in_use import client_in_use

    client = client_in_use()
    if inspect.iscoroutinefunction(getattr(type(client), "run", None)) is not is_async:
        wanted, call = (
            ("AsyncReadback", "await proposal.run_async()") if not is_async else ("Readback", "proposal.run()")
        )
        raise UsageError(f"The client in use is a {wanted}.", remedy=f"Write {call}.")
    return client


def _goal(intended: Mapping[str, object]) -> dict[str, Json]:
    try:
        goal = json_value(intended)
    except ValueTooLargeError as error:
        raise OversizeError(f"The intent is too large. {error.message}") from error
    except UnsupportedValueError as error:
        raise ArgumentError(f"The intent has no JSON form. {error.message}") from error
    if not isinstance(goal, dict):
        raise ArgumentError("The intent is a mapping of names.")
    return goal
