"""A trip's five steps: hold a seat, book a room, reserve a car, charge the card, issue the tickets.

Each step has a compensating action with postconditions and readback. A trip failing before the charge is reversed by
verified compensations. The charge is the pivot. The tickets come after the pivot and honour the key, so the tickets can
be requested again until issued.

The functions act through `trip_desk.providers` and read through `trip_desk.records` and the books. Searches use the
stamp, never an id from an answer, because an answer may be missing.
"""

from __future__ import annotations

from typing import Any, Final

from readback import Context, Lookup, Reading, action
from readback.client.authoring.action import ActionDefinition
from readback.client.authoring.contract_keys import ExecuteOptions
from readback.demo.overheard import overheard
from readback.demo.trip.desk import trip_desk

# Identity of an entry's reading. The creator's stamp stays on the entry.
MADE: Final = {
    "target": "authoritative.trip",
    "tenant": "authoritative.tenant",
    "actor": "authoritative.made_by",
    "stamp": "authoritative.made_stamp",
}
# What a reading of an entry that was taken back is of: the stamp of the last change is the compensation's own.
UNDONE: Final = {
    **MADE,
    "actor": "authoritative.updated_by",
    "stamp": "authoritative.stamp",
    "version": "authoritative.version",
}
# How soon these providers' effects can be seen, and how late one may still land.
TIMES: Final[dict[str, Any]] = {"within": "600ms", "polls": ("0s", "100ms", "250ms"), "late_window": "600ms"}
# One key is one effect, however often it is sent. The providers forget no key, so that another process may rely on it
# for a day.
HONOURS: Final[ExecuteOptions] = {"honours_key": True, "key_valid_for": "24h"}
# Taking something back honours the key: a request that was lost is sent again.
REVERSAL: Final[dict[str, Any]] = {"kind": "set", "identity": UNDONE, "execute": HONOURS, **TIMES}


def _made(ctx: Context, book: str) -> Reading:
    """The effect of our own attempt at the provider, or absence."""
    found = trip_desk.records.all(
        ctx, "/{book}", params={"book": book}, query={"made_stamp": ctx.stamp}, complete="/complete",
        version="/version", stamp="/made_stamp",
    )  # fmt: skip
    return found[0] if found else Reading.absent()


def _made_anywhere(ctx: Context, book: str) -> list[Reading]:
    """Every entry of our attempt, for any tenant, from the book itself. No other place can hold an effect."""
    return trip_desk.files[book].all(
        "SELECT * FROM entries WHERE made_stamp = ?", [ctx.stamp], version="version", stamp="made_stamp"
    )


def _by_key(ctx: Context, book: str) -> Lookup:
    """The result of the request with our key. Decides after a lost answer."""
    where: dict[str, str | int] = {"book": book, "key": ctx.idempotency_key}
    return trip_desk.records.lookup(ctx, "/keys/{book}/{key}", params=where, landed={"done"}, value="/answer")


def _make(ctx: Context, book: str, **what: object) -> object:
    return trip_desk.providers.post(ctx, "/{book}", params={"book": book}, json=what)


def _take_back(ctx: Context, book: str, verb: str) -> object:
    """Take back the effect of the reversed action, found by its stamp, because the answer may be missing."""
    found = trip_desk.records.all(
        ctx, "/{book}", params={"book": book}, query={"made_stamp": ctx.reverses}, complete="/complete"
    )
    answers = []
    for entry in found:
        assert isinstance(entry.value, dict)
        where: dict[str, str | int] = {"book": book, "id": str(entry.value["id"]), "verb": verb}
        answers.append(trip_desk.providers.post(ctx, "/{book}/{id}/{verb}", params=where, json={}))
    return answers[-1] if answers else {"status": "nothing to take back"}


def _left(ctx: Context, book: str) -> Reading:
    """The remaining effect of the reversed action. A standing entry comes before a reversed entry."""
    found = trip_desk.files[book].all(
        "SELECT * FROM entries WHERE made_stamp = ? ORDER BY stamp != made_stamp", [ctx.reverses],
        version="version", stamp="stamp",
    )  # fmt: skip
    return found[0] if found else Reading.absent()


def _changed_anywhere(ctx: Context, book: str) -> list[Reading]:
    """Every entry last changed by our attempt. Without an entry, the attempt did nothing anywhere."""
    return trip_desk.files[book].all(
        "SELECT * FROM entries WHERE stamp = ?", [ctx.stamp], version="version", stamp="stamp"
    )


