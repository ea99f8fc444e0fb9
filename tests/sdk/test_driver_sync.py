"""The sync driver: whose thread a hand runs in, limits, interrupts, and that nothing is left behind.

Nothing here sleeps: a tool that hangs waits for an event that nobody sets, and is cut off.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from readback import Context, Readback, Reading, State, Verdict, action
from readback.domain.verification.observation import ObservationStatus
from readback.errors import UnknownOutcomeError
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.sdk.given import PRINCIPAL, TENANT, TERMS, Belongings, Desk, opened, ship_async_of, ship_of

NEVER = 60.0
"""Of an event that nobody sets: seconds until a test that went wrong ends."""
SOON = {"timeout": "50ms"}


def hang(_ctx: object = None) -> None:
    threading.Event().wait(NEVER)


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    before = Belongings.now()
    yield
    assert Belongings.now() == before


# --- whose thread ---


def test_sync_hands_run_in_the_callers_own_thread() -> None:
    desk = Desk()
    with opened() as rb:
        assert rb.run(ship_of(desk)(order_id="o-1", carrier="dhl")).verified
    assert desk.idents == {threading.get_ident()}
    assert desk.looks >= 2


def test_async_hands_run_on_one_loop_beside_it() -> None:
    desk = Desk()
    ship = ship_async_of(desk, lambda _ctx: _turn())
    with opened() as rb:
        for number in range(3):
            assert rb.run(ship(order_id="o-1", carrier="dhl"), operation=f"op {number}").settled
    assert len(desk.idents) == 1
    assert desk.idents != {threading.get_ident()}


async def _turn() -> None:
    """One turn of the loop."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.call_soon(ready.set_result, None)
    await ready


@pytest.mark.parametrize("make", [ship_of, ship_async_of], ids=["sync hands", "async hands"])
def test_it_works_while_an_event_loop_runs_in_this_thread(make: Any) -> None:
    """As in a notebook: the cell's code is run by a loop, and calls us without await."""
    desk = Desk()

    async def cell() -> bool:
        with opened() as rb:
            return rb.run(make(desk)(order_id="o-1", carrier="dhl")).verified

    assert asyncio.run(cell())


def test_a_run_inside_an_async_tool_has_a_loop_of_its_own() -> None:
    desk, inner = Desk(), Desk()
    inner_ship = ship_async_of(inner, lambda _ctx: _turn(), name="inner")
    with opened() as rb:

        async def nested(_ctx: Context) -> None:
            assert rb.run(inner_ship(order_id="o-1", carrier="ups"), operation="inner").verified

        assert rb.run(ship_async_of(desk, nested)(order_id="o-1", carrier="dhl"), operation="outer").verified
    assert (desk.calls, inner.calls) == (1, 1)


# --- limits ---


@pytest.mark.parametrize("landed", [True, False])
def test_a_tool_that_hangs_is_cut_off_and_the_reading_settles_what_it_did(landed: bool) -> None:
    desk = Desk()
    desk.during = hang
    if not landed:
        desk.instead = hang
    with opened() as rb:
        outcome = rb.run(ship_of(desk, execute=SOON)(order_id="o-1", carrier="dhl"), operation="op")
    assert outcome.observation is not None
    assert outcome.observation.status is ObservationStatus.TIMEOUT
    assert outcome.verified is landed
    if not landed:
        assert outcome.verdict is Verdict.UNDETERMINED
        assert not outcome.may_repeat


def test_an_async_tool_that_hangs_is_cancelled() -> None:
    desk, seen = Desk(), []

    async def wait(_ctx: Context) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    with opened() as rb:
        outcome = rb.run(ship_async_of(desk, wait, execute=SOON)(order_id="o-1", carrier="dhl"), operation="op")
    assert outcome.observation is not None
    assert (outcome.observation.status, outcome.verified, seen) == (ObservationStatus.TIMEOUT, True, ["cancelled"])


def test_a_tool_that_catches_every_exception_is_cut_off_all_the_same() -> None:
    desk = Desk()

    def stubborn(_ctx: Context) -> object:
        try:
            hang()
        except Exception:
            return {"status": "ok"}
        return {"status": "ok"}

    desk.instead = stubborn
    with opened() as rb:
        outcome = rb.run(ship_of(desk, execute=SOON)(order_id="o-1", carrier="dhl"), operation="op")
    assert outcome.observation is not None
    assert outcome.observation.status is ObservationStatus.TIMEOUT


