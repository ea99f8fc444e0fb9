"""The ledger as one Merkle tree: built in one pass, with a signed head, proofs of single entries, and a full export.

Called by commands that produce evidence. Data is recomputed from the stored bytes before it is signed or returned, and
every proof is verified first. The store stays unchanged. Memory holds one proof, or one tile of each level.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from readback.audit.checks.ledger import no_progress
from readback.audit.sealing.seal import Authority as Authority
from readback.audit.sealing.seal import sealed
from readback.errors import StoreCorruptError
from readback.log.checkpoint import Checkpoint, SignedCheckpoint, sign_checkpoint
from readback.log.fault import LogForkError, LogProofError, LogUnplacedError
from readback.log.frontier import StoredTiles
from readback.log.note import VerifierKey
from readback.log.proof import EntryProof, check_consistency, consistency_proof, inclusion_proof
from readback.log.tiles import CHECKPOINT, TileReader, TileWriter
from readback.log.tree import GrowingTree, Node, Read, leaf_hash, path_nodes
from readback.ports.signer import LogSigner
from readback.ports.storage.log import Tiles
from readback.ports.storage.store import LedgerStore, StoredEvent

Progress = Callable[[int], None]


def key_of(signer: LogSigner) -> VerifierKey:
    """Return the verifier key of a log's own key."""
    return VerifierKey(signer.name, signer.raw_key)


def entries(store: LedgerStore, size: int | None = None, after: int = 0) -> Iterator[bytes]:
    """Yield the entries behind the first `after` in order, each recomputed. `size`: only the first `size` of all.

    Raises StoreCorruptError at the first missing entry, or at bytes that differ from the leaf hash. Wrong data must
    never be signed, proved or exported as sound.
    """
    if size is not None and size <= after:
        return
    for expected, stored in enumerate(store.scan(after), after + 1):
        if stored.seq != expected:
            raise StoreCorruptError(f"Entry {expected} of the ledger is missing; entry {stored.seq} stands there.")
        if leaf_hash(stored.envelope) != stored.leaf:
            raise StoreCorruptError(f"Entry {stored.seq} does not match its leaf hash.")
        yield stored.envelope
        if expected == size:
            return


def grow(
    store: LedgerStore,
    size: int | None = None,
    keep: Collection[Node] = (),
    progress: Progress = no_progress,
    known: GrowingTree | None = None,
) -> GrowingTree:
    """Build the tree over all entries, or over the first `size`. `known`: a tree to extend, with its own retained
    nodes.

    Raises StoreCorruptError; LogProofError for too few entries.
    """
    tree = GrowingTree(keep) if known is None else known
    for entry in entries(store, size, tree.size):
        tree.append(leaf_hash(entry))
        progress(tree.size)
    if size is not None and tree.size < size:
        raise LogProofError(f"The ledger has {tree.size} entries, and {size} were covered: its end was cut off.")
    return tree


def head(
    store: LedgerStore, signer: LogSigner, before: Iterable[Checkpoint] = (), progress: Progress = no_progress
) -> SignedCheckpoint:
    """Sign a checkpoint of the present ledger. `before`: earlier heads which the ledger must extend.

    Raises StoreCorruptError. Raises LogProofError, without signing, if the ledger does not extend every earlier head.
    """
    earlier = [each for each in before if each.size]
    keep = frozenset(node for each in earlier for node in path_nodes(each.size - 1))
    tree = grow(store, None, keep, progress)
    for each in earlier:
        _goes_on(each, tree, signer.name)
    checkpoint = Checkpoint(signer.name, tree.size, tree.root())
    return sign_checkpoint(checkpoint, key_of(signer), signer.sign)


def _goes_on(earlier: Checkpoint, tree: GrowingTree, origin: str) -> None:
    if earlier.origin != origin:
        raise LogProofError(f"The earlier checkpoint is of the log {earlier.origin!r}, and not of {origin!r}.")
    if earlier.size > tree.size:
        said = f"The ledger has {tree.size} entries, and a checkpoint covers {earlier.size}: its end was cut off."
        raise LogProofError(said)
    proof = consistency_proof(earlier.size, tree.size, tree.read)
    check_consistency(earlier.size, tree.size, earlier.root, tree.root(), proof)


def index_of(entry: StoredEvent) -> int:
    """Return the leaf index of an entry. Raises LogUnplacedError for an entry without a sequence number."""
    if not entry.seq:
        raise LogUnplacedError(
            f"Entry {entry.version} of action {entry.action_id} has no sequence number in the log yet."
        )
    return entry.seq - 1


