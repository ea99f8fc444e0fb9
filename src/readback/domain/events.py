"""Ledger events: small canonical envelopes that bind everything larger by its hash.

Written by the engine, folded by `domain.fold`, recomputed by lifecycle.audit. An envelope holds no floats,
no integers beyond 2^53-1 and ASCII keys only, so that its canonical form is cheap and exact; payloads are
bytes, kept as evidence under their SHA-256. Each envelope names the leaf hash of the one before it in its
action, and is itself hashed as an RFC 6962 leaf, which a Merkle log can take as it is.
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
"""All of them, always: an entry with another field was not written by this format, whatever its hash says."""


_TEXT = frozenset({str})


class EventKind(StrEnum):
    """What happened. Each kind is one fact; `path` says which states it walked through."""

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
"""Of the values, in that order."""
_FIELD_COUNT = len(ENVELOPE_FIELDS)
_OF_FIELD = dict(zip(sorted(ENVELOPE_FIELDS), _TYPES, strict=True))


@dataclass(frozen=True, slots=True)
class Event:
    """One fact of one action. `data` fits the envelope profile; `refs` name evidence by digest."""

    kind: EventKind
    at_us: int
    path: tuple[State, ...] = ()
    data: dict[str, Json] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)


def seal(event: Event, action_id: str, tenant: str, version: int, previous: str) -> tuple[bytes, bytes]:
    """The canonical envelope of an event in its place, and its leaf hash.

    `version`: its number in the action, from 1. `previous`: leaf hash (hex) of the event before, "" for the first.
    """
    # `_value_` is `value` without the Python call that 3.11 makes of it; nothing is written as often as this.
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
class Opened:
    """An envelope read back: its event, and the place that it claims."""

    event: Event
    action_id: str
    tenant: str
    version: int
    previous: str


def open_envelope(envelope: bytes) -> Opened:
    """The event inside an envelope. Raises StoreCorruptError where it is not one of ours."""
    try:
        raw = parse_json(envelope)
    except CanonError as error:
        raise StoreCorruptError(f"A ledger entry cannot be read: {error.message}") from error
    return opened_of(raw)


def opened_of(raw: Json) -> Opened:
    """The same, of an envelope that was parsed. Raises StoreCorruptError."""
    if type(raw) is dict and len(raw) == _FIELD_COUNT:
        try:
            # Types are compared at once: an audit opens every entry, and each has ten fields.
            action_id, at_us, data, form, kind, path, previous, refs, tenant, version = given = _VALUES(raw)
            if (
                tuple(map(type, given)) == _TYPES
                and form == ENVELOPE_FORMAT
                and _TEXT.issuperset(map(type, refs.values()))
            ):
                event = Event(_KINDS[kind], at_us, tuple([_STATES[step] for step in path]), data, refs)
                return Opened(event, action_id, tenant, version, previous)
        except (KeyError, TypeError):
            pass  # something is wrong with it, and is named below
    raise _fault_of(raw)


@dataclass(slots=True)
class _Envelope:
    """An envelope as it is read with many others: its fields in the order in which they are written."""

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


def opened_together(envelopes: Sequence[bytes]) -> list[Opened] | None:
    """Many at once, each in canonical form; None where one is not, is none of ours, or may not be."""
    read = _READER.read(envelopes)
    if not read:
        return read  # type: ignore[return-value]  # none at all
    action_ids, times, data, _, kinds, paths, links, refs, tenants, versions = zip(*map(_COLUMNS, read), strict=True)
    return [*map(Opened, map(Event, kinds, times, paths, data, refs), action_ids, tenants, versions, links)]


def _fault_of(raw: Json) -> StoreCorruptError:
    """What is wrong with an envelope: field by field, the first that is."""
    if not isinstance(raw, dict) or raw.get("format") != ENVELOPE_FORMAT:
        return StoreCorruptError("A ledger entry has a format that this version does not know.")
    if raw.keys() != ENVELOPE_FIELDS:
        odd = ", ".join(sorted(raw.keys() ^ ENVELOPE_FIELDS))
        return StoreCorruptError(f"A ledger entry has a field too many or too few: {odd}.")
    for name, value in raw.items():
        wanted = _OF_FIELD[name]
        if type(value) is not wanted:
            said = f"{name!r} is {type(value).__name__}, and has to be {wanted.__name__}"
            return StoreCorruptError(f"A ledger entry cannot be read: {said}.")
    return StoreCorruptError("A ledger entry cannot be read: its kind, its path or its refs hold what there is not.")
