"""Whose signatures of a log count. Handed to whoever signs, checks, proves or audits one."""

from __future__ import annotations

from readback.canon.frozen import dataclass
from readback.ledger.checkpoint import Checkpoint
from readback.ledger.note import Check, VerifierKey


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

    @property
    def keys(self) -> tuple[VerifierKey, ...]:
        """All whose signatures count."""
        return (self.key, *self.former)
