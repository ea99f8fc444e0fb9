"""Several logs side by side: their checkpoints are the entries of a signed log of checkpoints.

Called by `readback ledger shards`. An entry leads to its shard's checkpoint, and this checkpoint to the head of the log
of checkpoints. Only this head needs external storage. Adding a checkpoint detects a shard with a shortened or changed
history: each checkpoint must extend the previous checkpoint of its shard. Files in the folder are untrusted: all
entries are hashed again, and must lead to the signed root.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from readback.audit.evidence.attest import covering, index_of, key_of
from readback.audit.evidence.sealed import prove_at
from readback.audit.sealing.seal import Authority, goes_on_from, opened
from readback.canon.frozen import dataclass
from readback.errors import StoreCorruptError
from readback.log.checkpoint import Checkpoint, SignedCheckpoint, open_checkpoint, parse_checkpoint, sign_checkpoint
from readback.log.fault import LogFormatError, LogOriginError, LogProofError, LogRewrittenError
from readback.log.note import NOTE_MAX_BYTES, parse_note
from readback.log.proof import PROOF_MAX_BYTES, EntryProof, inclusion_proof, parse_proof
from readback.log.tiles import BUNDLE_MAX_BYTES, CHECKPOINT, TileWriter, bundle_path, bundles_of, parse_bundle
from readback.log.tree import GrowingTree, leaf_hash, path_nodes
from readback.ports.signer import LogSigner
from readback.ports.storage.log import SealedLog, Tiles
from readback.ports.storage.store import StoredEvent

SHARD_PROOF: Final = b"readback.dev/shard-proof@v1\n"
SHARD_PROOF_MAX_BYTES: Final = 2 * PROOF_MAX_BYTES + 64
_DIGITS_MAX: Final = 7


@dataclass(frozen=True, slots=True)
class Shard:
    """One of the logs, with the keys accepted for its checkpoints."""

    log: SealedLog
    authority: Authority


@dataclass(frozen=True, slots=True)
class CheckpointLog:
    """The verified log of checkpoints. `signed`: its own head, None for a new log. `notes`: its entries."""

    signed: SignedCheckpoint | None
    notes: tuple[bytes, ...]

    def of(self, origin: str) -> list[tuple[int, Checkpoint]]:
        """Yield the checkpoints of one shard in order, with their places from 0."""
        found = ((number, parse_checkpoint(parse_note(note).text)) for number, note in enumerate(self.notes))
        return [(number, each) for number, each in found if each.origin == origin]

    def last(self, origin: str) -> Checkpoint | None:
        """Return the last recorded checkpoint of a shard."""
        found = self.of(origin)
        return found[-1][1] if found else None


NEW: Final = CheckpointLog(None, ())


def read(tiles: Tiles, authority: Authority) -> CheckpointLog:
    """Read the whole log. Raises LogError for a missing file, or for entries that do not lead to the signed root."""
    signed = open_checkpoint(_file(tiles, CHECKPOINT, NOTE_MAX_BYTES), authority.keys, authority.check)
    found, tree, notes = signed.checkpoint, GrowingTree(), list[bytes]()
    for place, width in bundles_of(found.size):
        notes += parse_bundle(_file(tiles, bundle_path(place, width), BUNDLE_MAX_BYTES), width)
    for note in notes:
        tree.append(leaf_hash(note))
    if tree.root() != found.root:
        said = f"The {found.size} checkpoints do not lead to the root {found.origin} signed."
        raise LogRewrittenError(said)
    return CheckpointLog(signed, tuple(notes))


def add(known: CheckpointLog, shards: Sequence[Shard], signer: LogSigner) -> CheckpointLog:
    """Return the log extended by each shard's new checkpoint, with a new head. Without new checkpoints the log is
    unchanged.

    Raises LogError, without adding, if a checkpoint does not extend the last of its shard (cut, rewritten or forked),
    or if two shards have the same name.
    """
    notes, names = list(known.notes), set[str]()
    for shard in shards:
        head = shard.log.checkpoint()
        if head is None:
            continue
        now = opened(head, shard.authority).checkpoint
        if now.origin in names or now.origin == signer.name:
            raise LogOriginError(
                f"Two logs have the name {now.origin!r}; each shard needs a key and a name of its own."
            )
        names.add(now.origin)
        before = known.last(now.origin)
        stated = [each for each in shard.authority.stated if each.size <= now.size]
        goes_on_from([before, *stated] if before is not None else stated, now, shard.log.tile)
        if before != now:
            notes.append(head.note)
    if len(notes) == len(known.notes) and known.signed is not None:
        return known
    tree = GrowingTree()
    for note in notes:
        tree.append(leaf_hash(note))
    signed = sign_checkpoint(Checkpoint(signer.name, tree.size, tree.root()), key_of(signer), signer.sign)
    return CheckpointLog(signed, tuple(notes))


def write(tiles: Tiles, found: CheckpointLog) -> None:
    """Write all files of the log, the head last. Raises StoreError."""
    writer = TileWriter()
    for note in found.notes:
        for path, data in writer.add(note):
            tiles.write(path, data)
    for path, data in writer.finish():
        tiles.write(path, data)
    if found.signed is not None:
        tiles.write(CHECKPOINT, found.signed.to_bytes())


# --- the proof of an entry of a shard ---


@dataclass(frozen=True, slots=True)
class ShardProof:
    """Proof of an entry under its shard's checkpoint, and of this checkpoint under the head of the checkpoint log."""

    entry: EntryProof
    checkpoint: EntryProof

    def to_bytes(self) -> bytes:
        inner = self.entry.to_bytes()
        return SHARD_PROOF + b"%d\n" % len(inner) + inner + self.checkpoint.to_bytes()

    def check(self, shard: Authority, log: Authority) -> tuple[Checkpoint, Checkpoint]:
        """Return the shard's checkpoint and the head above. Raises LogError if either proof fails."""
        found = covering(self.entry, shard)
        if self.checkpoint.entry != self.entry.checkpoint:
            raise LogProofError("The log of checkpoints holds another checkpoint than the entry's proof.")
        return found, self.checkpoint.check(log.keys, log.check)


