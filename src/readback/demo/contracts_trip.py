"""A trip as a saga: hold a seat, book a room, reserve a car, charge the card, issue the tickets.

Each step has a compensating action with postconditions and readback. A trip failing before the charge is reversed by
verified compensations. The charge is the pivot. The tickets come after the pivot and honour the key, so the tickets can
be requested again until issued.

The functions act through `desk.providers` and read through `desk.trip_records` and `desk.trip_books`. Searches use the
stamp, never an id from an answer, because an answer may be missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from readback import Context, Lookup, Reading, SagaStep, action, from_step, reader
from readback.client.authoring.action import ActionDefinition
from readback.client.authoring.contract_keys import ExecuteOptions
from readback.contracts.functions.callables import Reader
from readback.demo.desk import desk
from readback.demo.naive import overheard

SAGA: Final = "book_trip"
WANTED: Final = {"flights": "RB 204", "hotel": "a room by the sea", "car": "a small one"}
"""The wanted entry of every trip, by the provider's book."""

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


def _made(book: str) -> Reader:
    """Reads the effect of our own attempt in the provider's records."""

    @reader(source="provider-records", consistency="strong", independence="other_client", attributes=True, name=book)
    def made(ctx: Context) -> Reading:
        found = desk.trip_records.all(
            ctx, "/entries", query={"book": book, "made_stamp": ctx.stamp}, complete="/complete",
            version="/version", stamp="/made_stamp",
        )  # fmt: skip
        return found[0] if found else Reading.absent()

    return made


def _left(book: str) -> Reader:
    """Reads the remaining effect of the reversed action, from the book itself. A standing entry comes first."""

    @reader(source="provider-books", consistency="strong", independence="other_system", name=f"{book}-book")
    def left(ctx: Context) -> Reading:
        statement = "SELECT * FROM entries WHERE book = ? AND made_stamp = ? ORDER BY stamp != made_stamp"
        found = desk.trip_books.all(statement, [book, ctx.reverses], version="version", stamp="stamp")
        return found[0] if found else Reading.absent()

    return left


def made_anywhere(ctx: Context) -> list[Reading]:
    """Every entry of our attempt, for any tenant, from the books. No other place can hold an effect."""
    statement = "SELECT * FROM entries WHERE made_stamp = ?"
    return desk.trip_books.all(statement, [ctx.stamp], version="version", stamp="made_stamp")


def changed_anywhere(ctx: Context) -> list[Reading]:
    """Every entry last changed by our attempt. Without an entry, the attempt did nothing anywhere."""
    return desk.trip_books.all("SELECT * FROM entries WHERE stamp = ?", [ctx.stamp], version="version", stamp="stamp")


def by_key(ctx: Context, **_: object) -> Lookup:
    """The result of the request with our key. Decides after a lost answer."""
    key = {"key": ctx.idempotency_key}
    return desk.trip_records.lookup(ctx, "/keys/{key}", params=key, landed={"done"}, value="/answer")


def _make(ctx: Context, book: str, **what: object) -> object:
    return desk.providers.post(ctx, "/{book}", params={"book": book}, json=what)


def _take_back(ctx: Context, book: str, verb: str) -> object:
    """Take back the effect of the reversed action, found by its stamp, because the answer may be missing."""
    query = {"book": book, "made_stamp": ctx.reverses}
    answers = []
    for entry in desk.trip_records.all(ctx, "/entries", query=query, complete="/complete"):
        assert isinstance(entry.value, dict)
        where: dict[str, str | int] = {"book": book, "id": str(entry.value["id"]), "verb": verb}
        answers.append(desk.providers.post(ctx, "/{book}/{id}/{verb}", params=where, json={}))
    return answers[-1] if answers else {"status": "nothing to take back"}


def _searched(definition: ActionDefinition[Any], find: Callable[..., list[Reading]], lookup: bool = False) -> None:
    """Declare how effects of the action are found: by stamp, and for a lost answer by key."""
    definition.find(complete=True)(find)
    if lookup:
        definition.lookup(by_key)


# --- before the pivot: three holds, which do not need each other ---


