"""Wake-ups: "advance action X, not before T", delivered to workers at least once.

Asked by the worker. The ledger alone decides due actions (by the due time in an action's projection, written in the
transaction of its entries). A wake-up only brings an action to a worker.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import zip_longest
from typing import Final, Protocol

from readback.canon.digest import sha256_hex
from readback.canon.frozen import dataclass
from readback.ports.storage.contract_filter import ContractFilter
from readback.ports.storage.store import LedgerStore

US: Final = 1_000_000
QUEUE: Final = "rb-"
PART_HEX_DIGITS: Final = 17
"""Of each of two parts: with a queue's prefix, a channel's name must stay under 64 characters."""
HEARTBEAT_TIMEOUT_US: Final = 10 * US
"""A worker silent for this long counts as dead, if its end cannot be proved."""
TASK: Final = "readback.advance"
"""A wake-up's name in a queue. The one argument is `action`, the id."""
DEFER_AHEAD_US: Final = 5 * US
"""An action due within this time is deferred with its append; a later one is found when due. So a queue need not
separate a few due actions from many others.
"""
HEARTBEATS_IN_TIMEOUT: Final = 4
"""Heartbeats within the timeout: two may be lost without consequence."""


@dataclass(frozen=True, slots=True)
class Wakeup:
    """Continue this action now. `ticket`: the queue's own handle, if any."""

    action_id: str
    ticket: int = 0


class Wakeups(Protocol):
    """Brings wake-ups to one worker. Any number of workers, on any number of machines, ask at the same time.

    Level-based. A lost, late, doubled or outdated wake-up changes only the time of the work: the worker looks at the
    current action, and lease and version separate several workers. A due action is brought at least once, and again
    until a worker moves it on. A wake-up lost on the way (with a dead process, or forgotten by a queue) is found again
    in the ledger within successive `take` calls. A wake-up is trusted with nothing about its action.

    Called from one event loop. Raises StoreError if the queue cannot be asked; then nothing was taken.
    """

    @property
    def beat_every_us(self) -> int:
        """The longest pause between calls of `beat`, to show others this worker is alive.

        0 if others know otherwise (a dead process is proved dead on its own machine): then once before a take.
        """
        ...

    async def take(
        self,
        tenants: Sequence[str],
        limit: int,
        leave: Collection[str] = (),
        full: Collection[str] = (),
        known: ContractFilter | None = None,
    ) -> list[Wakeup]:
        """Up to `limit` due wake-ups; of these tenants, or of all tenants if none is named.

        With `known`, only covered actions: the rest stays for other workers, neither taken nor remembered, in any
        number.

        Each tenant's first precedes any tenant's second, longest due first within a tenant; verified actions under
        watch come last. `leave`: ids in this worker's hands, or refused here. `full`: tenants without capacity here
        now. Other workers do not receive a taken wake-up while this worker lives, or they do, and leases alone separate
        the workers. Either way each take ends in `done` or `later`.
        """
        ...

    async def done(self, wakeup: Wakeup) -> None:
        """The worker looked at the action, and this wake-up is over. A later wake-up announces the next due time."""
        ...

    async def later(self, wakeup: Wakeup, at_us: int) -> None:
        """The worker could not continue the action (its contract is unknown here, or differs): others may take it at
        once, and this worker not before `at_us`.
        """
        ...

    async def beat(self) -> list[str]:
        """Report this worker alive. Returns lease owners found dead: proved, or silent for the heartbeat timeout.

        The caller releases their leases. Several workers may do so, without harm. An owner without any beat is never
        silent: its leases end by their own time.
        """
        ...

    async def next_us(self, tenants: Sequence[str]) -> int | None:
        """The expected time of the next wake-up, as far as known now; None if none is expected."""
        ...

    async def pause(self, seconds: float) -> None:
        """Wait until a wake-up may be due, and no longer."""
        ...

    async def close(self) -> None:
        """End this worker: its unfinished wake-ups are brought to others at once. May be called twice."""
        ...


def queue_of(tenant: str, key: str) -> str:
    """The queue of a tenant's wake-ups, by `known.key_of`: no wake-up waits behind another tenant's backlog, or behind
    actions unfit for the asking worker.
    """
    return f"{QUEUE}{part_of(tenant)}{part_of(key)}"


def part_of(name: str) -> str:
    """The part for a tenant, or for a contract, in a queue's name."""
    return sha256_hex(name.encode())[:PART_HEX_DIGITS]


def due_in_turn(
    store: LedgerStore, tenants: Sequence[str], now_us: int, limit: int, known: ContractFilter | None = None
) -> list[str]:
    """Due ids of these tenants (of all if none is named): every tenant's first, then every second."""
    if len(tenants) <= 1:
        return store.due(now_us, limit, tenants[0] if tenants else "", known)
    each = [store.due(now_us, limit, tenant, known) for tenant in tenants]
    return [action_id for rank in zip_longest(*each) for action_id in rank if action_id is not None][:limit]
