"""Parts shared by both drivers: effects answered from store and runtime, and helpers for a call.

Each driver adds calling, committing and waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from readback.background.dispatcher import OutboxDispatcher
from readback.canon.frozen import dataclass
from readback.domain.events import EventKind
from readback.domain.verification.observation import guarded
from readback.engine.effects import (
    Called,
    CallReader,
    ClockResult,
    Commit,
    Effect,
    Ending,
    GetClock,
    Lease,
    Leased,
    LoadPreconditions,
    ProveEnded,
    ReadKind,
    Settle,
)
from readback.engine.ledger_answers import LedgerEffect, answer_of_ledger
from readback.engine.stages.execute import is_staged
from readback.errors import StoreError
from readback.ports.handlers import Handler
from readback.ports.runtime import Runtime
from readback.ports.storage.store import Append, Appended, AppendResult, LedgerStore

if TYPE_CHECKING:  # sync programs need not load it
    from concurrent.futures import Future

_READER: Final = ReadKind.READER
SLICE_FIRST_SECONDS: Final = 0.25
SLICE_MAX_SECONDS: Final = 1.0
"""How often a sleeper checks whether another worker moved the action."""

LEFT_MAX: Final = 1_000
"""How many leases of failed work to remember. The oldest of more must expire."""
SLICE_VIRTUAL_SECONDS: Final = float("inf")
"""A virtual clock has no other workers, and a check each second would only make its hours long. `notify` wakes a
sleeper.
"""

Ask = LedgerEffect | LoadPreconditions | GetClock | ProveEnded | Lease


@dataclass(frozen=True, slots=True)
class Parked:
    """The caller's patience ended before the action settled. Everything is durable, and any worker can resume the
    action.
    """

    action_id: str


class EffectInterpreter:
    """Answers effects without calls and waits, from the store and the runtime."""

    def __init__(self, store: LedgerStore, runtime: Runtime, courier: OutboxDispatcher | None = None) -> None:
        self.store = store
        self.runtime = runtime
        self._left: dict[str, int] = {}
        """Fences of leases held by work that ended here in an error or an interrupt. No work continues under these
        leases.
        """
        self.courier = courier
        self.sealer = courier.sealer if courier is not None else None
        self.sequencer = courier.sequencer if courier is not None else None
        self.has_listeners = (
            self.sealer is not None or self.sequencer is not None or (courier is not None and courier.has_subscribers)
        )
        """Whether a listener wants appends without an incident."""

    def answer(self, step: Ask) -> object:
        store, runtime = self.store, self.runtime
        if isinstance(step, LoadPreconditions):  # every action needs these two
            return store.opening(step.tenant, step.key_hash, step.subjects)
        if isinstance(step, GetClock):
            return ClockResult(runtime.now_us(), runtime.new_id() if step.fresh else "", runtime.owner())
        if isinstance(step, ProveEnded):
            return self._has_ended(step.action_id, step.owner)
        return self._lease(step) if isinstance(step, Lease) else answer_of_ledger(store, runtime, step)

    def _has_ended(self, action_id: str, owner: str) -> bool:
        """Return whether the owner's work on the action has ended. For this process: in an error or an interrupt."""
        if owner == self.runtime.owner():
            return action_id in self._left
        return self.runtime.is_owner_dead(owner)

    def _lease(self, step: Lease) -> Leased:
        """Acquire the lease. The lease of a provably dead owner does not count."""
        now_us, owner = self.runtime.now_us(), self.runtime.owner()
        if step.version and (version := self.version(step.action_id)) != step.version:
            return Leased(None, version, now_us)
        fence = self.store.lease(step.action_id, owner, now_us, step.until_us)
        if fence is None:
            held = self.store.projection(step.action_id)
            other = held.projection.lease_owner if held is not None else ""
            left = other == owner and held is not None and self._left.get(step.action_id) == held.fence
            if left or (other and other != owner and self.runtime.is_owner_dead(other)):
                fence = self.store.lease(step.action_id, owner, now_us, step.until_us, dead=other)
        version = self.version(step.action_id)
        if fence is not None and step.version and version != step.version:
            self.give_back({step.action_id: fence})  # another worker moved the action since the check above
            fence = None
        return Leased(fence, version, now_us)

    def leave(self, fences: Mapping[str, int]) -> None:
        """Remember the leases of work that failed or was interrupted, so that the next call here need not wait."""
        for action_id, fence in fences.items():
            self._left.pop(action_id, None)
            while len(self._left) >= LEFT_MAX:
                del self._left[next(iter(self._left))]
            self._left[action_id] = fence

    def start_call(self, action_id: str) -> None:
        """Forget the proof of an earlier attempt's end: a new attempt of the action runs in this process."""
        self._left.pop(action_id, None)

    def give_back(self, fences: Mapping[str, int]) -> None:
        """Release the leases of work interrupted in the middle of an effect.

        A lease acquired by another worker or thread meanwhile stays. A lease that cannot be released expires.
        """
        owner = self.runtime.owner()
        with suppress(StoreError):
            for action_id, fence in fences.items():
                held = self.store.projection(action_id)
                if held is not None and (held.projection.lease_owner, held.fence) == (owner, fence):
                    now_us = self.runtime.now_us()
                    self.store.lease(action_id, owner, now_us, now_us, dead=owner)

    def on_cancelled(self, step: Lease, late: Future[object]) -> None:
        """Release a lease acquired for a caller cancelled meanwhile."""
        leased = None if late.cancelled() or late.exception() is not None else late.result()
        if isinstance(leased, Leased) and leased.fence is not None:
            self.give_back({step.action_id: leased.fence})

    def on_appended(self, append: Append, result: AppendResult) -> None:
        """Notify the background threads of a durable append."""
        if not isinstance(result, Appended):
            return
        courier = self.courier
        if self.sequencer is not None and not result.seq:
            # Sealing and delivery follow after the sequencer has assigned a sequence number.
            self.sequencer.hear(telling=courier is not None and courier.tells(append))
            return
        if courier is not None and (append.incidents or courier.has_subscribers):
            courier.hear(append)
        if self.sealer is not None:
            self.sealer.hear(result.seq)

    def stirred(self, action_id: str, version: int) -> bool:
        """Return whether the action changed since that version, or is due now."""
        stored = self.store.projection(action_id)
        if stored is None:
            return False
        due = stored.projection.due_us
        return stored.version != version or (due is not None and due <= self.runtime.now_us())

    def version(self, action_id: str) -> int:
        stored = self.store.projection(action_id)
        return stored.version if stored is not None else 0


