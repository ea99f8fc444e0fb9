"""A saga's reversals and the claims of its steps: a verified and reversed effect no longer holds.

Called by `saga.engine` after a verified reversal, before the saga's own record. The step's own entries record the
reversal, so a look at the step shows the reversal. A crash in between loses nothing: until the saga records the
reversal, every look finds the reversal as news, and recorded claims are not repeated.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Final

from readback.domain.action.action import Action
from readback.domain.action.claim import ClaimKind, ClaimStatus, own_status
from readback.domain.saga.fold import Saga
from readback.domain.state import State
from readback.engine.claims.entries import REVERSED, enter_claims, is_reversed
from readback.engine.effects import Begin, Begun, Commit, Committed, Effect, EffectResult, Lease, Leased
from readback.engine.entries.recorder import Recorder
from readback.ports.storage.store import Appended

LEASE_US: Final = 5_000_000


def take_back(saga: Saga, undone: Iterable[str], family: Mapping[str, Action]) -> Generator[Effect, EffectResult, bool]:
    """Retract the claims of steps with a verified reversal. Returns False if another worker holds a step."""
    for name in undone:
        record = saga.steps[name]
        effect, undo = family.get(record.action_id), family.get(record.undo_id)
        if effect is None or undo is None or undo.state is not State.RECONCILED_SUCCESS or not _claims(effect):
            continue
        if not (yield from _retract(effect)):
            return False
    return True


def _claims(action: Action) -> bool:
    """The action's effect was claimed to hold, and no reversal is recorded; other retractions do not matter."""
    status = own_status(action.claims, ClaimKind.HOLDS, made=action.claimed_us > 0)
    return status is not ClaimStatus.NONE and not (status is ClaimStatus.RETRACTED and is_reversed(action))


def _retract(effect: Action) -> Generator[Effect, EffectResult, bool]:
    begun = yield Begin()
    assert isinstance(begun, Begun)
    leased = yield Lease(effect.id, begun.now_us + LEASE_US, effect.version)
    assert isinstance(leased, Leased)
    if leased.fence is None or leased.version != effect.version:
        return False
    entries = Recorder(effect, effect.version)
    yield from enter_claims(entries, (REVERSED,), leased.now_us)
    # Nothing is durable yet: a crash here leaves an expiring lease, and the reversal stays news.
    committed = yield Commit(entries.append(leased.fence))
    assert isinstance(committed, Committed)
    return isinstance(committed.result, Appended)