# --- before the pivot: three holds, which do not need each other ------------------------------------------------


@action(
    kind="create",
    side_effect="medium_risk_write",
    target="seat/{requested.trip}",
    identity=MADE,
    ensure={
        "held": "authoritative.status == 'held'",
        "flight": "authoritative.what == requested.flight",
    },
    **TIMES,
)
@overheard
def hold_seat(ctx: Context, trip: str, flight: str) -> object:
    """Hold a seat on a flight."""
    return _make(ctx, "flights", trip=trip, what=flight)


@hold_seat.read(source="provider-records", consistency="strong", independence="other_client", attributes=True)
def seat_held(ctx: Context, trip: str, flight: str) -> Reading:
    return _made(ctx, "flights")


@hold_seat.find(complete=True)
def seats_anywhere(ctx: Context, trip: str, flight: str) -> list[Reading]:
    return _made_anywhere(ctx, "flights")


@hold_seat.compensate(ensure={"released": "authoritative.status == 'released'"}, **REVERSAL)
@overheard
def release_seat(ctx: Context, trip: str, flight: str) -> object:
    """Give the seat back to the flight."""
    return _take_back(ctx, "flights", "release")


@release_seat.read(source="flights-book", consistency="strong", independence="other_system")
def seat_left(ctx: Context, trip: str, flight: str) -> Reading:
    return _left(ctx, "flights")


@release_seat.find(complete=True)
def seats_changed(ctx: Context, trip: str, flight: str) -> list[Reading]:
    return _changed_anywhere(ctx, "flights")


@action(
    kind="create",
    side_effect="medium_risk_write",
    target="room/{requested.trip}",
    identity=MADE,
    ensure={
        "booked": "authoritative.status == 'booked'",
        "room": "authoritative.what == requested.room",
    },
    **TIMES,
)
@overheard
def book_hotel(ctx: Context, trip: str, room: str) -> object:
    """Book a room."""
    return _make(ctx, "hotel", trip=trip, what=room)


@book_hotel.read(source="provider-records", consistency="strong", independence="other_client", attributes=True)
def room_booked(ctx: Context, trip: str, room: str) -> Reading:
    return _made(ctx, "hotel")


@book_hotel.find(complete=True)
def rooms_anywhere(ctx: Context, trip: str, room: str) -> list[Reading]:
    return _made_anywhere(ctx, "hotel")


@book_hotel.compensate(ensure={"cancelled": "authoritative.status == 'cancelled'"}, **REVERSAL)
@overheard
def cancel_hotel(ctx: Context, trip: str, room: str) -> object:
    """Cancel the booking."""
    return _take_back(ctx, "hotel", "cancel")


@cancel_hotel.read(source="hotel-book", consistency="strong", independence="other_system")
def room_left(ctx: Context, trip: str, room: str) -> Reading:
    return _left(ctx, "hotel")


@cancel_hotel.find(complete=True)
def rooms_changed(ctx: Context, trip: str, room: str) -> list[Reading]:
    return _changed_anywhere(ctx, "hotel")


@action(
    kind="create",
    side_effect="medium_risk_write",
    target="car/{requested.trip}",
    identity=MADE,
    ensure={
        "reserved": "authoritative.status == 'reserved'",
        "car": "authoritative.what == requested.car",
    },
    **TIMES,
)
@overheard
def reserve_car(ctx: Context, trip: str, car: str) -> object:
    """Reserve a car for the days of the trip."""
    return _make(ctx, "car", trip=trip, what=car)


@reserve_car.read(source="provider-records", consistency="strong", independence="other_client", attributes=True)
def car_reserved(ctx: Context, trip: str, car: str) -> Reading:
    return _made(ctx, "car")


@reserve_car.find(complete=True)
def cars_anywhere(ctx: Context, trip: str, car: str) -> list[Reading]:
    return _made_anywhere(ctx, "car")


@reserve_car.compensate(ensure={"cancelled": "authoritative.status == 'cancelled'"}, **REVERSAL)
@overheard
def cancel_car(ctx: Context, trip: str, car: str) -> object:
    """Cancel the reservation."""
    return _take_back(ctx, "car", "cancel")


@cancel_car.read(source="car-book", consistency="strong", independence="other_system")
def car_left(ctx: Context, trip: str, car: str) -> Reading:
    return _left(ctx, "car")


