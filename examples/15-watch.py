"""Watched after success: a setting is looked at again every day, and somebody turns it back by hand.

Run it with `python examples/15-watch.py`. Time is virtual: the month takes no time.

Prints:
    day  0: standing True, looked at again after a day
    day  4: standing True
    day  6: standing False, stale_state, in review for drift
            the claim that it holds: retracted, since a later reading shows that it no longer holds.
    day  8: the system of record is down: still retracted, nothing new is said
    day 11: standing True, the claim that it holds: reinstated
    day 40: the watch is over, the tool was called 1 time
"""

from __future__ import annotations

import tempfile

from readback import Context, Outcome, Readback, Reading, action
from readback.testing.runtime_virtual import VirtualRuntime

time = VirtualRuntime(seed=1)
BEGIN_US = time.now_us()
DAY_S = 86_400
calls: list[str] = []
settings = {"mode": {"id": "mode", "tenant": "acme", "value": "open", "by": "human:ana", "version": 1}}
down = False


@action(
    kind="set",
    side_effect="low_risk_internal",
    target="setting/{requested.name}",
    identity={"target": "authoritative.id", "tenant": "authoritative.tenant", "actor": "authoritative.by"},
    ensure={"value": "authoritative.value == requested.value"},
    watch={"every": "1d", "for": "30d"},
)
def change(ctx: Context, name: str, value: str) -> object:
    calls.append(name)
    write(name, value, ctx.principal)
    return {"status": "ok"}


@change.read(source="settings", consistency="strong", independence="other_client")
def setting(ctx: Context, name: str, value: str) -> Reading:
    if down:
        raise ConnectionError("The settings cannot be reached.")
    row = settings[name]
    return Reading.of(dict(row), version=int(str(row["version"])))


def write(name: str, value: str, by: str) -> None:
    row = settings[name]
    settings[name] = {**row, "value": value, "by": by, "version": int(str(row["version"])) + 1}


def until(rb: Readback, day: int, action_id: str) -> Outcome:
    """What a worker would do until that day: go on with whatever is due, and sleep in between."""
    while (time.now_us() - BEGIN_US) / 1_000_000 < day * DAY_S:
        time.advance(DAY_S / 4)
        rb.resume()
    return rb.get(action_id)


def holds(rb: Readback, told: Outcome) -> str:
    claim = rb.claim(f"{told.id}:holds")
    return f"the claim that it holds: {claim.status}"


def main() -> None:
    global down
    with (
        tempfile.TemporaryDirectory() as folder,
        Readback.open(f"sqlite:///{folder}/r.db", tenant="acme", principal="agent:ops", runtime=time) as rb,
    ):
        told = rb.run(change(name="mode", value="strict"), operation="change 1")
        print(f"day  0: standing {told.standing}, looked at again after a day")
        told = until(rb, 4, told.id)
        print(f"day  4: standing {told.standing}")
        write("mode", "open", "human:bob")
        told = until(rb, 6, told.id)
        print(f"day  6: standing {told.standing}, {told.discrepancy}, in review for {told.review}")
        said = rb.claim(f"{told.id}:holds").said
        assert said is not None
        print(f"        {holds(rb, told)}, since {said.reason_text}")
        down = True
        told = until(rb, 8, told.id)
        print(f"day  8: the system of record is down: still {rb.claim(told.id).status}, nothing new is said")
        down = False
        write("mode", "strict", "human:ana")
        told = until(rb, 11, told.id)
        print(f"day 11: standing {told.standing}, {holds(rb, told)}")
        told = until(rb, 40, told.id)
        over = "over" if told.due_us is None else "going on"
        print(f"day 40: the watch is {over}, the tool was called {len(calls)} time")


if __name__ == "__main__":
    main()
