"""What the fleet does: parcels are sent, by a tool that behaves as the operation's name says.

`op` ends in a word: `plain`; `slow` (time passes before the effect, and after it); `unanswered` (there is an effect,
and the tool fails); `refused` (it fails, and there is none); `late` (the tool answers, and the effect is there a little
later, if the process lives so long).
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import ClassVar

from readback import Context, Reading, action
from tests.fleet.record import Record

TENANT = "acme"
MANNERS = ("plain", "plain", "plain", "slow", "slow", "unanswered", "refused", "late")
SLOW_S = 0.15
LATE_S = 0.3


class Here:
    """What the process that runs has at hand."""

    record: ClassVar[Record] = Record(Path())


@action(
    kind="create", side_effect="low_risk_internal", target="parcel/{requested.op}",
    identity={"target": "authoritative.target", "tenant": "authoritative.tenant"},
    ensure={"there": "authoritative.op == requested.op"}, execute={"timeout": "2s"},
    within="2s", polls=["0s", "200ms", "500ms"], late_window="3s",
)  # fmt: skip
def send(ctx: Context, op: str) -> object:
    """Sends a parcel, in the manner that its name says."""
    manner = op.rpartition(" ")[2]
    if manner == "refused":
        raise ConnectionRefusedError("the office is closed")
    if manner == "late":
        threading.Timer(LATE_S, Here.record.make, (op, ctx.stamp)).start()
        return {"status": "accepted"}
    if manner == "slow":
        time.sleep(SLOW_S)
    Here.record.make(op, ctx.stamp)
    if manner == "slow":
        time.sleep(SLOW_S)
    if manner == "unanswered":
        raise ConnectionResetError("the line broke")
    return {"status": "ok"}


@send.read(source="office", consistency="strong", independence="other_client", attributes=True)
def sent(ctx: Context, op: str) -> Reading:
    """The parcel as the office has it."""
    found = Here.record.of(op)
    if not found:
        return Reading.absent()
    return Reading.of({"op": op, "target": f"parcel/{op}", "tenant": TENANT}, stamp=found[-1].stamp)


@send.find
def all_sent(ctx: Context, op: str) -> list[Reading]:
    """Every parcel that bears the stamp."""
    found = Here.record.by(ctx.stamp)
    return [
        Reading.of({"op": each.op, "target": f"parcel/{each.op}", "tenant": TENANT}, stamp=each.stamp) for each in found
    ]
