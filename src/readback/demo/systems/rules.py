"""The order service's business rules for each request, without HTTP and without faults.

`orders` calls the rules inside a transaction. A rule returns the honest answer, or raises `Refusal`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from readback.demo.systems.faults import now_us
from readback.demo.systems.store import TENANTS, Row, Store, Write

CARRIERS = frozenset({"dhl", "ups", "fedex"})
CURRENCIES = frozenset({"EUR", "USD"})
STATUSES = frozenset({"open", "held", "packed", "shipped", "delivered", "cancelled"})
EDITABLE = frozenset({"status", "carrier", "address", "note", "amount_cents", "currency"})


class Refusal(Exception):
    """The service refuses; nothing was written."""

    def __init__(self, code: int, error: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.body: Row = {"error": error, "message": message}


@dataclass(frozen=True, slots=True)
class Call:
    """One mutating request: `body` is the request, `write` the write to the database.

    `keep` selects parts of a request: None all, empty the first, else the named parts. `ends_as`: state of a charge
    after capture; another word for a later refusal, None for never.
    """

    write: Write
    target: str
    body: Mapping[str, Any]
    if_match: int | None = None
    keep: frozenset[str] | None = None
    capture_ms: int = 250
    ends_as: str | None = "captured"

    def parts(self, names: list[str]) -> list[str]:
        """The parts to execute."""
        if self.keep is None:
            return names
        return [name for name in names if name in self.keep] if self.keep else names[:1]

    def text(self, name: str) -> str:
        value = self.body.get(name)
        if not isinstance(value, str) or not value:
            raise Refusal(422, "invalid", f"{name} must be a non-empty text")
        return value

    def one_of(self, name: str, allowed: frozenset[str]) -> str:
        if (value := self.text(name)) not in allowed:
            raise Refusal(422, "invalid", f"{name} must be one of {sorted(allowed)}, not {value!r}")
        return value

    def whole(self, name: str) -> int:
        value = self.body.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise Refusal(422, "invalid", f"{name} must be a whole number")
        return value

    def amount(self) -> int:
        if (cents := self.whole("amount_cents")) <= 0:
            raise Refusal(422, "invalid", "amount_cents must be above zero")
        return cents


@dataclass(frozen=True, slots=True)
class Answer:
    """The service's answer, and the first written resource."""

    code: int
    body: Row
    resource: str


def _existing(store: Store, call: Call, resource: str, row_id: str) -> Row:
    row = store.get(call.write.tenant, resource, row_id)
    if row is None:
        raise Refusal(404, "not_found", f"no {resource} {row_id} here")
    if call.if_match is not None and call.if_match != row["version"]:
        raise Refusal(412, "version_mismatch", f"version is {row['version']}, not {call.if_match}")
    return row


def create_order(store: Store, call: Call) -> Answer:
    row_id = str(call.body.get("id") or store.next_id("orders"))
    if store.get(call.write.tenant, "orders", row_id):
        raise Refusal(409, "exists", f"order {row_id} exists already")
    values = {"status": "open", "carrier": None, "note": "", "address": call.text("address"),
              "amount_cents": call.amount(), "currency": call.one_of("currency", CURRENCIES)}  # fmt: skip
    return Answer(201, store.put(call.write, "orders", row_id, values), "orders")


def change_order(store: Store, call: Call) -> Answer:
    if not call.body or call.body.keys() - EDITABLE:
        raise Refusal(422, "invalid", f"only {sorted(EDITABLE)} can be changed")
    row = _existing(store, call, "orders", call.target)
    if "status" in call.body:
        call.one_of("status", STATUSES)
    if "carrier" in call.body:
        call.one_of("carrier", CARRIERS)
    return Answer(200, store.put(call.write, "orders", row["id"], call.body), "orders")


def ship_order(store: Store, call: Call) -> Answer:
    carrier = call.one_of("carrier", CARRIERS)
    row = _existing(store, call, "orders", call.target)
    if row["status"] not in ("open", "packed"):
        raise Refusal(409, "wrong_status", f"order {row['id']} is {row['status']}")
    return Answer(200, store.put(call.write, "orders", row["id"], {"status": "shipped", "carrier": carrier}), "orders")


