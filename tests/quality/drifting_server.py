"""A server of the official SDK with one tool: `python -m tests.quality.drifting_server FORM [FILE]`.

FORM `then`: the tool as it was. `now`: an argument is renamed, another is required, a type is another. `closed`: an
argument takes two values only, and an optional one is required. `told`: only the description is another. `none`: no
tool. With a FILE the first form writes the status into its SQLite table.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from typing import Literal

from mcp.server.mcpserver import MCPServer

server = MCPServer("orders", version="1.0")
FORM, FILE = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
SETS = "Sets the status of an order."

if FORM in ("then", "told"):

    @server.tool(description=SETS if FORM == "then" else "Sets the status of an order. Never of a paid one.")
    def set_status(id: str, status: str, note: str = "") -> str:  # noqa: A002 -- the name of an argument that goes
        """Sets the status of an order."""
        if FILE:
            with closing(sqlite3.connect(FILE)) as db, db:
                db.execute("update orders set status = ? where id = ?", (status, id))
        return "ok"

elif FORM == "closed":

    @server.tool(description=SETS)
    def set_status(id: str, status: Literal["open", "shipped"], note: str) -> str:  # type: ignore[misc]  # noqa: A002
        """Sets the status of an order."""
        return "ok"

elif FORM == "now":

    @server.tool(description=SETS)
    def set_status(order_id: str, status: int, reason: str, note: str = "") -> str:  # type: ignore[misc]
        """Sets the status of an order."""
        return "ok"


if __name__ == "__main__":
    server.run()
