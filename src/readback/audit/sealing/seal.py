"""Seal: extend the log's tree from the last checkpoint, sign the new head, and store the head with its tiles.

Called by the sealer, and by commands for signing or proving. Sealed entries are not read again. The edge of the tree
comes from the tiles, and must lead to the root of the last checkpoint, signed by the log's key. New entries are
recomputed from their bytes. A log that does not extend its last checkpoint is not signed. The error has a code, and an
operator decides.

Steps:
1. The last checkpoint and its signature.
2. The edge and its root.
3. Presence of the last sealed entry.
4. New entries.
5. Earlier heads from elsewhere.
6. Sign, and store under compare-and-swap.
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

# Sequencing: every eligible entry gets its sequence number before the log is read.

PLACES_AT_ONCE_MAX: Final = 4_096


def place_all(store: LedgerStore) -> int:
    """Assign sequence numbers until no entry is eligible. Return the number of assignments. Raises StoreError."""
    total = 0
    while store.sequences_asynchronously and (taken := store.assign_sequence_numbers(PLACES_AT_ONCE_MAX)):
        total += taken
    return total


# The accepted keys of a log, for signing, checking, proving and auditing.


@dataclass(frozen=True, slots=True)
class Authority:
    """The keys accepted for a log, and the signature check."""

    key: VerifierKey
    check: Check
    former: tuple[VerifierKey, ...] = ()
    """Earlier keys. Their signatures still count."""
    stated: tuple[Checkpoint, ...] = ()
    """The end of each former key's span, as stated at its rotation by both keys. The log must extend these heads, so a
    holder of an old key cannot show another history of the sizes signed by the key.
    """

    def fork(self, found: Checkpoint) -> str:
        """Return a sentence on a contradiction between a checkpoint and a stated head of equal size. "" without
        contradiction.
        """
        if all(each.size != found.size or each.root == found.root for each in self.stated):
            return ""
        return f"Both keys of a rotation stated another root of {found.size} entries: the log was shown in two forms."

    def doubt(self, found: Checkpoint) -> str:
        """Return a sentence on why a checkpoint cannot be compared with stated heads. "" if comparable, or without
        stated heads.
        """
        sizes = [each.size for each in self.stated]
        if not sizes or found.size in sizes or found.size > max(sizes):
            return ""
        return (
            f"The log's key was rotated at {max(sizes)} entries, and this head covers {found.size}:"
            " a holder of the old key could have signed another history of this size"
        )

    @property
    def keys(self) -> tuple[VerifierKey, ...]:
        """All accepted keys."""
        return (self.key, *self.former)


ENTRIES_A_CHECKPOINT_MAX: Final = 16_384
"""Most entries in memory for one sealing. A longer backlog is sealed by several checkpoints."""
PIECE_ENTRIES: Final = 1_024
RACES_MAX: Final = 16
"""Lost races against other sealers before giving way."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """The sealed part of the log: the last signed checkpoint, and the edge to extend."""

    signed: SignedCheckpoint | None
    edge: Frontier

    @property
    def size(self) -> int:
        return self.edge.size


def opened(head: SealedHead, authority: Authority) -> SignedCheckpoint:
    """Return a stored checkpoint with verified signature. Raises LogFormatError, LogSignatureError."""
    found = open_checkpoint(head.note, authority.keys, authority.check)  # 1
    if found.checkpoint.size != head.size:
        said = f"The checkpoint stored for {head.size} entries is of {found.checkpoint.size}."
        raise LogFormatError(said)
    return found


def sealed(log: SealedLog, authority: Authority) -> Sealed:
    """Return the verified sealed part. Raises LogError if tiles, checkpoint and signature disagree, or if the log was
    cut.

    The cost is a few tiles for any length of the log.
    """
    head = log.checkpoint()
    if head is None:
        return Sealed(None, Frontier())
    signed = opened(head, authority)
    edge = Frontier.at(head.size, log.tile)  # 2
    if edge.root() != signed.checkpoint.root:
        said = f"The tiles of {head.size} entries do not lead to the root of their signed checkpoint."
        raise LogRewrittenError(said)
    _is_there(log, head.size)  # 3
    return Sealed(signed, edge)


def _is_there(log: SealedLog, size: int) -> None:
    """Check the bytes of the last sealed entry. A log that was cut, or cut and rewritten, is not extended."""
    found = log.entries(size - 1, 1)
    if not found or found[0][0] != size:
        raise LogCutError(
            f"A checkpoint covers {size} entries, and the last entry is missing: the end of the log was cut off."
        )
    tile = log.tile(0, (size - 1) // WIDTH) or b""
    at = (size - 1) % WIDTH * HASH_BYTES
    if leaf_hash(found[0][1]) != tile[at : at + HASH_BYTES]:
        raise LogRewrittenError(f"Entry {size} differs from the sealed entry: the log was rewritten.")


def seal(
    log: SealedLog, signer: LogSigner, authority: Authority, at_us: int, before: Sequence[Checkpoint] = ()
) -> SignedCheckpoint | None:
    """Sign one checkpoint over new entries, up to a maximum. Return the last checkpoint without new entries; None for
    none.

    `before`: external heads the log must extend too. Raises StoreCorruptError for a missing or damaged entry, and
    LogError if the log is inconsistent. In both cases nothing was signed.
    """
    last = sealed(log, authority)
    for _ in range(RACES_MAX):
        after, known = last.size, last.signed.checkpoint if last.signed is not None else None
        stated = [each for each in authority.stated if each.size >= after]
        others = [each for each in (*before, *stated) if each != known]  # the edge already extends the last signed head
        # No head is signed before the comparison with all of them, for any length of the backlog.
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
        last = sealed(log, authority)  # another process sealed meanwhile
    return last.signed


def seal_all(
    log: SealedLog, signer: LogSigner, authority: Authority, at_us: int, before: Sequence[Checkpoint] = ()
) -> SignedCheckpoint:
    """Seal all entries present at the start. An empty log is signed too, but not stored."""
    signed = seal(log, signer, authority, at_us, before)
    if signed is None:
        empty = Checkpoint(signer.name, 0, Frontier().root())
        goes_on_from(before, empty, log.tile)
        return sign_checkpoint(empty, authority.key, signer.sign)
    while log.entries(signed.checkpoint.size, 1):
        size = signed.checkpoint.size
        signed = seal(log, signer, authority, at_us, before) or signed
        if signed.checkpoint.size - size < ENTRIES_A_CHECKPOINT_MAX:
            break  # newer entries belong to the next checkpoint
    return signed


def new_leaves(log: SealedLog, after: int, most: int) -> list[bytes]:
    """Return the leaf hashes of the next entries, up to `most`, each recomputed. Raises StoreCorruptError."""
    leaves: list[bytes] = []
    while len(leaves) < most and (piece := log.entries(after + len(leaves), PIECE_ENTRIES)):
        for expected, (seq, envelope, leaf) in enumerate(piece, after + len(leaves) + 1):
            if seq != expected:
                raise StoreCorruptError(f"Entry {expected} of the ledger is missing; entry {seq} stands there.")
            if leaf_hash(envelope) != leaf:
                raise StoreCorruptError(f"Entry {seq} does not match its leaf hash.")
            leaves.append(leaf)
    return leaves


def goes_on_from(before: Sequence[Checkpoint], now: Checkpoint, fetch: FetchTile) -> None:
    """Raise LogOriginError, LogCutError, LogForkError or LogRewrittenError unless the log extends each head."""
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
        said = f"The log does not begin with the {each.size} entries of the earlier checkpoint: it has forked."
        raise LogRewrittenError(said) from error


def overlaid(log: SealedLog, tiles: Sequence[HashTile]) -> FetchTile:
    """Return the stored tiles, overlaid by newer tiles."""
    newer = {(tile.level, tile.place): tile.hashes for tile in tiles}

    def fetch(level: int, place: int) -> bytes | None:
        found = newer.get((level, place))
        return found if found is not None else log.tile(level, place)

    return fetch
