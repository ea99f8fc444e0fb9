"""Who is told of an opened ledger's entries: a program's subscribers, or those of the operator's settings.

Called by session: what can be refused is refused before anything is opened; sinks beside the ledger are made after.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from readback.background.dispatcher import OutboxDispatcher, deliveries_of
from readback.bootstrap import Settings
from readback.bootstrap import operator_sink as file_beside
from readback.bootstrap import sink as sink_of
from readback.canon.frozen import dataclass
from readback.domain.records.subscriber import Subscriber, listed
from readback.ports.runtime import Runtime
from readback.ports.sink import Sink
from readback.ports.storage.store import LedgerStore

if TYPE_CHECKING:
    from readback.background.sealer import Sealer


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Subscribers with their sinks. `tenant`: whose they are; "" for the operator's. `at_all`: False where the ledger
    is only looked at, so that nobody is told anything.
    """

    sinks: tuple[tuple[Subscriber, Sink], ...] = ()
    fallback: Sink | None = None
    tenant: str = ""
    at_all: bool = False

    def courier(self, store: LedgerStore, runtime: Runtime, sealer: Sealer | None) -> OutboxDispatcher:
        """Who tells them. Raises StoreError where the position of a new one cannot be kept."""
        if not self.at_all:
            return OutboxDispatcher(runtime, sealer=sealer)
        operator = file_beside(store)
        made = deliveries_of(store, runtime, self.sinks, self.fallback or operator, operator, self.tenant)
        courier = OutboxDispatcher(runtime, made, sealer)
        courier.enrol()
        return courier


NO_SUBSCRIBERS: Final = Subscriptions()
"""Nobody is told anything: where a ledger is only looked at."""


def subscriptions_for(
    settings: Settings, subscribers: Iterable[Subscriber] | None, tenant: str, runtime: Runtime
) -> Subscriptions:
    """A program's subscribers, in place of the settings', or those. Raises SettingsError."""
    own = subscribers is not None
    asked = listed(subscribers, tenant) if subscribers is not None else settings.subscribers
    sinks = tuple((each, sink_of(each, runtime)) for each in asked)
    fallback = sink_of(settings.fallback, runtime) if settings.fallback is not None else None
    return Subscriptions(sinks, fallback, tenant if own else "", at_all=True)
