"""The order desk's contracts: each action, its postconditions, and its readers.

Read from the top to learn the SDK; `contracts_trip` continues with a saga. An action is a function of a Context and
arguments. The returned value is evidence. The readers ask a system of record through a separate path. The
postconditions under `ensure` judge these readings, never the answer.

The functions act through `desk.shop` and read through `desk.records` and `desk.database`. `late_window` is the time
within which an effect may still land. The windows are short, to keep the demo short.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from readback import Context, Lookup, Reading, action, reader
from readback.contracts.functions.callables import Reader
from readback.demo.desk import desk
from readback.demo.naive import blindly_retried, in_prose, overheard, politely

# Who and what a reading is of. The reader must say it; a reading of another tenant's order verifies nothing.
ORDER: Final = {
    "target": "authoritative.id",
    "tenant": "authoritative.tenant",
    "actor": "authoritative.updated_by",
    "stamp": "authoritative.stamp",  # our stamp on the row proves that the change is our doing
    "version": "authoritative.version",
}
OF_ORDER: Final = {**ORDER, "target": "authoritative.order_id"}  # of what belongs to an order
BOOKKEEPING: Final = ("version", "stamp", "updated_by", "updated_us")  # changes with every write
# How soon an effect can be seen, and how late one may still land.
SHORT: Final[dict[str, Any]] = {"within": "1500ms", "polls": ("0s", "150ms", "300ms", "600ms"), "late_window": "1500ms"}
LONG: Final[dict[str, Any]] = {**SHORT, "within": "2s", "late_window": "2s"}

# --- readers that several actions share ---


def _order_in(view: str, source: str, consistency: str) -> Reader:
    """Reads one order from the service: from the primary, or from a lagging view."""

    @reader(source=source, consistency=consistency, independence="other_client", name=source)
    def order(ctx: Context, order_id: str) -> Reading:
        path = f"{view}/orders/{{id}}"
        return desk.records.get(ctx, path, params={"id": order_id}, version="/version", stamp="/stamp")

    return order


PRIMARY: Final = _order_in("", "order-service", "strong")
# A near reader is asked first, and settles nothing that its class does not allow. Then the strong one is asked.
REPLICA: Final = _order_in("/replica", "order-replica", "replica")
CACHE: Final = _order_in("/cache", "order-cache", "cached")


def _ours_in(table: str) -> Reader:
    """Reads our own row of a table: by the stamp, not by the id in the answer. There may be no answer."""

    @reader(source="order-service", consistency="strong", independence="other_client", attributes=True, name=table)
    def ours(ctx: Context) -> Reading:
        query = {"stamp": ctx.stamp}
        found = desk.records.all(ctx, f"/{table}", query=query, complete="/complete", stamp="/stamp")
        return found[0] if found else Reading.absent()

    return ours


@reader(source="order-service", consistency="strong", independence="other_client", attributes=True)
def stock_row(ctx: Context, sku: str) -> Reading:
    return desk.records.get(ctx, "/stock/{sku}", params={"sku": sku}, version="/version", stamp="/stamp")


def _anywhere(statement: str) -> Callable[..., list[Reading]]:
    """A search for every row with our stamp, of all tenants, to find each effect of ours, also in a wrong place."""

    def find(ctx: Context) -> list[Reading]:
        return desk.database.all(statement, [ctx.stamp], stamp="stamp")

    return find


ORDERS_ANYWHERE: Final = _anywhere("SELECT * FROM orders WHERE stamp = ?")

# --- read: even an answer is checked ---


@action(
    kind="read",
    side_effect="read_only",
    target="stock/{requested.sku}",
    identity={"target": "authoritative.id", "tenant": "authoritative.tenant"},
    ensure={"the answer is right": "authoritative.qty == observed.qty"},
    readers=[stock_row],
    tell=["qty"],  # the only value that may reach the model, as data
    within="1s",
)
@overheard
def check_stock(ctx: Context, sku: str) -> object:
    """Count the stock through the fast cache."""
    return desk.shop.get(ctx, "/cache/stock/{sku}", params={"sku": sku})


# --- set: a state that must hold ---


@action(
    kind="set",
    side_effect="low_risk_internal",
    target="order/{requested.order_id}",
    identity=ORDER,
    ensure={
        "shipped": "authoritative.status == 'shipped'",
        "carrier": "authoritative.carrier == requested.carrier",
    },
    readers=[REPLICA, PRIMARY],
    execute={"honours_key": True},  # the shop executes one key once: what is refuted and dead may be tried again
    **SHORT,
)
@overheard
def ship_order(ctx: Context, order_id: str, carrier: str) -> object:
    """Hand an order to a carrier."""
    return desk.shop.post(ctx, "/orders/{id}/ship", params={"id": order_id}, json={"carrier": carrier})


@action(
    kind="set",
    side_effect="low_risk_internal",
    target="order/{requested.order_id}",
    identity=ORDER,
    expected_version="requested.version",  # planned on this version; another actor's change means: plan anew
    ensure={"address": "authoritative.address == requested.address"},
    may_change=["address", *BOOKKEEPING],  # anything else that changes is a hidden side effect
    readers=[CACHE, PRIMARY],
    **SHORT,
)
@overheard
def change_address(ctx: Context, order_id: str, address: str, version: int) -> object:
    """Send an order to another address."""
    body, headers = {"address": address}, {"If-Match": str(version)}
    return desk.shop.patch(ctx, "/orders/{id}", params={"id": order_id}, json=body, headers=headers)


@action(
    kind="set",
    side_effect="low_risk_internal",
    target="order/{requested.order_id}",
    identity=ORDER,
    ensure={"status": "authoritative.status == requested.status"},
    readers=[PRIMARY],
    **LONG,
)
@overheard
def mark_order(ctx: Context, order_id: str, status: str) -> object:
    """Mark an order as open, held or packed."""
    return politely(
        lambda: desk.shop.patch(ctx, "/orders/{id}", params={"id": order_id}, json={"status": status}),
        done=f"Order {order_id} is now {status}.",
    )


@action(
    kind="set",
    side_effect="medium_risk_write",  # from here on, `run` needs an operation: a name for the intent
    target="order/{requested.order_id}",
    identity=ORDER,
    ensure={"cancelled": "authoritative.status == 'cancelled'"},
    readers=[REPLICA, PRIMARY],
    **SHORT,
)
@overheard
def cancel_order(ctx: Context, order_id: str) -> object:
    """Cancel an order before shipment."""
    return in_prose(lambda: desk.shop.post(ctx, "/orders/{id}/cancel", params={"id": order_id}))


ship_order.find(ORDERS_ANYWHERE)
change_address.find(ORDERS_ANYWHERE)
mark_order.find(ORDERS_ANYWHERE)
cancel_order.find(ORDERS_ANYWHERE)

# --- delete: absence, with proof that it would have been seen ---


@action(
    kind="delete",
    side_effect="medium_risk_write",
    target="order/{requested.order_id}",
    identity=ORDER,
    ensure={"gone": "authoritative == null"},
    readers=[PRIMARY],
    within="1s",
    late_window="1s",
)
@overheard
def delete_order(ctx: Context, order_id: str) -> object:
    """Remove a test order."""
    return desk.shop.delete(ctx, "/orders/{id}", params={"id": order_id})


# --- create: a new thing, once, and shown to be ours ---


@action(
    kind="create",
    side_effect="high_risk_external",
    target="order/{requested.order_id}",
    identity={**OF_ORDER, "account": "not_offered"},  # the reading does not say whose card it was
    ensure={
        "captured": "authoritative.status == 'captured'",
        "amount": "authoritative.amount_cents == requested.amount_cents",
        "currency": "authoritative.currency == 'EUR'",
        "key": "authoritative.idempotency_key == scope.idempotency_key",
    },
    fails_when="authoritative.status == 'declined'",  # final: no need to wait for the window to close
    readers=[_ours_in("charges")],
    execute={"honours_key": True},
    **LONG,
)
@overheard
def charge_card(ctx: Context, order_id: str, amount_cents: int) -> object:
    """Charge the card of an order. The shop answers at once, and captures later."""
    body = {"order_id": order_id, "amount_cents": amount_cents, "currency": "EUR"}
    return desk.shop.post(ctx, "/charges", json=body)


# High risk: looked for once more when the window closes, since providers duplicate too.
charge_card.find(_anywhere("SELECT * FROM charges WHERE stamp = ?"))


@charge_card.lookup
def charge_by_key(ctx: Context, order_id: str, amount_cents: int) -> Lookup:
    """The result of the request with our key. Decides after a lost answer."""
    key = {"key": ctx.idempotency_key}
    return desk.records.lookup(ctx, "/keys/{key}", params=key, landed={"done"}, value="/answer")


@action(
    kind="create",
    side_effect="high_risk_external",
    target="charge/{requested.charge_id}",
    identity={**ORDER, "target": "authoritative.charge_id", "account": "not_offered"},
    require={"within the desk's limit": "requested.amount_cents <= scope.budget.refund_cents"},
    ensure={
        "refunded": "authoritative.status == 'refunded'",
        "amount": "authoritative.amount_cents == requested.amount_cents",
    },
    readers=[_ours_in("refunds")],
    **SHORT,
)
@overheard
def refund_charge(ctx: Context, charge_id: str, amount_cents: int) -> object:
    """Refund a part of a charge."""
    return desk.shop.post(ctx, "/refunds", json={"charge_id": charge_id, "amount_cents": amount_cents})


refund_charge.find(_anywhere("SELECT * FROM refunds WHERE stamp = ?"))


@action(
    kind="create",
    side_effect="medium_risk_write",
    target="order/{requested.order_id}",
    identity=OF_ORDER,
    ensure={
        "booked": "authoritative.status == 'booked'",
        "what": "authoritative.sku == requested.sku && authoritative.qty == requested.qty",
        "carrier": "authoritative.carrier == requested.carrier",
    },
    **{**SHORT, "late_window": "60s"},  # carriers answer late: absence at the deadline is not failure, but unknown
)
@overheard
def book_shipment(ctx: Context, order_id: str, carrier: str, sku: str, qty: int) -> object:
    """Book a parcel with a carrier."""
    body = {"order_id": order_id, "carrier": carrier, "sku": sku, "qty": qty}
    return desk.shop.post(ctx, "/shipments", json=body)


@book_shipment.read(source="order-service", consistency="strong", independence="other_client", attributes=True)
def shipment_row(ctx: Context, order_id: str, carrier: str, sku: str, qty: int) -> Reading:
    found = desk.records.all(ctx, "/shipments", query={"order_id": order_id}, complete="/complete", stamp="/stamp")
    return found[0] if found else Reading.absent()


book_shipment.find(_anywhere("SELECT * FROM shipments WHERE stamp = ?"))


# A compensation is an action of its own: it has postconditions, runs once, and is verified like any other. Target,
# class, identity and readers are its action's where it names none.
@book_shipment.compensate(
    kind="set",
    ensure={"cancelled": "authoritative.status == 'cancelled'"},
    **{**SHORT, "within": "1200ms", "late_window": "1200ms"},
)
@overheard
def cancel_shipment(ctx: Context, order_id: str, carrier: str, sku: str, qty: int) -> object:
    """Cancel a booking."""
    booked = desk.shop.get(ctx, "/shipments", query={"order_id": order_id}).json()["items"]
    return desk.shop.post(ctx, "/shipments/{id}/cancel", params={"id": booked[0]["id"]})


# --- append and adjust: an effect that a second one would spoil ---


@action(
    kind="append",
    side_effect="low_risk_internal",
    target="order/{requested.order_id}",
    identity=OF_ORDER,
    ensure={"text": "authoritative.text == requested.text"},
    readers=[_ours_in("notes")],
    **{**SHORT, "within": "1200ms", "late_window": "1200ms"},
)
@overheard
def append_note(ctx: Context, order_id: str, text: str) -> object:
    """Add a note to an order. The shop's notes ignore keys."""
    return blindly_retried(
        lambda: desk.shop.post(ctx, "/orders/{id}/notes", params={"id": order_id}, json={"text": text})
    )


