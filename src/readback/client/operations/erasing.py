"""Erasure, for clients and command line: the checked order, and the store.

Called by both clients and by `readback ledger erase`. Nothing here waits or asks a person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from readback.audit.checks.ledger import no_progress
from readback.audit.maintenance import erase as eraser
from readback.client.operations.reviewing import check_words
from readback.client.session import Session
from readback.domain.action.erasure import ErasureOrder, ErasureResult
from readback.errors import UsageError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def erase(
    session: Session,
    ids_or_stamps: Iterable[str],
    before: datetime | None,
    *,
    who: str,
    reason: str,
    dry_run: bool = False,
    everything: bool = False,
    progress: Callable[[int], None] = no_progress,
) -> ErasureResult:
    """Carry out the erasure. Raises UsageError for an invalid order, and the errors of the engine's own `erase`."""
    session.check_open()
    check_words(who, reason)
    ids = tuple(session.action_id(each) for each in ids_or_stamps)
    if sum((bool(ids), before is not None, everything)) != 1:
        raise UsageError(
            "The selection for erasure is missing or given twice.",
            remedy="Name the actions, a moment (`before`), or all of them.",
        )
    order = ErasureOrder(session.scope.tenant, who, reason, ids, None if before is None else _us(before))
    return eraser.erase(session.store, order, session.runtime.now_us(), dry_run=dry_run, progress=progress)


def _us(moment: datetime) -> int:
    given: object = moment
    if not isinstance(given, datetime):
        remedy = "Pass a datetime with its zone, such as UTC."
        raise UsageError(f"before must be a datetime (got {type(given).__name__}).", remedy=remedy)
    if moment.utcoffset() is None:
        raise UsageError(f"{moment} has no time zone.", remedy="Pass a moment with its zone, such as UTC.")
    return (moment - _EPOCH) // timedelta(microseconds=1)
