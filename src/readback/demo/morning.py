"""The script of the morning: the agent's steps and their faults.

Each step proposes an action of `contracts`. `pattern` names a row of the action verification specification's
"Hallucinated Success Patterns". A fault is an order to a system; without an order, a wrapper or the agent itself is at
fault. No step states its own result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final

from readback import Outcome, Proposal
from readback.canon.frozen import dataclass
from readback.demo import contracts as desk
from readback.demo import facts
from readback.demo.facts import Oracle
from readback.demo.systems.launch import Systems


@dataclass(frozen=True, slots=True)
class Fault:
    """One order to a system: a fault for the next `times` matching requests (-1: unlimited)."""

    name: str
    match: Mapping[str, str]
    system: str = "orders"
    params: Mapping[str, Any] = field(default_factory=dict)
    times: int = 1

    def order(self, systems: Systems, **match: str) -> None:
        """Order the fault, for requests that match these fields, too."""
        systems.fault(self.name, system=self.system, match={**self.match, **match}, times=self.times, **self.params)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the agent. `propose` may use the outcomes so far, by step name, and nothing else.

    `wait`: seconds until the agent reports, finished or not. `claims`: contract and target of an action claimed by the
    model without a call.
    """

    name: str
    propose: Callable[[Mapping[str, Outcome]], Proposal] | None
    truth: Oracle
    pattern: str = ""
    spoiled: str = ""
    faults: tuple[Fault, ...] = ()
    wait: float | None = None
    claims: tuple[str, str] = ("", "")


def _on(path: str, fault: str, **params: Any) -> tuple[Fault, ...]:
    return (Fault(fault, {"path": path, "tenant": "acme"}, params=params),)


def _mail(subject: str, fault: str, **params: Any) -> tuple[Fault, ...]:
    return (Fault(fault, {"subject": subject}, "mail", params),)


def _id_of(charge: Outcome) -> str:
    """The charge's id, from what was reconciled, not from what the tool answered."""
    assert isinstance(charge.authoritative, dict)
    return str(charge.authoritative["id"])


LIST: Final = "o-1  1 x lamp  dhl\n"

# fmt: off
OPENING: Final = (
    Step("count the lamps", lambda _: desk.check_stock(sku="sku-lamp"), facts.stock_is("sku-lamp", 100)),
    Step("ship o-1 by dhl", lambda _: desk.ship_order(order_id="o-1", carrier="dhl"),
         facts.order_has("o-1", status="shipped", carrier="dhl")),
    Step("send o-2 to Elm Street", lambda _: desk.change_address(order_id="o-2", address="7 Elm Street", version=1),
         facts.order_has("o-2", address="7 Elm Street")),
    Step("charge o-3", lambda _: desk.charge_card(order_id="o-3", amount_cents=1375), facts.charged_once("o-3", 1375)),
    Step("take 3 broken mugs out", lambda _: desk.adjust_stock(sku="sku-mug", delta=-3),
         facts.stock_is("sku-mug", 97)),
    Step("write the packing list", lambda _: desk.write_file(path="packing/o-1.txt", text=LIST),
         facts.file_holds("packing/o-1.txt", LIST)),
    Step("note on o-1", lambda _: desk.append_note(order_id="o-1", text="leave at the door"),
         facts.noted_once("o-1", "leave at the door")),
    Step("enter o-31 in the daybook", lambda _: desk.enter_in_daybook(order_id="o-31", cents=4875),
         facts.daybook_says("o-31", 4875)),
    Step("delete the test order o-40", lambda _: desk.delete_order(order_id="o-40"), facts.order_gone("o-40")),
)

RUSH: Final = (
    Step("refund 3.75 of o-3",
         lambda earlier: desk.refund_charge(charge_id=_id_of(earlier["charge o-3"]), amount_cents=375),
         facts.refunded_once("o-3", 375)),
    Step("mark o-4 as sent", lambda _: desk.mark_order(order_id="o-4", status="sent"),
         facts.order_has("o-4", status="sent"),
         "HS-02", "the shop refuses the status; the wrapper summarises the refusal as done"),
    Step("cancel o-10", lambda _: desk.cancel_order(order_id="o-10"), facts.order_has("o-10", status="cancelled"),
         "HS-03", "accepted, and lost", _on("/orders/o-10/cancel", "accepted_lost")),
    Step("fulfil o-5: 2 chairs",
         lambda _: desk.fulfil_order(order_id="o-5", carrier="ups", sku="sku-chair", qty=2),
         facts.fulfilled("o-5", "sku-chair", 2, stock_after=98),
         "HS-04", "only the parcel is booked; stock and order stay as they were", _on("/orders/o-5/fulfil", "partial")),
    Step("charge o-6", lambda _: desk.charge_card(order_id="o-6", amount_cents=1750), facts.charged_once("o-6", 1750),
         "HS-05", "time-out after the commit", _on("/charges", "timeout_after")),
    Step("ship o-7 by ups", lambda _: desk.ship_order(order_id="o-7", carrier="ups"),
         facts.order_has("o-7", status="shipped", carrier="ups"),
         "HS-05", "time-out before the commit", _on("/orders/o-7/ship", "timeout_before")),
    Step("note on o-8", lambda _: desk.append_note(order_id="o-8", text="customer will call"),
         facts.noted_once("o-8", "customer will call"),
         "HS-06", "an error after the commit; the wrapper blindly tries again",
         _on("/orders/o-8/notes", "error_after_commit")),
    Step("cancel o-1", lambda _: desk.cancel_order(order_id="o-1"), facts.order_has("o-1", status="cancelled"),
         "HS-10", "the refusal comes as a sentence that reads like success"),
)