append_note.find(_anywhere("SELECT * FROM notes WHERE stamp = ?"))


@action(
    kind="adjust",
    side_effect="medium_risk_write",
    target="stock/{requested.sku}",
    identity=ORDER,
    ensure={"quantity": "authoritative.qty == before.qty + requested.delta"},  # `before` is read before the call
    readers=[stock_row],
    **SHORT,
)
@overheard
def adjust_stock(ctx: Context, sku: str, delta: int) -> object:
    """Correct the stock by a difference."""
    return desk.shop.post(ctx, "/stock/{sku}/adjust", params={"sku": sku}, json={"delta": delta})


@adjust_stock.find
def adjustments_anywhere(ctx: Context, sku: str, delta: int) -> list[Reading]:
    # The journal, not the row: two adjustments of one row are two effects.
    query, everywhere = {"stamp": ctx.stamp}, {"X-Tenant": "*"}
    return desk.records.all(
        ctx, "/search", query=query, headers=everywhere, items="/changes", value="/row", complete="/complete"
    )


# --- effect groups: several effects of one action, each reconciled ---

FULFILMENT: Final = """
SELECT o.id, o.tenant, o.status, o.carrier, s.id AS shipment, s.qty AS shipped, k.qty AS stock,
       coalesce(s.updated_by, o.updated_by) AS updated_by, coalesce(s.stamp, o.stamp) AS stamp
FROM orders o
JOIN stock k ON k.tenant = o.tenant AND k.id = :sku
LEFT JOIN shipments s ON s.tenant = o.tenant AND s.order_id = o.id AND s.sku = :sku
WHERE o.tenant = :tenant AND o.id = :order
"""


