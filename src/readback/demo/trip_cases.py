"""The trips of the chapter: the wanted bookings, and the faults at each of the five steps in turn.

Data only. No case states its own result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from readback.canon.frozen import dataclass

WANTED: Final[Mapping[str, str]] = {"flights": "RB 204", "hotel": "a room by the sea", "car": "a small one"}
"""The wanted entry of every trip, by the provider's book."""


@dataclass(frozen=True, slots=True)
class Spoiled:
    """One order to a provider: a fault for the next requests of this trip. `op`: make, or the word for undoing."""

    fault: str
    book: str
    op: str = "make"
    times: int = 1
    params: Mapping[str, Any] = field(default_factory=dict)

    def match(self, trip: str) -> dict[str, str]:
        return {"trip": trip, "book": self.book, "op": self.op}


@dataclass(frozen=True, slots=True)
class Case:
    """One trip. `at`: the faulty step; the table shows the step's answer. `where`: the step's position relative to the
    pivot.
    """

    trip: str
    at: str
    where: str
    words: str
    spoiled: tuple[Spoiled, ...] = ()


CASES: Final = (
    Case("lisbon", "charge", "", "nothing is spoiled"),
    Case("bergen", "flight", "before the pivot", "no seat is left", (Spoiled("refuse", "flights"),)),
    Case("graz", "hotel", "before the pivot", "200, and no booking was made", (Spoiled("silent_noop", "hotel"),)),
    Case(
        "porto",
        "car",
        "before the pivot",
        "200, and a lorry is reserved",
        (Spoiled("wrong_value", "car", params={"set": {"what": "a lorry"}}),),
    ),
    Case(
        "turin",
        "hotel",
        "before the pivot",
        "the room is booked and the reply is lost; then the card is declined",
        (Spoiled("lost_reply", "hotel"), _declined := Spoiled("refuse", "payments", times=-1, params={"code": 402})),
    ),
    Case("malmo", "charge", "at the pivot", "the card is declined", (_declined,)),
    Case("cork", "charge", "at the pivot", "charged, and the reply is lost", (Spoiled("lost_reply", "payments"),)),
    Case("nice", "charge", "at the pivot", "charged, but only in a while", (Spoiled("late", "payments"),)),
    Case(
        "riga",
        "tickets",
        "after the pivot",
        "503 three times, and then issued",
        (Spoiled("refuse", "tickets", times=3, params={"code": 503}),),
    ),
    Case("split", "tickets", "after the pivot", "issued, and the reply is lost", (Spoiled("lost_reply", "tickets"),)),
)
