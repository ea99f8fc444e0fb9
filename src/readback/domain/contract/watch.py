"""Watching after success: a contract's terms, and the results so far.

The contract compiler makes the terms, and the contract's hash covers them. `WatchState` is folded with an action's
entries. Pure. Claims live in `domain.claim`.

Source: the action verification specification, "Verification Depth" (later readings), and "The Verification Ledger
Pattern" (drift after success); the terms and their bounds are ours.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass

LOOKS_MAX: Final = 1_000
"""Largest number of looks in a contract; each look is one small entry of the action."""
TRIES_MAX: Final = 2 * LOOKS_MAX
"""Largest number of looks, inconclusive looks included. The watch then ends."""
CHANGES_MAX: Final = 32
"""Largest number of changes between held and drifted. The watch then ends, and a person decides."""
EVERY_MIN_US: Final = 1_000_000
RETRY_FIRST_US: Final = 60_000_000
"""Delay before an inconclusive look is repeated. The delay doubles with each repetition, up to `every`."""
RETRY_LAST_US: Final = 3_600_000_000
"""Longest such delay without `every`."""
ONCE_RETRIED_US: Final = 86_400_000_000
"""How long a single inconclusive look is repeated."""


class WatchEnd:
    """Why a watch ended, as recorded in its last entry."""

    TIME: Final = "time"
    """Time is over, and the last look was conclusive."""
    UNREAD: Final = "unread"
    """Time is over, or no looks are left, and the last look was inconclusive."""
    CHANGES: Final = "changes"
    """The state drifted and came back too often."""
    REVERSED: Final = "reversed"
    """The watched effect was reversed."""
    WITHDRAWN: Final = "withdrawn"
    """A person, or a reading about HAPPENED, withdrew the watched claim."""


@dataclass(frozen=True, slots=True)
class WatchTerms:
    """The schedule after success. `every_us` 0: once. `for_us` and `after_us` count from the success.

    `ensure`: the postconditions to check later; empty means all.
    """

    after_us: int
    every_us: int = 0
    for_us: int = 0
    ensure: tuple[str, ...] = ()

    @property
    def until_us(self) -> int:
        """Microseconds from the success to the last possible look."""
        return self.for_us if self.every_us else self.after_us + ONCE_RETRIED_US

    @property
    def looks(self) -> int:
        """Number of looks."""
        return 1 + (self.for_us - self.after_us) // self.every_us if self.every_us else 1

    def as_json(self) -> dict[str, Json]:
        """The terms as recorded in the contract."""
        return {
            "after_us": self.after_us,
            "every_us": self.every_us,
            "for_us": self.for_us,
            "ensure": list(self.ensure),
        }


@dataclass(frozen=True, slots=True)
class WatchState:
    """The results of looks at a verified action. Times in microseconds; 0 means "not yet".

    `failing`: number of inconclusive looks in a row; `why`: the reason of the last. `drifted`: the last conclusive look
    contradicts the success. `held`, `held_ref`: the last stored reading of the required state, and its digest.
    `seen_ref`: the judgement of the last drift.
    """

    since_us: int
    until_us: int
    every_us: int
    looks: int = 0
    failing: int = 0
    why: str = ""
    told_us: int = 0
    held_us: int = 0
    drifted: bool = False
    changes: int = 0
    over: str = ""
    held: dict[str, Json] | None = None
    held_ref: str = ""
    seen_ref: str = ""

    def as_json(self) -> dict[str, Json]:
        """The part shown to people."""
        return {
            "since_us": self.since_us,
            "until_us": self.until_us,
            "every_us": self.every_us,
            "looks": self.looks,
            "failing": self.failing,
            "why": self.why,
            "held_us": self.held_us,
            "drifted": self.drifted,
            "changes": self.changes,
            "over": self.over,
        }


def watch_start_data(terms: WatchTerms, now_us: int) -> dict[str, Json]:
    """The watch data in the entry of a success."""
    return {"until": now_us + terms.until_us, "every": terms.every_us}


def start_watch(data: dict[str, Json], held: dict[str, Json] | None, held_ref: str, at_us: int) -> WatchState:
    """The watch begun by a success. `held`: the verifying reading."""
    until, every = data["until"], data["every"]
    assert isinstance(until, int)
    assert isinstance(every, int)
    return WatchState(at_us, until, every, told_us=at_us, held_us=at_us, held=held, held_ref=held_ref)


def with_judgement(
    watched: WatchState, held: dict[str, Json] | None, refs: tuple[str, str], at_us: int, *, verified: bool, ends: bool
) -> WatchState:
    """Add a look with a recorded judgement: a drift, a different drift, or a return. `refs`: reading and judgement."""
    after = replace(
        watched, looks=watched.looks + 1, failing=0, why="", told_us=at_us, over=WatchEnd.TIME if ends else ""
    )
    if verified:
        return replace(after, drifted=False, held_us=at_us, held=held, held_ref=refs[0], seen_ref="")
    changes = watched.changes + 1
    over = WatchEnd.CHANGES if changes >= CHANGES_MAX else after.over
    return replace(after, drifted=True, changes=changes, over=over, seen_ref=refs[1])


def with_look(watched: WatchState, data: dict[str, Json], at_us: int) -> WatchState:
    """Add a look without news, or an inconclusive look. Also for an entry without a look, at the end of the watch."""
    over, verdict = str(data["over"]), data["verdict"]
    if verdict == NO_LOOK:
        return replace(watched, over=over)
    after = replace(watched, looks=watched.looks + 1, over=over)
    if verdict == UNTOLD:
        return replace(after, failing=watched.failing + 1, why=str(data["why"]))
    held_us = watched.held_us if watched.drifted else at_us
    return replace(after, failing=0, why="", told_us=at_us, held_us=held_us)


NO_LOOK: Final = "not_checked"
UNTOLD: Final = "undetermined"