def prove(known: CheckpointLog, entry: StoredEvent, shard: Shard, authority: Authority) -> ShardProof:
    """Prove an entry by the shard's first recorded checkpoint over the entry. Raises LogError if there is none."""
    if known.signed is None:
        raise LogProofError("The log of checkpoints has no head.")
    index, origin = index_of(entry), shard.authority.key.name
    at, taken = next(((at, each) for at, each in known.of(origin) if each.size > index), (0, None))
    if taken is None:
        raise LogProofError(f"No checkpoint of {origin} that covers entry {entry.seq} was taken yet.")
    note = known.notes[at]
    inner = prove_at(
        shard.log, entry, shard.authority, open_checkpoint(note, shard.authority.keys, shard.authority.check)
    )
    if inner is None:
        raise StoreCorruptError(f"The log {origin} is not sealed as far as its checkpoint of {taken.size} entries.")
    tree = GrowingTree(path_nodes(at))
    for each in known.notes:
        tree.append(leaf_hash(each))
    path = tuple(inclusion_proof(at, tree.size, tree.read))
    outer = EntryProof(at, path, known.signed.to_bytes(), note)
    proof = ShardProof(EntryProof(inner.index, inner.path, note, inner.entry), outer)
    proof.check(shard.authority, authority)
    return proof


def parse_shard_proof(data: bytes) -> ShardProof:
    """Parse a proof file. Raises LogFormatError."""
    if len(data) > SHARD_PROOF_MAX_BYTES or not data.startswith(SHARD_PROOF):
        raise LogFormatError(
            f"This is no proof of an entry of a shard: it does not begin with {SHARD_PROOF.decode()!r}."
        )
    length, line, rest = data.removeprefix(SHARD_PROOF).partition(b"\n")
    if not line or not length.isdigit() or len(length) > _DIGITS_MAX or length != b"%d" % int(length):
        raise LogFormatError("The proof lacks the length of its first part.")
    return ShardProof(parse_proof(rest[: int(length)]), parse_proof(rest[int(length) :]))


def _file(tiles: Tiles, path: str, bytes_max: int) -> bytes:
    found = tiles.read(path, bytes_max)
    if found is None:
        raise LogFormatError(f"The log of checkpoints has no file {path}.")
    return found
