"""The counted part of a ledger entry, read without the rest of the envelope.

Called by `feedback.fold` for every entry of a ledger. An envelope holds about forty values. Counting needs a third, and
the reader skips the rest. A million entries take seconds.
"""

from __future__ import annotations

from typing import Final

from readback.canon.envelopes import PartialReader
from readback.canon.fault import MalformedJsonError
from readback.canon.frozen import dataclass
from readback.errors import StoreCorruptError
from readback.ports.storage.store import StoredEvent


@dataclass(frozen=True, slots=True)
class Context:
    """The counted part of a proposal's context. `reverses`: the stamp of the reversed action."""

    reverses: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """The counted values of an entry's data. Each kind of entry fills some of the fields."""

    contract: str = ""
    name: str = ""
    """Of a saga."""
    contract_version: str = ""
    contract_hash: str = ""
    operation_kind: str = ""
    side_effect: str = ""
    principal: str = ""
    context: Context | None = None
    attempt: int = 0
    status: str = ""
    started: int = 0
    ended: int = 0
    finished: int = 0
    source: str = ""
    fault: str = ""
    presence: str = ""
    role: str = ""
    complete: bool = True
    withheld: bool = False
    verdict: str = ""
    why: str = ""
    discrepancy: str = ""
    review: str = ""
    hold: str = ""
    how: str = ""
    code: str = ""
    claim: str = ""
    reason: str = ""
    severity: str = ""
    frozen_for: str = ""


@dataclass(frozen=True, slots=True)
class References:
    """The evidence named by an entry, as far as completeness needs it."""

    request: str = ""
    contract: str = ""
    judgement: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """The kind, time, states and counted facts of an entry."""

    at: int
    data: Facts
    kind: str
    path: list[str]
    refs: References
    tenant: str


READER: Final = PartialReader(Entry)


def entry_of(stored: StoredEvent) -> Entry:
    """Return the counted part of a stored entry. Raises StoreCorruptError for an unreadable envelope."""
    try:
        return READER.read(stored.envelope)
    except MalformedJsonError as error:
        raise StoreCorruptError(f"Entry {stored.seq} of the ledger cannot be read: {error.message}") from error
