"""What every ledger store must do with the sealed log. Called by nobody: `StoreConformance` inherits these tests."""

from __future__ import annotations

from dataclasses import replace

from readback.log.frontier import HashTile
from readback.ports.storage.log import AnchorMark, SealedHead
from readback.testing.conformance.store_places import PlacesConformance
from readback.testing.store_samples import NOON_US, TENANT, sample_append, sample_creation, sample_evidence


def _head(size: int, note: bytes = b"note") -> SealedHead:
    return SealedHead(size, NOON_US, note)


class LogConformance(PlacesConformance):
    """Tiles, checkpoints, marks of anchors, and the entries as the sealer takes them."""

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
        assert store.keys(TENANT, [*names, "of nobody"]) == {name: store.key(TENANT, name) for name in names}
        assert store.keys("globex", names) == {}
