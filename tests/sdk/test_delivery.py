"""Delivery: at least once, in order, from a durable position, to one subscriber at a time. No threads here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from readback import bootstrap
from readback.background.delivery import (
    HELD_US,
    KEEP_MESSAGES,
    LAG_MAX,
    LEASE_US,
    PAUSE_MAX_US,
    RETRY_FIRST_US,
    RETRY_MAX_US,
)
from readback.domain.records.message import Message
from readback.errors import SinkError, StoreError
from readback.ports.storage.store import LedgerStore
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.sdk.telling import Died, ListSink, delivery_of, drained, refuse, run_some

US = 1_000_000


@pytest.fixture
def runtime() -> VirtualRuntime:
    return VirtualRuntime()


@pytest.fixture
def store() -> LedgerStore:
    return MemoryStore()


def cursor(store: LedgerStore, name: str = "bus"):  # type: ignore[no-untyped-def]
    return next(one for one in store.cursors() if one.name == name)


@pytest.mark.requirement("CLAIM-events")
def test_each_message_is_taken_once_and_in_order_where_nothing_goes_wrong(
    store: LedgerStore, runtime: VirtualRuntime
) -> None:
    sink = ListSink()
    delivery = delivery_of(store, runtime, sink)
    assert drained(delivery) is None
    first = run_some(store, runtime, "1", "2")
    assert drained(delivery) is None
    assert [message.subject for message in sink.taken] == first
    second = run_some(store, runtime, "3", how="lie")
    assert drained(delivery) is None
    assert sink.names[2:] == [
        "verification.failed",
        "action.unknown",
        "review.required",
        "claim.contested",
        "claim.retracted",
    ]
    assert {message.subject for message in sink.taken[2:]} == set(second)
    assert len(set(sink.ids)) == len(sink.ids)
    places = [(message.seq, message.number) for message in sink.taken]
    assert places == sorted(places)
    held = cursor(store)
    assert (held.after_seq, held.done, held.owner) == (store.last_seq(), 0, "")


def test_a_new_subscriber_begins_now_or_at_the_start(store: LedgerStore, runtime: VirtualRuntime) -> None:
    run_some(store, runtime, "1")
    late, early = ListSink(), ListSink()
    now = delivery_of(store, runtime, late, name="now", from_start=False)
    start = delivery_of(store, runtime, early, name="start")
    [second] = run_some(store, runtime, "2")
    drained(now)
    drained(start)
    assert [message.subject for message in late.taken] == [second]
    assert len(early.taken) == 2
    again = delivery_of(store, runtime, late, name="now", from_start=True)
    drained(again)
    assert len(late.taken) == 1, "a subscriber that is known goes on where it was"


@pytest.mark.parametrize("naming", ["dotted", "underscore", "both"])
@pytest.mark.requirement("CLAIM-events")
def test_a_subscriber_gets_the_names_that_it_asks_for(store: LedgerStore, runtime: VirtualRuntime, naming: str) -> None:
    run_some(store, runtime, "1", how="lie")
    sink = ListSink()
    drained(delivery_of(store, runtime, sink, naming=naming, events=["verification_failed"]))
    dotted, under = "readback.verification.failed", "readback_verification_failed"
    assert [m.type for m in sink.taken] == {"dotted": [dotted], "underscore": [under], "both": [dotted, under]}[naming]
    assert len(set(sink.ids)) == len(sink.taken), "the second name is another event, with an id of its own"


def test_names_and_tenants_are_filtered(store: LedgerStore, runtime: VirtualRuntime) -> None:
    run_some(store, runtime, "1")
    run_some(store, runtime, "2", tenant="globex", how="lie")
    sink, other = ListSink(), ListSink()
    drained(delivery_of(store, runtime, sink, events=["action.reconciled"]))
    drained(delivery_of(store, runtime, other, name="other", tenants=["globex"]))
    assert [(m.name.value, m.tenant) for m in sink.taken] == [("action.reconciled", "acme")]
    assert {m.tenant for m in other.taken} == {"globex"}


# --- refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("CLAIM-fallback")
def test_a_refused_message_is_tried_again_ever_more_seldom_then_the_operator_is_told_and_a_letter_kept(
    store: LedgerStore, runtime: VirtualRuntime
) -> None:
    run_some(store, runtime, "1", "2")
    sink, operator = ListSink(instead=refuse), ListSink()
    delivery = delivery_of(store, runtime, sink, operator, attempts=6, give_up_s=20)
    pauses = []
    while not store.letters():
        again_us = drained(delivery)
        if store.letters():
            break
        assert again_us is not None
        assert delivery.look() == again_us, "not before its time"
        pauses.append(again_us - runtime.now_us())
        held = cursor(store)
        assert (held.after_seq, held.tried, held.said) == (5, len(pauses), "The sink is down.")
        runtime.advance((again_us - runtime.now_us()) / US)
    assert sink.asked >= 6
    for number, pause in enumerate(pauses):
        whole = min(RETRY_FIRST_US << number, RETRY_MAX_US)
        assert whole // 2 <= pause <= whole
    [letter] = store.letters()
    assert (letter.subscriber, letter.seq, letter.number, letter.said) == ("bus", 6, 0, "The sink is down.")
    assert letter.tried >= 6
    [told] = operator.taken
    assert (told.undelivered_to, told.seq, told.as_json()["undeliveredto"]) == ("bus", 6, "bus")
    sink.instead = None
    runtime.advance(RETRY_MAX_US / US)
    assert drained(delivery) is None
    assert [message.seq for message in sink.taken] == [12], "what follows a dead letter is gone on with"


def test_both_limits_have_to_be_passed(store: LedgerStore, runtime: VirtualRuntime) -> None:
    """Many tries in a short time are no outage, and a long time without a try is none either."""
    run_some(store, runtime, "1")
    delivery = delivery_of(store, runtime, ListSink(instead=refuse), ListSink(), attempts=3, give_up_s=3600)
    drained(delivery)
    runtime.advance(7200)
    drained(delivery)
    assert store.letters() == [], "two tries"
    runtime.advance(7200)
    drained(delivery)
    assert len(store.letters()) == 1


@pytest.mark.requirement("CLAIM-fallback")
def test_what_is_urgent_is_told_to_the_operator_at_the_first_refusal(
    store: LedgerStore, runtime: VirtualRuntime
) -> None:
    run_some(store, runtime, "1", how="lie")
    operator = ListSink()
    delivery = delivery_of(store, runtime, ListSink(instead=refuse), operator, events=["verification.failed"])
    for _ in range(3):
        drained(delivery)
        runtime.advance(RETRY_MAX_US / US)
    assert operator.names == ["verification.failed"], "once, and not with each try"
    assert store.letters() == []


def test_nothing_is_given_up_while_the_fallback_does_not_take_it(store: LedgerStore, runtime: VirtualRuntime) -> None:
    run_some(store, runtime, "1")
    sink, operator = ListSink(instead=refuse), ListSink(instead=refuse)
    delivery = delivery_of(store, runtime, sink, operator, attempts=1, give_up_s=0)
    for _ in range(3):
        drained(delivery)
        runtime.advance(RETRY_MAX_US / US)
    assert store.letters() == []
    operator.instead = None
    drained(delivery)
    assert len(operator.taken) == len(store.letters()) == 1


def test_a_receiver_may_ask_for_a_pause_and_may_refuse_for_ever(store: LedgerStore, runtime: VirtualRuntime) -> None:
    run_some(store, runtime, "1", "2")
    answers: list[dict[str, object]] = [{"retry_after_us": 900 * US}, {"final": True}]

    def answer(_message: Message) -> None:
        if answers:
            raise SinkError("Not so.", details=answers.pop(0))

    sink, operator = ListSink(instead=answer), ListSink()
    delivery = delivery_of(store, runtime, sink, operator)
    assert drained(delivery) == runtime.now_us() + 900 * US
    runtime.advance(900)
    assert drained(delivery) is None
    assert [letter.tried for letter in store.letters()] == [2], "no use in trying it again"
    assert len(operator.taken) == len(sink.taken) == 1


@pytest.mark.parametrize("asked", [10**30, 10**16, -(10**30)])
def test_a_pause_that_never_ends_is_a_day(tmp_path: Path, runtime: VirtualRuntime, asked: int) -> None:
    """A program's own sink may ask for anything: what cannot be kept was tried again for ever, and never given up."""
    store = bootstrap.store(f"sqlite:///{tmp_path / 'ledger.db'}")

    def answer(_message: Message) -> None:
        raise SinkError(None, details={"retry_after_us": asked})  # type: ignore[arg-type]

    run_some(store, runtime, "1")
    again_us = drained(delivery_of(store, runtime, ListSink(instead=answer)))
    assert again_us == cursor(store).next_us
    assert cursor(store).tried == 1
    assert runtime.now_us() < again_us <= runtime.now_us() + PAUSE_MAX_US
    store.close()


