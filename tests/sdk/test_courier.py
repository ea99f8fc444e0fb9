"""The courier: nobody waits for a sink, none waits for another, and no thread is left over when it is closed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from readback import AsyncReadback, Message, Readback, Subscriber, bootstrap
from readback.adapters.runtime_system import SystemRuntime
from readback.background import dispatcher as couriers
from readback.background.dispatcher import SWEEP_US, OutboxDispatcher
from readback.domain.records.message import EventName
from readback.errors import SettingsError, StoreError
from readback.ports.storage.store import LedgerStore
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.sdk.given import PRINCIPAL, TENANT, Desk, ship_of
from tests.sdk.telling import ListSink, delivery_of, refuse, run_some

PATIENT_S = 60.0
"""Longer than anything here takes, however busy the machine is."""


@pytest.fixture(autouse=True)
def no_thread_is_left_over() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


@pytest.fixture
def runtime() -> VirtualRuntime:
    return VirtualRuntime()


@pytest.fixture
def store() -> LedgerStore:
    return MemoryStore()


def flushed(courier: OutboxDispatcher) -> None:
    courier._swept_us = 0
    courier.sweep()
    assert courier.flush(PATIENT_S)


def test_what_is_left_untold_is_told_by_whoever_sweeps(store: LedgerStore, runtime: VirtualRuntime) -> None:
    sink = ListSink()
    courier = OutboxDispatcher(runtime, [delivery_of(store, runtime, sink)])
    run_some(store, runtime, "1")
    courier.sweep()
    assert courier.flush(PATIENT_S)
    run_some(store, runtime, "2")
    courier.sweep()
    assert courier.flush(PATIENT_S)
    assert len(sink.taken) == 1, "not at every turn"
    runtime.advance(SWEEP_US / 1_000_000)
    courier.sweep()
    courier.close()
    assert len(sink.taken) == 2, "closing waits for what was asked for"


def test_a_clock_that_is_set_back_puts_no_sweep_off(store: LedgerStore, runtime: VirtualRuntime) -> None:
    sink = ListSink()
    courier = OutboxDispatcher(runtime, [delivery_of(store, runtime, sink)])
    courier.sweep()
    runtime._clock.now_us -= 3600 * 1_000_000
    run_some(store, runtime, "1")
    courier.sweep()
    assert courier.flush(PATIENT_S)
    assert len(sink.taken) == 1
    courier.close()


@pytest.mark.requirement("CLAIM-events")
def test_a_sink_that_hangs_keeps_neither_the_engine_nor_other_sinks_waiting_and_is_broken_off_at_the_end(
    store: LedgerStore, runtime: VirtualRuntime
) -> None:
    hanging, well = ListSink(gate=threading.Event()), ListSink()
    lanes = [delivery_of(store, runtime, hanging, name="a"), delivery_of(store, runtime, well, name="b")]
    courier = OutboxDispatcher(runtime, lanes)
    run_some(store, runtime, "1", "2")
    courier.sweep()
    assert hanging.inside.wait(PATIENT_S)
    assert courier._lanes[1].flush(PATIENT_S)
    assert len(well.taken) == 2
    assert not courier.flush(0.001)
    courier.close(patience_s=0)
    assert hanging.taken == []
    [cursor] = [one for one in store.cursors() if one.name == "a"]
    assert (cursor.after_seq, cursor.tried, cursor.owner) == (0, 0, ""), "it is told by the next process"


def test_closing_takes_no_longer_for_ten_sinks_that_hang_than_for_one(
    store: LedgerStore, runtime: VirtualRuntime
) -> None:
    sinks = [ListSink(gate=threading.Event()) for _ in range(10)]
    courier = OutboxDispatcher(
        runtime, [delivery_of(store, runtime, sink, name=f"s{n}") for n, sink in enumerate(sinks)]
    )
    run_some(store, runtime, "1")
    courier.sweep()
    for sink in sinks:
        assert sink.inside.wait(PATIENT_S)
    courier.close(patience_s=0.01)
    assert all(sink.stopped for sink in sinks)


@pytest.mark.requirement("CLAIM-events")
def test_waking_a_lane_whose_thread_is_just_ending_waits_for_nothing_but_its_end(
    store: LedgerStore, runtime: VirtualRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last round says that it has ended; whoever wakes the lane right then joins the thread with the bell held."""
    sink, ended, go_on = ListSink(), threading.Event(), threading.Event()
    courier = OutboxDispatcher(runtime, [delivery_of(store, runtime, sink)])
    [lane] = courier._lanes
    rounds = lane._round

    def held_at_its_end() -> bool:
        more = rounds()
        if not more and not ended.is_set():
            ended.set()
            assert go_on.wait(PATIENT_S)
        return more

    monkeypatch.setattr(lane, "_round", held_at_its_end)
    run_some(store, runtime, "1")
    lane.notify()
    assert ended.wait(PATIENT_S)
    run_some(store, runtime, "2")
    first, joined = lane._thread, threading.Event()
    assert first is not None
    join = first.join

    def asked_to_join(timeout: float | None = None) -> None:
        joined.set()
        join(timeout)

    monkeypatch.setattr(first, "join", asked_to_join)
    waking = threading.Thread(target=lane.notify, daemon=True)
    waking.start()
    assert joined.wait(PATIENT_S), "it holds the bell now"
    go_on.set()
    waking.join(PATIENT_S / 6)
    assert not waking.is_alive(), "nobody waits for ever"
    courier.close()
    assert len(sink.taken) == 2


