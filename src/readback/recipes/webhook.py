"""Verified webhook: stamp, deliver over HTTP, and read the receipt of the delivery id from the receiver's store.

Authors pass the endpoint and the place of receipts. A 200 of the endpoint is acceptance. Only the receipt counts, read
through another client: the received bytes, whole, and the progress.

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
    """Where the receiver records deliveries. `name` is the source's name. A receipt has `RECEIPT_FIELDS`.

    Example:
        >>> def is_received(receipts: Receipts, ctx: Context):
        ...     return bool(receipts.all(ctx))
    """

    @property
    def name(self) -> str: ...

    def receipt(self, ctx: Context) -> Reading:
        """Return the receipt of the delivery with the context's stamp."""
        ...

    def all(self, ctx: Context) -> Sequence[Reading]:
        """Return every receipt of the delivery. Raises where some were not visible."""
        ...


class HttpReceipts:
    """Receipts of an acknowledgement endpoint: `path` shows one receipt as an object, `search` a list of all.

    Example:
        >>> from readback.systems import HttpSource
        >>> HttpReceipts(HttpSource("partner", "https://partner.example")).name
        'partner'
    """

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
    """Receipts in a table of your own. `query` names the columns and has one placeholder, for the delivery id.

    Example:
        >>> import sqlite3
        >>> from readback.systems import SqlSource
        >>> source = SqlSource("partner", lambda: sqlite3.connect("partner.db"))
        >>> query = "select delivery, event, sha256, status from receipts where delivery = ?"
        >>> SqlReceipts(source, query=query).name
        'partner'
    """

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
    """Propose one delivery: `deliver(event=..., payload={...})`.

    Example:
        >>> def propose(deliver: WebhookAction):
        ...     return deliver(event="order.shipped", payload={"order": 7})
    """

    if TYPE_CHECKING:

        def __call__(self, event: str, payload: dict[str, Any]) -> Proposal: ...


def delivery_body(stamp: str, event: object, payload: object) -> bytes:
    """Return the delivered bytes, in canonical form. The receipt's `sha256` covers exactly these bytes.

    Example:
        >>> delivery_body("stamp-1", "order.shipped", {"id": 7})
        b'{"delivery":"stamp-1","event":"order.shipped","payload":{"id":7}}'
    """
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
    """Return an action that delivers one event.

    The action is verified when the receipt is found by the delivery id. The id is in the body and in `DELIVERY_HEADER`.
    The receipt's digest covers the whole received body.

    Args:
        sender: The endpoint.
        receipts: The place of receipts.
        path: Path of the endpoint.
        done: Words of the receipt's `status` for success.
        failed: Words of the receipt's `status` for failure. Other words mean in progress.
        choices: Contract keys to change.

    Raises:
        ContractFieldError: `done` is empty.

    Example:
        >>> from readback.systems import HttpExecutor, HttpSource
        >>> sender = HttpExecutor("https://partner.example", sole=True)
        >>> deliver = verified_webhook(sender, HttpReceipts(HttpSource("partner", "https://partner.example")))
    """
    if not done:
        raise ContractFieldError("`done` is empty. Name at least one status for success.")

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
    """The digest in the receipt is the digest of the delivered bytes."""
    said = authoritative.get("sha256")
    if not isinstance(said, str):
        return None
    sent = delivery_body(str(authoritative.get("delivery")), requested["event"], requested["payload"])
    return sha256(sent).hexdigest() == said.lower()