@action(
    kind="set",
    side_effect="medium_risk_write",
    target="order/{requested.order_id}",
    identity=ORDER,
    ensure={
        "shipment": {"booked": "authoritative.shipped == requested.qty"},
        "stock": {"taken out": "authoritative.stock == before.stock - requested.qty"},
        "order": {"packed": "authoritative.status == 'packed' && authoritative.carrier == requested.carrier"},
    },
    **SHORT,
)
@overheard
def fulfil_order(ctx: Context, order_id: str, carrier: str, sku: str, qty: int) -> object:
    """Book the parcel, take the goods out of stock and pack the order: one request, three effects."""
    body = {"carrier": carrier, "sku": sku, "qty": qty}
    return desk.shop.post(ctx, "/orders/{id}/fulfil", params={"id": order_id}, json=body)


@fulfil_order.read(source="order-database", consistency="strong", independence="other_system")
def fulfilment(ctx: Context, order_id: str, carrier: str, sku: str, qty: int) -> Reading:
    # One query, so that the three effects are seen at one moment.
    return desk.database.one(FULFILMENT, {"tenant": ctx.tenant, "order": order_id, "sku": sku}, stamp="stamp")


# --- send: delivered, not merely accepted ---


@action(
    kind="send",
    side_effect="medium_risk_write",
    target="mailbox/{requested.to}",
    identity={
        "target": "authoritative.mailbox",
        "stamp": "authoritative.stamp",
        "tenant": "not_offered",
        "actor": "not_offered",
    },
    ensure={
        "subject": "authoritative.subject == requested.subject",
        "text": "authoritative.body_sha256 == sha256(requested.text)",
    },
    proves="delivered",
    redact=["requested.text"],  # the ledger keeps no copy of what was written to a customer
    within="3s",
    polls=("0s", "200ms", "400ms", "800ms"),
    late_window="3s",
)
@overheard
def send_mail(ctx: Context, to: str, subject: str, text: str) -> object:
    """Write to a customer."""
    return desk.post.send(ctx, sender="shop@acme.example", to=[to], subject=subject, text=text, stamp_header="X-Stamp")


