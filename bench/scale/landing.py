"""Simulated: how often an action is looked at until what it did is there, and how long it waits for that.

The schedule is the engine's own function over a real contract; only when an effect lands is drawn. One seed.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from readback.domain.action.action import Action
from readback.domain.contract.contract import Contract
from readback.engine.schedule import first_look_due, poll_due, timing

SEED: Final = 20
SIMULATED: Final = 20_000
LOOKS_MAX: Final = 64
US: Final = 1_000_000
SLICE_US: Final = US // 10


@dataclass(frozen=True, slots=True)
class Landing:
    """When effects land. `late`: the share that is not there when the tool answers; these take `median_s`, spread as a
    logarithm is (`sigma`).
    """

    name: str
    late: float
    median_s: float
    sigma: float
    within_s: int = 10
    """How long the contract gives it: its window, and its deadline."""


LANDINGS: Final = (
    Landing("at once", 0.0, 1.0, 0.0),
    Landing("one in ten late, about 1 s", 0.1, 1.0, 1.0),
    Landing("every one late, about 1 s", 1.0, 1.0, 1.0),
    Landing("every one late, about 60 s", 1.0, 60.0, 1.0, within_s=900),
)


@dataclass(frozen=True, slots=True)
class Looked:
    """What a simulation came to. Times in seconds, from the tool's answer."""

    landing: Landing
    looks: float
    """Of an action, on average; the first one is one."""
    waited_s: float
    """On average, of all actions."""
    waited_p99_s: float
    open: float
    """The share that had not landed by the contract's deadline."""
    peak: float
    """The fullest tenth of a second of looks, as a multiple of the average one, at an even stream of actions."""


def simulate(contract: Contract, landing: Landing, actions: int = SIMULATED) -> Looked:
    """Everybody's looks, one action after another: none of them bears on another."""
    chance = random.Random(f"{SEED}/{landing.name}")
    contract = replace(contract, within_us=landing.within_s * US, deadline_us=landing.within_s * US)
    looks, waits, late = 0, [], 0
    seen: Counter[int] = Counter()
    for number in range(actions):
        landed_us = 0
        if chance.random() < landing.late:
            landed_us = round(US * landing.median_s * math.exp(chance.gauss(0, landing.sigma)))
        moments, in_time = _looks(contract, f"{number:032x}", landed_us)
        looks += len(moments)
        waits.append(moments[-1])
        late += not in_time
        # A thousand a second, evenly: the spread of the looks is the schedule's own.
        seen.update((number * (US // 1_000) + at_us) // SLICE_US for at_us in moments)
    waits.sort()
    in_order = [seen[slice_] for slice_ in sorted(seen)]
    whole = in_order[len(seen) // 4 : -len(seen) // 4] or [1]  # not the beginning, not the end
    return Looked(
        landing,
        looks / actions,
        sum(waits) / actions / US,
        waits[actions * 99 // 100] / US,
        late / actions,
        max(whole) / (sum(whole) / len(whole)),
    )


def _looks(contract: Contract, stamp: str, landed_us: int) -> tuple[list[int], bool]:
    """When it is looked at, until it is there or the contract's deadline has passed."""
    action = Action("", "", stamp=stamp)
    times = timing(contract, action, ended_by_itself=True)
    now_us = first_look_due(contract, stamp, 0) or 0
    moments = [now_us]
    while landed_us > now_us < times.deadline_us and len(moments) < LOOKS_MAX:
        now_us = poll_due(contract, action, times, now_us)
        action.polls += 1
        moments.append(now_us)
    return moments, landed_us <= now_us
