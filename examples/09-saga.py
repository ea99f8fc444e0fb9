"""A saga: a room and a flight at once, then the charge, which is the pivot, then the ticket.

Run it with `python examples/09-saga.py`.

Prints:
    booked:   reconciled_success; books: room, flight, charge, ticket; the charge is 300
    declined: compensated; books: nothing
    told:     The action was reversed through compensation. Reversed, verified: room, flight.
    lost:     reconciled_success; charges: 1
    printer:  reconciled_success; tries of the ticket: 2; charges: 1
"""

from __future__ import annotations

import tempfile
from typing import Any

from readback import Context, Readback, Reading, SagaOutcome, SagaStep, action, from_step, reader

Row = dict[str, object]
books: dict[tuple[str, str], Row] = {}
faults: dict[str, str] = {}
IDENTITY = {
    "target": "authoritative.trip",
    "tenant": "authoritative.tenant",
    "actor": "authoritative.by",
    "stamp": "authoritative.stamp",
}
TERMS: dict[str, Any] = {
    "kind": "create",
    "side_effect": "medium_risk_write",
    "identity": IDENTITY,
    "within": "200ms",
    "late_window": "400ms",
    "polls": ["0ms", "50ms"],
    "execute": {"timeout": "100ms", "honours_key": True, "key_valid_for": "1h"},
}


def enter(service: str, ctx: Context, trip: str, price: int) -> object:
    """What each of the four services does with a request: it honours the key, and fails as it is told to."""
    fault = faults.get(service, "")
    if fault == "declined":
        return (402, {"error": "declined"})
    if fault == "jammed":
        del faults[service]
        return (503, {"error": "try later"})
    books.setdefault(
        (service, trip), {"trip": trip, "tenant": ctx.tenant, "by": ctx.principal, "price": price, "stamp": ctx.stamp}
    )
    if fault == "lost":
        raise ConnectionResetError("the line went dead after the request was taken in")
    return {"ok": True}


def look(service: str, trip: str) -> Reading:
    row = books.get((service, trip))
    return Reading.absent() if row is None else Reading.of(row, stamp=str(row["stamp"]))


def book(service: str, *, reversible: bool) -> Any:
    """One contract: the same for every service here; yours will differ."""

    @reader(source=service, consistency="strong", independence="other_client", attributes=True, name=f"{service}-book")
    def entry(ctx: Context, trip: str) -> Reading:
        return look(service, trip)

    terms = {**TERMS, "name": service, "target": service + "/{requested.trip}", "readers": [entry]}

    @action(**terms, ensure={"price": "authoritative.price == requested.price"})
    def make(ctx: Context, trip: str, price: int) -> object:
        return enter(service, ctx, trip, price)

    @make.find(complete=True)
    def ours(ctx: Context, trip: str, price: int) -> list[Reading]:
        """All that bears our stamp, in every book: where there is none, nothing was entered."""
        return [look(*place) for place, row in books.items() if row["stamp"] == ctx.stamp]

    if reversible:

        @make.compensate(kind="delete", ensure={"gone": "authoritative == null"}, within="200ms", readers=[entry])
        def cancel(ctx: Context, trip: str, price: int) -> object:
            books.pop((service, trip), None)
            return {"ok": True}

    return make


room, flight = book("room", reversible=True), book("flight", reversible=True)
charge, ticket = book("charge", reversible=False), book("ticket", reversible=False)


def steps(trip: str) -> list[SagaStep]:
    """Everything before the pivot can be taken back; everything after it is completed under its one key."""
    return [
        room(trip=trip, price=100).as_step("room"),
        flight(trip=trip, price=300).as_step("flight"),
        charge(trip=trip, price=from_step("flight", "price")).as_step("charge", after=("room", "flight"), pivot=True),
        ticket(trip=trip, price=from_step("charge", "requested.price")).as_step("ticket", after=("charge",)),
    ]


def settled(rb: Readback, told: SagaOutcome) -> SagaOutcome:
    """What stays unknown for a while is looked at again: here by hand, elsewhere by a worker."""
    while told.due_us is not None and told.state.value not in ("review_required", "failed"):
        rb.wait(told.id, wait=1)
        rb.resume()
        told = rb.get_saga(told.id)
    return told


def run(rb: Readback, trip: str) -> SagaOutcome:
    return settled(rb, rb.saga(steps(trip), name="trip", operation=f"book {trip}"))


def entered(trip: str) -> str:
    return ", ".join(service for service, of in books if of == trip) or "nothing"


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Readback.open(f"sqlite:///{folder}/readback.db", tenant="acme", principal="agent:desk") as rb,
    ):
        booked = run(rb, "t-1")
        print(f"booked:   {booked.state}; books: {entered('t-1')}; the charge is {books['charge', 't-1']['price']}")

        faults["charge"] = "declined"
        declined = run(rb, "t-2")
        print(f"declined: {declined.state}; books: {entered('t-2')}")
        print(f"told:     {declined.message.partition(' Failed:')[0]}")

        faults["charge"] = "lost"  # the charge lands, and its reply does not arrive
        lost = run(rb, "t-3")
        print(f"lost:     {lost.state}; charges: {entered('t-3').count('charge')}")

        faults.clear()
        faults["ticket"] = "jammed"  # past the pivot: nothing is taken back, the ticket is tried again
        printer = run(rb, "t-4")
        step = printer.steps["ticket"]
        tries = step.tries if step.tries > 1 or step.outcome is None else step.outcome.attempts
        print(f"printer:  {printer.state}; tries of the ticket: {tries}; charges: {entered('t-4').count('charge')}")


if __name__ == "__main__":
    main()
