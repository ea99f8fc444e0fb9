"""The truth of each step, read from the systems' own files: the demo's oracle.

The oracle bypasses Readback, the order service's door and every view. Neither agent sees the oracle.
"""

from __future__ import annotations

from collections.abc import Callable

from readback.canon.frozen import dataclass
from readback.demo.systems.truth import Truth


@dataclass(frozen=True, slots=True)
class Fact:
    """The final truth. `done`: as intended, once, and nothing else. `undone`: no trace is left."""

    done: bool
    text: str
    undone: bool = False


Oracle = Callable[[Truth], Fact]


def order_has(order_id: str, **wanted: object) -> Oracle:
    """Our tenant's order has these values, and no other tenant's order of this number was touched."""

    def ask(truth: Truth) -> Fact:
        own, other = truth.order(order_id) or {}, truth.order(order_id, "globex") or {}
        shown = ", ".join(str(own[name]) for name in wanted if own.get(name))
        astray = other.get("updated_by") != "seed"
        right = all(own.get(name) == value for name, value in wanted.items())
        text = shown + (f"; globex's {order_id} was changed" if astray else "")
        return Fact(right and not astray, text, undone=own.get("updated_by") == "seed" and not astray)

    return ask


def order_gone(order_id: str) -> Oracle:
    def ask(truth: Truth) -> Fact:
        gone = truth.order(order_id) is None
        return Fact(gone, "gone" if gone else "still there")

    return ask


def charged_once(order_id: str, cents: int) -> Oracle:
    def ask(truth: Truth) -> Fact:
        found = [(row["status"], row["amount_cents"]) for row in truth.charges(order_id)]
        said = ", ".join(f"{status} {each / 100:.2f}" for status, each in found)
        return Fact(found == [("captured", cents)], said or "no charge", undone=not found)

    return ask


def refunded_once(order_id: str, cents: int) -> Oracle:
    def ask(truth: Truth) -> Fact:
        found = [row["amount_cents"] for charge in truth.charges(order_id) for row in truth.refunds(charge["id"])]
        said = ", ".join(f"refunded {each / 100:.2f}" for each in found)
        return Fact(found == [cents], said or "no refund", undone=not found)

    return ask


def booked_once(order_id: str, sku: str, qty: int) -> Oracle:
    def ask(truth: Truth) -> Fact:
        found = [(row["sku"], row["qty"], row["status"]) for row in truth.shipments(order_id)]
        said = ", ".join(f"{each} {status}" for _, each, status in found)
        undone = all(status == "cancelled" for *_, status in found)
        return Fact(found == [(sku, qty, "booked")], said or "no parcel", undone)

    return ask


def fulfilled(order_id: str, sku: str, qty: int, stock_after: int) -> Oracle:
    def ask(truth: Truth) -> Fact:
        parts = {
            "parcel": [(row["sku"], row["qty"]) for row in truth.shipments(order_id)] == [(sku, qty)],
            "stock": truth.stock(sku) == stock_after,
            "order": (truth.order(order_id) or {}).get("status") == "packed",
        }
        missing = [name for name, there in parts.items() if not there]
        text = f"without {', '.join(missing)}" if missing else "all parts"
        return Fact(not missing, text, undone=len(missing) == len(parts))

    return ask


def stock_is(sku: str, quantity: int) -> Oracle:
    return lambda truth: Fact(truth.stock(sku) == quantity, f"{truth.stock(sku)} in stock")


def noted_once(order_id: str, text: str) -> Oracle:
    def ask(truth: Truth) -> Fact:
        times = truth.notes(order_id).count(text)
        return Fact(times == 1, "noted once" if times == 1 else f"noted {times} times")

    return ask


def mailed_once(address: str, subject: str) -> Oracle:
    def ask(truth: Truth) -> Fact:
        found = [mail.mailbox for mail in truth.mails() if mail.subject == subject]
        said = f"{len(found)} in the mailbox" if found else "not delivered"
        return Fact(found == [address], said, undone=not found)

    return ask


def file_holds(name: str, text: str) -> Oracle:
    def ask(truth: Truth) -> Fact:
        found = truth.file(name)
        return Fact(found == text.encode(), "no file" if found is None else "the file is there")

    return ask


def daybook_says(order_id: str, cents: int, before: int | None = None) -> Oracle:
    def ask(truth: Truth) -> Fact:
        rows = truth.daybook(order_id)
        said = f"{rows[0] / 100:.2f}" if rows else "no entry"
        return Fact(rows == [cents], said, undone=rows == ([] if before is None else [before]))

    return ask


def nothing_arrived(where: str) -> Oracle:
    """For messages dropped by the demo itself: the pager's gateway drops every message."""
    return lambda truth: Fact(False, f"nothing reached {where}", undone=True)
