"""A trip as a saga: five proposals, what each builds on, and the one after which there is no way back.

Used by the chapter, and by the crash tests in processes of their own. Nothing is done here: steps are data.
"""

from __future__ import annotations

from readback import SagaStep, from_step
from readback.demo.trip import contracts as contracts
from readback.demo.trip_cases import WANTED

SAGA = "book_trip"


def operation(trip: str) -> str:
    """The name of the intent: under one name a trip is booked once, however often it is asked for."""
    return f"book {trip}"


def steps(trip: str) -> list[SagaStep]:
    """Three holds side by side, then the charge, then the tickets.

    What a later step builds on is what the records said of an earlier one, and never what its tool answered.
    """
    return [
        contracts.hold_seat(trip=trip, flight=WANTED["flights"]).as_step("flight"),
        contracts.book_hotel(trip=trip, room=WANTED["hotel"]).as_step("hotel"),
        contracts.reserve_car(trip=trip, car=WANTED["car"]).as_step("car"),
        contracts.charge_trip(
            trip=trip,
            flight_cents=from_step("flight", "cents"),
            hotel_cents=from_step("hotel", "cents"),
            car_cents=from_step("car", "cents"),
        ).as_step("charge", after=("flight", "hotel", "car"), pivot=True),
        contracts.issue_tickets(trip=trip, seat=from_step("flight", "id"), charge=from_step("charge", "id")).as_step(
            "tickets", after=("charge",)
        ),
    ]
