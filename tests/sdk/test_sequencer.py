"""Places that come after the append: given by whoever is there, told and sealed only then, in nobody's way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from readback import Message, Outcome, Readback, Subscriber, bootstrap
from readback.audit.checks.ledger import audit
from readback.audit.evidence.attest import prove_now
from readback.audit.evidence.sealed import prove_sealed
from readback.audit.sealing.confirm import is_confirmed
from readback.audit.sealing.seal import place_all, seal
from readback.background import sequencer as sequencers
from readback.background.dispatcher import before_open_incidents
from readback.background.sequencer import Sequencer
from readback.domain.verdict import Level
from readback.errors import StoreError, StoreLockedError
from readback.log.fault import LogUnplacedError
from readback.ports.storage.store import StoredEvent
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from readback.testing.store_samples import NOON_US, sample_append
from readback.views.action import picture
from tests.sdk.given import Desk, opened, ship_of
from tests.sealing.given import NAME, Signer, authority

PATIENT_S = 60.0


@pytest.fixture(autouse=True)
def no_thread_is_left_over() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENT_S)  # one that was told to end is on its way
    assert set(threading.enumerate()) <= before


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(sequences_asynchronously=True)


@dataclass
class Heard:
    """What a sequencer says: the ends of the log that it told of, and how often it had something told."""

    ends: list[int] = field(default_factory=list)
    tells: int = 0
    rang: threading.Event = field(default_factory=threading.Event)

    def placed(self, last_seq: int) -> None:
        self.ends.append(last_seq)
        self.rang.set()

    def tell(self) -> None:
        self.tells += 1


def sequencer_of(store: MemoryStore) -> tuple[Sequencer, Heard]:
    heard = Heard()
    return Sequencer(store, heard.placed, heard.tell), heard


def said(one: Sequencer) -> StoreError | None:
    return one.fault


class Held(MemoryStore):
    """Gives no places while somebody holds them up; `fault` is raised in their stead."""

    def __init__(self) -> None:
        super().__init__(sequences_asynchronously=True)
        self.held = True
        self.fault: StoreError | None = None
        self.asked = threading.Semaphore(0)

    def assign_sequence_numbers(self, limit: int) -> int:
        self.asked.release()
        if self.fault is not None:
            raise self.fault
        return 0 if self.held else super().assign_sequence_numbers(limit)


def without_places(rb: Readback) -> Readback:
    """Nobody asks for places in this client's name, as where its process dies right after an append."""
    rb._session.sequencer = rb._session.courier.sequencer = rb._driver._desk.sequencer = None
    return rb


def ship(rb: Readback, desk: Desk, order: str = "o-1") -> Outcome:
    return rb.run(ship_of(desk)(order_id=order, carrier="c"), operation=order)


# --- the thread ---


@pytest.mark.requirement("PLACE-later")
def test_what_was_heard_of_gets_its_place_by_itself(store: MemoryStore) -> None:
    one, heard = sequencer_of(store)
    store.append([sample_append("a1", events=3)])
    one.hear()
    assert heard.rang.wait(PATIENT_S)
    assert one.close(PATIENT_S)
    assert [each.seq for each in store.events("a1")] == [1, 2, 3]
    assert heard.ends == [3]
    assert heard.tells == 0, "nothing of it tells anything"


@pytest.mark.requirement("PLACE-later")
def test_a_log_that_lost_its_end_is_told_of_where_it_ends_now(store: MemoryStore) -> None:
    one, heard = sequencer_of(store)
    for number in range(3):
        store.append([sample_append(f"a{number}")])
    one.hear()
    assert heard.rang.wait(PATIENT_S)
    heard.rang.clear()
    del store._content.log[1:]  # a standby took over that lacked them
    store.append([sample_append("b")])
    one.hear()
    assert heard.rang.wait(PATIENT_S)
    assert one.close()
    assert heard.ends == [3, 2]


def test_closing_gives_places_first_and_leaves_no_thread(store: MemoryStore) -> None:
    one, heard = sequencer_of(store)
    for number in range(5):
        store.append([sample_append(f"a{number}")])
        one.hear(telling=number == 2)
    assert one.close(PATIENT_S)
    assert store.last_seq() == 5
    assert heard.ends[-1] == 5
    assert heard.tells >= 1
    one.hear()
    assert not any(thread.name == "readback-sequencer" for thread in threading.enumerate()), "it is closed"


