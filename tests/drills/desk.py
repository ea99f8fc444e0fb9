"""Contracts for the command line's drills: a shelf in a file, whose habits the environment names."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from readback import Context, Reading, action


def _rows() -> dict[str, Any]:
    path = Path(os.environ["DRILL_FILE"])
    return dict(json.loads(path.read_text())) if path.exists() else {}


def stocking(**options: Any) -> Any:
    @action(
        **{
            "kind": "adjust", "side_effect": "low_risk_internal", "target": "stock/{requested.sku}",
            "identity": {"target": "authoritative.sku", "tenant": "not_offered"},
            "ensure": {"n": "authoritative.n >= requested.n"}, "execute": {"honours_key": True}, "within": "2s",
            **options,
        }
    )  # fmt: skip
    def stock(ctx: Context, sku: str, n: int) -> object:
        rows = _rows()
        row = rows.setdefault(sku, {"sku": sku, "n": 0, "keys": []})
        if os.environ.get("DRILL_HABIT") != "honours" or ctx.idempotency_key not in row["keys"]:
            row["n"] += n
        row["keys"].append(ctx.idempotency_key)
        Path(os.environ["DRILL_FILE"]).write_text(json.dumps(rows))
        return {"status": "ok"}

    @stock.read(source="shelf", consistency="strong", independence="other_client", attributes=True)
    def row(ctx: Context, sku: str, n: int) -> Reading:
        if os.environ.get("DRILL_HABIT") == "dark":
            return Reading.unavailable("dark")
        found = _rows().get(sku)
        return Reading.absent() if found is None else Reading.of({"sku": sku, "n": found["n"]})

    return stock


restock = stocking(name="restock")
restock.twin(sku="sandbox")
bare = stocking(name="bare")
