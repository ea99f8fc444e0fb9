"""What the tests of claims share: running upon something, a person's word, and how a claim stands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from readback.client.authoring.action import ActionDefinition
from readback.domain.action.claim import Claim, ClaimKind, ClaimStatement, ClaimStatus, claim_bytes, claim_id
from readback.domain.events import Event, EventKind
from readback.domain.outcome.outcome import Outcome
from readback.engine import coordinator
from readback.engine.people import claims as claim_person
from readback.engine.people.claims import ClaimOrder, claim_of
from readback.testing.driver_virtual import Parked
from tests.lifecycle.house import TENANT, House
from tests.lifecycle.reviewing import word

K, C = ClaimKind, ClaimStatus
EVE: Final = "human:eve"
SAID: Final = (EventKind.CLAIM_CONTESTED, EventKind.CLAIM_RETRACTED, EventKind.CLAIM_REINSTATED)


def claim(house: Any, action_id: str, kind: ClaimKind = K.HAPPENED) -> Claim:
    found = claim_of(house.store.events(action_id), kind)
    assert found is not None
    return found


def status(house: Any, action_id: str) -> tuple[ClaimStatus, ClaimStatus]:
    """How it stands that it happened, and that it holds."""
    return claim(house, action_id, K.HAPPENED).status, claim(house, action_id, K.HOLDS).status


def said(events: list[Event]) -> list[tuple[str, str, str]]:
    """What was said of claims, in order: which claim, what, and why."""
    return [(str(e.data["claim"]), e.kind.value[6:], str(e.data["reason"])) for e in events if e.kind in SAID]


def upon(
    house: House, made: ActionDefinition[Any], operation: str, *claims: str, item: str = "o-1", status: str = "packed"
) -> Outcome:
    """Runs one that is planned upon these."""
    request = replace(house.propose(made, item, status).request(operation), upon=claims)
    ticket = coordinator.ActionHandle()
    told = house.driver.drive(coordinator.begin(house.engine, request, house.scope, house.plans.get, ticket))
    assert not isinstance(told, Parked)
    return told


def person(
    house: Any,
    action_id: str,
    status: ClaimStatus,
    kind: ClaimKind = K.HAPPENED,
    *,
    version: int = 0,
    who: str = EVE,
    signed: bool = False,
) -> None:
    why = "Seen by hand."
    version = version or (len(house.store.events(action_id)) if signed else 0)
    statement = claim_bytes(claim_id(action_id, kind), TENANT, version, status.value, who, why)
    order = ClaimOrder(
        action_id, kind, status, ClaimStatement(who, why, word(statement, who) if signed else None), version
    )
    house.driver.drive(claim_person.decide(order, TENANT))
