"""How a program is measured: it is told over its standard input to work for a slice of time, and answers with figures.

`serve_threads` is for programs whose calls wait, `serve_tasks` for programs of coroutines, each as is natural to it;
`serve_batches` for the floors, which write as many copies to a commit as are in flight. Commands and answers are one
line of JSON each.

    {"slice": "s1", "width": 16, "seconds": 1.0}  ->  {"done": 812, "wall_s": 1.0, "cpu_s": 0.9, "took_us": [...]}
    {"end": true}                                 ->  {"peak_mb": 61.2}

Started as `python -m bench.against.NAME URL measure`, `... interrupt ORDER FILE` or `... recover ORDER FILE`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import resource
import sqlite3
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, closing
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from bench.against.work import KeptOrders, Orders

KIB: Final = 1024


class Sync(NamedTuple):
    """A program whose calls wait. `settings`: what it found its store to promise. `recover`: settles what was left."""

    act: Callable[[str], None]
    recover: Callable[[str], None]
    settings: dict[str, Any]


class Async(NamedTuple):
    """The same, of coroutines."""

    act: Callable[[str], Awaitable[None]]
    recover: Callable[[str], Awaitable[None]]
    settings: dict[str, Any]


class Batched(NamedTuple):
    """A floor: writes what is durable of so many actions, in their two commits."""

    write: Callable[[list[str]], None]
    settings: dict[str, Any]


class Slice(NamedTuple):
    """One command: so many in flight for so long; a slot takes its last action before the time is over."""

    name: str
    width: int
    seconds: float


def serve_threads(opened: Callable[[str, Orders], AbstractContextManager[Sync]]) -> None:
    """Serves a program of waiting calls, one thread for each action in flight."""
    url, orders = _started()
    with opened(url, orders) as program:
        if sys.argv[2] == "measure":
            _say({"ready": True, "settings": program.settings})
            for part in _commands():
                _say(_threaded(program.act, part))
            _say(_peak())
        else:
            {"interrupt": program.act, "recover": program.recover}[sys.argv[2]](sys.argv[3])
            _say({"settled": sys.argv[3]})


def serve_tasks(opened: Callable[[str, Orders], AbstractAsyncContextManager[Async]]) -> None:
    """Serves a program of coroutines, all in one loop."""
    asyncio.run(_tasks(opened))


def serve_batches(opened: Callable[[str], AbstractContextManager[Batched]]) -> None:
    """Serves a floor. It has nothing to be interrupted in."""
    with opened(sys.argv[1]) as program:
        _say({"ready": True, "settings": program.settings})
        for part in _commands():
            _say(_batched(program.write, part))
        _say(_peak())


async def _tasks(opened: Callable[[str, Orders], AbstractAsyncContextManager[Async]]) -> None:
    url, orders = _started()
    async with opened(url, orders) as program:
        if sys.argv[2] == "measure":
            _say({"ready": True, "settings": program.settings})
            async for part in _commands_beside():
                _say(await _tasked(program.act, part))
            _say(_peak())
        else:
            await {"interrupt": program.act, "recover": program.recover}[sys.argv[2]](sys.argv[3])
            _say({"settled": sys.argv[3]})


def _started() -> tuple[str, Orders]:
    url, mode = sys.argv[1:3]
    if mode == "measure":
        return url, Orders()
    return url, KeptOrders(Path(sys.argv[4]), stop=mode == "interrupt")


def _commands() -> Iterator[Slice]:
    for line in sys.stdin:
        command = json.loads(line)
        if "end" in command:
            return
        yield Slice(command["slice"], command["width"], command["seconds"])


async def _commands_beside() -> AsyncIterator[Slice]:
    """The same, waited for beside the loop, whose background work goes on."""
    commands = _commands()
    while True:
        part = await asyncio.to_thread(next, commands, None)
        if part is None:
            return
        yield part


def _threaded(act: Callable[[str], None], part: Slice) -> dict[str, Any]:
    names, took, faults = itertools.count(), list[int](), list[BaseException]()

    def slot() -> None:
        try:
            while True:
                name = f"{part.name}-{next(names)}"
                started = time.perf_counter_ns()
                act(name)
                took.append((time.perf_counter_ns() - started) // 1000)
                if time.perf_counter() >= until:
                    return
        except BaseException as fault:
            faults.append(fault)
            raise

    slots = [threading.Thread(target=slot) for _ in range(part.width)]
    busy, began = time.process_time(), time.perf_counter()
    until = began + part.seconds
    for each in slots:
        each.start()
    for each in slots:
        each.join()
    answer = _answer(began, busy, took)
    if faults:
        _stop(faults[0])
    return answer


async def _tasked(act: Callable[[str], Awaitable[None]], part: Slice) -> dict[str, Any]:
    names, took = itertools.count(), list[int]()

    async def slot() -> None:
        while True:
            name = f"{part.name}-{next(names)}"
            started = time.perf_counter_ns()
            await act(name)
            took.append((time.perf_counter_ns() - started) // 1000)
            if time.perf_counter() >= until:
                return

    busy, began = time.process_time(), time.perf_counter()
    until = began + part.seconds
    await asyncio.gather(*(slot() for _ in range(part.width)))
    return _answer(began, busy, took)


def _batched(write: Callable[[list[str]], None], part: Slice) -> dict[str, Any]:
    names, took = itertools.count(), list[int]()
    busy, began = time.process_time(), time.perf_counter()
    while True:
        started = time.perf_counter_ns()
        write([f"{part.name}-{next(names)}" for _ in range(part.width)])
        took += [(time.perf_counter_ns() - started) // 1000] * part.width
        if time.perf_counter() >= began + part.seconds:
            return _answer(began, busy, took)


def _answer(began: float, busy: float, took: list[int]) -> dict[str, Any]:
    wall, cpu = time.perf_counter() - began, time.process_time() - busy
    return {"done": len(took), "wall_s": wall, "cpu_s": cpu, "took_us": took}


def _peak() -> dict[str, Any]:
    return {"peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB, 1)}


def _stop(fault: BaseException) -> NoReturn:
    raise SystemExit(f"a slot failed: {fault!r}")


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def sqlite_path(url: str) -> str:
    """The file of `sqlite:////absolute/file.db`."""
    return url.removeprefix("sqlite:///")


def sqlite_settings(url: str, connection: sqlite3.Connection | None = None) -> dict[str, Any]:
    """What a program's SQLite promises: asked of its own connection, where it shows one; nothing for other stores.

    `journal_mode` belongs to the file; `synchronous` to the connection, and is FULL (2) where nobody changes it. Only
    for programs that use Python's SQLite themselves: a second library in a process takes the first one's locks away.
    """
    if not url.startswith("sqlite"):
        return {}
    with closing(sqlite3.connect(sqlite_path(url))) as own:
        asked = connection or own
        return {name: asked.execute(f"pragma {name}").fetchone()[0] for name in ("journal_mode", "synchronous")}
