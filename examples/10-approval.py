"""Approving: an action that a person has to approve waits for a signature over exactly what would be called.

Here one program plays everybody, so that it can be run. In real life the approver's key is on the approver's machine,
`readback approve ID` shows the bytes at a terminal and asks, and the list of approvers is in the operator's settings.

Run it with `python examples/10-approval.py`.

Prints:
    asked:     validated, held for approval; paid so far: 0
    shown:     {"amount": 250, "to": "supplier-7"}
    edited:    refused, approval.forged
    elsewhere: refused, approval.replayed
    approved:  validated; paid so far: 0
    then:      reconciled_success, approved by alice; paid: 250
    denied:    failed, approval.denied
    told:      The action has not been executed. An approver denied it.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

from readback import ApprovalToken, Approver, ApproverKey, Context, Readback, ReadbackError, Reading, action

paid: dict[str, dict[str, object]] = {}


@action(
    kind="create",
    side_effect="medium_risk_write",
    target="payment/{requested.to}",
    identity={"target": "authoritative.to", "tenant": "authoritative.tenant", "actor": "authoritative.by"},
    ensure={"amount": "authoritative.amount == requested.amount"},
    approval={"expires": "1h", "when": "requested.amount > 100"},
    within="300ms",
)
def pay(ctx: Context, to: str, amount: int) -> object:
    """Small payments go through at once; what is over 100 waits for a person."""
    paid[to] = {"to": to, "amount": amount, "tenant": ctx.tenant, "by": ctx.principal, "stamp": ctx.stamp}
    return {"ok": True}


@pay.read(source="bank", consistency="strong", independence="other_client", attributes=True)
def bank_row(ctx: Context, to: str, amount: int) -> Reading:
    row = paid.get(to)
    return Reading.of(row, stamp=str(row["stamp"])) if row else Reading.absent()


def refused(rb: Readback, action_id: str, token: ApprovalToken) -> str:
    try:
        rb.approve(action_id, token)
    except ReadbackError as error:
        return f"refused, {error.code}"
    return "taken"


def main(folder: Path) -> None:
    alice = ApproverKey.create(folder / "alice.pem", passphrase="correct horse battery")
    people = [Approver("alice", alice.public_key, tenants=("acme",))]
    ledger = f"sqlite:///{folder / 'ledger.db'}"
    with Readback.open(ledger, tenant="acme", principal="agent:ops", approvers=people) as rb:
        held = rb.run(pay(to="supplier-7", amount=250), operation="pay 7")
        print(f"asked:     {held.state}, held for {held.hold}; paid so far: {len(paid)}")

        request = rb.approval(held.id)  # `request.bytes` is exactly what is signed
        print(f"shown:     {json.dumps(request.bound.requested)}")
        token = alice.approve(request, "alice")
        print(f"edited:    {refused(rb, held.id, replace(token, signed_at_us=0))}")

        other = rb.run(pay(to="supplier-8", amount=9_000), operation="pay 8")
        print(f"elsewhere: {refused(rb, other.id, token)}")

        print(f"approved:  {rb.approve(held.id, token).state}; paid so far: {len(paid)}")
        done = rb.wait(held.id)
        print(f"then:      {done.state}, approved by {done.approved_by[0]}; paid: {paid['supplier-7']['amount']}")

        ended = rb.deny(other.id, alice.deny(rb.approval(other.id), "alice"))
        print(f"denied:    {ended.state}, {ended.code}")
        print(f"told:      {ended.message}")


with tempfile.TemporaryDirectory() as scratch:
    main(Path(scratch))
