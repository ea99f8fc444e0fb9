"""The order desk's contracts: each action, its postconditions, and its readers.

Read from the top to learn the SDK; `contracts_office` continues with mail, files and the daybook. An action is a
function of a Context and arguments. The returned value is evidence. The readers ask a system of record through a
separate path. The postconditions under `ensure` judge these readings, never the answer.

The functions act through `desk.shop` and read through `desk.records` and `desk.database`. `late_window` is the time
within which an effect may still land. The windows are short, to keep the demo short.
"""

from __future__ import annotations

from typing import Final

from readback import Context, Lookup, Reading, action
from readback.demo.desk import desk
from readback.demo.overheard import overheard
from readback.demo.wrappers import blindly_retried, in_prose, politely

POLLS: Final = ("0s", "150ms", "300ms", "600ms")

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


def _order(ctx: Context, order_id: str, view: str = "") -> Reading:
    """One order from the service: from the primary, or from a lagging view."""
    path = view + "/orders/{id}"
    return desk.records.get(ctx, path, params={"id": order_id}, version="/version", stamp="/stamp")


def _stamped(ctx: Context, table: str) -> list[Reading]:
    """Every row with our stamp, of all tenants, to find each effect of ours, also in a wrong place."""
    queries = {
        "orders": "SELECT * FROM orders WHERE stamp = ?",
        "charges": "SELECT * FROM charges WHERE stamp = ?",
        "refunds": "SELECT * FROM refunds WHERE stamp = ?",
        "shipments": "SELECT * FROM shipments WHERE stamp = ?",
        "notes": "SELECT * FROM notes WHERE stamp = ?",
    }
    return desk.database.all(queries[table], [ctx.stamp], stamp="stamp")


def _first(found: list[Reading]) -> Reading:
    """The object in a complete list, or absence."""
    return found[0] if found else Reading.absent()


# --- read: even an answer is checked --------------------------------------------------------------------------


@action(
    kind="read",
    side_effect="read_only",
    target="stock/{requested.sku}",
    identity={"target": "authoritative.id", "tenant": "authoritative.tenant"},
    ensure={"the answer is right": "authoritative.qty == observed.qty"},
    tell=["qty"],  # the only value that may reach the model, as data
    within="1s",
)
@overheard
def check_stock(ctx: Context, sku: str) -> object:
    """Count the stock through the fast cache."""
    return desk.shop.get(ctx, "/cache/stock/{sku}", params={"sku": sku})


@check_stock.read(source="order-service", consistency="strong", independence="other_client")
def stock_row(ctx: Context, sku: str) -> Reading:
    return desk.records.get(ctx, "/stock/{sku}", params={"sku": sku}, version="/version", stamp="/stamp")


# --- set: a state that must hold ------------------------------------------------------------------------------


@action(
    kind="set",
    side_effect="low_risk_internal",
    target="order/{requested.order_id}",
    identity=ORDER,
    ensure={
        "shipped": "authoritative.status == 'shipped'",
        "carrier": "authoritative.carrier == requested.carrier",
    },
    execute={"honours_key": True},  # the shop executes one key once: what is refuted and dead may be tried again
    within="1500ms",
    polls=POLLS,
    late_window="1500ms",
)
@overheard
def ship_order(ctx: Context, order_id: str, carrier: str) -> object:
    """Hand an order to a carrier."""
    return desk.shop.post(ctx, "/orders/{id}/ship", params={"id": order_id}, json={"carrier": carrier})


# Two readers: the near one is asked first, and settles nothing that the class does not allow it to settle. Then the
# strong one is asked.
@ship_order.read(source="order-replica", consistency="replica", independence="other_client")
def shipped_in_replica(ctx: Context, order_id: str, carrier: str) -> Reading:
    return _order(ctx, order_id, "/replica")


@ship_order.read(source="order-service", consistency="strong", independence="other_client")
def shipped_in_primary(ctx: Context, order_id: str, carrier: str) -> Reading:
    return _order(ctx, order_id)


@ship_order.find
def shipped_anywhere(ctx: Context, order_id: str, carrier: str) -> list[Reading]:
    return _stamped(ctx, "orders")


@action(
    kind="set",
    side_effect="low_risk_internal",
    target="order/{requested.order_id}",
    identity=ORDER,
    expected_version="requested.version",  # planned on this version; another actor's change means: plan anew
    ensure={"address": "authoritative.address == requested.address"},
    may_change=["address", *BOOKKEEPING],  # anything else that changes is a hidden side effect
    within="1500ms",
    polls=POLLS,
    late_window="1500ms",
)
@overheard
def change_address(ctx: Context, order_id: str, address: str, version: int) -> object:
    """Send an order to another address."""
    body, headers = {"address": address}, {"If-Match": str(version)}
    return desk.shop.patch(ctx, "/orders/{id}", params={"id": order_id}, json=body, headers=headers)


