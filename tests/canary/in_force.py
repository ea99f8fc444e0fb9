"""The contract in force, over orders in the file of DEPOT_FILE."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from readback import Context, Reading, action

VERSION, ENSURE = "1", {"shipped": "authoritative.status == 'shipped'"}


def orders() -> dict[str, Any]:
    file = Path(os.environ["DEPOT_FILE"])
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return found


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
        changed = {**orders(), order: {"id": order, "tenant": ctx.tenant, "status": "shipped", "note": note}}
        Path(os.environ["DEPOT_FILE"]).write_text(json.dumps(changed))
        return {"status": "ok"}

    @ship.read(source="orders", consistency="strong", independence="other_client", attributes=True)
    def read(ctx: Context, order: str) -> Reading:
        found = orders().get(order)
        if found is None:
            return Reading.of({"id": order, "tenant": ctx.tenant, "status": "open", "note": ""}, version=1)
        return Reading.of(found, version=2)

    return ship


ship = contract(VERSION, ENSURE)
