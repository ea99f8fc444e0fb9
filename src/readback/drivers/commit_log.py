"""Log records about committed entries, through the standard `logging` module.

Called by both drivers after each durable append. The logger is `readback.actions`. A record has ids, names and codes of
Readback as attributes, and never a payload: no argument, no target, no answer, no text of a person. Without a handler
nothing is printed.

Levels: DEBUG for steps on the way, INFO for settled actions, WARNING for refuted, unknown and reviewed actions, ERROR
for failed reversals and for entries with an incident.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from readback.domain.events import EventKind
from readback.domain.state import TERMINAL, State
from readback.domain.verdict import Verdict
from readback.ports.storage.store import Append, Appended, AppendResult

if TYPE_CHECKING:
    from logging import Logger

DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40
"""The levels of `logging`, without an import of it: a hook's process starts for each call and logs nothing."""
_loggers: Final[list[Logger]] = []
_SETTLED: Final = frozenset(state.value for state in TERMINAL)
_DOUBTFUL: Final = frozenset({State.UNKNOWN.value, State.REVIEW_REQUIRED.value, State.VERIFICATION_TIMEOUT.value})
_ON_THE_WAY: Final = frozenset(
    kind.value
    for kind in (
        EventKind.PROPOSED,
        EventKind.ADMITTED,
        EventKind.READ,
        EventKind.ATTEMPTED,
        EventKind.OBSERVED,
        EventKind.LOOKED_UP,
        EventKind.RESUMED,
        EventKind.SIGNALLED,
        EventKind.STAGED_SETTLED,
        EventKind.WATCHED,
        EventKind.ERASED,
    )
)
_REFUTED, _FAILED_REVERSAL = Verdict.REFUTED.value, State.COMPENSATION_FAILED.value
_REVERSAL_REVIEW: Final = "compensation_failed"


def level_of(append: Append) -> int:
    """Return the level of an append's record."""
    state = append.projection
    if append.incidents:
        return ERROR
    if append.events[-1].kind in _ON_THE_WAY:
        return DEBUG
    if state.state == _FAILED_REVERSAL or state.review == _REVERSAL_REVIEW:
        return ERROR
    if state.state in _DOUBTFUL:
        return WARNING
    if state.state not in _SETTLED:
        return DEBUG
    return WARNING if state.verdict == _REFUTED else INFO


def _logger() -> Logger | None:
    """Return the logger; None in a program that never imported `logging`, which therefore has no handler."""
    if not _loggers and "logging" in sys.modules:
        import logging

        log = logging.getLogger("readback.actions")
        log.addHandler(logging.NullHandler())
        _loggers.append(log)
    return _loggers[0] if _loggers else None


def log_commit(append: Append, result: AppendResult) -> None:
    """Log a durable append. A conflict stored nothing, and is not logged."""
    level, log = level_of(append), _logger()
    if log is None or not log.isEnabledFor(level) or not isinstance(result, Appended):
        return
    one = append.projection
    log.log(
        level,
        "%s %s: %s%s",
        one.contract or "saga",
        one.action_id,
        one.state,
        f" ({one.discrepancy or one.review})" if one.discrepancy or one.review else "",
        extra={
            "readback_action": one.action_id,
            "readback_tenant": one.tenant,
            "readback_run": one.run,
            "readback_saga": one.saga,
            "readback_contract": one.contract,
            "readback_kind": one.kind,
            "readback_side_effect": one.side_effect,
            "readback_event": append.events[-1].kind,
            "readback_state": one.state,
            "readback_verdict": one.verdict,
            "readback_discrepancy": one.discrepancy,
            "readback_row": one.row,
            "readback_review": one.review,
            "readback_version": result.version,
            "readback_position": result.seq,
        },
    )
