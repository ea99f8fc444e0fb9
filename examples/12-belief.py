"""What an agent may believe of its run, whatever its tools have said.

Run it with `python examples/12-belief.py`. Only reconciled outcomes are in a belief, so it is the same after a crash,
in another process, and on the command line: `readback belief --run "trip 7"`.

Prints:
    the tool was called for 2 of 3 rooms and said: ok, ok
    verified:   room/12 {'guest': 'ana'}: continue
    unresolved: room/14: do_not_repeat
    not done:   room/15: repair_or_stop, may be repeated: True
    may the agent go on to room 14? False
    [task state] Run "trip 7". Actions: 3 in all, 1 verified, 1 unresolved, 1 ended without a verified effect.
    in another process: the same
"""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

from readback import Belief, Context, Planning, Readback, Reading, action

folder = Path(tempfile.mkdtemp())
hotel = sqlite3.connect(folder / "hotel.db", isolation_level=None)
hotel.row_factory = sqlite3.Row
hotel.execute("create table rooms (id, tenant, guest, stamp, version integer, open integer)")
hotel.executemany(
    "insert into rooms values (?, 'acme', '', '', 0, ?)", [("room/12", 1), ("room/14", 1), ("room/15", 0)]
)
said: list[str] = []


@action(
    kind="set",
    side_effect="low_risk_internal",
    target="room/{requested.room}",
    identity={"target": "authoritative.id", "tenant": "authoritative.tenant"},
    require={"open": "before.open == 1"},
    ensure={"booked": "authoritative.guest == requested.guest"},
    within="300ms",
    tell=["guest"],
)
def book(ctx: Context, room: str, guest: str) -> object:
    """Says ok whatever happens; the write for room 14 is lost on the way."""
    said.append("ok")
    if room != "14":
        change = "update rooms set guest = ?, stamp = ?, version = version + 1 where id = ?"
        hotel.execute(change, [guest, ctx.stamp, f"room/{room}"])
    return {"status": "ok"}


@book.read(source="hotel-db", consistency="strong", independence="other_client")
def room_row(ctx: Context, room: str, guest: str) -> Reading:
    row = hotel.execute("select * from rooms where id = ?", [f"room/{room}"]).fetchone()
    return Reading.of(row, version=row["version"], stamp=row["stamp"] or None)


def tell(belief: Belief) -> None:
    for fact in belief.verified:
        print(f"verified:   {fact.target} {dict(fact.told)}: {fact.rule}")
    for item in belief.unresolved:
        print(f"unresolved: {item.target}: {item.rule}")
    for item in belief.not_done:
        print(f"not done:   {item.target}: {item.rule}, may be repeated: {item.may_repeat}")


def main() -> None:
    ledger = f"sqlite:///{folder / 'readback.db'}"
    with Readback.open(ledger, tenant="acme", principal="agent:travel", run="trip 7") as rb:
        for room in ("12", "14", "15"):
            rb.run(book(room=room, guest="ana"), operation=f"book {room}")
        print(f"the tool was called for {len(said)} of 3 rooms and said: {', '.join(said)}")
        belief = rb.belief()
        tell(belief)
        # The rules are data: a planner asks them instead of reading prose.
        blocked = {each.target for each in belief.under(Planning.DO_NOT_REPEAT)}
        print(f"may the agent go on to room 14? {'room/14' not in blocked}")
        first = belief.for_model().splitlines()[0]  # the whole text goes into the model's next context
        print(first.partition(" Only what")[0])
    with Readback.open(ledger, tenant="acme", principal="agent:travel") as other:
        same = other.belief("trip 7").as_json() == belief.as_json()
        print(f"in another process: {'the same' if same else 'not the same'}")


if __name__ == "__main__":
    main()
