"""A process dies in the middle of a call; another one goes on with its action. And: waiting is for others to do.

Run it with `python examples/08-worker.py`. It starts itself once more, and lets that process kill itself. On the
command line the second half is `readback resume` (once) or `readback worker` (for as long as it takes).

Prints:
    the first process ended with 9, right after its charge had landed
    resumed:  reconciled_success, charges made: 1
    again:    reconciled_success, replayed True, charges made: 1
    not yet:  pending
    signal:   True
    then:     reconciled_success
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from readback import Context, Readback, Reading, action

folder = Path(os.environ.get("EXAMPLE_FOLDER") or tempfile.mkdtemp())
LEDGER = f"sqlite:///{folder / 'readback.db'}"
die_after_the_call = "die" in sys.argv


def till() -> sqlite3.Connection:
    """The provider's own database; every call opens it anew."""
    opened = sqlite3.connect(folder / "till.db", isolation_level=None)
    opened.row_factory = sqlite3.Row
    opened.execute("create table if not exists charges (id integer primary key, tenant, account, cents, stamp, state)")
    return opened


@action(
    kind="create",
    side_effect="high_risk_external",
    target="account/{requested.account}",
    identity={
        "target": "authoritative.account",
        "tenant": "authoritative.tenant",
        "account": "authoritative.account",
        "stamp": "authoritative.stamp",
    },
    ensure={"amount": "authoritative.cents == requested.cents", "captured": "authoritative.state == 'captured'"},
    within="1h",
    polls=["0s", "30m"],
)
def charge(ctx: Context, account: str, cents: int, state: str = "captured") -> object:
    row = [ctx.tenant, account, cents, ctx.stamp, state]
    till().execute("insert into charges (tenant, account, cents, stamp, state) values (?, ?, ?, ?, ?)", row)
    if die_after_the_call:
        os._exit(9)  # as `kill -9` would: nobody learns that it landed
    return {"status": "accepted"}


@charge.read(source="till", consistency="strong", independence="other_client")
def charge_row(ctx: Context, account: str, cents: int, state: str = "captured") -> Reading:
    row = till().execute("select * from charges where stamp = ?", [ctx.stamp]).fetchone()
    return Reading.of(row) if row else Reading.absent()


def charges() -> int:
    return int(till().execute("select count(*) from charges where account = 'ana'").fetchone()[0])


def main() -> None:
    ended = subprocess.run([sys.executable, __file__, "die"], env={**os.environ, "EXAMPLE_FOLDER": str(folder)})
    print(f"the first process ended with {ended.returncode}, right after its charge had landed")

    # `actions`: what this process can go on with. Nothing is called again: the attempt is on disk, so it is read back.
    with Readback.open(LEDGER, tenant="acme", principal="agent:pay", actions=[charge]) as rb:
        (resumed,) = rb.resume()
        print(f"resumed:  {resumed.state}, charges made: {charges()}")
        again = rb.run(charge(account="ana", cents=900), operation="invoice 7")
        print(f"again:    {again.state}, replayed {again.replayed}, charges made: {charges()}")

        # The provider queues this one. `wait=0` takes the first look and leaves the rest to whoever comes later.
        queued = rb.run(charge(account="ben", cents=500, state="queued"), operation="invoice 8", wait=0)
        print(f"not yet:  {queued.state}")
        till().execute("update charges set state = 'captured' where account = 'ben'")
        # A webhook comes in. It proves nothing; it wakes the next reading.
        print(f"signal:   {rb.signal(queued.stamp)}")
        (then,) = rb.resume()
        print(f"then:     {then.state}")


if __name__ == "__main__":
    if die_after_the_call:
        with Readback.open(LEDGER, tenant="acme", principal="agent:pay") as dying:
            dying.run(charge(account="ana", cents=900), operation="invoice 7")
    main()
