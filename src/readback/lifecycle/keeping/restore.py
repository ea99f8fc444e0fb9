"""Restore: a copy of a ledger is judged, and made safe to go on with, before it stands where the ledger stood.

Called by `readback ledger restore`, on a copy that nobody else has. What was done after the backup is not in it, and
nothing here can know of it: so nothing that was in flight goes on by itself. It is held for a person, counts as
executed, and its key stays taken.

Source: "recovery after a restore" is ours; an attempt without an observation is unknown, and never blindly repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.errors import StoreCorruptError
from readback.domain.errors.erasure import RestoreError
from readback.domain.events import EventKind
from readback.domain.review import RESTORED
from readback.domain.saga.fold import CLOSED, KIND
from readback.domain.state import TERMINAL, State
from readback.lifecycle.audit.ledger import AuditReport, nobody
from readback.lifecycle.entries import Entries
from readback.lifecycle.escalate import TO_REVIEW
from readback.lifecycle.plan import Scope
from readback.lifecycle.resume import fold
from readback.lifecycle.saga_run import SagaRun, fold_saga
from readback.ports.store import Append, Appended, KeyRecord, LedgerStore, Projection, StoredProjection

LOSS: Final = "log.cut"
"""The one fault of an audit against kept heads that an operator may accept: the end is missing."""
DETAIL: Final = "The ledger was restored from a backup: what was done after that is not in it."


@dataclass(slots=True)
class Held:
    """How many actions and sagas were in flight, and wait for a person now."""

    actions: int = 0
    sagas: int = 0


def judge(report: AuditReport, *, accept_loss: bool) -> list[str]:
    """The sentences about what is lost, where that is accepted.

    Raises RestoreError: restore.damaged for whatever else is wrong, restore.cut for a loss that nobody accepted.
    """
    wrong = [fault for fault in report.faults if fault.code != LOSS]
    lost = [fault.what for fault in report.faults if fault.code == LOSS]
    if wrong or report.faults_total > len(report.faults):
        first = (wrong or report.faults)[0]
        raise RestoreError(
            f"The backup is damaged ({report.faults_total} faults): {first.code}: {first.what}",
            remedy="Take another backup. Nothing was put in place.",
            code="restore.damaged",
            details={"faults": [fault.what for fault in report.faults[:20]]},
        )
    if lost and not accept_loss:
        raise RestoreError(
            f"The backup does not reach the last head that was kept: {lost[-1]}",
            remedy="Take a later backup; or pass --accept-loss, and look at the systems of record yourself.",
            code="restore.cut",
        )
    return lost


def hold_in_flight(
    store: LedgerStore, who: str, reason: str, now_us: int, progress: Callable[[int], None] = nobody
) -> Held:
    """Puts everything that may have been moved on after the backup before a person. Raises StoreError."""
    held, words = Held(), (who, reason)
    for number, stored in enumerate(list(_in_flight(store)), 1):
        saga = stored.projection.kind == KIND
        append = _held_saga(store, stored, words, now_us) if saga else _held_action(store, stored, words, now_us)
        if append is not None:
            (answer,) = store.append([append])
            if not isinstance(answer, Appended):
                raise RestoreError(
                    f"{append.action_id} was moved on while the copy was made ready: somebody else has it open.",
                    code="restore.in-use",
                )
            held.sagas, held.actions = held.sagas + saga, held.actions + (not saga)
        progress(number)
    return held


def _in_flight(store: LedgerStore) -> list[StoredProjection]:
    return [stored for stored in store.projections() if _may_have_gone_on(stored.projection)]


def _may_have_gone_on(p: Projection) -> bool:
    """Whether anything may have been called for it since. What has ended is only read again, if at all."""
    if p.kind == KIND:
        return State(p.state) not in CLOSED
    return State(p.state) not in TERMINAL or p.state == State.REVIEW_REQUIRED.value


def _data(words: tuple[str, str]) -> dict[str, Json]:
    who, reason = words
    return {"hold": RESTORED, "code": RESTORED, "detail": DETAIL, "who": who, "reason": reason}


def _held_action(store: LedgerStore, stored: StoredProjection, words: tuple[str, str], now_us: int) -> Append | None:
    action = fold(store.events(stored.projection.action_id))
    if action is None or action.state not in TO_REVIEW:
        raise StoreCorruptError(f"Action {stored.projection.action_id} cannot be held: its entries say otherwise.")
    record = store.key(action.tenant, action.key_hash)
    if record is not None and record.action_id != action.id:
        return None  # its operation is another action's by now, and that one is held
    mine = KeyRecord(action.tenant, action.key_hash, action.request_hash, action.id, "PENDING", action.created_us, 0)
    entries, path = Entries(action, action.version), TO_REVIEW[action.state]
    if action.attempt_open:
        # What became of the call is not known, and nobody has read it: that is recorded first.
        entries.add(EventKind.RESUMED, now_us, path[:1], {"owner": words[0]})
        path = path[1:]
    entries.add(EventKind.HELD, now_us, path, _data(words))
    return entries.append(stored.fence, reserve=mine)


def _held_saga(store: LedgerStore, stored: StoredProjection, words: tuple[str, str], now_us: int) -> Append | None:
    saga = fold_saga(store.events(stored.projection.action_id))
    if saga is None:
        raise StoreCorruptError(f"Saga {stored.projection.action_id} cannot be held: it has no entries.")
    run = SagaRun(saga, Scope(saga.tenant, saga.principal), words[0], stored.fence, saga.version, now_us)
    run.record(EventKind.HELD, _data(words), TO_REVIEW[saga.state])
    return run.append(park=True)
