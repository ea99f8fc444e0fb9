"""Write a ledger with every usual kind of entry, by this release: `python -m tests.ledger_schema.sample FILE`."""

from __future__ import annotations

import sys
from typing import Any

from readback import Context, Readback, Reading, action
from readback.assurance.canary.control import start_canary
from readback.assurance.canary.follower import CanaryFollower
from readback.errors import ReadbackError
from readback.testing.runtime_virtual import VirtualRuntime
from tests.canary.depot import Depot, plans
from tests.injection.storehouse import System, booking

TENANT, PRINCIPAL = "acme", "agent:ops"


def paid(system: dict[str, int]) -> Any:
    """A payment of high risk whose source is down: a person decides."""

    @action(
        name="pay",
        kind="create",
        side_effect="high_risk_external",
        target="bill/{requested.bill}",
        identity={"target": "authoritative.id", "tenant": "authoritative.tenant", "account": "not_offered",
                  "stamp": "authoritative.stamp", "actor": "not_offered"},
        ensure={"paid": "authoritative.paid"},
        within="2s",
        late_window="3s",
    )  # fmt: skip
    def pay(ctx: Context, bill: str) -> object:
        system[bill] = 1
        return {"status": "ok"}

    @pay.read(source="bank", consistency="strong", independence="other_system", attributes=True)
    def read(ctx: Context, bill: str) -> Reading:
        raise ConnectionError("The bank does not answer.")

    return pay


def write(path: str) -> list[str]:
    """Write the ledger, and return the ids of its actions."""
    depot, hotel, bank = Depot(), System(), dict[str, int]()
    ship, book, pay = depot.incumbent, booking(hotel), paid(bank)
    with Readback.open(
        f"sqlite:///{path}", tenant=TENANT, principal=PRINCIPAL, actions=[ship, book, pay], runtime=VirtualRuntime()
    ) as rb:
        start_canary(rb, plans(depot.candidate), plans(ship), mismatches_max=9)
        told = [rb.run(ship(f"o-{number}"), operation=f"ship {number}", run="r-1") for number in range(3)]
        told.append(rb.run(book("r-1"), operation="book", upon=[told[0]]))
        hotel.undone = True
        saga = rb.saga(
            [book("r-2").as_step("room"), ship("o-9").as_step("ship", after=("room",), pivot=True)], operation="trip"
        )
        told.append(rb.run(pay("b-1"), operation="pay"))
        case = rb.review(told[-1].id)
        rb.resolve(case.id, "attest_not_done", expect_version=case.version, reason="The bank says so.", who="human:eve")
        CanaryFollower(rb, plans(depot.candidate), plans(ship)).round()
        return [each.id for each in told] + [saga.id]


if __name__ == "__main__":
    try:
        sys.stdout.write("\n".join(write(sys.argv[1])) + "\n")
    except ReadbackError as error:
        raise SystemExit(f"{error.code}: {error.message}") from error
