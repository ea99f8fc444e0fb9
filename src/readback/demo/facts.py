"""The truth of each step, read from the systems' own files: the demo's oracle.

The oracle bypasses Readback, the order service's door and every view. Neither agent sees the oracle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec

from readback.canon.frozen import dataclass
from readback.demo.systems.truth import Truth

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Fact:
    """The final truth. `done`: as intended, once, and nothing else. `undone`: no trace is left."""

    done: bool
    text: str
    undone: bool = False


Oracle = Callable[[Truth], Fact]


def oracle(function: Callable[Concatenate[Truth, P], Fact]) -> Callable[P, Oracle]:
    """Decorator: fix the arguments now, and read the truth later."""
    return lambda *args, **kwargs: lambda truth: function(truth, *args, **kwargs)


@oracle
def order_has(truth: Truth, /, order_id: str, **wanted: object) -> Fact:
    """Our tenant's order has these values, and no other tenant's order of this number was touched."""
    own, other = truth.order(order_id) or {}, truth.order(order_id, "globex") or {}
    shown = ", ".join(str(own[name]) for name in wanted if own.get(name))
    astray = other.get("updated_by") != "seed"
    right = all(own.get(name) == value for name, value in wanted.items())
    text = shown + (f"; globex's {order_id} was changed" if astray else "")
    return Fact(right and not astray, text, undone=own.get("updated_by") == "seed" and not astray)


@oracle
def order_gone(truth: Truth, order_id: str) -> Fact:
    gone = truth.order(order_id) is None
    return Fact(gone, "gone" if gone else "still there")


@oracle
def charged_once(truth: Truth, order_id: str, cents: int) -> Fact:
    found = [(row["status"], row["amount_cents"]) for row in truth.charges(order_id)]
    said = ", ".join(f"{status} {each / 100:.2f}" for status, each in found)
    return Fact(found == [("captured", cents)], said or "no charge", undone=not found)


@oracle
def refunded_once(truth: Truth, order_id: str, cents: int) -> Fact:
    found = [row["amount_cents"] for charge in truth.charges(order_id) for row in truth.refunds(charge["id"])]
    said = ", ".join(f"refunded {each / 100:.2f}" for each in found)
    return Fact(found == [cents], said or "no refund", undone=not found)


@oracle
def booked_once(truth: Truth, order_id: str, sku: str, qty: int) -> Fact:
    found = [(row["sku"], row["qty"], row["status"]) for row in truth.shipments(order_id)]
    said = ", ".join(f"{each} {status}" for _, each, status in found)
    undone = all(status == "cancelled" for *_, status in found)
    return Fact(found == [(sku, qty, "booked")], said or "no parcel", undone)


@oracle
def fulfilled(truth: Truth, order_id: str, sku: str, qty: int, stock_after: int) -> Fact:
    parts = {
        "parcel": [(row["sku"], row["qty"]) for row in truth.shipments(order_id)] == [(sku, qty)],
        "stock": truth.stock(sku) == stock_after,
        "order": (truth.order(order_id) or {}).get("status") == "packed",
    }
    missing = [name for name, there in parts.items() if not there]
    text = f"without {', '.join(missing)}" if missing else "all parts"
    return Fact(not missing, text, undone=len(missing) == len(parts))


@oracle
def stock_is(truth: Truth, sku: str, quantity: int) -> Fact:
    return Fact(truth.stock(sku) == quantity, f"{truth.stock(sku)} in stock")


@oracle
def noted_once(truth: Truth, order_id: str, text: str) -> Fact:
    times = truth.notes(order_id).count(text)
    return Fact(times == 1, "noted once" if times == 1 else f"noted {times} times")


@oracle
def mailed_once(truth: Truth, address: str, subject: str) -> Fact:
    found = [mail.mailbox for mail in truth.mails() if mail.subject == subject]
    return Fact(found == [address], f"{len(found)} in the mailbox" if found else "not delivered", undone=not found)


@oracle
def file_holds(truth: Truth, name: str, text: str) -> Fact:
    found = truth.file(name)
    return Fact(found == text.encode(), "no file" if found is None else "the file is there")


@oracle
def daybook_says(truth: Truth, order_id: str, cents: int, before: int | None = None) -> Fact:
    rows = truth.daybook(order_id)
    said = f"{rows[0] / 100:.2f}" if rows else "no entry"
    return Fact(rows == [cents], said, undone=rows == ([] if before is None else [before]))


@oracle
def nothing_arrived(_: Truth, where: str) -> Fact:
    """For messages dropped by the demo itself: the pager's gateway drops every message."""
    return Fact(False, f"nothing reached {where}", undone=True)
