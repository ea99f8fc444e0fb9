"""The business rules of the order service and of a trip's providers, without HTTP and without faults.

`service` calls a rule inside a transaction. A rule returns the honest answer, or raises `Refusal`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from readback.demo.systems.store import TENANTS, Row, Store, Write

CARRIERS = ("dhl", "fedex", "ups")
STATUSES = ("cancelled", "delivered", "held", "open", "packed", "shipped")
EDITABLE = ("address", "amount_cents", "carrier", "currency", "note", "status")
CAPTURE_MS = 250
"""How long after the answer a charge is captured."""


class Refusal(Exception):
    """The service refuses; nothing was written."""

    def __init__(self, code: int, error: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.body: Row = {"error": error, "message": message}


@dataclass(frozen=True, slots=True)
class Call:
    """One mutating request: `body` is the request, `write` the write to the database.

    `keep` selects parts of a request: None all, empty the first, else the named parts. `ends_as`: the state of a charge
    after capture.
    """

    write: Write
    target: str
    body: Mapping[str, Any]
    if_match: int | None = None
    keep: tuple[str, ...] | None = None
    ends_as: str = "captured"

    def parts(self, names: list[str]) -> list[str]:
        """The parts to execute."""
        if self.keep is None:
            return names
        return [name for name in names if name in self.keep] if self.keep else names[:1]

    def text(self, name: str, allowed: tuple[str, ...] = ()) -> str:
        value = self.body.get(name)
        if not isinstance(value, str) or not value or (allowed and value not in allowed):
            raise Refusal(422, "invalid", f"{name} must be {f'one of {[*allowed]}' if allowed else 'a text'}")
        return value

    def whole(self, name: str, *, above: int | None = None) -> int:
        value = self.body.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or (above is not None and value <= above):
            raise Refusal(422, "invalid", f"{name} must be a whole number{'' if above is None else f' above {above}'}")
        return value


@dataclass(frozen=True, slots=True)
class Answer:
    """The service's answer, and the first written table."""

    code: int
    body: Row
    resource: str


def _existing(store: Store, call: Call, table: str, row_id: str, *, versioned: bool = False) -> Row:
    row = store.get(call.write.tenant, table, row_id)
    if row is None:
        raise Refusal(404, "not_found", f"no {table} {row_id} here")
    if versioned and call.if_match is not None and call.if_match != row["version"]:
        raise Refusal(412, "version_mismatch", f"version is {row['version']}, not {call.if_match}")
    return row


def _changed(store: Store, call: Call, table: str, row_id: str, values: Mapping[str, Any]) -> Answer:
    return Answer(200, store.put(call.write, table, row_id, values), table)


def _made(store: Store, call: Call, table: str, prefix: str, values: Row, code: int = 201) -> Answer:
    return Answer(code, store.put(call.write, table, store.next_id(table, prefix), values), table)


def change_order(store: Store, call: Call) -> Answer:
    if not call.body or any(name not in EDITABLE for name in call.body):
        raise Refusal(422, "invalid", f"only {[*EDITABLE]} can be changed")
    row = _existing(store, call, "orders", call.target, versioned=True)
    for name, allowed in (("status", STATUSES), ("carrier", CARRIERS)):
        if name in call.body:
            call.text(name, allowed)
    return _changed(store, call, "orders", row["id"], call.body)


def _order_that_is(store: Store, call: Call, *statuses: str) -> Row:
    row = _existing(store, call, "orders", call.target, versioned=True)
    if row["status"] not in statuses:
        raise Refusal(409, "wrong_status", f"order {row['id']} is {row['status']}")
    return row


def ship_order(store: Store, call: Call) -> Answer:
    carrier = call.text("carrier", CARRIERS)
    row = _order_that_is(store, call, "open", "packed")
    return _changed(store, call, "orders", row["id"], {"status": "shipped", "carrier": carrier})


def cancel_order(store: Store, call: Call) -> Answer:
    row = _order_that_is(store, call, "cancelled", "held", "open", "packed")
    return _changed(store, call, "orders", row["id"], {"status": "cancelled"})


