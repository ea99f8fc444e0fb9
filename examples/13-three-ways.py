"""The same failures under a retry decorator, under a bare saga, and under Readback: what the services' books hold
afterwards, and what each of them told the user.

Run it with `python examples/13-three-ways.py`. A trip is a room, a charge and a ticket. The retry decorator tries each
call three times. The bare saga undoes the steps that returned when a later one raises. Both are as they are written
everywhere; neither of them reads anything back.

Prints:
    nothing fails
      retry      1 rooms, 1 charges, 1 tickets   told: booked
      bare saga  1 rooms, 1 charges, 1 tickets   told: booked
      Readback   1 rooms, 1 charges, 1 tickets   told: reconciled_success
    the room is booked, the reply is lost
      retry      2 rooms, 1 charges, 1 tickets   told: booked                      NOT SO
      bare saga  1 rooms, 0 charges, 0 tickets   told: cancelled, nothing is left  NOT SO
      Readback   1 rooms, 1 charges, 1 tickets   told: reconciled_success
    the room service says ok and does nothing
      retry      0 rooms, 1 charges, 1 tickets   told: booked                      NOT SO
      bare saga  0 rooms, 1 charges, 1 tickets   told: booked                      NOT SO
      Readback   0 rooms, 0 charges, 0 tickets   told: failed
    the card is charged, the reply is lost
      retry      1 rooms, 2 charges, 1 tickets   told: booked                      NOT SO
      bare saga  0 rooms, 1 charges, 0 tickets   told: cancelled, nothing is left  NOT SO
      Readback   1 rooms, 1 charges, 1 tickets   told: reconciled_success
    the card is refused
      retry      1 rooms, 0 charges, 0 tickets   told: failed                      NOT SO
      bare saga  0 rooms, 0 charges, 0 tickets   told: cancelled, nothing is left
      Readback   0 rooms, 0 charges, 0 tickets   told: compensated
    the card is refused, and so is the cancellation of the room
      retry      1 rooms, 0 charges, 0 tickets   told: failed                      NOT SO
      bare saga  1 rooms, 0 charges, 0 tickets   told: cancelled, nothing is left  NOT SO
      Readback   1 rooms, 0 charges, 0 tickets   told: review_required
    the ticket service is down for a moment
      retry      1 rooms, 1 charges, 0 tickets   told: failed                      NOT SO
      bare saga  0 rooms, 0 charges, 0 tickets   told: cancelled, nothing is left
      Readback   1 rooms, 1 charges, 1 tickets   told: reconciled_success
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from readback import Context, Readback, Reading, action

Row = dict[str, object]
TRIP = "trip-1"
FAILURES = (
    "nothing fails",
    "the room is booked, the reply is lost",
    "the room service says ok and does nothing",
    "the card is charged, the reply is lost",
    "the card is refused",
    "the card is refused, and so is the cancellation of the room",
    "the ticket service is down for a moment",
)


# --- three services, as they are everywhere: each has its own book, and each can fail ---


@dataclass
class Service:
    """One book. `landed_but_lost`, `silent` and `refuses` are what goes wrong, each so many times."""

    rows: list[Row] = field(default_factory=list)
    landed_but_lost: int = 0
    silent: int = 0
    refuses: int = 0
    refuses_to_end: int = 0
    version: int = 0

    def make(self, trip: str, stamp: str = "", by: str = "", key: str = "") -> object:
        if self.refuses:
            self.refuses -= 1
            raise RuntimeError("503 refused, nothing was done")
        if self.silent:
            self.silent -= 1
            return {"ok": True}
        self.version += 1
        if not (key and any(row["key"] == key for row in self.rows)):  # whoever brings a key, is answered once
            self.rows.append(
                {"trip": trip, "tenant": "acme", "by": by, "stamp": stamp, "key": key, "live": True,
                 "version": self.version}
            )  # fmt: skip
        if self.landed_but_lost:
            self.landed_but_lost -= 1
            raise ConnectionResetError("the connection was lost")
        return {"ok": True}

    def end(self, trip: str, stamp: str = "", by: str = "") -> object:
        if self.refuses_to_end:
            self.refuses_to_end -= 1
            return {"ok": True}  # it says so, and does nothing
        self.version += 1
        for row in self.rows:
            if row["trip"] == trip and row["live"]:
                row |= {"live": False, "by": by, "stamp": stamp or row["stamp"], "version": self.version}
                break
        return {"ok": True}

    def live(self, trip: str) -> int:
        return sum(1 for row in self.rows if row["trip"] == trip and row["live"])


class World(NamedTuple):
    rooms: Service
    cards: Service
    tickets: Service


def world_with(failure: str) -> World:
    rooms, cards, tickets = Service(), Service(), Service()
    match failure:
        case "the room is booked, the reply is lost":
            rooms.landed_but_lost = 1
        case "the room service says ok and does nothing":
            rooms.silent = 1
        case "the card is charged, the reply is lost":
            cards.landed_but_lost = 1
        case "the card is refused":
            cards.refuses = 9
        case "the card is refused, and so is the cancellation of the room":
            cards.refuses, rooms.refuses_to_end = 9, 9
        case "the ticket service is down for a moment":
            tickets.refuses = 3
        case _:
            pass
    return World(rooms, cards, tickets)


# --- way 1: a retry decorator ---


def with_retry(call: Callable[[], object]) -> object:
    for attempt in range(3):
        try:
            return call()
        except Exception:
            if attempt == 2:
                raise
    return None


def by_retry(world: World) -> str:
    try:
        for service in world:
            with_retry(lambda service=service: service.make(TRIP))  # type: ignore[misc]
    except Exception:
        return "failed"
    return "booked"


# --- way 2: a bare saga ---


def by_bare_saga(world: World) -> str:
    returned: list[Service] = []
    try:
        for service in world:
            service.make(TRIP)
            returned.append(service)
    except Exception:
        for service in reversed(returned):
            service.end(TRIP)
        return "cancelled, nothing is left"
    return "booked"


# --- way 3: Readback ---

world = world_with("")
IDENTITY = {
    "target": "authoritative.trip", "tenant": "authoritative.tenant",
    "actor": "authoritative.by", "stamp": "authoritative.stamp",
}  # fmt: skip


def row_of(service: Service, ctx: Context) -> Reading:
    """The book itself, by the stamp that the action carries: another path than the call's answer."""
    mine = ctx.reverses or ctx.stamp
    for row in service.rows:
        if row["live"] and row["stamp"] == mine:
            return Reading.of(row, version=int(str(row["version"])), stamp=str(row["stamp"]))
    return Reading.absent()


