"""Effects: the engine's requests to a driver, and the driver's answers.

The engine yields an effect; a driver performs the effect and sends the result back. Every result carries the time, so
the engine never reads a clock. This module is the engine's whole view of the world.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from enum import StrEnum
from typing import Any

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
class Commit:
    """Make the append durable. Answer: Committed."""

    append: Append


@dataclass(frozen=True, slots=True)
class AllowEarlyDispatch:
    """Nothing bars an action with an allowed early call. A capable driver may call the tool now, before the attempt,
    the next commit, is durable. Answer: Woken.
    """


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Call the tool for a durable attempt; never after `not_after_us`. Answer: Called."""

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
class CallReader:
    """Take a reading with one handler. Answer: Called."""

    plan: CompiledContract
    look: ReadKind
    index: int
    context: Context
    arguments: Mapping[str, object]
    timeout_us: int
    staged: object = None


@dataclass(frozen=True, slots=True)
class Settle:
    """Commit or abandon a staged transaction, or (with `staged` None) roll back. Answer: Called."""

    plan: CompiledContract
    context: Context
    arguments: Mapping[str, object]
    staged: object
    commit: bool
    timeout_us: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until this time. Everything is durable, and the lease is released. Answer: Woken."""

    action_id: str
    until_us: int


@dataclass(frozen=True, slots=True)
class Lease:
    """Acquire or renew the lease. Answer: Leased. `version`: only if the action still has this version (0: any)."""

    action_id: str
    until_us: int
    version: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """Load evidence of an action. Answer: Loaded."""

    tenant: str
    action_id: str
    digest: str


@dataclass(frozen=True, slots=True)
class LoadKey:
    """Load the idempotency record. Answer: KeyFound."""

    tenant: str
    key_hash: str


@dataclass(frozen=True, slots=True)
class LoadPreconditions:
    """Load the ledger's preconditions of a new action: key record, tenant counters, freeze. Answer: Opened."""

    tenant: str
    key_hash: str
    subjects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoadCounts:
    """Load the tenant's counters above zero. Answer: Counted."""

    tenant: str


@dataclass(frozen=True, slots=True)
class LoadFreeze:
    """Load the oldest freeze of these subjects, or of the freezes `by` this action alone. Answer: FreezeFound."""

    tenant: str
    subjects: tuple[str, ...]
    by: str = ""


@dataclass(frozen=True, slots=True)
class GetClock:
    """Get the time, and with `fresh` the next action's id. Answer: Begun."""

    fresh: bool = False


@dataclass(frozen=True, slots=True)
class LoadAction:
    """Fold another action's events. Answer: Folded."""

    action_id: str


@dataclass(frozen=True, slots=True)
class LoadActions:
    """Fold several actions' events. Answer: ActionsById."""

    action_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoadDependants:
    """Load the actions depending on a claim, up to a limit. Answer: DependantsFound."""

    tenant: str
    claim: str
    limit: int


@dataclass(frozen=True, slots=True)
class LoadSaga:
    """Fold a saga's events. Answer: FoldedSaga."""

    saga_id: str


@dataclass(frozen=True, slots=True)
class MakeDue:
    """Move the due time of a waiting action forward to now, without a decision. Answer: Woken."""

    action_id: str


@dataclass(frozen=True, slots=True)
class RunAll:
    """Run these generators, none of them waiting, in parallel if the driver can. Answer: AllResults.

    A sequential driver stops at the first error. Generators not started by then are already announced in the ledger.
    """

    works: tuple[Generator[Effect, EffectResult, Any], ...]


@dataclass(frozen=True, slots=True)
class ReserveReadSlot:
    """Reserve a rate-limited reading for a tenant, from this moment on. Answer: ReadSlot."""

    tenant: str
    wanted_us: int
    per_minute: int


@dataclass(frozen=True, slots=True)
class ProveEnded:
    """Has the process behind an attempt of this action provably ended? Answer: Proved."""

    action_id: str
    owner: str


@dataclass(frozen=True, slots=True)
class MeasureEvidence:
    """Measure a tenant's evidence. Answer: EvidenceSize."""

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


@dataclass(frozen=True, slots=True)
class ReadSlot:
    at_us: int


@dataclass(frozen=True, slots=True)
class Proved:
    ended: bool


@dataclass(frozen=True, slots=True)
class EvidenceSize:
    bytes: int


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
class Woken:
    now_us: int


@dataclass(frozen=True, slots=True)
class Leased:
    """`fence` None: another worker holds the lease. `version`: the action's current version, possibly newer than
    expected.
    """

    fence: int | None
    version: int
    now_us: int


@dataclass(frozen=True, slots=True)
class Loaded:
    body: bytes | None


@dataclass(frozen=True, slots=True)
class KeyFound:
    record: KeyRecord | None


@dataclass(frozen=True, slots=True)
class Counted:
    counts: Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class FreezeFound:
    freeze: Freeze | None


@dataclass(frozen=True, slots=True)
class ClockResult:
    now_us: int
    action_id: str
    owner: str


@dataclass(frozen=True, slots=True)
class Folded:
    action: Action | None


@dataclass(frozen=True, slots=True)
class ActionsById:
    """The existing actions, by id."""

    actions: Mapping[str, Action]


@dataclass(frozen=True, slots=True)
class DependantsFound:
    action_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FoldedSaga:
    saga: Saga | None


@dataclass(frozen=True, slots=True)
class AllResults:
    """The results in order; for a raised error, the exception."""

    results: tuple[Any, ...]


EffectResult = (
    Committed
    | Called
    | Woken
    | Leased
    | Loaded
    | KeyFound
    | Opened
    | Counted
    | Folded
    | ActionsById
    | DependantsFound
    | FoldedSaga
    | AllResults
    | FreezeFound
    | ReadSlot
    | Proved
    | EvidenceSize
    | ClockResult
)
