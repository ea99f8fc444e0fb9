"""The promises of `readback.ports.storage.store`, one test each, for every ledger store.

For authors of stores: subclass `StoreConformance`, provide a store, and let pytest collect the class. The suite uses
the port alone.

    class TestMyStore(StoreConformance):
        def make_store(self) -> LedgerStore:
            return MyStore(...)

`store_work` holds leases, due times and lists, `store_control` freezes, incidents and limits, `store_places` positions
in the log. This class inherits all of them. A store with later positions sets `sequences_asynchronously = True`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from readback.errors import InvariantError, StoreError
from readback.log.frontier import HashTile
from readback.ports.storage.log import AnchorMark, SealedHead
from readback.ports.storage.outbox import Cursor, DeadLetter
from readback.ports.storage.store import (
    ActionFilter,
    Append,
    Appended,
    Count,
    Erasure,
    KeyConflict,
    LedgerStore,
    SealedEvent,
    VersionConflict,
)
from readback.testing.conformance.store_control import ControlConformance
from readback.testing.conformance.store_places import PlacesConformance
from readback.testing.conformance.store_work import WorkConformance, everything, raised_by
from readback.testing.store_samples import (
    NOON_US,
    TENANT,
    sample_append,
    sample_creation,
    sample_event,
    sample_evidence,
    sample_projection,
    sample_reservation,
)

# The part of the store's conformance suite that is about subscribers: positions, their lease, dead letters.

LATER_US = NOON_US + 60_000_000


class OutboxConformance(PlacesConformance):
    """The promises about subscribers and their positions."""

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
        assert self.store.take_cursor("pager", "us", NOON_US, LATER_US) is None, "no such cursor exists"
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


# The duties of every ledger store with the sealed log. `StoreConformance` inherits these tests.


def _head(size: int, note: bytes = b"note") -> SealedHead:
    return SealedHead(size, NOON_US, note)


class LogConformance(PlacesConformance):
    """Tiles, checkpoints, marks of anchors, and entries in the sealer's order."""

    def test_a_log_that_was_never_sealed_has_nothing(self) -> None:
        assert self.store.checkpoint() is None
        assert self.store.checkpoint(1) is None
        assert list(self.store.checkpoints()) == []
        assert list(self.store.tiles()) == []
        assert self.store.tile(0, 0) is None
        assert self.store.anchors() == []

    def test_a_checkpoint_and_its_tiles_are_kept_together_and_outlive_the_process(self) -> None:
        tiles = [HashTile(1, 0, b"b" * 32), HashTile(0, 0, b"a" * 64)]
        assert self.store.seal(0, tiles, _head(2))
        self.store = self.reopen(self.store)
        assert self.store.checkpoint() == self.store.checkpoint(2) == _head(2)
        assert list(self.store.tiles()) == tiles[::-1]
        assert (self.store.tile(0, 0), self.store.tile(1, 0), self.store.tile(0, 1)) == (b"a" * 64, b"b" * 32, None)

    def test_of_two_that_seal_at_once_one_is_kept(self) -> None:
        assert self.store.seal(0, [HashTile(0, 0, b"a" * 32)], _head(1))
        assert not self.store.seal(0, [HashTile(0, 0, b"z" * 96), HashTile(0, 1, b"z" * 32)], _head(3))
        assert not self.store.seal(2, [], _head(3))
        assert self.store.tile(0, 0) == b"a" * 32
        assert self.store.tile(0, 1) is None
        assert [head.size for head in self.store.checkpoints()] == [1]

    def test_a_tile_grows_and_every_checkpoint_stays(self) -> None:
        assert self.store.seal(0, [HashTile(0, 0, b"a" * 32)], _head(1, b"one"))
        assert self.store.seal(1, [HashTile(0, 0, b"a" * 64)], _head(2, b"two"))
        assert self.store.tile(0, 0) == b"a" * 64
        assert [head.note for head in self.store.checkpoints()] == [b"one", b"two"]
        assert self.store.checkpoint(1) == _head(1, b"one")

    def test_a_note_takes_more_signatures_and_nothing_else_changes(self) -> None:
        self.store.seal(0, [], _head(1, b"one"))
        self.store.seal(1, [], _head(2, b"two"))
        self.store.cosigned(1, b"one+")
        self.store.cosigned(9, b"of nothing")
        assert [head.note for head in self.store.checkpoints()] == [b"one+", b"two"]

    def test_how_far_an_anchor_was_told_is_remembered_by_its_name(self) -> None:
        self.store.mark(AnchorMark("b", 0, NOON_US, "anchor.failed"))
        self.store.mark(AnchorMark("a", 3, NOON_US, ""))
        self.store.mark(AnchorMark("b", 7, NOON_US + 1, ""))
        assert self.store.anchors() == [AnchorMark("a", 3, NOON_US, ""), AnchorMark("b", 7, NOON_US + 1, "")]

    def test_entries_come_as_they_were_appended_in_pieces(self) -> None:
        self.store.append([sample_append("a1"), sample_append("a2"), sample_append("a3")])
        self.place()
        whole = [(each.seq, each.envelope, each.leaf) for each in self.store.scan()]
        assert self.store.entries(0, 2) == whole[:2]
        assert self.store.entries(2, 9) == whole[2:]
        assert self.store.entries(len(whole), 9) == []

    def test_what_is_asked_for_together_is_what_is_asked_for_one_by_one(self) -> None:
        store, shared = self.store, sample_evidence(b"shared")
        own = [sample_evidence(b"body %d" % number) for number in range(70)]
        for number, body in enumerate(own):
            name = f"a{number:02}"
            made = sample_creation(name, key_hash=f"key of {name}", contract_hash=shared.digest)
            store.append([replace(made, evidence=(body, shared))])
        store.append([sample_append("a07", 1, evidence=(own[8],))])
        found = list(store.histories())
        assert [each for each, _ in found] == list(store.projections())
        assert [events for _, events in found] == [store.events(each.projection.action_id) for each, _ in found]
        kept = {(f"a{number:02}", each.digest): each for number, each in enumerate(own)}
        kept |= {("a07", own[8].digest): own[8], ("", shared.digest): shared}
        nothing = [("a01", "00" * 32), ("a01", "not a digest"), ("", "not a digest"), ("a02", own[1].digest)]
        assert store.bodies(TENANT, [*kept, *nothing]) == {at: (one.media, one.body) for at, one in kept.items()}
        assert store.bodies("globex", [*kept]) == {}
        assert store.bodies(TENANT, []) == {}
        names = [f"key of a{number:02}" for number in range(70)]
        assert store.keys(TENANT, [*names, "of no action"]) == {name: store.key(TENANT, name) for name in names}
        assert store.keys("globex", names) == {}


