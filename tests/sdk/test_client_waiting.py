"""The sync client and time: patience, waking, stopping, going on; hours of it in milliseconds."""

from __future__ import annotations

import threading

import pytest

from readback import Context, Readback, State
from readback.testing.runtime_virtual import US_PER_SECOND, VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.sdk.given import PRINCIPAL, TENANT, Desk, opened, ship_of

HOUR = 3600


def late_desk(runtime: VirtualRuntime, seconds: float) -> Desk:
    """Its tool is accepted, and the order ships after so many seconds."""
    desk = Desk()
    due: dict[str, int] = {}

    def accept(ctx: Context) -> object:
        due[ctx.stamp] = runtime.now_us() + int(seconds * US_PER_SECOND)
        return {"status": "accepted", "id": "job-7"}

    def land(ctx: Context) -> None:
        if due.get(ctx.stamp, 2**62) <= runtime.now_us():
            desk.order().update(status="shipped", carrier="dhl", stamp=ctx.stamp, version=1)

    desk.instead, desk.looking = accept, land
    return desk


@pytest.mark.requirement("TRUTH-time-runtime")
def test_hours_of_waiting_pass_in_virtual_time() -> None:
    runtime = VirtualRuntime()
    desk = late_desk(runtime, 5 * HOUR)
    began_us = runtime.now_us()
    with opened(runtime=runtime) as rb:
        outcome = rb.run(ship_of(desk, within="6h", polls=["0s", "10m"])(order_id="o-1", carrier="dhl"), operation="op")
    assert outcome.verified
    assert runtime.now_us() - began_us >= 5 * HOUR * US_PER_SECOND
    assert desk.calls == 1


@pytest.mark.requirement("TRUTH-time-wait")
def test_without_patience_it_is_pending_and_can_be_waited_for() -> None:
    runtime = VirtualRuntime()
    desk = late_desk(runtime, 30)
    ship = ship_of(desk, within="1h", polls=["0s", "10s"])
    with opened(runtime=runtime) as rb:
        pending = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op", wait=0)
        assert (pending.state, pending.settled, pending.verified) == (State.PENDING, False, False)
        assert pending.due_us is not None
        assert "pending" in pending.message.lower()
        still = rb.wait(pending.id, 5)
        assert (still.state, still.id) == (State.PENDING, pending.id)
        done = rb.wait(pending.id)
        assert done.verified
        assert rb.wait(pending.id, 0) == done == rb.get(pending.id)
    assert desk.calls == 1


@pytest.mark.requirement("TRUTH-time-wait")
def test_a_second_run_without_patience_joins_and_is_marked_as_a_replay() -> None:
    runtime = VirtualRuntime()
    desk = late_desk(runtime, 30)
    ship = ship_of(desk, within="1h", polls=["0s", "10s"])
    with opened(runtime=runtime) as rb:
        first = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op", wait=0)
        joined = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op", wait=0)
        done = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
    assert (first.replayed, joined.replayed, done.replayed) == (False, True, True)
    assert {first.id, joined.id, done.id} == {first.id}
    assert (done.verified, desk.calls) == (True, 1)


@pytest.mark.requirement("TRUTH-time-signal")
def test_a_signal_brings_the_next_reading_forward_and_proves_nothing() -> None:
    runtime = VirtualRuntime()
    desk = late_desk(runtime, 2 * HOUR)
    ship = ship_of(desk, within="6h", polls=["0s", "5h"])
    with opened(runtime=runtime, actions=[ship]) as rb:
        pending = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op", wait=0)
        looks = desk.looks
        assert rb.resume() == []
        assert rb.signal(pending.id)
        [still] = rb.resume()
        assert (still.state, desk.looks) == (State.PENDING, looks + 1)
        runtime.advance(2 * HOUR)
        assert rb.signal(pending.stamp)
        [done] = rb.resume()
        assert done.verified
        assert not rb.signal(pending.id)


def test_a_worker_goes_on_with_what_is_due_and_starves_nobody() -> None:
    runtime, store = VirtualRuntime(), MemoryStore()
    desk = late_desk(runtime, 30)
    strange = ship_of(desk, name="strange", within="1h", polls=["0s", "10s"])
    ship = ship_of(desk, within="1h", polls=["0s", "11s"])
    with opened(store.reopened(), runtime) as rb:
        for number in range(5):
            rb.run(strange(order_id="o-1", carrier="dhl"), operation=f"strange {number}", wait=0)
        mine = rb.run(ship(order_id="o-1", carrier="dhl"), operation="mine", wait=0)
    runtime.advance(60)
    with opened(store.reopened(), runtime, actions=[ship]) as rb:
        # The other contract is not known here; its actions are due for longer, and are left to whoever knows it.
        assert [each.id for each in rb.resume(limit=1)] == [mine.id]
        assert rb.get(mine.id).verified
        assert rb.resume(limit=1) == []
    with opened(store.reopened(), runtime, actions=[strange]) as rb:
        assert len(rb.resume(limit=2)) == 2
        assert len(rb.resume()) == 3


# --- stopping ---