@pytest.mark.requirement("PLACE-later")
def test_what_is_held_up_is_left_to_the_next_process_within_a_limit() -> None:
    store = Held()
    one, _ = sequencer_of(store)
    store.append([sample_append("a1")])
    one.hear()
    assert not one.close(0.05)
    assert [each.seq for each in store.events("a1")] == [0]
    store.held = False
    other, heard = sequencer_of(store)
    other.sweep()
    assert other.close(PATIENT_S)
    assert heard.ends == [1]
    assert [each.seq for each in store.events("a1")] == [1]


@pytest.mark.requirement("PLACE-later")
def test_what_is_held_up_for_a_while_is_placed_as_soon_as_it_can_be() -> None:
    store = Held()
    one, heard = sequencer_of(store)
    store.append([sample_append("a1")])
    one.hear(telling=True)
    for _ in range(3):
        assert store.asked.acquire(timeout=PATIENT_S)
    assert heard.tells == 0
    store.held = False
    assert heard.rang.wait(PATIENT_S)
    assert one.close(PATIENT_S)
    assert (heard.ends, heard.tells) == ([1], 1)


def test_a_sweep_finds_nothing_where_nothing_waits(store: MemoryStore) -> None:
    one, heard = sequencer_of(store)
    one.sweep()
    assert threading.active_count() == 1 or not any(t.name == "readback-sequencer" for t in threading.enumerate())
    assert one.close()
    assert heard.ends == []


@pytest.mark.requirement("PLACE-later")
def test_a_store_that_fails_is_said_once_and_asked_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequencers, "PAUSE_FAULT_SECONDS", 0.001)
    store = Held()
    fault = StoreLockedError("Somebody has it.")
    store.held, store.fault = False, fault
    one, heard = sequencer_of(store)
    store.append([sample_append("a1")])
    one.hear()
    for _ in range(3):
        assert store.asked.acquire(timeout=PATIENT_S)
    assert said(one) is fault
    store.fault = None
    assert heard.rang.wait(PATIENT_S)
    assert one.close(PATIENT_S)
    assert said(one) is None
    assert capsys.readouterr().err.count("no places were given") == 1


def test_a_closed_store_ends_it_quietly(store: MemoryStore, capsys: pytest.CaptureFixture[str]) -> None:
    one, _ = sequencer_of(store)
    store.append([sample_append("a1")])
    store.close()
    one.hear()
    assert one.close(PATIENT_S)
    assert capsys.readouterr().err == ""