def test_a_closed_courier_tells_nothing_more_and_may_be_closed_again(
    store: LedgerStore, runtime: VirtualRuntime
) -> None:
    sink = ListSink()
    courier = OutboxDispatcher(runtime, [delivery_of(store, runtime, sink)])
    courier.close()
    run_some(store, runtime, "1")
    courier.sweep()
    courier.close()
    assert sink.asked == 0


def test_on_a_real_clock_a_refused_message_is_tried_again_by_itself(store: LedgerStore) -> None:
    runtime, back = SystemRuntime(), threading.Event()
    sink = ListSink()

    def first_not(_message: Message) -> None:
        if sink.asked == 1:
            refuse(_message)
        back.set()

    sink.instead = first_not
    courier = OutboxDispatcher(runtime, [delivery_of(store, runtime, sink)])  # type: ignore[arg-type]
    run_some(store, VirtualRuntime(), "1")
    courier.sweep()
    assert back.wait(PATIENT_S)
    courier.close()
    assert len(sink.taken) == 1


def test_on_a_real_clock_closing_ends_whoever_waits_for_a_later_try(store: LedgerStore) -> None:
    runtime = SystemRuntime()
    sink = ListSink(instead=refuse)
    courier = OutboxDispatcher(runtime, [delivery_of(store, runtime, sink)])  # type: ignore[arg-type]
    run_some(store, VirtualRuntime(), "1")
    courier.sweep()
    assert courier.flush(PATIENT_S), "it waits, and has nothing to do now"
    courier.close()
    assert sink.asked >= 1


def test_a_thread_that_has_nothing_to_do_ends_and_is_there_again_when_needed(
    store: LedgerStore, runtime: VirtualRuntime
) -> None:
    sink = ListSink()
    courier = OutboxDispatcher(runtime, [delivery_of(store, runtime, sink)])
    for number in range(20):
        run_some(store, runtime, str(number))
        flushed(courier)
        assert len(sink.taken) == number + 1
    courier.close()