@send_mail.read(source="mailboxes", consistency="strong", independence="other_system", attributes=True)
def delivered_mail(ctx: Context, to: str, subject: str, text: str) -> Reading:
    return desk.mailboxes[to].by_stamp(ctx, header="X-Stamp")


@send_mail.find
def mails_anywhere(ctx: Context, to: str, subject: str, text: str) -> list[Reading]:
    return [found for box in desk.mailboxes.values() for found in box.find(ctx, header="X-Stamp")]


# --- staged: verified before it counts ---


@action(
    kind="set",
    side_effect="ephemeral_write",
    target="file/{requested.path}",
    ensure={"the bytes": "authoritative.sha256 == sha256(requested.text)"},
)
@overheard
def write_file(ctx: Context, path: str, text: str) -> object:
    """Write a file into the work folder, beside the target until verified."""
    return desk.folder.stage(ctx, path, text, parents=True)


@write_file.read(source="work-folder", consistency="strong", independence="other_client")
def file_there(ctx: Context, path: str, text: str) -> Reading:
    return desk.files.stat(path)


ENTRY: Final = "SELECT * FROM daybook WHERE tenant = ? AND order_id = ?"


@action(
    kind="set",
    side_effect="low_risk_internal",
    target="order/{requested.order_id}",
    identity={
        "target": "authoritative.order_id",
        "tenant": "authoritative.tenant",
        "stamp": "authoritative.stamp",
    },
    ensure={"amount": "authoritative.cents == requested.cents"},
    within="1s",
    late_window="0s",  # a transaction of our own: when it has ended, nothing can still land
)
@overheard
def enter_in_daybook(ctx: Context, order_id: str, cents: int) -> object:
    """Enter an order into the daybook. Returns an open transaction; Readback commits or rolls back."""
    with desk.daybook.staged(ctx) as entry:
        # "OR IGNORE" keeps a refused row from being an error. It keeps it from being noticed, too.
        sql = "INSERT OR IGNORE INTO daybook VALUES (?, ?, ?, ?)"
        entry.execute(sql, [ctx.tenant, order_id, cents, ctx.stamp])
        entry.look(ENTRY, [ctx.tenant, order_id], stamp="stamp")
        return entry


@enter_in_daybook.read(source="daybook", consistency="strong", independence="other_client")
def daybook_entry(ctx: Context, order_id: str, cents: int) -> Reading:
    return desk.daybook_rows.one(ENTRY, [ctx.tenant, order_id], stamp="stamp")


# --- unverifiable: said so, and never told as done ---


@action(
    kind="send",
    side_effect="low_risk_internal",
    target="pager/{requested.team}",
    ensure={"received": "authoritative.received"},
    unverifiable="The pager company offers no way to ask what became of a message.",
)
@overheard
def page_team(ctx: Context, team: str, text: str) -> object:
    """Page a team. The gateway accepts every message, and no reading can confirm delivery."""
    return {"status": "sent", "team": team}
