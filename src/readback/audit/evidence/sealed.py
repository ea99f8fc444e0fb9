"""Proofs and exports out of the sealed log: what is asked for is read, however long the log is.

Called by the commands that hand evidence to others. The tiles are not believed: a proof is checked before it leaves,
and each entry that is exported has to have the hash that stands in its tile.
"""

from __future__ import annotations

from readback.audit.checks.ledger import nobody
from readback.audit.evidence.attest import Progress, index_of, prove
from readback.audit.sealing.seal import Authority, goes_on_from, opened
from readback.errors import StoreCorruptError
from readback.log.checkpoint import Checkpoint, SignedCheckpoint
from readback.log.frontier import StoredTiles, wide_enough
from readback.log.proof import EntryProof
from readback.log.tiles import (
    CHECKPOINT,
    HEIGHT,
    WIDTH,
    bundle_bytes,
    bundle_path,
    tile_path,
)
from readback.log.tree import HASH_BYTES, leaf_hash
from readback.ports.storage.log import SealedLog, Tiles
from readback.ports.storage.store import LedgerStore, StoredEvent


def prove_sealed(log: SealedLog, entry: StoredEvent, authority: Authority) -> EntryProof | None:
    """The proof against the last checkpoint that is kept; None where that does not cover the entry.

    Raises LogError where tiles and checkpoint do not show it, or the signature is not the log's.
    """
    head = log.checkpoint()
    if head is None or index_of(entry) >= head.size:
        return None
    return prove(entry, opened(head, authority), StoredTiles(head.size, log.tile).read, authority)


def prove_at(log: SealedLog, entry: StoredEvent, authority: Authority, signed: SignedCheckpoint) -> EntryProof | None:
    """The proof against a checkpoint that was kept elsewhere; None where not all of it is sealed here."""
    head, size = log.checkpoint(), signed.checkpoint.size
    if head is None or head.size < size:
        return None
    return prove(entry, signed, StoredTiles(size, log.tile).read, authority)


def export(
    store: LedgerStore,
    signed: SignedCheckpoint,
    tiles: Tiles,
    before: Checkpoint | None = None,
    progress: Progress = nobody,
) -> int:
    """Writes the files of the sealed log; after an earlier export's checkpoint, only those that are new since.

    How many entries were written. The checkpoint is written last. Raises StoreCorruptError for a damaged entry,
    LogError where the log does not go on from the earlier export.
    """
    now = signed.checkpoint
    if before is not None:
        goes_on_from([before], now, store.tile)
    start = before.size if before is not None else 0
    written = 0
    for place in range(start // WIDTH, -(-now.size // WIDTH)):
        width = min(WIDTH, now.size - place * WIDTH)
        tiles.write(bundle_path(place, width), bundle_bytes(_bundle(store, place, width)))
        written += width
        progress(place * WIDTH + width)
    level = 0
    while now.size >> (HEIGHT * level):
        hashes, known = now.size >> (HEIGHT * level), start >> (HEIGHT * level)
        for place in range(known // WIDTH, -(-hashes // WIDTH)):
            width = min(WIDTH, hashes - place * WIDTH)
            tiles.write(tile_path(level, place, width), wide_enough(store.tile, level, place, width))
        level += 1
    tiles.write(CHECKPOINT, signed.to_bytes())
    return written


def _bundle(store: LedgerStore, place: int, width: int) -> list[bytes]:
    hashes = wide_enough(store.tile, 0, place, width)
    found = store.entries(place * WIDTH, width)
    for number, (seq, envelope, _) in enumerate(found):
        expected = place * WIDTH + number + 1
        if seq != expected:
            raise StoreCorruptError(f"Entry {expected} of the ledger is missing; entry {seq} stands there.")
        if leaf_hash(envelope) != hashes[number * HASH_BYTES : (number + 1) * HASH_BYTES]:
            raise StoreCorruptError(f"Entry {seq} has other bytes than its leaf hash says.")
    if len(found) < width:
        raise StoreCorruptError(f"Entry {place * WIDTH + len(found) + 1} of the ledger is missing.")
    return [envelope for _, envelope, _ in found]
