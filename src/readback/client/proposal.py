"""A proposal: an action with bound and validated arguments, before anything has happened.

Made by calling a decorated function, for `Readback.run`. A proposal is inert: it holds values, and does nothing.
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
    """A proposal was dropped without a run: the named action has not happened.

    Example:
        >>> import warnings
        >>> from readback import UnusedProposalWarning, verified
        >>> def ship_order(order_id: str) -> None: ...
        >>> ship = verified(ship_order, read=lambda order_id: None, expect={"status": "shipped"})
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always", UnusedProposalWarning)
        ...     proposal = ship("o-17")
        ...     del proposal
        >>> print(caught[0].message)
        The proposal 'ship_order' was never run: nothing has happened. Pass it to `run`.
    """


class Definition(Protocol):
    """A proposed action: the name and the plan."""

    @property
    def name(self) -> str:
        """The contract's name."""
        ...

    @property
    def plan(self) -> CompiledContract:
        """The compiled contract with its handlers."""
        ...


class Proposal:
    """One call of an action, not made yet. `bool(proposal)` raises HonestyError, since nothing has been done.

    A proposal runs once, with the values of its creation: `arguments`, `requested` and `intended` are copies.

    Attributes:
        arguments: The arguments for the tool.
        requested: The arguments as JSON.
        step: The plan's step.
        intended: The goal, where different from the request.

    Example:
        >>> from readback import verified
        >>> def ship_order(order_id: str) -> None: ...
        >>> ship = verified(ship_order, read=lambda order_id: None, expect={"status": "shipped"})
        >>> proposal = ship("o-17")
        >>> dict(proposal.requested), proposal.used
        ({'order_id': 'o-17'}, False)
        >>> proposal.mark_run()
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
        """The contract's name for this intent, where the caller gives none."""
        self._file = "" if proposed_in is None else proposed_in.f_code.co_filename
        self._line = 0 if proposed_in is None else proposed_in.f_lineno

    @property
    def arguments(self) -> dict[str, object]:
        """The arguments for the tool."""
        return copy_arguments(self._arguments)

    @property
    def requested(self) -> dict[str, Json]:
        """The arguments as JSON."""
        return own_json(self._requested)

    @property
    def intended(self) -> dict[str, Json] | None:
        """The goal, where different from the request."""
        return None if self._intended is None else own_json(self._intended)

    @property
    def used(self) -> bool:
        """Whether the proposal was run, or replaced by another proposal."""
        return self._used

    def planned(self, *, step: str = "", intended: Mapping[str, object] | None = None) -> Proposal:
        """Return the same proposal with the plan's step and goal. This proposal counts as used afterwards.

        Raises ArgumentError or OversizeError for a goal without a JSON form.
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
        """Return the same proposal under another, narrower contract. This proposal is not marked as run."""
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
        """Arguments that stand for values of earlier steps: such a proposal can run only as a step."""
        if len(self._arguments) == len(self._requested):
            return {}
        return {name: value for name, value in self._arguments.items() if isinstance(value, Reference)}

    def as_step(self, name: str, *, after: Sequence[str] = (), pivot: bool = False) -> SagaStep:
        """Return this proposal as a step of a saga: `name` names the step, `after` its predecessors.

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
        """Run the proposal in the AsyncReadback in use; see `readback.use`. Raises UsageError as `run` does."""
        client: Any = _client_in_use(is_async=True)
        outcome: Outcome = await client.run(self, operation=operation, wait=wait, run=run)
        return outcome

    def mark_run(self) -> None:
        """Mark the proposal as run; called by the running client. Raises ProposalError the second time."""
        if self._used:
            raise ProposalError(
                "This proposal was already run.", remedy="Create a new proposal by calling the action again."
            )
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
        """Return the engine's request; the given goal and step precede the proposal's own. The proposal is not marked
        as run.

        Raises ProposalError for a proposal with references to other steps.
        """
        if len(self._arguments) != len(self._requested):
            raise ProposalError(
                f"{self.definition.name!r} refers to other steps and cannot run alone.",
                remedy="Pass the proposal to `saga` as a step, or pass values.",
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
        raise HonestyError("A proposal has no truth value: nothing has happened yet.")

    def __repr__(self) -> str:
        """Show the action and the arguments' names without values, which may be secret or long."""
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
        raise ArgumentError("The intent must be a mapping of names.")
    return goal