def test_a_store_that_fails_for_a_while_ends_nothing(
    store: LedgerStore, runtime: VirtualRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = ListSink()
    delivery = delivery_of(store, runtime, sink)
    courier = OutboxDispatcher(runtime, [delivery])
    run_some(store, runtime, "1")
    look, broken = delivery.look, [True]

    def breaks() -> int | None:
        if broken:
            raise StoreError("The disk is gone.")
        return look()

    monkeypatch.setattr(delivery, "look", breaks)
    flushed(courier)
    assert sink.taken == []
    broken.clear()
    flushed(courier)
    assert len(sink.taken) == 1
    courier.close()


def test_where_no_thread_can_be_started_the_next_process_tells_it(
    store: LedgerStore, runtime: VirtualRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = ListSink()
    courier = OutboxDispatcher(runtime, [delivery_of(store, runtime, sink)])
    run_some(store, runtime, "1")

    def never(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(couriers.threading.Thread, "start", never)  # type: ignore[attr-defined]
        courier.sweep()
    flushed(courier)
    assert len(sink.taken) == 1
    courier.close()


# --- through the clients --------------------------------------------------------------------------------------------


@pytest.mark.requirement("CLAIM-events")
def test_a_programs_subscribers_are_told_while_it_runs_and_by_the_time_it_is_closed(tmp_path: Path) -> None:
    told: list[Message] = []
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ship = ship_of(Desk())
    file = tmp_path / "told.jsonl"
    subscribers = [Subscriber("app", tell=told.append, timeout_s=PATIENT_S), Subscriber("log", file=str(file))]
    with Readback.open(
        url, tenant=TENANT, principal=PRINCIPAL, runtime=VirtualRuntime(), subscribers=subscribers
    ) as rb:
        verified = rb.run(ship(order_id="o-1", carrier="dhl"), operation="one")
    assert [(one.name, one.subject) for one in told] == [(EventName.ACTION_RECONCILED, verified.id)]
    assert len(file.read_text().splitlines()) == 1


def test_the_async_client_tells_too(tmp_path: Path) -> None:
    import asyncio

    told: list[Message] = []
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ship = ship_of(Desk())

    async def hear(message: Message) -> None:
        told.append(message)

    async def main() -> None:
        app = Subscriber("app", tell=hear, timeout_s=PATIENT_S)
        async with AsyncReadback.open(
            url, tenant=TENANT, principal=PRINCIPAL, runtime=VirtualRuntime(), subscribers=[app]
        ) as rb:
            await rb.run(ship(order_id="o-1", carrier="dhl"), operation="one")

    asyncio.run(main())
    assert [one.name for one in told] == [EventName.ACTION_RECONCILED]


def test_a_subscriber_of_one_tenant_is_told_of_no_other_and_loses_nothing_to_one_of_its_name(tmp_path: Path) -> None:
    url, runtime = f"sqlite:///{tmp_path / 'ledger.db'}", VirtualRuntime()
    heard: dict[str, list[Message]] = {"acme": [], "globex": []}
    made: dict[str, set[str]] = {"acme": set(), "globex": set()}
    for number, tenant in enumerate(("acme", "globex", "acme", "globex")):
        app = Subscriber("app", tell=heard[tenant].append, timeout_s=PATIENT_S)
        ship = ship_of(Desk(), late_window="0s")
        with Readback.open(url, tenant=tenant, principal=PRINCIPAL, runtime=runtime, subscribers=[app]) as rb:
            made[tenant].add(rb.run(ship(order_id="o-1", carrier="dhl"), operation=str(number)).id)
    for tenant, messages in heard.items():
        assert {message.tenant for message in messages} == {tenant}
        assert {message.subject for message in messages} == made[tenant]
    store = bootstrap.store(url)
    assert [one.name for one in store.cursors()] == ["acme/app", "globex/app"]
    store.close()


def test_a_program_may_ask_for_its_own_tenant_alone() -> None:
    app = Subscriber("app", tell=print, tenants=("globex",))
    with pytest.raises(SettingsError, match="other tenants"):
        Readback.open(store=MemoryStore(), tenant="acme", principal=PRINCIPAL, subscribers=[app])
    with pytest.raises(SettingsError, match="Subscriber"):
        Readback.open(store=MemoryStore(), tenant="acme", principal=PRINCIPAL, subscribers=[print])  # type: ignore[list-item]
    twice = [Subscriber("app", tell=print)] * 2
    with pytest.raises(SettingsError, match="taken"):
        Readback.open(store=MemoryStore(), tenant="acme", principal=PRINCIPAL, subscribers=twice)


def test_without_subscribers_nothing_is_written_and_no_thread_is_started(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    before = set(threading.enumerate())
    with Readback.open(url, tenant=TENANT, principal=PRINCIPAL, runtime=VirtualRuntime()) as rb:
        rb.run(ship_of(Desk())(order_id="o-1", carrier="dhl"), operation="one")
        assert set(threading.enumerate()) <= before
    store = bootstrap.store(url)
    assert store.cursors() == []
    store.close()
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]