def cancel_order(store: Store, call: Call) -> Answer:
    row = _existing(store, call, "orders", call.target)
    if row["status"] in ("shipped", "delivered"):
        raise Refusal(409, "wrong_status", f"order {row['id']} is {row['status']}")
    return Answer(200, store.put(call.write, "orders", row["id"], {"status": "cancelled"}), "orders")


def delete_order(store: Store, call: Call) -> Answer:
    row = _existing(store, call, "orders", call.target)
    store.delete(call.write, "orders", row["id"])
    return Answer(200, {"id": row["id"], "deleted": True}, "orders")


def append_note(store: Store, call: Call) -> Answer:
    order = _existing(store, replace(call, if_match=None), "orders", call.target)
    values = {"order_id": order["id"], "text": call.text("text")}
    return Answer(201, store.put(call.write, "notes", store.next_id("notes"), values), "notes")


def fulfil_order(store: Store, call: Call) -> Answer:
    """Create a shipment, take stock out, pack the order: one request, three effects."""
    carrier, sku, qty = call.one_of("carrier", CARRIERS), call.text("sku"), call.whole("qty")
    order = _existing(store, call, "orders", call.target)
    stock = _existing(store, replace(call, if_match=None), "stock", sku)
    if not 0 < qty <= stock["qty"]:
        raise Refusal(409, "out_of_stock", f"{qty} of {sku} asked, {stock['qty']} there")
    done: Row = {}
    for part in call.parts(["shipment", "stock", "order"]):
        match part:
            case "shipment":
                values = {"order_id": order["id"], "carrier": carrier, "sku": sku, "qty": qty,
                          "status": "booked"}  # fmt: skip
                done[part] = store.put(call.write, "shipments", store.next_id("shipments"), values)
            case "stock":
                done[part] = store.put(call.write, "stock", sku, {"qty": stock["qty"] - qty})
            case _:
                values = {"status": "packed", "carrier": carrier}
                done[part] = store.put(call.write, "orders", order["id"], values)
    return Answer(200, {"status": "ok", "id": order["id"], **done}, "orders")


def change_many(store: Store, call: Call) -> Answer:
    """Make the same change to several orders. All must exist."""
    ids, values = call.body.get("ids"), call.body.get("set")
    if not isinstance(ids, list) or not ids or not isinstance(values, dict):
        raise Refusal(422, "invalid", "ids must be a list and set an object")
    for row_id in ids:
        _existing(store, call, "orders", row_id)
    for row_id in call.parts(ids):
        change_order(store, replace(call, target=row_id, body=values))
    return Answer(200, {"status": "ok", "changed": ids}, "orders")


def create_shipment(store: Store, call: Call) -> Answer:
    order = _existing(store, replace(call, if_match=None), "orders", call.text("order_id"))
    values = {"order_id": order["id"], "carrier": call.one_of("carrier", CARRIERS), "sku": call.text("sku"),
              "qty": call.whole("qty"), "status": "booked"}  # fmt: skip
    return Answer(201, store.put(call.write, "shipments", store.next_id("shipments"), values), "shipments")


def cancel_shipment(store: Store, call: Call) -> Answer:
    row = _existing(store, call, "shipments", call.target)
    return Answer(200, store.put(call.write, "shipments", row["id"], {"status": "cancelled"}), "shipments")


def create_charge(store: Store, call: Call) -> Answer:
    """Charge an order: answer 202 `queued`, and capture a moment later."""
    order = _existing(store, replace(call, if_match=None), "orders", call.text("order_id"))
    values = {"order_id": order["id"], "amount_cents": call.amount(), "status": "queued", "refunded_cents": 0,
              "currency": call.one_of("currency", CURRENCIES), "idempotency_key": call.write.key}  # fmt: skip
    row = store.put(call.write, "charges", store.next_id("charges"), values)
    if call.ends_as:
        store.settle_at(row["tenant"], row["id"], now_us() + call.capture_ms * 1_000, call.ends_as)
    return Answer(202, row, "charges")


