"""Hours in milliseconds: the same SDK under a runtime of your own, for simulations and for tests of contracts.

Run it with `python examples/06-virtual-time.py`. Nothing here waits for real time.

Prints:
    slow:  reconciled_success after 1:31:48 of the simulation
    never: unknown after 3:00:00, may be repeated: False
"""

from __future__ import annotations

import tempfile
from datetime import timedelta

from readback import Context, Readback, Reading, action
from readback.testing.runtime_virtual import VirtualRuntime

time = VirtualRuntime(seed=1)
BEGIN_US = time.now_us()
settled_at_us: dict[str, int] = {}
"""When each transfer becomes visible at the bank; a transfer that is not here never does."""


@action(
    kind="create",
    side_effect="high_risk_external",
    target="transfer/{requested.reference}",
    identity={
        "target": "authoritative.reference",
        "tenant": "authoritative.tenant",
        "account": "not_offered",
        "stamp": "authoritative.stamp",
    },
    ensure={"booked": "authoritative.booked == true"},
    within="3h",
    polls=["0s", "10m", "20m", "1h"],
)
def pay(ctx: Context, reference: str) -> object:
    return {"status": "accepted", "id": reference}


@pay.read(source="bank", consistency="strong", independence="other_client")
def transfer(ctx: Context, reference: str) -> Reading:
    """What the bank shows now: nothing yet, or the booked transfer with our stamp."""
    at_us = settled_at_us.get(reference)
    if at_us is None or time.now_us() < at_us:
        return Reading.absent()
    return Reading.of({"reference": reference, "tenant": ctx.tenant, "stamp": ctx.stamp, "booked": True})


def passed() -> timedelta:
    return timedelta(seconds=round((time.now_us() - BEGIN_US) / 1_000_000))


def main() -> None:
    global BEGIN_US
    with (
        tempfile.TemporaryDirectory() as folder,
        Readback.open(f"sqlite:///{folder}/r.db", tenant="acme", principal="agent:pay", runtime=time) as rb,
    ):
        settled_at_us["slow"] = time.now_us() + int(timedelta(hours=1).total_seconds()) * 1_000_000
        slow = rb.run(pay(reference="slow"), operation="invoice 1")
        print(f"slow:  {slow.state} after {passed()} of the simulation")
        BEGIN_US = time.now_us()
        never = rb.run(pay(reference="never"), operation="invoice 2")
        print(f"never: {never.state} after {passed()}, may be repeated: {never.may_repeat}")


if __name__ == "__main__":
    main()
