"""Report of a claim: how it stands, and the entries that it stands on, by their numbers and leaf hashes.

Called by the clients and the command line. It reads what the ledger says of one action, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from readback.domain.action.action import Action
from readback.domain.action.claim import Claim, ClaimKind, Ground, claim_id, said_of, status_of
from readback.domain.events import EventKind, Opened, open_envelope
from readback.domain.state import State
from readback.engine.resume import fold_opened
from readback.ports.storage.store import StoredEvent

_PARTS: Final = (EventKind.ATTEMPTED, EventKind.OBSERVED, EventKind.READ, EventKind.JUDGED)
"""What a claim stands on: the attempt, what the tool answered, what was read, and how that was judged."""
_LATER: Final = (EventKind.READ, EventKind.JUDGED)
_Placed = tuple[Opened, str]


def claims_of(events: Sequence[StoredEvent]) -> tuple[Claim, ...]:
    """Every claim of the action that these entries tell, that it happened first; none where nothing was claimed."""
    return tuple(each for each in _told(events) if each.made_us or each.said is not None)


def claim_of(events: Sequence[StoredEvent], kind: ClaimKind) -> Claim | None:
    """The claim of this kind, also where nothing was claimed so far; None where there are no entries."""
    return next((each for each in _told(events) if each.kind is kind), None)


def _told(events: Sequence[StoredEvent]) -> tuple[Claim, ...]:
    placed = [(open_envelope(each.envelope), each.leaf.hex()) for each in events]
    action = fold_opened((opened, each.leaf) for (opened, _), each in zip(placed, events, strict=True))
    return () if action is None else tuple(_claim(action, kind, placed) for kind in ClaimKind)


def _claim(action: Action, kind: ClaimKind, placed: Sequence[_Placed]) -> Claim:
    status = status_of(action.claims, kind, made=action.claimed_us > 0)
    said, grounds = said_of(action.claims, kind), _grounds(action, kind, placed)
    return Claim(claim_id(action.id, kind), action.id, kind, status, action.claimed_us, said, grounds, action.version)


def _grounds(action: Action, kind: ClaimKind, placed: Sequence[_Placed]) -> tuple[Ground, ...]:
    """The last of each part up to the judgement that made the claim; for what holds, the last later ones too."""
    made = _made_at(action, placed)
    chosen = [*_last(placed[:made], _PARTS)]
    if kind is ClaimKind.HOLDS and action.claimed_us:
        chosen += _last(placed[made:], _LATER)
    return tuple(Ground(opened.version, opened.event.kind.value, leaf) for opened, leaf in chosen)


def _made_at(action: Action, placed: Sequence[_Placed]) -> int:
    """How many entries it took to verify it; all of them where it never was."""
    for place, (opened, _) in enumerate(placed, 1):
        event = opened.event
        if event.kind is EventKind.JUDGED and event.at_us == action.claimed_us:
            if State.RECONCILED_SUCCESS in event.path or event.data.get("verdict") == "verified":
                return place
    return len(placed)


def _last(placed: Sequence[_Placed], kinds: tuple[EventKind, ...]) -> list[_Placed]:
    """The last entry of each kind, in their order; of readings those that were taken to judge."""
    found: dict[EventKind, _Placed] = {}
    for each in placed:
        event = each[0].event
        if event.kind in kinds and not (event.kind is EventKind.READ and event.data.get("role") == "before"):
            found[event.kind] = each
    return sorted(found.values(), key=lambda each: each[0].version)
