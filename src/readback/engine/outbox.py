"""Outbox: the messages of a ledger entry. The ledger is the outbox: no further record is written for messages.

Called by the delivery thread, by `readback events` and by audit. Pure: the same entries give the same messages in every
process, at any time. Messages hold only ids, names and codes of Readback itself; see `_code`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.action import claim as claims
from readback.domain.events import EventKind, ParsedEnvelope, open_envelope
from readback.domain.people.incident import incident_id
from readback.domain.records.message import DATA_FORMAT, ENTRY_CHARACTERS, LOG_CHARACTERS, TEXTS, EventName, Message
from readback.domain.saga.fold import KIND
from readback.domain.state import State
from readback.engine.entries.recorder import projection_of
from readback.engine.entries.side_records import texts
from readback.engine.resume import fold
from readback.engine.saga_run import fold_saga, projection_of_saga
from readback.errors import StoreCorruptError
from readback.ports.storage.store import LedgerStore, Projection, StoredEvent

_K, _N, _S = EventKind, EventName, State

SILENT: Final = frozenset(
    {
        _K.PROPOSED,
        _K.READ,
        _K.ATTEMPTED,
        _K.OBSERVED,
        _K.LOOKED_UP,
        _K.RESUMED,
        _K.SIGNALLED,
        _K.STAGED_SETTLED,
        _K.ERASED,
        _K.SAGA_BEGUN,
    }
)
"""Kinds of entries without messages: steps on the way to a judgement."""
TELLING: Final = tuple(sorted(kind.value for kind in EventKind if kind not in SILENT))
"""The other kinds: such an entry may have messages, and usually has none."""

BY_STATE: Final = MappingProxyType(
    {
        _S.RECONCILED_SUCCESS: _N.ACTION_RECONCILED,
        _S.FAILED: _N.ACTION_FAILED,
        _S.UNKNOWN: _N.ACTION_UNKNOWN,
        _S.COMPENSATED: _N.ACTION_COMPENSATED,
        _S.COMPENSATION_FAILED: _N.ACTION_COMPENSATION_FAILED,
        _S.ROLLED_BACK: _N.ACTION_ROLLED_BACK,
        _S.ABANDONED: _N.ACTION_ABANDONED,
    }
)
"""The message of an action entering one of these states."""
NOT_VERIFIED: Final = frozenset(
    {
        _S.RECONCILIATION_FAILED,
        _S.VERIFICATION_TIMEOUT,
        _S.PARTIALLY_COMMITTED,
        _S.UNKNOWN,
        _S.FAILED,
        _S.ROLLED_BACK,
    }
)
"""An attempted action in one of these states is not verified."""
BY_KIND: Final = MappingProxyType(
    {
        _K.APPROVAL_REQUESTED: _N.APPROVAL_REQUESTED,
        _K.APPROVED: _N.APPROVAL_GIVEN,
        _K.DENIED: _N.APPROVAL_DENIED,
        _K.CLAIM_CONTESTED: _N.CLAIM_CONTESTED,
        _K.CLAIM_RETRACTED: _N.CLAIM_RETRACTED,
        _K.CLAIM_REINSTATED: _N.CLAIM_REINSTATED,
        _K.RESOLVED: _N.REVIEW_RESOLVED,
    }
)
"""The message of an entry by its kind alone."""
JUDGEMENT_CODES: Final = ("verdict", "why", "finding", "discrepancy", "attribution", "row", "recovery", "code")
_CODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@-]{0,127}")
_NEXT: Final = MappingProxyType(
    {
        _N.ACTION_RECONCILED: "readback show",
        _N.APPROVAL_REQUESTED: "readback approve",
        _N.REVIEW_REQUIRED: "readback review show",
        _N.INCIDENT_OPENED: "readback review show",
        _N.RESOURCE_FROZEN: "readback review show",
        _N.CLAIM_CONTESTED: "readback review show",
    }
)
"""The command for the next step; `readback explain` for all other messages."""


@dataclass(frozen=True, slots=True)
class _Told:
    """A message before its numbering within the entry."""

    name: EventName
    data: Mapping[str, Json]


def log_of(store: LedgerStore) -> str:
    """The name of a log: the beginning of its first entry's leaf hash. "" for a log without entries."""
    first = next(iter(store.scan()), None)
    return "" if first is None else first.leaf.hex()[:LOG_CHARACTERS]


def messages_at(store: LedgerStore, log: str, stored: StoredEvent) -> tuple[Message, ...]:
    """The messages of one entry. Raises StoreCorruptError for a corrupt entry."""
    opened = open_envelope(stored.envelope)
    if not may_tell(opened):
        return ()
    history = [each for each in store.events(stored.action_id) if each.version <= stored.version]
    opens = False
    if "severity" in opened.event.data:
        # One open incident per cause: later ones are only counted in the first.
        named = incident_id(opened.action_id, opened.version)
        opens = bool(store.incidents(opened.tenant, open_only=False, named=named))
    return messages_of(log, history, opens_incident=opens)


def messages_of(log: str, history: Sequence[StoredEvent], *, opens_incident: bool = True) -> tuple[Message, ...]:
    """The messages of the last of these entries. All entries belong to one action, complete up to the last.

    `opens_incident`: the entry opened its incident, instead of only counting in an open incident.
    """
    last = history[-1]
    opened = open_envelope(last.envelope)
    if not may_tell(opened):
        return ()
    after = _projection(history)
    if after is None:
        raise StoreCorruptError(f"Entry {last.seq} belongs to no action.")
    told = [*_of_states(opened), *_of_kind(opened), *_of_review(opened, history, after)]
    told += _beside(opened, opens_incident=opens_incident)
    shared = _shared(opened, after)
    return tuple(
        Message(
            log,
            last.seq,
            number,
            one.name,
            opened.tenant,
            opened.action_id,
            opened.event.at_us,
            {**shared, **one.data, **_said(one.name, opened.action_id)},
            entry=last.leaf.hex()[:ENTRY_CHARACTERS],
        )
        for number, one in enumerate(told)
    )


