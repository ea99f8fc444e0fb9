"""A shop for tests of the command line: contracts over one JSON file, which is the system of record.

`--contracts tests.cli.shop` finds it. The file is named by SHOP_FILE. What the tool does wrong is said by its `how`
argument; the readers are honest but where they are asked not to be.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from readback import Context, Reading, action

TENANT = "default"


def path() -> Path:
    return Path(os.environ["SHOP_FILE"])


def load() -> dict[str, Any]:
    try:
        return dict(json.loads(path().read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {"o-17": {"id": "o-17", "tenant": TENANT, "status": "open", "carrier": "", "note": ""}}


def save(orders: dict[str, Any]) -> None:
    path().write_text(json.dumps(orders), encoding="utf-8")


async def hang() -> None:
    """A tool that never answers; a file says that it was called."""
    _say_that_it_hangs()
    await asyncio.get_running_loop().create_future()


def _say_that_it_hangs() -> None:
    Path(f"{path()}.hanging").write_text(str(os.getpid()), encoding="utf-8")


@action(
    kind="set",
    side_effect="low_risk_internal",
    target="order/{requested.order_id}",
    identity={"target": "authoritative.id", "tenant": "authoritative.tenant"},
    ensure={
        "shipped": "authoritative.status == 'shipped'",
        "carrier": "authoritative.carrier == requested.carrier",
    },
    fails_when={"declined": "requested.how == 'decline'"},
    execute={"timeout": "20s"},
    within="2s",
    deadline="6s",
    late_window="30s",
    tell=["status", "carrier"],
    redact=["requested.pin"],
)
async def ship(
    ctx: Context, order_id: str, carrier: str, how: str = "", parcels: int = 1, pin: str | None = None
) -> object:
    """Ships an order, or says so."""
    if how == "hang":
        await hang()
    if how == "lose":
        raise ConnectionResetError("the line went dead")
    if how == "decline":
        return (409, {"error": "this order is not shipped"})
    if how != "lie":
        orders = load()
        orders[order_id].update(status="shipped", carrier="slow" if how == "wrong" else carrier, stamp=ctx.stamp)
        save(orders)
    return {"status": "ok", "say": "\x1b[31mdone\x07"}


@ship.read(source="orders-file", consistency="strong", independence="other_client", attributes=True)
async def ship_row(
    ctx: Context, order_id: str, carrier: str, how: str = "", parcels: int = 1, pin: str | None = None
) -> Reading:
    """The order's row."""
    row = load().get(order_id)
    return Reading.of(row, stamp=row.get("stamp")) if row else Reading.absent()


@action(
    kind="set",
    side_effect="low_risk_internal",
    target="order/{requested.order_id}",
    identity={"target": "authoritative.id", "tenant": "authoritative.tenant"},
    ensure={"noted": "authoritative.note == requested.note"},
    within="1s",
    deadline="2s",
)
async def annotate(ctx: Context, order_id: str, note: str) -> object:
    """Notes something; its reader breaks when the note says so."""
    orders = load()
    orders[order_id]["note"] = note
    save(orders)
    return {"ok": True}


@annotate.read(source="notes", consistency="strong", independence="other_client")
async def note_row(ctx: Context, order_id: str, note: str) -> Reading:
    """The order's row, where the reader does not break."""
    if load()[order_id]["note"] == "break the reader":
        return "not a reading"  # type: ignore[return-value]
    return Reading.of(load()[order_id])


@action(
    kind="delete",
    side_effect="critical_mutation",
    target="order/{requested.order_id}",
    identity={
        "target": "authoritative.id",
        "tenant": "authoritative.tenant",
        "actor": "authoritative.actor",
        "permission_scope": "not_offered",
    },
    ensure={"gone": "authoritative == null"},
    quorum=2,
)
async def wipe(ctx: Context, order_id: str) -> object:
    """Must never be called without an approval."""
    raise AssertionError("called without an approval")


@wipe.read(source="orders-a", consistency="strong", independence="other_system", name="a")
async def wiped_a(ctx: Context, order_id: str) -> Reading:
    """One source."""
    row = load().get(order_id)
    return Reading.of(row) if row else Reading.absent()


@wipe.read(source="orders-b", consistency="strong", independence="other_system", name="b")
async def wiped_b(ctx: Context, order_id: str) -> Reading:
    """Another one."""
    row = load().get(order_id)
    return Reading.of(row) if row else Reading.absent()


@action(
    kind="send",
    side_effect="medium_risk_write",
    target="desk/{requested.desk}",
    ensure={"there": "authoritative.text == requested.text"},
    unverifiable="The desk has no way to be read.",
)
async def ring(ctx: Context, desk: str, text: str) -> object:
    """Needs an operation, and can never be verified."""
    return {"ok": True}


def charges_path() -> Path:
    return Path(f"{path()}.charges")


def charges() -> list[dict[str, Any]]:
    try:
        return list(json.loads(charges_path().read_text(encoding="utf-8")))
    except FileNotFoundError:
        return []


@action(
    kind="create",
    side_effect="high_risk_external",
    target="charge/{requested.ref}",
    identity={"target": "authoritative.ref", "tenant": "authoritative.tenant", "account": "not_offered"},
    ensure={"amount": "authoritative.amount == requested.amount"},
    within="1s",
    deadline="2s",
    polls=["0s", "1s"],
    late_window="2s",
)
async def charge(ctx: Context, ref: str, amount: int, how: str = "") -> object:
    """Charges, and does it twice when asked to."""
    made = {"ref": ref, "tenant": TENANT, "amount": amount, "stamp": ctx.stamp}
    charges_path().write_text(json.dumps([*charges(), *[made] * (2 if how == "twice" else 1)]), encoding="utf-8")
    return {"ok": True}


@charge.read(source="charges", consistency="strong", independence="other_system", attributes=True)
async def charge_row(ctx: Context, ref: str, amount: int, how: str = "") -> Reading:
    """The first charge of this reference."""
    found = next((one for one in charges() if one["ref"] == ref), None)
    return Reading.of(found, stamp=found["stamp"]) if found else Reading.absent()


@charge.find
async def charges_found(ctx: Context, ref: str, amount: int, how: str = "") -> list[Reading]:
    """Every charge that bears the stamp."""
    return [Reading.of(one, stamp=one["stamp"]) for one in charges() if one["stamp"] == ctx.stamp]


@charge.compensate(kind="delete", ensure={"gone": "authoritative == null"}, within="1s", deadline="2s", polls=["0s"])
async def refund(ctx: Context, ref: str, amount: int, how: str = "") -> object:
    """Takes every charge of the reference back."""
    charges_path().write_text(json.dumps([one for one in charges() if one["ref"] != ref]), encoding="utf-8")
    return {"ok": True}
