"""People who may approve in a house, and what they do there. Their keys are made of their names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from readback.domain.contract.approval import ApprovalToken, Approver, Decision, Policy
from readback.engine.people import approvals as countersign
from readback.engine.people.approvals import ApprovalRequest
from readback.engine.stages.approve import Approvals
from readback.testing.signer_memory import MemorySigner, verify_memory
from tests.lifecycle.house import SHIP, TENANT, House

CRITICAL: Final[dict[str, Any]] = {
    "side_effect": "critical_mutation",
    "identity": {**SHIP["identity"], "actor": "authoritative.author", "permission_scope": "not_offered"},
    "readers": (("strong", "other_system", "ledger"), ("strong", "other_system", "audit")),
}
ASKED: Final[dict[str, Any]] = {"approval": {"expires": "1h"}}


def people(*names: str, tenants: tuple[str, ...] = (TENANT,)) -> Approvals:
    """A list of approvers."""
    listed = [Approver(name, MemorySigner(name).public_key, tenants) for name in names]
    return Approvals(Policy.of(listed), verify_memory)


BOTH: Final = people("alice", "bob")


def listed(house: House, approvals: Approvals = BOTH) -> House:
    """The house, with these people in its operator's settings."""
    house.engine = replace(house.engine, approvals=approvals)
    return house


def request(house: House, action_id: str) -> ApprovalRequest:
    found = house.driver.drive(countersign.requested(action_id, TENANT, house.engine.approvals))
    assert isinstance(found, ApprovalRequest)
    return found


def token(house: House, action_id: str, name: str = "alice", decision: Decision = Decision.APPROVE) -> ApprovalToken:
    return request(house, action_id).signed(MemorySigner(name), name, decision)


def record(house: House, action_id: str, given: Any, decision: Decision = Decision.APPROVE) -> None:
    house.driver.drive(countersign.record(action_id, TENANT, given, house.engine.approvals, decision))


def approve(house: House, action_id: str, name: str = "alice") -> None:
    record(house, action_id, token(house, action_id, name))


def deny(house: House, action_id: str, name: str = "alice") -> None:
    record(house, action_id, token(house, action_id, name, Decision.DENY), Decision.DENY)
