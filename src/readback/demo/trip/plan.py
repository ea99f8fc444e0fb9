"""A trip as a saga: five proposals, their inputs, and the pivot. Steps are data; nothing is executed here."""

from __future__ import annotations

from readback import SagaStep, from_step
from readback.demo import contracts_trip as contracts
from readback.demo.trip_cases import WANTED

SAGA = "book_trip"


def operation(trip: str) -> str:
    """The name of the intent. Under one name a trip is booked once, for any number of requests."""
    return f"book {trip}"


def steps(trip: str) -> list[SagaStep]:
    """Three holds side by side, then the charge, then the tickets.

    A later step uses the records of an earlier step, never the tool's answer.
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
