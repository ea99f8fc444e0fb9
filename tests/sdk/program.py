"""A user's program, run as a process of its own by the tests beside it.

    python -m tests.sdk.program FOLDER WHAT

Its system of record is a file, `FOLDER/order.json`; it says on stdout what it is at, and what it was told.
"""

from __future__ import annotations

import ast
import asyncio
import json
import sys
import threading
import types
from pathlib import Path
from typing import Any

from readback import AsyncReadback, Context, Outcome, Readback, Reading, action

folder = Path(sys.argv[1])
TERMS: dict[str, Any] = {
    "kind": "set",
    "side_effect": "low_risk_internal",
    "target": "order/{requested.order_id}",
    "identity": {"target": "authoritative.id", "tenant": "authoritative.tenant"},
    "ensure": {"shipped": "authoritative.status == 'shipped'"},
    "within": "1h",
    "polls": ["0s", "30m"],
}
GIVEN: dict[str, Any] = {"url": f"sqlite:///{folder}/ledger.db", "tenant": "acme", "principal": "agent:program"}


def say(what: str) -> None:
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


def hang() -> None:
    threading.Event().wait()


def read() -> Reading:
    order = json.loads((folder / "order.json").read_text())
    return Reading.of(order, version=order["version"], stamp=order["stamp"] or None)


def write(stamp: str) -> None:
    order = {"id": "o-1", "tenant": "acme", "status": "shipped", "version": 1, "stamp": stamp}
    (folder / "order.json").write_text(json.dumps(order))


@action(name="ship_hanging", **{**TERMS, "execute": {"timeout": "60s"}})
def ship_hanging(ctx: Context, order_id: str) -> object:
    write(ctx.stamp)
    say("calling")
    hang()
    return {"status": "ok"}


@action(name="ship_given_up", **{**TERMS, "execute": {"timeout": "1s"}})
def ship_given_up(ctx: Context, order_id: str) -> object:
    write(ctx.stamp)
    hang()
    return {"status": "ok"}


@action(name="ship_later", **TERMS)
def ship_later(ctx: Context, order_id: str) -> object:
    return {"status": "accepted"}


@action(name="ship_await", **TERMS)
async def ship_await(ctx: Context, order_id: str) -> object:
    write(ctx.stamp)
    return {"status": "ok"}


ACTIONS = (ship_hanging, ship_given_up, ship_later, ship_await)
for each in ACTIONS:

    @each.read(source="file", consistency="strong", independence="other_client")
    def look(ctx: Context, order_id: str) -> Reading:
        if ctx.observed is not None:
            say("waiting " + ctx.action_id)
        return read()


def told(outcome: Outcome) -> None:
    say(json.dumps({"told": outcome.as_json()}))


def call() -> None:
    with Readback.open(**GIVEN) as rb:
        told(rb.run(ship_hanging(order_id="o-1"), operation="op"))


def wait() -> None:
    with Readback.open(**GIVEN) as rb:
        told(rb.run(ship_later(order_id="o-1"), operation="op"))


def resume() -> None:
    with Readback.open(**GIVEN, actions=ACTIONS) as rb:
        for outcome in rb.resume():
            told(outcome)


def give_up() -> None:
    """A sync tool that hangs, given up by the async driver: it must not keep this program from ending."""

    async def main() -> None:
        async with AsyncReadback.open(**GIVEN) as rb:
            told(await rb.run(ship_given_up(order_id="o-1"), operation="op"))

    asyncio.run(main())


CELLS = (
    "rb = Readback.open(**GIVEN)",
    "told(rb.run(ship_await(order_id='o-1'), operation='sync'))",
    "rb.close()",
    "arb = AsyncReadback.open(**GIVEN)",
    "told(await arb.run(ship_await(order_id='o-1'), operation='async'))",
    "told(await arb.run(ship_given_up(order_id='o-1'), operation='given up'))",
    "await arb.close()",
)


def notebook() -> None:
    """Cells are compiled as notebooks compile them, and run one after another on a loop that goes on running."""

    async def kernel() -> None:
        names = dict(globals())
        for cell in CELLS:
            code = compile(cell, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            done = types.FunctionType(code, names)()
            if asyncio.iscoroutine(done):
                await done

    asyncio.run(kernel())


if __name__ == "__main__":
    {"call": call, "wait": wait, "resume": resume, "give-up": give_up, "notebook": notebook}[sys.argv[2]]()
