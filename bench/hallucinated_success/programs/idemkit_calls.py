"""idemkit: the tool under `@idempotent`, deduplicated by its arguments; the caller retries, since a retry is safe.

Configured as the section "Method calls and AI tools" of its documents says, with the in-memory backend of one process.
"""

from __future__ import annotations

import asyncio
from typing import Any

from idemkit import InMemoryBackend, MethodConfig, idempotent

from bench.hallucinated_success.programs.serving import serve
from bench.hallucinated_success.tasks import FAILED, SUCCESS, Task
from bench.hallucinated_success.world import ORDER

CALLS_MAX = 4


def run(task: Task) -> str:
    config = MethodConfig(key_fields=["order_id"], scope=lambda _: "bench")

    @idempotent(backend=InMemoryBackend(), config=config)
    async def tool(*, order_id: str) -> Any:
        return task.call(order_id)

    async def caller() -> str:
        for _ in range(CALLS_MAX):
            try:
                await tool(order_id=ORDER)
            except OSError:
                continue  # the claim is released, and a retry is what the library is for
            return SUCCESS
        return FAILED

    return asyncio.run(caller())


if __name__ == "__main__":
    serve(run)