@change_address.read(source="order-cache", consistency="cached", independence="other_client")
def address_in_cache(ctx: Context, order_id: str, address: str, version: int) -> Reading:
    return _order(ctx, order_id, "/cache")


@change_address.read(source="order-service", consistency="strong", independence="other_client")
def address_in_primary(ctx: Context, order_id: str, address: str, version: int) -> Reading:
    return _order(ctx, order_id)


@change_address.find
def address_anywhere(ctx: Context, order_id: str, address: str, version: int) -> list[Reading]:
    return _stamped(ctx, "orders")


@action(
    kind="set",
    side_effect="low_risk_internal",
    target="order/{requested.order_id}",
    identity=ORDER,
    ensure={"status": "authoritative.status == requested.status"},
    within="2s",
    polls=POLLS,
    late_window="2s",
)
@overheard
def mark_order(ctx: Context, order_id: str, status: str) -> object:
    """Mark an order as open, held or packed."""
    return politely(
        lambda: desk.shop.patch(ctx, "/orders/{id}", params={"id": order_id}, json={"status": status}),
        done=f"Order {order_id} is now {status}.",
    )


@mark_order.read(source="order-service", consistency="strong", independence="other_client")
def marked_row(ctx: Context, order_id: str, status: str) -> Reading:
    return _order(ctx, order_id)


@mark_order.find
def marked_anywhere(ctx: Context, order_id: str, status: str) -> list[Reading]:
    return _stamped(ctx, "orders")


@action(
    kind="set",
    side_effect="medium_risk_write",  # from here on, `run` needs an operation: a name for the intent
    target="order/{requested.order_id}",
    identity=ORDER,
    ensure={"cancelled": "authoritative.status == 'cancelled'"},
    within="1500ms",
    polls=POLLS,
    late_window="1500ms",
)
@overheard
def cancel_order(ctx: Context, order_id: str) -> object:
    """Cancel an order before shipment."""
    return in_prose(lambda: desk.shop.post(ctx, "/orders/{id}/cancel", params={"id": order_id}))


@cancel_order.read(source="order-replica", consistency="replica", independence="other_client")
def cancelled_in_replica(ctx: Context, order_id: str) -> Reading:
    return _order(ctx, order_id, "/replica")


@cancel_order.read(source="order-service", consistency="strong", independence="other_client")
def cancelled_in_primary(ctx: Context, order_id: str) -> Reading:
    return _order(ctx, order_id)


@cancel_order.find
def cancelled_anywhere(ctx: Context, order_id: str) -> list[Reading]:
    return _stamped(ctx, "orders")


# --- delete: absence, with proof that it would have been seen -------------------------------------------------


@action(
    kind="delete",
    side_effect="medium_risk_write",
    target="order/{requested.order_id}",
    identity=ORDER,
    ensure={"gone": "authoritative == null"},
    within="1s",
    late_window="1s",
)
@overheard
def delete_order(ctx: Context, order_id: str) -> object:
    """Remove a test order."""
    return desk.shop.delete(ctx, "/orders/{id}", params={"id": order_id})


@delete_order.read(source="order-service", consistency="strong", independence="other_client")
def deleted_row(ctx: Context, order_id: str) -> Reading:
    return _order(ctx, order_id)


# --- create: a new thing, once, and shown to be ours ----------------------------------------------------------


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
    execute={"honours_key": True},
    within="2s",
    polls=POLLS,
    late_window="2s",
)
@overheard
def charge_card(ctx: Context, order_id: str, amount_cents: int) -> object:
    """Charge the card of an order. The shop answers at once, and captures later."""
    body = {"order_id": order_id, "amount_cents": amount_cents, "currency": "EUR"}
    return desk.shop.post(ctx, "/charges", json=body)


@charge_card.read(source="order-service", consistency="strong", independence="other_client", attributes=True)
def charge_row(ctx: Context, order_id: str, amount_cents: int) -> Reading:
    # By the stamp, not by the id in the answer: there may be no answer.
    return _first(desk.records.all(ctx, "/charges", query={"stamp": ctx.stamp}, complete="/complete", stamp="/stamp"))


@charge_card.find  # high risk: looked for once more when the window closes, since providers duplicate too
def charges_anywhere(ctx: Context, order_id: str, amount_cents: int) -> list[Reading]:
    return _stamped(ctx, "charges")


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
    within="1500ms",
    polls=POLLS,
    late_window="1500ms",
)
@overheard
def refund_charge(ctx: Context, charge_id: str, amount_cents: int) -> object:
    """Refund a part of a charge."""
    return desk.shop.post(ctx, "/refunds", json={"charge_id": charge_id, "amount_cents": amount_cents})


