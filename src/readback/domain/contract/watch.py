"""Watching after success: what a contract asks for, and what has come of it so far.

The terms are compiled by contracts and stand in the contract's hash; `Watched` is folded with an action's entries and
asked by lifecycle.watch. Pure. It says nothing about claims: those are `domain.claim`'s.

Source: the action verification specification, "Verification Depth" (later readings), and "The Verification Ledger
Pattern" (drift after success); the terms and their bounds are ours.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass

LOOKS_MAX: Final = 1_000
"""So many looks a contract may ask for; each is one small entry of the action."""
TRIES_MAX: Final = 2 * LOOKS_MAX
"""So many looks are made at most, those that could not tell among them. Then the watch ends."""
CHANGES_MAX: Final = 32
"""So often a watched state may fall and come back. Then the watch ends, and a person decides by what is there."""
EVERY_MIN_US: Final = 1_000_000
RETRY_FIRST_US: Final = 60_000_000
"""A look that could not tell is made again after this, then after twice that, and so on up to `every`."""
RETRY_LAST_US: Final = 3_600_000_000
"""The longest such pause where there is no `every`."""
ONCE_RETRIED_US: Final = 86_400_000_000
"""A single look that could not tell is made again for so long."""


class Over:
    """Why a watch ended, as its last entry says."""

    TIME: Final = "time"
    """Its time is over, and the last look could tell."""
    UNREAD: Final = "unread"
    """Its time is over, or its looks are used up, and the last one could not tell."""
    CHANGES: Final = "changes"
    """It fell and came back too often."""
    REVERSED: Final = "reversed"
    """What was watched was taken back."""
    WITHDRAWN: Final = "withdrawn"
    """A person, or a reading of what happened, withdrew the claim that was watched."""


@dataclass(frozen=True, slots=True)
class WatchTerms:
    """When to look again after success. `every_us` 0: once. `for_us` counts from the success, as `after_us` does.

    `ensure`: the postconditions that have to hold later, all of them where it is empty.
    """

    after_us: int
    every_us: int = 0
    for_us: int = 0
    ensure: tuple[str, ...] = ()

    @property
    def until_us(self) -> int:
        """How long after the success the last look may be."""
        return self.for_us if self.every_us else self.after_us + ONCE_RETRIED_US

    @property
    def looks(self) -> int:
        """How many looks it asks for."""
        return 1 + (self.for_us - self.after_us) // self.every_us if self.every_us else 1

    def as_json(self) -> dict[str, Json]:
        """The terms as they stand in the contract."""
        return {
            "after_us": self.after_us,
            "every_us": self.every_us,
            "for_us": self.for_us,
            "ensure": list(self.ensure),
        }


@dataclass(frozen=True, slots=True)
class Watched:
    """What the looks at a verified action have shown so far. Times in microseconds; 0 where it has not happened.

    `failing`: looks in a row that could not tell, and `why` the last could not. `drifted`: the last that could tell
    contradicted the success. `held`, `held_ref`: the reading in which it held last that was kept, and its digest;
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
        """What people are shown of it."""
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


def begun_data(terms: WatchTerms, now_us: int) -> dict[str, Json]:
    """What the entry of a success says of its watch."""
    return {"until": now_us + terms.until_us, "every": terms.every_us}


def begun(data: dict[str, Json], held: dict[str, Json] | None, held_ref: str, at_us: int) -> Watched:
    """The watch that a success begins. `held`: the reading that it was verified by."""
    until, every = data["until"], data["every"]
    assert isinstance(until, int)
    assert isinstance(every, int)
    return Watched(at_us, until, every, told_us=at_us, held_us=at_us, held=held, held_ref=held_ref)


def judged(
    watched: Watched, held: dict[str, Json] | None, refs: tuple[str, str], at_us: int, *, verified: bool, ends: bool
) -> Watched:
    """A look whose judgement was recorded: it fell, fell in another way, or is back. `refs`: reading and judgement."""
    after = replace(watched, looks=watched.looks + 1, failing=0, why="", told_us=at_us, over=Over.TIME if ends else "")
    if verified:
        return replace(after, drifted=False, held_us=at_us, held=held, held_ref=refs[0], seen_ref="")
    changes = watched.changes + 1
    over = Over.CHANGES if changes >= CHANGES_MAX else after.over
    return replace(after, drifted=True, changes=changes, over=over, seen_ref=refs[1])


def looked(watched: Watched, data: dict[str, Json], at_us: int) -> Watched:
    """A quiet look: it showed what was known, or could not tell. Also the entry that only ends the watch."""
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
