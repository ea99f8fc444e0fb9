"""Contracts that cannot be judged again of the record alone: one by a Python callable, one over a redacted value."""

from __future__ import annotations

from typing import Any

from readback import Context, Reading, action
from tests.cli.shop import TENANT, load, save


def is_stamped(authoritative: Any, scope: Any) -> bool | None:
    """A postcondition in Python."""
    return None if authoritative is None else authoritative.get("stamp") == scope["stamp"]


@action(
    kind="set",
    side_effect="low_risk_internal",
    target="order/{requested.order_id}",
    identity={"target": "authoritative.id", "tenant": "authoritative.tenant"},
    ensure={"stamped": is_stamped},
    within="2s",
)
def stamp(ctx: Context, order_id: str) -> object:
    """Stamps an order."""
    orders = load()
    orders[order_id]["stamp"] = ctx.stamp
    save(orders)
    return {"status": "ok"}


@stamp.read(source="orders-file", consistency="strong", independence="other_client", attributes=True)
def stamped_row(ctx: Context, order_id: str) -> Reading:
    """The order's row."""
    row = load()[order_id]
    return Reading.of({"tenant": TENANT, **row}, stamp=row.get("stamp"))


@action(
    kind="set",
    side_effect="low_risk_internal",
    target="order/{requested.order_id}",
    identity={"target": "authoritative.id", "tenant": "authoritative.tenant"},
    ensure={"whispered": "authoritative.word == requested.word"},
    within="2s",
    redact=["requested.word", "authoritative.word"],
)
def hush(ctx: Context, order_id: str, word: str) -> object:
    """Writes a word that nobody may see in the record."""
    orders = load()
    orders[order_id].update(word=word, stamp=ctx.stamp)
    save(orders)
    return {"status": "ok"}


@hush.read(source="orders-file", consistency="strong", independence="other_client", attributes=True)
def hushed_row(ctx: Context, order_id: str, word: str) -> Reading:
    """The order's row."""
    row = load()[order_id]
    return Reading.of({"tenant": TENANT, **row}, stamp=row.get("stamp"))
