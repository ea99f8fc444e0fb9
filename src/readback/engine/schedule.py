"""When to read again: pure arithmetic over a contract's times and the action's history.

Called by the engine. Jitter derives from the stamp: many actions spread out, and each action repeats exactly.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from readback.canon.frozen import dataclass
from readback.domain.action.action import Action
from readback.domain.contract.contract import LATE_POLLS_MAX, POLLS_MAX, SECOND_US, Contract
from readback.domain.contract.watch import RETRY_FIRST_US, RETRY_LAST_US, TRIES_MAX, WatchState
from readback.domain.side_effect import SideEffect
from readback.domain.state import State

LATE_POLL_FIRST_US = 30 * SECOND_US
LATE_POLL_MAX_US = 3600 * SECOND_US
LATE_JITTER_MAX_US = SECOND_US
LEASE_MARGIN_US = 15 * SECOND_US
JITTER_PERCENT = 10
_LOOKED_AT_LATE: Final = frozenset({State.UNKNOWN, State.REVIEW_REQUIRED})
"""States with late readings already: the current reading looks for a late effect."""
_LOCAL_RANK: Final = SideEffect.EPHEMERAL_WRITE.rank


@dataclass(frozen=True, slots=True)
class Timing:
    """The important moments after an attempt, in microseconds of our clock."""

    close_us: int
    """The window closes: from now on a violation in a strong reading is a refutation."""
    deadline_us: int
    """Verification ends: an open result times out from now on."""
    late_until_us: int | None
    """No effect can land after this moment; None if the contract states no limit."""


def timing(contract: Contract, action: Action, ended_by_itself: bool) -> Timing:
    """`ended_by_itself`: the tool answered or raised, unlike an abandoned or lost call.

    A process paused in the middle of its call may continue after any time: the contract's late window concerns the
    tool, not the process.
    """
    ended = action.ended_us
    late = None if action.unproved else contract.late_window_us
    if late is None and ended_by_itself and contract.side_effect.rank <= _LOCAL_RANK:
        late = 0  # an ended local tool leaves no work running
    return Timing(ended + contract.within_us, ended + contract.deadline_us, None if late is None else ended + late)


def poll_due(contract: Contract, action: Action, timing: Timing, now_us: int) -> int:
    """When to read next during verification: by the schedule, then by its last delay, doubled each time.

    The last poll inside the window is at the close, and the last of all at the deadline. A reading across the deadline
    is followed by another at once.
    """
    if now_us >= timing.deadline_us:
        return now_us
    n = action.polls + 1  # the first delay preceded the first reading
    delays = contract.polls_us or (SECOND_US,)
    if n < len(delays):
        delay = delays[n]
    else:
        delay = max(delays[-1], SECOND_US // 4) << min(n - len(delays) + 1, 20)
    due = now_us + jittered(delay, action.stamp, n)
    for edge in (timing.close_us, timing.deadline_us):
        if now_us < edge <= due or (now_us < edge and n >= POLLS_MAX):
            return edge
    return due


def first_look_due(contract: Contract, stamp: str, ended_us: int) -> int | None:
    """When the first reading after an attempt is due, None for at once."""
    delay = contract.polls_us[0] if contract.polls_us else 0
    return min(ended_us + jittered(delay, stamp, 0), ended_us + contract.within_us) if delay else None


def settle_due(contract: Contract, action: Action, timing: Timing, now_us: int) -> int:
    """When to read next while all postconditions hold: at the first moment able to settle the action, if no other
    reading is needed before.
    """
    due = poll_due(contract, action, timing, now_us)
    if action.held_since_us and contract.stable_for_us:
        settled = action.held_since_us + contract.stable_for_us
        return settled if now_us < settled < due else due
    return max(due, timing.close_us) if contract.depth.find_at_close else due


def late_due(action: Action, timing: Timing, now_us: int) -> int:
    """When to look for a late effect next: with growing pauses, and at the end of the late window.

    After a punctual reading the next is scheduled from the due moment, so slow readings delay no later reading. Only
    the first is jittered; the others keep the distance.
    """
    looked = action.late_polls + (action.state in _LOOKED_AT_LATE)
    delay = min(LATE_POLL_FIRST_US << min(looked, 20), LATE_POLL_MAX_US)
    due, planned = now_us + delay, action.due_us
    if planned is not None and 0 <= now_us - planned < delay:
        due = planned + delay
    if looked == 0:
        due += min(jittered(delay, action.stamp, 0) - delay, LATE_JITTER_MAX_US)
    if timing.late_until_us is not None and now_us < timing.late_until_us:
        return min(due, timing.late_until_us)
    return due


def late_open(action: Action, timing: Timing, now_us: int) -> bool:
    """Whether a late effect is still possible and worth a reading."""
    if timing.late_until_us is not None:
        return now_us < timing.late_until_us
    return action.late_polls < LATE_POLLS_MAX


def lease_until(contract: Contract, now_us: int) -> int:
    """Long enough for the tool, one round of readings and the way to the disk."""
    readings = 0
    for each in contract.readers:
        readings += each.timeout_us
    return now_us + contract.execution.timeout_us + 2 * readings + LEASE_MARGIN_US


def jittered(delay_us: int, stamp: str, n: int) -> int:
    if delay_us == 0:
        return 0
    spread = sha256(f"{stamp}/{n}".encode()).digest()[0]
    return delay_us + delay_us * JITTER_PERCENT * spread // (100 * 255)


def watch_due(contract: Contract, stamp: str, now_us: int) -> int | None:
    """When a newly verified action is first read again; None without a watch."""
    return None if contract.watch is None else now_us + jittered(contract.watch.after_us, stamp, 0)


def watch_next_due(action: Action, watched: WatchState, now_us: int, *, told: bool) -> int | None:
    """When the next reading is due; None after the end of the watch. `told`: the current reading was conclusive."""
    if watched.looks + 1 >= TRIES_MAX or now_us >= watched.until_us:
        return None
    longest = watched.every_us or RETRY_LAST_US
    if not told:
        delay = min(RETRY_FIRST_US << min(watched.failing, 20), longest)
        return min(now_us + jittered(delay, action.stamp, watched.looks + 1), watched.until_us)
    if watched.every_us == 0:
        return None
    due = now_us + jittered(watched.every_us, action.stamp, watched.looks + 1)
    return due if due <= watched.until_us else None
