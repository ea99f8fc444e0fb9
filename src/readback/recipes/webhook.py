"""Verified webhook: stamp, deliver over HTTP, ask the receiver's store of acknowledgements for the delivery's id.

Used by authors, who hand over where it is delivered and where receipts are found. A 200 of the endpoint is acceptance;
what counts is the receipt, read by another client: what was received, whole, and how far it came.

Source: "The Verification Ledger Pattern", adapting it to webhook deliveries.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Protocol, Unpack

from readback.canon import Json, payload_bytes
from readback.client.authoring.action import ActionDefinition
from readback.contracts.functions.conditions import postcondition
from readback.domain.context import Context
from readback.domain.verification.reading import Reading
from readback.errors import ContractFieldError
from readback.recipes.choices import Choices, quoted

if TYPE_CHECKING:
    from readback.client.proposal import Proposal
    from readback.systems import HttpExecutor, HttpSource, SqlSource

DELIVERY_HEADER: Final = "X-Readback-Delivery"
RECEIPT_FIELDS: Final = ("delivery", "event", "sha256", "status")


class Receipts(Protocol):
    """Where the receiver says what it received. `name` is the source's; a receipt has `RECEIPT_FIELDS`."""

    @property
    def name(self) -> str: ...

    def receipt(self, ctx: Context) -> Reading:
        """The receipt of the delivery that bears the context's stamp."""
        ...

    def all(self, ctx: Context) -> Sequence[Reading]:
        """Every receipt of it; raises where not all could be seen."""
        ...


class HttpReceipts:
    """Receipts of an acknowledgement endpoint: `path` shows one as an object, `search` a list of all of them."""

    def __init__(
        self, source: HttpSource, *, path: str = "/deliveries/{delivery}", search: str = "/deliveries"
    ) -> None:
        self.name = source.name
        self._source = source
        self._path = path
        self._search = search

    def receipt(self, ctx: Context) -> Reading:
        return self._source.get(ctx, self._path, params={"delivery": ctx.stamp}, stamp="/delivery")

    def all(self, ctx: Context) -> list[Reading]:
        return self._source.all(ctx, self._search, query={"delivery": ctx.stamp}, stamp="/delivery")


class SqlReceipts:
    """Receipts of a table of your own. `query` has one placeholder, for the delivery's id, and names the columns."""

    def __init__(self, source: SqlSource, *, query: str) -> None:
        self.name = source.name
        self._source = source
        self._query = query

    def receipt(self, ctx: Context) -> Reading:
        found = self.all(ctx)
        return found[0] if found else Reading.absent()

    def all(self, ctx: Context) -> list[Reading]:
        return self._source.all(self._query, [ctx.stamp], stamp="delivery")


class WebhookAction(ActionDefinition[[str, dict[str, Any]]]):
    """Proposes one delivery: `deliver(event=..., payload={...})`."""

    if TYPE_CHECKING:

        def __call__(self, event: str, payload: dict[str, Any]) -> Proposal: ...


def delivery_body(stamp: str, event: object, payload: object) -> bytes:
    """The bytes that are delivered, in canonical form: the receipt's `sha256` is of exactly these."""
    body: dict[str, Any] = {"delivery": stamp, "event": event, "payload": payload}
    return payload_bytes(body)


def verified_webhook(
    sender: HttpExecutor,
    receipts: Receipts,
    *,
    path: str = "/",
    done: Collection[str] = ("processed",),
    failed: Collection[str] = ("rejected",),
    **choices: Unpack[Choices],
) -> WebhookAction:
    """An action that delivers one event, and is verified when its receipt is found by the delivery's id.

    The id travels in the body and in `DELIVERY_HEADER`. `done` and `failed` are the words of the receipt's `status`
    that end it; any other is still under way. The receipt's digest is of the whole body as it was received.
    """
    if not done:
        raise ContractFieldError("Some status has to mean that the event was taken in.")

    def deliver(ctx: Context, event: str, payload: dict[str, Any]) -> object:
        body = delivery_body(ctx.stamp, event, payload)
        return sender.post(ctx, path, content=body, headers={DELIVERY_HEADER: ctx.stamp})

    def receipt(ctx: Context, event: str, payload: dict[str, Any]) -> Reading:
        return receipts.receipt(ctx)

    def all_receipts(ctx: Context, event: str, payload: dict[str, Any]) -> Sequence[Reading]:
        return receipts.all(ctx)

    action = WebhookAction(deliver, {**_contract(frozenset(done), frozenset(failed)), **choices})
    action.read(source=receipts.name, consistency="strong", independence="other_client")(receipt)
    action.find(all_receipts)
    return action


def _contract(done: frozenset[str], failed: frozenset[str]) -> dict[str, object]:
    return {
        "name": "verified_webhook",
        "kind": "send",
        "side_effect": "low_risk_internal",
        "target": "webhook/{requested.event}",
        "identity": {
            "target": "authoritative.event",
            "tenant": "not_offered",
            "account": "not_offered",
            "actor": "not_offered",
            "stamp": "authoritative.delivery",
        },
        "ensure": {"whole": received_whole, "taken in": f"authoritative.status in {_words(done)}"},
        "fails_when": {"turned away": f"authoritative.status in {_words(failed)}"} if failed else {},
        "proves": "delivered",
    }


def _words(words: frozenset[str]) -> str:
    return "[" + ", ".join(quoted(word) for word in sorted(words)) + "]"


@postcondition(version="1", name="received whole")
def received_whole(requested: dict[str, Json], authoritative: dict[str, Json]) -> bool | None:
    """The digest in the receipt is that of the bytes that were delivered."""
    said = authoritative.get("sha256")
    if not isinstance(said, str):
        return None
    sent = delivery_body(str(authoritative.get("delivery")), requested["event"], requested["payload"])
    return sha256(sent).hexdigest() == said.lower()
