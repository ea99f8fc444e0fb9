"""Checkpoints (C2SP tlog-checkpoint): the size and the root of a log at one moment, as a signed note.

Called to sign a log's head, to export it and to compare it. A signed checkpoint binds every entry up to its size. It
says nothing about later entries.
"""

from __future__ import annotations

from collections.abc import Sequence

from readback.canon.frozen import dataclass
from readback.log.fault import LogFormatError, LogSignatureError
from readback.log.note import Check, Note, Sign, VerifierKey, base64_text, hash_bytes, number, parse_note, sign_note
from readback.log.tree import HASH_BYTES, SIZE_MAX


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The head of a log: `origin` names the log, `size` counts the leaves, `root` is the hash over the leaves."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the note's text. Raises LogFormatError for an origin or size outside the format."""
        lines = (self.origin, str(self.size), base64_text(self.root), *self.extensions)
        if any(not line or "\n" in line for line in lines):
            raise LogFormatError("A line of a checkpoint is empty, or contains a line break.")
        if not 0 <= self.size <= SIZE_MAX or len(self.root) != HASH_BYTES:
            raise LogFormatError("A checkpoint must have a valid size, and a hash as its root.")
        return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """A checkpoint with its signed note. Created only by signing, or by verifying a signature."""

    checkpoint: Checkpoint
    note: Note

    def to_bytes(self) -> bytes:
        return self.note.to_bytes()


def parse_checkpoint(text: str) -> Checkpoint:
    """Parse a note's text. Raises LogFormatError."""
    lines = text.split("\n")
    if len(lines) < 4 or lines.pop() or not all(lines):
        raise LogFormatError("A checkpoint must have at least three lines, all of them not empty.")
    return Checkpoint(lines[0], number(lines[1], "size"), hash_bytes(lines[2], "root"), tuple(lines[3:]))


def sign_checkpoint(checkpoint: Checkpoint, key: VerifierKey, sign: Sign) -> SignedCheckpoint:
    """Sign a checkpoint. Raises LogFormatError unless the key's name equals the origin."""
    if key.name != checkpoint.origin:
        raise LogFormatError("The name of a log's key must equal the log's origin.")
    return SignedCheckpoint(checkpoint, sign_note(checkpoint.text(), key, sign))


def open_checkpoint(data: bytes, keys: Sequence[VerifierKey], check: Check) -> SignedCheckpoint:
    """Return the checkpoint in a note signed by at least one of `keys`, each in the name of its log.

    Raises LogFormatError if `data` is no checkpoint. Raises LogSignatureError if no listed key signed the note, or if
    the signing key belongs to another log.
    """
    note = parse_note(data)
    found = parse_checkpoint(note.text)
    signers = note.signed_by(keys, check)
    if all(key.name != found.origin for key in signers):
        raise LogSignatureError(f"The checkpoint is of the log {found.origin!r}, and another log's key signed it.")
    return SignedCheckpoint(found, note)