# What every ledger store must do with evidence that is erased.

ITEM = sample_evidence(b'{"name":"Ana"}')
OTHER = sample_evidence(b'{"name":"Bob"}')
ERASES = Erasure((ITEM.digest,))


class ErasureConformance(PlacesConformance):
    """Erased bytes, remaining digests, and bytes recorded again."""

    def test_erased_evidence_is_known_and_has_no_bytes(self) -> None:
        self.store.append([sample_append("a1", evidence=(ITEM, OTHER))])
        assert not self.store.erased(TENANT, "a1", ITEM.digest)
        self.store.append([sample_append("a1", 1, erases=ERASES)])
        assert self.store.evidence(TENANT, "a1", ITEM.digest) is None
        assert self.store.evidence(TENANT, "a1", OTHER.digest) == OTHER
        assert self.store.erased(TENANT, "a1", ITEM.digest)
        assert not self.store.erased("other", "a1", ITEM.digest)
        assert not self.store.erased(TENANT, "a2", ITEM.digest)
        assert not self.store.erased(TENANT, "a1", OTHER.digest)
        assert not self.store.erased(TENANT, "a1", "ab" * 32)
        assert not self.store.erased(TENANT, "a1", "no digest")
        assert self.store.bodies(TENANT, [("a1", ITEM.digest)]) == {}
        assert self.store.evidence_bytes(TENANT) == len(OTHER.body)
        assert self.store.purge()

    def test_erased_evidence_that_is_recorded_again_has_its_bytes_again(self) -> None:
        self.store.append([sample_append("a1", evidence=(ITEM,))])
        again = sample_append("a1", 2, evidence=(ITEM,))
        self.store.append([sample_append("a1", 1, erases=ERASES), again])
        assert self.store.evidence(TENANT, "a1", ITEM.digest) == ITEM
        assert not self.store.erased(TENANT, "a1", ITEM.digest)

    def test_the_same_bytes_of_another_action_stay(self) -> None:
        self.store.append([sample_append("a1", evidence=(ITEM,)), sample_append("a2", evidence=(ITEM,))])
        self.store.append([sample_append("a1", 1, erases=ERASES)])
        assert self.store.erased(TENANT, "a1", ITEM.digest)
        assert self.store.evidence(TENANT, "a2", ITEM.digest) == ITEM
        self.store.append([sample_append("a2", 1, erases=ERASES)])
        assert self.store.evidence(TENANT, "a2", ITEM.digest) is None

    def test_the_text_of_a_contract_is_not_erased(self) -> None:
        contract = sample_projection("a1", contract_hash=ITEM.digest)
        self.store.append([sample_append("a1", projection=contract, evidence=(ITEM,))])
        self.store.append([sample_append("a1", 1, projection=contract, erases=ERASES)])
        assert not self.store.erased(TENANT, "a1", ITEM.digest)
        assert self.store.evidence(TENANT, "a1", ITEM.digest) == ITEM
        assert self.store.evidence(TENANT, "", ITEM.digest) == ITEM

    def test_the_definition_of_a_saga_is_its_own(self) -> None:
        for name in ("s1", "s2"):
            saga = sample_projection(name, contract_hash=ITEM.digest, kind="saga")
            self.store.append([sample_append(name, projection=saga, evidence=(ITEM,))])
        assert self.store.evidence(TENANT, "", ITEM.digest) is None
        first = sample_projection("s1", contract_hash=ITEM.digest, kind="saga")
        self.store.append([sample_append("s1", 1, projection=first, erases=ERASES)])
        assert self.store.erased(TENANT, "s1", ITEM.digest)
        assert self.store.evidence(TENANT, "s2", ITEM.digest) == ITEM

    def test_another_tenants_action_is_not_looked_into(self) -> None:
        self.store.append([sample_append("a1", evidence=(ITEM,))])
        theirs = sample_append("b1", evidence=(ITEM,))
        theirs = replace(theirs, tenant="other", projection=replace(theirs.projection, tenant="other"))
        self.store.append([theirs])
        self.store.append([sample_append("a1", 1, erases=ERASES)])
        assert self.store.evidence("other", "b1", ITEM.digest) == ITEM
        assert self.store.evidence(TENANT, "b1", ITEM.digest) is None

    def test_an_erasure_that_conflicts_erases_nothing(self) -> None:
        self.store.append([sample_append("a1", evidence=(ITEM,))])
        self.store.append([sample_append("a1", 7, erases=ERASES)])
        assert self.store.evidence(TENANT, "a1", ITEM.digest) == ITEM

    def test_who_keeps_evidence_is_found_by_its_digest(self) -> None:
        contract = sample_evidence(b"the terms")
        own = sample_projection("a1", contract_hash=contract.digest)
        self.store.append([sample_append("a1", projection=own, evidence=(ITEM, contract))])
        assert self.store.keeper(TENANT, ITEM.digest) == "a1"
        assert self.store.keeper(TENANT, contract.digest) is None
        assert self.store.keeper("other", ITEM.digest) is None
        assert self.store.keeper(TENANT, "ab" * 32) is None
        assert self.store.keeper(TENANT, "no digest") is None
        self.store.append([sample_append("a1", 1, projection=own, erases=ERASES)])
        assert self.store.keeper(TENANT, ITEM.digest) == "a1", "the digest stays"
        self.store.append([sample_append("a2", evidence=(ITEM,))])
        assert self.store.keeper(TENANT, ITEM.digest) == "a2", "whose bytes are there comes first"


