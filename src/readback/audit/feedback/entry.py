"""The counted part of a ledger entry, read without the rest of the envelope.

Called by `feedback.fold` for every entry of a ledger. An envelope holds about forty values. Counting needs a third, and
the reader skips the rest. A million entries take seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from readback.canon.envelopes import PartialReader
from readback.canon.frozen import dataclass
from readback.domain.events import EventKind
from readback.errors import StoreCorruptError
from readback.ports.storage.store import StoredEvent


@dataclass(frozen=True, slots=True)
class ShadowFacts:
    """The counted values of a shadow action's judgement."""

    verdict: str = ""
    refused: str = ""


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
    code: str = ""
    claim: str = ""
    reason: str = ""
    severity: str = ""
    frozen_for: str = ""
    mode: str = ""
    shadow: ShadowFacts | None = None


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


# The frequent kinds have small classes: an unused field of `Facts` costs as much as a used one. Each class has the
# fields of its own kind, and the fields of a review, because any entry may lead to a review.


@dataclass(frozen=True, slots=True)
class ReadFacts:
    """The counted values of a reading."""

    source: str = ""
    fault: str = ""
    presence: str = ""
    role: str = ""
    complete: bool = True
    withheld: bool = False
    started: int = 0
    finished: int = 0
    review: str = ""
    hold: str = ""
    discrepancy: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CallFacts:
    """The counted values of an attempt, and of an answer."""

    attempt: int = 0
    status: str = ""
    started: int = 0
    ended: int = 0
    review: str = ""
    hold: str = ""
    discrepancy: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReadEntry:
    """A reading."""

    at: int
    data: ReadFacts
    kind: str
    path: list[str]
    tenant: str


@dataclass(frozen=True, slots=True)
class CallEntry:
    """An attempt or an answer."""

    at: int
    data: CallFacts
    kind: str
    path: list[str]
    tenant: str


_GENERAL: Final = PartialReader(Entry).read_raw
_READ, _CALL = PartialReader(ReadEntry).read_raw, PartialReader(CallEntry).read_raw
_READERS: Final[dict[str, Callable[[bytes], Any]]] = {
    EventKind.READ.value: _READ,
    EventKind.ATTEMPTED.value: _CALL,
    EventKind.OBSERVED.value: _CALL,
}


def entry_of(stored: StoredEvent) -> Entry:
    """Return the counted part of a stored entry. Raises StoreCorruptError for an unreadable envelope.

    For frequent kinds the result has the fields of that kind only.
    """
    try:
        entry: Entry = _READERS.get(stored.kind, _GENERAL)(stored.envelope)
    except ValueError as error:  # of msgspec; see PartialReader
        raise StoreCorruptError(f"Entry {stored.seq} of the ledger cannot be read: {error}.") from error
    if entry.kind != stored.kind:
        raise StoreCorruptError(f"Entry {stored.seq} of the ledger is {entry.kind!r:.40}, and not {stored.kind!r:.40}.")
    return entry