def _hold(name: str, book: str, made: str, undo: str, verb: str, undone: str) -> ActionDefinition[[str, str]]:
    """A hold at one provider, and the action that takes the hold back."""

    @action(
        name=name,
        kind="create",
        side_effect="medium_risk_write",
        target=f"{book}/{{requested.trip}}",
        identity=MADE,
        ensure={made: f"authoritative.status == '{made}'", "what": "authoritative.what == requested.what"},
        readers=[_made(book)],
        **TIMES,
    )
    @overheard
    def hold(ctx: Context, trip: str, what: str) -> object:
        return _make(ctx, book, trip=trip, what=what)

    @hold.compensate(
        name=undo, ensure={undone: f"authoritative.status == '{undone}'"}, readers=[_left(book)], **REVERSAL
    )
    @overheard
    def take_back(ctx: Context, trip: str, what: str) -> object:
        return _take_back(ctx, book, verb)

    _searched(hold, made_anywhere)
    _searched(take_back, changed_anywhere)
    return hold


hold_seat: Final = _hold("hold_seat", "flights", "held", "release_seat", "release", "released")
book_hotel: Final = _hold("book_hotel", "hotel", "booked", "cancel_hotel", "cancel", "cancelled")
reserve_car: Final = _hold("reserve_car", "car", "reserved", "cancel_car", "cancel", "cancelled")

# --- the pivot: from here on the trip goes forward ---


@action(
    kind="create",
    side_effect="high_risk_external",
    target="charge/{requested.trip}",
    identity={**MADE, "account": "not_offered"},  # the reading does not say whose card it was
    ensure={
        "charged": "authoritative.status == 'charged'",
        "amount": "authoritative.cents == requested.flight_cents + requested.hotel_cents + requested.car_cents",
        "key": "authoritative.made_key == scope.idempotency_key",
    },
    readers=[_made("payments")],
    execute=HONOURS,  # one key is charged once, however often it is sent
    **TIMES,
)
@overheard
def charge_trip(ctx: Context, trip: str, flight_cents: int, hotel_cents: int, car_cents: int) -> object:
    """Charge the card for the cost of the three holds in the providers' records."""
    return _make(ctx, "payments", trip=trip, cents=flight_cents + hotel_cents + car_cents)


@charge_trip.compensate(
    ensure={"refunded": "authoritative.status == 'refunded'"},
    readers=[_left("payments")],
    **{**REVERSAL, "identity": {**UNDONE, "account": "not_offered"}},
)
@overheard
def refund_trip(ctx: Context, trip: str, flight_cents: int, hotel_cents: int, car_cents: int) -> object:
    """Refund the charge."""
    return _take_back(ctx, "payments", "refund")


# --- after the pivot ---


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
    readers=[_made("tickets")],
    execute=HONOURS,  # so that the trip can go forward: asked for again, they are not issued twice
    **TIMES,
)
@overheard
def issue_tickets(ctx: Context, trip: str, seat: str, charge: str) -> object:
    """Issue the tickets for a held seat and a captured charge."""
    return _make(ctx, "tickets", trip=trip, what=seat, paid_by=charge)


# High risk: looked for once more when the window closes, since providers duplicate too.
_searched(charge_trip, made_anywhere, lookup=True)
_searched(issue_tickets, made_anywhere, lookup=True)
_searched(refund_trip, changed_anywhere)

BY_STEP: Final[dict[str, ActionDefinition[Any]]] = {
    "flight": hold_seat,
    "hotel": book_hotel,
    "car": reserve_car,
    "charge": charge_trip,
    "tickets": issue_tickets,
}
"""The action of each step of a trip."""


def operation(trip: str) -> str:
    """The name of the intent. Under one name a trip is booked once, for any number of requests."""
    return f"book {trip}"


def steps(trip: str) -> list[SagaStep]:
    """Three holds side by side, then the charge (the pivot), then the tickets.

    A later step uses the records of an earlier step, never the tool's answer.
    """
    holds = {"flight": "flights", "hotel": "hotel", "car": "car"}
    cents = {f"{step}_cents": from_step(step, "cents") for step in holds}
    tickets = issue_tickets(trip=trip, seat=from_step("flight", "id"), charge=from_step("charge", "id"))
    return [
        *(BY_STEP[step](trip=trip, what=WANTED[book]).as_step(step) for step, book in holds.items()),
        charge_trip(trip=trip, **cents).as_step("charge", after=tuple(holds), pivot=True),
        tickets.as_step("tickets", after=("charge",)),
    ]
