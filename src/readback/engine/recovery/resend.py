"""Sending a lost request again under its honoured key: when, and whether it may be sent at all.

Called by the engine and by recovery. An honoured key permits another dispatch of the byte-identical request to the same
place; it frees nothing. The order is: read, look the key up where that is offered, then send again, and verify.

1. Only a lost request is sent again: no answer, a lost connection, a 5xx, a process that died.
2. A reading after it ran and shows nothing of it, and so does the key's record.
3. Attempts are bounded, wait for each other, and end with the deadline of the first one.
4. Another process sends again only within the key's declared retention.
5. What ends an action ends this too: a cancellation, a reversal, a freeze, a person's word, an approval that is over.
6. A key is known where it was sent to: where a setting names another system by now, nothing is sent again.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from readback.domain.contract.contract import ATTEMPTS_MAX, SECOND_US
from readback.domain.people.review import Decision
from readback.domain.side_effect import SideEffect
from readback.domain.state import State
from readback.domain.verdict import Verdict
from readback.domain.verification.attribution import effects_known
from readback.domain.verification.observation import Observation, ObservationStatus
from readback.domain.verification.reconciliation import Reconciliation
from readback.engine.run import Run
from readback.engine.schedule import jittered

BACKOFF_FIRST_US: Final = SECOND_US
"""How long the first repetition waits after the end of the attempt; each one after it twice as long."""
SERVER_ERRORS: Final = range(500, 600)
TOO_MANY: Final = 429
_LOST: Final = frozenset({ObservationStatus.TIMEOUT, ObservationStatus.NONE})
_LOST_CODES: Final = frozenset({"connection.lost", "connection.refused", "exception"})
_OPEN: Final = frozenset({State.EXECUTING, State.ACCEPTED, State.PENDING, State.UNKNOWN})


def is_lost(seen: Observation | None) -> bool:
    """The answer says nothing of what became of the request."""
    if seen is None or not seen.dispatched:
        return False
    if seen.status in _LOST:
        return True
    if seen.status is not ObservationStatus.ERROR:
        return False
    return seen.http_status in SERVER_ERRORS or seen.http_status == TOO_MANY or seen.code in _LOST_CODES


def key_known_until_us(run: Run) -> int | None:
    """Until when the tool is declared to know the key; 0 where nobody may rely on it any more, None for no end."""
    if is_elsewhere(run):
        return 0
    valid_us = run.contract.execution.key_valid_for_us
    if valid_us:
        return run.action.first_executed_us + valid_us
    return 0 if run.revived else None


def place_of(run: Run) -> str:
    """Which systems the contract reaches now, where settings of the environment say that; else ""."""
    hands = run.plan.hands
    every = (hands.execute, hands.lookup, hands.find, *hands.readers)
    found = [each.place() for each in every if each is not None and each.place is not None]
    return sha256("\n".join(found).encode()).hexdigest() if found else ""


def is_elsewhere(run: Run) -> bool:
    """Whether the contract reaches other systems now than when its first attempt was made."""
    if not run.action.place:
        return False
    here = place_of(run)  # "" where a record alone is judged again, which knows no settings
    return bool(here) and here != run.action.place


def knows_key(run: Run) -> bool:
    """Whether another attempt may rely on the tool's knowing the key still. A first attempt relies on nothing."""
    until_us = key_known_until_us(run)
    person = run.action.decision == Decision.REOPEN  # who knows that nothing of the earlier one can be there
    return run.action.attempts == 0 or person or until_us is None or run.now_us < until_us


def is_due(run: Run, result: Reconciliation) -> bool:
    """Whether the same request may be sent again now."""
    if run.resend is not None:
        return run.resend
    due_us = at_us(run, result)
    return due_us is not None and due_us <= run.now_us


def at_us(run: Run, result: Reconciliation) -> int | None:
    """When the same request may be sent again; None where it may not."""
    action, execution = run.action, run.contract.execution
    if not execution.honours_key or run.contract.side_effect is SideEffect.CRITICAL_MUTATION:
        return None
    if action.attempts >= ATTEMPTS_MAX or run.blind or run.outside or run.staged is not None or run.barred:
        return None
    if _is_ended(run) or not is_lost(run.observation) or not _is_unseen(run, result):
        return None
    until_us = action.first_ended_us + run.contract.deadline_us
    known_until_us = key_known_until_us(run)
    if known_until_us is not None:
        until_us = min(until_us, known_until_us)
    backoff_us = min(BACKOFF_FIRST_US << (action.attempts - 1), max(until_us - action.ended_us, 0) // 2)
    due_us = action.ended_us + jittered(backoff_us, action.stamp, action.attempts)
    return due_us if due_us < until_us and run.now_us < until_us else None


def _is_ended(run: Run) -> bool:
    """Somebody or something has decided about it, so that nothing of it is sent any more."""
    a = run.action
    decided = a.cancelled or a.restored or bool(a.resolution) or bool(a.compensation_id) or a.rollback_done
    return decided or bool(a.frozen) or a.commit_open or run.doubt is not None or a.state not in _OPEN


def _is_unseen(run: Run, result: Reconciliation) -> bool:
    """A reading ran, and neither it nor the search nor the key's record shows anything of the request."""
    if result.verdict is Verdict.VERIFIED or result.effect_shown or run.action.seen:
        return False
    if not run.checks or not run.checks[result.deciding].taken.ran or effects_known(run.found, run.lookup):
        return False
    return not run.contract.has_lookup or (run.lookup is not None and run.lookup.status == "unknown_key")


def sooner(run: Run, result: Reconciliation, path: tuple[State, ...], due_us: int | None) -> int | None:
    """When to look next, where the request may be sent again by then: every repetition comes after a reading."""
    state = path[-1] if path else run.action.state
    resend_us = at_us(run, result) if due_us is not None and state in _OPEN else None
    if due_us is None or resend_us is None or resend_us <= run.now_us:
        return due_us  # it was due already, and the table chose something else
    return min(due_us, resend_us)
