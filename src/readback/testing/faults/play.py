"""Play a fault against a contract, under virtual time and with a ledger in memory.

An honest run of the same contract comes first in the same ledger. The honest run shows that the world fits the
contract, and gives the search by stamp its earlier sighting.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeVar

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.context import Context
from readback.domain.contract.contract import Contract
from readback.domain.outcome.outcome import Outcome
from readback.domain.recovery.table import DEFAULT_TABLE, RecoveryTable
from readback.engine import coordinator
from readback.engine.compiled_contract import CallerContext, CompiledContract, Request
from readback.engine.effects import Effects
from readback.engine.engine import Engine
from readback.errors import NotFoundError, UsageError
from readback.ports.handlers import Handler, Handlers
from readback.testing.driver_virtual import Parked, VirtualDriver
from readback.testing.faults.fault import Fault, FaultWorld, NotInjectable, Scene, Truth, misfit
from readback.testing.runtime_virtual import US_PER_SECOND, VirtualRuntime
from readback.testing.store_memory import MemoryStore

T = TypeVar("T")
DUE_MAX: Final = 16
TENANT: Final = "a-tenant"
PRINCIPAL: Final = "agent:injection"
_COMMITTED: Final = (Fault.DUPLICATE, Fault.STALE_READ_CONFIRMS, Fault.TIMEOUT_AFTER_COMMIT)
"""Faults of a tool that commits by itself."""
APART_S: Final = 60.0
"""The time between the honest run and the faulty run, in seconds."""


@dataclass(frozen=True, slots=True)
class Played:
    """A played run: the outcome, the truth, and the calls of the tool."""

    fault: Fault
    outcome: Outcome
    truth: Truth
    calls: int
    repeated: Outcome
    """The same operation, asked for again."""
    calls_after: int
    """The calls of the tool after the repetition."""


def substituted(plan: CompiledContract, scene: Scene) -> CompiledContract:
    """Return the contract with a scene in place of the tool and every read path."""
    hands, reversing = plan.hands, plan.compensation
    made = Handlers(
        Handler(hands.execute.name, scene.act),
        tuple(_reader(hand, index, scene) for index, hand in enumerate(hands.readers)),
        None if hands.find is None else Handler(hands.find.name, scene.find),
        None if hands.lookup is None else Handler(hands.lookup.name, scene.lookup),
        None if hands.rollback is None else Handler(hands.rollback.name, scene.reverse),
    )
    back = None
    if reversing is not None:
        back = substituted(reversing, scene)
        back = replace(back, hands=replace(back.hands, execute=Handler(reversing.hands.execute.name, scene.reverse)))
    return replace(plan, hands=made, compensation=back)


def _reader(hand: Handler, index: int, scene: Scene) -> Handler:
    def read(context: Context, arguments: object) -> object:
        return scene.read(index, context, arguments)  # type: ignore[arg-type]

    return Handler(hand.name, read)


def play(plan: CompiledContract, world: FaultWorld, fault: Fault, table: RecoveryTable = DEFAULT_TABLE) -> Played:
    """Play a fault after an honest run.

    Raises:
        NotInjectable: The fault has no meaning for this contract.
        WorldMisfitError: The honest run is not verified, so the world does not fit the contract.
        UsageError: The world states another contract, or arguments refused by the contract.
    """
    runtime = VirtualRuntime()
    store = MemoryStore()
    world.scene(plan, fault, runtime)  # first: a fault without meaning needs no run
    honest = world.scene(plan, Fault.NONE, runtime)
    stage = Stage(store, runtime, Engine(table), world)
    fit = stage.run(plan, honest, "an honest run")
    if not fit.verified or (honest.calls != 1 and plan.contract.kind.mutates):
        raise misfit(plan.contract, fit)
    if honest.staged and fault in _COMMITTED:
        raise NotInjectable("The tool leaves a transaction open, and the engine alone commits it.")
    if fault is Fault.NONE:
        return Played(fault, fit, honest.truth(), honest.calls, fit, honest.calls)
    runtime.advance(APART_S)
    scene = world.scene(plan, fault, runtime)  # a sandbox starts afresh, without the honest effect
    told = stage.run(plan, scene, f"a run with the fault {fault.value}")
    calls, truth = scene.calls, scene.truth()
    again = stage.run(plan, scene, f"a run with the fault {fault.value}")
    return Played(fault, told, truth, calls, again, scene.calls)


class Stage:
    """A ledger, a clock and an engine for the runs of a fault."""

    def __init__(self, store: MemoryStore, runtime: VirtualRuntime, engine: Engine, world: FaultWorld) -> None:
        self.store, self.runtime, self.engine, self.world = store, runtime, engine, world
        self.plans: dict[str, CompiledContract] = {}

    def run(self, plan: CompiledContract, scene: Scene, operation: str) -> Outcome:
        """Run the world's action in a scene, up to the first settled outcome."""
        bent = self.know(plan, scene)
        request, scope = request_of(bent, self.world.arguments, operation), scope_of(plan.contract)
        handle = coordinator.ActionHandle()
        return self.drive(coordinator.begin(self.engine, request, scope, self.plans.get, handle))

    def know(self, plan: CompiledContract, scene: Scene) -> CompiledContract:
        """Let a scene take the place of the contract's system from now on."""
        bent = substituted(plan, scene)
        self.plans[plan.contract.name] = bent
        if bent.compensation is not None:
            self.plans[bent.compensation.contract.name] = bent.compensation
        return bent

    def drive(self, work: Effects[T]) -> T:
        """Drive work to the end, in a process of its own."""
        told = VirtualDriver(self.store, self.runtime).drive(work)
        if isinstance(told, Parked):
            raise NotFoundError(f"The action {told.action_id} did not settle.")
        return told

    def work_on(self, action_id: str, horizon_us: int) -> Outcome:
        """Process due actions as a worker does, up to the horizon, and return the action's outcome."""
        limit = self.runtime.now_us() + horizon_us
        while (due := self.store.next_due_us()) is not None and due <= limit:
            self.runtime.advance(max(due - self.runtime.now_us(), 0) / US_PER_SECOND)
            for each in self.store.due(due, DUE_MAX):
                self.drive(coordinator.advance(self.engine, each, TENANT, self.plans.get))
        return self.drive(coordinator.current_outcome(action_id, TENANT))


def request_of(plan: CompiledContract, arguments: object, operation: str) -> Request:
    if plan.bind is None or not isinstance(arguments, dict | type(None)):
        raise UsageError(
            f"The contract {plan.contract.name!r} takes no arguments by name.",
            remedy="State the world of an action, not of a compensation.",
        )
    given: dict[str, Json] = dict(arguments or {})
    bound, requested = plan.bind(given)
    return Request(plan, bound, requested, operation)


def scope_of(contract: Contract) -> CallerContext:
    """A permitted caller, so the run reaches the tool."""
    principal = contract.principals[0] if contract.principals else PRINCIPAL
    return CallerContext(TENANT, principal, break_glass="a release gate", scopes=contract.scopes)
