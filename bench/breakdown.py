"""Where the time of an action goes: `python -m bench.breakdown`, which also keeps the page `docs/performance.md`.

A sampling profiler: each millisecond of processor time that this process uses, a signal looks at what the main thread
is doing, and adds to that place the time that the kernel says the thread has had since the last look. What Readback
calls (SQLite, the expression engine, JSON, hashes) counts where Readback calls it. Other threads count as a whole: the
signal comes where they let the main thread run, and not where they work. What is left of the wall is waiting: for the
disk, for the database, and for other programs.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from bench.side_by_side.environments import ROOT
from bench.side_by_side.machine import described, warning
from bench.side_by_side.page import keep, table
from bench.side_by_side.postgres import PostgresServer
from readback import AsyncReadback, Readback
from readback.bench import workload

PAGE: Final = ROOT / "docs" / "performance.md"
PACKAGE: Final = str(ROOT / "src" / "readback") + "/"
TICK_S: Final = 0.001
SEQUENTIAL, IN_FLIGHT, WARM, WIDTH = 1_500, 6_144, 512, 256
MODULES_SHOWN: Final = 14
LOOP: Final = "the event loop"
MAIN: Final = "main thread"
PARTS: Final[Sequence[tuple[str, str]]] = (
    ("stores/", "the store: rows and statements; one after another, its commits"),
    ("adapters/cel/", "postconditions: the expression engine"),
    ("adapters/", "clock, ids, other adapters"),
    ("canon", "canonical JSON, digests, limits"),
    ("log/", "leaf hashes"),
    ("domain/", "values and decision tables"),
    ("engine/", "the stages and their order"),
    ("contracts/", "contracts"),
    ("readback-writer", "the writer's thread: rows, statements, commits"),
    ("readback-sequencer", "the sequencer's thread: places in the log"),
    ("readback-", "other threads"),
    ("client/", "clients"),
    ("drivers/", "drivers"),
    ("bench/", "the tool and the reader that are measured"),
)
"""By the beginning of a module's path, or of a thread's name, the first that fits: what it is, in words."""


@dataclass
class Breakdown:
    """`by_module`: nanoseconds of processor time by module of the main thread, or by thread; `by_thread`: by thread."""

    actions: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    by_module: Counter[str] = field(default_factory=Counter)
    by_thread: Counter[str] = field(default_factory=Counter)


class Sampler:
    """The profiler. Only for the main thread of a process that has nothing else on SIGPROF."""

    def __init__(self, found: Breakdown) -> None:
        self._found = found
        self._had: dict[int, int] = {}

    def look(self, _signal: int, frame: FrameType | None) -> None:
        """Called by the signal: whoever had the processor gets its time."""
        for thread in threading.enumerate():
            had = _thread_ns(thread.native_id)
            used = had - self._had.get(thread.ident or 0, had)
            self._had[thread.ident or 0] = had
            if used:
                role = _role(thread)
                self._found.by_module[_module(frame) if role == MAIN else role] += used
                self._found.by_thread[role] += used

    @contextmanager
    def looking(self, actions: int) -> Iterator[None]:
        """Looks while the block runs, in which so many actions are made."""
        gc.collect()
        before = signal.signal(signal.SIGPROF, self.look)
        self.look(0, None)
        self._found.by_module.clear()
        self._found.by_thread.clear()
        busy, began = time.process_time(), time.perf_counter()
        signal.setitimer(signal.ITIMER_PROF, TICK_S, TICK_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)
        self._found.wall_s, self._found.cpu_s = time.perf_counter() - began, time.process_time() - busy
        self._found.actions = actions


def _thread_ns(native_id: int | None) -> int:
    """The processor time of one thread, by the kernel's own count."""
    try:
        return int(Path(f"/proc/self/task/{native_id}/schedstat").read_text().split()[0])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _module(frame: FrameType | None) -> str:
    """The innermost module of Readback that is at work there."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(PACKAGE):
            return name.removeprefix(PACKAGE).removesuffix(".py")
        frame = frame.f_back
    return LOOP


def _role(thread: threading.Thread) -> str:
    """The main thread, or others of one kind together."""
    return MAIN if thread is threading.main_thread() else thread.name.rstrip("0123456789").rstrip("_-")


def sequential(url: str) -> Breakdown:
    """One action after another, sync client."""
    found = Breakdown()
    with Readback.open(url, tenant=workload.TENANT, principal=workload.PRINCIPAL) as rb:

        def work(word: str, actions: int) -> None:
            for n in range(actions):
                name = f"{word}-{n}"
                outcome = rb.run(workload.ship_sync(order_id=name, carrier="dhl"), operation=name)
                outcome.raise_unless_verified()

        work("warm", WARM)
        with Sampler(found).looking(SEQUENTIAL):
            work("one", SEQUENTIAL)
    return found


def in_flight(url: str) -> Breakdown:
    """Many at once, async client."""
    return asyncio.run(_in_flight(url))


async def _in_flight(url: str) -> Breakdown:
    found = Breakdown()
    async with AsyncReadback.open(url, tenant=workload.TENANT, principal=workload.PRINCIPAL) as rb:

        async def work(word: str, actions: int) -> None:
            names = iter(range(actions))

            async def one_after_another() -> None:
                for n in names:
                    name = f"{word}-{n}"
                    outcome = await rb.run(workload.ship_async(order_id=name, carrier="dhl"), operation=name)
                    outcome.raise_unless_verified()

            await asyncio.gather(*(one_after_another() for _ in range(WIDTH)))

        await work("warm", WARM)
        with Sampler(found).looking(IN_FLIGHT):
            await work("many", IN_FLIGHT)
    return found


def shown(found: Mapping[str, Breakdown], machine: Mapping[str, str], warned: str = "") -> str:
    """The tables, as Markdown: microseconds an action. `warned`: stands above them."""
    names = list(found)
    each = {name: _by_part(one) for name, one in found.items()}
    parts = [what for _, what in PARTS if any(each[name].get(what) for name in names)] + [LOOP]
    rows = [(what, *(_us(each[name].get(what, 0), found[name]) for name in names)) for what in parts]
    walls = ("the whole, by the clock", *(f"{1e6 * one.wall_s / one.actions:,.0f}" for one in found.values()))
    busy = ("of it at work, on all threads", *(f"{1e6 * one.cpu_s / one.actions:,.0f}" for one in found.values()))
    sections = [warned] if warned else []
    sections += [
        "### The machine",
        table(("", ""), list(machine.items())),
        "### Microseconds an action",
        table(("", *names), [walls, busy]),
        "### What it is at work on, microseconds an action",
        table(("", *names), rows),
    ]
    for name, one in found.items():
        threads = ", ".join(f"{role} {_us(ns, one)}" for role, ns in one.by_thread.most_common() if ns)
        sections += [f"### The modules: {name}", f"By thread, µs: {threads}.", table(("module", "µs"), _modules(one))]
    return "\n\n".join(sections) + "\n"


def _by_part(found: Breakdown) -> Counter[str]:
    """The modules' times by what they are in words."""
    parts: Counter[str] = Counter()
    for module, ns in found.by_module.items():
        parts[next((what for start, what in PARTS if module.startswith(start)), LOOP)] += ns
    return parts


