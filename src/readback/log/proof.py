"""Proofs about a log: a leaf is included, and a larger log begins with a smaller log.

Built from the hashes of perfect subtrees, and verified from the proof alone by RFC 9162, 2.1.3.2 and 2.1.4.2. A check
returns nothing or raises, so no caller can overlook a negative result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from readback.canon.frozen import dataclass
from readback.log.checkpoint import Checkpoint, open_checkpoint
from readback.log.fault import LogFormatError, LogProofError
from readback.log.note import NOTE_MAX_BYTES, Check, VerifierKey, base64_bytes, base64_text, hash_bytes, number
from readback.log.tree import HASH_BYTES, SIZE_MAX, Read, leaf_hash, node_hash, subtree_hash


def inclusion_proof(index: int, size: int, read: Read) -> list[bytes]:
    """Return the audit path of leaf `index` in the tree of `size` leaves (RFC 9162, 2.1.3.1). Raises LogProofError."""
    if not 0 <= index < size <= SIZE_MAX:
        raise LogProofError(f"There is no leaf {index} in a tree of {size} leaves.")
    beside: list[tuple[int, int]] = []
    begin, end = 0, size
    while end - begin > 1:
        middle = begin + _split(end - begin)
        if index < middle:
            beside.append((middle, end))
            end = middle
        else:
            beside.append((begin, middle))
            begin = middle
    return [subtree_hash(first, last, read) for first, last in reversed(beside)]


def consistency_proof(first: int, second: int, read: Read) -> list[bytes]:
    """Prove: the tree of `second` leaves begins with the tree of `first` leaves (RFC 9162, 2.1.4.1). Raises
    LogProofError.
    """
    _check_sizes(first, second)
    if first == second:
        return []
    beside: list[tuple[int, int]] = []
    begin, end, whole = 0, second, True
    while end != first:
        middle = begin + _split(end - begin)
        if first <= middle:
            beside.append((middle, end))
            end = middle
        else:
            beside.append((begin, middle))
            begin, whole = middle, False
    if not whole:
        beside.append((begin, end))
    return [subtree_hash(left, right, read) for left, right in reversed(beside)]


def root_from_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes:
    """Return the root at the end of the path. Raises LogProofError if the path has the wrong length."""
    if not 0 <= index < size <= SIZE_MAX:  # 1
        raise LogProofError(f"There is no leaf {index} in a tree of {size} leaves.")
    _check_hashes([leaf, *path])
    place, last, root = index, size - 1, leaf  # 2, 3
    for beside in path:  # 4
        if last == 0:
            raise LogProofError("The inclusion proof is too long.")
        if place & 1 or place == last:
            root = node_hash(beside, root)
            while not place & 1 and place:
                place >>= 1
                last >>= 1
        else:
            root = node_hash(root, beside)
        place >>= 1
        last >>= 1
    if last:  # 5
        raise LogProofError("The inclusion proof is too short.")
    return root


def check_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> None:
    """Verify by RFC 9162, 2.1.3.2. Raises LogProofError unless the path shows the leaf at `index`."""
    if root_from_inclusion(leaf, index, size, path) != root:
        raise LogProofError(f"The proof does not lead from leaf {index} to the root of {size} leaves.")


def check_consistency(first: int, second: int, first_root: bytes, second_root: bytes, path: Sequence[bytes]) -> None:
    """Verify by RFC 9162, 2.1.4.2. Raises LogProofError unless the first tree is a prefix of the second."""
    _check_sizes(first, second)
    if first == second:
        if path or first_root != second_root:
            raise LogProofError(f"There are two trees of {first} leaves: the log has forked.")
        return
    _check_hashes([first_root, second_root, *path])
    rest = list(path)
    if not rest:  # 1
        raise LogProofError("The consistency proof is empty.")
    if first & (first - 1) == 0:  # 2
        rest.insert(0, first_root)
    place, last = first - 1, second - 1  # 3
    while place & 1:  # 4
        place >>= 1
        last >>= 1
    old = new = rest[0]  # 5
    for beside in rest[1:]:  # 6
        if last == 0:
            raise LogProofError("The consistency proof is too long.")
        if place & 1 or place == last:
            old, new = node_hash(beside, old), node_hash(beside, new)
            while not place & 1 and place:
                place >>= 1
                last >>= 1
        else:
            new = node_hash(new, beside)
        place >>= 1
        last >>= 1
    if last or (old, new) != (first_root, second_root):  # 7
        raise LogProofError(f"The tree of {second} leaves is not shown to begin with that of {first}.")


def _split(size: int) -> int:
    """Return the largest power of two below `size`."""
    return 1 << ((size - 1).bit_length() - 1)


def _check_sizes(first: int, second: int) -> None:
    """Refuse an empty first tree: every log begins with the empty log, so such a proof shows nothing."""
    if not 0 < first <= second <= SIZE_MAX:
        raise LogProofError(f"A tree of {second} leaves cannot be shown to begin with one of {first}.")


def _check_hashes(hashes: Sequence[bytes]) -> None:
    if any(len(each) != HASH_BYTES for each in hashes):
        raise LogProofError(f"A hash of a proof does not have {HASH_BYTES} bytes.")


# The proof of one entry in one file (C2SP tlog-proof): index, path to the root, and signed checkpoint.

HEADER: Final = "c2sp.org/tlog-proof@v1"
EXTRA: Final = "extra "
INDEX: Final = "index "
PROOF_MAX_BYTES: Final = NOTE_MAX_BYTES + 131_072
PATH_MAX: Final = SIZE_MAX.bit_length()


@dataclass(frozen=True, slots=True)
class EntryProof:
    """The content of a proof file. Untrusted until `check` has returned."""

    index: int
    path: tuple[bytes, ...]
    checkpoint: bytes
    """The note, byte for byte as signed."""
    entry: bytes
    """The bytes of the entry. Empty if the file has none and the caller supplies the entry."""

    def to_bytes(self) -> bytes:
        lines = [HEADER, *([EXTRA + base64_text(self.entry)] if self.entry else []), f"{INDEX}{self.index}"]
        lines += [base64_text(each) for each in self.path]
        return "\n".join(lines).encode() + b"\n\n" + self.checkpoint

    def check(self, keys: Sequence[VerifierKey], check: Check, entry: bytes | None = None) -> Checkpoint:
        """Return the checkpoint that covers the entry. Raises LogFormatError, LogSignatureError or LogProofError.

        `entry`: bytes of the entry, to use in place of the bytes in the file.
        """
        signed = open_checkpoint(self.checkpoint, keys, check)
        proved = self.entry if entry is None else entry
        found = signed.checkpoint
        check_inclusion(leaf_hash(proved), self.index, found.size, self.path, found.root)
        return found


def parse_proof(data: bytes) -> EntryProof:
    """Parse a proof file. Raises LogFormatError."""
    if len(data) > PROOF_MAX_BYTES:
        raise LogFormatError(f"The proof has {len(data)} bytes, over {PROOF_MAX_BYTES}.")
    head, blank, checkpoint = data.partition(b"\n\n")
    if not blank or not head.isascii():
        raise LogFormatError("The proof has no blank line before its checkpoint, or is not ASCII above it.")
    lines = head.decode("ascii").split("\n")
    if lines.pop(0) != HEADER:
        raise LogFormatError(f"The proof does not begin with {HEADER}.")
    entry = b""
    if lines and lines[0].startswith(EXTRA):
        entry = base64_bytes(lines.pop(0).removeprefix(EXTRA), "extra data")
        if not entry:
            raise LogFormatError("The proof has an extra line without data.")
    if not lines or not lines[0].startswith(INDEX):
        raise LogFormatError("The proof does not name its entry.")
    index = number(lines.pop(0).removeprefix(INDEX), "index")
    if len(lines) > PATH_MAX:
        raise LogFormatError(f"The proof has more than {PATH_MAX} hashes.")
    return EntryProof(index, tuple(hash_bytes(line, "hash") for line in lines), checkpoint, entry)
