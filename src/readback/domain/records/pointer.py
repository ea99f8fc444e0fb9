"""Pointers from a record to its basis: evidence by its digest, or a ledger entry by its leaf hash.

    evidence:sha256:<64 hex digits>                     stored evidence
    entry:<action id>:<version>:sha256:<64 hex digits>  one entry of an action

Resolved by `readback ledger evidence`. A pointer names its content: the resolved bytes must have the named hash.
"""

from __future__ import annotations

import re
from typing import Final

from readback.canon.frozen import dataclass
from readback.errors import UsageError

_EVIDENCE: Final = re.compile("evidence:sha256:([0-9a-f]{64})")
_ENTRY: Final = re.compile("entry:(.{1,256}):([1-9][0-9]{0,8}):sha256:([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class EvidencePointer:
    """Bytes by their SHA-256, within the tenant of the record."""

    digest: str

    def __str__(self) -> str:
        return f"evidence:sha256:{self.digest}"


@dataclass(frozen=True, slots=True)
class EntryPointer:
    """The entry of this version of an action, by its leaf hash (RFC 6962)."""

    action_id: str
    version: int
    leaf: str

    def __str__(self) -> str:
        return f"entry:{self.action_id}:{self.version}:sha256:{self.leaf}"


def parse_pointer(text: str) -> EvidencePointer | EntryPointer:
    """Parse a pointer. Raises UsageError for any other text."""
    if found := _EVIDENCE.fullmatch(text):
        return EvidencePointer(found[1])
    if found := _ENTRY.fullmatch(text):
        return EntryPointer(found[1], int(found[2]), found[3])
    raise UsageError(
        f"{text!r:.120} is not a pointer.",
        remedy="Pass a pointer from a record: evidence:sha256:HEX, or entry:ID:VERSION:sha256:HEX.",
    )