def may_tell(opened: ParsedEnvelope) -> bool:
    """Whether an entry can have messages at all. Cheap: no fold."""
    event = opened.event
    if event.kind in SILENT:
        return False
    data = event.data
    return (
        event.kind in BY_KIND
        or any(step in BY_STATE or step in NOT_VERIFIED or step is State.REVIEW_REQUIRED for step in event.path)
        or bool(data.get("review") or data.get("hold"))
        or not data.keys().isdisjoint(("severity", "freeze", "lift", "closes"))
    )


# --- messages ---


def _of_states(opened: ParsedEnvelope) -> Iterator[_Told]:
    """Messages of the states on the entry's path: a failed verification first, then the resulting state."""
    event = opened.event
    codes = {name: _code(event.data.get(name)) for name in JUDGEMENT_CODES if event.data.get(name)}
    if event.kind is EventKind.JUDGED and not NOT_VERIFIED.isdisjoint(event.path):
        yield _Told(_N.VERIFICATION_FAILED, {**codes, "undone": _codes(event.data.get("undone"))})
    for step in dict.fromkeys(event.path):
        if step in BY_STATE:
            yield _Told(BY_STATE[step], codes)


def _of_kind(opened: ParsedEnvelope) -> Iterator[_Told]:
    event = opened.event
    name = BY_KIND.get(event.kind)
    if name is None:
        return
    data: dict[str, Json] = {}
    match event.kind:
        case EventKind.CLAIM_CONTESTED | EventKind.CLAIM_RETRACTED | EventKind.CLAIM_REINSTATED:
            said = claims.claim_event_in(event, opened.version)
            data = {
                "claim": claims.claim_id(opened.action_id, said.kind),
                "claim_kind": said.kind.value,
                "verdict": said.status.value,
                "reason": said.reason.value,
                "confidence": _code(said.confidence),
                "recommended_action": _code(said.advice),
                "dependants": _codes(list(said.dependants)),
                "dependants_more": said.more,
            }
        case EventKind.RESOLVED:
            data = {"decision": _code(event.data.get("decision")), "resolution": _code(event.data.get("resolution"))}
        case _:
            data = {"approval": _code(event.data.get("approval")), "code": _code(event.data.get("code"))}
    yield _Told(name, data)


def _of_review(opened: ParsedEnvelope, history: Sequence[StoredEvent], after: Projection) -> Iterator[_Told]:
    """The action is newly in the review queue, or in the queue for another reason. An approval request has its own
    message.
    """
    if not after.review or opened.event.kind is EventKind.APPROVAL_REQUESTED:
        return
    if State.REVIEW_REQUIRED not in opened.event.path:
        before = _projection(history[:-1])  # the fold is needed only here: few entries need a comparison
        if before is not None and before.review == after.review:
            return
    yield _Told(_N.REVIEW_REQUIRED, {})


def _beside(opened: ParsedEnvelope, *, opens_incident: bool) -> Iterator[_Told]:
    """Incidents and freezes."""
    data = opened.event.data
    if "severity" in data and opens_incident:
        about: dict[str, Json] = {
            "incident": incident_id(opened.action_id, opened.version),
            "severity": _code(data["severity"]),
            "cause": str(data.get("incident", "")),
        }
        yield _Told(_N.INCIDENT_OPENED, about)
    for subject in texts(data.get("freeze")):
        yield _Told(_N.RESOURCE_FROZEN, {**_subject(subject), "reason": _code(data.get("frozen_for"))})
    for subject in texts(data.get("lift")):
        yield _Told(_N.FREEZE_LIFTED, _subject(subject))
    for incident in texts(data.get("closes")):
        yield _Told(_N.INCIDENT_CLOSED, {"incident": incident})


def _subject(subject: str) -> dict[str, Json]:
    return {"frozen": subject, "scope": subject.partition(":")[0]}


def _shared(opened: ParsedEnvelope, after: Projection) -> dict[str, Json]:
    """The action's fields in every message, as of this entry."""
    return {
        "format": DATA_FORMAT,
        "action": opened.action_id,
        "version": opened.version,
        "contract": after.contract,
        "kind": after.kind,
        "side_effect": after.side_effect,
        "target": "" if after.kind == KIND else after.target,
        "operation": after.operation,
        "principal": after.principal,
        "run": after.run,
        "saga": after.saga,
        "state": after.state,
        "review": after.review,
    }


def _said(name: EventName, action_id: str) -> dict[str, Json]:
    command = _NEXT.get(name, "readback explain")
    return {
        "event": name.value,
        "alias": name.underscored,
        "text": TEXTS[name],
        "next": f"{command} {action_id}",
    }


def _code(value: Json) -> str:
    """A code of Readback; "" for anything else, such as text from people or systems."""
    return str(value) if isinstance(value, str) and _CODE.fullmatch(value) else ""


def _codes(value: Json) -> list[Json]:
    return [text for text in texts(value) if text.isprintable()]


def _projection(history: Sequence[StoredEvent]) -> Projection | None:
    """The projection of these entries."""
    if not history:
        return None
    saga = fold_saga(history)
    if saga is not None:
        return replace(projection_of_saga(saga), target="")
    action = fold(history)
    return None if action is None else projection_of(action)
