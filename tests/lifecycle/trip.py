"""A trip for one test: a saga of five steps over a world that does as it is told, under virtual time, with crashes.

The world is a set of bookings by step. It notes each call of a tool and of an undo, with what it found, so that a test
can say what happened and in which order; whoever goes on after a crash has the ledger and the same world.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Final

from readback.audit.checks.ledger import audit
from readback.canon import Json
from readback.client.authoring.action import ActionDefinition, action
from readback.client.session import Session
from readback.client.step import SagaStep, from_step
from readback.domain.context import Context
from readback.domain.events import Event, EventKind, open_envelope
from readback.domain.outcome.outcome import Outcome
from readback.domain.saga.fold import Saga
from readback.domain.saga.outcome import SagaOutcome
from readback.domain.state import State
from readback.domain.verification.reading import Reading
from readback.engine import coordinator
from readback.engine.compiled_contract import CallerContext
from readback.engine.saga import attend as saga_attend
from readback.engine.saga_run import fold_saga
from readback.ports.handlers import Handler, Handlers
from readback.ports.storage.store import LedgerStore
from readback.testing.driver_virtual import CallHangs, Parked, ProcessDied, VirtualDriver
from readback.testing.runtime_virtual import START_US, VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.lifecycle.sightings import prove

S: Final = 1_000_000
TENANT: Final = "acme"
DAY: Final = 86_400
TERMS: Final[dict[str, Any]] = {
    "kind": "create",
    "side_effect": "low_risk_internal",
    "target": "booking/{requested.trip}",
    "identity": {
        "target": "authoritative.id",
        "tenant": "authoritative.tenant",
        "stamp": "authoritative.stamp",
    },
    "ensure": {"price": "authoritative.price == requested.price"},
    "within": "10s",
    "polls": ["0s", "2s", "4s"],
    "deadline": "90s",
    "late_window": "60s",
    "execute": {"timeout": "1s"},
}


@dataclass
class World:
    """Bookings by step and trip. `faults`: how a step's tool fails; `undo_faults` the same of its reversal.

    Faults: "refused" (nothing, and it says so), "lost" (landed, no answer), "vanished" (nothing, no answer), "wrong"
    (another price), "late" (landed after 30 seconds, no answer), "once" (refused the first time). "blind" makes the
    reader fail. Of a reversal also "lies" (nothing, and ok), "partly" (changed, and not taken back), "forestalled"
    (another client took it back a moment before).
    """

    runtime: VirtualRuntime
    rows: dict[tuple[str, str], dict[str, Json]] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    undo_faults: dict[str, str] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    landed: list[str] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)
    keys: dict[str, set[str]] = field(default_factory=dict)
    undo_keys: dict[str, set[str]] = field(default_factory=dict)
    empty_undos: list[str] = field(default_factory=list)
    late: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    def now(self) -> float:
        self_now = (self.runtime.now_us() - START_US) / S
        for at, land in [each for each in self.late if each[0] <= self_now]:
            self.late.remove((at, land))
            land()
        return self_now

    def act(self, name: str, ctx: Context, trip: str, price: int) -> object:
        self.now()
        self.calls.append(name)
        self.keys.setdefault(name, set()).add(ctx.idempotency_key)
        fault = self.faults.get(name, "")
        if fault == "once":
            del self.faults[name]
        match fault:
            case "refused" | "once":
                return (422, {"error": "no rooms"})
            case "vanished":
                raise CallHangs
            case "late":
                self.late.append((self.now() + 30, lambda: self._land(name, ctx, trip, price)))
                raise CallHangs
        self._land(name, ctx, trip, price + 1 if fault == "wrong" else price)
        if fault == "lost":
            raise CallHangs
        return {"ok": True}

    def _land(self, name: str, ctx: Context, trip: str, price: int) -> None:
        if (name, trip) in self.rows:
            return  # one key, one effect
        self.landed.append(name)
        row: dict[str, Json] = {
            "id": trip,
            "tenant": TENANT,
            "price": price,
            "stamp": ctx.stamp,
            "ref": f"{name}-{trip}",
        }
        self.rows[name, trip] = row

    def read(self, name: str, trip: str) -> Reading:
        self.now()
        if self.faults.get(name) == "blind":
            raise OSError("no route")
        row = self.rows.get((name, trip))
        return Reading.absent() if row is None else Reading.of(row, stamp=str(row["stamp"]))

    def find(self, name: str, trip: str, ctx: Context) -> list[Reading]:
        found = self.read(name, trip)
        return [found] if found.stamp == ctx.stamp else []

    def undo(self, name: str, ctx: Context, trip: str) -> object:
        self.now()
        if ctx.idempotency_key not in self.undo_keys.setdefault(name, set()):
            self.undone.append(name)
        self.undo_keys[name].add(ctx.idempotency_key)
        if (name, trip) not in self.rows:
            self.empty_undos.append(name)
        match self.undo_faults.get(name, ""):
            case "lies":
                return {"ok": True}
            case "lost":
                self.rows.pop((name, trip), None)
                raise CallHangs
            case "refused":
                return (500, {})
            case "vanished":
                raise CallHangs
            case "late":
                self.late.append((self.now() + 30, lambda: self.rows.pop((name, trip), None)))
                raise CallHangs
            case "once":
                del self.undo_faults[name]
                raise OSError("the line broke")
            case "partly":
                self.rows[name, trip] = {**self.rows[name, trip], "price": 0, "stamp": ctx.stamp}
                return {"ok": True}
            case "forestalled":
                self.rows.pop((name, trip), None)
                return (404, {"error": "not found"})
        self.rows.pop((name, trip), None)
        return {"ok": True}


def contract(world: World, name: str, *, undo: dict[str, Any] | None = None, **terms: Any) -> ActionDefinition[Any]:
    """One contract on the world, with a compensation unless `undo` is {}."""

    def act(ctx: Context, trip: str, price: int, ref: str = "") -> object:
        return world.act(name, ctx, trip, price)

    def read(ctx: Context, trip: str, price: int, ref: str = "") -> Reading:
        return world.read(name, trip)

    def take_back(ctx: Context, trip: str, price: int, ref: str = "") -> object:
        return world.undo(name, ctx, trip)

    made: ActionDefinition[Any] = action(**{**TERMS, "name": name, **terms})(act)
    made.read(source=name, consistency="strong", independence="other_client", timeout="1s", attributes=True)(read)
    made.find(complete=True)(lambda ctx, trip, price, ref="": world.find(name, trip, ctx))
    if undo != {}:
        back = made.compensate(
            **{
                "name": f"undo_{name}",
                "kind": "delete",
                "ensure": {"gone": "authoritative == null"},
                "within": "10s",
                "polls": ["0s", "2s"],
                "deadline": "90s",
                "late_window": "60s",
                **(undo or {}),
            }
        )(take_back)
        back.find(complete=True)(lambda ctx, trip, price, ref="": [])
    return made


class Seat(World):
    """Stands for the world of whichever trip calls, in contracts that are compiled once for all trips."""

    def __init__(self) -> None:
        self.taken: World

    def act(self, name: str, ctx: Context, trip: str, price: int) -> object:
        return self.taken.act(name, ctx, trip, price)

    def read(self, name: str, trip: str) -> Reading:
        return self.taken.read(name, trip)

    def find(self, name: str, trip: str, ctx: Context) -> list[Reading]:
        return self.taken.find(name, trip, ctx)

    def undo(self, name: str, ctx: Context, trip: str) -> object:
        return self.taken.undo(name, ctx, trip)


_COMPILED: dict[str, tuple[Seat, ActionDefinition[Any], object]] = {}
"""By what each was made of, which is kept with it: two that are there at once have not the same address."""


def compiled(world: World, name: str, undo: dict[str, Any] | None, terms: dict[str, Any]) -> ActionDefinition[Any]:
    """As `contract`, loaded: compiled where nobody had the same before. To compile takes longer than many a trip."""
    made_of = repr((name, undo, terms))
    if made_of not in _COMPILED:
        seat = Seat()
        _COMPILED[made_of] = seat, contract(seat, name, undo=undo, **terms), (undo, terms)
    seat, made, _ = _COMPILED[made_of]
    return _seated(made, seat, world)


def _seated(made: ActionDefinition[Any], seat: Seat, world: World) -> ActionDefinition[Any]:
    """The same action upon this world; so is its reversal."""
    back = _seated(made.compensation, seat, world) if made.compensation is not None else None
    plan, hands = made.plan, made.plan.hands
    one = copy(made)
    one._compensation = back
    one._loaded = (
        replace(
            plan,
            hands=Handlers(
                _seats(hands.execute, seat, world),
                tuple(_seats(each, seat, world) for each in hands.readers),
                hands.find and _seats(hands.find, seat, world),
                hands.lookup and _seats(hands.lookup, seat, world),
                hands.rollback and _seats(hands.rollback, seat, world),
            ),
            compensation=back.plan if back is not None else None,
        ),
        made.arguments,
    )
    return one


def _seats(hand: Handler, seat: Seat, world: World) -> Handler:
    assert not hand.is_async, "it would look for its world after another trip has taken the seat"

    def call(ctx: Context, arguments: Mapping[str, object]) -> object:
        seat.taken = world
        return hand.call(ctx, arguments)

    return Handler(hand.name, call)


AFTER: Final[dict[str, Any]] = {"execute": {"timeout": "1s", "honours_key": True, "key_valid_for": "30d"}}


@dataclass(slots=True)
class Trip:
    """One process with a ledger. `die` ends it; the next one goes on with the same ledger and the same world."""

    store: LedgerStore = field(default_factory=MemoryStore)
    runtime: VirtualRuntime = field(default_factory=VirtualRuntime)
    world: World = field(init=False)
    keyed: bool = False
    """Every tool honours its key, so that an attempt that died before its call may be made again."""
    scope: CallerContext = field(
        default_factory=lambda: CallerContext(TENANT, "agent:ops", run="run-1", trace="trace-1")
    )
    session: Session = field(init=False)
    driver: VirtualDriver = field(init=False)
    contracts: dict[str, ActionDefinition[Any]] = field(default_factory=dict)
    alive: int = 0

    def __post_init__(self) -> None:
        self.world = World(self.runtime)
        self.session = Session(self.store, self.runtime, self.scope)
        self.driver = VirtualDriver(self.store, self.runtime)

    def load(self, name: str, *, undo: dict[str, Any] | None = None, **terms: Any) -> ActionDefinition[Any]:
        if self.keyed:
            terms = {**AFTER, **terms}
            undo = undo if undo == {} else {**AFTER, **(undo or {})}
        self.contracts[name] = made = compiled(self.world, name, undo, terms)
        self.session.know(made.plan)
        prove(self.store, TENANT, made.plan)
        if made.compensation is not None:
            prove(self.store, TENANT, made.compensation.plan)
        return made

    def steps(self, trip: str = "t-1") -> list[SagaStep]:
        """Flight and hotel at once, a car after them; then the charge, which is the pivot; then the ticket."""
        for name in ("flight", "hotel", "car"):
            if name not in self.contracts:
                self.load(name)
        if "charge" not in self.contracts:
            self.load("charge", undo={})
        if "ticket" not in self.contracts:
            self.load("ticket", undo={}, **AFTER)
        c = self.contracts
        return [
            c["flight"](trip=trip, price=100).as_step("flight"),
            c["hotel"](trip=trip, price=50).as_step("hotel"),
            c["car"](trip=trip, price=from_step("hotel", "price")).as_step("car", after=("flight", "hotel")),
            c["charge"](trip=trip, price=200).as_step("charge", after=("car",), pivot=True),
            c["ticket"](trip=trip, price=1, ref=from_step("charge", "ref")).as_step("ticket", after=("charge",)),
        ]

    def begin(self, steps: Sequence[SagaStep] | None = None, operation: str | None = "op-1", name: str = "trip") -> Any:
        request = self.session.saga_request(self.steps() if steps is None else steps, name, operation)
        ticket = coordinator.ActionHandle()
        s = self.session
        return saga_attend.begin(s.engine, request, s.scope, s.plan_of, ticket)

    def run(
        self, steps: Sequence[SagaStep] | None = None, operation: str | None = "op-1", wait_s: float = DAY
    ) -> SagaOutcome:
        """Begins it, and stays until it is settled."""
        told = self.driver.drive(self.begin(steps, operation), self.runtime.now_us() + int(wait_s * S))
        assert not isinstance(told, Parked)
        assert isinstance(told, SagaOutcome)
        return told

    def get(self, saga_id: str) -> SagaOutcome:
        told = self.driver.drive(saga_attend.current_outcome(saga_id, TENANT))
        assert isinstance(told, SagaOutcome)
        return told

    def stop(self, saga_id: str) -> None:
        self.driver.drive(saga_attend.cancel(self.session.engine, saga_id, TENANT, self.session.plan_of))

    def outcome(self, action_id: str) -> Outcome:
        told = self.driver.drive(coordinator.current_outcome(action_id, TENANT))
        assert isinstance(told, Outcome)
        return told

    def die(self) -> None:
        """The process is gone; another takes its place, with its contracts and without its memory."""
        gone = self.runtime.owner()
        self.alive += 1
        runtime = self.runtime.sibling(f"process-{self.alive}")
        runtime.declare_gone(gone)
        plans = self.session.plans
        self.runtime = self.world.runtime = runtime
        self.session = Session(self.store, runtime, self.scope, plans=plans)
        self.driver = VirtualDriver(self.store, runtime)

    def work(self, seconds: float = DAY, vanish_at: int | None = None) -> None:
        """What a worker does until nothing is due in that time."""
        until = self.runtime.now_us() + int(seconds * S)
        self.driver.vanish_at = None if vanish_at is None else len(self.driver.done) + vanish_at
        while True:
            due = self.session.due()
            if not due:
                next_us = self.store.next_due_us(TENANT)
                if next_us is None or next_us > until:
                    self.driver.vanish_at = None
                    return
                self.runtime.advance(max(next_us - self.runtime.now_us(), 0) / S)
                continue
            for action_id in due:
                self.driver.drive(self.session.advance(action_id, TENANT))

    # --- looking ---

    def saga_ids(self) -> list[str]:
        return [p.projection.action_id for p in self.store.projections() if p.projection.kind == "saga"]

    def saga(self, saga_id: str) -> Saga:
        found = fold_saga(self.store.events(saga_id))
        assert found is not None
        return found

    def events(self, saga_id: str) -> list[Event]:
        return [open_envelope(each.envelope).event for each in self.store.events(saga_id)]

    def states(self, saga_id: str) -> list[State]:
        return [state for event in self.events(saga_id) for state in event.path]

    def step_events(self, saga_id: str, what: str) -> list[str]:
        steps = (e for e in self.events(saga_id) if e.kind is EventKind.SAGA_STEP)
        return [str(e.data["step"]) for e in steps if e.data["what"] == what]

    def check(self) -> None:
        """What holds after everything, whatever happened."""
        report = audit(self.store)
        assert report.ok, report.faults
        for name in self.world.undone:
            assert self.world.undone.count(name) == 1, "a compensation ran twice"
        assert self.world.empty_undos == [], "reversed what had no effect"
        for name, keys in self.world.keys.items():
            assert len(keys) == 1, f"{name} was called under two keys"
        for saga_id in self.saga_ids():
            self._check_saga(saga_id)

    def _check_saga(self, saga_id: str) -> None:
        told = self.get(saga_id)
        there = [name for name, _ in self.world.rows]
        if told.state is State.RECONCILED_SUCCESS:
            assert told.verified
            assert sorted(there) == sorted(told.steps)
        if told.state in (State.COMPENSATED, State.FAILED):
            assert there == [], told.message
        begun = self.step_events(saga_id, "reverses")
        assert len(begun) == len(set(begun))


__all__ = ["AFTER", "DAY", "TENANT", "ProcessDied", "S", "Trip", "World", "contract"]