def test_outside_the_main_thread_its_answer_is_taken_when_it_comes() -> None:
    desk = Desk()
    desk.during = lambda _ctx: threading.Event().wait(0.1) and None  # type: ignore[func-returns-value]
    told: list[Any] = []
    with opened() as rb:
        proposal = ship_of(desk, execute={"timeout": "10ms"})(order_id="o-1", carrier="dhl")
        runner = threading.Thread(target=lambda: told.append(rb.run(proposal)))
        runner.start()
        runner.join(NEVER)
    assert told[0].verified
    assert told[0].observation.status is ObservationStatus.SUCCESS


FORKED = """
import os, threading, warnings
from tests.sdk.given import Desk, opened, ship_of
from tests.sdk.test_driver_sync import SOON, hang

warnings.simplefilter("ignore", DeprecationWarning)  # since Python 3.12, of a fork beside threads

def child():
    desk = Desk()
    desk.during = hang
    with opened() as rb:
        outcome = rb.run(ship_of(desk, execute=SOON)(order_id="o-1", carrier="dhl"), operation="op")
    os._exit(0 if outcome.verified and outcome.observation.status == "timeout" else 1)

def fork():
    pid = os.fork()
    if pid == 0:
        child()
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

thread = threading.Thread(target=fork)
thread.start()
thread.join()
"""


def test_in_a_process_that_another_thread_forked_a_tool_that_hangs_is_cut_off_too() -> None:
    ended = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=NEVER, check=False)
    assert (ended.stdout, ended.stderr) == ("0\n", "")


def test_a_timer_that_somebody_else_uses_is_left_alone() -> None:
    def theirs(_signum: int, _frame: FrameType | None) -> None:
        """Another library's."""

    desk = Desk()
    before = signal.signal(signal.SIGALRM, theirs)
    try:
        signal.setitimer(signal.ITIMER_REAL, NEVER)
        with opened() as rb:
            assert rb.run(ship_of(desk)(order_id="o-1", carrier="dhl")).verified
        assert signal.getsignal(signal.SIGALRM) is theirs
        assert signal.setitimer(signal.ITIMER_REAL, 0)[0] > 0
    finally:
        signal.signal(signal.SIGALRM, before)


def test_the_outer_tools_limit_holds_for_the_run_inside_it_too() -> None:
    desk, inner, store = Desk(), Desk(), MemoryStore()
    inner.during = hang
    inner_ship = ship_of(inner, name="inner")
    with opened(store) as rb:
        desk.during = lambda _ctx: rb.run(inner_ship(order_id="o-2", carrier="ups"), operation="inner") and None
        outcome = rb.run(ship_of(desk, execute={"timeout": "100ms"})(order_id="o-1", carrier="dhl"), operation="outer")
        assert outcome.observation is not None
        assert (outcome.observation.status, outcome.verified) == (ObservationStatus.TIMEOUT, True)
        [within] = rb.list(contract="inner")
        assert within.observation is not None
        assert (within.observation.status, within.verified) == (ObservationStatus.CANCELLED, True)


def test_the_inner_tools_limit_leaves_the_outer_one_running() -> None:
    desk, inner = Desk(), Desk()
    inner.during = hang
    inner_ship = ship_of(inner, name="inner", execute=SOON)
    with opened() as rb:

        def twice(_ctx: Context) -> None:
            told = rb.run(inner_ship(order_id="o-2", carrier="ups"), operation="inner")
            assert told.observation is not None
            assert told.observation.status is ObservationStatus.TIMEOUT
            hang()

        desk.during = twice
        outcome = rb.run(ship_of(desk, execute={"timeout": "300ms"})(order_id="o-1", carrier="dhl"), operation="outer")
    assert outcome.observation is not None
    assert (outcome.observation.status, outcome.verified) == (ObservationStatus.TIMEOUT, True)


@pytest.mark.requirement("INPUT-reader-hangs")
@pytest.mark.parametrize("with_await", [False, True], ids=["sync reader", "async reader"])
def test_a_reader_that_hangs_is_cut_off_and_proves_nothing(with_await: bool) -> None:
    desk, terms = Desk(), {**TERMS, "within": "1s", "deadline": "1s", "polls": ["0s"]}

    @action(**{"name": "ship", **terms})
    def ship(ctx: Context, order_id: str, carrier: str) -> object:
        return desk.ship(ctx, order_id, carrier)

    reader = ship.read(source="orders", consistency="strong", independence="other_client", timeout="50ms")
    if with_await:

        @reader
        async def hangs_async(ctx: Context, order_id: str, carrier: str) -> Reading:
            if desk.calls:
                await asyncio.get_running_loop().create_future()
            return desk.look(ctx, order_id)
    else:

        @reader
        def hangs(ctx: Context, order_id: str, carrier: str) -> Reading:
            if desk.calls:
                hang()
            return desk.look(ctx, order_id)

    with opened() as rb:
        outcome = rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
    assert (outcome.verdict, outcome.verified) == (Verdict.UNDETERMINED, False)
    assert outcome.state is not State.FAILED
    assert not outcome.may_repeat


