"""The ledger as one Merkle tree: grown in one reading, its head signed, one entry of it proved, the whole exported.

Called by the commands that hand evidence to others. Everything that is signed or handed out is recomputed from the
stored bytes first, and every proof is checked before it leaves. It changes nothing in the store, and holds no more than
one proof, or one tile of each level.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from readback.audit.checks.ledger import nobody
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
    """The verifier key of a log's own key."""
    return VerifierKey(signer.name, signer.raw_key)


def entries(store: LedgerStore, size: int | None = None, after: int = 0) -> Iterator[bytes]:
    """The entries behind the first `after` of them in order, each recomputed. `size`: only the first so many of all.

    Raises StoreCorruptError at the first that is missing, or has other bytes than its leaf hash says: nothing that is
    wrong may be signed, proved or exported as if it were sound.
    """
    if size is not None and size <= after:
        return
    for expected, stored in enumerate(store.scan(after), after + 1):
        if stored.seq != expected:
            raise StoreCorruptError(f"Entry {expected} of the ledger is missing; entry {stored.seq} stands there.")
        if leaf_hash(stored.envelope) != stored.leaf:
            raise StoreCorruptError(f"Entry {stored.seq} has other bytes than its leaf hash says.")
        yield stored.envelope
        if expected == size:
            return


def grow(
    store: LedgerStore,
    size: int | None = None,
    keep: Collection[Node] = (),
    progress: Progress = nobody,
    known: GrowingTree | None = None,
) -> GrowingTree:
    """The tree over the entries, or over the first `size`. `known`: the tree to go on from, which keeps its own nodes.

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
    store: LedgerStore, signer: LogSigner, before: Iterable[Checkpoint] = (), progress: Progress = nobody
) -> SignedCheckpoint:
    """A signed checkpoint of the ledger as it is. `before`: heads that were seen earlier, and that it must go on from.

    Raises StoreCorruptError, and LogProofError where the ledger does not go on from one of them: nothing is signed.
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
    """The leaf that an entry is. Raises LogUnplacedError for one that has no place in the log yet."""
    if not entry.seq:
        raise LogUnplacedError(f"Entry {entry.version} of action {entry.action_id} has no place in the log yet.")
    return entry.seq - 1


def prove(entry: StoredEvent, signed: SignedCheckpoint, read: Read, authority: Authority) -> EntryProof:
    """That the entry is in the log of this checkpoint. Raises LogProofError where it is not."""
    found = signed.checkpoint
    index = index_of(entry)
    if index >= found.size:
        raise LogProofError(f"The checkpoint covers {found.size} entries, and this is entry {entry.seq}.")
    path = inclusion_proof(index, found.size, read)
    proof = EntryProof(index, tuple(path), signed.to_bytes(), entry.envelope)
    covering(proof, authority)
    return proof


def covering(proof: EntryProof, authority: Authority) -> Checkpoint:
    """The checkpoint that covers the entry of a proof. Raises LogError where it shows nothing: LogForkError where as
    many entries were stated to have another root, as the key was rotated.
    """
    found = proof.check(authority.keys, authority.check)
    fork = authority.fork(found)
    if fork:
        raise LogForkError(fork)
    return found


def prove_by_reading(
    store: LedgerStore, entry: StoredEvent, authority: Authority, signed: SignedCheckpoint, progress: Progress = nobody
) -> EntryProof:
    """The proof against a checkpoint that was kept elsewhere, and that covers entries which are not sealed here.

    The stored tiles bring the sealed part, and only the entries behind it are read. Nothing is trusted: the proof has
    to lead to the root of the kept checkpoint.
    """
    keep, found, head = path_nodes(index_of(entry)), signed.checkpoint, store.checkpoint()
    known = None
    if head is not None and head.size <= found.size:
        known = GrowingTree.going_on(head.size, StoredTiles(head.size, store.tile).read, keep)
    return prove(entry, signed, grow(store, found.size, keep, progress, known).read, authority)


def prove_now(
    store: LedgerStore, entry: StoredEvent, authority: Authority, signer: LogSigner, progress: Progress = nobody
) -> EntryProof:
    """The proof against the last stored checkpoint; where that does not cover the entry, against one signed for it.

    The second reads the entries behind the last checkpoint, and no others. An unsealed log is read from its beginning.

    Args:
        store: The ledger. Nothing in it is changed: the new checkpoint is in the proof alone.
        entry: The entry to prove.
        authority: Whose signatures count.
        signer: The log's own key.
        progress: Called with the number of entries that the tree has.

    Raises:
        StoreCorruptError: An entry behind the last checkpoint is missing or damaged.
        LogError: Tiles, checkpoint and signature do not agree, or the log does not go on from a stated head.
    """
    index, last = index_of(entry), sealed(store, authority)
    read = StoredTiles(last.size, store.tile).read
    if last.signed is not None and index < last.size:
        return prove(entry, last.signed, read, authority)
    stated = [each for each in authority.stated if each.size > last.size]  # from the others it went on as it was sealed
    keep = frozenset(node for leaf in (index, *(each.size - 1 for each in stated)) for node in path_nodes(leaf))
    tree = grow(store, None, keep, progress, GrowingTree.going_on(last.size, read, keep))
    for each in stated:
        _goes_on(each, tree, signer.name)
    checkpoint = Checkpoint(signer.name, tree.size, tree.root())
    return prove(entry, sign_checkpoint(checkpoint, authority.key, signer.sign), tree.read, authority)


def prove_from_tiles(
    fetch: Callable[[str], bytes], entry: StoredEvent, authority: Authority, signed: SignedCheckpoint
) -> EntryProof:
    """The proof out of an exported log: a few files are read, however many entries there are."""
    reader = TileReader(signed.checkpoint.size, fetch)
    return prove(entry, signed, reader.read, authority)


def export(store: LedgerStore, signer: LogSigner, tiles: Tiles, progress: Progress = nobody) -> SignedCheckpoint:
    """The whole log as files; the checkpoint is the last of them, so that what was broken off is seen to be.

    Raises StoreError where something cannot be written, StoreCorruptError for what may not be exported as sound.
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
