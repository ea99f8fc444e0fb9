"""The part of the store's conformance suite that is about subscribers: positions, their lease, dead letters.

Inherited by `StoreConformance`; a test class brings the store.
"""

from __future__ import annotations

from dataclasses import replace

from readback.ports.storage.outbox import Cursor, DeadLetter
from readback.testing.conformance.store_places import PlacesConformance
from readback.testing.store_samples import NOON_US, sample_append, sample_event

LATER_US = NOON_US + 60_000_000


class OutboxConformance(PlacesConformance):
    """What every store keeps about who was told what."""

    def test_entries_of_some_kinds_are_picked_in_the_order_of_the_log(self) -> None:
        kinds = ["proposed", "judged", "read", "judged", "held"]
        for number, kind in enumerate(kinds):
            event = sample_event(f"entry {number}", kind)
            self.store.append([replace(sample_append(f"a{number}"), events=(event,))])
        self.place()
        assert [e.seq for e in self.store.pick(0, ("judged", "held"), 10)] == [2, 4, 5]
        assert [e.seq for e in self.store.pick(2, ("judged", "held"), 1)] == [4]
        assert self.store.pick(5, ("judged",), 10) == []
        assert self.store.pick(0, (), 10) == []
        assert self.store.pick(0, ("judged",), 10)[0] == next(iter(self.store.scan(1)))
        assert self.store.last_seq() == 5

    def test_a_subscriber_is_enrolled_once(self) -> None:
        assert self.store.cursors() == []
        assert self.store.enrol("pager", 3) == Cursor("pager", 3)
        assert self.store.enrol("pager", 9) == Cursor("pager", 3)
        self.store.enrol("bus", 0)
        assert [one.name for one in self.store.cursors()] == ["bus", "pager"]

    def test_one_delivers_at_a_time(self) -> None:
        assert self.store.take_cursor("pager", "us", NOON_US, LATER_US) is None, "nobody knows it"
        self.store.enrol("pager", 0)
        held = self.store.take_cursor("pager", "us", NOON_US, LATER_US)
        assert held == Cursor("pager", 0, owner="us", until_us=LATER_US)
        assert self.store.take_cursor("pager", "them", NOON_US, LATER_US) is None
        assert self.store.take_cursor("pager", "us", NOON_US, LATER_US) is None, "not even to its owner"
        assert self.store.take_cursor("pager", "them", LATER_US - 1, LATER_US + 5) is None
        assert self.store.take_cursor("pager", "them", LATER_US, LATER_US + 5) is not None, "past its time"
        gone = self.store.take_cursor("pager", "us", LATER_US, LATER_US + 9, dead="them")
        assert gone is not None
        assert gone.owner == "us"

    def test_a_position_is_moved_only_under_the_lease_and_outlives_the_process(self) -> None:
        self.store.enrol("pager", 0)
        held = self.store.take_cursor("pager", "us", NOON_US, LATER_US)
        assert held is not None
        moved = Cursor("pager", 5, 2, 1, NOON_US, NOON_US + 9, "no", "us", LATER_US + 1)
        assert self.store.keep_cursor(held, moved)
        assert not self.store.keep_cursor(held, replace(moved, after_seq=9)), "the lease ends elsewhere now"
        again = self.reopen(self.store)
        assert again.cursors() == [moved]
        assert again.keep_cursor(moved, replace(moved, owner=""))
        assert again.take_cursor("pager", "them", NOON_US, LATER_US) is not None, "it was given back"
        assert not again.keep_cursor(moved, moved)
        self.store = again

    def test_what_died_is_kept_with_the_position_or_not_at_all(self) -> None:
        self.store.enrol("pager", 0)
        held = self.store.take_cursor("pager", "us", NOON_US, LATER_US)
        assert held is not None
        first, second = DeadLetter("pager", 5, 0, NOON_US, 8, "no"), DeadLetter("pager", 5, 1, NOON_US, 1, "never")
        assert self.store.keep_cursor(held, replace(held, after_seq=5), [second, first])
        lost = replace(held, until_us=1)
        assert not self.store.keep_cursor(lost, held, [DeadLetter("pager", 6, 0, 1, 1, "x")])
        self.store = self.reopen(self.store)
        assert self.store.letters() == [first, second]
        assert self.store.letters("bus") == []
        assert self.store.letters(limit=1) == [first]

    def test_a_dead_letter_can_be_asked_for_again_and_taken(self) -> None:
        self.store.enrol("pager", 0)
        held = self.store.take_cursor("pager", "us", NOON_US, LATER_US)
        assert held is not None
        letter = DeadLetter("pager", 5, 0, NOON_US, 8, "no")
        self.store.keep_cursor(held, held, [letter])
        assert self.store.letters(again=True) == []
        asked = replace(letter, again=True, tried=9, said="still no")
        assert self.store.put_letter(asked)
        assert self.store.letters("pager", again=True) == [asked]
        assert not self.store.put_letter(replace(asked, number=1))
        self.store.drop_letter(asked)
        self.store.drop_letter(asked)
        assert self.store.letters() == []
        assert not self.store.put_letter(asked)
