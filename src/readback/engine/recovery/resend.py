"""Send a lost request again under its honoured key: when, and whether at all.

Called by the engine and by recovery. An honoured key permits another dispatch of the byte-identical request to the same
place, and releases nothing. The order is: read, look the key up if offered, send again, verify.

1. Only a lost request is sent again: no answer, a lost connection, a 5xx, a process that died.
2. A later reading ran and shows no effect, and neither does the key's record.
3. Attempts are bounded, keep a distance, and end with the first attempt's deadline.
4. Another process sends again only within the key's declared retention.
5. Everything to end the action ends this too: a cancellation, a reversal, a freeze, a decision, an expired approval.
6. A key is known only to its first system: if a setting names another system now, nothing is sent again.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from readback.canon import Json
from readback.canon.limits import INTEGER_WIRE_MAX, INTEGER_WIRE_MIN
from readback.canon.numbers import ExactNumber
from readback.domain.action.key_release import KeyEvidence, KeyRelease, release_of
from readback.domain.contract.contract import ATTEMPTS_MAX, SECOND_US
from readback.domain.discrepancy import Discrepancy
from readback.domain.finding import Finding
from readback.domain.people.review import Decision
from readback.domain.predicate import look
from readback.domain.side_effect import SideEffect
from readback.domain.state import State
from readback.domain.verdict import Verdict
from readback.domain.verification.attribution import effects_known, is_unchanged, looked_elsewhere, unchanged_throughout
from readback.domain.verification.observation import Observation, ObservationStatus
from readback.domain.verification.reconciliation import Reconciliation
from readback.engine.run import Run
from readback.engine.schedule import jittered
from readback.ports.predicates import Predicate

# An action started under another expression engine than today's.

_DOUBTED = frozenset({Finding.APPROVAL_MISMATCH.value, Finding.POLICY_VERSION_MISMATCH.value})


def doubt(run: Run) -> None:
    """Store a doubt about the expression engine in the run, if any. Reported once: a decided action is not questioned
    again.
    """
    action = run.action
    if not action.attempts or action.state is State.REVIEW_REQUIRED or action.judgement.finding in _DOUBTED:
        return
    why = next(filter(None, (each.otherwise(action.engine) for each in predicates(run))), "") or _unkept(run)
    if why:
        then = action.engine or "the one before engines were named"
        now = run.plan.predicates.name
        run.doubt = Finding.POLICY_VERSION_MISMATCH
        run.doubt_said = f"Its contract was read by another expression engine ({then}; {now} now), which took {why}."


def predicates(run: Run) -> Iterator[Predicate]:
    """The expressions used to judge the action's readings."""
    plan = run.plan
    for check in (*plan.ensure, *plan.fails_when, *plan.intermediate):
        if check.predicate is not None:
            yield check.predicate
    for identity in plan.identity:
        yield identity.predicate


def _unkept(run: Run) -> str:
    """Values unsupported by the other engine: texts were cut at NUL, and numbers had 64 bits."""
    variables = run.variables()
    for judged in run.checks:
        seen = {**variables, "authoritative": judged.taken.reading.value}
        for predicate in predicates(run):
            for path in predicate.paths:
                if _holds_unkept(look(path, seen)):
                    return f"the value at {path.text} for another: a number beyond a double, or a text with NUL"
    return ""


def _holds_unkept(value: Json) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, bool):
        return False
    if isinstance(value, int):
        return not INTEGER_WIRE_MIN <= value <= INTEGER_WIRE_MAX
    if isinstance(value, dict):
        return any("\0" in key or _holds_unkept(part) for key, part in value.items())
    return isinstance(value, ExactNumber) or (isinstance(value, list) and any(map(_holds_unkept, value)))


# A run's knowledge about possible places of its effect: evidence for the table, and for the key's release.


def release(run: Run, result: Reconciliation, *, dead: bool) -> KeyRelease:
    """Whether the current knowledge releases the key; decided by the domain."""
    action, seen = run.action, run.observation
    left = action.left_before or seen is None or seen.dispatched
    if left and result.effect_shown:
        return KeyRelease.NONE  # the usual end: `release_of` asks for nothing else
    known = effects_known(run.found, run.lookup)
    return release_of(
        KeyEvidence(
            left=left,
            effect_shown=result.effect_shown or known or action.seen,
            may_land=not dead or action.restored or action.commit_open or action.unproved,
            others_changed=result.discrepancy is Discrepancy.STALE_STATE,
            refused=named_refusal(run),
            region_unchanged=unchanged_throughout(run.contract, run.before, run.checks),
            nothing_found=run.found is not None and not known,
            mark_proven=run.search_proven,
        )
    )


def named_refusal(run: Run) -> bool:
    """The contract names a refusal: a terminal failure holds, or the key's record reports a final failure."""
    by_key = run.lookup is not None and run.lookup.status == "failed"
    return by_key or any(each.terminal_failure or each.refused for each in run.checks)


