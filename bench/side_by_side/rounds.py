"""The rounds: every program works a slice, in turns, so that whatever the machine does meets them all alike."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.side_by_side.contenders import CLAIM, Contender
from bench.side_by_side.environments import python_of
from bench.side_by_side.machine import flushes
from bench.side_by_side.peer import Peer, PeerError, Recovery, recovery
from bench.side_by_side.postgres import PostgresServer

WIDTHS: Final = (1, 16, 256)
ROUNDS: Final = 3
SLICE_S: Final = {1: 0.6, 16: 1.0, 256: 1.0}
WARM_S: Final = 0.6
Progress = Callable[[str], None]


@dataclass
class Flight:
    """What was seen at one width, a figure for each slice; `took_us` of all together."""

    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    server_us: list[float] = field(default_factory=list)
    flushes: list[float] = field(default_factory=list)
    took_us: list[int] = field(default_factory=list)


@dataclass
class Figures:
    """All that was seen of one program."""

    contender: Contender
    flights: dict[int, Flight] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    actions: int = 0
    bytes_each: float = 0.0
    peak_mb: float = 0.0
    recovered: Recovery | None = None


class Running:
    """A program at work, with its store."""

    def __init__(self, contender: Contender, folder: Path, server: PostgresServer | None, progress: Progress) -> None:
        self.figures = Figures(contender, {width: Flight() for width in WIDTHS})
        self._server = server if contender.store == "postgres" else None
        self._folder = folder / contender.name
        self._folder.mkdir()
        self._python = python_of(contender.environment, progress)
        self._url = self._place("ledger")
        self._peer = Peer(self._python, contender.program, self._url, "measure", errors=self._folder / "measure.err")
        self.figures.settings = self._peer.answer()["settings"]
        self._bytes_before = self._bytes()

    def _place(self, name: str) -> str:
        """A new place for a store of its kind."""
        if self._server is not None:
            return self._server.create(f"{self.figures.contender.name}-{name}")
        path = self._folder / f"{name}.db"
        if self.figures.contender.wal:
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("pragma journal_mode = wal")
        return f"sqlite:///{path}"

    def work(self, part: str, width: int, seconds: float, *, keep: bool = True) -> float:
        """One slice; its rate. `keep`: it counts."""
        server_before, flushes_before = self._server.cpu_s() if self._server else 0.0, flushes(self._folder)
        found = self._peer.ask(slice=part, width=width, seconds=seconds)
        server_after, flushes_after = self._server.cpu_s() if self._server else 0.0, flushes(self._folder)
        done = found["done"]
        self.figures.actions += done
        if keep:
            flight = self.figures.flights[width]
            flight.rates.append(done / found["wall_s"])
            flight.cpu_us.append(found["cpu_s"] / done * 1e6)
            flight.server_us.append((server_after - server_before) / done * 1e6)
            flight.took_us += found["took_us"]
            if flushes_before is not None and flushes_after is not None:
                flight.flushes.append((flushes_after - flushes_before) / done)
        return float(done / found["wall_s"])

    def end(self) -> None:
        """Ends it, and looks at what is left on the disk."""
        self.figures.peak_mb = self._peer.end()["peak_mb"]
        self.figures.bytes_each = (self._bytes() - self._bytes_before) / self.figures.actions

    def recover(self) -> None:
        """Its crash, in a store of its own."""
        contender = self.figures.contender
        if contender.recovers:
            self.figures.recovered = recovery(self._python, contender.program, self._place("crash"), self._folder)

    def kill(self) -> None:
        self._peer.kill()

    def _bytes(self) -> int:
        """What its store takes on the disk once everything has moved to its place."""
        if self._server is not None:
            self._server.ask("checkpoint")
            return int(self._server.ask("select pg_database_size(current_database())", self._database()))
        path = Path(self._url.removeprefix("sqlite:///"))
        if self.figures.contender.store == "sqlite":
            with closing(sqlite3.connect(path, timeout=30)) as connection:
                connection.execute("pragma wal_checkpoint(truncate)")
        return sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*"))

    def _database(self) -> str:
        return f"{self.figures.contender.name}-ledger"


def measured(
    contenders: Sequence[Contender], folder: Path, server: PostgresServer | None, progress: Progress
) -> list[Figures]:
    """All rounds of all of them. Who fails ends the run: a table with a gap would be read as one without."""
    with _at_work(contenders, folder, server, progress) as running:
        progress("warming up")
        for each in running:
            each.work("warm", 16, WARM_S, keep=False)
        for number in range(ROUNDS):
            for width in WIDTHS:
                progress(f"round {number + 1} of {ROUNDS}: {width} in flight")
                first = number * len(running) // ROUNDS
                for each in (*running[first:], *running[:first]):
                    each.work(f"{number}-{width}", width, SLICE_S[width])
        for each in running:
            each.end()
        _recover(running, progress)
        return [each.figures for each in running]


def _recover(running: Sequence[Running], progress: Progress) -> None:
    """One after another; those that wait for a claim to run out all together, since they only wait."""
    waiting = [each for each in running if each.figures.contender.promises == CLAIM]
    for each in running:
        if each not in waiting:
            progress(f"kill -9: {each.figures.contender.title}")
            each.recover()
    progress("kill -9: those that wait for a claim to run out")
    with ThreadPoolExecutor(max(1, len(waiting))) as pool:
        list(pool.map(Running.recover, waiting))


@contextmanager
def _at_work(
    contenders: Sequence[Contender], folder: Path, server: PostgresServer | None, progress: Progress
) -> Iterator[list[Running]]:
    with ExitStack() as stack:
        running = []
        for contender in contenders:
            progress(f"starting: {contender.title}")
            try:
                running.append(Running(contender, folder, server, progress))
            except PeerError as fault:
                raise PeerError(f"{contender.title}: {fault}") from fault
            stack.callback(running[-1].kill)
        yield running
