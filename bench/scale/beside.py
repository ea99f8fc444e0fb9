"""What a second process adds, and a third: several on one PostgreSQL, each with 256 actions in flight.

`measured_beside` starts them, lets them begin at one moment, and adds up their processors' time and the server's; this
file is also the program of one of them. Everybody shares this machine's cores: what is compared is the time at work.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

from bench.scale.database import StaysOpen
from bench.scale.filling import US, filled
from bench.scale.records import Beside
from bench.side_by_side.postgres import PostgresServer
from readback import bootstrap
from readback.canon.frozen import dataclass

WARM: Final = 256
ROUNDS: Final = 3
LIMIT_S: Final = 300.0
TIMES: Final = ("elapsed_us", "client_cpu_us", "server_cpu_us")
ROOT: Final = Path(__file__).resolve().parents[2]


def measured_beside(
    folder: Path, numbers: Sequence[int], actions: int, progress: Callable[[str], None], rounds: int = ROUNDS
) -> tuple[Beside, ...]:
    """So many processes, each with so many actions; the median of rounds in which each number has its turn."""
    found: dict[int, list[Beside]] = {number: [] for number in numbers}
    with PostgresServer(folder) as server:
        for turn in range(rounds):
            for number in numbers:
                progress(f"{number} processes on one PostgreSQL, round {turn + 1} of {rounds}")
                found[number].append(_once(server, f"beside{number}x{turn}", number, actions))
    return tuple(_typical(each) for each in found.values())


def _typical(found: Sequence[Beside]) -> Beside:
    first = found[0]
    return Beside(
        first.processes, first.actions, *(round(median(getattr(each, name) for each in found)) for name in TIMES)
    )


def _once(server: PostgresServer, name: str, number: int, actions: int) -> Beside:
    url = server.create(name)
    bootstrap.store(url).close()
    with running(url, number, actions) as group:
        busy, began = server.cpu_s(), time.monotonic()
        told = group.go()
        elapsed, busy = time.monotonic() - began, server.cpu_s() - busy
    return Beside(number, number * actions, round(elapsed * US), sum(told), round(busy * US))


@dataclass(frozen=True, slots=True)
class Group:
    """Processes that have opened one ledger and wait for the word to begin."""

    processes: tuple[subprocess.Popen[str], ...]

    def go(self) -> list[int]:
        """Let all of them begin, and wait until each is done: the processor time of each, in microseconds."""
        for process in self.processes:
            _say(process, "go")
        return [json.loads(_heard(process)) for process in self.processes]


@contextmanager
def running(url: str, number: int, actions: int) -> Iterator[Group]:
    """So many processes, warm; each ends when the block does."""
    program = [sys.executable, "-m", "bench.scale.beside", url]
    started = tuple(
        subprocess.Popen(
            [*program, str(place), str(actions)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for place in range(number)
    )
    try:
        for process in started:
            _expect(process, "warm")
        yield Group(started)
        for process in started:
            _say(process, "end")
            if process.wait(LIMIT_S):
                raise RuntimeError(f"a process ended with {process.returncode}")
    finally:
        for process in started:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()


def _say(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()


def _heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"a process ended with {process.wait(LIMIT_S)}")
    return line.strip()


def _expect(process: subprocess.Popen[str], word: str) -> None:
    if (said := _heard(process)) != word:
        raise RuntimeError(f"a process said {said!r} in place of {word!r}")


# --- one of them ---


def _cpu_us() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return round((used.ru_utime + used.ru_stime) * US)


def _work(url: str, place: int, actions: int) -> None:
    """Its own part of the names. The store stays open, so that what the server does for it is in its processes."""
    store, first = bootstrap.store(url), place * (WARM + actions)
    kept = StaysOpen(store).as_store()
    asyncio.run(filled(url, WARM, False, first, kept))
    print("warm", flush=True)
    sys.stdin.readline()
    busy = _cpu_us()
    asyncio.run(filled(url, actions, False, first + WARM, kept))
    print(json.dumps(_cpu_us() - busy), flush=True)
    sys.stdin.readline()
    store.close()


if __name__ == "__main__":
    _work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