def searched(run: Run) -> bool:
    """A search covered the other possible places of the effect, or the tool claimed no effect.

    Alternatively, strong readings before and after are equal: of the whole region open to change, or of the target if
    the contract names the refusal.
    """
    searchable = run.contract.has_find
    said = run.observation
    if said is not None and looked_elsewhere(
        said,
        run.found,
        run.lookup,
        searchable=searchable,
        proven=run.search_proven,
        honours_key=run.contract.execution.honours_key,
    ):
        return True
    if effects_known(run.found, run.lookup):
        return False
    refused = any(each.refused and is_unchanged(run.before, each) for each in run.checks)
    return refused or unchanged_throughout(run.contract, run.before, run.checks)


BACKOFF_FIRST_US: Final = SECOND_US
"""The pause before the first repetition, after the end of the attempt. Every further pause is twice as long."""
SERVER_ERRORS: Final = range(500, 600)
TOO_MANY: Final = 429
_LOST: Final = frozenset({ObservationStatus.TIMEOUT, ObservationStatus.NONE})
_LOST_CODES: Final = frozenset({"connection.lost", "connection.refused", "exception"})
_OPEN: Final = frozenset({State.EXECUTING, State.ACCEPTED, State.PENDING, State.UNKNOWN})


def is_lost(seen: Observation | None) -> bool:
    """The answer is silent about the request's fate."""
    if seen is None or not seen.dispatched:
        return False
    if seen.status in _LOST:
        return True
    if seen.status is not ObservationStatus.ERROR:
        return False
    return seen.http_status in SERVER_ERRORS or seen.http_status == TOO_MANY or seen.code in _LOST_CODES


def key_known_until_us(run: Run) -> int | None:
    """The declared end of the tool's memory of the key; 0 if no longer reliable, None for no end."""
    if is_elsewhere(run):
        return 0
    valid_us = run.contract.execution.key_valid_for_us
    if valid_us:
        return run.action.first_executed_us + valid_us
    return 0 if run.revived else None


def place_of(run: Run) -> str:
    """A digest of the systems behind the contract now, if the environment's settings name them; else ""."""
    hands = run.plan.hands
    every = (hands.execute, hands.lookup, hands.find, *hands.readers)
    found = [each.place() for each in every if each is not None and each.place is not None]
    return sha256("\n".join(found).encode()).hexdigest() if found else ""


def is_elsewhere(run: Run) -> bool:
    """Whether the contract reaches other systems now than at its first attempt."""
    if not run.action.place:
        return False
    here = place_of(run)  # "" for a replayed record, without settings
    return bool(here) and here != run.action.place


def knows_key(run: Run) -> bool:
    """Whether another attempt may rely on the tool's memory of the key. A first attempt relies on nothing."""
    until_us = key_known_until_us(run)
    person = run.action.decision == Decision.REOPEN  # the person knows of no effect of the earlier attempt
    return run.action.attempts == 0 or person or until_us is None or run.now_us < until_us


def is_due(run: Run, result: Reconciliation) -> bool:
    """Whether the same request may be sent again now."""
    if run.resend is not None:
        return run.resend
    due_us = at_us(run, result)
    return due_us is not None and due_us <= run.now_us


def at_us(run: Run, result: Reconciliation) -> int | None:
    """When the same request may be sent again; None for never."""
    action, execution = run.action, run.contract.execution
    if not execution.honours_key or run.contract.side_effect is SideEffect.CRITICAL_MUTATION:
        return None
    if (
        action.attempts >= ATTEMPTS_MAX
        or run.blind
        or run.outside
        or run.staged is not None
        or run.barred
        or run.shadowed
    ):
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
    """A decision about the action rules out sending again."""
    a = run.action
    decided = a.cancelled or a.restored or bool(a.resolution) or bool(a.compensation_id) or a.rollback_done
    return decided or bool(a.frozen) or a.commit_open or run.doubt is not None or a.state not in _OPEN


def _is_unseen(run: Run, result: Reconciliation) -> bool:
    """A reading ran, and no reading, search or key record shows the request."""
    if result.verdict is Verdict.VERIFIED or result.effect_shown or run.action.seen:
        return False
    if not run.checks or not run.checks[result.deciding].taken.ran or effects_known(run.found, run.lookup):
        return False
    return not run.contract.has_lookup or (run.lookup is not None and run.lookup.status == "unknown_key")


def sooner(run: Run, result: Reconciliation, path: tuple[State, ...], due_us: int | None) -> int | None:
    """The time of the next reading, if a repetition is possible by then: every repetition follows a reading."""
    state = path[-1] if path else run.action.state
    resend_us = at_us(run, result) if due_us is not None and state in _OPEN else None
    if due_us is None or resend_us is None or resend_us <= run.now_us:
        return due_us  # the repetition was due already, and the table chose otherwise
    return min(due_us, resend_us)
