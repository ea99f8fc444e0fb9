"""Anchor: send the last checkpoint to an outside place, if the log extends the checkpoint there, or compare the two.

Called by the sealer's thread and by commands. A checkpoint from an anchor counts only with the log's own signature. An
anchor with another history is never overwritten: this error reveals a rewritten log.
"""

from __future__ import annotations

from readback.audit.sealing.seal import Authority, goes_on_from, opened
from readback.canon.frozen import dataclass
from readback.errors import AnchorRefusedError
from readback.log.checkpoint import Checkpoint, open_checkpoint
from readback.log.frontier import StoredTiles
from readback.log.note import parse_note
from readback.log.proof import consistency_proof
from readback.ports.anchor import Anchor, Proof
from readback.ports.storage.log import AnchorMark, SealedLog


@dataclass(frozen=True, slots=True)
class Compared:
    """The content of an anchor: the size of its checkpoint, 0 for none, and the checkpoint if known.

    `took`: the size of the last checkpoint accepted by the anchor, by the log's record. An anchor below was reset.
    """

    name: str
    size: int
    checkpoint: Checkpoint | None = None
    took: int = 0


def hand_over(log: SealedLog, anchor: Anchor, authority: Authority, at_us: int) -> AnchorMark | None:
    """Send the last checkpoint to the anchor, and record the delivery. None if nothing is sealed.

    Raises AnchorError for a failed delivery, LogError if the log does not extend the anchor's checkpoint.
    """
    head = log.checkpoint()
    if head is None:
        return None
    signed = opened(head, authority)
    kept = seen(anchor, authority)
    if kept is not None:
        goes_on_from([kept], signed.checkpoint, log.tile)
    if kept is None or kept.size < head.size:
        more = anchor.take(head.note, head.size, _proof(log, head.size))
        if more and _adds(head.note, more):
            log.cosigned(head.size, head.note + more)
    mark = AnchorMark(anchor.name, head.size, at_us, "")
    log.mark(mark)
    return mark


def _adds(note: bytes, more: bytes) -> bool:
    """Return whether these lines hold a key that has not signed the note.

    A witness signs again at each request, with a new time. Only the first signature stays, because a note has a limited
    number of signatures.
    """
    there = {(each.name, each.key_id) for each in parse_note(note).signatures}
    return any((each.name, each.key_id) not in there for each in parse_note(note + more).signatures)


def seen(anchor: Anchor, authority: Authority) -> Checkpoint | None:
    """Return the anchor's checkpoint, verified. Raises AnchorError, LogFormatError, LogSignatureError."""
    note = anchor.last()
    return None if note is None else open_checkpoint(note, authority.keys, authority.check).checkpoint


def compare(log: SealedLog, anchor: Anchor, authority: Authority) -> Compared:
    """Compare the anchor with the log. An anchor without read access checks our last checkpoint against its own.

    Raises AnchorError or LogError. An unsealed log cannot be compared with such an anchor: cutting a log may remove its
    checkpoints too.
    """
    if anchor.shows:
        took = max((mark.size for mark in log.anchors() if mark.name == anchor.name), default=0)  # read this first
        kept = seen(anchor, authority)
        return Compared(anchor.name, 0 if kept is None else kept.size, kept, took)
    head = log.checkpoint()
    if head is None:
        raise AnchorRefusedError(
            f"The anchor {anchor.name} cannot be compared with an unsealed log.",
            remedy="If the log was sealed before, its checkpoints were removed: compare the file with a backup.",
        )
    anchor.take(head.note, head.size, _proof(log, head.size))
    return Compared(anchor.name, head.size, opened(head, authority).checkpoint)


def _proof(log: SealedLog, size: int) -> Proof:
    def proof(old: int) -> list[bytes]:
        return consistency_proof(old, size, StoredTiles(size, log.tile).read) if old else []

    return proof
