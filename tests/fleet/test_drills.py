"""Drills of a fleet: whatever is killed, cut off or set apart, what clients saw agrees with what is there.

One short round of each in `make test`; many in `make crash`; `make soak` goes on for ten minutes.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from readback.testing.postgres_server import PostgresPair
from tests.fleet.checker import check
from tests.fleet.drill import Drill, told
from tests.fleet.members import may_be_apart
from tests.postgres import SETTINGS, url_of

pytestmark = pytest.mark.slow
SEED = 7
ROUNDS = max(1, int(os.environ.get("READBACK_CRASH_ROUNDS", "1")))
SOAK_S = float(os.environ.get("READBACK_SOAK_SECONDS", "0"))
FAULTS = ("kill_worker", "cut", "kill_caller", "kill_sequencer", "silence", "slow", "kill_database")
SKEW_US = 3_000_000
"""So far apart are clocks: a due time that one writes is as much too late for another."""
MEMORY = Path("/dev/shm")


@contextmanager
def _folder() -> Iterator[Path]:
    """Short, since the names of sockets may not be long; a killed process leaves there what it would on a disk."""
    path = Path(tempfile.mkdtemp(prefix="readback-fleet-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
    yield path
    shutil.rmtree(path)  # not where the drill failed: its processes' words are there


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresPair]:
    """A server of these drills' own: it is killed, too. It syncs what it says is durable."""
    with PostgresPair(standby=False, settings=SETTINGS + "\nfsync = on\n") as made:
        yield made


_schemas = itertools.count(1)


def _on_postgres(server: PostgresPair) -> Callable[[Path | None], str]:
    schema = f"fleet_{next(_schemas)}"

    def url(home: Path | None) -> str:
        return url_of(server, schema).replace(str(server.home), str(home or server.home))

    return url


def _well(drill: Drill, **how: object) -> None:
    found = drill.run(**how)  # type: ignore[arg-type]
    assert check(found) == [], (drill.seed, drill.done, told(found), drill.folder)
    assert found.heads, "nobody saw a checkpoint"
    assert {line.op for line in found.lines} == {action.op for action in found.actions}


@pytest.mark.requirement("DRILL-fleet")
def test_a_fleet_on_postgresql_loses_doubles_and_misstates_nothing(server: PostgresPair) -> None:
    for seed in range(SEED, SEED + ROUNDS):
        faults = random.Random(seed).sample(FAULTS, len(FAULTS))
        many = seed > SEED
        with _folder() as folder:
            drill = Drill(folder, _on_postgres(server), server, seed)
            _well(drill, callers=2, workers=3 if many else 2, ops=30 if many else 6, faults=faults, skew_us=SKEW_US)


@pytest.mark.requirement("DRILL-fleet")
def test_several_processes_on_one_file_lose_double_and_misstate_nothing() -> None:
    for seed in range(SEED, SEED + ROUNDS):
        with _folder() as folder:
            drill = Drill(folder, lambda _home, folder=folder: f"sqlite:///{folder}/ledger.db", None, seed)  # type: ignore[misc]
            _well(drill, callers=2, workers=1, ops=6, faults=("kill_worker", "kill_caller"), skew_us=0)


def _hosts_that_hear_of_each_other_by_heartbeats_alone_lose_nothing_either(server: PostgresPair) -> None:
    """In namespaces of their own, where the machine lets them; for a number of rounds, or for so many seconds."""
    apart = may_be_apart()
    until = time.monotonic() + SOAK_S
    for seed in itertools.count(1_000):
        faults = random.Random(seed).choices(FAULTS, k=2 * len(FAULTS))
        with _folder() as folder:
            drill = Drill(folder, _on_postgres(server), server, seed)
            _well(drill, callers=3, workers=3, ops=40, faults=faults, apart=apart, skew_us=SKEW_US)
        if time.monotonic() >= until and (SOAK_S or seed >= 1_000 + ROUNDS // 5):
            break


if ROUNDS > 1 or SOAK_S:  # a dead process is seen to be dead only after its heartbeats' timeout: no test for every day
    test_hosts = _hosts_that_hear_of_each_other_by_heartbeats_alone_lose_nothing_either
