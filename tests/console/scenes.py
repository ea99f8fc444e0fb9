"""A ledger in a file with one action of each kind on show, made by the real engine under virtual time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from readback import Approver, ApproverKey, Readback, bootstrap
from readback.client.authoring.action import ActionDefinition
from readback.ports.storage.outbox import Cursor, DeadLetter
from readback.ports.storage.store import LedgerStore
from readback.testing.runtime_virtual import VirtualRuntime
from tests.lifecycle.house import House
from tests.lifecycle.reviewing import doubtful, wrong_target
from tests.lifecycle.trip import Trip
from tests.sdk.given import PRINCIPAL, TENANT, Desk, ship_of

PASSPHRASE: Final = "correct horse battery"
HOSTILE: Final = (
    "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\x1b[31m\u202egnp.exe"
)
OTHER: Final = "globex"
LARGE_CHARACTERS: Final = 10_000_000
DAY_US: Final = 86_400_000_000
NOON_US: Final = 1_767_268_800_000_000


@dataclass(frozen=True, slots=True)
class Scenes:
    """The ledger, and the ids of its actions by what they show."""

    url: str
    ids: dict[str, str]
    approver: ApproverKey
    refund: ActionDefinition[object]
    """A contract that the server has loaded."""


def build(folder: Path, *, seal: bool = True, url: str = "") -> Scenes:
    """Make the ledger. `seal`: with a signed head over its entries. `url`: another place than a file of the folder."""
    url = url or f"sqlite:///{folder / 'ledger.db'}"
    key = ApproverKey.create(folder / "alice.pem", PASSPHRASE)
    bootstrap.create_log_key(folder / "log.key", "readback.test/console")
    people = [Approver("alice", key.public_key, (TENANT,))]
    # A day ago: what was due then is overdue for the server, and the approval's term has not passed.
    runtime = VirtualRuntime(start_us=bootstrap.runtime().now_us() - DAY_US)
    store = bootstrap.store(url)
    try:
        trip = Trip(store=store, runtime=runtime)
        trip.world.faults["charge"] = "refused"
        ids = {"saga": trip.run().id}
        trip.work()
        ids |= _of_people(store, runtime)
    finally:
        store.close()
    with Readback.open(
        url, tenant=TENANT, principal=PRINCIPAL, run="run-2", runtime=runtime, approvers=people, seal=False
    ) as rb:
        refund = ship_of(Desk(), name="refund", approval={"expires": "300d"})
        ids |= _of_a_desk(rb)
        ids["approval"] = rb.run(refund(order_id="o-9", carrier="dhl"), operation="refund o-9").id
    sealing = {"key_file": str(folder / "log.key")} if seal else False
    with Readback.open(url, tenant=OTHER, principal="agent:other", runtime=runtime, seal=sealing) as rb:
        ids["foreign"] = rb.run(ship_of(Desk())(order_id="o-1", carrier="ups"), operation="theirs").id
    _bury(url, ids["verified"])
    return Scenes(url, ids, key, refund)


def _of_people(store: LedgerStore, runtime: VirtualRuntime) -> dict[str, str]:
    """A frozen target with an incident, and an action that a person must decide."""
    house = House(store=store, runtime=runtime)  # type: ignore[arg-type]
    frozen = house.run(wrong_target(house)).id
    house = House(store=store, runtime=runtime)  # type: ignore[arg-type]
    house.shop.rows["o-3"] = {"id": "o-3", "tenant": TENANT, "status": "open", "version": 1, "author": "seed"}
    return {"frozen": frozen, "review": house.run(doubtful(house), "op-doubt", item="o-3").id}


def _of_a_desk(rb: Readback) -> dict[str, str]:
    desk, ids = Desk(), dict[str, str]()
    ship = ship_of(desk)
    ids["verified"] = rb.run(ship(order_id="o-7", carrier="dhl"), operation="ship o-7").id
    desk.instead = lambda _ctx: {"status": HOSTILE, "said": HOSTILE + "x" * LARGE_CHARACTERS}
    ids["hostile"] = rb.run(ship(order_id="o-8", carrier=HOSTILE), operation="ship o-8").id
    desk.instead = None
    desk.instead = lambda _ctx: {"status": "accepted"}
    slow = ship_of(desk, name="slow", within="30d", polls=["0s", "1h"])
    ids["overdue"] = rb.run(slow(order_id="o-11", carrier="dhl"), operation="slow o-11", wait=1).id
    blind = ship_of(desk, name="page", within="1s", polls=["0s"], deadline="2s")
    calls = desk.calls
    desk.looking = lambda _ctx: _fail() if desk.calls > calls else None
    ids["unknown"] = rb.run(blind(order_id="o-12", carrier="dhl"), operation="page o-12", wait=30).id
    return ids


def _fail() -> None:
    raise ConnectionError("The system of record does not answer.")


def _bury(url: str, action_id: str) -> None:
    """Two dead letters of a subscriber, as a delivery leaves them."""
    store = bootstrap.store(url)
    try:
        seq = next(each.seq for each in reversed(store.events(action_id)) if each.kind == "judged")
        store.enrol("crm", 0)
        held = store.take_cursor("crm", "w", 1, 2)
        assert held is not None
        moved = Cursor("crm", seq)
        letter = DeadLetter("crm", seq, 0, died_us=NOON_US, tried=3, said=f"answered 500: {HOSTILE}")
        assert store.keep_cursor(held, moved, [letter])
    finally:
        store.close()
