"""Many actions at once on one event loop: one ledger, one engine, commits shared between what is in flight.

Run it with `python examples/05-async-many.py`. Sync and async functions may stand side by side in one contract.

Prints:
    50 of 50 verified
    the world counts 50 effects, each once
    ledger: 50 actions in state reconciled_success
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter

from readback import AsyncReadback, Context, Outcome, Reading, action

queue: dict[str, dict[str, object]] = {}
effects: Counter[str] = Counter()


@action(
    kind="create",
    side_effect="medium_risk_write",
    target="job/{requested.name}",
    identity={
        "target": "authoritative.name",
        "tenant": "authoritative.tenant",
        "actor": "authoritative.by",
        "stamp": "authoritative.stamp",
    },
    ensure={"queued": "authoritative.state == 'queued'", "size": "authoritative.size == requested.size"},
    execute={"timeout": "5s"},
    within="5s",
)
async def enqueue(ctx: Context, name: str, size: int) -> object:
    """Stands for an API of somebody else's: it keeps the stamp inside what it makes."""
    queue[name] = {
        "name": name, "tenant": ctx.tenant, "by": ctx.principal, "stamp": ctx.stamp, "state": "queued", "size": size,
    }  # fmt: skip
    effects[name] += 1
    return {"id": name, "accepted": True}


@enqueue.read(source="queue", consistency="strong", independence="other_client")
async def job(ctx: Context, name: str, size: int) -> Reading:
    found = queue.get(name)
    return Reading.of(found) if found else Reading.absent()


@enqueue.find
def jobs_with_our_stamp(ctx: Context, name: str, size: int) -> list[Reading]:
    return [Reading.of(each) for each in queue.values() if each["stamp"] == ctx.stamp]


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/readback.db"
        async with AsyncReadback.open(url, tenant="acme", principal="agent:ops") as rb:

            async def one(number: int) -> Outcome:
                # The operation id is the intent's, so a second run of the same number executes nothing.
                return await rb.run(enqueue(name=f"job-{number}", size=number), operation=f"night run, job {number}")

            outcomes = await asyncio.gather(*(one(number) for number in range(50)))
            await asyncio.gather(*(one(number) for number in range(50)))
            print(f"{sum(outcome.verified for outcome in outcomes)} of {len(outcomes)} verified")
            once = all(count == 1 for count in effects.values())
            print(f"the world counts {effects.total()} effects, {'each once' if once else 'some twice'}")
            done = await rb.list(state="reconciled_success", limit=100)
            print(f"ledger: {len(done)} actions in state reconciled_success")


if __name__ == "__main__":
    asyncio.run(main())
