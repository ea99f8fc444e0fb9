"""A Temporal worker in a process of its own; the server's address is the only argument."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor

from temporalio.client import Client
from temporalio.worker import Worker

from readback.frameworks.durable.temporal import ReadbackInterceptor
from tests.engines.temporal_flow import QUEUE, Ship, ship


async def work(address: str) -> None:
    client = await Client.connect(address)
    with ThreadPoolExecutor(4) as threads:
        worker = Worker(
            client,
            task_queue=QUEUE,
            workflows=[Ship],
            activities=[ship],
            activity_executor=threads,
            interceptors=[ReadbackInterceptor(retry_seconds=0.1)],
        )
        print("ready", flush=True)
        await worker.run()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
