"""A worker in a process of its own: `python -m readback.demo.worker` with one JSON object as its argument.

Started by `crash`. With `charge` it runs one action, and is killed in the middle of it. Without, it is another worker,
which goes on with whatever is due: it knows nothing of the first one but what the ledger says.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from readback import Readback
from readback.client.authoring.action import ActionDefinition
from readback.demo import contracts, contracts_office
from readback.demo.desk import AGENT, TENANT, Addresses, desk

ACTIONS: tuple[ActionDefinition[Any], ...] = tuple(
    each
    for module in (contracts, contracts_office)
    for each in vars(module).values()
    if isinstance(each, ActionDefinition)
)
"""Every contract of the desk: what a worker must know to go on with an action of any of them."""


def main() -> None:
    """Acts, or goes on, in the name of the desk's agent: by the sync client, where the demo itself uses the async."""
    order = json.loads(sys.argv[1])
    desk.open(Addresses.from_text(order["addresses"]), timeout_s=30.0)
    with Readback.open(order["ledger"], tenant=TENANT, principal=AGENT, run="morning", actions=ACTIONS) as rb:
        if charge := order.get("charge"):
            rb.run(contracts.charge_card(**charge), operation=order["operation"])
        else:
            for outcome in rb.resume():
                rb.wait(outcome.id)
    desk.close()


if __name__ == "__main__":
    main()
