"""The ground truth of every task, and one of its calls run through Readback in a world with a fault.

Used by the tests. A call is run in the state that the honest calls before it lead to, by the authors' own tools.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from readback.client.authoring.action import ActionDefinition
from readback.client.client import Readback
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import State
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.agentdojo import banking, expected, reading, records, slack
from tests.agentdojo.faults import HONEST, Fault
from tests.agentdojo.loader import Suite
from tests.agentdojo.world import World

ROUNDS_MAX = 40
WHO: Mapping[str, tuple[str, str]] = {"banking": (banking.IBAN, "agent:ops"), "slack": (slack.TENANT, slack.BOT)}
"""Tenant and principal of a suite: a bank account is its own tenant; the workspace knows us as its bot."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a ground truth, with the environment as it is before it."""

    task: str
    number: int
    tool: str
    arguments: Mapping[str, Any]
    environment: Any

    @property
    def mutates(self) -> bool:
        return expected.changes(self.tool)

    @property
    def name(self) -> str:
        return f"{self.task} call {self.number} {self.tool}"


def calls(suite: Suite) -> Iterator[Call]:
    """Every call of every version of every task, in order."""
    for task in suite.tasks:
        environment = task.init(suite.environment())
        for number, call in enumerate(task.calls(environment), 1):
            version = ".".join(map(str, task.version))
            before = environment.model_copy(deep=True)
            yield Call(f"{suite.name} {task.id} v{version}", number, call.function, dict(call.args), before)
            suite.runtime.run_function(environment, call.function, dict(call.args), raise_on_error=True)


def distinct(suite: Suite) -> list[Call]:
    """The calls that are meant to change something, each once: versions of tasks repeat each other."""
    found: dict[str, Call] = {}
    for call in calls(suite):
        if call.mutates:
            state = records.digest([call.environment.model_dump(), call.tool, dict(call.arguments)])
            found.setdefault(state, call)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Told:
    """What Readback told, and what was true at that moment."""

    outcome: Outcome
    is_true: bool
    """The whole state is exactly what the arguments ask for."""
    touched: bool
    """Something of ours has changed the state."""

    @property
    def lies(self) -> str:
        """What is wrong with what was told; empty where nothing is."""
        outcome = self.outcome
        if outcome.verified is not (outcome.state is State.RECONCILED_SUCCESS):
            return "verified and state contradict each other"
        if outcome.verified is not ("completed successfully" in outcome.message):
            return "the message and the verdict contradict each other"
        if outcome.verified and not self.is_true:
            return "told as done, and it is not"
        if outcome.state is State.FAILED and self.is_true and self.touched:
            return "told as failed, and it is done"
        if outcome.may_repeat and self.touched:
            return "said to be repeatable, and something was done"
        return ""


class Stage:
    """A suite with its contracts made once, on which any number of calls are run, each in a world of its own."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.world = World(suite)
        made = banking.actions(self.world) if suite.name == "banking" else slack.actions(self.world)
        self.actions: dict[str, ActionDefinition[Any]] = {**made, **reading.actions(self.world)}

    def applies(self, call: Call, fault: Fault) -> bool:
        self.world.set_up(call.environment.model_copy(deep=True), VirtualRuntime())
        return fault.applies(self.world, call.tool, self._arguments(call))

    def run(self, call: Call, fault: Fault = HONEST) -> list[Told]:
        """All that is told of one call, in order: its outcome, and what becomes of it while more may land."""
        world, runtime, store = self.world, VirtualRuntime(), MemoryStore()
        world.set_up(call.environment.model_copy(deep=True), runtime, fault.act)
        before = world.state()
        wanted = expected.after(before, call.tool, self._arguments(call))
        if fault.meanwhile is not None:
            fault.meanwhile(wanted)

        def told(outcome: Outcome) -> Told:
            state = world.state()
            return Told(outcome, state == wanted, state != before and not fault.nothing_ours)

        tenant, principal = WHO[self.suite.name]
        action = self.actions[call.tool]
        opened = Readback.open(tenant=tenant, principal=principal, store=store, runtime=runtime, actions=[action])
        with opened as rb:
            said = [told(rb.run(action(**call.arguments), operation=call.name))]
            for _ in range(ROUNDS_MAX):
                due_us = store.next_due_us()
                if due_us is None:
                    break
                runtime.advance(max(due_us - runtime.now_us(), 0) / 1_000_000)
                said += [told(outcome) for outcome in rb.resume()]
        assert len(world.calls) <= 1, "a tool was called twice for one operation"
        return said

    def look_only(self, call: Call) -> Outcome:
        """The outcome of one call in the world as it is set up, and nothing after it."""
        tenant, principal = WHO[self.suite.name]
        action = self.actions[call.tool]
        store, runtime = MemoryStore(), self.world.runtime
        with Readback.open(tenant=tenant, principal=principal, store=store, runtime=runtime) as rb:
            return rb.run(action(**call.arguments), operation=call.name)

    def _arguments(self, call: Call) -> dict[str, Any]:
        """The arguments as the tool gets them: with its defaults."""
        return dict(self.actions[call.tool].arguments.bind((), call.arguments).requested)
