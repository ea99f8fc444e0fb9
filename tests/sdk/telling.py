"""What the tests of delivery share: a ledger with something to tell, and sinks that take, refuse, hang or die."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from readback.background.delivery import Delivery
from readback.domain.records.message import Message
from readback.domain.records.subscriber import Subscriber
from readback.errors import SinkError
from readback.ports.storage.store import LedgerStore
from readback.testing.runtime_virtual import VirtualRuntime
from tests.sdk.given import Desk, opened, ship_of


class Died(BaseException):
    """The process ends here, as far as the delivery can tell."""


@dataclass
class ListSink:
    """Takes messages into a list. `instead` may raise; `dies_at`: so many are taken before the process dies."""

    taken: list[Message] = field(default_factory=list)
    instead: Callable[[Message], None] | None = None
    dies_at: int = -1
    asked: int = 0
    stopped: bool = False
    gate: threading.Event | None = None
    inside: threading.Event = field(default_factory=threading.Event)

    def deliver(self, message: Message) -> None:
        self.asked += 1
        self.inside.set()
        if self.gate is not None:
            self.gate.wait()
        if self.stopped:
            raise SinkError("stopped")
        if self.instead is not None:
            self.instead(message)
        self.taken.append(message)
        if len(self.taken) == self.dies_at:
            raise Died

    def stop(self) -> None:
        self.stopped = True
        if self.gate is not None:
            self.gate.set()

    @property
    def ids(self) -> list[str]:
        return [message.id for message in self.taken]

    @property
    def names(self) -> list[str]:
        return [message.name.value for message in self.taken]


def refuse(_message: Message) -> None:
    raise SinkError("The sink is down.")


def run_some(
    store: LedgerStore, runtime: VirtualRuntime, *names: str, how: str = "ok", tenant: str = "acme"
) -> list[str]:
    """Actions of these operations; `how`: ok, or lie (the tool says so, and nothing happens). Their ids."""
    desk = Desk()
    if how == "lie":
        desk.instead = lambda _ctx: {"status": "ok"}
    ship = ship_of(desk, late_window="0s")
    rb = opened(store, runtime, subscribers=(), tenant=tenant)
    return [rb.run(ship(order_id=f"o-{name}", carrier="dhl"), operation=name).id for name in names]


def delivery_of(
    store: LedgerStore, runtime: VirtualRuntime, sink: ListSink, fallback: ListSink | None = None, **terms: Any
) -> Delivery:
    """To one subscriber, from the start of the ledger unless it is said otherwise."""
    given: dict[str, Any] = {"from_start": True, "tell": print, **terms}
    subscriber = Subscriber(given.pop("name", "bus"), **given)
    made = Delivery(store, runtime, subscriber, subscriber.name, sink, fallback)
    made.enrol()
    return made


def drained(delivery: Delivery, rounds: int = 50) -> int | None:
    """Looks until there is nothing to do now; when to look again."""
    for _ in range(rounds):
        again_us = delivery.look()
        if again_us is None or again_us > delivery.runtime.now_us():
            return again_us
    raise AssertionError("It never comes to an end.")
