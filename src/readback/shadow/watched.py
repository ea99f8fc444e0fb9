"""The watched calls of a ledger, read from the entries of their actions.

Called by the shadow report. The ledger is the only source. A crash and a restart lose no count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from readback.canon import Json, parse_json
from readback.client.session import Session
from readback.domain.action.action import Action
from readback.domain.verification.observation_signs import ObservationStatus
from readback.engine.resume import fold
from readback.ports.storage.store import ActionFilter, StoredProjection
from readback.shadow.judging import Look, WatchedCall

WATCHED: Final = "watched-tool"
"""The contract name of calls watched in shadow mode. The name is reserved."""
PAGE: Final = 200
ANSWER_MAX_CHARACTERS: Final = 2_000
_CLAIMS: Final = frozenset({ObservationStatus.SUCCESS.value, ObservationStatus.MALFORMED.value})
"""An answer without signs of failure. A text without structure is no failure either."""
_SILENT: Final = frozenset(
    {ObservationStatus.NONE.value, ObservationStatus.TIMEOUT.value, ObservationStatus.CANCELLED.value}
)


def actions_of(session: Session, contract: str, actions_max: int) -> list[StoredProjection]:
    """Return the newest actions of a contract in this tenant, the oldest first. `contract`: "" for every contract."""
    found: list[StoredProjection] = []
    before = ""
    while len(found) < actions_max:
        wanted = ActionFilter(session.scope.tenant, contract=contract, before_id=before, limit=PAGE)
        page = session.store.page(wanted)
        found += page
        if len(page) < PAGE:
            break
        before = page[-1].projection.action_id
    return found[:actions_max][::-1]


def watched_calls(session: Session, calls_max: int) -> Iterator[WatchedCall]:
    """Yield the newest watched calls of the tenant, the oldest first. Calls that were not sent are left out.

    Raises StoreCorruptError, StoreError.
    """
    for stored in actions_of(session, WATCHED, calls_max):
        action = fold(session.store.events(stored.projection.action_id))
        if action is not None and action.attempts:
            yield _call(session, action)


def _call(session: Session, action: Action) -> WatchedCall:
    asked = _object(_object(_evidence(session, action, action.request_ref)).get("requested"))
    seen = action.observation or {}
    status = str(seen.get("status", ObservationStatus.NONE.value))
    answer = _object(_evidence(session, action, action.observation_ref))
    before = _object(_evidence(session, action, action.before_ref))
    after = _object(_evidence(session, action, action.reading_ref))
    _, server, tool = (*action.target.split("/", 2), "", "")[:3]  # the target outlives an erasure of the request
    arguments = asked.get("arguments")
    whole = isinstance(arguments, dict) and not arguments.keys() >= {"bytes", "sha256"}
    return WatchedCall(
        action.id,
        action.executed_us,
        _plain(asked.get("server") or server),
        _plain(asked.get("tool") or tool),
        arguments if whole and isinstance(arguments, dict) else None,
        claims=status in _CLAIMS and answer.get("isError") is not True,
        answered=status not in _SILENT and bool(seen),
        answer=_text(answer) or str(seen.get("detail", ""))[:ANSWER_MAX_CHARACTERS],
        looks=tuple(_looks(asked.get("reads"), before, after)),
        erased=bool(action.erased),
        overlapped=before.get("overlapped") is True or after.get("overlapped") is not False,
    )


def _looks(reads: Json, before: Mapping[str, Json], after: Mapping[str, Json]) -> Iterator[Look]:
    earlier, later = _listed(before.get("looks")), _listed(after.get("looks"))
    for place, read in enumerate(_listed(reads)):
        one = earlier[place] if place < len(earlier) else {}
        other = later[place] if place < len(later) else {}
        yield Look(
            str(read.get("tool", "")),
            _object(read.get("arguments")),
            _answer(one),
            _answer(other),
            steady=one.get("steady") is True,
            stated=read.get("stated") is True,
            writes=read.get("writes") is True,
            reason=str(one.get("reason") or other.get("reason") or ""),
        )


def _answer(look: Mapping[str, Json]) -> Mapping[str, Json] | None:
    found = look.get("answer")
    return found if isinstance(found, dict) else None


def _evidence(session: Session, action: Action, digest: str) -> Json:
    """Return a stored payload; None for an erased or a missing one."""
    if not digest or digest in action.erased:
        return None
    found = session.store.evidence(action.tenant, action.id, digest)
    return None if found is None else parse_json(found.body)


def _text(answer: Mapping[str, Json]) -> str:
    blocks = _listed(answer.get("content"))
    return "\n".join(str(each["text"]) for each in blocks if isinstance(each.get("text"), str))[:ANSWER_MAX_CHARACTERS]


def _object(value: Json | Mapping[str, Json]) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def _listed(value: Json) -> list[Mapping[str, Json]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _plain(value: Json) -> str:
    """Return a server's or a tool's name; "" for the placeholder of an empty one."""
    return "" if value in (None, "-") else str(value)