THREADS = 8
ROUNDS = 25


class StoreConformance(WorkConformance, ControlConformance, ErasureConformance, LogConformance, OutboxConformance):
    """Appends, idempotency records, evidence, counters, threads and closing."""

    # --- one append ----------------------------------------------------------------------------------

    def test_what_was_appended_is_read_as_it_was(self) -> None:
        item = sample_creation("a1", events=3)
        assert self.store.append([item]) == [self.kept(3, 3)]
        self.place()
        events = self.store.events("a1")
        assert [(e.seq, e.version, e.action_id) for e in events] == [(1, 1, "a1"), (2, 2, "a1"), (3, 3, "a1")]
        assert [SealedEvent(e.kind, e.at_us, e.envelope, e.leaf) for e in events] == list(item.events)
        stored = self.store.projection("a1")
        assert stored is not None
        assert (stored.projection, stored.version, stored.fence) == (item.projection, 3, 0)

    def test_an_unknown_action_has_nothing(self) -> None:
        assert self.store.events("a1") == []
        assert self.store.projection("a1") is None
        assert list(self.store.scan()) == []

    def test_any_text_and_any_bytes_come_back_unchanged(self) -> None:
        odd = "'\"; DROP TABLE event; -- \n\x00 \U0001f9ea é"
        held = sample_projection(
            "a1", target=odd, operation="x" * 20_000, due_us=2**63 - 1, created_us=-(2**63), lease_owner=odd
        )
        event = replace(sample_event(odd), envelope=b"\x00\xff" * 30_000, kind=odd)
        item = replace(sample_append("a1", projection=held), events=(event,))
        self.store.append([item])
        stored = self.store.projection("a1")
        assert stored is not None
        assert stored.projection == held
        assert self.store.events("a1")[0].envelope == event.envelope
        assert self.store.events("a1")[0].kind == odd

    def test_the_later_projection_replaces_the_earlier_whole(self) -> None:
        self.store.append([sample_creation("a1")])
        changes: dict[str, Any] = {
            name: "changed" for name, kind in _projection_fields() if kind == "str" and name not in _FIXED
        }
        later = sample_projection("a1", **changes, created_us=1, updated_us=2, due_us=3, lease_until_us=4)
        self.store.append([sample_append("a1", 1, projection=later)])
        stored = self.store.projection("a1")
        assert stored is not None
        assert stored.projection == later
        for query in (ActionFilter(contract="changed"), ActionFilter(run="changed"), ActionFilter(state="changed")):
            assert [s.projection for s in self.store.page(query)] == [later]
        assert self.store.page(ActionFilter(contract="ship_order")) == []
        assert self.store.by_stamp(TENANT, "changed") == "a1"
        assert self.store.by_stamp(TENANT, "rb-a1") is None

    def test_places_in_the_log_have_no_gaps(self) -> None:
        self.store.append([sample_creation("a1", events=2), sample_creation("a2")])
        self.store.append([sample_append("a9", 7), sample_creation("a3", events=2)])
        self.place()
        assert [(e.seq, e.action_id) for e in self.store.scan()] == [
            (1, "a1"), (2, "a1"), (3, "a2"), (4, "a3"), (5, "a3"),
        ]  # fmt: skip
        assert [e.seq for e in self.store.scan(after_seq=3)] == [4, 5]
        assert list(self.store.scan(after_seq=5)) == []

    # --- compare and swap ----------------------------------------------------------------------------

    def test_a_version_that_was_overtaken_keeps_nothing(self) -> None:
        self.store.append([sample_creation("a1", events=2)])
        self._refused(sample_append("a1", 1, **self._parts("a1")), VersionConflict(version=2, fence=0))
        self._refused(sample_append("a1", 3, **self._parts("a1")), VersionConflict(version=2, fence=0))

    def test_an_action_is_created_once(self) -> None:
        self.store.append([sample_creation("a1")])
        self._refused(sample_creation("a1"), VersionConflict(version=1, fence=0))

    def test_an_action_that_is_not_there_cannot_be_continued(self) -> None:
        self._refused(sample_append("a1", 1), VersionConflict(version=0, fence=0))

    def test_a_fence_that_was_overtaken_keeps_nothing(self) -> None:
        self.store.append([sample_creation("a1")])
        fence = self.store.lease("a1", "worker/1", NOON_US, NOON_US + 10)
        assert fence == 1
        self._refused(sample_append("a1", 1, **self._parts("a1")), VersionConflict(version=1, fence=1))
        assert self.store.append([sample_append("a1", 1, fence=1)]) == [self.kept(2, 2)]

    def test_repeating_an_append_that_was_kept_is_refused_by_its_version(self) -> None:
        item = sample_creation("a1")
        self.store.append([item])
        self._refused(item, VersionConflict(version=1, fence=0))

    # --- batches -------------------------------------------------------------------------------------

    def test_a_conflict_in_a_batch_does_not_touch_the_others(self) -> None:
        self.store.append([sample_creation("a1")])
        found = self.store.append(
            [sample_creation("a2"), sample_append("a1", 5, **self._parts("a1")), sample_creation("a3")]
        )
        assert found == [self.kept(1, 2), VersionConflict(version=1, fence=0), self.kept(1, 3)]
        self.place()
        assert [e.action_id for e in self.store.scan()] == ["a1", "a2", "a3"]

    def test_one_action_may_stand_in_a_batch_twice_in_order(self) -> None:
        second = sample_append("a1", 2, events=2, projection=sample_projection("a1", state="VERIFYING"))
        found = self.store.append([sample_creation("a1", events=2), second, sample_append("a1", 2)])
        assert found == [self.kept(2, 2), self.kept(4, 4), VersionConflict(version=4, fence=0)]
        stored = self.store.projection("a1")
        assert stored is not None
        assert (stored.projection.state, stored.version) == ("VERIFYING", 4)

    def test_a_batch_out_of_order_conflicts(self) -> None:
        found = self.store.append([sample_append("a1", 1), sample_creation("a1")])
        assert found == [VersionConflict(version=0, fence=0), self.kept(1, 1)]

    def test_an_empty_batch_does_nothing(self) -> None:
        assert self.store.append([]) == []

    def test_an_append_that_contradicts_itself_fails_its_whole_batch(self) -> None:
        good, evidence = sample_creation("a1"), sample_evidence(b"{}")
        wrong = [
            replace(sample_append("a2"), events=()),
            replace(sample_append("a2"), projection=sample_projection("a3")),
            replace(sample_append("a2"), tenant="other"),
            sample_append("a2", reserve=sample_reservation(sample_projection("a3"))),
            sample_append("a2", evidence=(replace(evidence, body=b"{ }"),)),
            replace(sample_append("a2"), events=(replace(sample_event("x"), leaf=b"short"),)),
        ]
        answers = [raised_by(partial(self.store.append, [good, item])) for item in wrong]
        assert [type(answer) for answer in answers] == [InvariantError] * len(wrong)
        assert everything(self.store) == everything(self.make_store())

    # --- idempotency records -------------------------------------------------------------------------

    def test_a_reservation_is_found_under_its_tenant_and_key(self) -> None:
        item = sample_creation("a1")
        self.store.append([item])
        key_hash = item.projection.key_hash
        assert self.store.key(TENANT, key_hash) == item.reserve
        assert self.store.key("other", key_hash) is None
        assert self.store.key(TENANT, "other") is None

    def test_a_key_that_is_taken_keeps_nothing(self) -> None:
        first = sample_creation("a1")
        self.store.append([first])
        same = sample_projection("a2", key_hash=first.projection.key_hash)
        item = sample_append("a2", projection=same, reserve=sample_reservation(same), **self._parts("a2"))
        assert first.reserve is not None
        self._refused(item, KeyConflict(first.reserve))
        self._refused(replace(item, replaces="a3"), KeyConflict(first.reserve))

    def test_two_reservations_of_one_key_in_a_batch_have_one_winner(self) -> None:
        held = [sample_projection(name, key_hash="k") for name in ("a1", "a2")]
        items = [sample_append(p.action_id, projection=p, reserve=sample_reservation(p)) for p in held]
        assert self.store.append(items) == [self.kept(1, 1), KeyConflict(sample_reservation(held[0]))]
        assert self.store.projection("a2") is None

    def test_the_same_key_of_another_tenant_is_another_key(self) -> None:
        self.store.append([sample_creation("a1", key_hash="k")])
        assert self.store.append([sample_creation("a2", key_hash="k", tenant="other")]) == [self.kept(1, 2)]

    def test_a_named_record_is_replaced(self) -> None:
        self.store.append([sample_creation("a1", key_hash="k")])
        later = sample_creation("a2", key_hash="k")
        assert self.store.append([replace(later, replaces="a1")]) == [self.kept(1, 2)]
        assert self.store.key(TENANT, "k") == later.reserve

    def test_a_record_that_was_replaced_meanwhile_is_not_replaced_again(self) -> None:
        self.store.append([sample_creation("a1", key_hash="k")])
        self.store.append([replace(sample_creation("a2", key_hash="k"), replaces="a1")])
        third = replace(sample_creation("a3", key_hash="k"), replaces="a1")
        [found] = self.store.append([third])
        assert isinstance(found, KeyConflict)
        assert found.record.action_id == "a2"

    def test_a_record_that_came_to_be_open_meanwhile_is_not_replaced(self) -> None:
        self.store.append([sample_creation("a1", key_hash="k")])
        held = sample_projection("a1", key_hash="k")
        later = replace(sample_creation("a2", key_hash="k"), replaces="a1")
        self.store.append([sample_append("a1", 1, projection=held, settle=("PENDING", 0))])
        [found] = self.store.append([later])
        assert isinstance(found, KeyConflict)
        assert (found.record.action_id, found.record.status) == ("a1", "PENDING")
        freed = sample_append("a1", 2, projection=held, settle=("FAILED_RETRYABLE", 9))
        opened = sample_append("a1", 3, projection=held, settle=("PENDING", 0))
        kept, again, taken = self.store.append([freed, opened, later])
        assert (type(kept), type(again), type(taken)) == (Appended, Appended, KeyConflict)
        own = sample_append("a1", 4, projection=held, reserve=sample_reservation(held))
        assert isinstance(self.store.append([own])[0], Appended), "its own action may always reserve it again"

    def test_a_new_action_does_not_get_the_key_that_its_holder_reserves_again_beside_it(self) -> None:
        held = sample_projection("a1", key_hash="k")
        again = sample_append("a1", 1, projection=held, reserve=sample_reservation(held))
        self.store.append([sample_creation("a1", key_hash="k")])
        assert self.store.append([sample_creation("a2", key_hash="k"), again]) == [
            KeyConflict(sample_reservation(held)),
            self.kept(2, 2),
        ]

    def test_settling_changes_the_own_record_only(self) -> None:
        self.store.append([sample_creation("a1", key_hash="k")])
        self.store.append(
            [sample_append("a1", 1, projection=sample_projection("a1", key_hash="k"), settle=("done", 5))]
        )
        record = self.store.key(TENANT, "k")
        assert record is not None
        assert (record.status, record.expires_us, record.action_id) == ("done", 5, "a1")
        self.store.append([replace(sample_creation("a2", key_hash="k"), replaces="a1")])
        self.store.append(
            [sample_append("a1", 2, projection=sample_projection("a1", key_hash="k"), settle=("lost", 6))]
        )
        record = self.store.key(TENANT, "k")
        assert record is not None
        assert (record.status, record.action_id) == ("in_flight", "a2")

    def test_a_reservation_may_be_settled_in_its_own_batch(self) -> None:
        held = sample_projection("a1", key_hash="k")
        other = sample_creation("a2", key_hash="k")
        found = self.store.append(
            [
                sample_append("a1", projection=held, reserve=sample_reservation(held), settle=("failed", 5)),
                sample_append("a1", 1, projection=held, settle=("done", 6)),
                other,
            ]
        )
        assert isinstance(found[2], KeyConflict)
        assert (found[2].record.status, found[2].record.expires_us) == ("done", 6)
        assert self.store.key(TENANT, "k") == found[2].record

    def test_a_record_settled_in_a_batch_is_reported_as_settled(self) -> None:
        held = sample_projection("a1", key_hash="k")
        self.store.append([sample_creation("a1", key_hash="k")])
        found = self.store.append(
            [sample_append("a1", 1, projection=held, settle=("done", 6)), sample_creation("a2", key_hash="k")]
        )
        assert isinstance(found[1], KeyConflict)
        assert found[1].record.status == "done"

    # --- evidence and counters -----------------------------------------------------------------------

    def test_evidence_is_kept_under_its_digest_and_tenant(self) -> None:
        bodies = [b"", b"{}", b"\x00\xff" * 500_000]
        kept = tuple(sample_evidence(body) for body in bodies)
        self.store.append([sample_append("a1", evidence=kept)])
        assert [self.store.evidence(TENANT, "a1", item.digest) for item in kept] == list(kept)
        assert self.store.evidence("other", "a1", kept[0].digest) is None
        assert self.store.evidence(TENANT, "a1", "ab" * 32) is None
        assert self.store.evidence(TENANT, "a1", "no digest") is None

    def test_the_same_evidence_may_be_given_many_times(self) -> None:
        item = sample_evidence(b"{}")
        again = replace(item, media="text/plain")
        self.store.append([sample_append("a1", evidence=(item, again)), sample_append("a2", evidence=(again,))])
        self.store.append([sample_append("a3", evidence=(again,))])
        assert [self.store.evidence(TENANT, name, item.digest) for name in ("a1", "a2", "a3")] == [item, again, again]

    def test_counters_add_up_and_are_set_back(self) -> None:
        def step(version: int, *counts: Count) -> None:
            self.store.append([sample_append("a1", version, counts=counts)])

        step(0, Count("orders-db", "verifier_error", 1), Count("orders-db", "mismatch", 2))
        step(1, Count("orders-db", "verifier_error", 1), Count("ship", "verifier_error", 1))
        assert self.store.count(TENANT, "orders-db", "verifier_error") == 2
        assert self.store.count("other", "orders-db", "verifier_error") == 0
        assert self.store.counts(TENANT) == [
            ("orders-db", "mismatch", 2), ("orders-db", "verifier_error", 2), ("ship", "verifier_error", 1),
        ]  # fmt: skip
        step(2, Count("orders-db", "verifier_error", None), Count("orders-db", "mismatch", None))
        step(3, Count("orders-db", "mismatch", 1), Count("orders-db", "mismatch", None), Count("ship", "x", None))
        step(4, Count("orders-db", "mismatch", None), Count("orders-db", "mismatch", 3))
        assert self.store.counts(TENANT) == [("orders-db", "mismatch", 3), ("ship", "verifier_error", 1)]
        assert self.store.counts("other") == []

    # --- threads, and the end ------------------------------------------------------------------------

    def test_of_many_threads_one_wins_each_version(self) -> None:
        self.store.append([sample_creation("a1")])
        wins: list[int] = []

        def work() -> None:
            for version in range(1, ROUNDS + 1):
                [found] = self.store.append([sample_append("a1", version)])
                while isinstance(found, VersionConflict) and found.version < version:
                    [found] = self.store.append([sample_append("a1", version)])
                if isinstance(found, Appended):
                    wins.append(version)

        _in_threads(work)
        assert sorted(wins) == list(range(1, ROUNDS + 1))
        assert [event.version for event in self.store.events("a1")] == list(range(1, ROUNDS + 2))

    def test_of_many_threads_one_gets_each_key(self) -> None:
        wins: list[str] = []
        names = iter(f"a{number:03}" for number in range(THREADS * ROUNDS))
        lock = threading.Lock()

        def work() -> None:
            for number in range(ROUNDS):
                with lock:
                    name = next(names)
                [found] = self.store.append([sample_creation(name, key_hash=f"k{number}")])
                if isinstance(found, Appended):
                    wins.append(f"k{number}")

        _in_threads(work)
        assert sorted(wins) == sorted(f"k{number}" for number in range(ROUNDS))
        self.place()
        assert [event.seq for event in self.store.scan()] == list(range(1, ROUNDS + 1))

    def test_what_was_acknowledged_is_there_after_reopening(self) -> None:
        self.store.append([sample_creation("a1", due_us=5), sample_append("a2", **self._parts("a2"))])
        fence = self.store.lease("a1", "worker/1", 10, 20)
        before = everything(self.store)
        self.store = self.reopen(self.store)
        assert everything(self.store) == before
        assert self.store.lease("a1", "worker/2", 10, 30) is None
        assert self.store.lease("a1", "worker/2", 20, 30) == (fence or 0) + 1

    def test_a_closed_store_refuses_everything(self) -> None:
        store = self.store
        store.append([sample_creation("a1")])
        store.close()
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.append([sample_creation("a2")]),
            lambda: store.lease("a1", "w", 0, 1),
            lambda: store.make_due("a1", 0),
            lambda: store.release("w"),
            lambda: store.owners(),
            lambda: store.events("a1"),
            lambda: store.projection("a1"),
            lambda: store.key(TENANT, "k"),
            lambda: store.by_stamp(TENANT, "rb-a1"),
            lambda: store.due(0, 1),
            lambda: store.next_due_us(),
            lambda: store.page(ActionFilter()),
            lambda: store.evidence(TENANT, "a1", "ab" * 32),
            lambda: store.count(TENANT, "s", "n"),
            lambda: store.counts(TENANT),
            lambda: store.opening(TENANT, "k", ()),
            lambda: list(store.scan()),
            lambda: list(store.projections()),
            lambda: store.assign_sequence_numbers(1) if self.sequences_asynchronously else store.events("a1"),
        ]
        assert [type(raised_by(call)) for call in calls] == [StoreError] * len(calls)

    # --- how it is asked -----------------------------------------------------------------------------

    def _parts(self, action_id: str) -> dict[str, Any]:
        """Return every possible part of an append beside its events."""
        return {
            "evidence": (sample_evidence(f"evidence of {action_id}".encode()),),
            "counts": (Count("subject", "name", 1),),
            "settle": ("settled", 1),
        }

    def _refused(self, item: Append, answer: object) -> None:
        """Check for this answer and an unchanged store."""
        before = everything(self.store)
        assert self.store.append([item]) == [answer]
        assert everything(self.store) == before


_FIXED = {"action_id", "tenant"}


def _projection_fields() -> list[tuple[str, str]]:
    held = sample_projection("a1")
    return [(name, type(getattr(held, name)).__name__) for name in type(held).__dataclass_fields__]


def _in_threads(work: Callable[[], None]) -> None:
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as failure:
            failures.append(failure)
            raise

    threads = [threading.Thread(target=guarded) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def conforms(store: LedgerStore) -> LedgerStore:
    """For the type checker: `conforms(MyStore(...))` is an error if a method is missing or differs."""
    return store