def test_what_a_clock_that_was_far_ahead_put_off_is_told_now(store: LedgerStore, runtime: VirtualRuntime) -> None:
    """A machine that thought it was ten years later kept the subscriber waiting for as long."""
    run_some(store, runtime, "1", "2")
    ahead = VirtualRuntime(owner="virtual/2")
    ahead.advance(10 * 365 * 86_400)
    delivery_of(store, ahead, ListSink(instead=refuse)).look()
    ahead_us = ahead.now_us()
    assert cursor(store).next_us > ahead_us
    assert store.take_cursor("bus", "virtual/2", ahead_us, ahead_us + LEASE_US) is not None
    sink, operator = ListSink(instead=refuse), ListSink()
    delivery = delivery_of(store, runtime, sink, operator, give_up_s=60, attempts=2)
    drained(delivery)
    runtime.advance(3600)
    drained(delivery)
    assert len(store.letters()) == len(operator.taken) == 1, "it is given up by the clock here"
    sink.instead = None
    runtime.advance(3600)
    drained(delivery)
    assert len(sink.taken) == 1


def test_a_clock_that_is_set_back_keeps_no_refused_message_waiting_for_it(
    store: LedgerStore, runtime: VirtualRuntime
) -> None:
    run_some(store, runtime, "1")
    runtime.advance(7200)
    sink = ListSink(instead=refuse)
    delivery = delivery_of(store, runtime, sink)
    delivery.look()
    sink.instead = None
    delivery.look()
    assert sink.taken == [], "it is not its time yet"
    runtime._clock.now_us -= 3600 * US
    drained(delivery)
    assert len(sink.taken) == 1


