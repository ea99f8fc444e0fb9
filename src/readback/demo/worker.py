"""A worker in a process of its own: `python -m readback.demo.worker` with one JSON object as its argument.

With `charge` the worker runs one action and is killed during the call. Otherwise the process is another worker and
processes due actions. The ledger is the only source about the first worker.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from readback import Readback
from readback.client.authoring.action import ActionDefinition
from readback.demo import contracts
from readback.demo.desk import AGENT, TENANT, desk

ACTIONS: tuple[ActionDefinition[Any], ...] = tuple(
    each for each in vars(contracts).values() if isinstance(each, ActionDefinition)
)
"""Every contract of the desk. A worker needs all of them to resume any action."""


def main() -> None:
    """Run or resume actions for the desk's agent, through the sync client. The demo itself uses the async client."""
    order = json.loads(sys.argv[1])
    desk.open(**order["addresses"], timeout_s=30.0)
    with Readback.open(order["ledger"], tenant=TENANT, principal=AGENT, run="morning", actions=ACTIONS) as rb:
        if charge := order.get("charge"):
            rb.run(contracts.charge_card(**charge), operation=order["operation"])
        else:
            for outcome in rb.resume():
                rb.wait(outcome.id)
    desk.close()


if __name__ == "__main__":
    main()