@action(
    kind="create",
    side_effect="medium_risk_write",
    target="{requested.trip}",
    identity=IDENTITY,
    ensure={"booked": "authoritative.live"},
    within="200ms",
    late_window="0s",
)
def book_room(ctx: Context, trip: str) -> object:
    return world.rooms.make(trip, ctx.stamp, ctx.principal)


@book_room.read(source="rooms", consistency="strong", independence="other_client", attributes=True)
def room(ctx: Context, trip: str) -> Reading:
    return row_of(world.rooms, ctx)


@book_room.find(complete=True)
def rooms_of_ours(ctx: Context, trip: str) -> list[Reading]:
    return [Reading.of(r, stamp=str(r["stamp"])) for r in world.rooms.rows if r["stamp"] == ctx.stamp and r["live"]]


@book_room.compensate(kind="delete", ensure={"gone": "authoritative == null"}, within="200ms", late_window="0s")
def cancel_room(ctx: Context, trip: str) -> object:
    return world.rooms.end(trip, ctx.stamp, ctx.principal)


@cancel_room.read(source="rooms", consistency="strong", independence="other_client", attributes=True)
def room_ended(ctx: Context, trip: str) -> Reading:
    return row_of(world.rooms, ctx)


@action(
    kind="create",
    side_effect="medium_risk_write",
    target="{requested.trip}",
    identity=IDENTITY,
    ensure={"charged": "authoritative.live"},
    execute={"honours_key": True},
    within="200ms",
    late_window="0s",
)
def charge_card(ctx: Context, trip: str) -> object:
    return world.cards.make(trip, ctx.stamp, ctx.principal, ctx.idempotency_key)


@charge_card.read(source="cards", consistency="strong", independence="other_client", attributes=True)
def charge(ctx: Context, trip: str) -> Reading:
    return row_of(world.cards, ctx)


@charge_card.find(complete=True)
def charges_of_ours(ctx: Context, trip: str) -> list[Reading]:
    return [Reading.of(r, stamp=str(r["stamp"])) for r in world.cards.rows if r["stamp"] == ctx.stamp]


@action(
    kind="create",
    side_effect="medium_risk_write",
    target="{requested.trip}",
    identity=IDENTITY,
    ensure={"issued": "authoritative.live"},
    execute={"honours_key": True},
    within="200ms",
    late_window="0s",
)
def issue_ticket(ctx: Context, trip: str) -> object:
    return world.tickets.make(trip, ctx.stamp, ctx.principal, ctx.idempotency_key)


@issue_ticket.read(source="tickets", consistency="strong", independence="other_client", attributes=True)
def ticket(ctx: Context, trip: str) -> Reading:
    return row_of(world.tickets, ctx)


@issue_ticket.find(complete=True)
def tickets_of_ours(ctx: Context, trip: str) -> list[Reading]:
    return [Reading.of(r, stamp=str(r["stamp"])) for r in world.tickets.rows if r["stamp"] == ctx.stamp]


def by_readback(rb: Readback, failure: str) -> str:
    outcome = rb.saga(
        [
            book_room(trip=TRIP).as_step("room"),
            charge_card(trip=TRIP).as_step("charge", after=("room",), pivot=True),
            issue_ticket(trip=TRIP).as_step("ticket", after=("charge",)),
        ],
        name="trip",
        operation=failure,
        wait=20,
    )
    return str(outcome.state)


def is_so(told: str, held: tuple[int, ...]) -> bool:
    """Whether what was told is what the books hold."""
    match told:
        case "booked" | "reconciled_success":
            return held == (1, 1, 1)
        case "review_required":
            return True  # it claims nothing, and a person is called
        case _:
            return held == (0, 0, 0)


def main() -> None:
    global world
    with tempfile.TemporaryDirectory() as folder:
        for failure in FAILURES:
            print(failure)
            for way in ("retry", "bare saga", "Readback"):
                world = world_with(failure)
                if way == "Readback":
                    url = f"sqlite:///{folder}/readback.db"
                    with Readback.open(url, tenant="acme", principal="agent:trips") as rb:
                        told = by_readback(rb, failure)
                else:
                    told = by_retry(world) if way == "retry" else by_bare_saga(world)
                held = tuple(service.live(TRIP) for service in world)
                books = "{} rooms, {} charges, {} tickets".format(*held)
                print(f"  {way:<11}{books:<32}told: {told:<28}{'' if is_so(told, held) else 'NOT SO'}".rstrip())


if __name__ == "__main__":
    main()
