"""The script of the morning: the agent's steps and their faults.

Each step proposes an action of `contracts`. `pattern` names a row of the action verification specification's
"Hallucinated Success Patterns". `fault` is an order to a system; without an order, a wrapper or the agent itself is at
fault. No step states its own result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final

from readback import Outcome, Proposal
from readback.canon.frozen import dataclass
from readback.demo import contracts as shop
from readback.demo import contracts_office as office
from readback.demo import facts
from readback.demo.facts import Oracle

Earlier = Mapping[str, Outcome]
"""The outcomes so far, by step name. Later steps may use nothing else."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One order to a system: a fault for the next matching requests."""

    name: str
    match: Mapping[str, str]
    system: str = "orders"
    times: int = 1
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of the agent. `wait`: seconds until the agent reports, finished or not."""

    name: str
    truth: Oracle
    propose: Callable[[Earlier], Proposal] | None = None
    pattern: str = ""
    spoiled: str = ""
    faults: tuple[Fault, ...] = ()
    wait: float | None = None
    claims: tuple[str, str] | None = None
    """A phantom: contract and target of an action claimed by the model without a call."""


def _on(path: str, fault: str, *, times: int = 1, **params: Any) -> tuple[Fault, ...]:
    return (Fault(fault, {"path": path, "tenant": "acme"}, times=times, params=params),)


def _mail(subject: str, fault: str, **params: Any) -> tuple[Fault, ...]:
    return (Fault(fault, {"subject": subject}, "mail", params=params),)


LIST: Final = "o-1  1 x lamp  dhl\n"

OPENING: Final = (
    Step(
        name="count the lamps",
        propose=lambda _: shop.check_stock(sku="sku-lamp"),
        truth=facts.stock_is("sku-lamp", 100),
    ),
    Step(
        name="ship o-1 by dhl",
        propose=lambda _: shop.ship_order(order_id="o-1", carrier="dhl"),
        truth=facts.order_has("o-1", status="shipped", carrier="dhl"),
    ),
    Step(
        name="send o-2 to Elm Street",
        propose=lambda _: shop.change_address(order_id="o-2", address="7 Elm Street", version=1),
        truth=facts.order_has("o-2", address="7 Elm Street"),
    ),
    Step(
        name="charge o-3",
        propose=lambda _: shop.charge_card(order_id="o-3", amount_cents=1375),
        truth=facts.charged_once("o-3", 1375),
    ),
    Step(
        name="take 3 broken mugs out",
        propose=lambda _: shop.adjust_stock(sku="sku-mug", delta=-3),
        truth=facts.stock_is("sku-mug", 97),
    ),
    Step(
        name="write the packing list",
        propose=lambda _: office.write_file(path="packing/o-1.txt", text=LIST),
        truth=facts.file_holds("packing/o-1.txt", LIST),
    ),
    Step(
        name="note on o-1",
        propose=lambda _: shop.append_note(order_id="o-1", text="leave at the door"),
        truth=facts.noted_once("o-1", "leave at the door"),
    ),
    Step(
        name="enter o-31 in the daybook",
        propose=lambda _: office.enter_in_daybook(order_id="o-31", cents=4875),
        truth=facts.daybook_says("o-31", 4875),
    ),
    Step(
        name="delete the test order o-40",
        propose=lambda _: shop.delete_order(order_id="o-40"),
        truth=facts.order_gone("o-40"),
    ),
)

RUSH: Final = (
    Step(
        name="refund 3.75 of o-3",
        propose=lambda earlier: shop.refund_charge(
            # From what was reconciled, not from what the tool answered.
            charge_id=_id_of(earlier["charge o-3"]),
            amount_cents=375,
        ),
        truth=facts.refunded_once("o-3", 375),
    ),
    Step(
        name="mark o-4 as sent",
        propose=lambda _: shop.mark_order(order_id="o-4", status="sent"),
        truth=facts.order_has("o-4", status="sent"),
        pattern="HS-02",
        spoiled="the shop refuses the status; the wrapper summarises the refusal as done",
    ),
    Step(
        name="cancel o-10",
        propose=lambda _: shop.cancel_order(order_id="o-10"),
        truth=facts.order_has("o-10", status="cancelled"),
        pattern="HS-03",
        spoiled="accepted, and lost",
        faults=_on("/orders/o-10/cancel", "accepted_lost"),
    ),
    Step(
        name="fulfil o-5: 2 chairs",
        propose=lambda _: shop.fulfil_order(order_id="o-5", carrier="ups", sku="sku-chair", qty=2),
        truth=facts.fulfilled("o-5", "sku-chair", 2, stock_after=98),
        pattern="HS-04",
        spoiled="only the parcel is booked; stock and order stay as they were",
        faults=_on("/orders/o-5/fulfil", "partial"),
    ),
    Step(
        name="charge o-6",
        propose=lambda _: shop.charge_card(order_id="o-6", amount_cents=1750),
        truth=facts.charged_once("o-6", 1750),
        pattern="HS-05",
        spoiled="time-out after the commit",
        faults=_on("/charges", "timeout_after"),
    ),
    Step(
        name="ship o-7 by ups",
        propose=lambda _: shop.ship_order(order_id="o-7", carrier="ups"),
        truth=facts.order_has("o-7", status="shipped", carrier="ups"),
        pattern="HS-05",
        spoiled="time-out before the commit",
        faults=_on("/orders/o-7/ship", "timeout_before"),
    ),
    Step(
        name="note on o-8",
        propose=lambda _: shop.append_note(order_id="o-8", text="customer will call"),
        truth=facts.noted_once("o-8", "customer will call"),
        pattern="HS-06",
        spoiled="an error after the commit; the wrapper blindly tries again",
        faults=_on("/orders/o-8/notes", "error_after_commit"),
    ),
    Step(
        name="cancel o-1",
        propose=lambda _: shop.cancel_order(order_id="o-1"),
        truth=facts.order_has("o-1", status="cancelled"),
        pattern="HS-10",
        spoiled="the refusal comes as a sentence that reads like success",
    ),
)

NOON: Final = (
    Step(
        name="charge o-11",
        propose=lambda _: shop.charge_card(order_id="o-11", amount_cents=2375),
        truth=facts.charged_once("o-11", 2375),
        pattern="HS-06",
        spoiled="the provider books it twice",
        faults=_on("/charges", "duplicate"),
    ),
    Step(
        name="ship o-13 by fedex",
        propose=lambda _: shop.ship_order(order_id="o-13", carrier="fedex"),
        truth=facts.order_has("o-13", status="shipped", carrier="fedex"),
        pattern="HS-07",
        spoiled="the replica lags, and denies it",
        faults=_on("/orders/o-13/ship", "replica_lag", ms=4_000),
    ),
    Step(
        name="cancel o-14",
        propose=lambda _: shop.cancel_order(order_id="o-14"),
        truth=facts.order_has("o-14", status="cancelled"),
        pattern="HS-07",
        spoiled="the primary lost it; the replica confirms it",
        faults=_on("/orders/o-14/cancel", "replica_confirms"),
    ),
    Step(
        name="send o-15 to Oak Lane",
        propose=lambda _: shop.change_address(order_id="o-15", address="3 Oak Lane", version=1),
        truth=facts.order_has("o-15", address="3 Oak Lane"),
        pattern="HS-08",
        spoiled="the primary lost it; the cache confirms it",
        faults=_on("/orders/o-15", "cache_confirms"),
    ),
    Step(
        name="write to Ana",
        propose=lambda _: office.send_mail(
            to="ana@acme.example", subject="Your order o-1", text="It is on its way with dhl."
        ),
        truth=facts.mailed_once("ana@acme.example", "Your order o-1"),
        pattern="HS-09",
        spoiled="accepted at once, delivered later",
        faults=_mail("Your order o-1", "delayed", ms=900),
    ),
    Step(
        name="write to Ben",
        propose=lambda _: office.send_mail(
            to="ben@acme.example", subject="Your order o-13", text="It is on its way with fedex."
        ),
        truth=facts.mailed_once("ben@acme.example", "Your order o-13"),
        pattern="HS-09",
        spoiled="accepted at once, and dropped",
        faults=_mail("Your order o-13", "accepted_dropped"),
    ),
    Step(
        name="send o-16 to Pine Road",
        propose=lambda _: shop.change_address(order_id="o-16", address="9 Pine Road", version=1),
        truth=facts.order_has("o-16", address="9 Pine Road"),
        pattern="HS-11",
        spoiled="the agent wants to report at once; behind the 200, nothing happens",
        faults=_on("/orders/o-16", "silent_noop"),
        wait=0.0,
    ),
    Step(
        name="ship o-17 by dhl",
        propose=lambda _: shop.ship_order(order_id="o-17", carrier="dhl"),
        truth=facts.order_has("o-17", status="shipped", carrier="dhl"),
        pattern="HS-12",
        spoiled="another tenant's order of the same number is shipped",
        faults=_on("/orders/o-17/ship", "wrong_tenant"),
    ),
    Step(
        name="book a parcel for o-18",
        propose=lambda _: shop.book_shipment(order_id="o-18", carrier="ups", sku="sku-mug", qty=1),
        truth=facts.booked_once("o-18", "sku-mug", 1),
        pattern="HS-13",
        spoiled="ten are booked in place of one; the compensation answers 200 and does nothing",
        faults=(
            *_on("/shipments", "wrong_value", set={"qty": 10}),
            *_on("/shipments/*/cancel", "silent_noop"),
        ),
    ),
    Step(
        name="page the warehouse",
        propose=lambda _: office.page_team(team="warehouse", text="parcels are ready"),
        truth=facts.nothing_arrived("the warehouse"),
        pattern="HS-14",
        spoiled="the gateway accepts the page and drops it; no system of record can be read",
    ),
)

AFTERNOON: Final = (
    Step(
        name="charge o-12",
        propose=lambda _: shop.charge_card(order_id="o-12", amount_cents=2500),
        truth=facts.charged_once("o-12", 2500),
        pattern="HS-03",
        spoiled="queued, and declined a moment later",
        faults=_on("/charges", "declined"),
    ),
    Step(
        name="book a parcel for o-19",
        propose=lambda _: shop.book_shipment(order_id="o-19", carrier="dhl", sku="sku-mug", qty=2),
        truth=facts.booked_once("o-19", "sku-mug", 2),
        pattern="HS-13",
        spoiled="twenty are booked in place of two; the compensation works",
        faults=_on("/shipments", "wrong_value", set={"qty": 20}),
    ),
    Step(
        name="enter o-30 in the daybook",
        propose=lambda _: office.enter_in_daybook(order_id="o-30", cents=4750),
        truth=facts.daybook_says("o-30", 4750, before=4100),
        pattern="HS-02",
        spoiled="there is an entry already; INSERT OR IGNORE passes over it",
    ),
    Step(
        name="refund 80.00 of o-3",
        propose=lambda earlier: shop.refund_charge(charge_id=_id_of(earlier["charge o-3"]), amount_cents=8000),
        truth=facts.refunded_once("o-3", 8000),
        pattern="HS-02",
        spoiled="over the desk's limit: a precondition fails, and the tool is never called",
    ),
    Step(
        name="cancel o-20",
        truth=facts.order_has("o-20", status="cancelled"),
        pattern="HS-01",
        spoiled="the model says that it has called the tool; it never did",
        claims=("cancel_order", "order/o-20"),
    ),
    Step(
        name="mark o-25 as packed",
        propose=lambda _: shop.mark_order(order_id="o-25", status="packed"),
        truth=facts.order_has("o-25", status="packed"),
    ),
)

KILLED: Final = Step(
    name="charge o-23",
    truth=facts.charged_once("o-23", 3875),
    propose=lambda _: shop.charge_card(order_id="o-23", amount_cents=3875),
    spoiled="the worker is killed after the charge has landed, before it hears of it",
    faults=_on("/charges", "timeout_after"),
)

OUTAGE: Final = Step(
    name="book a parcel for o-24",
    propose=lambda _: shop.book_shipment(order_id="o-24", carrier="dhl", sku="sku-lamp", qty=1),
    truth=facts.booked_once("o-24", "sku-lamp", 1),
    pattern="HS-14",
    spoiled="booked, and then the shop cannot be read for a while",
    faults=_on("/shipments", "outage"),
)


def _id_of(charge: Outcome) -> str:
    assert isinstance(charge.authoritative, dict)
    return str(charge.authoritative["id"])
