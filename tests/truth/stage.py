"""The stage: one action of one contract, played once against a world that knows the truth.

Contracts are compiled once for each shape; their hands look at whatever scene is on. A cell says what the world, the
tool and the readers do; `play` says what was told, and what really happened.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Final

from readback.canon import Json
from readback.client.authoring.action import ActionDefinition, action
from readback.domain.context import Context
from readback.domain.kind import Kind
from readback.domain.outcome.outcome import Outcome
from readback.domain.side_effect import SideEffect
from readback.domain.verification.reading import Lookup, Reading
from readback.engine import coordinator
from readback.engine.compiled_contract import CallerContext, CompiledContract
from readback.engine.engine import Engine
from readback.testing.driver_virtual import Parked, ProcessDied, VirtualDriver
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from readback.testing.world import Place, World
from readback.testing.world_answers import Answer, give
from readback.testing.world_effects import Landing, Moments, Operation, land, prepare
from readback.testing.world_views import FaultyReader, View
from tests.lifecycle.sightings import prove

S: Final = 1_000_000
TENANT, PRINCIPAL, ITEM = "acme", "agent:ops", "o-17"
MOMENTS: Final = Moments(late_us=5 * S, too_late_us=600 * S, before_close_us=9 * S)
HORIZON_US: Final = 60 * 86_400 * S
MARKS: Final = ("author", "stamp")

INITIAL: Final[dict[Kind, dict[str, Json] | None]] = {
    Kind.SET: {"status": "open", "invoice": "none", "note": "-"},
    Kind.CREATE: None,
    Kind.DELETE: {"status": "open", "note": "-"},
    Kind.ADJUST: {"balance": 100},
    Kind.APPEND: {"lines": []},
    Kind.SEND: None,
}
WANTED: Final[dict[Kind, dict[str, Json]]] = {
    Kind.SET: {"status": "shipped", "invoice": "sent"},
    Kind.CREATE: {"status": "shipped", "invoice": "sent"},
    Kind.DELETE: {},
    Kind.ADJUST: {"amount": 7},
    Kind.APPEND: {"text": "shipped"},
    Kind.SEND: {"body": "shipped"},
}
WRONG: Final[dict[Kind, dict[str, Json]]] = {
    Kind.SET: {"status": "lost", "invoice": "wrong"},
    Kind.CREATE: {"status": "lost", "invoice": "wrong"},
    Kind.DELETE: {},
    Kind.ADJUST: {"amount": 70},
    Kind.APPEND: {"text": "lost"},
    Kind.SEND: {"body": "lost"},
}
ENSURE: Final[dict[Kind, dict[str, Any]]] = {
    Kind.SET: {
        "shipment": {"status": "authoritative.status == requested.status"},
        "billing": {"invoice": "authoritative.invoice == requested.invoice"},
    },
    Kind.CREATE: {
        "shipment": {"status": "authoritative.status == requested.status"},
        "billing": {"invoice": "authoritative.invoice == requested.invoice"},
    },
    Kind.DELETE: {"gone": "authoritative == null"},
    Kind.ADJUST: {"balance": "authoritative.balance == before.balance + requested.amount"},
    Kind.APPEND: {"line": "authoritative.lines.exists(l, l.text == requested.status)"},
    Kind.SEND: {"body": "authoritative.body == requested.status"},
}


@dataclass(frozen=True, slots=True)
class Offers:
    """What the source offers beside reading. `final`: the look-up knows when a key is dead."""

    stamps: bool = True
    find: bool = False
    proven: bool = True
    """The search has found an earlier effect of this contract."""
    lookup: bool = False
    final: bool = False
    honours_key: bool = False
    compensate: bool = False
    late_window: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    """A contract's shape: what has to be compiled."""

    kind: Kind
    side_effect: SideEffect
    readers: tuple[tuple[str, str], ...]
    """Declared consistency and independence, in order."""
    offers: Offers
    quorum: int = 1


@dataclass(frozen=True, slots=True)
class Path:
    """A read path: the readers as they are declared, and what each really shows."""

    name: str
    readers: tuple[tuple[str, str], ...]
    views: tuple[View, ...]
    sighted: bool
    """A strong reading of the truth is to be had before the window closes."""


