"""Two tenants on one ledger: nothing of one can be seen or influenced through a client of the other.

Every public method of both clients, and every method of the store port that takes a tenant, has a probe here: a new one
fails these tests until it has one too.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from readback import AsyncReadback, Outcome, Readback, bootstrap
from readback.canon import payload_bytes
from readback.client.authoring.action import ActionDefinition
from readback.domain.events import open_envelope
from readback.domain.state import State
from readback.errors import NotFoundError, ReadbackError
from readback.ports.storage.store import ActionFilter, LedgerStore
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.sdk.given import Desk, opened, opened_async, ship_of

SECRET = "secret-of-acme"
OTHER = "globex"
RUN = "run-7"


@dataclass(slots=True)
class World:
    """What tenant acme has: one action of each kind that somebody could reach for."""

    open_store: Callable[[], LedgerStore]
    runtime: VirtualRuntime
    desk: Desk
    actions: list[ActionDefinition[Any]]
    ids: dict[str, str]
    stamps: dict[str, str]
    saga: str

    def client(self, **given: Any) -> Readback:
        return opened(self.open_store(), self.runtime, **{"run": RUN, "actions": self.actions, **given})

    def snapshot(self) -> str:
        """Everything that the ledger holds of acme."""
        store = self.open_store()
        held = [each for each in store.projections() if each.projection.tenant == "acme"]
        names = [each.projection.action_id for each in held]
        said = {
            "projections": [str(each) for each in held],
            "events": [[e.leaf.hex() for e in store.events(name)] for name in names],
            "keys": [str(store.key("acme", each.projection.key_hash)) for each in held],
            "counts": [list(each) for each in store.counts("acme")],
            "freezes": [str(each) for each in store.freezes("acme")],
            "incidents": [str(each) for each in store.incidents("acme", open_only=False)],
            "evidence": store.evidence_bytes("acme"),
            "in_flight": store.in_flight("acme"),
            "due": store.due(self.runtime.now_us() + 10**12, 100, "acme"),
        }
        return json.dumps(said)


@pytest.fixture(scope="module", params=["memory", "sqlite"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    """One for all who only look: each of them shows that it left it as it was."""
    return built(request.param, tmp_path_factory.mktemp("world"))


@pytest.fixture(params=["memory", "sqlite"])
def own_world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """One for a test that acts for the other tenant."""
    return built(request.param, tmp_path)


def built(kind: str, folder: Path) -> World:
    memory = MemoryStore()

    def open_store() -> LedgerStore:
        if kind == "memory":
            return memory.reopened()
        return bootstrap.store(f"sqlite:///{folder / 'ledger.db'}")

    desk, runtime = Desk(), VirtualRuntime()
    ship = ship_of(desk, deadline="1h", within="30m", tell=["status", "note"])
    asked = ship_of(desk, name="asked", approval="required", find=False)
    made = World(open_store, runtime, desk, [ship, asked], {}, {}, "")
    with made.client() as rb:
        desk.order("o-1")["note"] = SECRET
        told = {"verified": rb.run(ship(order_id="o-1", carrier="dhl"), operation="one")}
        desk.instead = lambda _ctx: {"status": "ok", "note": SECRET}
        told["pending"] = rb.run(ship(order_id="o-2", carrier="dhl"), operation="two", wait=0)
        desk.instead = lambda ctx: desk.order("o-9").update(stamp=ctx.stamp, status="shipped", version=1, note=SECRET)
        told["frozen"] = rb.run(ship(order_id="o-3", carrier="dhl"), operation="three")
        desk.instead = None
        told["asked"] = rb.run(asked(order_id="o-4", carrier="dhl"), operation="four", wait=0)
        upon = {"upon": [told["verified"]]}
        told["upon"] = rb.run(ship(order_id="o-6", carrier="dhl"), operation="six", **upon)
        rb.retract(told["upon"].id, who="human:eve", reason="It is gone.")
        steps = [ship(order_id="o-5", carrier="dhl").as_step("ship")]
        made.saga = rb.saga(steps, name="trip", operation="five").id
        assert told["verified"].told["note"] == SECRET
        assert told["pending"].state is State.PENDING
        assert told["frozen"].incident
        assert rb.freezes()
        assert told["asked"].hold == "approval"
    made.ids = {name: each.id for name, each in told.items()}
    made.stamps = {name: each.stamp for name, each in told.items()}
    runtime.advance(3600 * 2)  # everything that waits is due
    return made


# --- both clients -----------------------------------------------------------------------------------------------


Probe = Callable[[Any, World], list[Callable[[], Any]]]


def by_id(name: str, *more: Any, **given: Any) -> Probe:
    """The method with every id and stamp that acme has."""

    def probes(rb: Any, world: World) -> list[Callable[[], Any]]:
        known = [*world.ids.values(), *world.stamps.values(), world.saga, f"rb-{world.saga}"]
        return [lambda each=each: getattr(rb, name)(each, *more, **given) for each in known]  # type: ignore[misc]

    return probes


def at_once(call: Callable[[Any, World], Any]) -> Probe:
    return lambda rb, world: [lambda: call(rb, world)]


DECISION: dict[str, Any] = {"expect_version": 1, "who": "human:eve", "reason": "mine now"}
UNREACHABLE: dict[str, Probe] = {
    "get": by_id("get"),
    "get_saga": by_id("get_saga"),
    "wait": by_id("wait", 0),
    "cancel": by_id("cancel"),
    "signal": by_id("signal"),
    "review": by_id("review"),
    "resolve": by_id("resolve", "attest_not_done", **DECISION),
    "approval": by_id("approval"),
    "approve": by_id("approve", "{}"),
    "deny": by_id("deny", "{}"),
    "claim": by_id("claim"),
    "is_claim_standing": by_id("is_claim_standing"),
    "retract": by_id("retract", who="human:eve", reason="mine now"),
    "reinstate": by_id("reinstate", who="human:eve", reason="mine now"),
    "report": by_id("report", {"ok": True}),
    "withdraw": by_id("withdraw", reason="mine now"),
    "erase": by_id("erase", who="human:eve", reason="mine now"),
    "lift": lambda rb, world: [
        lambda s=subject: rb.lift(s, who="human:eve", reason="mine now")  # type: ignore[misc]
        for subject in ("resource:order/o-3", "tenant:acme", f"principal:{rb._session.scope.principal}")
    ],
}
"""Methods that name something: of another tenant there is no such thing."""

EMPTY: dict[str, Probe] = {
    "claims": at_once(lambda rb, world: rb.claims()),
    "list": at_once(lambda rb, world: rb.list()),
    "resume": at_once(lambda rb, world: rb.resume()),
    "freezes": at_once(lambda rb, world: rb.freezes()),
    "incidents": at_once(lambda rb, world: rb.incidents(open_only=False)),
    "belief": at_once(lambda rb, world: rb.belief(RUN)),
    "find_operation": at_once(lambda rb, world: rb.find_operation("one", "ship_order")),
}
"""Methods that list: there is nothing to list."""

ACTING = {
    "run": "below",
    "saga": "below",
    "submit": "tests/sdk/test_submit.py",
    "work": "tests/sdk/test_work.py",
    "hand_out": "tests/kit",
    "waits_for": "tests/kit",
}
"""Methods that act: for their own tenant only, under keys of their own."""

HARMLESS = {"open": "makes a client", "close": "ends it", "stop_work": "ends its own work"}

JUDGING = {"check_report": "tests/reports", "guard_report": "tests/reports"}
"""Methods that judge a text: a citation of another tenant does not resolve, as is shown there."""


@pytest.mark.requirement("TENANT-invisible")
@pytest.mark.parametrize("client", [Readback, AsyncReadback])
def test_every_public_method_has_a_probe(client: type) -> None:
    public = {name for name, _ in inspect.getmembers(client) if not name.startswith("_")}
    known = {*UNREACHABLE, *EMPTY, *ACTING, *HARMLESS, *JUDGING}
    assert public == known, "write a probe for a new method: what does another tenant see of it, or do by it?"


@pytest.mark.requirement("TENANT-invisible", "LEDGER-tenant-id")
@pytest.mark.parametrize("method", [*UNREACHABLE, *EMPTY])
def test_another_tenant_sees_nothing_and_moves_nothing(world: World, method: str) -> None:
    before = world.snapshot()
    with world.client(tenant=OTHER) as rb:
        for probe in {**UNREACHABLE, **EMPTY}[method](rb, world):
            _nothing(method, probe, world)
    assert world.snapshot() == before


@pytest.mark.requirement("TENANT-invisible")
@pytest.mark.parametrize("method", [*UNREACHABLE, *EMPTY])
def test_the_same_holds_for_the_async_client(world: World, method: str) -> None:
    before = world.snapshot()

    async def go() -> None:
        store = world.open_store()
        async with opened_async(store, world.runtime, tenant=OTHER, run=RUN, actions=world.actions) as rb:
            for probe in {**UNREACHABLE, **EMPTY}[method](rb, world):
                try:
                    found = probe()
                    found = await found if inspect.isawaitable(found) else found
                except ReadbackError as error:
                    found = error
                _judge(method, found, world)

    asyncio.run(go())
    assert world.snapshot() == before


def _nothing(method: str, probe: Callable[[], Any], world: World) -> None:
    try:
        found = probe()
    except ReadbackError as error:
        found = error
    _judge(method, found, world)


def _judge(method: str, found: Any, world: World) -> None:
    if method in UNREACHABLE:
        assert isinstance(found, NotFoundError), f"{method} answered {found!r}"
        said = f"{found} {found.details}"
    else:
        assert not isinstance(found, ReadbackError), found
        said = found.for_model() + found.message if method == "belief" else str(found)
        assert (found.entries if method == "belief" else len(found or ())) in ({}, 0), said
    assert SECRET not in said
    assert not any(each in said for each in world.ids.values()) or method in UNREACHABLE


# --- acting under the same names --------------------------------------------------------------------------------


@pytest.mark.requirement("TENANT-invisible", "INPUT-reader-other-tenant", "TRUTH-verdict-5")
def test_the_same_operation_of_another_tenant_is_another_and_proves_nothing_there(own_world: World) -> None:
    before, calls = own_world.snapshot(), own_world.desk.calls
    ship = own_world.actions[0]
    with own_world.client(tenant=OTHER) as rb:
        told = rb.run(ship(order_id="o-1", carrier="dhl"), operation="one", wait=0)
        assert told.id not in own_world.ids.values()
        assert not told.replayed, "acme's outcome is no answer for globex"
        assert not told.verified, "a reading of acme's record verifies nothing for globex"
        assert told.authoritative is None
        assert SECRET not in json.dumps(told.as_json()) + told.for_model() + rb.belief().for_model()
        store = rb._session.store
        refs = {d for e in store.events(told.id) for d in json.loads(e.envelope)["refs"].values()}
        bodies = [found.body for d in refs if (found := store.evidence(OTHER, told.id, d)) is not None]
        assert bodies
        assert SECRET.encode() not in b"".join(bodies), "its content was not even stored"
    assert own_world.desk.calls <= calls + 1
    assert own_world.snapshot() == before


@pytest.mark.requirement("TENANT-invisible")
def test_another_tenants_freeze_binds_nobody_else(own_world: World) -> None:
    ship, before = own_world.actions[0], own_world.snapshot()
    with own_world.client() as mine:
        refused = mine.run(ship(order_id="o-3", carrier="ups"), operation="again", wait=0)
        assert refused.code == "frozen"
    before = own_world.snapshot()
    with own_world.client(tenant=OTHER) as rb:
        told = rb.run(ship(order_id="o-3", carrier="ups"), operation="again", wait=0)
        assert told.code != "frozen"
    assert own_world.snapshot() == before


@pytest.mark.requirement("TENANT-invisible")
def test_a_saga_of_the_same_name_is_the_tenants_own(own_world: World) -> None:
    before = own_world.snapshot()
    with own_world.client(tenant=OTHER) as rb:
        steps = [own_world.actions[0](order_id="o-5", carrier="dhl").as_step("ship")]
        told = rb.saga(steps, name="trip", operation="five", wait=0)
        assert told.id != own_world.saga
        assert not told.verified
    assert own_world.snapshot() == before


# --- the store port ---------------------------------------------------------------------------------------------


def _first(world: World, store: LedgerStore) -> Any:
    stored = store.projection(world.ids["verified"])
    assert stored is not None
    return stored.projection


def _request(world: World, store: LedgerStore) -> str:
    first = open_envelope(store.events(world.ids["verified"])[0].envelope).event
    return str(first.refs["request"])


def _met(store: LedgerStore, world: World) -> list[object]:
    """What a new action of another tenant meets, under a key that is taken, on an order that is frozen."""
    met = store.opening(OTHER, _first(world, store).key_hash, ["resource:order/o-3"])
    return [each for each in (met.record, met.counts, met.freeze) if each]


STORE: dict[str, Callable[[LedgerStore, World], Any]] = {
    "key": lambda store, world: store.key(OTHER, _first(world, store).key_hash),
    "by_stamp": lambda store, world: store.by_stamp(OTHER, world.stamps["verified"]),
    "due": lambda store, world: store.due(world.runtime.now_us() + 10**12, 100, OTHER),
    "next_due_us": lambda store, world: store.next_due_us(OTHER),
    "evidence": lambda store, world: store.evidence(OTHER, world.ids["verified"], _first(world, store).contract_hash),
    "projections": lambda store, world: list(store.projections(OTHER)),
    "keeper": lambda store, world: store.keeper(OTHER, _request(world, store)),
    "bodies": lambda store, world: store.bodies(OTHER, [("", _first(world, store).contract_hash)]),
    "keys": lambda store, world: store.keys(OTHER, [_first(world, store).key_hash]),
    "erased": lambda store, world: store.erased(OTHER, world.ids["verified"], _first(world, store).contract_hash),
    "relies": lambda store, world: store.relies(OTHER, f"{world.ids['verified']}:holds", world.ids["upon"]),
    "dependants": lambda store, world: store.dependants(OTHER, f"{world.ids['verified']}:happened", 10),
    "evidence_bytes": lambda store, world: store.evidence_bytes(OTHER),
    "count": lambda store, world: store.count(OTHER, "contract:ship", "mismatch"),
    "counts": lambda store, world: store.counts(OTHER),
    "freezes": lambda store, world: store.freezes(OTHER),
    "frozen": lambda store, world: store.frozen(OTHER, ["resource:order/o-3"]),
    "opening": _met,
    "incidents": lambda store, world: store.incidents(OTHER, open_only=False),
    "in_flight": lambda store, world: store.in_flight(OTHER),
    "pace": lambda store, world: store.pace(OTHER, 0, 0, 1),
    "page": lambda store, world: store.page(ActionFilter(OTHER)),
}


def test_every_method_of_the_store_that_takes_a_tenant_has_a_probe() -> None:
    taking = {
        name
        for name, method in inspect.getmembers(LedgerStore, inspect.isfunction)
        if not name.startswith("_") and "tenant" in inspect.signature(method).parameters
    }
    assert taking <= set(STORE)


@pytest.mark.requirement("TENANT-invisible")
@pytest.mark.parametrize("method", STORE)
def test_a_store_answers_for_one_tenant_alone(world: World, method: str) -> None:
    before, store = world.snapshot(), world.open_store()
    assert not STORE[method](store, world)
    store.close()
    assert world.snapshot() == before


@pytest.mark.requirement("TENANT-invisible")
def test_a_tenants_limits_are_not_used_up_by_another(own_world: World) -> None:
    from readback.domain.contract.limits import TenantLimits

    store = own_world.open_store()
    busy = store.in_flight("acme")
    store.close()
    assert busy > 0
    ship = own_world.actions[0]
    with own_world.client(tenant=OTHER, limits=TenantLimits(in_flight=1, evidence_bytes=100_000)) as rb:
        assert isinstance(rb.run(ship(order_id="o-7", carrier="dhl"), operation="mine", wait=0), Outcome)


def test_the_secret_is_there_to_be_seen(world: World) -> None:
    """The probes above look for something that acme itself does see."""
    with world.client() as rb:
        assert SECRET in rb.get(world.ids["verified"]).for_model()
        assert SECRET in rb.belief().for_model(64_000)
        assert SECRET in payload_bytes(rb.belief().as_json()).decode()
