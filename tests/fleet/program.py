"""One process of the fleet, a caller or a worker, with a clock set apart: `python -m tests.fleet.program ORDER`.

ORDER is a file of JSON: see `Order`. A caller asks for each of its operations until it is told what became of it, also
where a caller before it had asked already. A worker stays until it is ended.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from readback import AsyncReadback, Readback
from readback.adapters.runtime_system import SystemRuntime
from readback.canon import ReadbackError
from readback.client.operations.tenants import Served
from readback.client.operations.worker import Worker
from readback.client.session import Session
from tests.fleet.contracts import TENANT, Here, send
from tests.fleet.history import Notebook, What
from tests.fleet.record import Record

WIDTH = 8
WAIT_S = 5.0
PAUSE_S = 0.05
POLL_US = 100_000
CONCURRENCY = 16


@dataclass(frozen=True, slots=True)
class Order:
    """What this process is to be. `skew_us`: so far its clock is off. `submits`: what it leaves to workers."""

    role: str
    name: str
    url: str
    folder: str
    skew_us: int = 0
    ops: tuple[str, ...] = ()
    submits: tuple[str, ...] = ()


class SkewedRuntime(SystemRuntime):
    """A machine whose clock is wrong by always the same."""

    def __init__(self, skew_us: int) -> None:
        super().__init__()
        self._skew_us = skew_us

    def now_us(self) -> int:
        return super().now_us() + self._skew_us


def seal_of(order: Order) -> dict[str, object]:
    """Everybody seals, with the same key: whoever comes first."""
    return {"key_file": str(Path(order.folder) / "log.key"), "entries": 64, "seconds": 0.5}


async def call(order: Order) -> None:
    """All the operations, a few at a time."""
    notes = Notebook(Path(order.folder), order.name)
    left = iter([*((op, False) for op in order.ops), *((op, True) for op in order.submits)])
    async with AsyncReadback.open(
        order.url, tenant=TENANT, principal="agent:caller", actions=[send], runtime=SkewedRuntime(order.skew_us),
        seal=seal_of(order),
    ) as rb:  # fmt: skip

        async def one_after_another() -> None:
            for op, submitted in left:
                while not await _asked(rb, notes, op, submitted=submitted):  # noqa: ASYNC110 -- no event tells it
                    await asyncio.sleep(PAUSE_S)

        await asyncio.gather(*(one_after_another() for _ in range(WIDTH)))


async def _asked(rb: AsyncReadback, notes: Notebook, op: str, *, submitted: bool) -> bool:
    """Once; whether it is settled."""
    notes.write(What.ASKED, op)
    try:
        if submitted:
            id_ = await rb.submit(send(op=op), operation=op)
            notes.write(What.ACCEPTED, op, id=id_)
            outcome = await rb.wait(id_, wait=WAIT_S)
        else:
            outcome = await rb.run(send(op=op), operation=op, wait=WAIT_S)
    except ReadbackError as error:
        notes.write(What.REFUSED, op, code=error.code)
        return False
    notes.write(
        What.ANSWERED, op, id=outcome.id, state=outcome.state.value, verified=outcome.verified,
        settled=outcome.settled, may_repeat=outcome.may_repeat,
    )  # fmt: skip
    return outcome.settled


async def work(order: Order) -> None:
    """Until the process is ended, or the store lets it down for good; whoever started it starts another then."""
    with Readback.open(
        order.url, tenant=TENANT, principal="agent:worker", actions=[send], runtime=SkewedRuntime(order.skew_us),
        seal=seal_of(order),
    ) as rb:  # fmt: skip
        await worker_of(rb._session).stay()


def worker_of(session: Session, *, until_idle: bool = False) -> Worker:
    served = Served.of((), TENANT, everybody=False)
    return Worker(session, served=served, concurrency=CONCURRENCY, poll_us=POLL_US, until_idle=until_idle)


def orders(text: str) -> Order:
    row = json.loads(text)
    return Order(**{**row, "ops": tuple(row["ops"]), "submits": tuple(row["submits"])})


def main(arguments: Iterable[str]) -> None:
    (path,) = arguments
    order = orders(Path(path).read_text(encoding="utf-8"))
    Here.record = Record(Path(order.folder) / "record.db")
    asyncio.run(work(order) if order.role == "worker" else call(order))


if __name__ == "__main__":
    main(sys.argv[1:])
