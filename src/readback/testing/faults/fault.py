"""The injected faults, and the world of a contract: both public.

A fault is a failure of a tool, a source or a verifier. A world states the readings of a contract's source before and
after a call, so a simulated system can take the place of the real system. The contract keeps all
predicates, identity, windows and readers' declarations.

Source: the action verification specification, "Release gates", "Hallucinated success patterns".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Protocol

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.context import Context
from readback.domain.contract.contract import Contract
from readback.domain.outcome.outcome import Outcome
from readback.engine.compiled_contract import CompiledContract
from readback.errors import DrillUndeterminedError, ReadbackError
from readback.ports.runtime import Runtime


class Fault(StrEnum):
    """An injected fault. `NONE` is the honest run, passed by every fitting world first.

    Example:
        >>> from readback import verified
        >>> from readback.testing import Fault, SimulatedWorld, inject
        >>> def switch_on(room: str) -> None: ...
        >>> switch = verified(switch_on, read=lambda room: None, strong=True, expect={"on": True}, within="10s")
        >>> world = SimulatedWorld(
        ...     "switch_on", arguments={"room": "hall"}, before={"on": False}, after={"on": True}
        ... )
        >>> inject(switch.plan, world, Fault.TIMEOUT_AFTER_COMMIT).standing.value
        'held'
    """

    NONE = "none"
    STALE_READ_DENIES = "stale-read-denies"
    """The tool acts. Every reading shows the earlier state, as a replica or a cache."""
    STALE_READ_CONFIRMS = "stale-read-confirms"
    """The tool does nothing. Every reading shows the wanted state of an earlier, equal action, as a cache."""
    TIMEOUT_BEFORE_COMMIT = "timeout-before-commit"
    """The tool gives no answer and does nothing."""
    TIMEOUT_AFTER_COMMIT = "timeout-after-commit"
    """The tool acts and gives no answer."""
    DUPLICATE = "duplicate"
    """A single call has two effects."""
    WRONG_TENANT = "wrong-tenant"
    """The tool acts for another tenant. Readings show the right place."""
    WRONG_TENANT_READ = "wrong-tenant-read"
    """The tool acts for another tenant, and the readings show the other tenant's record."""
    PARTIAL_COMMIT = "partial-commit"
    """A part of the effect is committed, and the rest is lost."""
    SOURCE_OUTAGE = "source-outage"
    """The tool acts, and no source answers afterwards."""
    BROKEN_VERIFIER = "broken-verifier"
    """The tool acts, and every reader breaks."""


INJECTED: Final = tuple(each for each in Fault if each is not Fault.NONE)
"""Every fault, without the honest run."""


class NotInjectable(Exception):
    """A fault has no meaning for this contract, such as half of an effect with a single field.

    `undetermined`: the world lacks a statement of the author.
    """

    def __init__(self, reason: str, *, undetermined: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.undetermined = reason, undetermined


class WorldMisfitError(DrillUndeterminedError):
    """The honest run of a world is not verified: the world does not state the readings of the contract's source."""

    code = "drill.world-misfit"

    remedy_default = "State in `before` and `after` what the source shows before and after an honest call."


def misfit(contract: Contract, outcome: Outcome) -> WorldMisfitError:
    """Return the error for an honest run with this outcome."""
    said = outcome.detail or outcome.message
    failing = [post.name for post in outcome.postconditions if post.truth.value != "holds"]
    open_ones = f" Postconditions: {', '.join(failing):.200}." if failing else ""
    ended = f"{outcome.state.value} ({outcome.verdict.value})"
    return WorldMisfitError(f"The honest run of {contract.name!r} ended as {ended}: {said:.200}{open_ones}")


class Scene(Protocol):
    """A prepared run: the tool, the read paths, and the truth."""

    calls: int
    """Calls of the tool so far."""
    fault: Fault
    """The fault from now on. A drill ends an outage by a change."""

    @property
    def staged(self) -> bool:
        """Whether the tool left a local transaction open."""
        ...

    def act(self, context: Context, arguments: Mapping[str, object]) -> object:
        """Answer as the tool."""
        ...

    def read(self, index: int, context: Context, arguments: Mapping[str, object]) -> object:
        """Answer as the contract's reader of this number."""
        ...

    def find(self, context: Context, arguments: Mapping[str, object]) -> object:
        """Answer as the search by stamp."""
        ...

    def lookup(self, context: Context, arguments: Mapping[str, object]) -> object:
        """Answer as the look-up by key."""
        ...

    def reverse(self, context: Context, arguments: Mapping[str, object]) -> object:
        """Answer as the compensation or the rollback."""
        ...

    def truth(self) -> Truth:
        """Return what really happened."""
        ...


@dataclass(frozen=True, slots=True)
class Truth:
    """What really happened. `right`: effects in the right place, as required; `wrong`: all other effects.

    None: the world cannot say, and every claim of success counts as false.
    """

    right: int | None
    wrong: int | None
    reversed: bool = False


class FaultWorld(Protocol):
    """A world for a contract. Implement the protocol for a system of your own."""

    @property
    def contract(self) -> str:
        """The contract's name."""
        ...

    @property
    def arguments(self) -> Mapping[str, Json]:
        """The arguments of a call, in JSON."""
        ...

    def scene(self, plan: CompiledContract, fault: Fault, runtime: Runtime) -> Scene:
        """Prepare a run. Raises NotInjectable where the fault has no meaning here."""
        ...


def show(error: BaseException) -> str:
    """Return a line about an error."""
    return error.message if isinstance(error, ReadbackError) else f"{type(error).__name__}: {error}"
