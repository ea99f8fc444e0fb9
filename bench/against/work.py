"""The work that every program does: a tool that ships an order, and a reader that looks it up by a path of its own.

Both are in process and take about a microsecond, so that all that is measured is what a program adds to them. Where a
process is to be killed, the orders are a file that outlives it, and the tool may be told to stop right behind its
effect: the place where nobody knows any more whether it happened.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

TENANT: Final = "acme"
CARRIER: Final = "dhl"
FOR_EVER_S: Final = 3600


class Orders:
    """The system of record."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Any]] = {}

    def ship(self, name: str) -> dict[str, Any]:
        """The tool: it changes the world and answers something."""
        self._rows[name] = {"id": name, "tenant": TENANT, "status": "shipped", "carrier": CARRIER}
        return {"status": "ok", "order": name}

    def look(self, name: str) -> dict[str, Any] | None:
        """The reader: what is there now."""
        row = self._rows.get(name)
        return dict(row) if row is not None else None


class KeptOrders(Orders):
    """Orders in a file, a line for each time the tool was called. `stop`: behind the first effect, for ever."""

    def __init__(self, path: Path, *, stop: bool) -> None:
        super().__init__()
        self._path, self._stop = path, stop

    def ship(self, name: str) -> dict[str, Any]:
        with self._path.open("a", encoding="utf-8") as lines:
            row = {"id": name, "tenant": TENANT, "status": "shipped", "carrier": CARRIER}
            lines.write(json.dumps(row) + "\n")
        if self._stop:
            sys.stdout.write(json.dumps({"interrupted": name}) + "\n")
            sys.stdout.flush()
            time.sleep(FOR_EVER_S)
        return {"status": "ok", "order": name}

    def look(self, name: str) -> dict[str, Any] | None:
        if not self._path.exists():
            return None
        rows = [json.loads(line) for line in self._path.read_text(encoding="utf-8").splitlines()]
        return next((row for row in rows if row["id"] == name), None)


def shipped(found: dict[str, Any] | None, name: str) -> bool:
    """What must hold for the action to count: the same question that Readback's contract asks."""
    return (
        found is not None
        and found["id"] == name
        and found["tenant"] == TENANT
        and found["status"] == "shipped"
        and found["carrier"] == CARRIER
    )


class NotShippedError(Exception):
    """What was read back is not what was intended: the measurement is void."""