def slices(runtime: Runtime) -> tuple[float, float]:
    """Return the first and the longest sleep between checks for changes by other workers."""
    if hasattr(runtime, "holding"):  # a virtual clock
        return SLICE_VIRTUAL_SECONDS, SLICE_VIRTUAL_SECONDS
    return SLICE_FIRST_SECONDS, SLICE_MAX_SECONDS


def hand_of(step: CallReader | Settle) -> Handler:
    """Return the handler of a read or a settlement."""
    hands = step.plan.hands
    if isinstance(step, Settle):
        if step.staged is None:
            assert hands.rollback is not None
            return hands.rollback
        ending = getattr(step.staged, "commit" if step.commit else "abandon")
        return Handler("staged", lambda _context, _arguments: ending())
    look = step.look
    if look is _READER:
        return hands.readers[step.index]
    if look is ReadKind.FIND:
        assert hands.find is not None
        return hands.find
    if look is ReadKind.LOOKUP:
        assert hands.lookup is not None
        return hands.lookup
    assert look is ReadKind.STAGED
    read = step.staged.read  # type: ignore[attr-defined]
    return Handler("staged", lambda _context, _arguments: read())


def drop_late(called: Called) -> None:
    """Abandon the transaction of a call that returned too late. Without a caller the transaction would stay open."""
    if called.ending is Ending.RETURNED and is_staged(called.value):
        guarded(lambda: called.value.abandon())  # type: ignore[attr-defined]


def leaves_nothing_open(step: Effect) -> bool:
    """Return whether an interrupted driver may stop after this effect: a commit of all past work, without a new
    attempt.
    """
    return isinstance(step, Commit) and step.append.events[-1].kind != EventKind.ATTEMPTED


def raised(error: BaseException, started_us: int, finished_us: int) -> Called:
    return Called(Ending.RAISED, None, error, started_us, finished_us)


def interrupted(stop: BaseException, started_us: int, finished_us: int) -> Called:
    """Return the result of an interrupted call.

    The engine records the result before the driver raises the interrupt.
    """
    return Called(Ending.CANCELLED, None, stop, started_us, finished_us)


def ended(ending: Ending, started_us: int, finished_us: int) -> Called:
    return Called(ending, None, None, started_us, finished_us)