@pytest.mark.requirement("PLACE-later")
def test_several_give_places_to_one_log_and_each_tells_of_its_end(store: MemoryStore) -> None:
    many = [sequencer_of(store.reopened()) for _ in range(3)]

    def work(number: int, one: Sequencer) -> None:
        for version in range(50):
            store.append([sample_append(f"a{number}", version)])
            one.hear()

    threads = [threading.Thread(target=work, args=(n, one)) for n, (one, _) in enumerate(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one.close(PATIENT_S) for one, _ in many)
    assert [each.seq for each in store.scan()] == list(range(1, 151))
    assert all(heard.ends == sorted(set(heard.ends)) for _, heard in many)


# --- the client ---


@pytest.mark.requirement("PLACE-later")
def test_a_store_that_places_at_once_has_no_sequencer_and_no_thread() -> None:
    with opened(MemoryStore()) as rb:
        ship(rb, Desk())
        assert rb._session.sequencer is None
        assert not any(thread.name == "readback-sequencer" for thread in threading.enumerate())


@pytest.mark.requirement("PLACE-later", "LEDGER-sealed")
def test_everything_that_was_done_is_placed_and_sealed_when_the_client_is_closed(
    store: MemoryStore, tmp_path: Path
) -> None:
    signer = bootstrap.create_log_key(tmp_path / "log.key", NAME)
    with opened(store, seal={"key_file": str(tmp_path / "log.key")}) as rb:
        done = ship(rb, Desk())
        assert done.verified
    again = store.reopened()
    head = again.checkpoint()
    assert head is not None
    assert head.size == again.last_seq() == len(again.events(done.id)) > 0
    assert again.unsequenced(1) == []
    assert audit(again).ok
    assert is_confirmed(again, done.id, authority(signer))


@pytest.mark.requirement("PLACE-later")
def test_a_subscriber_is_told_of_an_entry_when_it_has_its_place(store: MemoryStore) -> None:
    told: list[Message] = []
    rang = threading.Event()

    def tell(message: Message) -> None:
        told.append(message)
        rang.set()

    desk = Desk()
    with opened(store, subscribers=[Subscriber("us", tell=tell, events=["action.reconciled"])]) as rb:
        done = ship(rb, desk)
        assert rang.wait(PATIENT_S)
    [message] = told
    assert message.subject == done.id
    assert message.seq in [each.seq for each in store.reopened().events(done.id)]


@pytest.mark.requirement("PLACE-later")
def test_what_has_no_place_when_a_process_ends_is_told_by_the_next(store: MemoryStore) -> None:
    desk, told = Desk(), list[Message]()
    subscriber = Subscriber("us", tell=told.append, events=["action.reconciled"])
    with opened(store.reopened(), subscribers=[subscriber]):
        pass  # it is known from here on
    ship(without_places(opened(store, VirtualRuntime(seed=7))), desk)
    assert told == []
    with opened(store.reopened(), VirtualRuntime(seed=8), subscribers=[subscriber]) as rb:
        rb._session.courier.sweep()
    assert [each.name.value for each in told] == ["action.reconciled"]


# --- whoever asks for a place ---


@dataclass
class Unplaced:
    """One verified action without places, and the log's key."""

    store: MemoryStore
    outcome: Outcome
    signer: Signer = field(default_factory=lambda: Signer(NAME, b"\7" * 32))

    @property
    def entries(self) -> list[StoredEvent]:
        return self.store.events(self.outcome.id)


@pytest.fixture
def unsequenced(store: MemoryStore) -> Unplaced:
    rb = without_places(opened(store))
    return Unplaced(store, ship(rb, Desk()))


def changed(store: MemoryStore, action_id: str, how: Callable[[list[StoredEvent]], None]) -> None:
    how(store._content.events[action_id])


@pytest.mark.requirement("PLACE-later", "TRUST-4")
def test_what_has_no_place_is_neither_sealed_nor_confirmed_nor_proved(unsequenced: Unplaced) -> None:
    store, signer = unsequenced.store, unsequenced.signer
    by = authority(signer)
    assert seal(store, signer, by, NOON_US) is None
    store.append([sample_append("z1")])
    last = unsequenced.entries[-1]
    place_all(store)
    assert seal(store, signer, by, NOON_US) is not None
    changed(store, unsequenced.outcome.id, lambda events: events.__setitem__(-1, replace(events[-1], seq=0)))
    assert not is_confirmed(store, unsequenced.outcome.id, by), "every entry has to be covered"
    proofs: list[Callable[[], object]] = [
        lambda: prove_sealed(store, last, by),
        lambda: prove_now(store, last, by, signer),
    ]
    for prove in proofs:
        with pytest.raises(LogUnplacedError, match="has no sequence number in the log yet") as refused:
            prove()
        assert refused.value.code == "log.unplaced"
        assert refused.value.exit_code == 3


@pytest.mark.requirement("PLACE-later", "TRUST-4")
def test_an_outcome_is_confirmed_only_when_its_entries_have_places_and_a_checkpoint_over_them(
    unsequenced: Unplaced, tmp_path: Path
) -> None:
    store, action_id = unsequenced.store, unsequenced.outcome.id
    by = authority(unsequenced.signer)
    assert not is_confirmed(store, action_id, by)
    place_all(store)
    assert not is_confirmed(store, action_id, by)
    seal(store, unsequenced.signer, by, NOON_US)
    assert is_confirmed(store, action_id, by)
    assert unsequenced.outcome.level is Level.RECONCILED


@pytest.mark.requirement("PLACE-later", "LEDGER-leaf-hash")
def test_audit_counts_what_has_no_place_and_calls_it_no_damage(unsequenced: Unplaced) -> None:
    report = audit(unsequenced.store)
    assert report.ok, report.faults
    assert (report.events, report.unsequenced, report.head_seq) == (0, len(unsequenced.entries), 0)
    unsequenced.store.assign_sequence_numbers(2)
    report = audit(unsequenced.store)
    assert report.ok, report.faults
    assert (report.events, report.unsequenced, report.head_seq) == (2, len(unsequenced.entries) - 2, 2)


@pytest.mark.requirement("PLACE-later", "LEDGER-leaf-hash")
def test_audit_names_what_is_wrong_with_an_entry_that_has_no_place(unsequenced: Unplaced) -> None:
    def spoil(events: list[StoredEvent]) -> None:
        events[-1] = replace(events[-1], leaf=b"\0" * 32)

    changed(unsequenced.store, unsequenced.outcome.id, spoil)
    report = audit(unsequenced.store)
    assert "entry.leaf" in [fault.code for fault in report.faults]
    assert f"of action {unsequenced.outcome.id} does not match its leaf hash" in report.faults[-1].what


@pytest.mark.requirement("PLACE-later", "LEDGER-leaf-hash")
def test_audit_names_an_entry_that_stands_before_an_older_one_of_its_action(unsequenced: Unplaced) -> None:
    store, action_id = unsequenced.store, unsequenced.outcome.id
    place_all(store)

    def swap(events: list[StoredEvent]) -> None:
        log = store._content.log
        first, second = events[0], events[1]
        events[0], events[1] = replace(first, seq=second.seq), replace(second, seq=first.seq)
        log[first.seq - 1], log[second.seq - 1] = events[1], events[0]

    changed(store, action_id, swap)
    assert [fault.code for fault in audit(store).faults] == ["entry.order"]


@pytest.mark.requirement("PLACE-later", "LEDGER-leaf-hash")
@pytest.mark.parametrize("placed", [0, 1, 4, 6, 100])
def test_freezes_and_incidents_of_entries_without_a_place_are_what_the_entries_say(
    store: MemoryStore, placed: int
) -> None:
    rb = without_places(opened(store))
    desk = Desk()
    desk.instead = lambda ctx: desk.order("o-1").update(tenant="globex", stamp=ctx.stamp)
    for order in ("o-1", "o-2", "o-3"):
        rb.run(ship_of(desk, late_window="0s")(order_id=order, carrier="c"), operation=order)
    store.assign_sequence_numbers(placed)
    assert store.incidents(), "there is something to compare"
    report = audit(store)
    assert report.ok, report.faults


@pytest.mark.requirement("PLACE-later")
def test_the_operators_file_begins_before_an_incident_that_has_no_place_yet(store: MemoryStore) -> None:
    rb = without_places(opened(store))
    desk = Desk()
    ship(rb, desk)
    place_all(store)
    desk.instead = lambda ctx: desk.order("o-2").update(tenant="globex", stamp=ctx.stamp)
    ship(rb, desk, "o-2")
    last_seq = store.last_seq()
    assert store.incidents()
    assert before_open_incidents(store) == last_seq
    place_all(store)
    begins = before_open_incidents(store)
    assert begins is not None
    assert begins >= last_seq


@pytest.mark.requirement("PLACE-later", "PRIVACY-bytes-gone")
def test_an_erasure_gives_places_first_so_that_what_it_looked_at_is_older(unsequenced: Unplaced) -> None:
    rb = opened(unsequenced.store.reopened())
    done = rb.erase(unsequenced.outcome.id, who="human:dpo", reason="Ana asked for it.")
    assert (done.actions, done.gone) == (1, True)
    assert done.pieces > 0
    rb.close()
    again = unsequenced.store.reopened()
    report = audit(again)
    assert report.ok, report.faults
    assert report.erased == done.pieces


@pytest.mark.requirement("PLACE-later")
def test_a_person_is_shown_that_an_entry_has_no_place_yet(unsequenced: Unplaced) -> None:
    rb = without_places(opened(unsequenced.store))
    outcome = rb.get(unsequenced.outcome.id)
    shown: Any = picture(rb._session, outcome)
    assert {each["seq"] for each in shown["events"]} == {None}
    place_all(unsequenced.store)
    shown = picture(rb._session, outcome)
    assert [each["seq"] for each in shown["events"]] == list(range(1, len(unsequenced.entries) + 1))
    rb.close()
