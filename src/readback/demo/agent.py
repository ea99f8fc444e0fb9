"""The agent at the order desk: a script instead of a model, so that every morning is the same.

The agent acts only through Readback and believes only outcomes. Independent steps run side by side, on one event loop
and one ledger.
"""

from __future__ import annotations

import asyncio

from readback import AsyncReadback, Outcome, State
from readback.canon.frozen import dataclass
from readback.demo import crash, morning
from readback.demo.desk import Addresses
from readback.demo.morning import Step
from readback.demo.progress import Progress
from readback.demo.systems.launch import Systems
from readback.ports.runtime import Runtime

NOT_ON_RECORD = "No such action is on record; nothing may be told of it."


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a step. `first`: the text of the agent's first report, before the outcome was settled."""

    step: Step
    outcome: Outcome | None
    first: str = ""


@dataclass(slots=True)
class Agent:
    """Works through the morning and collects the result of each step."""

    rb: AsyncReadback
    systems: Systems
    addresses: Addresses
    ledger: str
    runtime: Runtime
    progress: Progress
    done: list[Done]

    async def work(self) -> list[Done]:
        """Run the whole morning in order."""
        await self.side_by_side("The desk opens", morning.OPENING)
        await self.side_by_side("The rush: time-outs, losses, halves", morning.RUSH)
        await self.lose_a_worker(morning.KILLED)
        await self.side_by_side("Noon: stale views, late mail, wrong places", morning.NOON)
        await self.side_by_side("The afternoon: reversals and claims", morning.AFTERNOON)
        await self.through_an_outage(morning.OUTAGE)
        return self.done

    async def side_by_side(self, title: str, steps: tuple[Step, ...]) -> None:
        """Run independent steps side by side."""
        self.progress.chapter(title)
        for step in steps:
            self._spoil(step)
        earlier = {each.step.name: each.outcome for each in self.done if each.outcome is not None}
        async with asyncio.TaskGroup() as together:
            begun = [together.create_task(self._do(step, earlier)) for step in steps]
        self.done += [each.result() for each in begun]

    async def _do(self, step: Step, earlier: morning.Earlier) -> Done:
        if step.propose is None:
            return await self._claimed(step)
        with self.progress.doing(step.name):
            # Calling an action only proposes. The operation names the intent: under one name it is executed once.
            outcome = await self.rb.run(step.propose(earlier), operation=step.name, wait=step.wait)
            first = ""
            if not outcome.settled:
                first = outcome.message
                self.progress.note(f"{step.name}: an early report receives: {first}")
                outcome = await self.rb.wait(outcome.id)
        self.progress.ended(step, outcome)
        return Done(step, outcome, first)

    async def _claimed(self, step: Step) -> Done:
        """The model claims an action. The record has no such action, so there is nothing to report."""
        assert step.claims is not None
        contract, target = step.claims
        on_record = [each for each in await self.rb.list(contract=contract) if each.target == target]
        outcome = on_record[0] if on_record else None
        self.progress.ended(step, outcome, NOT_ON_RECORD)
        return Done(step, outcome)

    async def lose_a_worker(self, step: Step) -> None:
        """Kill a worker before the tool's answer arrives, and let another worker resume."""
        self.progress.chapter("A worker is killed, and another resumes")
        self._spoil(step)
        charge = {"order_id": "o-23", "amount_cents": 3875}
        with self.progress.doing(step.name):
            worker = await crash.start(self.ledger, self.addresses, charge=charge, operation=step.name)
            await crash.kill_when(worker, lambda: bool(self.systems.truth.charges("o-23")), self.runtime)
            left = await self._of_operation("charge_card", step.name)
            self.progress.note(f"worker {worker.pid} killed (SIGKILL); the ledger says: {left.message}")
            second = await crash.start(self.ledger, self.addresses)
            self.progress.note(f"worker {second.pid} processes due actions")
            await crash.finish(second)
            outcome = await self._of_operation("charge_card", step.name)
        self.progress.ended(step, outcome)
        self.done.append(Done(step, outcome, left.message))

    async def _of_operation(self, contract: str, operation: str) -> Outcome:
        found = [each for each in await self.rb.list(contract=contract) if each.operation == operation]
        assert len(found) == 1, f"{len(found)} actions of the operation {operation!r}"
        return found[0]

    async def through_an_outage(self, step: Step) -> None:
        """The system of record fails after the action. Unknown stays unknown until a reading succeeds."""
        self.progress.chapter("The shop goes dark")
        self._spoil(step)
        done = await self._do(step, {})
        assert done.outcome is not None
        before = done.outcome
        self.systems.clear_faults()
        if before.state is State.UNKNOWN:
            self.progress.note("the shop is back; its webhook makes the action due, and Readback reads again")
            self.rb.signal(before.id)  # a signal decides nothing: it only brings the next reading forward
            await self.rb.resume()
        outcome = await self.rb.get(before.id)
        self.progress.ended(step, outcome)
        self.done.append(Done(step, outcome, before.message))

    def _spoil(self, step: Step) -> None:
        for fault in step.faults:
            self.systems.fault(
                fault.name, system=fault.system, match=dict(fault.match), times=fault.times, **fault.params
            )
