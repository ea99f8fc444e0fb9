"""A gateway as a program of its own, over stdio: `python -m tests.gateway.servers.gateway_program FOLDER SERVER...`."""

from __future__ import annotations

import asyncio
import sys

from readback.mcp import Gateway, Upstream


async def main(folder: str, *server: str) -> None:
    upstream = Upstream.command(server)
    options = {"url": f"sqlite:///{folder}/readback.db", "tenant": "acme", "principal": "agent:books"}
    async with Gateway([upstream], [f"{folder}/book.yaml"], **options) as gateway:
        await gateway.serve_stdio()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
