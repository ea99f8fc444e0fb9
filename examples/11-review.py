"""When a person has to decide: a charge that lands twice is held, frozen and an incident; somebody looks and decides.

Run it with `python examples/11-review.py`.

Prints:
    held:     review_required, duplicate_side_effect
    frozen:   resource:charge/c-1
    refused:  failed, frozen; may be repeated: True
    told:     high, seen 1
    may be:   attest_done, verify_again, compensate, abandon
    decided:  compensated; verified: False
    lifted:   ()
    again:    reconciled_success
"""

from __future__ import annotations

import tempfile

from readback import Context, Message, Readback, Reading, Subscriber, action

charges: list[dict[str, object]] = []
twice = True
paged: list[str] = []


@action(
    kind="create",
    side_effect="high_risk_external",
    target="charge/{requested.ref}",
    identity={"target": "authoritative.ref", "tenant": "authoritative.tenant", "account": "not_offered"},
    ensure={"amount": "authoritative.amount == requested.amount"},
    within="200ms",
    polls=["0s"],
)
def charge(ctx: Context, ref: str, amount: int) -> object:
    """A provider that sometimes takes one request for two."""
    made: dict[str, object] = {"ref": ref, "tenant": "acme", "amount": amount, "stamp": ctx.stamp}
    charges.extend([made] * (2 if twice else 1))
    return {"ok": True}


@charge.read(source="provider-ledger", consistency="strong", independence="other_system", attributes=True)
def charged(ctx: Context, ref: str, amount: int) -> Reading:
    found = [one for one in charges if one["ref"] == ref]
    return Reading.of(found[0], stamp=str(found[0]["stamp"])) if found else Reading.absent()


@charge.find
def every_charge(ctx: Context, ref: str, amount: int) -> list[Reading]:
    """A duplicate is seen by whoever counts, and by nobody else."""
    return [Reading.of(one, stamp=ctx.stamp) for one in charges if one["stamp"] == ctx.stamp]


@charge.compensate(kind="delete", ensure={"gone": "authoritative == null"}, within="200ms", polls=["0s"])
def refund(ctx: Context, ref: str, amount: int) -> object:
    charges[:] = [one for one in charges if one["ref"] != ref]
    return {"ok": True}


def page(message: Message) -> None:
    """Is told of incidents, after they are durable. It may fail; no action ever does because of it."""
    paged.append(str(message.data["severity"]))


def main() -> None:
    global twice
    with (
        tempfile.TemporaryDirectory() as folder,
        Readback.open(
            f"sqlite:///{folder}/ledger.db",
            tenant="acme",
            principal="agent:billing",
            subscribers=[Subscriber("pager", tell=page, events=["incident.opened"])],
        ) as rb,
    ):
        held = rb.run(charge(ref="c-1", amount=5), operation="charge c-1")
        print(f"held:     {held.state}, {held.discrepancy}")
        print(f"frozen:   {', '.join(freeze.subject for freeze in rb.freezes())}")
        refused = rb.run(charge(ref="c-1", amount=7), operation="charge c-1 again")
        print(f"refused:  {refused.state}, {refused.code}; may be repeated: {refused.may_repeat}")
        print("told:     " + "; ".join(f"{incident.severity}, seen {incident.seen}" for incident in rb.incidents()))

        packet = rb.review(held.id)  # what was intended, asked for, answered and read, and what each decision will do
        print(f"may be:   {', '.join(choice.decision for choice in packet.choices if choice.open)}")
        ended = rb.resolve(
            held.id, "compensate", expect_version=packet.version, who="human:eve", reason="Two charges; refund both."
        )
        print(f"decided:  {ended.state}; verified: {ended.verified}")

        rb.lift("resource:charge/c-1", who="human:eve", reason="The provider is in order again.")
        print(f"lifted:   {rb.freezes()}")
        twice = False
        print(f"again:    {rb.run(charge(ref='c-1', amount=7), operation='charge c-1 again').state}")


if __name__ == "__main__":
    main()