def prove(entry: StoredEvent, signed: SignedCheckpoint, read: Read, authority: Authority) -> EntryProof:
    """Prove the entry's inclusion in the log of this checkpoint. Raises LogProofError if the log lacks the entry."""
    found = signed.checkpoint
    index = index_of(entry)
    if index >= found.size:
        raise LogProofError(f"The checkpoint covers {found.size} entries, and this is entry {entry.seq}.")
    path = inclusion_proof(index, found.size, read)
    proof = EntryProof(index, tuple(path), signed.to_bytes(), entry.envelope)
    covering(proof, authority)
    return proof


def covering(proof: EntryProof, authority: Authority) -> Checkpoint:
    """Return the checkpoint that covers the entry of a proof.

    Raises LogError if the proof shows nothing. Raises LogForkError if a key rotation stated another root for this size.
    """
    found = proof.check(authority.keys, authority.check)
    fork = authority.fork(found)
    if fork:
        raise LogForkError(fork)
    return found


def prove_by_reading(
    store: LedgerStore,
    entry: StoredEvent,
    authority: Authority,
    signed: SignedCheckpoint,
    progress: Progress = no_progress,
) -> EntryProof:
    """Prove an entry against an external checkpoint, including entries not sealed here.

    Stored tiles supply the sealed part, and only the entries behind the sealed part are read. Nothing is trusted: the
    proof must lead to the root of the external checkpoint.
    """
    keep, found, head = path_nodes(index_of(entry)), signed.checkpoint, store.checkpoint()
    known = None
    if head is not None and head.size <= found.size:
        known = GrowingTree.going_on(head.size, StoredTiles(head.size, store.tile).read, keep)
    return prove(entry, signed, grow(store, found.size, keep, progress, known).read, authority)


def prove_now(
    store: LedgerStore, entry: StoredEvent, authority: Authority, signer: LogSigner, progress: Progress = no_progress
) -> EntryProof:
    """Prove an entry against the last stored checkpoint, or against a new checkpoint if the last does not cover the
    entry.

    A new checkpoint requires only the entries behind the last checkpoint. An unsealed log is read from its beginning.

    Args:
        store: The ledger. Nothing in it changes: the new checkpoint exists only in the proof.
        entry: The entry to prove.
        authority: The keys accepted for the log.
        signer: The log's own key.
        progress: Called with the number of entries in the tree.

    Raises:
        StoreCorruptError: An entry behind the last checkpoint is missing or damaged.
        LogError: Tiles, checkpoint and signature disagree, or the log does not extend a stated head.
    """
    index, last = index_of(entry), sealed(store, authority)
    read = StoredTiles(last.size, store.tile).read
    if last.signed is not None and index < last.size:
        return prove(entry, last.signed, read, authority)
    stated = [each for each in authority.stated if each.size > last.size]  # the sealed log already extends the others
    keep = frozenset(node for leaf in (index, *(each.size - 1 for each in stated)) for node in path_nodes(leaf))
    tree = grow(store, None, keep, progress, GrowingTree.going_on(last.size, read, keep))
    for each in stated:
        _goes_on(each, tree, signer.name)
    checkpoint = Checkpoint(signer.name, tree.size, tree.root())
    return prove(entry, sign_checkpoint(checkpoint, authority.key, signer.sign), tree.read, authority)


def prove_from_tiles(
    fetch: Callable[[str], bytes], entry: StoredEvent, authority: Authority, signed: SignedCheckpoint
) -> EntryProof:
    """Prove an entry from an exported log. Reads a few files for any number of entries."""
    reader = TileReader(signed.checkpoint.size, fetch)
    return prove(entry, signed, reader.read, authority)


def export(store: LedgerStore, signer: LogSigner, tiles: Tiles, progress: Progress = no_progress) -> SignedCheckpoint:
    """Export the whole log as files. The checkpoint comes last, so an interrupted export is recognizable.

    Raises StoreError if a file cannot be written, StoreCorruptError for damaged entries.
    """
    writer = TileWriter()
    for entry in entries(store):
        for path, data in writer.add(entry):
            tiles.write(path, data)
        progress(writer.tree.size)
    for path, data in writer.finish():
        tiles.write(path, data)
    checkpoint = Checkpoint(signer.name, writer.tree.size, writer.tree.root())
    signed = sign_checkpoint(checkpoint, key_of(signer), signer.sign)
    tiles.write(CHECKPOINT, signed.to_bytes())
    return signed
