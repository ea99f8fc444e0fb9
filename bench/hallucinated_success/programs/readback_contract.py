"""Readback: one contract for orders and one for charges. The reader follows `ctx.strong`, as its documents say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.hallucinated_success.programs.serving import serve
from bench.hallucinated_success.tasks import FAILED, SUCCESS, UNKNOWN, Task
from bench.hallucinated_success.world import CARRIER, CENTS, ORDER, TENANT
from readback import Context, Readback, Reading, action
from readback.domain.outcome.outcome import Outcome
from readback.domain.verdict import Verdict
from readback.ports.runtime import Runtime

TIMES: dict[str, Any] = {
    "within": "1500ms", "stable_for": "500ms", "late_window": "1500ms",
    "polls": ["0ms", "100ms", "150ms", "200ms", "250ms", "250ms", "250ms"],
}  # fmt: skip
SHIPPED = {
    "order": {"status": "authoritative.status == 'shipped'", "carrier": "authoritative.carrier == requested.carrier"},
    "stock": {"reserved": "authoritative.reserved == 1"},
    "index": {"indexed": "authoritative.indexed == 1"},
}
CANCELLED = {"status": "authoritative.status == 'cancelled'", "stock": "authoritative.reserved == 0"}


def order_action(task: Task, ensure: dict[str, Any]) -> Any:
    """The contract of shipping or cancelling an order."""

    @action(
        name=f"{task.kind}_order", kind="set", side_effect="low_risk_internal", target="order/{requested.order_id}",
        identity={"target": "authoritative.id", "tenant": "authoritative.tenant"}, ensure=ensure, **TIMES,
    )  # fmt: skip
    def change(ctx: Context, order_id: str, carrier: str) -> object:
        return task.call(ctx.stamp)

    @change.read(source="orders", consistency="strong", independence="other_client", attributes=True)
    def order(ctx: Context, order_id: str, carrier: str) -> Reading:
        row = task.look(fresh=ctx.strong)
        return Reading.absent() if row is None else Reading.of(row, version=row["version"], stamp=row["stamp"] or None)

    return change(order_id=ORDER, carrier=CARRIER)


def charge_action(task: Task) -> Any:
    """The contract of a charge, with a search by the stamp."""

    @action(
        name="charge_order", kind="append", side_effect="low_risk_internal", target="charges/{requested.order_id}",
        identity={"target": "authoritative.order_id", "tenant": "authoritative.tenant", "stamp": "authoritative.stamp"},
        ensure={"amount": "authoritative.cents == requested.cents"}, **TIMES,
    )  # fmt: skip
    def charge(ctx: Context, order_id: str, cents: int) -> object:
        return task.call(ctx.stamp)

    @charge.read(source="charges", consistency="strong", independence="other_client", attributes=True)
    def charged(ctx: Context, order_id: str, cents: int) -> Reading:
        row = task.look(fresh=ctx.strong)
        return Reading.absent() if row is None else Reading.of(row, stamp=row["stamp"])

    @charge.find
    def with_stamp(ctx: Context, order_id: str, cents: int) -> list[Reading]:
        return [Reading.of(row, stamp=row["stamp"]) for row in task.find(ctx.stamp)]

    return charge(order_id=ORDER, cents=CENTS)


CONTRACTS: dict[str, Callable[[Task], Any]] = {
    "ship": lambda task: order_action(task, SHIPPED),
    "cancel": lambda task: order_action(task, CANCELLED),
    "charge": charge_action,
}


def run(task: Task, runtime: Runtime | None = None) -> str:
    """Run one task. `runtime`: virtual time, for a test."""
    with Readback.open("memory:", tenant=TENANT, principal="agent:bench", runtime=runtime) as rb:
        outcome = rb.run(CONTRACTS[task.kind](task), wait=4)
    return told(outcome)


def told(outcome: Outcome) -> str:
    """The outcome in the benchmark's three words: only a reconciled success is a success."""
    if outcome.verified:
        return SUCCESS
    return FAILED if outcome.verdict is Verdict.REFUTED else UNKNOWN


if __name__ == "__main__":
    serve(run)
