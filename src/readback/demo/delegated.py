"""The chapter of the delegation: a delegate claims success twice without success, and then completes its task.

The delegate's answers are recorded like tool answers. Postconditions read the result back from the order service. After
a refutation the delegate runs again with the reason and the task. `tally` compares reports with the truth at the time
of each answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, cast

from readback import AsyncReadback, Context, Delegated, Reading, Turn, delegation, reader
from readback.agent_errors import DelegationFailedError
from readback.canon.frozen import dataclass
from readback.delegations.api import Delegation
from readback.demo.contracts import ORDER
from readback.demo.desk import AGENT, TENANT, desk
from readback.demo.facts import Fact, order_has
from readback.demo.naive import overheard
from readback.demo.progress import Progress
from readback.demo.systems.launch import Systems

ORDER_ID, ADDRESS = "o-26", "26 Birch Lane"
TASK: Final = f"Send order {ORDER_ID} to {ADDRESS}, and mark it as packed."
OPERATION: Final = f"have {ORDER_ID} sent and packed"
MISREMEMBERED: Final = "62 Beech Lane"
MEANT = order_has(ORDER_ID, address=ADDRESS, status="packed")


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of the delegation. `answered`: the prompt and the truth of each answer, by attempt, counted from 0."""

    delegated: Delegated
    answered: Mapping[int, tuple[str, Fact]]


@overheard
def lying_delegate(ctx: Context, turn: Turn) -> str:
    """The delegate: a script instead of a model. From the third attempt on, the script reads its prompt."""
    if turn.attempt > 0:
        address = MISREMEMBERED
        if turn.attempt > 1 and (task := re.search(r"Send order \S+ to (.+), and mark", turn.prompt)):
            address = task[1]
        wanted = {"address": address, "status": "packed"}
        desk.shop.patch(ctx, "/orders/{id}", params={"id": str(turn.args["order_id"])}, json=wanted)
    return f"Done! {turn.args['order_id']} is packed and readdressed."


@reader(source="order-service", consistency="strong", independence="other_client")
def order_row(ctx: Context, args: Mapping[str, str]) -> Reading:
    return desk.records.get(ctx, "/orders/{id}", params={"id": args["order_id"]}, version="/version", stamp="/stamp")


def packer(answered: Callable[[Turn], None]) -> Delegation:
    """The delegation. Only its postconditions verify the work; `answered` is called with each answer."""

    @delegation(
        name="packer",
        target="order/{requested.args.order_id}",
        readers=[order_row],
        identity={name: ORDER[name] for name in ("target", "tenant", "actor", "stamp")},
        ensure={
            "address": "authoritative.address == requested.args.address",
            "packed": "authoritative.status == 'packed'",
        },
        within="400ms",
        late_window="0s",  # the delegate waits for the shop: once it has answered, nothing of it lands any more
    )
    def send(turn: Turn) -> str:
        answer = lying_delegate(turn.ctx, turn)
        answered(turn)
        return answer

    return send


async def delegate(ledger: str, systems: Systems, progress: Progress) -> Sent:
    """Run the delegate until its task is verified, at most three times."""
    progress.chapter("A delegated agent says that it is done")
    answered: dict[int, tuple[str, Fact]] = {}

    def note(turn: Turn) -> None:
        answered[turn.attempt] = (turn.prompt, MEANT(systems.truth))

    sent, given = packer(note), {"order_id": ORDER_ID, "address": ADDRESS}
    async with AsyncReadback.open(
        ledger, tenant=TENANT, principal=AGENT, run="delegation", actions=[sent.action]
    ) as rb:
        with progress.doing(OPERATION):
            try:
                delegated = await sent.run_async(rb, TASK, operation=OPERATION, args=given)
            except DelegationFailedError as error:
                delegated = cast("Delegated", error.delegated)
    for number, outcome in enumerate(delegated.outcomes):
        if number in answered:
            progress.ended(f"attempt {number + 1}", outcome, beneath=f"told: {answered[number][0].splitlines()[0]}")
    return Sent(delegated, answered)
