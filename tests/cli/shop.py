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
