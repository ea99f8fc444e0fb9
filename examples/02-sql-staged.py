"""SQL with a transaction that is verified from inside before it commits, and dropped where it does not hold.

Run it with `python examples/02-sql-staged.py`. The database is an SQLite file in a temporary folder; any DB-API driver
fits in its place.

Prints:
    moved:   reconciled_success
    dropped: rolled_back
    twice:   reconciled_success, replayed True, ana has 70
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from readback import Context, Readback, Reading, action, invariant_check
from readback.systems import SqlExecutor, SqlSource

folder = tempfile.TemporaryDirectory()
bank = Path(folder.name) / "bank.db"

with closing(sqlite3.connect(bank)) as setup, setup:
    setup.execute("create table accounts (id text primary key, tenant text, cents integer, version integer)")
    setup.executemany("insert into accounts values (?, 'acme', ?, 1)", [("ana", 100), ("ben", 0)])

# The one writes and the other reads; each opens connections of its own.
writing = SqlExecutor("bank", lambda: sqlite3.connect(bank), sole=True)
reading = SqlSource("bank", lambda: sqlite3.connect(bank))

STATE = """
    select 'acme' as tenant, ? as id, sum(version) as version, sum(cents) as total,
           sum(case when id = ? then cents end) as payer, sum(case when id = ? then cents end) as payee
    from accounts where tenant = 'acme'
"""


@action(
    kind="set",
    side_effect="low_risk_internal",
    target="transfer/{requested.payer}-{requested.payee}",
    identity={"target": "authoritative.id", "tenant": "authoritative.tenant"},
    ensure={
        "paid": "authoritative.payer == before.payer - requested.cents",
        "received": "authoritative.payee == before.payee + requested.cents",
        "solvent": "authoritative.payer >= 0",
        **invariant_check("nothing is lost", "authoritative.total == before.total"),
    },
    within="1s",
)
def transfer(ctx: Context, payer: str, payee: str, cents: int) -> object:
    """Two statements and a look: what it returns stays open until the look has been verified."""
    with writing.staged(ctx) as staged:
        for who, change in ((payer, -cents), (payee, cents)):
            staged.execute("update accounts set cents = cents + ?, version = version + 1 where id = ?", [change, who])
        staged.look(STATE, [f"{payer}-{payee}", payer, payee], version="version")
        return staged


@transfer.read(source="bank", consistency="strong", independence="other_client")
def both_accounts(ctx: Context, payer: str, payee: str, cents: int) -> Reading:
    return reading.one(STATE, [f"{payer}-{payee}", payer, payee], version="version")


def main() -> None:
    with folder, Readback.open(f"sqlite:///{folder.name}/readback.db", tenant="acme", principal="agent:ops") as rb:
        moved = rb.run(transfer(payer="ana", payee="ben", cents=30), operation="invoice 1")
        print(f"moved:   {moved.state}")
        dropped = rb.run(transfer(payer="ana", payee="ben", cents=500), operation="invoice 2")
        print(f"dropped: {dropped.state}")
        twice = rb.run(transfer(payer="ana", payee="ben", cents=30), operation="invoice 1")
        with closing(sqlite3.connect(bank)) as look:
            (cents,) = look.execute("select cents from accounts where id = 'ana'").fetchone()
        print(f"twice:   {twice.state}, replayed {twice.replayed}, ana has {cents}")


if __name__ == "__main__":
    main()
