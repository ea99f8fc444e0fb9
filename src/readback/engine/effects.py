"""What the engine wants done, and what it is told happened.

The engine yields a step; a driver does it and sends the answer back. Every answer carries the time, so that the engine
itself never asks for it. This module is the whole of the engine's view of the world.
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
    """How a call into the outside world ended."""

    RETURNED = "returned"
    RAISED = "raised"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    NOT_MADE = "not_made"
    """Provably not called: the time until which it may be called had passed."""


class ReadKind(StrEnum):
    """Which hand takes a look."""

    READER = "reader"
    FIND = "find"
    LOOKUP = "lookup"
    STAGED = "staged"


@dataclass(frozen=True, slots=True)
class Commit:
    """Make this durable. Answer: Committed."""

    append: Append


@dataclass(frozen=True, slots=True)
class AllowEarlyDispatch:
    """Nothing speaks against an action whose call may be made ahead of its attempt, which comes next: who can makes it
    now. Answer: Woken.
    """


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Call the tool, for an attempt that is durable; never after `not_after_us`. Answer: Called."""

    plan: CompiledContract
    context: Context
    arguments: Mapping[str, object]
    timeout_us: int
    not_after_us: int


@dataclass(frozen=True, slots=True)
class CallReader:
    """Take a look with one hand. Answer: Called."""

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
    """Nothing to do before this time: everything is durable, and the lease is given back. Answer: Woken."""

    action_id: str
    until_us: int


@dataclass(frozen=True, slots=True)
class Lease:
    """Take (or renew) the lease. Answer: Leased. `version`: only if the action is still there (0: wherever it is)."""

    action_id: str
    until_us: int
    version: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """Bring evidence of an action. Answer: Loaded."""

    tenant: str
    action_id: str
    digest: str


@dataclass(frozen=True, slots=True)
class LoadKey:
    """Bring the idempotency record. Answer: KeyFound."""

    tenant: str
    key_hash: str


@dataclass(frozen=True, slots=True)
class LoadPreconditions:
    """Bring all that a new action meets: its key's record, the tenant's counters, a freeze. Answer: Opened."""

    tenant: str
    key_hash: str
    subjects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoadCounts:
    """Bring the tenant's counters above zero. Answer: Counted."""

    tenant: str


@dataclass(frozen=True, slots=True)
class LoadFreeze:
    """Bring the oldest freeze of one of these subjects, or of those `by` this action alone. Answer: FreezeFound."""

    tenant: str
    subjects: tuple[str, ...]
    by: str = ""


@dataclass(frozen=True, slots=True)
class Begin:
    """What time is it; and, where `fresh`, what is the next action's id? Answer: Begun."""

    fresh: bool = False


@dataclass(frozen=True, slots=True)
class LoadAction:
    """Fold another action's events. Answer: Folded."""

    action_id: str


@dataclass(frozen=True, slots=True)
class LoadActions:
    """Fold several actions' events. Answer: Family."""

    action_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoadDependants:
    """Bring the actions that were planned upon a claim, so many at most. Answer: DependantsFound."""

    tenant: str
    claim: str
    limit: int


@dataclass(frozen=True, slots=True)
class LoadSaga:
    """Fold a saga's events. Answer: FoldedSaga."""

    saga_id: str


@dataclass(frozen=True, slots=True)
class MakeDue:
    """Bring the due time of something that waits forward to now: it decides nothing. Answer: Woken."""

    action_id: str


@dataclass(frozen=True, slots=True)
class RunAll:
    """Do these works, none of which waits: at the same time where the driver can. Answer: Gathered.

    A driver that does them one after the other stops at the first that raises; what it has not begun is announced.
    """

    works: tuple[Generator[Effect, EffectResult, Any], ...]


@dataclass(frozen=True, slots=True)
class ReserveReadSlot:
    """Reserve a look for a tenant whose looks are limited, from that moment on. Answer: Paced."""

    tenant: str
    wanted_us: int
    per_minute: int


@dataclass(frozen=True, slots=True)
class ProveEnded:
    """Has the process that made an attempt of this action provably ended? Answer: Proved."""

    action_id: str
    owner: str


@dataclass(frozen=True, slots=True)
class MeasureEvidence:
    """How much evidence does a tenant have? Answer: Weighed."""

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
    | Begin
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
    """How a call ended: `value` where it returned, `error` where it raised. Times of our clock around it."""

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
    """`fence` None: somebody else works on it. `version`: the action's, which may have moved on meanwhile."""

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
class Begun:
    now_us: int
    action_id: str
    owner: str


@dataclass(frozen=True, slots=True)
class Folded:
    action: Action | None


@dataclass(frozen=True, slots=True)
class ActionsById:
    """The actions that there are, by id."""

    actions: Mapping[str, Action]


@dataclass(frozen=True, slots=True)
class DependantsFound:
    action_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FoldedSaga:
    saga: Saga | None


@dataclass(frozen=True, slots=True)
class AllResults:
    """What each work came to, in order; the exception where one raised it."""

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
    | Begun
)