def _modules(found: Breakdown) -> list[tuple[str, str]]:
    named = [(name, ns) for name, ns in found.by_module.most_common() if "/" in name or name.isidentifier()]
    return [(f"`{name}`", _us(ns, found)) for name, ns in named[:MODULES_SHOWN]]


def _us(ns: int, found: Breakdown) -> str:
    return f"{ns / 1000 / found.actions:,.0f}"


def main() -> int:
    """Measures, prints, and keeps the page."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="readback-bench-", dir="."))).absolute()
        folder.chmod(0o755)  # PostgreSQL may run as somebody else
        machine, warned = described(folder), warning()
        server = stack.enter_context(PostgresServer(folder))
        measures: dict[str, Callable[[], Breakdown]] = {
            "one after another, SQLite": lambda: sequential(f"sqlite:///{folder / 'one.db'}"),
            f"{WIDTH} in flight, SQLite": lambda: in_flight(f"sqlite:///{folder / 'many.db'}"),
            f"{WIDTH} in flight, PostgreSQL": lambda: in_flight(server.create("many")),
        }
        found = {}
        for name, measure in measures.items():
            sys.stderr.write(f"measuring: {name}\n")
            found[name] = measure()
    text = shown(found, machine, warned)
    print(text)
    keep(PAGE, text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
