"""Proofs and exports from the sealed log. The cost depends on the request, not on the length of the log.

Called by commands that produce evidence. Tiles are untrusted: every proof is verified before it is returned, and each
exported entry must match the hash in its tile.
"""

from __future__ import annotations

from readback.audit.checks.ledger import no_progress
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
    """Prove an entry against the last stored checkpoint. None if the checkpoint does not cover the entry.

    Raises LogError if tiles and checkpoint do not show the entry, or if the signature is not the log's.
    """
    head = log.checkpoint()
    if head is None or index_of(entry) >= head.size:
        return None
    return prove(entry, opened(head, authority), StoredTiles(head.size, log.tile).read, authority)


def prove_at(log: SealedLog, entry: StoredEvent, authority: Authority, signed: SignedCheckpoint) -> EntryProof | None:
    """Prove an entry against an external checkpoint. None if part of its entries is not sealed here."""
    head, size = log.checkpoint(), signed.checkpoint.size
    if head is None or head.size < size:
        return None
    return prove(entry, signed, StoredTiles(size, log.tile).read, authority)


def export(
    store: LedgerStore,
    signed: SignedCheckpoint,
    tiles: Tiles,
    before: Checkpoint | None = None,
    progress: Progress = no_progress,
) -> int:
    """Write the files of the sealed log. After an earlier export's checkpoint, write only newer files.

    Return the number of written entries. The checkpoint is written last. Raises StoreCorruptError for a damaged entry,
    LogError if the log does not extend the earlier export.
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
            raise StoreCorruptError(f"Entry {seq} does not match its leaf hash.")
    if len(found) < width:
        raise StoreCorruptError(f"Entry {place * WIDTH + len(found) + 1} of the ledger is missing.")
    return [envelope for _, envelope, _ in found]
