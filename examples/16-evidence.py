"""An outcome that somebody else can check later: the log is sealed as it grows, and its heads are kept outside.

Run it with `python examples/16-evidence.py`. The log has a key of its own; on a cadence and at the end its head is
signed and handed to an anchor, here a file that would lie on another machine. A cut of the ledger is then found.

Prints:
    at first:  level 3, verified
    later:     level 4, verified
    the anchor holds the head that the ledger was sealed with: True
    the proof of the entry is checked without the ledger: exit code 0
    after a cut, without the anchor: exit code 0, truncation not detectable
    after a cut, with the anchor:    exit code 1, log.cut
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from readback import Context, Readback, Reading, action

folder = Path(tempfile.mkdtemp())
url, key, head = f"sqlite:///{folder / 'ledger.db'}", folder / "log.key", folder / "elsewhere"
orders: dict[str, str] = {}


def readback(*args: str) -> tuple[int, str]:
    """The command line, in a process of its own; its exit code and what it printed."""
    command = [sys.executable, "-m", "readback.cli.cli", *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.strip()


@action(
    name="ship_order",
    kind="set",
    side_effect="low_risk_internal",
    target="order/{requested.order_id}",
    identity={"target": "authoritative.id", "tenant": "not_offered"},
    ensure={"shipped": "authoritative.status == 'shipped'"},
    within="5s",
)
def ship_order(ctx: Context, order_id: str) -> object:
    """Ships it."""
    orders[order_id] = "shipped"
    return {"ok": True}


@ship_order.read(source="orders", consistency="strong", independence="other_client")
def order_row(ctx: Context, order_id: str) -> Reading:
    """What is written of it."""
    return Reading.of({"id": order_id, "status": orders[order_id]}) if order_id in orders else Reading.absent()


made, verifier = readback("ledger", "keys", "create", "--key-file", str(key), "--name", "example.com/ledger")
assert made == 0
seal: dict[str, object] = {"key_file": str(key), "entries": 100, "seconds": 60, "anchors": [f"file://{head}"]}

with Readback.open(url, tenant="acme", principal="agent:ops", seal=seal) as rb:
    done = rb.run(ship_order(order_id="o-17"), operation="ship o-17")
    print(f"at first:  level {int(done.level)}, {'verified' if done.verified else 'not verified'}")

with Readback.open(url, tenant="acme", principal="agent:ops", seal=seal) as rb:
    later = rb.get(done.id)
    print(f"later:     level {int(later.level)}, {'verified' if later.verified else 'not verified'}")

with sqlite3.connect(folder / "ledger.db") as ledger:
    sealed = ledger.execute("select note from checkpoint order by size desc").fetchone()[0]
print("the anchor holds the head that the ledger was sealed with:", head.read_bytes() == sealed)

proof = str(folder / "proof")
readback("ledger", "prove", done.id, "--url", url, "--tenant", "acme", "--key-file", str(key), "--out", proof)
code, _ = readback("ledger", "verify-proof", proof, "--key", verifier)
print("the proof of the entry is checked without the ledger: exit code", code)

# Somebody who may write the file takes the end of the log away, with everything that follows from it, and puts the
# guard back that he took off for it, since a ledger without one is told as a fault.
with sqlite3.connect(folder / "ledger.db") as ledger:
    [guard] = ledger.execute("select sql from sqlite_schema where name = 'event_is_never_removed'").fetchone()
    ledger.execute("drop trigger event_is_never_removed")
    ledger.executescript(
        "delete from event; delete from action; delete from idempotency;"
        "delete from payload; delete from contract_text; delete from weight;"
        "delete from tile; delete from checkpoint; delete from anchor;"
    )
    ledger.execute(guard)
code, said = readback("ledger", "verify", "--url", url, "--key", verifier, "--json")
print(f"after a cut, without the anchor: exit code {code}, {json.loads(said)['truncation'].split(':')[0]}")
code, said = readback("ledger", "verify", "--url", url, "--key", verifier, "--anchor", f"file://{head}", "--json")
print(f"after a cut, with the anchor:    exit code {code}, {json.loads(said)['faults'][0]['code']}")
