"""A watched action in a house: it succeeded, time goes by, and somebody or something changes what it left."""

from __future__ import annotations

from typing import Any, Final

from readback.canon import Json
from readback.domain.action.claim import ClaimEvent, ClaimKind, ClaimStatus, last_event_of
from readback.domain.contract.watch import WatchState
from readback.domain.events import EventKind
from readback.domain.outcome.outcome import Outcome
from tests.lifecycle.house import STAMPED, House
from tests.lifecycle.reviewing import sound

MINUTE: Final = 60.0
HOUR: Final = 3_600.0
DAY: Final = 86_400.0
DAILY: Final[dict[str, Any]] = {"after": "1h", "every": "1d", "for": "30d"}
AGREED: Final = {**STAMPED["identity"], "actor": "authoritative.author"}
"""With what the source says of the last writer."""
CLAIMS: Final = (EventKind.CLAIM_CONTESTED, EventKind.CLAIM_RETRACTED, EventKind.CLAIM_REINSTATED)


def watched(house: House, watch: Any = DAILY, **options: Any) -> Outcome:
    """An action that has succeeded and is watched."""
    told = house.run(house.action(watch=watch, **{"identity": AGREED, **options}))
    assert told.verified, (told.state, told.detail)
    assert told.due_us is not None
    return told


def change(house: House, item: str = "o-1", **fields: Json) -> None:
    """Somebody writes to the record: one more version. By default its stamp stays as it was."""
    row = house.shop.rows[item]
    version = row["version"]
    assert isinstance(version, int)
    house.shop.rows[item] = {**row, "version": version + 1, **fields}


def on(house: House, days: float) -> None:
    """A worker goes on until so many days after the start; the ledger is sound afterwards."""
    house.work(days * DAY)
    sound(house)


def state_of(house: House, action_id: str) -> WatchState:
    found = house.folded(action_id).watch
    assert found is not None
    return found


def holds(house: House, action_id: str) -> ClaimEvent | None:
    """What was said last of the claim that it still holds."""
    return last_event_of(house.folded(action_id).claims, ClaimKind.HOLDS)


def claim_status(house: House, action_id: str) -> ClaimStatus | None:
    said = holds(house, action_id)
    return said.status if said is not None else None


def claim_events(house: House, action_id: str) -> list[EventKind]:
    return [kind for kind in house.kinds(action_id) if kind in CLAIMS]


def looks(house: House, action_id: str) -> int:
    return state_of(house, action_id).looks