# --- interrupts ---


@pytest.mark.parametrize("landed", [True, False])
def test_an_interrupt_during_the_call_is_recorded_before_it_goes_on(landed: bool) -> None:
    desk, store, runtime = Desk(), MemoryStore(), VirtualRuntime()

    def interrupted(_ctx: Context) -> None:
        signal.raise_signal(signal.SIGINT)

    desk.during = interrupted
    if not landed:
        desk.instead = interrupted
    ship = ship_of(desk, within="1h", polls=["0s", "1s"])
    with opened(store.reopened(), runtime, actions=[ship]) as rb:
        with pytest.raises(KeyboardInterrupt):
            rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
        [kept] = rb.list()
        assert kept.observation is not None
        assert kept.observation.status is ObservationStatus.CANCELLED
        assert (kept.verified, kept.state is State.PENDING) == (landed, not landed)
        runtime.advance(10)
        if not landed:
            desk.order().update(status="shipped", carrier="dhl", stamp=kept.stamp, version=1)
            # Nobody holds it: whoever looks next goes on.
            assert [each.verified for each in rb.resume()] == [True]
    assert desk.calls == 1


def test_an_interrupt_during_an_async_call_cancels_it() -> None:
    desk, store, main, seen = Desk(), MemoryStore(), threading.main_thread().ident, []
    assert main is not None

    async def interrupted(_ctx: Context) -> None:
        signal.pthread_kill(main, signal.SIGINT)
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    with opened(store.reopened()) as rb:
        with pytest.raises(KeyboardInterrupt):
            rb.run(ship_async_of(desk, interrupted)(order_id="o-1", carrier="dhl"), operation="op")
        [kept] = rb.list()
    assert kept.observation is not None
    assert (kept.observation.status, kept.verified) == (ObservationStatus.CANCELLED, True)
    assert seen == ["cancelled"]


def test_a_client_that_is_closed_under_a_running_action_says_what_is_unknown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    desk, store, runtime = Desk(), MemoryStore(), VirtualRuntime()
    called, go, told = threading.Event(), threading.Event(), list[BaseException]()

    def block(_ctx: Context) -> None:
        called.set()
        go.wait(NEVER)

    desk.during = block
    ship = ship_of(desk)
    rb = opened(store.reopened(), runtime)

    def work() -> None:
        try:
            rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
        except UnknownOutcomeError as error:
            told.append(error)

    runner = threading.Thread(target=work)
    runner.start()
    assert called.wait(NEVER)
    rb.close()
    go.set()
    runner.join(NEVER)
    assert len(told) == 1
    assert "UNKNOWN OUTCOME" in capsys.readouterr().err
    desk.during = lambda _ctx: None
    with opened(store, runtime, actions=[ship]) as later:
        assert later.run(ship(order_id="o-1", carrier="dhl"), operation="op").verified
    assert desk.calls == 1


def test_a_polite_end_of_the_process_is_recorded_too() -> None:
    """SIGTERM with a handler that exits, as services have it."""
    desk, store = Desk(), MemoryStore()

    def leave(_signum: int, _frame: FrameType | None) -> None:
        sys.exit(0)

    desk.during = lambda _ctx: signal.raise_signal(signal.SIGTERM)
    before = signal.signal(signal.SIGTERM, leave)
    try:
        with opened(store.reopened()) as rb, pytest.raises(SystemExit):
            rb.run(ship_of(desk)(order_id="o-1", carrier="dhl"), operation="op")
    finally:
        signal.signal(signal.SIGTERM, before)
    with opened(store) as rb:
        [kept] = rb.list()
    assert kept.observation is not None
    assert (kept.observation.status, kept.verified) == (ObservationStatus.CANCELLED, True)


class Interrupting(VirtualRuntime):
    """Somebody presses the keys while it sleeps."""

    def sleep(self, seconds: float) -> None:
        signal.raise_signal(signal.SIGINT)


@pytest.mark.requirement("TRUTH-time-durable-wait")
def test_an_interrupt_in_a_wait_leaves_it_pending_for_whoever_comes_next() -> None:
    desk, store, runtime = Desk(), MemoryStore(), Interrupting()
    desk.instead = lambda _ctx: {"status": "accepted"}
    ship = ship_of(desk, within="1h", polls=["0s", "1s"])
    with opened(store.reopened(), runtime, actions=[ship]) as rb:
        with pytest.raises(KeyboardInterrupt):
            rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
        [kept] = rb.list()
        assert kept.state is State.PENDING
        desk.order().update(status="shipped", carrier="dhl", stamp=kept.stamp, version=1)
        runtime.advance(10)
        assert [each.verified for each in rb.resume()] == [True]


