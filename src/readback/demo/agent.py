"""The agent at the order desk: a script instead of a model, so that every morning is the same.

The agent acts only through Readback and believes only outcomes. Independent steps run side by side, on one event loop
and one ledger. One worker is killed between attempt and readback by a real SIGKILL of a real process at the worst
moment: the card is charged, and no answer has arrived. The second worker knows only the ledger.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from readback import AsyncReadback, Outcome, State
from readback.canon.frozen import dataclass
from readback.demo import morning
from readback.demo.morning import Step
from readback.demo.progress import Progress
from readback.demo.systems.launch import Systems
from readback.ports.runtime import Runtime

NOT_ON_RECORD = "No such action is on record; nothing may be told of it."
SOURCE = str(Path(__file__).resolve().parents[2])
GIVE_UP_S = 20.0
LOOK_EVERY_S = 0.02


class WorkerError(RuntimeError):
    """A worker ended in an unexpected way."""


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

    async def _do(self, step: Step, earlier: Mapping[str, Outcome]) -> Done:
        first = ""
        if step.propose is None:
            # The model claims an action. The record has no such action, so there is nothing to report.
            contract, target = step.claims
            outcome = next((each for each in await self.rb.list(contract=contract) if each.target == target), None)
        else:
            with self.progress.doing(step.name):
                # Calling an action only proposes. The operation names the intent: under one name it is executed once.
                outcome = await self.rb.run(step.propose(earlier), operation=step.name, wait=step.wait)
                if not outcome.settled:
                    first = outcome.message
                    self.progress.note(f"{step.name}: an early report receives: {first}")
                    outcome = await self.rb.wait(outcome.id)
        self.progress.ended(step.name, outcome, instead=NOT_ON_RECORD, beneath=step.spoiled)
        return Done(step, outcome, first)

    async def lose_a_worker(self, step: Step) -> None:
        """Kill a worker before the tool's answer arrives, and let another worker resume."""
        self.progress.chapter("A worker is killed, and another resumes")
        self._spoil(step)
        with self.progress.doing(step.name):
            worker = await self._worker(charge=morning.KILLED_CHARGE, operation=step.name)
            await self._kill_when(worker, lambda: bool(self.systems.truth.charges("o-23")))
            left = await self.rb.find_operation(step.name)
            assert left is not None
            self.progress.note(f"worker {worker.pid} killed (SIGKILL); the ledger says: {left.message}")
            second = await self._worker()
            self.progress.note(f"worker {second.pid} processes due actions")
            await _finish(second)
            outcome = await self.rb.get(left.id)
        self.progress.ended(step.name, outcome, beneath=step.spoiled)
        self.done.append(Done(step, outcome, left.message))

    async def through_an_outage(self, step: Step) -> None:
        """The system of record fails after the action. Unknown stays unknown until a reading succeeds."""
        self.progress.chapter("The shop goes dark")
        self._spoil(step)
        before = (await self._do(step, {})).outcome
        assert before is not None
        self.systems.clear_faults()
        if before.state is State.UNKNOWN:
            self.progress.note("the shop is back; its webhook makes the action due, and Readback reads again")
            self.rb.signal(before.id)  # a signal decides nothing: it only brings the next reading forward
            await self.rb.resume()
        outcome = await self.rb.get(before.id)
        self.progress.ended(step.name, outcome, beneath=step.spoiled)
        self.done.append(Done(step, outcome, before.message))

    def _spoil(self, step: Step) -> None:
        for fault in step.faults:
            fault.order(self.systems)

    async def _worker(self, **order: object) -> asyncio.subprocess.Process:
        """Start a worker: with `charge` and `operation` for one action, otherwise to process due actions."""
        paths = [SOURCE, *filter(None, [os.environ.get("PYTHONPATH")])]
        told = json.dumps({"ledger": self.ledger, "addresses": self.systems.addresses, **order})
        pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        program = (sys.executable, "-P", "-m", "readback.demo.worker", told)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        return await asyncio.create_subprocess_exec(*program, stdin=none, stdout=none, stderr=pipe, env=environment)

    async def _kill_when(self, worker: asyncio.subprocess.Process, landed: Callable[[], bool]) -> None:
        """Wait for the effect, and kill the worker behind it."""
        give_up_us = self.runtime.now_us() + int(GIVE_UP_S * 1_000_000)
        try:
            while not landed():
                if worker.returncode is not None or self.runtime.now_us() > give_up_us:
                    raise WorkerError(f"The worker ended with {worker.returncode} before its effect had landed.")
                await self.runtime.sleep_async(LOOK_EVERY_S)
        finally:
            await _stop(worker)


async def _finish(worker: asyncio.subprocess.Process) -> None:
    """Wait until a worker ends. Raises WorkerError after a failure."""
    try:
        async with asyncio.timeout(GIVE_UP_S):
            _, said = await worker.communicate()
    finally:
        await _stop(worker)
    if worker.returncode != 0:
        raise WorkerError(f"The second worker failed: {said.decode(errors='replace')[-2_000:]}")


async def _stop(worker: asyncio.subprocess.Process) -> None:
    """End the process by SIGKILL, if it still runs."""
    if worker.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            worker.kill()
        await worker.wait()
