"""Contracts of a shop for the release gates, with their simulated worlds. No tool here is ever called."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from readback import Context, Reading, action
from readback.testing import SimulatedWorld

IDENTITY: Final = {
    "target": "authoritative.id",
    "tenant": "authoritative.tenant",
    "actor": "authoritative.author",
    "stamp": "authoritative.stamp",
    "account": "not_offered",
}
MARKS: Final[dict[str, Any]] = {"tenant": "{tenant}", "author": "{principal}", "stamp": "{stamp}"}


def never(*_: object, **__: object) -> Any:
    raise AssertionError("A gate called the real tool or the real source.")


def contract(name: str, kind: str, **options: Any) -> Any:
    """One contract. `find`, `compensate` and `weak` choose its parts."""
    find, compensate = options.pop("find", False), options.pop("compensate", False)
    weak = options.pop("consistency", "strong")
    merged: dict[str, Any] = {
        "side_effect": "low_risk_internal",
        "target": "item/{requested.item}",
        "identity": IDENTITY,
        "within": "10s",
        "polls": ["0s", "2s", "4s"],
        "late_window": "8s",
        "execute": {"timeout": "1s"},
        **options,
    }

    @action(name=name, kind=kind, **merged)
    def act(ctx: Context, item: str, status: str = "shipped", amount: int = 7) -> object:
        return never()

    @act.read(source="orders", consistency=weak, independence="other_client", timeout="1s", attributes=True)
    def read(ctx: Context, item: str, status: str = "shipped", amount: int = 7) -> Reading:
        return never()

    if find:

        @act.find(complete=True)
        def search(ctx: Context, item: str, status: str = "shipped", amount: int = 7) -> list[Reading]:
            return never()

    if compensate:

        @act.compensate(name=f"undo_{name}", kind="delete", ensure={"gone": "authoritative == null"}, within="10s")
        def undo(ctx: Context, item: str, status: str = "shipped", amount: int = 7) -> object:
            return never()

    return act


TWO_PARTS: Final = {
    "shipment": {"status": "authoritative.status == requested.status"},
    "billing": {"invoice": "authoritative.invoice == 'sent'"},
}
ship = contract("ship", "set", ensure=TWO_PARTS, may_change=["status", "invoice", "author", "stamp"])
create = contract("create", "create", ensure=TWO_PARTS, find=True, compensate=True, side_effect="medium_risk_write")
charge = contract(
    "charge",
    "adjust",
    ensure={"balance": "authoritative.balance == before.balance + requested.amount"},
    find=True,
    side_effect="high_risk_external",
    key_fields=["item"],
)
note = contract("note", "append", ensure={"line": "authoritative.lines.exists(l, l == requested.status)"}, find=True)
remove = contract("remove", "delete", ensure={"gone": "authoritative == null"})
send = contract(
    "send", "send", ensure={"body": "authoritative.body == requested.status"}, find=True,
    identity={**IDENTITY, "target": "authoritative.id"},
)  # fmt: skip

OPEN: Final = {"id": "o-17", "tenant": "{tenant}", "author": "an earlier actor", "stamp": ""}
DONE: Final = {"id": "o-17", **MARKS}
ARGUMENTS: Final = {"item": "o-17"}
ship_world = SimulatedWorld(
    "ship", ARGUMENTS, {**OPEN, "status": "open", "invoice": "none"}, {**DONE, "status": "shipped", "invoice": "sent"}
)
create_world = SimulatedWorld("create", ARGUMENTS, None, {**DONE, "status": "shipped", "invoice": "sent"})
charge_world = SimulatedWorld(
    "charge", ARGUMENTS, {**OPEN, "balance": 100}, {**DONE, "balance": 107}, {**DONE, "balance": 114}
)
note_world = SimulatedWorld(
    "note", ARGUMENTS, {**OPEN, "lines": []}, {**DONE, "lines": ["shipped"]}, {**DONE, "lines": ["shipped", "shipped"]}
)
remove_world = SimulatedWorld("remove", ARGUMENTS, {**OPEN, "status": "open"}, None)
send_world = SimulatedWorld("send", ARGUMENTS, None, {**DONE, "body": "shipped"})

ACTIONS: Final = (ship, create, charge, note, remove, send)
WORLDS: Final = {
    each.contract: each for each in (ship_world, create_world, charge_world, note_world, remove_world, send_world)
}

# --- contracts with one hole each ---

no_find = contract("no_find", "create", ensure=TWO_PARTS)
no_tenant = contract(
    "no_tenant", "set", ensure=TWO_PARTS, identity={**{k: v for k, v in IDENTITY.items() if k != "tenant"},
    "tenant": "not_offered"}, side_effect="low_risk_internal",
)  # fmt: skip
half = contract("half", "set", ensure={"shipment": {"status": "authoritative.status == requested.status"}})


def renamed(world: SimulatedWorld, name: str, **changed: Any) -> SimulatedWorld:
    """The same world for another contract."""
    return replace(world, contract=name, **changed)
