"""The promises of every ledger store about positions in the log. `StoreConformance` inherits these tests.

A store assigns a position with the append, or later (`sequences_asynchronously`). A test with questions about
the log calls `place` first.
"""

from __future__ import annotations

import threading
from typing import Final

from readback.errors import StoreError
from readback.ports.storage.store import Appended, LedgerStore
from readback.testing.store_samples import sample_append, sample_creation, sample_event

TRIES_MAX: Final = 100_000
"""The number of tries for positions. Other writers on the same server cause short delays."""
WRITERS: Final = 4
ENTRIES_A_WRITER: Final = 40
SOME: Final = 7


class PlacesConformance:
    """Positions are dense, unique, in order, and assigned once."""

    store: LedgerStore
    sequences_asynchronously: bool = False
    """Whether the store assigns positions by `assign_sequence_numbers`."""

    def reopen(self, store: LedgerStore) -> LedgerStore:
        raise NotImplementedError

    def place(self, store: LedgerStore | None = None) -> None:
        """Assign a position to every entry."""
        placing = store or self.store
        for _ in range(TRIES_MAX):
            if not placing.assign_sequence_numbers(1_000) and not placing.unsequenced(1):
                return
        raise AssertionError("entries stay without a place")

    def kept(self, version: int, seq: int) -> Appended:
        """Return an append's expected answer for a last entry at this position, now or later."""
        return Appended(version, 0 if self.sequences_asynchronously else seq)

    def test_it_says_when_places_are_given(self) -> None:
        self.store.append([sample_append("a1")])
        assert self.store.sequences_asynchronously is self.sequences_asynchronously
        assert bool(self.store.unsequenced(1)) is self.sequences_asynchronously
        assert (self.store.last_seq() == 0) is self.sequences_asynchronously

    def test_an_entry_without_a_place_is_its_actions_and_no_part_of_the_log(self) -> None:
        self.store.append([sample_creation("a1", events=2)])
        if not self.sequences_asynchronously:
            assert self.store.assign_sequence_numbers(10) == 0
            assert self.store.unsequenced(10) == []
            return
        entries = self.store.events("a1")
        assert [(each.seq, each.version) for each in entries] == [(0, 1), (0, 2)]
        assert self.store.unsequenced(10) == entries
        assert self.store.unsequenced(1) == entries[:1]
        assert self.store.unsequenced(0) == []
        assert list(self.store.scan()) == self.store.pick(0, (entries[0].kind,), 9) == []
        assert self.store.entries(0, 9) == []
        assert [events for _, events in self.store.histories()] == [entries]
        self.place()
        assert [each.seq for each in self.store.events("a1")] == [1, 2]
        assert list(self.store.scan()) == self.store.events("a1")
        assert [events for _, events in self.store.histories()] == [self.store.events("a1")]
        assert self.store.unsequenced(10) == []
        assert self.store.assign_sequence_numbers(10) == 0

    def test_places_are_given_in_pieces_and_outlive_the_process(self) -> None:
        self.store.append([sample_creation(f"a{number}", events=2) for number in range(SOME)])
        if self.sequences_asynchronously:
            while self.store.last_seq() < SOME:
                assert self.store.assign_sequence_numbers(1) in (0, 1)
        self.store = self.reopen(self.store)
        self.place()
        assert [(each.seq, each.action_id, each.version) for each in self.store.scan()] == [
            (2 * number + version, f"a{number}", version) for number in range(SOME) for version in (1, 2)
        ]
        assert self.store.assign_sequence_numbers(0) == 0

    def test_what_many_write_and_many_place_stands_once_and_in_the_order_of_each_action(self) -> None:
        store, done, faults = self.store, threading.Event(), list[BaseException]()

        def write(name: str) -> None:
            for version in range(ENTRIES_A_WRITER):
                store.append([sample_append(name, version)])

        def place() -> None:
            try:
                while not done.is_set():
                    store.assign_sequence_numbers(SOME)
            except StoreError as error:
                faults.append(error)

        writers = [threading.Thread(target=write, args=(f"a{number}",)) for number in range(WRITERS)]
        placing = [threading.Thread(target=place) for _ in range(2)]
        for thread in (*writers, *placing):
            thread.start()
        for thread in writers:
            thread.join()
        done.set()
        for thread in placing:
            thread.join()
        assert faults == []
        self.place()
        log = list(store.scan())
        assert [each.seq for each in log] == list(range(1, WRITERS * ENTRIES_A_WRITER + 1))
        for number in range(WRITERS):
            of_action = [each.version for each in log if each.action_id == f"a{number}"]
            assert of_action == list(range(1, ENTRIES_A_WRITER + 1))

    def test_the_log_as_it_was_read_stays_as_it_is(self) -> None:
        self.store.append([sample_append("a1")])
        self.place()
        before = list(self.store.scan())
        self.store.append([sample_append("a0"), sample_append("a1", 1)])
        self.place()
        assert list(self.store.scan())[: len(before)] == before
        assert [each.envelope for each in self.store.scan()][1:] == [
            sample_event('{"action":"a0","version":1}').envelope,
            sample_event('{"action":"a1","version":2}').envelope,
        ]
