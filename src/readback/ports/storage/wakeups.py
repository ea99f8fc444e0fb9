"""Wake-ups: "advance action X, not before T", brought to workers at least once.

Asked by `sdk.worker`. What is due is said by the ledger alone (the due time of an action's projection, written in the
transaction of its entries); a wake-up only carries it to somebody who goes on with the action.
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
"""Of each of two parts: with what a queue puts before it, a name of a channel has to stay under 64 characters."""
HEARTBEAT_TIMEOUT_US: Final = 10 * US
"""A worker that nobody has heard of for so long is taken for dead, where its end cannot be proved."""
TASK: Final = "readback.advance"
"""What a wake-up is called in a queue; its one argument is `action`, the id."""
DEFER_AHEAD_US: Final = 5 * US
"""What is due within so long is deferred with its append; what is due later is found when its time has come. A queue
need not be able to tell a few that are due from many that are not.
"""
HEARTBEATS_IN_TIMEOUT: Final = 4
"""So many heartbeats fit into that time: two may be lost before anybody takes notice."""


@dataclass(frozen=True, slots=True)
class Wakeup:
    """Go on with this action now. `ticket`: what its bringer knows it by, where it keeps one."""

    action_id: str
    ticket: int = 0


class Wakeups(Protocol):
    """Brings wake-ups to one worker; any number of workers, on any number of machines, ask at the same time.

    Level-based. A wake-up that is lost, late, doubled or out of date changes nothing but the time at which something
    happens: whoever gets one looks at the action as it is now, and its lease and version keep several of them apart. An
    action whose due time has come is brought at least once, and again for as long as nobody moves it on: what got lost
    on the way (a process that died with it, a queue that forgot it) is found again in the ledger within `take`s that
    follow each other. Nobody is trusted: a wake-up says nothing that is believed of the action.

    Called from one event loop. Raises StoreError where it cannot be asked; then nothing was taken.
    """

    @property
    def beat_every_us(self) -> int:
        """How often `beat` is to be called at least, for others to know that this worker is alive. 0 where they know it
        otherwise (a dead process is proved dead on its own machine): then once before something is taken.
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
        """Up to `limit` wake-ups whose time has come; of these tenants, or of everybody where none is named.

        Of actions that `known` covers, where it is given: the rest is neither taken nor remembered, however much of it
        there is, and others have it.

        Each tenant's first comes before any tenant's second; the longest due first within a tenant; what has succeeded
        and is only looked at again comes last. `leave`: ids that this worker has in hand, or will not take. `full`:
        tenants of whom it takes nothing more now. One that was taken is not brought to others while its worker lives,
        or it is, where leases alone keep them apart; either way it ends in `done` or `later`.
        """
        ...

    async def done(self, wakeup: Wakeup) -> None:
        """The action was looked at. If it is due again, a later wake-up says so; this one is over."""
        ...

    async def later(self, wakeup: Wakeup, at_us: int) -> None:
        """It was not gone on with here (its contract is not known, or is another one): others may have it at once, and
        this worker does not want it before `at_us`.
        """
        ...

    async def beat(self) -> list[str]:
        """This worker is alive. Returns owners of leases that are not: proved, or silent for the heartbeat timeout.

        Whoever gets them releases their leases, and so does everybody else who does: that changes nothing. An owner
        that never beat is never silent: its leases end by their own time.
        """
        ...

    async def next_us(self, tenants: Sequence[str]) -> int | None:
        """When the next wake-up is to be expected, as far as it is known now; None where none is."""
        ...

    async def pause(self, seconds: float) -> None:
        """Until there may be something to take, and no longer than that."""
        ...

    async def close(self) -> None:
        """Ends this worker: what it has taken and not ended is brought to others at once. May be called twice."""
        ...


def queue_of(tenant: str, key: str) -> str:
    """The queue of a tenant's wake-ups for what `known.key_of` tells apart: none waits behind another tenant's backlog,
    nor behind one that whoever asks cannot go on with.
    """
    return f"{QUEUE}{part_of(tenant)}{part_of(key)}"


def part_of(name: str) -> str:
    """What stands for a tenant, or for a contract, in the name of a queue."""
    return sha256_hex(name.encode())[:PART_HEX_DIGITS]


def due_in_turn(
    store: LedgerStore, tenants: Sequence[str], now_us: int, limit: int, known: ContractFilter | None = None
) -> list[str]:
    """Ids that are due, of these tenants (of all where none is named): every tenant's first, then every second."""
    if len(tenants) <= 1:
        return store.due(now_us, limit, tenants[0] if tenants else "", known)
    each = [store.due(now_us, limit, tenant, known) for tenant in tenants]
    return [action_id for rank in zip_longest(*each) for action_id in rank if action_id is not None][:limit]
