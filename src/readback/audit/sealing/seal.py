"""Seal: the log's tree goes on from where it was sealed last, and its new head is signed and kept with its tiles.

Called by the sealer, and by commands that sign or prove. What was sealed is not read again: the edge of the tree comes
out of the tiles, has to lead to the last checkpoint's root, and that checkpoint has to be signed by the log's key. New
entries are recomputed from their bytes. A log that does not go on from its last checkpoint is not signed: that is an
error with a code, and whoever looks decides.

Steps: 1. the last checkpoint and its signature. 2. the edge, and its root. 3. the last sealed entry is there still.
4. new entries. 5. earlier heads from elsewhere. 6. sign, and keep under compare-and-swap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from readback.canon.frozen import dataclass
from readback.errors import StoreCorruptError
from readback.log.checkpoint import Checkpoint, SignedCheckpoint, open_checkpoint, sign_checkpoint
from readback.log.fault import (
    LogCutError,
    LogForkError,
    LogFormatError,
    LogOriginError,
    LogProofError,
    LogRewrittenError,
)
from readback.log.frontier import FetchTile, Frontier, HashTile, StoredTiles
from readback.log.note import Check, VerifierKey
from readback.log.proof import check_consistency, consistency_proof
from readback.log.tiles import WIDTH
from readback.log.tree import HASH_BYTES, Read, leaf_hash
from readback.ports.signer import LogSigner
from readback.ports.storage.log import SealedHead, SealedLog
from readback.ports.storage.store import LedgerStore

# Place: every entry that can have its place in the log gets it, before somebody looks at the log.

PLACES_AT_ONCE_MAX: Final = 4_096


def place_all(store: LedgerStore) -> int:
    """Gives places until nothing is left that can have one; how many it gave. Raises StoreError."""
    total = 0
    while store.places_later and (taken := store.take_places(PLACES_AT_ONCE_MAX)):
        total += taken
    return total


# Whose signatures of a log count. Handed to whoever signs, checks, proves or audits one.


@dataclass(frozen=True, slots=True)
class Authority:
    """By whom a log is signed, and how signatures are checked."""

    key: VerifierKey
    check: Check
    former: tuple[VerifierKey, ...] = ()
    """Keys that signed before this one: what they signed counts still."""
    stated: tuple[Checkpoint, ...] = ()
    """Up to where each key of before signed, as both keys said at its rotation. The log has to go on from these, so
    that whoever has an old key cannot show another history of the sizes that it signed.
    """

    def fork(self, found: Checkpoint) -> str:
        """How a checkpoint contradicts what was stated of as many entries, as a sentence; "" where it does not."""
        if all(each.size != found.size or each.root == found.root for each in self.stated):
            return ""
        return f"Both keys of a rotation stated another root of {found.size} entries: the log was shown in two forms."

    def doubt(self, found: Checkpoint) -> str:
        """Why a checkpoint cannot be compared with what was stated, as a sentence; "" where it can, or nothing was."""
        sizes = [each.size for each in self.stated]
        if not sizes or found.size in sizes or found.size > max(sizes):
            return ""
        return (
            f"The log's key was followed by another one at {max(sizes)} entries, and this head covers {found.size}:"
            " whoever has the old key could have signed another history of so many"
        )

    @property
    def keys(self) -> tuple[VerifierKey, ...]:
        """All whose signatures count."""
        return (self.key, *self.former)


ENTRIES_A_CHECKPOINT_MAX: Final = 16_384
"""What one sealing holds in memory at most; a longer backlog is sealed by several checkpoints."""
PIECE_ENTRIES: Final = 1_024
RACES_MAX: Final = 16
"""So often somebody else may have sealed meanwhile before this gives way to them."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """The log as far as it is sealed: what was signed last, and the edge that goes on from it."""

    signed: SignedCheckpoint | None
    edge: Frontier

    @property
    def size(self) -> int:
        return self.edge.size


def opened(head: SealedHead, authority: Authority) -> SignedCheckpoint:
    """A stored checkpoint with its signature checked. Raises LogFormatError, LogSignatureError."""
    found = open_checkpoint(head.note, authority.keys, authority.check)  # 1
    if found.checkpoint.size != head.size:
        said = f"The checkpoint that is kept for {head.size} entries is of {found.checkpoint.size}."
        raise LogFormatError(said)
    return found


def sealed(log: SealedLog, authority: Authority) -> Sealed:
    """What is sealed, checked. Raises LogError where tiles, checkpoint and signature do not agree, or the log was cut.

    It costs a few tiles, however long the log is.
    """
    head = log.checkpoint()
    if head is None:
        return Sealed(None, Frontier())
    signed = opened(head, authority)
    edge = Frontier.at(head.size, log.tile)  # 2
    if edge.root() != signed.checkpoint.root:
        said = f"The tiles of {head.size} entries have another root than the checkpoint that was signed over them."
        raise LogRewrittenError(said)
    _is_there(log, head.size)  # 3
    return Sealed(signed, edge)


def _is_there(log: SealedLog, size: int) -> None:
    """The last entry that was sealed, by its bytes: what was cut off, or cut and written anew, is not gone on from."""
    found = log.entries(size - 1, 1)
    if not found or found[0][0] != size:
        raise LogCutError(
            f"A checkpoint covers {size} entries, and the last of them is not there: its end was cut off."
        )
    tile = log.tile(0, (size - 1) // WIDTH) or b""
    at = (size - 1) % WIDTH * HASH_BYTES
    if leaf_hash(found[0][1]) != tile[at : at + HASH_BYTES]:
        raise LogRewrittenError(f"Entry {size} is not the one that was sealed: the log was written anew.")


def seal(
    log: SealedLog, signer: LogSigner, authority: Authority, at_us: int, before: Sequence[Checkpoint] = ()
) -> SignedCheckpoint | None:
    """One more checkpoint over what is new, at most so many entries; the last one where nothing is; None of nothing.

    `before`: heads that were kept elsewhere, which the log has to go on from as well. Raises StoreCorruptError for an
    entry that is missing or damaged, LogError where the log does not go on: then nothing was signed.
    """
    last = sealed(log, authority)
    for _ in range(RACES_MAX):
        after, known = last.size, last.signed.checkpoint if last.signed is not None else None
        stated = [each for each in authority.stated if each.size >= after]
        others = [each for each in (*before, *stated) if each != known]  # from what was signed last it goes on anyway
        # No head is signed before the log has been compared with all of them, however long its backlog is.
        most = max((ENTRIES_A_CHECKPOINT_MAX, *(each.size - after for each in others)))
        leaves = new_leaves(log, after, most)
        last.edge.grow(leaves)
        tiles = last.edge.changed()
        found = Checkpoint(signer.name, last.size, last.edge.root())
        goes_on_from(others, found, overlaid(log, tiles))  # 5
        if not leaves:
            return last.signed
        signed = sign_checkpoint(found, authority.key, signer.sign)  # 6
        if log.seal(after, tiles, SealedHead(found.size, at_us, signed.to_bytes())):
            return signed
        last = sealed(log, authority)  # somebody else sealed meanwhile
    return last.signed


def seal_all(
    log: SealedLog, signer: LogSigner, authority: Authority, at_us: int, before: Sequence[Checkpoint] = ()
) -> SignedCheckpoint:
    """Until nothing is left that was there when it began. A log without entries is signed too, and not kept."""
    signed = seal(log, signer, authority, at_us, before)
    if signed is None:
        empty = Checkpoint(signer.name, 0, Frontier().root())
        goes_on_from(before, empty, log.tile)
        return sign_checkpoint(empty, authority.key, signer.sign)
    while log.entries(signed.checkpoint.size, 1):
        size = signed.checkpoint.size
        signed = seal(log, signer, authority, at_us, before) or signed
        if signed.checkpoint.size - size < ENTRIES_A_CHECKPOINT_MAX:
            break  # what came meanwhile is the next one's
    return signed


def new_leaves(log: SealedLog, after: int, most: int) -> list[bytes]:
    """The leaf hashes of the next entries, some `most` of them, each recomputed. Raises StoreCorruptError."""  # 4
    leaves: list[bytes] = []
    while len(leaves) < most and (piece := log.entries(after + len(leaves), PIECE_ENTRIES)):
        for expected, (seq, envelope, leaf) in enumerate(piece, after + len(leaves) + 1):
            if seq != expected:
                raise StoreCorruptError(f"Entry {expected} of the ledger is missing; entry {seq} stands there.")
            if leaf_hash(envelope) != leaf:
                raise StoreCorruptError(f"Entry {seq} has other bytes than its leaf hash says.")
            leaves.append(leaf)
    return leaves


def goes_on_from(before: Sequence[Checkpoint], now: Checkpoint, fetch: FetchTile) -> None:
    """Raises LogOriginError, LogCutError, LogForkError, LogRewrittenError where the log does not begin with each."""
    read = StoredTiles(now.size, fetch).read
    for each in before:
        if each.origin != now.origin:
            said = f"The earlier checkpoint is of the log {each.origin!r}, and not of {now.origin!r}."
            raise LogOriginError(said)
        if each.size > now.size:
            said = f"The ledger has {now.size} entries, and a checkpoint covers {each.size}: its end was cut off."
            raise LogCutError(said)
        if each.size == now.size and each.root != now.root:
            raise LogForkError(f"There are two trees of {each.size} leaves: the log has forked.")
        if each.size:
            _begins_with(each, now, read)


def _begins_with(each: Checkpoint, now: Checkpoint, read: Read) -> None:
    proof = consistency_proof(each.size, now.size, read)
    try:
        check_consistency(each.size, now.size, each.root, now.root, proof)
    except LogProofError as error:
        said = f"The log is not shown to begin with the {each.size} entries of the earlier checkpoint: it has forked."
        raise LogRewrittenError(said) from error


def overlaid(log: SealedLog, tiles: Sequence[HashTile]) -> FetchTile:
    """The stored tiles with newer ones over them."""
    newer = {(tile.level, tile.place): tile.hashes for tile in tiles}

    def fetch(level: int, place: int) -> bytes | None:
        found = newer.get((level, place))
        return found if found is not None else log.tile(level, place)

    return fetch