@cancel_car.find(complete=True)
def cars_changed(ctx: Context, trip: str, car: str) -> list[Reading]:
    return _changed_anywhere(ctx, "car")


# --- the pivot: from here on the trip goes forward --------------------------------------------------------------

TOTAL: Final = "requested.flight_cents + requested.hotel_cents + requested.car_cents"


@action(
    kind="create",
    side_effect="high_risk_external",
    target="charge/{requested.trip}",
    identity={**MADE, "account": "not_offered"},  # the reading does not say whose card it was
    ensure={
        "charged": "authoritative.status == 'charged'",
        "amount": f"authoritative.cents == {TOTAL}",
        "key": "authoritative.made_key == scope.idempotency_key",
    },
    execute=HONOURS,  # one key is charged once, however often it is sent
    **TIMES,
)
@overheard
def charge_trip(ctx: Context, trip: str, flight_cents: int, hotel_cents: int, car_cents: int) -> object:
    """Charge the card for the cost of the three holds in the providers' records."""
    return _make(ctx, "payments", trip=trip, cents=flight_cents + hotel_cents + car_cents)


@charge_trip.read(source="provider-records", consistency="strong", independence="other_client", attributes=True)
def trip_charged(ctx: Context, trip: str, flight_cents: int, hotel_cents: int, car_cents: int) -> Reading:
    return _made(ctx, "payments")


# High risk: looked for once more when the window closes, since providers duplicate too.
@charge_trip.find(complete=True)
def charges_anywhere(ctx: Context, trip: str, flight_cents: int, hotel_cents: int, car_cents: int) -> list[Reading]:
    return _made_anywhere(ctx, "payments")


@charge_trip.lookup
def charge_by_key(ctx: Context, trip: str, flight_cents: int, hotel_cents: int, car_cents: int) -> Lookup:
    return _by_key(ctx, "payments")


@charge_trip.compensate(
    ensure={"refunded": "authoritative.status == 'refunded'"},
    **{**REVERSAL, "identity": {**UNDONE, "account": "not_offered"}},
)
@overheard
def refund_trip(ctx: Context, trip: str, flight_cents: int, hotel_cents: int, car_cents: int) -> object:
    """Refund the charge."""
    return _take_back(ctx, "payments", "refund")


@refund_trip.read(source="payments-book", consistency="strong", independence="other_system")
def charge_left(ctx: Context, trip: str, flight_cents: int, hotel_cents: int, car_cents: int) -> Reading:
    return _left(ctx, "payments")


@refund_trip.find(complete=True)
def charges_changed(ctx: Context, trip: str, flight_cents: int, hotel_cents: int, car_cents: int) -> list[Reading]:
    return _changed_anywhere(ctx, "payments")


# --- after the pivot --------------------------------------------------------------------------------------------


@action(
    kind="create",
    side_effect="medium_risk_write",
    target="tickets/{requested.trip}",
    identity=MADE,
    ensure={
        "issued": "authoritative.status == 'issued'",
        "seat": "authoritative.what == requested.seat",
        "paid": "authoritative.paid_by == requested.charge",
    },
    execute=HONOURS,  # so that the trip can go forward: asked for again, they are not issued twice
    **TIMES,
)
@overheard
def issue_tickets(ctx: Context, trip: str, seat: str, charge: str) -> object:
    """Issue the tickets for a held seat and a captured charge."""
    return _make(ctx, "tickets", trip=trip, what=seat, paid_by=charge)


@issue_tickets.read(source="provider-records", consistency="strong", independence="other_client", attributes=True)
def tickets_issued(ctx: Context, trip: str, seat: str, charge: str) -> Reading:
    return _made(ctx, "tickets")


@issue_tickets.find(complete=True)
def tickets_anywhere(ctx: Context, trip: str, seat: str, charge: str) -> list[Reading]:
    return _made_anywhere(ctx, "tickets")


@issue_tickets.lookup
def tickets_by_key(ctx: Context, trip: str, seat: str, charge: str) -> Lookup:
    return _by_key(ctx, "tickets")


BY_STEP: Final[dict[str, ActionDefinition[Any]]] = {
    "flight": hold_seat,
    "hotel": book_hotel,
    "car": reserve_car,
    "charge": charge_trip,
    "tickets": issue_tickets,
}
"""The action of each step of a trip."""