def delete_order(store: Store, call: Call) -> Answer:
    row = _existing(store, call, "orders", call.target, versioned=True)
    store.delete(call.write, "orders", row["id"])
    return Answer(200, {"id": row["id"], "deleted": True}, "orders")


def append_note(store: Store, call: Call) -> Answer:
    order = _existing(store, call, "orders", call.target)
    return _made(store, call, "notes", "n", {"order_id": order["id"], "text": call.text("text")})


def fulfil_order(store: Store, call: Call) -> Answer:
    """Create a shipment, take stock out, pack the order: one request, three effects."""
    carrier, sku, qty = call.text("carrier", CARRIERS), call.text("sku"), call.whole("qty", above=0)
    order = _existing(store, call, "orders", call.target)
    stock = _existing(store, call, "stock", sku)
    if qty > stock["qty"]:
        raise Refusal(409, "out_of_stock", f"{qty} of {sku} asked, {stock['qty']} there")
    parcel = {"order_id": order["id"], "carrier": carrier, "sku": sku, "qty": qty, "status": "booked"}
    effects: dict[str, Callable[[], Answer]] = {
        "shipment": lambda: _made(store, call, "shipments", "s", parcel),
        "stock": lambda: _changed(store, call, "stock", sku, {"qty": stock["qty"] - qty}),
        "order": lambda: _changed(store, call, "orders", order["id"], {"status": "packed", "carrier": carrier}),
    }
    done = {part: effects[part]().body for part in call.parts([*effects])}
    return Answer(200, {"status": "ok", "id": order["id"], **done}, "orders")


def create_shipment(store: Store, call: Call) -> Answer:
    order = _existing(store, call, "orders", call.text("order_id"))
    values = {"order_id": order["id"], "carrier": call.text("carrier", CARRIERS), "sku": call.text("sku"),
              "qty": call.whole("qty"), "status": "booked"}  # fmt: skip
    return _made(store, call, "shipments", "s", values)


def cancel_shipment(store: Store, call: Call) -> Answer:
    row = _existing(store, call, "shipments", call.target)
    return _changed(store, call, "shipments", row["id"], {"status": "cancelled"})


def create_charge(store: Store, call: Call) -> Answer:
    """Charge an order: answer 202 `queued`, and capture a moment later."""
    order = _existing(store, call, "orders", call.text("order_id"))
    values = {"order_id": order["id"], "amount_cents": call.whole("amount_cents", above=0), "status": "queued",
              "refunded_cents": 0, "currency": call.text("currency"), "idempotency_key": call.write.key}  # fmt: skip
    return _made(store, call, "charges", "ch", values, 202)


def settle_charge(store: Store, charge: Row, ends_as: str) -> None:
    """Capture or decline a queued charge."""
    write = Write(charge["tenant"], "payments", charge["stamp"], charge["idempotency_key"], "settle")
    with store.transaction():
        store.put(write, "charges", charge["id"], {"status": ends_as})


def create_refund(store: Store, call: Call) -> Answer:
    charge = _existing(store, call, "charges", call.text("charge_id"))
    cents = call.whole("amount_cents", above=0)
    if charge["status"] != "captured":
        raise Refusal(409, "wrong_status", f"charge {charge['id']} is {charge['status']}")
    if charge["refunded_cents"] + cents > charge["amount_cents"]:
        raise Refusal(409, "too_much", f"charge {charge['id']} has no {cents} cents left to refund")
    values = {"charge_id": charge["id"], "amount_cents": cents, "currency": charge["currency"],
              "status": "refunded", "idempotency_key": call.write.key}  # fmt: skip
    made = _made(store, call, "refunds", "re", values)
    total = charge["refunded_cents"] + made.body["amount_cents"]
    store.put(replace(call.write, override={}), "charges", charge["id"], {"refunded_cents": total})
    return made


