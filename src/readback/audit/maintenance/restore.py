"""Restore: check a copy of a ledger and prepare the copy for safe use, before it replaces the ledger.

Called by `readback ledger restore`, on a copy without other users. Work after the backup is missing from the copy, and
Readback cannot detect it. Therefore no in-flight action resumes by itself, and no failed action runs again merely
because of a repeated request. Such an action is held for a person, counts as executed, and retains its key.

Source: "recovery after a restore" is ours. An attempt without an observation is unknown, and never blindly repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from readback.audit.checks.ledger import AuditReport, no_progress
from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.events import EventKind
from readback.domain.idempotency import KEY_KEPT_US
from readback.domain.kind import Kind
from readback.domain.people.review import RESTORED
from readback.domain.saga.fold import CLOSED, KIND
from readback.domain.state import TERMINAL, State
from readback.engine.compiled_contract import CallerContext
from readback.engine.entries.recorder import Recorder
from readback.engine.resume import fold
from readback.engine.saga_run import SagaRun, fold_saga
from readback.engine.stages.escalate import TO_REVIEW
from readback.errors import RestoreError, StoreCorruptError
from readback.ports.storage.store import Append, Appended, KeyRecord, LedgerStore, Projection, StoredProjection

_RETRIED: Final = frozenset({State.FAILED, State.ROLLED_BACK})
_WAY: Final = {**TO_REVIEW, State.FAILED: (State.VALIDATED, State.REVIEW_REQUIRED), State.ROLLED_BACK: ()}
"""States from here to review. A rolled-back action has no way there: its operation never runs again."""
LOSS: Final = "log.cut"
"""The only fault an operator may accept in an audit against external heads: the end is missing."""
DETAIL: Final = "The ledger was restored from a backup: what was done after that is not in it."


@dataclass(slots=True)
class Held:
    """Number of held actions and sagas: in flight, or failed and open to a repeated request."""

    actions: int = 0
    sagas: int = 0


def judge(report: AuditReport, *, accept_loss: bool) -> list[str]:
    """Return the sentences about the loss, if the operator accepts the loss.

    Raises RestoreError: restore.damaged for any other fault, restore.cut for an unaccepted loss.
    """
    wrong = [fault for fault in report.faults if fault.code != LOSS]
    lost = [fault.what for fault in report.faults if fault.code == LOSS]
    if wrong or report.faults_total > len(report.faults):
        first = (wrong or report.faults)[0]
        raise RestoreError(
            f"The backup is damaged ({report.faults_total} faults): {first.code}: {first.what}",
            remedy="Take another backup. Nothing was restored.",
            code="restore.damaged",
            details={"faults": [fault.what for fault in report.faults[:20]]},
        )
    if lost and not accept_loss:
        raise RestoreError(
            f"The backup ends before the last stored head: {lost[-1]}",
            remedy="Take a later backup; or pass --accept-loss, and check the systems of record yourself.",
            code="restore.cut",
        )
    return lost


def hold_in_flight(
    store: LedgerStore, who: str, reason: str, now_us: int, progress: Callable[[int], None] = no_progress
) -> Held:
    """Send to review every action and saga that may have advanced or been repeated since. Raises StoreError."""
    held, words = Held(), (who, reason)
    for number, stored in enumerate(_open(store), 1):
        saga = stored.projection.kind == KIND
        append = _held_saga(store, stored, words, now_us) if saga else _held_action(store, stored, words, now_us)
        if append is not None:
            (answer,) = store.append([append])
            if not isinstance(answer, Appended):
                raise RestoreError(
                    f"{append.action_id} changed while the copy was prepared: another process has the copy open.",
                    code="restore.in-use",
                )
            held.sagas, held.actions = held.sagas + saga, held.actions + (not saga)
        progress(number)
    return held


def _open(store: LedgerStore) -> list[StoredProjection]:
    """Return actions in flight, and ended actions whose operation may have run since under a free key."""
    held, ended, taken_us = list[StoredProjection](), list[StoredProjection](), 0
    for stored in store.projections():
        taken_us = max(taken_us, stored.projection.updated_us)
        if _in_flight(stored.projection):
            held.append(stored)
        elif State(stored.projection.state) in _RETRIED:
            ended.append(stored)
    ended.sort(key=lambda each: each.projection.updated_us, reverse=True)  # the last one keeps the key
    return held + [each for each in ended if _asked_again(store, each.projection, taken_us)]


def _in_flight(p: Projection) -> bool:
    """Return whether a call may have happened since. A successfully ended action is at most read again."""
    if p.kind == KIND:
        return State(p.state) not in CLOSED
    return State(p.state) not in TERMINAL or p.state == State.REVIEW_REQUIRED.value


def _asked_again(store: LedgerStore, p: Projection, taken_us: int) -> bool:
    """Return whether a repeated request after the backup may have run the operation, or may run it in the future.

    The future case: the action may still be shown to be without effect. An expired key makes the operation like a new
    one.
    """
    if p.kind == KIND:
        saga = fold_saga(store.events(p.action_id))
        record = store.key(p.tenant, p.key_hash)
        mine = record is not None and record.action_id == p.action_id
        return saga is not None and saga.may_repeat and mine and taken_us < saga.updated_us + KEY_KEPT_US
    if p.operation == p.action_id:
        return False  # the operation id was generated for this proposal: no other request can name it
    if p.kind == Kind.READ.value:
        return False  # a read may be repeated any number of times
    action = fold(store.events(p.action_id))
    if action is None or taken_us >= action.updated_us + action.key_kept_us:
        return False
    return action.may_repeat or (action.due_us is not None and not action.judgement.effect_shown)


def _data(words: tuple[str, str]) -> dict[str, Json]:
    who, reason = words
    return {"hold": RESTORED, "code": RESTORED, "detail": DETAIL, "who": who, "reason": reason}


def _held_action(store: LedgerStore, stored: StoredProjection, words: tuple[str, str], now_us: int) -> Append | None:
    action = fold(store.events(stored.projection.action_id))
    if action is None or action.state not in _WAY:
        raise StoreCorruptError(f"Action {stored.projection.action_id} cannot be held: its entries say otherwise.")
    record = store.key(action.tenant, action.key_hash)
    if record is not None and record.action_id != action.id:
        return None  # the operation now belongs to another action, held in its place
    mine = KeyRecord(action.tenant, action.key_hash, action.request_hash, action.id, "PENDING", action.created_us, 0)
    entries, path = Recorder(action, action.version), _WAY[action.state]
    if action.attempt_open:
        # The result of the call is unknown and unread: this is recorded first.
        entries.add(EventKind.RESUMED, now_us, path[:1], {"owner": words[0]})
        path = path[1:]
    entries.add(EventKind.HELD, now_us, path, _data(words))
    return entries.append(stored.fence, reserve=mine if action.state is State.REVIEW_REQUIRED else None)


def _held_saga(store: LedgerStore, stored: StoredProjection, words: tuple[str, str], now_us: int) -> Append | None:
    saga = fold_saga(store.events(stored.projection.action_id))
    if saga is None:
        raise StoreCorruptError(f"Saga {stored.projection.action_id} cannot be held: it has no entries.")
    run = SagaRun(saga, CallerContext(saga.tenant, saga.principal), words[0], stored.fence, saga.version, now_us)
    run.record(EventKind.HELD, _data(words), _WAY[saga.state])
    return run.append(release_lease=True)
