"""The contract in force, over orders in the folder of DEPOT: a file an order, so that two actions never share one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from readback import Context, Reading, action

VERSION, ENSURE = "1", {"shipped": "authoritative.status == 'shipped'"}


def place(order: str) -> Path:
    return Path(os.environ["DEPOT"], f"{order}.json")


def contract(version: str, ensure: dict[str, str]) -> Any:
    @action(
        name="ship",
        version=version,
        kind="set",
        side_effect="low_risk_internal",
        target="order/{requested.order}",
        identity={"target": "authoritative.id", "tenant": "authoritative.tenant"},
        ensure=ensure,
        within="1s",
    )
    def ship(ctx: Context, order: str) -> object:
        note = "" if order.startswith("bare") else "n"
        fresh = place(f"fresh-{ctx.stamp}")
        fresh.write_text(json.dumps({"id": order, "tenant": ctx.tenant, "status": "shipped", "note": note}))
        fresh.replace(place(order))  # at once: a reader never meets half of a file
        return {"status": "ok"}

    @ship.read(source="orders", consistency="strong", independence="other_client", attributes=True)
    def read(ctx: Context, order: str) -> Reading:
        if not place(order).exists():
            return Reading.of({"id": order, "tenant": ctx.tenant, "status": "open", "note": ""}, version=1)
        return Reading.of(json.loads(place(order).read_text()), version=2)

    return ship


ship = contract(VERSION, ENSURE)
