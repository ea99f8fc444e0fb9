"""Whose signatures of a log count. Handed to whoever signs, checks, proves or audits one."""

from __future__ import annotations

from readback.canon.frozen import dataclass
from readback.log.checkpoint import Checkpoint
from readback.log.note import Check, VerifierKey


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