OTHER: Final = "other_client"
STRONG: Final = (("strong", OTHER),)
PATHS: Final = (
    Path("strong", STRONG, (View.TRUE,), True),
    Path("flapping", STRONG, (View.FLAPPING,), True),
    Path("replica denies, then strong", (("replica", OTHER), *STRONG), (View.DENYING, View.TRUE), True),
    Path("cache confirms, then strong", (("cached", OTHER), *STRONG), (View.CONFIRMING, View.TRUE), True),
    Path("echo, then strong", (("strong", "same_call"), *STRONG), (View.ECHO, View.TRUE), True),
    Path("raising, then strong", (*STRONG, *STRONG), (View.RAISING, View.TRUE), True),
    Path("down, then strong", (*STRONG, *STRONG), (View.UNREACHABLE, View.TRUE), True),
    Path("session", (("session", OTHER),), (View.TRUE,), True),
    Path("session denies", (("session", OTHER),), (View.DENYING,), False),
    Path("session confirms", (("session", OTHER),), (View.CONFIRMING,), False),
    Path("replica that says so", STRONG, (View.OWN_REPLICA,), False),
    Path("unreachable", STRONG, (View.UNREACHABLE,), False),
    Path("incomplete", STRONG, (View.INCOMPLETE,), False),
    Path("not visible", STRONG, (View.NOT_VISIBLE,), False),
    Path("foreign", STRONG, (View.FOREIGN,), False),
    Path("raising", STRONG, (View.RAISING,), False),
    Path("hanging", STRONG, (View.HANGING,), False),
    Path("wrong type", STRONG, (View.WRONG_TYPE,), False),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the matrix. Its text, printed by a failing test, is what `replay` takes."""

    kind: Kind
    side_effect: SideEffect
    landing: Landing
    answer: Answer
    path: Path
    offers: Offers = field(default_factory=Offers)
    seed: int = 0

    @property
    def shape(self) -> Shape:
        return Shape(self.kind, self.side_effect, self.path.readers, self.offers)

    def __str__(self) -> str:
        offered = "".join(f" {f.name}={getattr(self.offers, f.name)}" for f in fields(Offers))
        return f"{self.kind.value} {self.side_effect.value}{offered}: {self.order}"

    @property
    def order(self) -> str:
        """What `python -m tests.truth.replay` takes after the group's number."""
        return f"{self.landing.value} {self.answer.value} {self.path.name!r}"


@dataclass(slots=True)
class Scene:
    """What is on: one world, one tool, one set of eyes."""

    cell: Cell
    world: World
    runtime: VirtualRuntime
    eyes: FaultyReader | None = None
    operation: Operation | None = None
    calls: list[int] = field(default_factory=list)
    """The moments at which the tool was called."""
    reversals: int = 0

    def seen_by(self, ctx: Context) -> FaultyReader:
        """The eyes; the operation is known by the first context that comes along."""
        if self.eyes is None:
            kind = self.cell.kind
            self.operation = Operation(
                kind,
                Place(TENANT, ITEM),
                WANTED[kind],
                ctx.stamp,
                ctx.idempotency_key,
                PRINCIPAL,
                ("invoice",),
                WRONG[kind],
            )
            self.eyes = FaultyReader(self.world, self.operation, self.runtime.now_us() - 1, self.cell.offers.stamps)
        return self.eyes

    def call(self, ctx: Context) -> object:
        """The tool."""
        eyes = self.seen_by(ctx)
        assert self.operation is not None
        again = self.cell.offers.honours_key and bool(self.calls)
        self.calls.append(self.runtime.now_us())
        eyes.acted = True
        if not again:
            land(self.world, self.cell.landing, self.operation, MOMENTS)
        once = self.cell.answer in (Answer.CRASHED, Answer.CANCELLED)
        return give(Answer.OK if once and len(self.calls) > 1 else self.cell.answer)

    def reverse(self, ctx: Context) -> object:
        """The compensating tool: takes away what is there."""
        self.reversals += 1
        self.world.remove(Place(TENANT, ITEM), stamp=ctx.stamp, key=ctx.idempotency_key, author=PRINCIPAL)
        return {"status": "ok"}

    def reading(self, ctx: Context, index: int) -> Any:
        return self.seen_by(ctx).look(self.cell.path.views[index])


ON: list[Scene] = []


def _target(kind: Kind) -> str:
    return "authoritative.to" if kind is Kind.SEND else "authoritative.id"


@cache
def definition(shape: Shape) -> ActionDefinition[Any]:
    """The contract of a shape, compiled."""
    kind, offers = shape.kind, shape.offers
    identity = {
        "target": _target(kind),
        "tenant": "authoritative.tenant",
        "actor": "authoritative.author",
        "account": "not_offered",
    }
    if offers.stamps:
        identity["stamp"] = "authoritative.stamp"
    options: dict[str, Any] = {
        "name": f"{kind.value}_item",
        "kind": kind.value,
        "side_effect": shape.side_effect.value,
        "target": "item/{requested.item}",
        "identity": identity,
        "ensure": ENSURE[kind],
        "within": "10s",
        "polls": ["0s", "2s", "4s"],
        "execute": {"timeout": "1s", "honours_key": offers.honours_key},
    }
    if kind is Kind.SET:
        options["may_change"] = ["status", "invoice", "author", "stamp"]
    if offers.late_window:
        options["late_window"] = offers.late_window
    made: ActionDefinition[Any] = action(**options)(_act)
    for index, (consistency, independence) in enumerate(shape.readers):
        made.read(
            source=f"source-{index}",
            consistency=consistency,  # type: ignore[arg-type]
            independence=independence,  # type: ignore[arg-type]
            timeout="1s",
            attributes=offers.stamps,
            name=f"reader-{index}",
        )(_reader(index))
    if offers.find:
        made.find(complete=True)(_find)
    if offers.lookup:
        made.lookup(_lookup)
    if offers.compensate:
        made.compensate(
            name=f"undo_{kind.value}",
            kind="delete",
            ensure={"gone": "authoritative == null"},
            within="10s",
        )(_reverse)
    return made


def _act(ctx: Context, item: str, status: str, invoice: str, amount: int) -> object:
    return ON[-1].call(ctx)


def _reverse(ctx: Context, item: str, status: str, invoice: str, amount: int) -> object:
    return ON[-1].reverse(ctx)


def _reader(index: int) -> Any:
    def read(ctx: Context, item: str, status: str, invoice: str, amount: int) -> Reading:
        shown: Reading = ON[-1].reading(ctx, index)
        return shown

    return read


def _find(ctx: Context, item: str, status: str, invoice: str, amount: int) -> list[Reading]:
    return ON[-1].world.find(ctx.stamp)


def _lookup(ctx: Context, item: str, status: str, invoice: str, amount: int) -> Lookup:
    return ON[-1].world.lookup(ctx.idempotency_key, final=ON[-1].cell.offers.final)


ARGUMENTS: Final[dict[str, Any]] = {"item": ITEM, "status": "shipped", "invoice": "sent", "amount": 7}


@dataclass(slots=True)
class Played:
    """What came of a cell."""

    scene: Scene
    store: MemoryStore
    driver: VirtualDriver
    plans: dict[str, CompiledContract]
    outcome: Outcome

    def again(self) -> Outcome:
        """The outcome by the ledger alone."""
        found = self.driver.drive(coordinator.current_outcome(self.outcome.id, TENANT))
        assert isinstance(found, Outcome)
        return found

    def to_the_end(self) -> Outcome:
        """Whatever is due is gone on with, until nothing is for a long time."""
        ON.append(self.scene)
        try:
            limit = self.driver.runtime.now_us() + HORIZON_US
            while (due := self.store.next_due_us()) is not None and due <= limit:
                self.driver._jump(due)
                for action_id in self.store.due(due, 16):
                    self.driver.done.clear()
                    self.driver.drive(coordinator.advance(ENGINE, action_id, TENANT, self.plans.get))
            return self.again()
        finally:
            ON.pop()


ENGINE: Final = Engine()


def play(cell: Cell) -> Played:
    """Plays one cell up to the first settled outcome, with a second process where the first one dies."""
    runtime = VirtualRuntime(cell.seed)
    store, world = MemoryStore(), World(runtime.now_us)
    scene = Scene(cell, world, runtime)
    kind = cell.kind
    marks = Operation(kind, Place(TENANT, ITEM), WANTED[kind], "", "", PRINCIPAL, (), WRONG[kind])
    prepare(world, cell.landing, marks, INITIAL[kind])
    runtime.advance(60)
    made = definition(cell.shape)
    plans = {made.name: made.plan}
    if made.compensation is not None:
        plans[made.compensation.name] = made.compensation.plan
    if cell.offers.find and cell.offers.proven:
        prove(store, TENANT, made.plan)
    driver = VirtualDriver(store, runtime)
    proposal = made(**ARGUMENTS)
    proposal.mark_run()
    scope, ticket = CallerContext(TENANT, PRINCIPAL, break_glass="a drill"), coordinator.ActionHandle()
    ON.append(scene)
    try:
        try:
            told = driver.drive(coordinator.begin(ENGINE, proposal.request("ship it"), scope, plans.get, ticket))
        except ProcessDied:
            runtime.declare_gone(runtime.owner())
            driver = VirtualDriver(store, runtime.sibling("virtual/2"))
            told = Parked(ticket.action_id)
        if isinstance(told, Parked):
            told = driver.drive(coordinator.wait_until_settled(ENGINE, ticket.action_id, TENANT, plans.get))
        assert isinstance(told, Outcome)
        return Played(scene, store, driver, plans, told)
    finally:
        ON.pop()