def test_of_anothers_error_only_the_type_is_kept(store: LedgerStore, runtime: VirtualRuntime) -> None:
    def leak(_message: Message) -> None:
        raise RuntimeError("password=hunter2")

    run_some(store, runtime, "1")
    drained(delivery_of(store, runtime, ListSink(instead=leak)))
    assert cursor(store).said == "RuntimeError"


# --- crashes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", [1, 2, 3])
def test_after_a_death_in_the_middle_nothing_is_lost_and_what_is_told_twice_has_the_same_id(
    store: LedgerStore, runtime: VirtualRuntime, taken: int
) -> None:
    run_some(store, runtime, "1", "2", "3", "4")
    dying, after = ListSink(dies_at=taken), ListSink()
    with pytest.raises(Died):
        delivery_of(store, runtime, dying).look()
    mine = runtime.sibling("virtual/2")
    other = delivery_of(store, mine, after)
    assert other.look() == runtime.now_us() + HELD_US, "the dead one's lease still holds"
    assert after.taken == []
    runtime.declare_gone("virtual/1")
    drained(other)
    told = dying.ids + after.ids
    whole = ListSink()
    drained(delivery_of(store, runtime, whole, name="whole"))
    assert list(dict.fromkeys(told)) == whole.ids
    assert set(after.ids) >= set(whole.ids) - set(dying.ids)


def test_a_lease_that_ran_out_is_taken_over_and_its_old_holder_moves_nothing(
    store: LedgerStore, runtime: VirtualRuntime
) -> None:
    run_some(store, runtime, "1", "2")
    other = ListSink()
    second = delivery_of(store, runtime.sibling("virtual/2"), other)

    def slow(_message: Message) -> None:
        if not other.taken:
            runtime.advance(delivery.lease_us / US)
            drained(second)

    first = ListSink(instead=slow)
    delivery = delivery_of(store, runtime, first)
    assert delivery.look() == runtime.now_us() + HELD_US, "it found out that it had lost it"
    assert len(other.taken) == 2
    assert set(first.ids) <= set(other.ids)
    assert drained(delivery) is None
    assert cursor(store).after_seq == store.last_seq()


def test_a_position_is_written_down_in_between(store: LedgerStore, runtime: VirtualRuntime) -> None:
    run_some(store, runtime, *(str(n) for n in range(KEEP_MESSAGES + 5)))
    dying = ListSink(dies_at=KEEP_MESSAGES + 3)
    with pytest.raises(Died):
        delivery_of(store, runtime, dying).look()
    assert cursor(store).done == 1
    assert cursor(store).after_seq == dying.taken[KEEP_MESSAGES - 1].seq - 1


