"""Anchor: the last checkpoint is handed to a place outside, if the log goes on from what is kept there; or compared.

Called by the sealer's thread and by commands. What a place shows counts only with the log's own signature. A place that
holds another history is never overwritten: that is the error by which a rewritten log is found.
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
    """What an anchor was found to hold: the size of its checkpoint, 0 for none, and the checkpoint if it is known.

    `took`: the size of the last checkpoint that the log says it took. One that shows less was set back.
    """

    name: str
    size: int
    checkpoint: Checkpoint | None = None
    took: int = 0


def hand_over(log: SealedLog, anchor: Anchor, authority: Authority, at_us: int) -> AnchorMark | None:
    """Gives it the last checkpoint, and remembers that. None where nothing is sealed yet.

    Raises AnchorError where it cannot be given, LogError where the log does not go on from what is kept there.
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
    """Whether these lines are by a key that has not signed the note yet. A witness that is asked again signs again, at
    another time: its first word is kept, since a note has room for so many signatures and no more.
    """
    there = {(each.name, each.key_id) for each in parse_note(note).signatures}
    return any((each.name, each.key_id) not in there for each in parse_note(note + more).signatures)


def seen(anchor: Anchor, authority: Authority) -> Checkpoint | None:
    """What the anchor keeps, its signature checked. Raises AnchorError, LogFormatError, LogSignatureError."""
    note = anchor.last()
    return None if note is None else open_checkpoint(note, authority.keys, authority.check).checkpoint


def compare(log: SealedLog, anchor: Anchor, authority: Authority) -> Compared:
    """What the anchor holds. One that shows nothing is asked whether our last checkpoint goes on from what it saw.

    Raises AnchorError, LogError. A log of which nothing is sealed shows such a one nothing, and is not called compared:
    whoever cuts a log may take its checkpoints along.
    """
    if anchor.shows:
        took = max((mark.size for mark in log.anchors() if mark.name == anchor.name), default=0)  # asked first
        kept = seen(anchor, authority)
        return Compared(anchor.name, 0 if kept is None else kept.size, kept, took)
    head = log.checkpoint()
    if head is None:
        raise AnchorRefusedError(
            f"The anchor {anchor.name} cannot be asked about a log of which nothing is sealed.",
            remedy="If it was sealed before, its checkpoints were taken away: compare the file with a backup.",
        )
    anchor.take(head.note, head.size, _proof(log, head.size))
    return Compared(anchor.name, head.size, opened(head, authority).checkpoint)


def _proof(log: SealedLog, size: int) -> Proof:
    def proof(old: int) -> list[bytes]:
        return consistency_proof(old, size, StoredTiles(size, log.tile).read) if old else []

    return proof
