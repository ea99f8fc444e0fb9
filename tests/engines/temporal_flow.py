"""The workflow and the activity of the tests with Temporal."""

from __future__ import annotations

from datetime import timedelta

from temporalio import activity, workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from readback.frameworks.durable.temporal import operation
    from tests.engines import shop

QUEUE = "shop"


@activity.defn
def ship(order: str) -> str:
    return shop.ship_once(order, operation(), wait=0 if order.startswith("late") else 20)


@workflow.defn
class Ship:
    @workflow.run
    async def run(self, order: str, rounds: int) -> str:
        cited = await workflow.execute_activity(
            ship,
            order,
            start_to_close_timeout=timedelta(seconds=3),
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=100), maximum_attempts=20),
        )
        if rounds > 1:
            workflow.continue_as_new(args=[order, rounds - 1])
        return cited