@refund_charge.read(source="order-service", consistency="strong", independence="other_client", attributes=True)
def refund_row(ctx: Context, charge_id: str, amount_cents: int) -> Reading:
    return _first(desk.records.all(ctx, "/refunds", query={"stamp": ctx.stamp}, complete="/complete", stamp="/stamp"))


@refund_charge.find
def refunds_anywhere(ctx: Context, charge_id: str, amount_cents: int) -> list[Reading]:
    return _stamped(ctx, "refunds")


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
    within="1500ms",
    polls=POLLS,
    late_window="60s",  # carriers answer late: absence at the deadline is not failure, but unknown
)
@overheard
def book_shipment(ctx: Context, order_id: str, carrier: str, sku: str, qty: int) -> object:
    """Book a parcel with a carrier."""
    body = {"order_id": order_id, "carrier": carrier, "sku": sku, "qty": qty}
    return desk.shop.post(ctx, "/shipments", json=body)


@book_shipment.read(source="order-service", consistency="strong", independence="other_client", attributes=True)
def shipment_row(ctx: Context, order_id: str, carrier: str, sku: str, qty: int) -> Reading:
    found = desk.records.all(ctx, "/shipments", query={"order_id": order_id}, complete="/complete", stamp="/stamp")
    return _first(found)


@book_shipment.find
def shipments_anywhere(ctx: Context, order_id: str, carrier: str, sku: str, qty: int) -> list[Reading]:
    return _stamped(ctx, "shipments")


# A compensation is an action of its own: it has postconditions, runs once, and is verified like any other. Target,
# class, identity and readers are its action's where it names none.
@book_shipment.compensate(
    kind="set",
    ensure={"cancelled": "authoritative.status == 'cancelled'"},
    within="1200ms",
    polls=POLLS,
    late_window="1200ms",
)
@overheard
def cancel_shipment(ctx: Context, order_id: str, carrier: str, sku: str, qty: int) -> object:
    """Cancel a booking."""
    booked = desk.shop.get(ctx, "/shipments", query={"order_id": order_id}).json()["items"]
    return desk.shop.post(ctx, "/shipments/{id}/cancel", params={"id": booked[0]["id"]})


# --- append and adjust: an effect that a second one would spoil -----------------------------------------------


@action(
    kind="append",
    side_effect="low_risk_internal",
    target="order/{requested.order_id}",
    identity=OF_ORDER,
    ensure={"text": "authoritative.text == requested.text"},
    within="1200ms",
    polls=POLLS,
    late_window="1200ms",
)
@overheard
def append_note(ctx: Context, order_id: str, text: str) -> object:
    """Add a note to an order. The shop's notes ignore keys."""
    return blindly_retried(
        lambda: desk.shop.post(ctx, "/orders/{id}/notes", params={"id": order_id}, json={"text": text})
    )


@append_note.read(source="order-service", consistency="strong", independence="other_client", attributes=True)
def note_row(ctx: Context, order_id: str, text: str) -> Reading:
    return _first(desk.records.all(ctx, "/notes", query={"stamp": ctx.stamp}, complete="/complete", stamp="/stamp"))


@append_note.find
def notes_anywhere(ctx: Context, order_id: str, text: str) -> list[Reading]:
    return _stamped(ctx, "notes")


@action(
    kind="adjust",
    side_effect="medium_risk_write",
    target="stock/{requested.sku}",
    identity=ORDER,
    ensure={"quantity": "authoritative.qty == before.qty + requested.delta"},  # `before` is read before the call
    within="1500ms",
    polls=POLLS,
    late_window="1500ms",
)
@overheard
def adjust_stock(ctx: Context, sku: str, delta: int) -> object:
    """Correct the stock by a difference."""
    return desk.shop.post(ctx, "/stock/{sku}/adjust", params={"sku": sku}, json={"delta": delta})


@adjust_stock.read(source="order-service", consistency="strong", independence="other_client", attributes=True)
def adjusted_row(ctx: Context, sku: str, delta: int) -> Reading:
    return desk.records.get(ctx, "/stock/{sku}", params={"sku": sku}, version="/version", stamp="/stamp")


@adjust_stock.find
def adjustments_anywhere(ctx: Context, sku: str, delta: int) -> list[Reading]:
    # The journal, not the row: two adjustments of one row are two effects.
    query, everywhere = {"stamp": ctx.stamp}, {"X-Tenant": "*"}
    return desk.records.all(
        ctx, "/search", query=query, headers=everywhere, items="/changes", value="/row", complete="/complete"
    )


# --- effect groups: several effects of one action, each reconciled --------------------------------------------

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
    within="1500ms",
    polls=POLLS,
    late_window="1500ms",
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
