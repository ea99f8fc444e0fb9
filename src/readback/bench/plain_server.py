"""The plain server of the gateway's measure: `python -m readback.bench.plain_server FOLDER [--http]`.

Written with the official SDK in the usual way. One tool writes a durable row, one shows a row, one only answers.
"""

from __future__ import annotations

import socket
import sqlite3
import sys
from pathlib import Path
from typing import Any

TABLE = "create table if not exists entry (name text primary key, text text not null)"


def made(folder: Path) -> Any:
    """The server over `book.db` in this folder."""
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("plain", version="1")
    folder.mkdir(exist_ok=True)
    book = sqlite3.connect(folder / "book.db", isolation_level=None)
    book.execute("pragma journal_mode = wal")
    book.execute("pragma synchronous = full")
    book.execute(TABLE)

    @server.tool()
    async def put(name: str, text: str) -> str:
        """Keeps a text under a name."""
        book.execute("insert or replace into entry values (?, ?)", (name, text))
        return f"kept {name}"

    @server.tool()
    async def answer(text: str) -> str:
        """Answers, and does nothing."""
        return text

    return server


def main(folder: str, *more: str) -> None:
    """Serve until the client leaves, or without end over HTTP."""
    server = made(Path(folder))
    if "--http" not in more:
        server.run("stdio")
        return
    import uvicorn

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:  # else asyncio delays it
        listening.bind(("127.0.0.1", 0))
        listening.listen(2048)
        sys.stdout.write(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp\n")
        sys.stdout.flush()
        # On asyncio's loop and h11, like the SDK's `run`, regardless of other installed packages.
        config = uvicorn.Config(server.streamable_http_app(), log_level="error", loop="asyncio", http="h11")
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(*sys.argv[1:])
