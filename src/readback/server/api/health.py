"""Health, metrics, and the delivery of messages to subscribers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from readback.client.operations import delivery_admin
from readback.client.operations.delivery_admin import DeadLetterMessage
from readback.client.session import Session
from readback.errors import UsageError
from readback.server.access.principal import Right
from readback.server.api import shapes
from readback.server.api.answering import beside
from readback.server.routing import Answer, Call, Reply, Route
from readback.telemetry.fold_reader import LedgerMetrics
from readback.telemetry.prometheus import exposition

METRICS_MEDIA: Final = b"text/plain; version=0.0.4; charset=utf-8"


class Health(msgspec.Struct, frozen=True):
    """The server answers, and its ledger can be read."""

    status: str


async def healthz(call: Call) -> Reply:
    """Read the ledger's last position, so that an unreachable or silent ledger is a 503."""
    await call.ledgers.check()
    return Reply(200, Health("ok"))


async def metrics(call: Call) -> Reply:
    """Return the metrics of the caller's tenant in Prometheus' text format. The first request reads the whole log."""
    reader: LedgerMetrics = call.ledgers.metrics(call.caller.tenant)
    return Reply(200, (await beside(lambda: exposition(reader.families()))).encode(), media=METRICS_MEDIA)


async def list_subscribers(call: Call) -> Reply:
    """List the receivers of messages and their positions."""
    session = call.ledgers.client(call.caller).session
    found = await beside(delivery_admin.positions, session, call.ledgers.settings, set())
    items = [
        shapes.SubscriberView(
            each.name,
            each.where,
            each.cursor.after_seq if each.cursor is not None else None,
            each.waiting,
            each.letters,
        )
        for each in found
    ]
    return Reply(200, shapes.SubscriberList(items))


def letter_view(one: DeadLetterMessage) -> shapes.DeadLetterView:
    """Return a dead letter as the API shows dead letters."""
    letter, message = one.letter, one.message
    return shapes.DeadLetterView(
        id=message.id,
        subscriber=letter.subscriber,
        event=message.name.value,
        action=message.subject,
        reason=letter.said,
        tries=letter.tried,
        at_us=letter.died_us,
    )


async def list_dead_letters(call: Call) -> Reply:
    """List the tenant's undelivered messages."""
    session = call.ledgers.client(call.caller).session
    found = await beside(delivery_admin.dead_letters, session, set(), call.query.subscriber)
    return Reply(200, shapes.DeadLetterList([letter_view(each) for each in found]))


async def resend(call: Call) -> Reply:
    """Deliver dead letters once more; `preview` only counts the chosen dead letters."""
    body: shapes.ResendRequest = call.body
    if body.all == bool(body.ids):
        raise UsageError("Name dead letters, or all of them.", remedy="Send `ids`, or `all: true`.")
    session = call.ledgers.client(call.caller).session
    return Reply(200, await beside(resent, session, body.ids, body.subscriber, preview=body.preview))


def resent(session: Session, ids: Sequence[str], subscriber: str, *, preview: bool) -> shapes.ResendView:
    """Deliver the tenant's dead letters once more: those named, or all. Counts alone with `preview`."""
    found = delivery_admin.dead_letters(session, set(), subscriber)
    chosen = [each for each in found if not ids or each.message.id in ids]
    if preview:
        return shapes.ResendView(len(chosen), 0, len(chosen))
    accepted, left = delivery_admin.resend(session, chosen)
    return shapes.ResendView(len(chosen), len(accepted), len(left))


ROUTES: Final = (
    Route(
        "GET", "/healthz", "getHealth", "Check that the server can read its ledger.", healthz, None,
        (Answer(200, "The ledger can be read.", Health),), tag="server", faults=(503,),
    ),
    Route(
        "GET", "/metrics", "getMetrics", "Return the tenant's metrics for Prometheus.", metrics, Right.READ,
        (Answer(200, "Metrics in the text format.", str, media="text/plain"),), tag="server", faults=(503,),
    ),
    Route(
        "GET", "/v1/subscribers", "listSubscribers", "List receivers of messages.", list_subscribers, Right.ADMIN,
        (Answer(200, "The subscribers, by name.", shapes.SubscriberList),), tag="delivery", faults=(503,),
    ),
    Route(
        "GET", "/v1/dead-letters", "listDeadLetters", "List undelivered messages.", list_dead_letters, Right.ADMIN,
        (Answer(200, "The dead letters, in the order of the log.", shapes.DeadLetterList),),
        query=shapes.DeadLetterQuery, tag="delivery", faults=(503,),
    ),
    Route(
        "POST", "/v1/dead-letters/resend", "resendDeadLetters", "Deliver undelivered messages once more.", resend,
        Right.ADMIN, (Answer(200, "The numbers of messages.", shapes.ResendView),), body=shapes.ResendRequest,
        tag="delivery", faults=(422, 503),
    ),
)  # fmt: skip
