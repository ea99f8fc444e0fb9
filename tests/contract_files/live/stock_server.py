"""A server of the official SDK with a small stock: `python -m tests.contract_files.live.stock_server`.

It speaks over stdio; with `--http` on a free port of loopback, whose address it prints. Where the environment names a
STOCK_TOKEN, it answers nobody who does not bear that.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("stock", version="3.0")
STOCK: dict[str, int] = {"mug": 10}


class Article(BaseModel):
    """What is known of an article."""

    sku: str
    count: int


class NoArticleError(Exception):
    """There is no such article."""


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def get_stock(sku: str) -> Article:
    """One article, as it is counted."""
    if sku not in STOCK:
        raise NoArticleError(f"No article {sku}")
    return Article(sku=sku, count=STOCK[sku])


@server.tool(annotations=ToolAnnotations(destructive_hint=False, idempotent_hint=True))
def set_stock(sku: str, count: int) -> Article:
    """Counts an article anew.

    kind: set
    """
    STOCK[sku] = count
    return Article(sku=sku, count=count)


@server.tool()
def list_stock() -> list[Article]:
    """Every article."""
    return [Article(sku=sku, count=count) for sku, count in STOCK.items()]


def _for_bearers(app: Any, token: str) -> Any:
    async def checked(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and dict(scope["headers"]).get(b"authorization") != token.encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"who are you?"})
        else:
            await app(scope, receive, send)

    return checked


def _serve_http() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        sys.stdout.write(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp\n")
        sys.stdout.flush()
        app: Any = server.streamable_http_app()
        token = os.environ.get("STOCK_TOKEN")
        config = uvicorn.Config(_for_bearers(app, token) if token else app, log_level="error")
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    if "--http" in sys.argv:
        _serve_http()
    else:
        server.run("stdio")
