"""A process that runs operations when it is told to, on real time, beside another one that does the same.

    python -m tests.crash.racer FOLDER

On stdin: the name of an operation a line; `hold NAME` runs it with a tool that never comes back. On stdout: `ready`,
`calling` when a tool is in such a call, and each outcome as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from readback import Context, Readback, Reading, action
from tests.crash.world import World

holding = False
world = World(Path())


@action(
    kind="create", side_effect="low_risk_internal", target="note/{requested.name}",
    identity={"target": "authoritative.target", "tenant": "authoritative.tenant"},
    ensure={"there": "authoritative.value == requested.value"}, within="5s", polls=["0s", "100ms"],
)  # fmt: skip
def post(ctx: Context, name: str, value: str) -> object:
    world.called("post", ctx.stamp, ctx.idempotency_key, ctx.attempt)
    world.add("post", ctx.stamp, ctx.idempotency_key, f"note/{name}", value)
    if holding:
        say("calling")
        threading.Event().wait()  # until the process is killed
    return {"status": "ok"}


@post.read(source="world", consistency="strong", independence="other_client", attributes=True)
def posted(ctx: Context, name: str, value: str) -> Reading:
    rows = world.visible(2**62, target=f"note/{name}")
    return Reading.of({**rows[-1], "tenant": "acme"}, stamp=str(rows[-1]["stamp"])) if rows else Reading.absent()


@post.find
def found(ctx: Context, name: str, value: str) -> list[Reading]:
    rows = world.visible(2**62, stamp=ctx.stamp)
    return [Reading.of({**row, "tenant": "acme"}, stamp=ctx.stamp) for row in rows]


def say(what: str) -> None:
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


def race(rb: Readback, operation: str) -> dict[str, Any]:
    return rb.run(post(name=operation, value="v"), operation=operation).as_json()


def main(folder: Path) -> None:
    global holding, world
    world = World(folder / "world.db")
    with Readback.open(f"sqlite:///{folder}/ledger.db", tenant="acme", principal="agent:racer", actions=[post]) as rb:
        say("ready")
        for line in sys.stdin:
            word, _, rest = line.strip().partition(" ")
            holding = word == "hold"
            say(json.dumps(race(rb, rest if holding else word)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
