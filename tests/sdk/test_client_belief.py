"""The belief of a run through both clients: what the ledger says, and nothing that a tool said."""

from __future__ import annotations

import asyncio
import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

from readback import Context, Planning, State, bootstrap
from readback.client.operations import believing
from readback.errors import NotDispatchedError, UsageError
from readback.ports.storage.store import LedgerStore
from readback.testing.runtime_virtual import START_US, VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.sdk.given import Desk, opened, opened_async, ship_async_of, ship_of


def stores(tmp_path: Path) -> list[LedgerStore]:
    return [MemoryStore(), bootstrap.store(f"sqlite:///{tmp_path / 'ledger.db'}")]


@pytest.mark.requirement("BELIEF-from-ledger", "BELIEF-outcomes-only")
@pytest.mark.parametrize("which", [0, 1])
def test_a_run_is_believed_as_the_ledger_tells_it(tmp_path: Path, which: int) -> None:
    store, desk, runtime = stores(tmp_path)[which], Desk(), VirtualRuntime()
    ship = ship_of(desk, deadline="1h")
    with opened(store, runtime, run="r-1", actions=[ship]) as rb:
        rb.run(ship(order_id="o-1", carrier="dhl"), operation="one")
        desk.instead = lambda _ctx: {"status": "ok", "note": "all shipped and done"}
        lied = rb.run(ship(order_id="o-2", carrier="dhl"), operation="two", wait=0)
        belief = rb.belief()
        assert [(f.target, dict(f.told)) for f in belief.verified] == [("order/o-1", {"status": "shipped"})]
        assert [(i.action_id, i.rule) for i in belief.unresolved] == [(lied.id, Planning.WAIT)]
        assert "all shipped and done" not in belief.for_model() + belief.message
        assert belief.after(rb.get(lied.id)).as_json() == belief.as_json()
        late = belief
    if which:
        store = bootstrap.store(f"sqlite:///{tmp_path / 'ledger.db'}")
    else:
        store = store.reopened()  # type: ignore[attr-defined]
    with opened(store, runtime, actions=[ship]) as other:
        assert other.belief("r-1").as_json() == late.as_json(), "another process believes the same"


def test_the_async_client_believes_the_same() -> None:
    desk, store, runtime = Desk(), MemoryStore(), VirtualRuntime()
    ship = ship_async_of(desk)

    async def go() -> dict[str, Any]:
        async with opened_async(store, runtime, run="r-1") as rb:
            await rb.run(ship(order_id="o-1", carrier="dhl"), operation="one")
            return (await rb.belief()).as_json()

    told = asyncio.run(go())
    with opened(store.reopened(), runtime, run="r-1") as rb:
        assert rb.belief().as_json() == told
        assert len(rb.belief().verified) == 1


@pytest.mark.requirement("TENANT-invisible")
def test_a_belief_is_of_one_run_and_one_tenant() -> None:
    desk, store, runtime = Desk(), MemoryStore(), VirtualRuntime()
    ship = ship_of(desk)
    with opened(store, runtime, run="r-1") as rb, opened(store, runtime, run="r-2") as other:
        rb.run(ship(order_id="o-1", carrier="dhl"), operation="one")
        assert other.belief().entries == {}
        assert len(other.belief("r-1").verified) == 1
        with opened(store, runtime, tenant="else", run="r-1") as foreign:
            assert foreign.belief().entries == {}


def test_a_belief_needs_a_run() -> None:
    with opened() as rb, pytest.raises(UsageError, match="no run is named"):
        rb.belief()


@pytest.mark.requirement("BELIEF-bounded")
def test_older_settled_actions_are_counted_and_open_ones_always_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(believing, "SETTLED_LOADED_MAX", 3)
    monkeypatch.setattr(believing, "PAGE", 2)
    desk, runtime = Desk(), VirtualRuntime()
    ship = ship_of(desk, deadline="1h")
    with opened(runtime=runtime, run="r") as rb:
        desk.instead = lambda _ctx: {"status": "ok"}
        open_one = rb.run(ship(order_id="o-0", carrier="dhl"), operation="lied", wait=0)
        desk.instead = None
        for number in range(1, 6):
            runtime.advance(1)
            rb.run(ship(order_id=f"o-{number}", carrier="dhl"), operation=f"op-{number}")
        belief = rb.belief()
    assert [each.target for each in belief.verified] == ["order/o-3", "order/o-4", "order/o-5"]
    assert [each.action_id for each in belief.unresolved] == [open_one.id]
    assert belief.older == 2
    assert "Left out: 2 older settled results" in belief.for_model()


