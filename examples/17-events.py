"""Tells subscribers what the ledger says: a callable, a file and a webhook that is down, each at its own pace.

What a subscriber does not take is tried again; past its limits the fallback is told, and a dead letter is kept. A
message holds ids, names and codes, under an id that stays the same, so that whoever hears it twice can tell.

Prints:
    told:      action.reconciled of a1
    told:      verification.failed of a2
    told:      action.unknown of a2
    told:      review.required of a2
    told:      claim.contested of a2
    told:      claim.retracted of a2
    on file:   6 CloudEvents, the first of type readback_action_reconciled
    dead:      bus did not take action.reconciled of a1
    dead:      bus did not take verification.failed of a2
    fallback:  2 messages for bus
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from readback import Context, Message, Readback, Reading, Subscriber, action
from readback.testing.runtime_virtual import VirtualRuntime

orders: dict[str, dict[str, str]] = {"o-1": {"id": "o-1", "status": "open"}}
names: dict[str, str] = {}


@action(
    kind="set",
    side_effect="ephemeral_write",
    target="order/{requested.order_id}",
    identity={"target": "authoritative.id"},
    ensure={"shipped": "authoritative.status == 'shipped'"},
    within="1s",
)
def ship(ctx: Context, order_id: str) -> object:
    if order_id in orders:
        orders[order_id]["status"] = "shipped"
    return {"ok": True}  # whatever became of it


@ship.read(source="orders", consistency="strong", independence="other_client")
def order(ctx: Context, order_id: str) -> Reading:
    return Reading.of(orders[order_id]) if order_id in orders else Reading.absent()


def hear(message: Message) -> None:
    short = names.setdefault(message.subject, f"a{len(names) + 1}")
    print(f"told:      {message.name} of {short}")


def main() -> None:
    os.environ["BUS_SECRET"] = "a secret of at least 24 bytes"
    with tempfile.TemporaryDirectory() as folder:
        ledger, told = f"{folder}/ledger.db", Path(folder, "told.jsonl")
        subscribers = [
            Subscriber("app", tell=hear),
            Subscriber("archive", file=str(told), naming="underscore"),
            Subscriber(
                "bus",
                webhook="http://127.0.0.1:1/nobody-listens-here",
                secret="env:BUS_SECRET",
                events=("action.reconciled", "verification.failed"),
                attempts=1,  # for the example: given up at once
                give_up_s=0,
            ),
        ]
        runtime = VirtualRuntime()  # so that this takes no time
        with Readback.open(
            f"sqlite:///{ledger}", tenant="acme", principal="agent:ops", subscribers=subscribers, runtime=runtime
        ) as rb:
            rb.run(ship(order_id="o-1"), operation="ship o-1")
            rb.run(ship(order_id="o-2"), operation="ship o-2")
        # Closing has waited until everybody was told.
        events = [json.loads(line) for line in told.read_text().splitlines()]
        print(f"on file:   {len(events)} CloudEvents, the first of type {events[0]['type']}")
        fallen = [json.loads(line) for line in Path(f"{ledger}.operator.jsonl").read_text().splitlines()]
        for event in fallen:
            name = event["type"].removeprefix("readback.")
            print(f"dead:      {event['undeliveredto']} did not take {name} of {names[event['subject']]}")
        print(f"fallback:  {len(fallen)} messages for bus")


if __name__ == "__main__":
    main()