def test_a_store_that_fails_loses_nothing(
    tmp_path: Path, runtime: VirtualRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = bootstrap.store(f"sqlite:///{tmp_path / 'ledger.db'}")
    run_some(store, runtime, "1", "2")
    sink = ListSink()
    delivery = delivery_of(store, runtime, sink)
    keep = type(store).keep_cursor

    def fails(*_: object) -> bool:
        raise StoreError("The disk is full.")

    monkeypatch.setattr(type(store), "keep_cursor", fails)
    with pytest.raises(StoreError):
        delivery.look()
    monkeypatch.setattr(type(store), "keep_cursor", keep)
    runtime.advance(delivery.lease_us / US)
    drained(delivery)
    assert len(sink.taken) == 4
    assert len(set(sink.ids)) == 2
    store.close()


# --- dead letters once more ---------------------------------------------------------------------------------------


def test_a_dead_letter_is_delivered_once_more_when_somebody_asks(store: LedgerStore, runtime: VirtualRuntime) -> None:
    run_some(store, runtime, "1", "2")
    sink = ListSink(instead=refuse)
    delivery = delivery_of(store, runtime, sink, attempts=1, give_up_s=0)
    drained(delivery)
    first, second = store.letters()
    store.put_letter(replace(first, again=True))
    drained(delivery)
    assert store.letters() == [replace(first, tried=2), second], "refused again: it is a dead letter still"
    sink.instead = None
    store.put_letter(replace(second, again=True))
    drained(delivery)
    assert store.letters() == [replace(first, tried=2)]
    assert [message.seq for message in sink.taken] == [second.seq]
    store.put_letter(replace(first, number=0, again=True))
    drained(delivery)
    assert store.letters() == []


# --- what is written ----------------------------------------------------------------------------------------------


def test_where_there_is_nothing_to_tell_nothing_is_written_until_the_position_lags_far_behind(
    store: LedgerStore, runtime: VirtualRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    delivery = delivery_of(store, runtime, ListSink(), events=["incident.opened"])
    run_some(store, runtime, "1", "2")
    assert delivery.look() is None
    assert cursor(store).after_seq == 0
    monkeypatch.setattr("readback.background.delivery.LAG_MAX", 5)
    assert LAG_MAX > 5
    drained(delivery)
    assert cursor(store).after_seq == store.last_seq()


def test_a_log_that_lost_its_end_under_a_living_program_is_told_on_from_where_it_ends_now(
    store: LedgerStore, runtime: VirtualRuntime
) -> None:
    sink, standby = ListSink(), MemoryStore()
    delivery = delivery_of(store, runtime, sink, events=["review.required"])
    run_some(store, runtime, "1", "2", "3")
    assert delivery.look() is None
    delivery_of(standby, runtime, sink)  # it has the position, and lacks what came behind it
    run_some(standby, runtime, "4", how="lie")
    assert 0 < standby.last_seq() < store.last_seq()
    delivery.store = standby
    drained(delivery)
    assert sink.names == ["review.required"]


def test_a_stopped_delivery_counts_nothing_against_the_subscriber(store: LedgerStore, runtime: VirtualRuntime) -> None:
    run_some(store, runtime, "1")
    sink = ListSink()
    delivery = delivery_of(store, runtime, sink)

    def stopping(_message: Message) -> None:
        delivery.stop()
        raise SinkError("broken off")

    sink.instead = stopping
    assert delivery.look() is None
    assert (cursor(store).tried, cursor(store).owner, cursor(store).after_seq) == (0, "", 0)
    assert delivery.look() is None


@pytest.mark.requirement("CLAIM-events")
def test_nothing_of_a_system_of_record_goes_out(store: LedgerStore, runtime: VirtualRuntime) -> None:
    from tests.sdk.given import Desk, opened, ship_of

    desk, secret = Desk(), "value-of-the-record"
    ship = ship_of(desk, tell=["status", "note"], late_window="0s")
    rb = opened(store, runtime, subscribers=())
    desk.order("o-1")["note"] = desk.order("o-1")["status"] = secret
    desk.instead = lambda _ctx: {"status": "ok", "note": secret}
    told = rb.run(ship(order_id="o-1", carrier="dhl"), operation="one")
    assert not told.verified
    desk.instead = None
    assert rb.run(ship(order_id="o-1", carrier="dhl"), operation="two").told["note"] == secret
    sink = ListSink()
    drained(delivery_of(store, runtime, sink))
    assert len(sink.taken) >= 3
    assert secret not in json.dumps([message.as_json() for message in sink.taken])
