"""What the tests of short contracts share: a shop in memory, clients on virtual time, and readers of every shape."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import BaseModel

from readback import AsyncReadback, Readback, Reading
from readback.testing.runtime_virtual import VirtualRuntime

TENANT = "acme"


@dataclass
class Record:
    """An order as a dataclass."""

    order_id: str
    status: str


class Model(BaseModel):
    """An order as a pydantic model."""

    order_id: str
    status: str


class Named(NamedTuple):
    """An order as a named tuple."""

    order_id: str
    status: str


def row_of(order_id: str, status: str) -> Any:
    """An order as a row of sqlite3."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute("select ? as order_id, ? as status", [order_id, status]).fetchone()


SHAPES: dict[str, Callable[[str, str], Any]] = {
    "mapping": lambda order_id, status: {"order_id": order_id, "status": status},
    "dataclass": Record,
    "model": lambda order_id, status: Model(order_id=order_id, status=status),
    "named tuple": Named,
    "row": row_of,
    "reading": lambda order_id, status: Reading.of({"order_id": order_id, "status": status}),
}


class Shop:
    """The system of record."""

    def __init__(self) -> None:
        self.orders: dict[str, str] = {"o-17": "open"}
        self.lies = False
        self.calls = 0

    def ship(self, order_id: str) -> dict[str, bool]:
        """Ships the order, unless the shop lies."""
        self.calls += 1
        if not self.lies:
            self.orders[order_id] = "shipped"
        return {"ok": True}

    def shown(self, order_id: str, shape: str = "mapping") -> Any:
        """The order in the shape that is asked for; None where there is none."""
        status = self.orders.get(order_id)
        return None if status is None else SHAPES[shape](order_id, status)


def opened(**more: Any) -> Readback:
    """A client on a virtual clock and a ledger in memory."""
    return Readback.open("memory:", **{"tenant": TENANT, "principal": "agent:ops", "runtime": VirtualRuntime(), **more})


def opened_async(**more: Any) -> AsyncReadback:
    """The async client of the same."""
    return AsyncReadback.open(
        "memory:", **{"tenant": TENANT, "principal": "agent:ops", "runtime": VirtualRuntime(), **more}
    )
