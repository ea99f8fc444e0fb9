"""Workers as real processes on a real PostgreSQL: killed, ended, and of two versions side by side."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from readback import AsyncReadback, Outcome
from readback.audit.checks.ledger import audit
from readback.stores.postgres.store import PostgresStore
from tests.wakeups.program import TENANT, calls
from tests.workers import forks

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_MS = 2_000
GRACE_S = 2.0
PATIENCE_S = 120.0
LOOK_S = 0.05
US = 1_000_000


class Crew:
    """Worker processes on one ledger."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.all: list[subprocess.Popen[str]] = []

    def start(self, name: str = "", version: str = "1", timeout_ms: int = TIMEOUT_MS) -> subprocess.Popen[str]:
        order = [self.url, str(self.folder), name, version, str(timeout_ms)]
        process = forks.start(
            [sys.executable, "-m", "tests.wakeups.program", *order], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        self.all.append(process)
        return process

    def ready(self, some: Sequence[subprocess.Popen[str]] = ()) -> None:
        for process in some or self.all:
            assert process.stdout is not None
            assert process.stdout.readline() == "working\n"

    def stop(self) -> None:
        for process in self.all:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def until(self, said: str, number: int) -> None:
        give_up = time.monotonic() + PATIENCE_S
        while len(calls(self.folder)) < number:
            assert time.monotonic() < give_up, f"{said}: {len(calls(self.folder))} of {number}"
            time.sleep(LOOK_S)


@pytest.fixture
def crew(ledger_url: str, tmp_path: Path) -> Iterator[Crew]:
    made = Crew(ledger_url, tmp_path)
    yield made
    made.stop()


async def submitted(rb: AsyncReadback, number: int) -> list[str]:
    """By name alone: whoever asks knows no contract."""
    return list(await asyncio.gather(*(rb.submit("note", {"op": f"op{n}"}, operation=f"op{n}") for n in range(number))))


async def settled(rb: AsyncReadback, ids: list[str]) -> list[Outcome]:
    return [await rb.wait(each, PATIENCE_S) for each in ids]


def opened(crew: Crew) -> AsyncReadback:
    return AsyncReadback.open(crew.url, tenant=TENANT, principal="agent:caller")


def waited_s(process: subprocess.Popen[str]) -> float:
    """How long its main thread has been ready to run, and had no core: others' work on this machine is not its own."""
    return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[1]) / 1e9


async def known(rb: AsyncReadback, number: int) -> None:
    """So many workers are at work."""
    store = rb._session.store
    assert isinstance(store, PostgresStore)
    give_up = time.monotonic() + PATIENCE_S
    while store._rows("SELECT count(*) FROM wakeup_worker")[0][0] < number:
        assert time.monotonic() < give_up
        await asyncio.sleep(LOOK_S)


def killed_with(crew: Crew, number: int, *, alone: bool = False) -> float:
    """One of three workers dies with its share of so many in flight. How long the last of it took to be continued,
    but for what the machine had no core for them.

    `alone`: it was there first, and has all of them in hand. All are on machines of their own.
    """

    async def go() -> float:
        async with opened(crew) as rb:
            three = [crew.start(f"elsewhere/{n}") for n in range(1 if alone else 3)]
            crew.ready()
            ids = await submitted(rb, number)
            crew.until("in flight", number)
            if alone:
                late = [crew.start(f"elsewhere/{n}") for n in (1, 2)]
                crew.ready(late)
                three += late
            await known(rb, 3)
            store = rb._session.store
            shares = Counter(each[2] for each in calls(crew.folder))
            victim = max(three, key=lambda each: shares[str(each.pid)])
            stamps = {each[1] for each in calls(crew.folder) if each[2] == str(victim.pid)}
            others = [each for each in three if each is not victim]
            before = [waited_s(each) for each in others]
            killed_us = rb._session.runtime.now_us()
            victim.kill()
            while rb._session.store.in_flight(TENANT) > number - len(stamps):  # nobody else gets on meanwhile
                assert rb._session.runtime.now_us() < killed_us + PATIENCE_S * US
                await asyncio.sleep(LOOK_S)
            waited = max(waited_s(each) - then for each, then in zip(others, before, strict=True))
            told = await settled(rb, [each for each in ids if f"rb-{each}" in stamps])
            (crew.folder / "go").touch()
            told += await settled(rb, [each for each in ids if f"rb-{each}" not in stamps])
            assert all(each.verified for each in told)
            done = Counter(each[0] for each in calls(crew.folder))
            assert len(done) == number
            assert set(done.values()) == {1}, "something was done twice"
            continued = []
            for each in told:
                if each.stamp in stamps:
                    entries = [json.loads(entry.envelope) for entry in store.events(each.id)]
                    continued += [entry["at"] for entry in entries if entry["kind"] == "resumed"]
            assert len(continued) == len(stamps)
            assert audit(store).ok
            return float(max(continued) - killed_us) / US - waited

    return asyncio.run(go())


@pytest.mark.requirement("FLEET-dead")
def test_what_a_killed_worker_had_in_hand_is_continued_elsewhere_and_nothing_twice(crew: Crew) -> None:
    took = killed_with(crew, 60)
    assert took <= TIMEOUT_MS / 1000 + GRACE_S


@pytest.mark.requirement("FLEET-dead")
@pytest.mark.slow
@pytest.mark.last  # it is told by the clock, and other tests would take its cores
def test_a_thousand_in_the_hands_of_one_outlive_it(crew: Crew) -> None:
    took = killed_with(crew, 1_000, alone=True)
    assert took <= TIMEOUT_MS / 1000 + GRACE_S


@pytest.mark.requirement("FLEET-dead")
def test_a_worker_that_is_asked_to_end_finishes_what_it_has_and_leaves_the_rest(crew: Crew) -> None:
    async def go() -> None:
        async with opened(crew) as rb:
            one, other = crew.start(), crew.start()
            crew.ready()
            ids = await submitted(rb, 20)
            crew.until("in flight", 20)
            one.send_signal(signal.SIGTERM)
            (crew.folder / "go").touch()
            assert await asyncio.to_thread(one.wait, PATIENCE_S) == 0
            more = [await rb.submit("note", {"op": "last"}, operation="last")]
            told = await settled(rb, ids + more)
            assert all(each.verified for each in told)
            assert calls(crew.folder)[-1][2] == str(other.pid)
            assert set(Counter(each[0] for each in calls(crew.folder)).values()) == {1}
            kinds = [event.kind for each in told for event in rb._session.store.events(each.id)]
            assert "resumed" not in kinds, "what was in hand was finished by who had it"

    asyncio.run(go())


@pytest.mark.requirement("FLEET-versions")
def test_two_versions_of_a_contract_work_side_by_side_and_each_keeps_its_own(crew: Crew) -> None:
    async def go() -> None:
        from tests.wakeups.program import note_of

        old, new = note_of(crew.folder, "1"), note_of(crew.folder, "2")
        async with opened(crew) as rb:
            crew.start(version="1"), crew.start(version="2")
            crew.ready()
            (crew.folder / "go").touch()
            ids = [
                await rb.submit((old if n % 2 else new)(op=f"{1 + (n + 1) % 2}-{n}"), operation=f"op{n}")
                for n in range(12)
            ]
        async with opened(crew) as rb:  # who knows no contract leaves all of it to the workers
            told = await settled(rb, ids)
        assert all(each.verified for each in told), [(each.state, each.detail) for each in told if not each.verified]
        assert {(op[0], version) for op, _, _, version in calls(crew.folder)} == {("1", "1"), ("2", "2")}

    asyncio.run(go())