KILLED_CHARGE: Final = {"order_id": "o-23", "amount_cents": 3875}
KILLED: Final = Step(
    "charge o-23", lambda _: desk.charge_card(order_id="o-23", amount_cents=3875), facts.charged_once("o-23", 3875),
    "", "the worker is killed after the charge has landed, before it hears of it", _on("/charges", "timeout_after"))

NOON: Final = (
    Step("charge o-11", lambda _: desk.charge_card(order_id="o-11", amount_cents=2375),
         facts.charged_once("o-11", 2375), "HS-06", "the provider books it twice", _on("/charges", "duplicate")),
    Step("ship o-13 by fedex", lambda _: desk.ship_order(order_id="o-13", carrier="fedex"),
         facts.order_has("o-13", status="shipped", carrier="fedex"),
         "HS-07", "the replica lags, and denies it", _on("/orders/o-13/ship", "replica_lag", ms=4_000)),
    Step("cancel o-14", lambda _: desk.cancel_order(order_id="o-14"), facts.order_has("o-14", status="cancelled"),
         "HS-07", "the primary lost it; the replica confirms it", _on("/orders/o-14/cancel", "replica_confirms")),
    Step("send o-15 to Oak Lane", lambda _: desk.change_address(order_id="o-15", address="3 Oak Lane", version=1),
         facts.order_has("o-15", address="3 Oak Lane"),
         "HS-08", "the primary lost it; the cache confirms it", _on("/orders/o-15", "cache_confirms")),
    Step("write to Ana",
         lambda _: desk.send_mail(to="ana@acme.example", subject="Your order o-1", text="It is on its way with dhl."),
         facts.mailed_once("ana@acme.example", "Your order o-1"),
         "HS-09", "accepted at once, delivered later", _mail("Your order o-1", "delayed", ms=900)),
    Step("write to Ben",
         lambda _: desk.send_mail(to="ben@acme.example", subject="Your order o-13", text="It is on its way."),
         facts.mailed_once("ben@acme.example", "Your order o-13"),
         "HS-09", "accepted at once, and dropped", _mail("Your order o-13", "accepted_dropped")),
    Step("send o-16 to Pine Road", lambda _: desk.change_address(order_id="o-16", address="9 Pine Road", version=1),
         facts.order_has("o-16", address="9 Pine Road"),
         "HS-11", "the agent wants to report at once; behind the 200, nothing happens",
         _on("/orders/o-16", "silent_noop"), wait=0.0),
    Step("ship o-17 by dhl", lambda _: desk.ship_order(order_id="o-17", carrier="dhl"),
         facts.order_has("o-17", status="shipped", carrier="dhl"),
         "HS-12", "another tenant's order of the same number is shipped", _on("/orders/o-17/ship", "wrong_tenant")),
    Step("book a parcel for o-18",
         lambda _: desk.book_shipment(order_id="o-18", carrier="ups", sku="sku-mug", qty=1),
         facts.booked_once("o-18", "sku-mug", 1),
         "HS-13", "ten are booked in place of one; the compensation answers 200 and does nothing",
         _on("/shipments", "wrong_value", set={"qty": 10}) + _on("/shipments/*/cancel", "silent_noop")),
    Step("page the warehouse", lambda _: desk.page_team(team="warehouse", text="parcels are ready"),
         facts.nothing_arrived("the warehouse"),
         "HS-14", "the gateway accepts the page and drops it; no system of record can be read"),
)

AFTERNOON: Final = (
    Step("charge o-12", lambda _: desk.charge_card(order_id="o-12", amount_cents=2500),
         facts.charged_once("o-12", 2500), "HS-03", "queued, and declined a moment later", _on("/charges", "declined")),
    Step("book a parcel for o-19",
         lambda _: desk.book_shipment(order_id="o-19", carrier="dhl", sku="sku-mug", qty=2),
         facts.booked_once("o-19", "sku-mug", 2),
         "HS-13", "twenty are booked in place of two; the compensation works",
         _on("/shipments", "wrong_value", set={"qty": 20})),
    Step("enter o-30 in the daybook", lambda _: desk.enter_in_daybook(order_id="o-30", cents=4750),
         facts.daybook_says("o-30", 4750, before=4100),
         "HS-02", "there is an entry already; INSERT OR IGNORE passes over it"),
    Step("refund 80.00 of o-3",
         lambda earlier: desk.refund_charge(charge_id=_id_of(earlier["charge o-3"]), amount_cents=8000),
         facts.refunded_once("o-3", 8000),
         "HS-02", "over the desk's limit: a precondition fails, and the tool is never called"),
    Step("cancel o-20", None, facts.order_has("o-20", status="cancelled"),
         "HS-01", "the model says that it has called the tool; it never did", claims=("cancel_order", "order/o-20")),
    Step("mark o-25 as packed", lambda _: desk.mark_order(order_id="o-25", status="packed"),
         facts.order_has("o-25", status="packed")),
)

OUTAGE: Final = Step(
    "book a parcel for o-24", lambda _: desk.book_shipment(order_id="o-24", carrier="dhl", sku="sku-lamp", qty=1),
    facts.booked_once("o-24", "sku-lamp", 1),
    "HS-14", "booked, and then the shop cannot be read for a while", _on("/shipments", "outage"))
# fmt: on
