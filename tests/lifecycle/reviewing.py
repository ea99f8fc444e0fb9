"""What a person does in a house: looks at a packet and decides, lifts a freeze; and an action that freezes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from readback.audit.checks.ledger import audit
from readback.client.authoring.action import ActionDefinition
from readback.domain.context import Context
from readback.domain.contract.approval import key_id
from readback.domain.outcome.outcome import Outcome
from readback.domain.people.review import Decision, ReviewCase, lift_bytes, resolution_bytes
from readback.domain.people.signed_statement import SignedStatement
from readback.domain.verification.reading import Reading
from readback.engine.people import review
from readback.engine.people.review import Order
from readback.engine.people.review_case import packet
from readback.testing.signer_memory import MemorySigner
from tests.lifecycle.house import HIGH, MEDIUM, SHIP, STAMPED, TENANT, House

EVE: Final = "human:eve"
CRITICAL: Final[dict[str, Any]] = {
    "side_effect": "critical_mutation",
    "identity": {**SHIP["identity"], "actor": "authoritative.author", "permission_scope": "not_offered"},
    "readers": (("strong", "other_system", "ledger"), ("strong", "other_system", "audit")),
}


def look(house: House, action_id: str) -> ReviewCase:
    return packet(house.store, action_id, TENANT, house.engine.table, house.plans.get)


def word(statement: bytes, name: str = EVE) -> SignedStatement:
    """Signed by somebody of this name, whose key is made of it."""
    signer = MemorySigner(name)
    return SignedStatement(name, key_id(signer.public_key), statement, signer.sign(statement))


def order(house: House, action_id: str, decision: str, *, version: int = 0, signed: bool = False) -> Order:
    expected, why = version or look(house, action_id).version, "Looked at it."
    made = Order(action_id, Decision(decision), expected, EVE, why)
    statement = resolution_bytes(action_id, TENANT, expected, decision, EVE, why)
    return replace(made, signed=word(statement)) if signed else made


def resolve(
    house: House, action_id: str, decision: str, *, version: int = 0, signed: bool = False, check: bool = True
) -> Outcome:
    """Decides, with the version of now unless another is given; the ledger is sound afterwards."""
    made = order(house, action_id, decision, version=version, signed=signed)
    house.driver.drive(review.resolve(house.engine, made, TENANT, house.plans.get))
    if check:
        sound(house)
    return house.get(action_id)


def lift(house: House, subject: str, action_id: str, *, signed: bool = False) -> None:
    made, frozen = Order(action_id, Decision.ABANDON, 0, EVE, "It is in order."), house.store.freezes(TENANT)
    named = tuple(sorted((one.action_id, one.since_us) for one in frozen if one.subject == subject))
    statement = lift_bytes(TENANT, subject, named, EVE, made.reason)
    made = replace(made, signed=word(statement)) if signed else made
    house.driver.drive(review.lift(action_id, subject, made, TENANT))


def sound(house: House) -> None:
    report = audit(house.store)
    assert report.ok, report.faults


def open_to(house: House, action_id: str) -> set[str]:
    return {one.decision.value for one in look(house, action_id).choices if one.open}


def frozen(house: House) -> list[str]:
    return [freeze.subject for freeze in house.store.freezes(TENANT)]


def wrong_target(house: House, **options: Any) -> ActionDefinition[Any]:
    """It acts on something else, which its stamp gives away: that freezes and alarms."""
    house.shop.tool = lambda ctx, args: house.shop.ship(ctx, {**args, "item": "o-2"})
    return house.action(find=True, **options)


def held(house: House, **options: Any) -> ActionDefinition[Any]:
    """Of medium risk, and nobody can verify it: it goes to review, and no reading shows an effect."""
    chosen: dict[str, Any] = {"readers": (), "unverifiable": "The printer has no queue.", **MEDIUM, **options}
    return house.action(**chosen)


def doubtful(house: House, **options: Any) -> ActionDefinition[Any]:
    """Its reader is down after the call, so that it goes to review; what the shop has shows when it is up again."""

    def eyes(ctx: Context, args: Any) -> Reading:
        if house.shop.calls:
            raise ConnectionError("down")
        return house.shop.show(args)

    house.shop.eyes = eyes
    chosen: dict[str, Any] = {"deadline": "10s", "late_window": "60s", **HIGH, **STAMPED, **options}
    chosen["identity"] = {**HIGH["identity"], "stamp": "authoritative.stamp"}
    return house.action(**chosen)