def test_after_an_interrupt_nothing_more_is_called() -> None:
    """The table would repeat it under its key; whoever was interrupted does not begin that."""
    desk, store, runtime = Desk(), MemoryStore(), VirtualRuntime()

    def refuse(_ctx: Context) -> object:
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("not reached")

    desk.instead = refuse
    again = {"timeout": "30s", "honours_key": True}
    ship = ship_of(desk, kind="create", execute=again, within="1ms", deadline="1ms", polls=["0s"], late_window="1ms")
    with opened(store, runtime, actions=[ship]) as rb:
        with pytest.raises(KeyboardInterrupt):
            rb.run(ship(order_id="o-1", carrier="dhl"), operation="op")
        assert desk.calls == 1
        desk.instead = None
        runtime.advance(3600)
        rb.resume()
        rb.resume()
        assert desk.calls <= 2
        [kept] = rb.list()
        assert kept.settled


def test_a_cancellation_that_the_tool_raises_itself_is_evidence() -> None:
    desk = Desk()

    def cancelled(_ctx: Context) -> None:
        raise asyncio.CancelledError

    desk.during = cancelled
    with opened() as rb:
        outcome = rb.run(ship_of(desk)(order_id="o-1", carrier="dhl"), operation="op")
    assert outcome.observation is not None
    assert (outcome.observation.status, outcome.verified) == (ObservationStatus.CANCELLED, True)


# --- many at once ---


def test_sixteen_threads_share_one_client(tmp_path: Path) -> None:
    desks = [Desk() for _ in range(16)]
    together = threading.Barrier(16)
    told: list[bool] = []

    def work(rb: Readback, number: int) -> None:
        ship = ship_of(desks[number], name=f"ship-{number}")
        together.wait(NEVER)
        for each in range(4):
            told.append(rb.run(ship(order_id=f"o-{each}", carrier="dhl"), operation=f"op {each}").verified)

    with Readback.open(f"sqlite:///{tmp_path}/ledger.db", tenant=TENANT, principal=PRINCIPAL) as rb:
        threads = [threading.Thread(target=work, args=(rb, number)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(NEVER)
        assert len(rb.list(limit=100)) == 64
    assert told == [True] * 64
    assert [len(desk.idents) for desk in desks] == [1] * 16
    assert len({ident for desk in desks for ident in desk.idents}) == 16


def test_of_sixteen_threads_with_the_same_operation_one_acts(tmp_path: Path) -> None:
    desk = Desk()
    ship = ship_of(desk)
    together = threading.Barrier(16)
    told: list[tuple[str, bool, bool]] = []

    def work(rb: Readback) -> None:
        proposal = ship(order_id="o-1", carrier="dhl")
        together.wait(NEVER)
        outcome = rb.run(proposal, operation="op")
        told.append((outcome.id, outcome.verified, outcome.replayed))

    with Readback.open(f"sqlite:///{tmp_path}/ledger.db", tenant=TENANT, principal=PRINCIPAL) as rb:
        threads = [threading.Thread(target=work, args=(rb,)) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(NEVER)
    assert desk.calls == 1
    assert len({each[0] for each in told}) == 1
    assert [each[1] for each in told] == [True] * 16
    assert [each[2] for each in told].count(False) == 1


def test_a_client_that_was_closed_leaves_nothing_open(tmp_path: Path) -> None:
    """Around every test of this module threads, files, handlers and timers are counted; this one uses them all."""
    desk, slow = Desk(), Desk()

    async def wait(_ctx: Context) -> None:
        await asyncio.get_running_loop().create_future()

    with Readback.open(f"sqlite:///{tmp_path}/ledger.db", tenant=TENANT, principal=PRINCIPAL) as rb:
        assert rb.run(ship_of(desk)(order_id="o-1", carrier="dhl")).verified
        assert rb.run(ship_async_of(slow, wait, execute=SOON)(order_id="o-1", carrier="dhl")).verified
        assert {each.name for each in threading.enumerate()} >= {"readback-portal"}
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ledger.db"]


def test_async_hands_for_which_no_thread_was_to_be_had_are_called_again_when_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk, begin = Desk(), threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "readback-portal":
            raise RuntimeError("can't start new thread")
        begin(thread)

    with opened() as rb:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            assert not rb.run(ship_async_of(desk)(order_id="o-1", carrier="dhl"), operation="first").verified
        assert desk.calls == 0
        assert rb.run(ship_async_of(desk)(order_id="o-2", carrier="dhl"), operation="second").verified
    assert desk.calls == 1
