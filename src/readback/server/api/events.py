"""Events: the stream of a tenant's ledger entries, and webhooks of providers.

The ids of the stream's events are ledger positions (HTML Standard, "Server-sent events"). A verified webhook brings the
next reading of one action forward, and decides nothing: the content of a webhook is never a reading.
"""

from __future__ import annotations

from typing import Final

from readback.errors import NotFoundError
from readback.server.access.principal import Caller, Right
from readback.server.access.webhooks import named_action
from readback.server.api import shapes
from readback.server.api.answering import beside
from readback.server.errors import BodyError
from readback.server.routing import Answer, Call, Reply, Route

POSITION_MAX_DIGITS: Final = 18
MEDIA: Final = b"text/event-stream"


async def stream(call: Call) -> Reply:
    """Send the tenant's entries as server-sent events."""
    query: shapes.StreamQuery = call.query
    given = call.header("last-event-id").strip()
    if given and not (given.isascii() and given.isdigit() and len(given) <= POSITION_MAX_DIGITS):
        raise BodyError("Last-Event-ID is not a ledger position.", remedy="Send the `id` of the last event.")
    after = int(given) if given else query.after
    action = ""
    if query.action:
        action = await beside(call.ledgers.client(call.caller).session.action_id, query.action)
    chunks = call.ledgers.hub.listen(call.caller.tenant, action, after)
    return Reply(200, headers=((b"x-accel-buffering", b"no"),), media=MEDIA, stream=chunks)


async def receive(call: Call) -> Reply:
    """Verify a webhook and wake the named action's next reading. An unknown action is no error for the sender."""
    ledgers = call.ledgers
    sender = ledgers.senders.verified(call.path["sender"], call.headers, call.raw, ledgers.runtime.now_us())
    named = named_action(call.raw, sender.field)
    client = ledgers.client(Caller(sender.tenant, "webhook:" + call.path["sender"], frozenset()))
    try:
        woken = await beside(client.signal, named)
    except NotFoundError:
        woken = False
    return Reply(202, shapes.SignalView(woken))


ROUTES: Final = (
    Route(
        "GET", "/v1/events", "streamEvents", "Follow the tenant's ledger entries.", stream, Right.READ,
        (Answer(200, "Events without end; each `id` is a ledger position.", shapes.StreamEvent, "text/event-stream"),),
        query=shapes.StreamQuery, tag="events", headers=("Last-Event-ID",), faults=(404, 503),
    ),
    Route(
        "POST", "/v1/webhooks/{sender}", "receiveWebhook", "Wake an action by a provider's webhook.", receive, None,
        (Answer(202, "The webhook is verified.", shapes.SignalView),), body=bytes, tag="webhooks",
        headers=("webhook-id", "webhook-timestamp", "webhook-signature"), faults=(401, 413, 503),
    ),
)  # fmt: skip
