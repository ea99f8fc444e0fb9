"""The state space of a saga of five steps: every fault, every pair of faults, and a death at every step of each.

Simulated services, virtual time. A process that dies is followed by another, which has the ledger and the same world.
What has to hold afterwards is the same in every case: nothing is told that is not so, nothing is reversed twice or
without an effect, nothing is executed under a second key, and nothing is left that nobody looks at.

The whole is walked by `make crash` (READBACK_SAGA_SPACE=whole); else a fixed sample of it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations
from typing import Final

import pytest

from readback.domain.context import Context
from readback.domain.state import TERMINAL, State
from readback.testing.driver_virtual import ProcessDied
from tests.lifecycle.trip import DAY, Trip, World

STEPS: Final = ("flight", "hotel", "car", "charge", "ticket")
REVERSIBLE: Final = ("flight", "hotel", "car")
FAULTS: Final = ("refused", "silent", "lost", "vanished", "wrong", "late", "once", "blind")
UNDO_FAULTS: Final = ("lies", "lost", "refused")
DURABLE: Final = frozenset({"Commit", "Dispatch", "Settle", "Lease"})
"""A death between two other steps leaves what the last of these left: nothing else changes ledger or world."""
WHOLE: Final = os.environ.get("READBACK_SAGA_SPACE") == "whole"
SHARDS: Final = 64
SAMPLE: Final = 6
"""Of each shard, how many cases a run that is not whole takes."""

Fault = tuple[str, str, str]
"""(step or its undo, which of the two, how it fails)."""


@dataclass(frozen=True, slots=True)
class Case:
    """What goes wrong in one walk."""

    faults: tuple[Fault, ...]

    @property
    def name(self) -> str:
        return ", ".join(f"{'undo of ' if what == 'undo' else ''}{step} {how}" for step, what, how in self.faults)


def every_fault() -> list[Fault]:
    return [(step, "do", how) for step in STEPS for how in FAULTS] + [
        (step, "undo", how) for step in REVERSIBLE for how in UNDO_FAULTS
    ]


def every_case() -> Iterator[Case]:
    """No fault, each by itself, and each two that can happen to one trip."""
    yield Case(())
    for fault in every_fault():
        yield Case((fault,))
    for one, other in combinations(every_fault(), 2):
        if one[:2] != other[:2]:
            yield Case((one, other))


class SpaceWorld(World):
    """A world with one fault more: a service that says ok, and does nothing."""

    def act(self, name: str, ctx: Context, trip: str, price: int) -> object:
        if self.faults.get(name) == "silent":
            self.now()
            self.calls.append(name)
            return {"ok": True}
        return World.act(self, name, ctx, trip, price)


def trip_of(case: Case) -> Trip:
    trip = Trip(keyed=True)
    trip.world = SpaceWorld(trip.runtime)
    for step, what, how in case.faults:
        (trip.world.faults if what == "do" else trip.world.undo_faults)[step] = how
    return trip


def walk(case: Case, die_at: int | None = None) -> Trip:
    """The trip until nothing more happens by itself. `die_at`: the step at which its first process is gone."""
    trip = trip_of(case)
    trip.driver.vanish_at = die_at
    with contextlib.suppress(ProcessDied):
        trip.run()
    if die_at is not None:
        trip.die()
    trip.work(2 * DAY)
    return trip


def hold(trip: Trip, where: str) -> State | None:
    """What has to hold, whatever happened. None: it died before anything was durable."""
    trip.check()
    for step in STEPS:
        assert sum(1 for name, _ in trip.world.rows if name == step) <= 1, where
    ids = trip.saga_ids()
    if not ids:
        assert trip.world.calls == [], where
        return None
    told = trip.get(ids[0])
    there = {name for name, _ in trip.world.rows}
    right = all(trip.world.rows[name, "t-1"]["price"] == wanted for name, wanted in PRICES.items() if name in there)
    assert told.verified is (told.state is State.RECONCILED_SUCCESS), where
    if told.verified:
        assert there == set(STEPS), where
        assert right, where
    if told.state in (State.FAILED, State.COMPENSATED):
        assert there == set(), where
    # Nothing is left that nobody looks at: it has ended, or is on somebody's list, or will be looked at again.
    assert told.state in TERMINAL or trip.saga(ids[0]).due_us is not None, f"{where}: stuck in {told.state}"
    if told.state is State.REVIEW_REQUIRED:
        assert told.review, where
    if told.state not in TERMINAL:
        assert told.state is State.UNKNOWN or told.state is State.COMPENSATING, f"{where}: {told.state}"
    return told.state


PRICES: Final = {"flight": 100, "hotel": 50, "car": 50, "charge": 200, "ticket": 1}


def deaths(trip: Trip) -> list[int]:
    """The steps of a walk before which a death makes a difference."""
    done = trip.driver.done
    return [0, *(at + 1 for at, name in enumerate(done) if name in DURABLE and at + 1 < len(done))]


def in_sample(case: Case, seed: str) -> int:
    return int.from_bytes(sha256(f"{seed} {case.name}".encode()).digest()[:4], "big")


CASES: Final = sorted(every_case(), key=lambda case: in_sample(case, "order"))


@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.slow
def test_whatever_fails_and_wherever_a_process_dies_nothing_untrue_is_told(shard: int) -> None:
    cases = CASES[shard::SHARDS]
    for case in cases if WHOLE else cases[:1]:
        whole = walk(case)
        end = hold(whole, case.name)
        points = deaths(whole)
        for at in points if WHOLE else points[shard % 3 :: max(1, len(points) // SAMPLE)]:
            where = f"{case.name or 'no fault'}; dies before step {at}"
            died = hold(walk(case, at), where)
            assert died is None or end is None or (died in TERMINAL) is (end in TERMINAL), f"{where}: {died}, not {end}"


@pytest.mark.parametrize("fault", every_fault(), ids=lambda fault: " ".join(fault))
@pytest.mark.slow
def test_each_fault_by_itself_ends_where_it_has_to(fault: Fault) -> None:
    case = Case((fault,))
    step, what, how = fault
    end = hold(walk(case), case.name)
    if what == "undo":
        assert end is State.RECONCILED_SUCCESS  # nothing failed, so nothing was reversed
    elif how in ("lost", "late"):
        assert end is State.RECONCILED_SUCCESS
    elif how == "blind":
        assert end in (State.REVIEW_REQUIRED, State.UNKNOWN)
    elif step == "ticket":
        assert end in (State.RECONCILED_SUCCESS, State.REVIEW_REQUIRED)
    elif how != "once":
        assert end in (State.COMPENSATED, State.FAILED, State.REVIEW_REQUIRED)


def test_the_space_is_the_whole_one() -> None:
    faults = every_fault()
    assert len(faults) == len(STEPS) * len(FAULTS) + len(REVERSIBLE) * len(UNDO_FAULTS)
    same_place = len(STEPS) * len(FAULTS) * (len(FAULTS) - 1) // 2
    same_undo = len(REVERSIBLE) * len(UNDO_FAULTS) * (len(UNDO_FAULTS) - 1) // 2
    pairs = len(faults) * (len(faults) - 1) // 2 - same_place - same_undo
    assert len(CASES) == 1 + len(faults) + pairs