@pytest.mark.requirement("TRUTH-time-cancel")
def test_a_cancelled_action_whose_effect_is_shown_is_reversed() -> None:
    runtime = VirtualRuntime()
    desk = late_desk(runtime, 30)
    ship = ship_of(desk, within="1h", polls=["0s", "10s"])

    @ship.compensate(kind="set", ensure={"open": "authoritative.status == 'open'"}, within="1m")
    def unship(ctx: Context, order_id: str, carrier: str) -> object:
        desk.order().update(status="open", carrier="", stamp=ctx.stamp, version=9)
        return {"status": "ok"}

    with opened(runtime=runtime) as rb:
        pending = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op", wait=0)
        assert rb.cancel(pending.id).state is State.PENDING
        done = rb.wait(pending.id)
        assert done.state is State.COMPENSATED
        assert rb.get(done.compensation).verified
        assert rb.cancel(pending.id) == done
    assert desk.order()["status"] == "open"


def test_cancelling_comes_back_at_once_however_long_the_window_is() -> None:
    runtime = VirtualRuntime()
    ship = ship_of(late_desk(runtime, 5 * HOUR), within="6h", polls=["0s", "1h"])
    with opened(runtime=runtime) as rb:
        pending = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op", wait=0)
        before_us = runtime.now_us()
        assert rb.cancel(pending.id).state is State.PENDING
        assert runtime.now_us() - before_us < US_PER_SECOND


def test_what_has_ended_stays_as_it_ended() -> None:
    with opened() as rb:
        done = rb.run(ship_of(Desk())(order_id="o-1", carrier="dhl"))
        assert rb.cancel(done.id) == done


# --- a reversal that takes its time ---


def test_a_caller_without_patience_leaves_a_slow_reversal_to_whoever_comes_next() -> None:
    """Nobody holds it meanwhile: the next one goes on with the reversal and its action at once, in whatever way."""
    runtime = VirtualRuntime()
    desk = Desk()
    due: dict[str, int] = {}

    def spoil(ctx: Context) -> object:
        desk.order().update(status="shipped", carrier="nobody", stamp=ctx.stamp, version=1)
        return {"status": "ok"}

    def land(_ctx: Context) -> None:
        for stamp, when in due.items():
            if when <= runtime.now_us():
                desk.order().update(status="open", carrier="", stamp=stamp, version=2)

    desk.instead, desk.looking = spoil, land
    ship = ship_of(desk, within="1s", deadline="1s", polls=["0s"])

    @ship.compensate(kind="set", ensure={"open": "authoritative.status == 'open'"}, within="1h", polls=["0s", "1m"])
    def unship(ctx: Context, order_id: str, carrier: str) -> object:
        due[ctx.stamp] = runtime.now_us() + 600 * US_PER_SECOND
        return {"status": "accepted"}

    with opened(runtime=runtime) as rb:
        pending = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op", wait=2)
        assert pending.state is State.COMPENSATING
        began_us = runtime.now_us()
        assert rb.wait(pending.id).state is State.COMPENSATED
        assert runtime.now_us() - began_us < 1000 * US_PER_SECOND
    assert len(due) == 1


# --- several at once ---


class Overtaken(VirtualRuntime):
    """While it sleeps somebody else looks first."""

    def sleep(self, seconds: float) -> None:
        overtake()
        super().sleep(seconds)


def overtake() -> None:
    """Replaced by the test."""


def test_who_is_overtaken_while_it_sleeps_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease that is taken on what has moved on since would be in everybody's way for over half a minute."""
    store, runtime = MemoryStore(), Overtaken()
    desk = late_desk(runtime, 20)
    ship = ship_of(desk, within="1h", polls=["0s", *["3s"] * 20])
    began_us = runtime.now_us()
    other_runtime = VirtualRuntime.sibling(runtime, "virtual/2")
    with opened(store.reopened(), runtime) as rb, opened(store.reopened(), other_runtime, actions=[ship]) as other:

        def look_first() -> None:
            for each in other.list(state="pending"):
                other.signal(each.id)
            other.resume()

        monkeypatch.setattr("tests.sdk.test_client_waiting.overtake", look_first)
        assert rb.run(ship(order_id="o-1", carrier="dhl"), operation="op").verified
    assert runtime.now_us() - began_us < 30 * US_PER_SECOND


@pytest.mark.requirement("TRUTH-time-level-based")
def test_a_sleeper_is_woken_by_a_signal_from_another_thread() -> None:
    """On real time: the window is an hour, and the test takes as long as the signal does."""
    desk = Desk()
    waiting, shipped = threading.Event(), threading.Event()

    def accept(_ctx: Context) -> object:
        return {"status": "accepted"}

    def land(ctx: Context) -> None:
        if shipped.is_set():
            desk.order().update(status="shipped", carrier="dhl", stamp=ctx.stamp, version=1)
        elif ctx.observed is not None:
            waiting.set()

    desk.instead, desk.looking = accept, land
    ship = ship_of(desk, within="1h", polls=["0s", "30m"])
    with Readback.open(tenant=TENANT, principal=PRINCIPAL, store=MemoryStore()) as rb:
        told: list[bool] = []
        runner = threading.Thread(
            target=lambda: told.append(rb.run(ship(order_id="o-1", carrier="dhl"), operation="op").verified)
        )
        runner.start()
        assert waiting.wait(10)
        shipped.set()
        # A signal that comes before the sleeper lies down finds the action still held; the next one wakes it.
        [action] = rb.list()
        while runner.is_alive():
            rb.signal(action.id)
            runner.join(0.2)
    assert told == [True]
