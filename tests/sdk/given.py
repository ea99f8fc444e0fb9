"""What the client tests share: an order desk that can lie, contracts for it in both styles, clients on virtual time."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from readback import AsyncReadback, Context, Readback, Reading, action
from readback.client.authoring.action import ActionDefinition
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore

TENANT, PRINCIPAL = "acme", "agent:ops"
TERMS: dict[str, Any] = {
    "kind": "set",
    "side_effect": "low_risk_internal",
    "target": "order/{requested.order_id}",
    "identity": {"target": "authoritative.id", "tenant": "authoritative.tenant"},
    "ensure": {
        "shipped": "authoritative.status == 'shipped'",
        "carrier": "authoritative.carrier == requested.carrier",
    },
    "within": "10s",
    "polls": ["0s", "1s"],
    "tell": ["status"],
}


def nothing(_ctx: Context) -> None:
    """What most tools do beside their work."""


@dataclass(slots=True)
class Desk:
    """The system of record. `instead` replaces the tool's work, `during` happens inside it, `looking` in a reading."""

    orders: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: int = 0
    looks: int = 0
    idents: set[int] = field(default_factory=set)
    instead: Callable[[Context], object] | None = None
    during: Callable[[Context], None] = nothing
    looking: Callable[[Context], None] = nothing

    def order(self, order_id: str = "o-1") -> dict[str, Any]:
        empty = {"id": order_id, "tenant": TENANT, "status": "open", "carrier": "", "stamp": "", "version": 0}
        return self.orders.setdefault(order_id, empty)

    def ship(self, ctx: Context, order_id: str, carrier: str) -> object:
        self.calls += 1
        self.idents.add(threading.get_ident())
        if self.instead is not None:
            return self.instead(ctx)
        order = self.order(order_id)
        order.update(status="shipped", carrier=carrier, stamp=ctx.stamp, version=order["version"] + 1)
        self.during(ctx)
        return {"status": "ok"}

    def look(self, ctx: Context, order_id: str) -> Reading:
        self.looks += 1
        self.idents.add(threading.get_ident())
        self.looking(ctx)
        order = self.order(order_id)
        return Reading.of(dict(order), version=order["version"], stamp=order["stamp"] or None)

    def find(self, ctx: Context) -> list[Reading]:
        return [Reading.of(dict(o), stamp=ctx.stamp) for o in self.orders.values() if o["stamp"] == ctx.stamp]


def ship_of(desk: Desk, *, find: bool = True, **terms: Any) -> ActionDefinition[Any]:
    """A sync action over that desk."""

    @action(**{"name": "ship", **TERMS, **terms})
    def ship(ctx: Context, order_id: str, carrier: str) -> object:
        return desk.ship(ctx, order_id, carrier)

    @ship.read(source="orders", consistency="strong", independence="other_client")
    def order_row(ctx: Context, order_id: str, carrier: str) -> Reading:
        return desk.look(ctx, order_id)

    if find:

        @ship.find
        def bearing_stamp(ctx: Context, order_id: str, carrier: str) -> list[Reading]:
            return desk.find(ctx)

    return ship


def ship_async_of(desk: Desk, wait: Callable[[Context], Any] | None = None, **terms: Any) -> ActionDefinition[Any]:
    """The same with async hands; `wait` is awaited inside the tool, after its effect."""

    @action(**{"name": "ship_async", **TERMS, **terms})
    async def ship(ctx: Context, order_id: str, carrier: str) -> object:
        answer = desk.ship(ctx, order_id, carrier)
        if wait is not None:
            await wait(ctx)
        return answer

    @ship.read(source="orders", consistency="strong", independence="other_client")
    async def order_row(ctx: Context, order_id: str, carrier: str) -> Reading:
        return desk.look(ctx, order_id)

    @ship.find
    async def bearing_stamp(ctx: Context, order_id: str, carrier: str) -> list[Reading]:
        return desk.find(ctx)

    return ship


def opened(store: Any = None, runtime: VirtualRuntime | None = None, **given: Any) -> Readback:
    """A sync client on a ledger in memory and virtual time, unless it is given others."""
    given = {"tenant": TENANT, "principal": PRINCIPAL, **given}
    return Readback.open(store=store or MemoryStore(), runtime=runtime or VirtualRuntime(), **given)


def opened_async(store: Any = None, runtime: VirtualRuntime | None = None, **given: Any) -> AsyncReadback:
    """The same with await."""
    given = {"tenant": TENANT, "principal": PRINCIPAL, **given}
    return AsyncReadback.open(store=store or MemoryStore(), runtime=runtime or VirtualRuntime(), **given)


@dataclass(frozen=True, slots=True)
class Belongings:
    """What a process has besides memory: threads, files, signal handlers, a running timer."""

    threads: frozenset[int | None]
    files: int
    handlers: tuple[object, ...]
    timer: bool

    @classmethod
    def now(cls) -> Belongings:
        gc.collect()  # what an earlier test left to the collector is not of this test
        return cls(
            frozenset(each.ident for each in threading.enumerate()),
            len(os.listdir("/proc/self/fd")),
            tuple(signal.getsignal(number) for number in sorted(signal.valid_signals())),
            signal.getitimer(signal.ITIMER_REAL)[0] > 0,
        )