def void_charge(store: Store, call: Call) -> Answer:
    row = _existing(store, call, "charges", call.target)
    if row["refunded_cents"]:
        raise Refusal(409, "wrong_status", f"charge {row['id']} is refunded in part")
    return Answer(200, store.put(call.write, "charges", row["id"], {"status": "voided"}), "charges")


def create_refund(store: Store, call: Call) -> Answer:
    charge = _existing(store, replace(call, if_match=None), "charges", call.text("charge_id"))
    cents = call.amount()
    if charge["status"] != "captured":
        raise Refusal(409, "wrong_status", f"charge {charge['id']} is {charge['status']}")
    if charge["refunded_cents"] + cents > charge["amount_cents"]:
        raise Refusal(409, "too_much", f"charge {charge['id']} has no {cents} cents left to refund")
    values = {"charge_id": charge["id"], "amount_cents": cents, "currency": charge["currency"],
              "status": "refunded", "idempotency_key": call.write.key}  # fmt: skip
    row = store.put(call.write, "refunds", store.next_id("refunds"), values)
    # The sum follows what was really written, so that the charge stays the sum of its refunds.
    plain = replace(call.write, override={})
    total = charge["refunded_cents"] + row["amount_cents"]
    store.put(plain, "charges", charge["id"], {"refunded_cents": total})
    return Answer(201, row, "refunds")


def adjust_stock(store: Store, call: Call) -> Answer:
    delta, row = call.whole("delta"), _existing(store, call, "stock", call.target)
    if row["qty"] + delta < 0:
        raise Refusal(409, "out_of_stock", f"{row['qty']} of {row['id']} there")
    return Answer(200, store.put(call.write, "stock", row["id"], {"qty": row["qty"] + delta}), "stock")


def settle_charges(store: Store) -> None:
    """Capture or decline due charges, a moment after each charge."""
    with store.transaction():
        for due in store.take_settlements():
            row = store.get(due["tenant"], "charges", due["charge_id"])
            if row and row["status"] == "queued":
                write = Write(row["tenant"], "payments", row["stamp"], row["idempotency_key"], "settle")
                store.put(write, "charges", row["id"], {"status": due["ends_as"]})


@dataclass(frozen=True, slots=True)
class Route:
    """A mutating endpoint. `honours_key`: a repeated Idempotency-Key has no second effect."""

    method: str
    pattern: re.Pattern[str]
    rule: Callable[[Store, Call], Answer]
    honours_key: bool


def _route(method: str, path: str, rule: Callable[[Store, Call], Answer], *, honours_key: bool = True) -> Route:
    return Route(method, re.compile(path.replace("{id}", "(?P<id>[^/]+)") + "$"), rule, honours_key)


ROUTES = (
    _route("POST", "/orders", create_order),
    _route("PATCH", "/orders/{id}", change_order),
    _route("DELETE", "/orders/{id}", delete_order),
    _route("POST", "/orders/{id}/ship", ship_order),
    _route("POST", "/orders/{id}/cancel", cancel_order),
    _route("POST", "/orders/{id}/fulfil", fulfil_order),
    _route("POST", "/orders/{id}/notes", append_note, honours_key=False),
    _route("POST", "/batch", change_many),
    _route("POST", "/shipments", create_shipment),
    _route("POST", "/shipments/{id}/cancel", cancel_shipment),
    _route("POST", "/charges", create_charge),
    _route("POST", "/charges/{id}/void", void_charge),
    _route("POST", "/refunds", create_refund),
    _route("POST", "/stock/{id}/adjust", adjust_stock),
)


def seed(store: Store) -> None:
    """The shop's data in the morning: the same order numbers in both tenants, and some stock."""
    with store.transaction():
        for tenant, street in zip(TENANTS, ("Harbour Road", "Mill Lane"), strict=True):
            write = Write(tenant, "seed", op="seed")
            for number in range(1, 41):
                values = {"status": "open", "carrier": None, "address": f"{number} {street}", "note": "",
                          "amount_cents": 1_000 + 125 * number, "currency": "EUR"}  # fmt: skip
                store.put(write, "orders", f"o-{number}", values)
            for sku in ("kettle", "lamp", "mug", "chair"):
                store.put(write, "stock", f"sku-{sku}", {"qty": 100})
