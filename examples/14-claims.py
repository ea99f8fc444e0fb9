"""When a success falls later: two bookings are planned upon a verified one, which is withdrawn, and stands again.

Run it with `python examples/14-claims.py`.

Prints:
    room:      standing: happened standing, holds standing
    taxi:      verified
    contested: happened, contested as unverified, 0.99: Investigate the mismatch before assuming that it was done.
    by hand:   retracted, planned upon it: 1
    taxi:      verified, and fallen: What it was planned upon stands no more.
    dinner:    failed, claim.not-standing
    back:      reinstated, stands: True, fallen: ()
"""

from __future__ import annotations

import tempfile

from readback import Context, Readback, Reading, action

bookings: dict[str, dict[str, object]] = {}
lies = False


@action(
    kind="create",
    side_effect="low_risk_internal",
    target="booking/{requested.what}",
    identity={"target": "authoritative.what", "tenant": "authoritative.tenant", "stamp": "authoritative.stamp"},
    ensure={"booked": "authoritative.state == 'booked'"},
    within="200ms",
    deadline="300ms",
    late_window="1h",
    polls=["0s"],
)
def book(ctx: Context, what: str) -> object:
    """A desk that says yes, whether it writes the booking down or not."""
    if not lies:
        bookings[what] = {"what": what, "tenant": "acme", "state": "booked", "stamp": ctx.stamp}
    return {"status": "ok"}


@book.read(source="bookings", consistency="strong", independence="other_client", attributes=True)
def booked(ctx: Context, what: str) -> Reading:
    row = bookings.get(what)
    return Reading.of(row, stamp=str(row["stamp"])) if row else Reading.absent()


def main() -> None:
    global lies
    with (
        tempfile.TemporaryDirectory() as folder,
        Readback.open(f"sqlite:///{folder}/ledger.db", tenant="acme", principal="agent:travel") as rb,
    ):
        room = rb.run(book(what="room"), operation="book the room")
        claims = ", ".join(f"{claim.kind} {claim.status}" for claim in room.claims)
        print(f"room:      {'standing' if room.standing else 'fallen'}: {claims}")
        taxi = rb.run(book(what="taxi"), operation="book the taxi", upon=[room])
        print(f"taxi:      {taxi.verdict}")

        lies = True
        lost = rb.run(book(what="train"), operation="book the train")
        [claim] = lost.claims
        assert claim.said is not None
        why = f"{claim.status} as {claim.said.reason}, {claim.said.confidence}: {claim.said.advice_text}"
        print(f"contested: {claim.kind}, {why}")
        lies = False

        gone = rb.retract(room.id, who="human:eve", reason="The hotel has burnt down.")
        assert gone.said is not None
        print(f"by hand:   {gone.status}, planned upon it: {len(gone.said.dependants)}")
        later = rb.get(taxi.id)
        print(f"taxi:      {later.verdict}, and fallen:{later.message.partition('successfully.')[2]}")
        dinner = rb.run(book(what="dinner"), operation="book the dinner", upon=[taxi])
        print(f"dinner:    {dinner.state}, {dinner.code}")
        assert "dinner" not in bookings

        back = rb.reinstate(room.id, who="human:eve", reason="It was the other hotel.")
        print(f"back:      {back.status}, stands: {rb.is_claim_standing(room.id)}, fallen: {rb.get(taxi.id).fallen}")


if __name__ == "__main__":
    main()
