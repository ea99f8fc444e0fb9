"""DBOS: a workflow of three steps. Its start is the attempt on record; each step's result, and its end, are durable.

SQLite or PostgreSQL by the URL, as DBOS sets them up. The workflow id is the operation's key. Coroutines, which
were quicker than its threads.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dbos import DBOS, DBOSConfig, SetWorkflowID

from bench.against.slices import Async, serve_tasks, sqlite_settings
from bench.against.work import NotShippedError, Orders, shipped

ORDERS: list[Orders] = []
"""The one that is in use: steps take what is recorded, and nothing else."""


@DBOS.step()
async def act_step(name: str) -> dict[str, Any]:
    """The tool."""
    return ORDERS[0].ship(name)


@DBOS.step()
async def read_step(name: str) -> dict[str, Any] | None:
    """The reader."""
    return ORDERS[0].look(name)


@DBOS.step()
async def judge_step(name: str, found: dict[str, Any] | None) -> bool:
    """Whether the action counts."""
    return shipped(found, name)


@DBOS.workflow()
async def ship(name: str) -> bool:
    """The action."""
    await act_step(name)
    verified: bool = await judge_step(name, await read_step(name))
    return verified


@asynccontextmanager
async def opened(url: str, orders: Orders) -> AsyncIterator[Async]:
    ORDERS[:] = [orders]
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": url.replace("postgresql://", "postgresql+psycopg://"),
        "log_level": "ERROR",
    }
    DBOS(config=config)
    DBOS.launch()

    async def act(name: str) -> None:
        with SetWorkflowID(name):
            verified = await ship(name)
        if not verified:
            raise NotShippedError(name)

    async def recover(name: str) -> None:
        """Launching has taken up what was left, and runs the step that has no result again."""
        handle = await DBOS.retrieve_workflow_async(name)
        if not await handle.get_result():
            raise NotShippedError(name)

    try:
        yield Async(act, recover, sqlite_settings(url))
    finally:
        DBOS.destroy()


if __name__ == "__main__":
    serve_tasks(opened)
