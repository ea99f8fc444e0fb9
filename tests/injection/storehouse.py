"""A tool of a user's own with a declared twin: bookings in a live system and in a sandbox."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from readback import Context, Reading, action
from readback.testing import SandboxWorld

ROOM = "r-1"


@dataclass
class System:
    """Bookings by tenant and room. `effects` counts what happened under each stamp."""

    bookings: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    effects: list[tuple[str, str]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    undone: bool = True
    """The reversal works."""

    def book(self, tenant: str, room: str, ctx: Context, *, priced: bool = True) -> None:
        booking = {"id": room, "tenant": tenant, "guest": ctx.principal, "stamp": ctx.stamp, "state": "booked"}
        self.bookings[tenant, room] = {**booking, "price": "set" if priced else "open"}
        self.effects.append((tenant, ctx.stamp))

    def drop(self, tenant: str, room: str) -> None:
        if self.undone:
            self.bookings.pop((tenant, room), None)

    def clear(self) -> None:
        self.bookings.clear()
        self.effects.clear()
        self.keys.clear()


def booking(system: System, *, rollback: bool = False, honours: bool = True) -> Any:
    """The action on one system, with a compensation or a rollback."""

    @action(
        name="book",
        kind="create",
        side_effect="low_risk_internal",
        target="room/{requested.room}",
        identity={
            "target": "authoritative.id",
            "tenant": "authoritative.tenant",
            "actor": "authoritative.guest",
            "stamp": "authoritative.stamp",
        },
        ensure={
            "state": {"booked": "authoritative.state == 'booked'"},
            "price": {"priced": "authoritative.price == 'set'"},
        },
        within="10s",
        polls=["0s", "2s"],
        late_window="8s",
        execute={"timeout": "1s", "honours_key": True},
        key_kept="90d",
    )
    def book(ctx: Context, room: str) -> object:
        if not (honours and ctx.idempotency_key in system.keys):
            system.book(ctx.tenant, room, ctx)
        system.keys.add(ctx.idempotency_key)
        return {"status": "ok"}

    @book.read(source="bookings", consistency="strong", independence="other_client", attributes=True)
    def read(ctx: Context, room: str) -> Reading:
        found = system.bookings.get((ctx.tenant, room))
        return Reading.absent() if found is None else Reading.of(found, version=1, stamp=found["stamp"])

    @book.find(complete=True)
    def find(ctx: Context, room: str) -> list[Reading]:
        return [
            Reading.of(system.bookings[place, room], stamp=stamp)
            for place, stamp in system.effects
            if stamp == ctx.subject_stamp and (place, room) in system.bookings
        ]

    if rollback:

        @book.rollback
        def abort(ctx: Context, room: str) -> object:
            system.drop(ctx.tenant, room)
            return {"status": "ok"}

    else:

        @book.compensate(name="cancel_booking", kind="delete", ensure={"gone": "authoritative == null"}, within="10s")
        def cancel(ctx: Context, room: str) -> object:
            system.drop(ctx.tenant, room)
            return {"status": "ok"}

    return book


def sandbox_world(**options: Any) -> tuple[Any, SandboxWorld, System, System]:
    """The live action, its world, the sandbox and the live system."""
    live, safe = System(), System()
    made = booking(live, **options)
    made.twin(booking(safe, **options))

    def effects(ctx: Context) -> tuple[int, int]:
        right = [1 for tenant, stamp in safe.effects if stamp == ctx.stamp and tenant == ctx.tenant]
        wrong = [1 for tenant, stamp in safe.effects if stamp == ctx.stamp and tenant != ctx.tenant]
        if (ctx.tenant, ROOM) not in safe.bookings and right:
            return 0, len(wrong)
        whole = safe.bookings.get((ctx.tenant, ROOM), {}).get("price") == "set"
        return (len(right), len(wrong)) if whole and len(right) == 1 else (0, len(right) + len(wrong))

    world = SandboxWorld(
        made,
        {"room": ROOM},
        safe.clear,
        effects,
        foreign=lambda ctx, _: safe.book("another", ROOM, ctx),
        partial=lambda ctx, _: safe.book(ctx.tenant, ROOM, ctx, priced=False),
    )
    return made, world, safe, live
