"""Ledger events: small canonical envelopes that bind larger payloads by hash.

The engine writes events, the fold reads them, and audit recomputes. An envelope holds no floats, no integers beyond
2^53-1 and ASCII keys only, so that its canonical form is cheap and exact. Payloads are bytes, stored as evidence under
their SHA-256. Each envelope names the leaf hash of the action's previous envelope, and is hashed as an RFC 6962 leaf
for a Merkle log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import StrEnum
from operator import attrgetter, itemgetter
from typing import Literal

from readback.canon import CanonError, Json, envelope_bytes, parse_json
from readback.canon.envelopes import EnvelopeReader, Filled, Whole
from readback.canon.frozen import dataclass
from readback.domain.state import State
from readback.errors import StoreCorruptError
from readback.log.tree import leaf_hash

ENVELOPE_FORMAT = 1
ENVELOPE_FIELDS = frozenset(
    {"action", "at", "data", "format", "kind", "path", "prev", "refs", "tenant", "version"},
)
"""All fields are always present. An entry with another field is from another format, despite a valid hash."""


_TEXT = frozenset({str})


class EventKind(StrEnum):
    """Kinds of events. Each kind is a single fact; `path` lists the passed states."""

    PROPOSED = "proposed"
    ADMITTED = "admitted"
    REJECTED = "rejected"
    READ = "read"
    ATTEMPTED = "attempted"
    OBSERVED = "observed"
    LOOKED_UP = "looked_up"
    JUDGED = "judged"
    RESUMED = "resumed"
    SIGNALLED = "signalled"
    CANCELLED = "cancelled"
    STAGED_SETTLED = "staged_settled"
    COMPENSATION = "compensation"
    CLAIM_CONTESTED = "claim_contested"
    CLAIM_RETRACTED = "claim_retracted"
    CLAIM_REINSTATED = "claim_reinstated"
    HELD = "held"
    APPROVAL_REQUESTED = "approval_requested"
    APPROVED = "approved"
    DENIED = "denied"
    RESOLVED = "resolved"
    LIFTED = "lifted"
    WATCHED = "watched"
    ERASED = "erased"
    SAGA_BEGUN = "saga_begun"
    SAGA_STEP = "saga_step"
    SAGA_TURNED = "saga_turned"
    SAGA_ENDED = "saga_ended"


_KINDS = {kind.value: kind for kind in EventKind}
_STATES = {state.value: state for state in State}
_VALUES = itemgetter(*sorted(ENVELOPE_FIELDS))
_TYPES = (str, int, dict, int, str, list, str, dict, str, int)
"""Types of the values, in the same order."""
_FIELD_COUNT = len(ENVELOPE_FIELDS)
_OF_FIELD = dict(zip(sorted(ENVELOPE_FIELDS), _TYPES, strict=True))


@dataclass(frozen=True, slots=True)
class Event:
    """A fact of an action. `data` fits the envelope profile; `refs` name evidence by digest."""

    kind: EventKind
    at_us: int
    path: tuple[State, ...] = ()
    data: dict[str, Json] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)


def seal(event: Event, action_id: str, tenant: str, version: int, previous: str) -> tuple[bytes, bytes]:
    """Return the canonical envelope of an event in its place, and its leaf hash.

    `version`: its number in the action, from 1. `previous`: leaf hash (hex) of the event before, "" for the first.
    """
    # `_value_` is `value` without the Python call of 3.11. No other value is written as often.
    envelope = envelope_bytes(
        {
            "action": action_id,
            "at": event.at_us,
            "data": event.data,
            "format": ENVELOPE_FORMAT,
            "kind": event.kind._value_,
            "path": [*map(_WORD, event.path)],
            "prev": previous,
            "refs": event.refs,
            "tenant": tenant,
            "version": version,
        },
        event.data,
    )
    return envelope, leaf_hash(envelope)


@dataclass(frozen=True, slots=True)
class ParsedEnvelope:
    """A parsed envelope: its event and its claimed place."""

    event: Event
    action_id: str
    tenant: str
    version: int
    previous: str


def open_envelope(envelope: bytes) -> ParsedEnvelope:
    """Parse the event inside an envelope. Raises StoreCorruptError for any invalid envelope."""
    try:
        raw = parse_json(envelope)
    except CanonError as error:
        raise StoreCorruptError(f"A ledger entry cannot be read: {error.message}") from error
    return event_of(raw)


def event_of(raw: Json) -> ParsedEnvelope:
    """Return the event of an already parsed envelope. Raises StoreCorruptError."""
    if type(raw) is dict and len(raw) == _FIELD_COUNT:
        try:
            # Compare all types at once: an audit opens every entry, and each entry has ten fields.
            action_id, at_us, data, form, kind, path, previous, refs, tenant, version = given = _VALUES(raw)
            if (
                tuple(map(type, given)) == _TYPES
                and form == ENVELOPE_FORMAT
                and _TEXT.issuperset(map(type, refs.values()))
            ):
                event = Event(_KINDS[kind], at_us, tuple([_STATES[step] for step in path]), data, refs)
                return ParsedEnvelope(event, action_id, tenant, version, previous)
        except (KeyError, TypeError):
            pass  # faulty: `_fault_of` names the fault below
    raise _fault_of(raw)


@dataclass(slots=True)
class _Envelope:
    """An envelope for bulk reading: its fields in the order of writing."""

    action: str
    at: Whole
    data: Filled
    format: Literal[1]
    kind: EventKind
    path: tuple[State, ...]
    prev: str
    refs: dict[str, str]
    tenant: str
    version: Whole


_READER = EnvelopeReader(_Envelope)
_COLUMNS = attrgetter(*sorted(ENVELOPE_FIELDS))
_WORD = attrgetter("_value_")


def open_many(envelopes: Sequence[bytes]) -> list[ParsedEnvelope] | None:
    """Parse many canonical envelopes at once. None where any envelope is non-canonical or invalid."""
    read = _READER.read(envelopes)
    if not read:
        return read  # type: ignore[return-value]  # none at all
    action_ids, times, data, _, kinds, paths, links, refs, tenants, versions = zip(*map(_COLUMNS, read), strict=True)
    return [*map(ParsedEnvelope, map(Event, kinds, times, paths, data, refs), action_ids, tenants, versions, links)]


def _fault_of(raw: Json) -> StoreCorruptError:
    """The first fault of an envelope, field by field."""
    if not isinstance(raw, dict) or raw.get("format") != ENVELOPE_FORMAT:
        return StoreCorruptError("A ledger entry has a format unknown to this version.")
    if raw.keys() != ENVELOPE_FIELDS:
        odd = ", ".join(sorted(raw.keys() ^ ENVELOPE_FIELDS))
        return StoreCorruptError(f"A ledger entry has missing or unknown fields: {odd}.")
    for name, value in raw.items():
        wanted = _OF_FIELD[name]
        if type(value) is not wanted:
            said = f"{name!r} is {type(value).__name__}, and has to be {wanted.__name__}"
            return StoreCorruptError(f"A ledger entry cannot be read: {said}.")
    return StoreCorruptError("A ledger entry cannot be read: unknown values in kind, path or refs.")
