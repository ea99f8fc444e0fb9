"""Taking back: an action that lands with the wrong value is reversed by an action of its own, which is verified too.

Run it with `python examples/07-compensation.py`.

Prints:
    right:  reconciled_success
    wrong:  compensated, value_mismatch; the seat is free: True
    stuck:  compensating, value_mismatch; the seat is free: False
    told:   The action was reversed through compensation.
"""

from __future__ import annotations

import tempfile

from readback import Context, Readback, Reading, action

Seat = dict[str, object]
seats: dict[str, Seat] = {}
overbooking = False
cancelling = True


def free(seat: str) -> Seat:
    return {"seat": seat, "tenant": "acme", "by": None, "guest": None, "stamp": None, "version": 1}


for name in ("1A", "1B", "1C"):
    seats[name] = free(name)


@action(
    kind="set",
    side_effect="medium_risk_write",
    target="seat/{requested.seat}",
    identity={"target": "authoritative.seat", "tenant": "authoritative.tenant", "actor": "authoritative.by"},
    ensure={"booked": "authoritative.guest == requested.guest"},
    within="300ms",
)
def book(ctx: Context, seat: str, guest: str) -> object:
    """With overbooking on, it books somebody else into the seat, and says that all is well."""
    landed: Seat = {"by": ctx.principal, "stamp": ctx.stamp, "guest": "A. N. Other" if overbooking else guest}
    seats[seat] |= {**landed, "version": 2}
    return {"ok": True}


@book.read(source="seat-map", consistency="strong", independence="other_client", attributes=True)
def seat_row(ctx: Context, seat: str, guest: str) -> Reading:
    row = seats[seat]
    stamp = row["stamp"]
    return Reading.of(row, version=int(str(row["version"])), stamp=str(stamp) if stamp else None)


@book.compensate(kind="set", ensure={"free": "authoritative.guest == null"}, within="300ms")
def release(ctx: Context, seat: str, guest: str) -> object:
    """Takes target, class, identity and reader from `book`. It runs once an effect, and is verified like any action."""
    if cancelling:
        seats[seat] |= {"guest": None, "by": ctx.principal, "stamp": ctx.stamp, "version": 3}
    return {"ok": True}


def main() -> None:
    global overbooking, cancelling
    with (
        tempfile.TemporaryDirectory() as folder,
        Readback.open(f"sqlite:///{folder}/readback.db", tenant="acme", principal="agent:desk") as rb,
    ):
        right = rb.run(book(seat="1A", guest="Ana"), operation="trip 1")
        print(f"right:  {right.state}")

        overbooking = True
        wrong = rb.run(book(seat="1B", guest="Ben"), operation="trip 2")
        print(f"wrong:  {wrong.state}, {wrong.discrepancy}; the seat is free: {seats['1B']['guest'] is None}")

        cancelling = False  # now the reversal lies too, so nothing is told as compensated; it is looked at further
        stuck = rb.run(book(seat="1C", guest="Eve"), operation="trip 3")
        print(f"stuck:  {stuck.state}, {stuck.discrepancy}; the seat is free: {seats['1C']['guest'] is None}")
        print(f"told:   {wrong.message.partition(' Found:')[0]}")


if __name__ == "__main__":
    main()