def adjust_stock(store: Store, call: Call) -> Answer:
    delta, row = call.whole("delta"), _existing(store, call, "stock", call.target)
    if row["qty"] + delta < 0:
        raise Refusal(409, "out_of_stock", f"{row['qty']} of {row['id']} there")
    return _changed(store, call, "stock", row["id"], {"qty": row["qty"] + delta})


# ---- a trip's providers: an entry is made once and may be taken back once


@dataclass(frozen=True, slots=True)
class Trade:
    """A provider's words. `honours_key`: one key makes one entry. Every provider honours the key of a reversal.

    `cents`: the price, where the request does not name one.
    """

    prefix: str
    made: str
    undone: str
    undo: str
    honours_key: bool = False
    cents: int | None = None


TRADES: Final[Mapping[str, Trade]] = {
    "flights": Trade("fl", "held", "released", "release", cents=24_000),
    "hotel": Trade("ho", "booked", "cancelled", "cancel", cents=31_500),
    "car": Trade("ca", "reserved", "cancelled", "cancel", cents=9_900),
    "payments": Trade("pa", "charged", "refunded", "refund", honours_key=True),
    "tickets": Trade("ti", "issued", "voided", "void", honours_key=True, cents=0),
}


def _make_entry(book: str, trade: Trade) -> Rule:
    def make(store: Store, call: Call) -> Answer:
        write = call.write
        cents = call.whole("cents", above=0) if trade.cents is None else trade.cents
        values = {"book": book, "trip": call.text("trip"), "what": str(call.body.get("what", "")),
                  "paid_by": str(call.body.get("paid_by", "")), "cents": cents, "status": trade.made,
                  "made_by": write.actor, "made_stamp": write.stamp, "made_key": write.key}  # fmt: skip
        return _made(store, call, "entries", trade.prefix, values)

    return make


def _undo_entry(book: str, trade: Trade) -> Rule:
    def undo(store: Store, call: Call) -> Answer:
        row = _existing(store, call, "entries", call.target)
        if (row["book"], row["status"]) != (book, trade.made):
            raise Refusal(409, "wrong_status", f"{row['id']} is {row['status']}")
        return _changed(store, call, "entries", row["id"], {"status": trade.undone})

    return undo


# ---- the endpoints

Rule = Callable[[Store, Call], Answer]


@dataclass(frozen=True, slots=True)
class Route:
    """A mutating endpoint. `honours_key`: a repeated Idempotency-Key has no second effect.

    `key_of_target`: a key counts for each target by itself.
    """

    method: str
    path: str
    rule: Rule
    op: str = "write"
    honours_key: bool = True
    key_of_target: bool = False

    def target(self, method: str, path: str) -> str | None:
        """The id in the path ("" without one), or None for a path of another endpoint."""
        found = re.fullmatch(self.path.replace("{id}", "([^/]+)"), path) if method == self.method else None
        return None if found is None else "".join(found.groups())


ROUTES: Final[Mapping[str, tuple[Route, ...]]] = {
    "orders": (
        Route("PATCH", "/orders/{id}", change_order),
        Route("DELETE", "/orders/{id}", delete_order),
        Route("POST", "/orders/{id}/ship", ship_order),
        Route("POST", "/orders/{id}/cancel", cancel_order),
        Route("POST", "/orders/{id}/fulfil", fulfil_order),
        Route("POST", "/orders/{id}/notes", append_note, honours_key=False),
        Route("POST", "/shipments", create_shipment),
        Route("POST", "/shipments/{id}/cancel", cancel_shipment),
        Route("POST", "/charges", create_charge),
        Route("POST", "/refunds", create_refund),
        Route("POST", "/stock/{id}/adjust", adjust_stock),
    ),
    "trip": tuple(
        route
        for book, trade in TRADES.items()
        for route in (
            Route("POST", f"/{book}", _make_entry(book, trade), "make", trade.honours_key),
            Route("POST", f"/{book}/{{id}}/{trade.undo}", _undo_entry(book, trade), trade.undo, key_of_target=True),
        )
    ),
}


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
