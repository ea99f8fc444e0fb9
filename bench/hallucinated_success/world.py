"""The system of record: orders and charges in an SQLite file, with a primary, a lagging copy, and late effects.

Standard library alone, since every program's own environment imports it. The world is the referee: it counts calls,
readings and effects, and knows the truth at each moment.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

TENANT: Final = "acme"
OTHER_TENANT: Final = "globex"
CARRIER: Final = "dhl"
CENTS: Final = 300
ORDER: Final = "o1"
Row = dict[str, Any]
_TABLES: Final = """
create table orders (
    id text, tenant text, status text, carrier text, reserved integer, indexed integer, version integer, stamp text,
    primary key (id, tenant)
);
create table charges (id integer primary key, order_id text, tenant text, cents integer, stamp text);
"""


class World:
    """One order of two tenants, and its charges.

    `copy_lags_s`: how long the copy shows the state of the beginning. `down`: no reading is answered after a call.
    """

    def __init__(
        self,
        path: Path,
        *,
        status: str = "open",
        copy_lags_s: float = 0.0,
        down: bool = False,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self.calls = self.reads = 0
        self._down, self._lock, self._now_s, self._began = down, threading.Lock(), now_s, now_s()
        self._late: list[tuple[float, Callable[[], None]]] = []
        with self._open() as db:
            db.executescript(_TABLES)
            for tenant in (TENANT, OTHER_TENANT):
                row = (ORDER, tenant, status, "", int(status == "shipped"), int(status == "shipped"), 1, "")
                db.execute("insert into orders values (?, ?, ?, ?, ?, ?, ?, ?)", row)
        self._copy_until_s, self._copy = copy_lags_s, self._order()

    def copy_shows(self, **fields: Any) -> None:
        """Give the lagging copy an older state, such as a shipment that was taken back since."""
        assert self._copy is not None
        self._copy = {**self._copy, **fields}

    # --- what tools do ---

    def ship(self, stamp: str, *, tenant: str = TENANT, reserve: bool = True, index: bool = True) -> None:
        """Ship the order. `reserve` and `index`: the two parts in other subsystems."""
        self._write(
            "update orders set status = 'shipped', carrier = ?, reserved = ?, indexed = ?, version = version + 1,"
            " stamp = ? where id = ? and tenant = ?",
            (CARRIER, int(reserve), int(index), stamp, ORDER, tenant),
        )

    def reopen(self) -> None:
        """Take the shipment back, as another process would."""
        self._write("update orders set status = 'open', version = version + 1 where tenant = ?", (TENANT,))

    def index(self) -> None:
        """Let the downstream index have the order."""
        self._write("update orders set indexed = 1 where tenant = ?", (TENANT,))

    def cancel(self, stamp: str) -> None:
        """Cancel the shipment, with its reservation."""
        self._write(
            "update orders set status = 'cancelled', reserved = 0, version = version + 1, stamp = ? where tenant = ?",
            (stamp, TENANT),
        )

    def charge(self, stamp: str) -> None:
        """Add one charge. There is no key: a second call adds a second charge."""
        self._write(
            "insert into charges (order_id, tenant, cents, stamp) values (?, ?, ?, ?)", (ORDER, TENANT, CENTS, stamp)
        )

    def later(self, after_s: float, effect: Callable[[], None]) -> None:
        """Let an effect land later."""
        with self._lock:
            self._late.append((self._now_s() + after_s, effect))

    # --- what readers see ---

    def order(self, *, fresh: bool) -> Row | None:
        """Read the order by its id. `fresh`: from the primary, past the copy. Raises ConnectionError while down."""
        self._read()
        if not fresh and self._now_s() - self._began < self._copy_until_s:
            return dict(self._copy) if self._copy is not None else None
        return self._order()

    def charged(self, *, fresh: bool) -> Row | None:
        """Read the order's charges as one row: how many, and the last one."""
        self._read()
        rows = self._charges()
        return None if not rows else {**rows[-1], "count": len(rows)}

    def charges_with(self, stamp: str) -> list[Row]:
        """Search charges by their stamp."""
        self._read()
        return [{**row, "count": 1} for row in self._charges() if row["stamp"] == stamp]

    # --- the referee ---

    def truth(self) -> Row:
        """Return the state of the primary, uncounted."""
        found = self._order() or {}
        return {**found, "charges": len(self._charges())}

    def settle(self) -> None:
        """Let every late effect land."""
        while self._late:
            self._due(self._now_s() + 3600)

    def _order(self) -> Row | None:
        """Return the changed order where a tool hit the wrong tenant: the reader by id sees what was touched last."""
        self._due(self._now_s())
        with self._open() as db:
            found = db.execute("select * from orders where id = ? order by version desc, tenant", (ORDER,)).fetchone()
        return None if found is None else dict(found)

    def _charges(self) -> list[Row]:
        self._due(self._now_s())
        with self._open() as db:
            return [dict(row) for row in db.execute("select * from charges order by id")]

    def _read(self) -> None:
        self.reads += 1
        if self._down and self.calls:
            raise ConnectionError("the system of record does not answer")

    def _due(self, now: float) -> None:
        with self._lock:
            due = [effect for at, effect in self._late if at <= now]
            self._late = [each for each in self._late if each[0] > now]
        for effect in due:
            effect()

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        with self._open() as db:
            db.execute(statement, values)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Commit and close at the end."""
        with closing(sqlite3.connect(self.path, timeout=30)) as db, db:
            db.row_factory = sqlite3.Row
            yield db