@pytest.mark.requirement("GROUND-compensated")
@pytest.mark.requirement("BELIEF-from-ledger")
@pytest.mark.parametrize("again", ["done", "failed"])
def test_a_repetition_after_the_clock_was_set_back_is_what_is_believed(again: str) -> None:
    """Ids follow the clock, and the repetition's is the smaller one then."""
    desk, store = Desk(), MemoryStore()

    def nobody(_ctx: Context) -> object:
        raise NotDispatchedError("No line.")

    earlier = VirtualRuntime(seed=1, start_us=START_US - 3_600_000_000)
    desk.instead = nobody
    with opened(store, run="r-1") as rb:
        first = rb.run(ship_of(desk)(order_id="o-1", carrier="dhl"), operation="one")
        assert (first.state, first.repeat_allowed) == (State.FAILED, True)
        with opened(store.reopened(), earlier, run="r-1") as other:
            desk.instead = None if again == "done" else nobody
            second = other.run(ship_of(desk)(order_id="o-1", carrier="dhl"), operation="one")
        belief = pickle.loads(pickle.dumps(rb.belief()))  # noqa: S301 -- our own bytes
    assert second.id < first.id
    told = [*belief.verified, *belief.not_done]
    assert [each.action_id for each in told] == [second.id]
    assert second.verified is (again == "done")
    assert len(belief.verified) == (again == "done")


def test_a_reversal_stands_under_what_it_reverses() -> None:
    desk = Desk()
    ship = ship_of(
        desk,
        side_effect="medium_risk_write",
        identity={"target": "authoritative.id", "tenant": "authoritative.tenant", "actor": "not_offered"},
    )

    @ship.compensate(name="unship", kind="set", ensure={"open": "authoritative.status == 'open'"})
    def unship(ctx: Any, order_id: str, carrier: str) -> object:
        desk.order(order_id).update(status="open", stamp=ctx.stamp, version=9)
        return None

    with opened(run="r") as rb:
        desk.during = lambda ctx: desk.order().update(carrier="ups")
        told = rb.run(ship(order_id="o-1", carrier="dhl"), operation="one")
        assert told.state == "compensated", told.message
        belief = rb.belief()
    assert [(i.action_id, i.rule) for i in belief.not_done] == [(told.id, Planning.REFRESH_AND_REPLAN)]
    assert belief.verified == ()
    assert len(belief.entries) == 2


@pytest.mark.requirement("BELIEF-from-ledger")
def test_a_sagas_steps_stand_under_it() -> None:
    desk, runtime = Desk(), VirtualRuntime()
    ship = ship_of(desk, deadline="1h", within="30m", execute={"honours_key": True})
    with opened(runtime=runtime, run="r") as rb:
        first = ship(order_id="o-1", carrier="dhl").as_step("first", pivot=True)
        second = ship(order_id="o-2", carrier="dhl").as_step("second", after=("first",))
        done = rb.saga([first, second], name="trip", operation="trip 1")
        belief = rb.belief()
        (group,) = belief.groups
        assert (group.id, group.name, group.rule) == (done.id, "trip", Planning.CONTINUE)
        assert [belief.of(each) in belief.verified for each in group.steps] == [True, True]
        assert f'saga "trip": reconciled_success. Rule: continue. Saga "{done.id}"' in belief.for_model()
        assert belief.of(done.id) is None, "a saga is no action"


@pytest.mark.requirement("BELIEF-outcomes-only", "TRUTH-hold-attestation")
def test_an_attestation_makes_no_fact() -> None:
    desk, runtime = Desk(), VirtualRuntime()
    ship = ship_of(desk)
    with opened(runtime=runtime, run="r") as rb:
        desk.instead = lambda ctx: desk.order("o-9").update(stamp=ctx.stamp, status="shipped", version=1)
        held = rb.run(ship(order_id="o-1", carrier="dhl"), operation="one")
        assert [each.rule for each in rb.belief().unresolved] == [Planning.FROZEN]
        assert [each.subject for each in rb.belief().frozen] == ["resource:order/o-1"]
        version = rb.review(held.id).version
        rb.resolve(held.id, "attest_done", expect_version=version, who="human:ana", reason="seen in the shop")
        belief = rb.belief()
    assert belief.verified == ()
    assert [(each.rule, each.why) for each in belief.unresolved] == [
        (Planning.DO_NOT_REPEAT, "A person attested that it was done; that is no verification.")
    ]
    assert "A person attested that it was done; that is not a verification." in belief.for_model()


def test_what_is_told_can_be_copied_and_sent_to_another_process() -> None:
    """Checkpoints of agents' frameworks copy or pickle the state that they keep."""
    ship = ship_of(Desk())
    with opened(MemoryStore(), run="r-1") as rb:
        outcome = rb.run(ship(order_id="o-1", carrier="dhl"), operation="one")
        for told in (outcome, rb.belief(), rb.claims(outcome.id)):
            assert copy.deepcopy(told) == told
            assert pickle.loads(pickle.dumps(told)) == told  # noqa: S301 -- our own bytes
        belief = pickle.loads(pickle.dumps(rb.belief()))  # noqa: S301 -- our own bytes
        assert belief.for_model() == rb.belief().for_model()
        with pytest.raises(TypeError):
            belief.entries["x"] = belief.verified[0]
