"""The naive agent books a trip: one step after the other, believes each reply, and reverses nothing.

Runs beside Readback, on the same providers with the same faults, for a trip of its own. The rules: a status below 400
means done; a refusal means failed; no answer means failed, and is tried again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from readback.canon.frozen import dataclass
from readback.demo.desk import TENANT, TOOL_TIMEOUT_S
from readback.demo.naive import Claim, Told
from readback.demo.trip_cases import WANTED

if TYPE_CHECKING:
    import httpx

TRIES: Final = 2
STEPS: Final = {
    "flights": "hold a seat",
    "hotel": "book a room",
    "car": "reserve a car",
    "payments": "charge the card",
    "tickets": "issue the tickets",
}


class GaveUpError(Exception):
    """A step failed, from the naive agent's view."""


@dataclass(frozen=True, slots=True)
class NaiveAgent:
    """Sends HTTP requests to the providers, like a model with five plain tools."""

    client: httpx.Client

    def book(self, trip: str) -> Told:
        """Book the trip, and return the report to the user."""
        replies: dict[str, dict[str, Any]] = {}
        for book, step in STEPS.items():
            try:
                replies[book] = self._call(book, {"trip": trip, **self._details(book, replies)})
            except GaveUpError:
                return Told(Claim.FAILED, f"Failed: {step}. The trip was not booked.")
        return Told(Claim.DONE, "Done: the trip is booked.")

    def _details(self, book: str, replies: dict[str, dict[str, Any]]) -> dict[str, object]:
        """The inputs of a step: the replies of earlier steps."""
        match book:
            case "payments":
                return {"cents": sum(int(replies[each].get("cents", 0)) for each in WANTED)}
            case "tickets":
                return {"what": replies["flights"].get("id"), "paid_by": replies["payments"].get("id")}
            case _:
                return {"what": WANTED[book]}

    def _call(self, book: str, body: dict[str, object]) -> dict[str, Any]:
        import httpx

        for _ in range(TRIES):
            try:
                answer = self.client.post(f"/{book}", json=body)
            except httpx.TransportError:
                continue
            if answer.status_code < 400:
                reply: dict[str, Any] = answer.json()
                return reply
            break
        raise GaveUpError(book)


def naive_client(providers_url: str) -> httpx.Client:
    """The naive agent's own connection. The caller closes it."""
    import httpx

    headers = {"X-Tenant": TENANT, "X-Actor": "agent:naive"}
    return httpx.Client(base_url=providers_url, headers=headers, timeout=TOOL_TIMEOUT_S, trust_env=False)
