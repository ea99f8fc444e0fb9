"""A server of the official SDK with one tool over an SQLite file: `python -m tests.quality.drifting_server FORM`.

FORM `then`: the tool as it was. `now`: an argument is renamed, another is required, a type is another. `none`: no tool.
"""

from __future__ import annotations

import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("orders", version="1.0")
FORM = sys.argv[1]

if FORM == "then":

    @server.tool()
    def set_status(id: str, status: str, note: str = "") -> str:  # noqa: A002 -- the name of an argument that goes
        """Sets the status of an order."""
        return "ok"

elif FORM == "now":

    @server.tool()
    def set_status(order_id: str, status: int, reason: str, note: str = "") -> str:  # type: ignore[no-redef]
        """Sets the status of an order."""
        return "ok"


if __name__ == "__main__":
    server.run()
