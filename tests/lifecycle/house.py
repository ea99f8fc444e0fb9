"""A house for one test: the engine under virtual time, a store in memory, and a shop that does as it is told.

The shop stands for the system that is acted on and read. Its hands are plain functions that a test replaces; it notes
when each was called, so that a test can say how often, and when, anything was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from readback.canon import Json
from readback.client.authoring.action import ActionDefinition, action
from readback.client.proposal import Proposal
from readback.domain.action.action import Action
from readback.domain.context import Context
from readback.domain.events import Event, EventKind, open_envelope
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import State
from readback.domain.verification.reading import Lookup, Reading
from readback.engine import coordinator
from readback.engine.compiled_contract import CallerContext, CompiledContract
from readback.engine.engine import Engine
from readback.engine.resume import fold
from readback.testing.driver_virtual import Parked, VirtualDriver
from readback.testing.runtime_virtual import START_US, VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.lifecycle.sightings import prove

S: Final = 1_000_000
TENANT: Final = "acme"
Args = Mapping[str, Any]
NO_STAMP: Final = object()


@dataclass(slots=True)
class Shop:
    """A system with rows by id. By default the tool does what it is asked, and the reader shows what is."""

    runtime: VirtualRuntime
    rows: dict[str, dict[str, Json]] = field(default_factory=dict)
    calls: list[float] = field(default_factory=list)
    """When the tool was called, in seconds after the start; the same for the others."""
    looks: list[float] = field(default_factory=list)
    strong: list[bool] = field(default_factory=list)
    finds: list[float] = field(default_factory=list)
    lookups: list[float] = field(default_factory=list)
    undone: list[float] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    stamps: list[str] = field(default_factory=list)
    tool: Callable[[Context, Args], object] | None = None
    eyes: Callable[[Context, Args], object] | None = None
    search: Callable[[Context, Args], object] | None = None
    record: Callable[[Context, Args], object] | None = None
    undo: Callable[[Context, Args], object] | None = None

    def now(self) -> float:
        return (self.runtime.now_us() - START_US) / S

    def call(self, ctx: Context, args: Args) -> object:
        self.calls.append(self.now())
        self.keys.append(ctx.idempotency_key)
        self.stamps.append(ctx.stamp)
        return self.ship(ctx, args) if self.tool is None else self.tool(ctx, args)

    def ship(self, ctx: Context, args: Args, **wrong: Json) -> object:
        """Does it, for certain."""
        old = self.rows.get(args["item"], {})
        version = old.get("version", 0)
        assert isinstance(version, int)
        new: dict[str, Json] = {
            "id": args["item"],
            "tenant": TENANT,
            "status": args["status"],
            "stamp": ctx.stamp,
            "author": ctx.principal,
            "version": version + 1,
        }
        self.rows[args["item"]] = {**old, **new, **wrong}
        return {"status": "ok"}

    def look(self, ctx: Context, args: Args) -> Any:
        self.looks.append(self.now())
        self.strong.append(ctx.strong)
        return self.show(args) if self.eyes is None else self.eyes(ctx, args)

    def show(self, args: Args) -> Reading:
        """What is there."""
        row = self.rows.get(args["item"])
        if row is None:
            return Reading.absent()
        version = row.get("version")
        assert isinstance(version, int | None)
        stamp = row.get("stamp")
        return Reading.of(row, version=version, stamp=str(stamp) if stamp else None)

    def find(self, ctx: Context, args: Args) -> Any:
        self.finds.append(self.now())
        if self.search is not None:
            return self.search(ctx, args)
        return [Reading.of(row, stamp=ctx.stamp) for row in self.rows.values() if row.get("stamp") == ctx.stamp]

    def lookup(self, ctx: Context, args: Args) -> Any:
        self.lookups.append(self.now())
        return Lookup.unknown_key() if self.record is None else self.record(ctx, args)

    def take_back(self, ctx: Context, args: Args) -> object:
        self.undone.append(self.now())
        if self.undo is not None:
            return self.undo(ctx, args)
        self.rows.pop(args["item"], None)
        return {"status": "ok"}


SHIP: Final[dict[str, Any]] = {
    "name": "ship",
    "kind": "set",
    "side_effect": "low_risk_internal",
    "target": "item/{requested.item}",
    "identity": {"target": "authoritative.id", "tenant": "authoritative.tenant"},
    "ensure": {"status": "authoritative.status == requested.status"},
    "within": "10s",
    "polls": ["0s", "2s", "4s"],
    "execute": {"timeout": "1s"},
}
MEDIUM: Final[dict[str, Any]] = {
    "side_effect": "medium_risk_write",
    "identity": {**SHIP["identity"], "actor": "authoritative.author"},
}
HIGH: Final[dict[str, Any]] = {
    "side_effect": "high_risk_external",
    "identity": {**SHIP["identity"], "account": "not_offered"},
}
STAMPED: Final[dict[str, Any]] = {"identity": {**SHIP["identity"], "stamp": "authoritative.stamp"}}


@dataclass(slots=True)
class House:
    """One process with a ledger. `die` ends it; the next one goes on with the same ledger and the same shop."""

    store: MemoryStore = field(default_factory=MemoryStore)
    runtime: VirtualRuntime = field(default_factory=VirtualRuntime)
    plans: dict[str, CompiledContract] = field(default_factory=dict)
    scope: CallerContext = field(
        default_factory=lambda: CallerContext(TENANT, "agent:ops", run="run-1", trace="trace-1")
    )
    engine: Engine = field(default_factory=Engine)
    shop: Shop = field(init=False)
    driver: VirtualDriver = field(init=False)

    def __post_init__(self) -> None:
        self.shop = Shop(self.runtime)
        self.shop.rows["o-1"] = {"id": "o-1", "tenant": TENANT, "status": "open", "version": 1, "author": "seed"}
        self.driver = VirtualDriver(self.store, self.runtime)

    # --- contracts -----------------------------------------------------------------------------------

    def action(
        self,
        *,
        readers: tuple[tuple[str, str, str], ...] = (("strong", "other_client", "orders"),),
        find: bool = False,
        proven: bool = True,
        lookup: bool = False,
        compensate: Mapping[str, Any] | None = None,
        rollback: bool = False,
        attributes: bool = True,
        whole_region: bool = False,
        **options: Any,
    ) -> ActionDefinition[Any]:
        """An action on the shop. `readers`: (consistency, independence, source). `proven`: `find` is complete, and
        has found an earlier effect of this contract. `whole_region`: of each reader. Other keys are the contract's.
        """
        shop = self.shop
        chosen = {key: value for key, value in {**SHIP, **options}.items() if value is not None}

        def act(ctx: Context, item: str, status: str) -> object:
            return shop.call(ctx, {"item": item, "status": status})

        made: ActionDefinition[Any] = action(**chosen)(act)
        for number, (consistency, independence, source) in enumerate(readers):
            made.read(
                source=source,
                consistency=consistency,  # type: ignore[arg-type]
                independence=independence,  # type: ignore[arg-type]
                timeout="1s",
                attributes=attributes,
                whole_region=whole_region,
                name=f"reader-{number}",
            )(lambda ctx, item, status: shop.look(ctx, {"item": item, "status": status}))
        if find:
            made.find(complete=proven)(lambda ctx, item, status: shop.find(ctx, {"item": item, "status": status}))
        if lookup:
            made.lookup(lambda ctx, item, status: shop.lookup(ctx, {"item": item, "status": status}))
        if rollback:
            made.rollback(lambda ctx, item, status: shop.take_back(ctx, {"item": item, "status": status}))
        if compensate is not None:
            undo: dict[str, Any] = {
                "name": f"undo_{chosen['name']}",
                "kind": "delete",
                "ensure": {"gone": "authoritative == null"},
                "within": "10s",
                "polls": ["0s", "2s"],
                **compensate,
            }
            made.compensate(**undo)(lambda ctx, item, status: shop.take_back(ctx, {"item": item, "status": status}))
        self.know(made)
        if find and proven:
            prove(self.store, TENANT, made.plan)
        return made

    def know(self, made: ActionDefinition[Any]) -> None:
        self.plans[made.name] = made.plan
        if made.compensation is not None:
            self.know(made.compensation)

    # --- what a client does --------------------------------------------------------------------------

    def propose(self, made: ActionDefinition[Any], item: str = "o-1", status: str = "shipped") -> Proposal:
        proposal: Proposal = made(item=item, status=status)
        proposal.mark_run()
        return proposal

    def run(
        self,
        made: ActionDefinition[Any],
        operation: str = "op-1",
        *,
        item: str = "o-1",
        status: str = "shipped",
        wait_s: float | None = None,
    ) -> Outcome:
        """Proposes and runs; where the wait ends first, the outcome is what the ledger says by then."""
        request = self.propose(made, item, status).request(operation)
        ticket = coordinator.ActionHandle()
        work = coordinator.begin(self.engine, request, self.scope, self.plans.get, ticket)
        told = self.driver.drive(work, self._until(wait_s))
        return self.get(ticket.action_id) if isinstance(told, Parked) else told

    def wait(self, action_id: str, wait_s: float | None = None) -> Outcome:
        work = coordinator.wait_until_settled(self.engine, action_id, TENANT, self.plans.get)
        told = self.driver.drive(work, self._until(wait_s))
        return self.get(action_id) if isinstance(told, Parked) else told

    def get(self, action_id: str) -> Outcome:
        found = self.driver.drive(coordinator.current_outcome(action_id, TENANT))
        assert isinstance(found, Outcome)
        return found

    def cancel(self, action_id: str) -> Outcome:
        self.driver.drive(coordinator.cancel(self.engine, action_id, TENANT, self.plans.get))
        return self.get(action_id)

    def work(self, until_s: float) -> None:
        """A worker: goes on with whatever is due, until that many seconds after the start."""
        limit = START_US + round(until_s * S)
        while (due := self.store.next_due_us()) is not None and due <= limit:
            self.driver._jump(due)
            for action_id in self.store.due(self.runtime.now_us(), 16):
                self.driver.done.clear()
                self.driver.drive(coordinator.advance(self.engine, action_id, TENANT, self.plans.get))
        self.driver._jump(limit)

    def die(self) -> None:
        """The process is gone; another one takes its place."""
        self.runtime.declare_gone(self.driver.runtime.owner())
        number = int(self.driver.runtime.owner().rpartition("/")[2]) + 1
        self.driver = VirtualDriver(self.store, self.runtime.sibling(f"virtual/{number}"))

    def _until(self, wait_s: float | None) -> int | None:
        return None if wait_s is None else self.runtime.now_us() + round(wait_s * S)

    # --- what is written down ------------------------------------------------------------------------

    def only(self) -> str:
        """The id of the one action that there is."""
        ids = [stored.projection.action_id for stored in self.store.projections()]
        assert len(ids) == 1, ids
        return ids[0]

    def events(self, action_id: str) -> list[Event]:
        return [open_envelope(stored.envelope).event for stored in self.store.events(action_id)]

    def kinds(self, action_id: str) -> list[EventKind]:
        return [event.kind for event in self.events(action_id)]

    def states(self, action_id: str) -> list[State]:
        """Every state that the action walked through."""
        return [state for event in self.events(action_id) for state in event.path]

    def folded(self, action_id: str) -> Action:
        found = fold(self.store.events(action_id))
        assert found is not None
        return found
