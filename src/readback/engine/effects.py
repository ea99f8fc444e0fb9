"""Effects: the engine's requests to a driver, and the driver's answers.

The engine yields an effect; a driver performs the effect and sends the result back. The engine never reads a clock: the
time comes with the results. This module is the engine's whole view of the world.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from enum import StrEnum
from typing import Any, Generic, TypeAlias, TypeVar, cast

from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.context import Context
from readback.domain.saga.fold import Saga
from readback.engine.compiled_contract import CompiledContract
from readback.ports.storage.store import Append, AppendResult, Freeze, KeyRecord, Opened


class Ending(StrEnum):
    """How an outside call ended."""

    RETURNED = "returned"
    RAISED = "raised"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    NOT_MADE = "not_made"
    """Provably not called: the latest time for the call had passed."""


class ReadKind(StrEnum):
    """The handler for a reading."""

    READER = "reader"
    FIND = "find"
    LOOKUP = "lookup"
    STAGED = "staged"


@dataclass(frozen=True, slots=True)
class Committed:
    result: AppendResult
    now_us: int


@dataclass(frozen=True, slots=True)
class Called:
    """How a call ended: `value` after a return, `error` after a raise, with the times around the call by our clock."""

    ending: Ending
    value: object
    error: BaseException | None
    started_us: int
    finished_us: int


@dataclass(frozen=True, slots=True)
class Leased:
    """`fence` None: another worker holds the lease. `version`: the action's current version, possibly newer than
    expected.
    """

    fence: int | None
    version: int
    now_us: int


@dataclass(frozen=True, slots=True)
class ClockResult:
    now_us: int
    action_id: str
    owner: str


R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EffectOf(Generic[R]):
    """An effect. `yield from` an effect asks the driver, and is the driver's result of the type `R`."""

    def __iter__(self) -> Generator[Effect, Any, R]:
        result: R = yield cast("Effect", self)
        return result


@dataclass(frozen=True, slots=True)
class Commit(EffectOf[Committed]):
    """Make the append durable."""

    append: Append


@dataclass(frozen=True, slots=True)
class AllowEarlyDispatch(EffectOf[int]):
    """Nothing bars an action with an allowed early call. A capable driver may call the tool now, before the attempt,
    the next commit, is durable. Result: the time in microseconds.
    """


@dataclass(frozen=True, slots=True)
class Dispatch(EffectOf[Called]):
    """Call the tool for a durable attempt; never after `not_after_us`."""

    plan: CompiledContract
    context: Context
    arguments: Mapping[str, object]
    timeout_us: int
    not_after_us: int
    action: Action
    """The action as of the attempt, for a span. No user code receives the action."""
    verification_table: str = ""
    recovery_table: str = ""


@dataclass(frozen=True, slots=True)
class CallReader(EffectOf[Called]):
    """Take a reading with one handler."""

    plan: CompiledContract
    look: ReadKind
    index: int
    context: Context
    arguments: Mapping[str, object]
    timeout_us: int
    staged: object = None


@dataclass(frozen=True, slots=True)
class Settle(EffectOf[Called]):
    """Commit or abandon a staged transaction, or (with `staged` None) roll back."""

    plan: CompiledContract
    context: Context
    arguments: Mapping[str, object]
    staged: object
    commit: bool
    timeout_us: int


@dataclass(frozen=True, slots=True)
class Wait(EffectOf[int]):
    """Wait until this time. Everything is durable, and the lease is released. Result: the time in microseconds."""

    action_id: str
    until_us: int


@dataclass(frozen=True, slots=True)
class Lease(EffectOf[Leased]):
    """Acquire or renew the lease. `version`: only if the action still has this version (0: any)."""

    action_id: str
    until_us: int
    version: int = 0


@dataclass(frozen=True, slots=True)
class Load(EffectOf[bytes | None]):
    """Load the bytes of an action's evidence."""

    tenant: str
    action_id: str
    digest: str


@dataclass(frozen=True, slots=True)
class LoadKey(EffectOf[KeyRecord | None]):
    """Load the idempotency record."""

    tenant: str
    key_hash: str


@dataclass(frozen=True, slots=True)
class LoadPreconditions(EffectOf[Opened]):
    """Load the ledger's preconditions of a new action: key record, tenant counters, freeze."""

    tenant: str
    key_hash: str
    subjects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoadCounts(EffectOf[Mapping[tuple[str, str], int]]):
    """Load the tenant's counters above zero, by subject and name."""

    tenant: str


@dataclass(frozen=True, slots=True)
class LoadFreeze(EffectOf[Freeze | None]):
    """Load the oldest freeze of these subjects, or of the freezes `by` this action alone."""

    tenant: str
    subjects: tuple[str, ...]
    by: str = ""


@dataclass(frozen=True, slots=True)
class GetClock(EffectOf[ClockResult]):
    """Get the time, and with `fresh` the next action's id."""

    fresh: bool = False


@dataclass(frozen=True, slots=True)
class LoadAction(EffectOf[Action | None]):
    """Fold another action's events."""

    action_id: str


@dataclass(frozen=True, slots=True)
class LoadActions(EffectOf[Mapping[str, Action]]):
    """Fold several actions' events. Result: the existing actions, by id."""

    action_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoadDependants(EffectOf[tuple[str, ...]]):
    """Load the ids of actions depending on a claim, up to a limit."""

    tenant: str
    claim: str
    limit: int


@dataclass(frozen=True, slots=True)
class LoadSaga(EffectOf[Saga | None]):
    """Fold a saga's events."""

    saga_id: str


@dataclass(frozen=True, slots=True)
class MakeDue(EffectOf[int]):
    """Move the due time of a waiting action forward to now, without a decision. Result: the time in microseconds."""

    action_id: str


@dataclass(frozen=True, slots=True)
class RunAll(EffectOf[tuple[Any, ...]]):
    """Run these generators, none of them waiting, in parallel if the driver can.

    The results are in order, each a value or the raised exception. A sequential driver stops at the first error.
    Generators not started by then are already announced in the ledger.
    """

    works: tuple[Effects[Any], ...]


@dataclass(frozen=True, slots=True)
class ReserveReadSlot(EffectOf[int]):
    """Reserve a rate-limited reading for a tenant, from this moment on. Result: its time in microseconds."""

    tenant: str
    wanted_us: int
    per_minute: int


@dataclass(frozen=True, slots=True)
class ProveEnded(EffectOf[bool]):
    """Has the process behind an attempt of this action provably ended?"""

    action_id: str
    owner: str


@dataclass(frozen=True, slots=True)
class MeasureEvidence(EffectOf[int]):
    """Measure a tenant's evidence in bytes."""

    tenant: str


Effect = (
    Commit
    | AllowEarlyDispatch
    | Dispatch
    | CallReader
    | Settle
    | Wait
    | Lease
    | Load
    | LoadKey
    | LoadPreconditions
    | LoadCounts
    | LoadAction
    | LoadActions
    | LoadDependants
    | LoadSaga
    | MakeDue
    | RunAll
    | LoadFreeze
    | ReserveReadSlot
    | ProveEnded
    | MeasureEvidence
    | GetClock
)

Effects: TypeAlias = Generator[Effect, Any, T]
"""A generator of effects that returns a T."""
