"""What is asked for, and tokens about it: given to the tests of approvals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from readback.canon import Json
from readback.domain.contract.approval import ApprovalToken, Bound, Decision, Policy, key_id
from readback.testing.signer_memory import MemorySigner

ALICE, BOB = MemorySigner("alice"), MemorySigner("bob")
NOW = 1_000_000


def bound_for(policy: Policy, requested: Json, people: int) -> Bound:
    """What an approver of this policy is shown."""
    return Bound(
        approval="ap-1",
        nonce="n-1",
        action="a-1",
        tenant="acme",
        principal="agent:ops",
        contract="pay_invoice",
        contract_version="1",
        contract_hash="c" * 64,
        kind="create",
        side_effect="critical_mutation",
        target="invoice/7",
        operation="pay 7",
        request_hash="d" * 64,
        requested=requested,
        intended=None,
        people=people,
        policy=policy.version,
        expires_us=2_000_000,
    )


def signed(
    bound: Bound, signer: MemorySigner, name: str, decision: Decision = Decision.APPROVE, **changes: Any
) -> ApprovalToken:
    """A token as this signer would make it, and signed after the changes."""
    token = ApprovalToken(
        name,
        key_id(signer.public_key),
        bound.approval,
        bound.payload(),
        decision,
        NOW,
        bound.expires_us,
        bound.nonce,
    )
    token = replace(token, **changes)
    return replace(token, signature=signer.sign(token.statement()))
