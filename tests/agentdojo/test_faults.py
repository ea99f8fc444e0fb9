"""Faults between tools and state: whatever a tool says, nothing untrue is told, and nothing knowable is left untold.

Every call of the ground truths that changes something meets every fault that can happen to it. What is told, at once
and until nothing can land any more, is held against the whole state, compared with what the arguments ask for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from readback.domain.state import State
from tests.agentdojo import loader, replay
from tests.agentdojo.faults import FAULTS, HONEST, Fault
from tests.agentdojo.test_honest import NO_OPS

UNTOLD = {("late after the window", "update_password")}
"""True in the end and never told. A password is redacted, so whoever goes on later no longer knows what to look for."""


@pytest.fixture(scope="module")
def stages(suites: dict[str, loader.Suite]) -> list[tuple[replay.Stage, list[replay.Call]]]:
    return [(replay.Stage(suite), replay.distinct(suite)) for suite in suites.values()]


@pytest.mark.parametrize("fault", [HONEST, *FAULTS], ids=lambda fault: fault.name)
@pytest.mark.requirement("L32")
def test_no_lie_is_told(
    stages: list[tuple[replay.Stage, list[replay.Call]]], fault: Fault, record_property: Callable[[str, object], None]
) -> None:
    counts: Counter[str] = Counter()
    faults_of_ours: list[str] = []
    for stage, calls in stages:
        for call in calls:
            if not stage.applies(call, fault):
                continue
            said = stage.run(call, fault)
            counts["calls"] += 1
            counts["tool claims"] += bool(said[0].outcome.observation and said[0].outcome.observation.claims_success)
            counts["true at once"] += said[0].is_true
            counts["told done at once"] += said[0].outcome.verified
            counts["true in the end"] += said[-1].is_true
            counts["told done in the end"] += said[-1].outcome.verified
            counts["told failed"] += said[-1].outcome.state is State.FAILED
            counts["held or unknown"] += said[-1].outcome.state in (State.REVIEW_REQUIRED, State.UNKNOWN)
            lies = [told.lies for told in said if told.lies]
            counts["lies"] += bool(lies)
            faults_of_ours += [f"{call.name}: {lie}" for lie in lies]
            untold = fault.lands and not said[-1].outcome.verified
            nonsense = fault.name == "writes, says nonsense" and call.name in NO_OPS
            silent = nonsense or (fault.name, call.tool) in UNTOLD
            if untold is not silent:  # the text of an error where there was nothing to change is no success
                faults_of_ours.append(f"{call.name}: {'true and not told' if untold else 'told, against UNTOLD'}")
    record_property("agentdojo", {"fault": fault.name, **counts})
    assert counts["calls"] > 0
    assert faults_of_ours == []


def test_a_naive_agent_would_have_told_many(stages: list[tuple[replay.Stage, list[replay.Call]]]) -> None:
    """The faults are worth something: most of these answers claim a success that is none."""
    claimed = 0
    silent = [fault for fault in FAULTS if not fault.lands]
    for fault in silent[:1]:
        for stage, calls in stages:
            for call in calls:
                told = stage.run(call, fault)[0]
                seen = told.outcome.observation
                claimed += seen is not None and seen.claims_success and not told.is_true
    assert claimed > 50
