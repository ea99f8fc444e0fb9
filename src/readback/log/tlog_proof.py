"""The proof of one entry in one file (C2SP tlog-proof): its place, the path to the root, and the signed checkpoint.

Made for whoever asks for the evidence of one action; checked without the log. Our proofs carry the entry itself as
their extra data, which the format leaves unauthenticated: it counts only once the path has led from it to the root.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from readback.canon.frozen import dataclass
from readback.log.checkpoint import Checkpoint, open_checkpoint
from readback.log.coding import base64_bytes, base64_text, hash_bytes, number
from readback.log.fault import LogFormatError
from readback.log.leaf import leaf_hash
from readback.log.note import NOTE_MAX_BYTES, Check, VerifierKey
from readback.log.proof import check_inclusion
from readback.log.tree import SIZE_MAX

HEADER: Final = "c2sp.org/tlog-proof@v1"
EXTRA: Final = "extra "
INDEX: Final = "index "
PROOF_MAX_BYTES: Final = NOTE_MAX_BYTES + 131_072
PATH_MAX: Final = SIZE_MAX.bit_length()


@dataclass(frozen=True, slots=True)
class EntryProof:
    """What such a file says; nothing of it is checked before `check` has returned."""

    index: int
    path: tuple[bytes, ...]
    checkpoint: bytes
    """The note, byte for byte as it was signed."""
    entry: bytes
    """The entry itself; empty where the file has none, and somebody else has to bring it."""

    def to_bytes(self) -> bytes:
        lines = [HEADER, *([EXTRA + base64_text(self.entry)] if self.entry else []), f"{INDEX}{self.index}"]
        lines += [base64_text(each) for each in self.path]
        return "\n".join(lines).encode() + b"\n\n" + self.checkpoint

    def check(self, keys: Sequence[VerifierKey], check: Check, entry: bytes | None = None) -> Checkpoint:
        """The checkpoint that covers the entry. Raises LogFormatError, LogSignatureError, LogProofError.

        `entry`: the entry's bytes, where the file is not to be asked for them.
        """
        signed = open_checkpoint(self.checkpoint, keys, check)
        proved = self.entry if entry is None else entry
        found = signed.checkpoint
        check_inclusion(leaf_hash(proved), self.index, found.size, self.path, found.root)
        return found


def parse_proof(data: bytes) -> EntryProof:
    """Reads such a file. Raises LogFormatError."""
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
            raise LogFormatError("The proof has a line of extra data without any.")
    if not lines or not lines[0].startswith(INDEX):
        raise LogFormatError("The proof does not say which entry it proves.")
    index = number(lines.pop(0).removeprefix(INDEX), "index")
    if len(lines) > PATH_MAX:
        raise LogFormatError(f"The proof has more than {PATH_MAX} hashes.")
    return EntryProof(index, tuple(hash_bytes(line, "hash") for line in lines), checkpoint, entry)
