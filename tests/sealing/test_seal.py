"""Sealing: the tree goes on from stored tiles, and what does not go on from the last checkpoint is not signed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from readback.audit.evidence.attest import Authority
from readback.audit.sealing import seal as sealing
from readback.audit.sealing.seal import seal, seal_all, sealed
from readback.errors import StoreCorruptError
from readback.log.checkpoint import Checkpoint
from readback.log.fault import (
    LogCutError,
    LogForkError,
    LogFormatError,
    LogOriginError,
    LogRewrittenError,
    LogSignatureError,
)
from readback.log.frontier import Frontier, HashTile, StoredTiles
from readback.log.note import VerifierKey
from readback.log.proof import check_inclusion, inclusion_proof
from readback.log.tree import EMPTY_ROOT, GrowingTree, leaf_hash
from readback.ports.storage.log import SealedHead
from readback.testing.store_memory import MemoryStore
from readback.testing.store_samples import NOON_US
from tests.sealing.given import NAME, Log, Signer, authority

SIZES = (1, 2, 3, 255, 256, 257, 511, 512, 513, 65_535, 65_536, 65_537)


def _leaf(number: int) -> bytes:
    return leaf_hash(b"%d" % number)


@pytest.mark.parametrize("size", SIZES)
def test_a_frontier_has_the_root_of_the_tree_and_can_be_read_back_from_its_tiles(size: int) -> None:
    leaves = [_leaf(n) for n in range(size)]
    tree, edge, tiles = GrowingTree(), Frontier(), dict[tuple[int, int], bytes]()
    for leaf in leaves:
        tree.append(leaf)
    at = 0
    while at < size:
        step = min(max(1, size // 7), size - at)
        edge.grow(leaves[at : at + step])
        tiles.update({(tile.level, tile.place): tile.hashes for tile in edge.changed()})
        at += step
        edge = Frontier.at(at, lambda level, place: tiles.get((level, place)))
    assert (edge.size, edge.root()) == (size, tree.root())
    assert edge.changed() == []
    reader = StoredTiles(size, lambda level, place: tiles.get((level, place)))
    for index in (0, size // 2, size - 1):
        path = inclusion_proof(index, size, reader.read)
        check_inclusion(leaves[index], index, size, path, tree.root())


@pytest.mark.requirement("LEDGER-sealed")
def test_sealing_goes_on_from_the_last_checkpoint_and_reads_no_entry_twice(log: Log) -> None:
    chance = random.Random(7)
    tree, total, signed = GrowingTree(), 0, None
    for _ in range(40):
        for leaf in log.append(chance.randrange(1, 60)):
            tree.append(leaf)
            total += 1
        signed = log.seal()
        assert signed is not None
        assert signed.checkpoint == Checkpoint(NAME, total, tree.root())
        log.forget_before(total)  # what was sealed is not there to be read any more, but for the last entry
    assert [head.size for head in log.store.checkpoints()][-1] == total
    assert log.seal() == signed


def test_nothing_is_signed_of_nothing_and_the_empty_log_is_signed_where_it_is_asked_for(log: Log) -> None:
    assert log.seal() is None
    assert seal_all(log.store, log.signer, log.authority, 1).checkpoint == Checkpoint(NAME, 0, EMPTY_ROOT)
    assert log.store.checkpoint() is None


@pytest.mark.requirement("LEDGER-sealed")
def test_a_long_backlog_is_sealed_by_several_checkpoints(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "ENTRIES_A_CHECKPOINT_MAX", 100)
    monkeypatch.setattr(sealing, "PIECE_ENTRIES", 25)
    log.append(530)
    assert seal_all(log.store, log.signer, log.authority, 1).checkpoint.size == 530
    assert [head.size for head in log.store.checkpoints()] == [100, 200, 300, 400, 500, 530]


@pytest.mark.requirement("LEDGER-sealed")
def test_of_two_sealers_one_is_kept_and_both_go_on(log: Log) -> None:
    log.append(10)
    other = log.store.reopened()
    racing = _Racing(log.store, lambda: seal(other, log.signer, log.authority, NOON_US))
    signed = seal(racing, log.signer, log.authority, NOON_US)  # type: ignore[arg-type]
    assert signed is not None
    assert signed.checkpoint.size == 10
    log.append(5)
    racing = _Racing(log.store, lambda: (log.append(3), seal(other, log.signer, log.authority, NOON_US)))
    signed = seal(racing, log.signer, log.authority, NOON_US)  # type: ignore[arg-type]
    assert signed is not None
    assert signed.checkpoint.size == 18
    assert [head.size for head in log.store.checkpoints()] == [10, 18]


class _Racing:
    """A store in which somebody else seals first, once."""

    def __init__(self, store: MemoryStore, first: Callable[[], object]) -> None:
        self._store, self._first = store, first

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def seal(self, after: int, tiles: list[HashTile], head: SealedHead) -> bool:
        first, self._first = self._first, lambda: None
        first()
        return self._store.seal(after, tiles, head)


@pytest.mark.requirement("L22", "LEDGER-sealed")
def test_a_new_entry_that_is_damaged_or_missing_is_not_signed(log: Log) -> None:
    log.append(20)
    log.seal()
    log.append(5)
    log.change(23, lambda entry: replace(entry, envelope=entry.envelope + b"x"))
    with pytest.raises(StoreCorruptError, match="Entry 23 does not match its leaf hash"):
        log.seal()
    log.remove(23)
    with pytest.raises(StoreCorruptError, match="Entry 23 of the ledger is missing; entry 24"):
        log.seal()
    assert [head.size for head in log.store.checkpoints()] == [20]


@pytest.mark.requirement("L21", "LEDGER-sealed")
def test_a_log_that_was_cut_or_written_anew_is_not_gone_on_from(log: Log) -> None:
    log.append(300)
    log.seal()
    log.cut(1)
    with pytest.raises(LogCutError, match="covers 300 entries") as cut:
        log.seal()
    assert cut.value.code == "log.cut"
    log.append(4, "anew")
    with pytest.raises(LogRewrittenError, match="Entry 300 differs from the sealed entry") as rewritten:
        log.seal()
    assert rewritten.value.code == "log.rewritten"


@pytest.mark.requirement("LEDGER-sealed")
def test_spoiled_tiles_and_checkpoints_are_not_gone_on_from(log: Log) -> None:
    log.append(300)
    log.seal()
    log.append(1)
    content = log.store._content.sealed
    for at in ((0, 1), (1, 0)):
        kept = content.tiles[at]
        content.tiles[at] = kept[:-1] + bytes([kept[-1] ^ 1])
        with pytest.raises(LogRewrittenError, match="do not lead to the root"):
            log.seal()
        content.tiles[at] = kept[:-32]
        with pytest.raises(LogFormatError, match="fewer than"):
            log.seal()
        content.tiles[at] = kept
    head = content.heads[300]
    content.heads[300] = replace(head, note=head.note.replace(b"\n300\n", b"\n299\n"))
    with pytest.raises(LogSignatureError, match="not valid"):
        log.seal()
    content.heads[299] = content.heads.pop(300)
    content.heads[299] = replace(head, size=299)
    with pytest.raises(LogFormatError, match="stored for 299 entries is of 300"):
        log.seal()


@pytest.mark.requirement("LEDGER-sealed")
def test_another_key_does_not_go_on_from_what_this_one_signed_unless_it_is_known(log: Log) -> None:
    log.append(3)
    log.seal()
    log.append(3)
    thief = Signer(NAME, b"\1" * 32)
    with pytest.raises(LogSignatureError, match="not signed by") as wrong:
        seal(log.store, thief, authority(thief), NOON_US)
    assert wrong.value.code == "log.signature"
    after = Authority(authority(thief).key, log.authority.check, (log.authority.key,))
    signed = seal(log.store, thief, after, NOON_US)
    assert signed is not None
    assert signed.checkpoint.size == 6
    assert sealed(log.store, after).signed == signed


@pytest.mark.requirement("LEDGER-head-kept")
def test_heads_from_elsewhere_each_have_to_be_gone_on_from(log: Log) -> None:
    log.append(7)
    seven = log.seal()
    assert seven is not None
    log.append(300)
    now = log.seal()
    assert now is not None
    good = [Checkpoint(NAME, 0, EMPTY_ROOT), seven.checkpoint, now.checkpoint]
    assert seal(log.store, log.signer, log.authority, 1, good) == now
    wrong = {
        "log.origin": Checkpoint("example.com/another", 7, seven.checkpoint.root),
        "log.cut": Checkpoint(NAME, 308, now.checkpoint.root),
        "log.fork": Checkpoint(NAME, 307, seven.checkpoint.root),
        "log.rewritten": Checkpoint(NAME, 7, now.checkpoint.root),
    }
    for code, checkpoint in wrong.items():
        with pytest.raises((LogOriginError, LogCutError, LogForkError, LogRewrittenError)) as refused:
            seal(log.store, log.signer, log.authority, 1, [*good, checkpoint])
        assert refused.value.code == code
    log.append(1)
    with pytest.raises(LogForkError):
        seal(log.store, log.signer, log.authority, 1, [Checkpoint(NAME, 308, EMPTY_ROOT)])
    assert log.store.checkpoint() == SealedHead(307, NOON_US, now.to_bytes())


def test_a_verifier_key_is_what_its_signer_says() -> None:
    signer = Signer(NAME, b"\2" * 32)
    assert authority(signer).keys == (VerifierKey(NAME, signer.raw_key),)
