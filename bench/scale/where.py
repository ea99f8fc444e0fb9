"""Where the time goes when several processes work on one PostgreSQL: processors, waits of the server, and the rest.

Run it as a program: `python -m bench.scale.where`. It starts the processes of `bench.scale.beside`, reads the kernel's
account of every process before and after, and samples what each session of the server waits for. Each round measures
every number of processes once, so that the figures of one round compare under the same load of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Final

from bench.scale.beside import running
from bench.side_by_side.postgres import PostgresServer
from readback import bootstrap
from readback.canon.frozen import dataclass

US: Final = 1_000_000
NS: Final = 1_000_000_000
TICKS: Final = os.sysconf("SC_CLK_TCK")
SAMPLED_EACH_S: Final = 0.02
SESSIONS: Final = (
    "SELECT backend_type, state, coalesce(wait_event_type, ''), coalesce(wait_event, ''), left(query, 40)"
    " FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND (datname = %s OR backend_type = 'walwriter')"
)
WORK: Final = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
"""Counts transactions that write. The server's statistics would lag by a second behind a short run."""


@dataclass(frozen=True, slots=True)
class Account:
    """Processor time in seconds: of the clients' main threads, of their other threads, of the server, of all there is.

    `queued`: how long the main threads were ready and had no core. `others`: what processes that are no part of the
    measurement used. `idle`: what no process used.
    """

    elapsed: float
    main: float
    threads: float
    queued: float
    server: float
    others: float
    idle: float
    commits: int
    waits: Counter[str]


class Sampler(threading.Thread):
    """Looks at the server's sessions until it is stopped. `waits`: sessions seen, by what each was at."""

    def __init__(self, server: PostgresServer, database: str) -> None:
        super().__init__(daemon=True)
        self._url, self._database = server.url(), database
        self._ended = threading.Event()
        self.waits: Counter[str] = Counter()
        self.looks = 0

    def run(self) -> None:
        import psycopg

        with closing(psycopg.connect(self._url, autocommit=True)) as connection:
            while not self._ended.wait(SAMPLED_EACH_S):
                self.looks += 1
                for kind, state, wait_type, wait, query in connection.execute(SESSIONS, (self._database,)):
                    self.waits[_named(str(kind), str(state), wait_type, wait, str(query))] += 1

    def stop(self) -> None:
        self._ended.set()
        self.join()


def _named(kind: str, state: str, wait_type: str, wait: str, query: str) -> str:
    """What a session is at, in a few words."""
    if kind == "walwriter":
        return "" if wait_type == "Activity" else f"walwriter: {wait or 'at work'}"
    if state == "idle":
        return ""
    if state == "idle in transaction":
        return "in a transaction, waits for its client"
    if wait == "ClientRead":
        return "in a statement, waits for its client"
    at = "commit" if query.lstrip().upper().startswith("COMMIT") else "statement"
    return f"{at}: {wait_type}/{wait}" if wait else f"{at}: at work"


def _machine() -> tuple[float, float]:
    """Seconds that all cores were at work, and were idle."""
    fields = [int(each) for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / TICKS, idle / TICKS


def _process(pid: int) -> tuple[float, float, float]:
    """Seconds of a process's main thread, of its other threads (ended ones too), and of the first's wait for a core."""
    whole = sum(_stat(Path(f"/proc/{pid}/stat")))
    first, queued, _ = (int(each) for each in Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split())
    return first / NS, whole - first / NS, queued / NS


def _stat(place: Path) -> tuple[float, float]:
    """Seconds in the program, and in the kernel for it."""
    after = place.read_text().rpartition(")")[2].split()
    return int(after[11]) / TICKS, int(after[12]) / TICKS


def account(server: PostgresServer, name: str, number: int, actions: int) -> Account:
    """So many processes once, with what the machine, the server and they themselves used meanwhile."""
    url = server.create(name)
    bootstrap.store(url).close()
    sampler = Sampler(server, name)
    with running(url, number, actions) as group:
        pids = [process.pid for process in group.processes]
        sampler.start()
        before = [_process(pid) for pid in pids]
        busy, idle, cpu, commits = *_machine(), server.cpu_s(), _commits(server)
        began = time.monotonic()
        group.go()
        elapsed = time.monotonic() - began
        busy, idle = (now - then for now, then in zip(_machine(), (busy, idle), strict=True))
        cpu, commits = server.cpu_s() - cpu, _commits(server) - commits
        spent = [_process(pid) for pid in pids]
        sampler.stop()
    main, threads, queued = (sum(b[at] - a[at] for a, b in zip(before, spent, strict=True)) for at in range(3))
    others = busy - main - threads - cpu
    waits = Counter({key: count for key, count in sampler.waits.items() if key})
    for key in waits:
        waits[key] = round(1000 * waits[key] / max(sampler.looks, 1))
    return Account(elapsed, main, threads, queued, cpu, others, idle, commits, waits)


def _commits(server: PostgresServer) -> int:
    import psycopg

    with closing(psycopg.connect(server.url(), autocommit=True)) as connection:
        row = connection.execute(WORK).fetchone()
        return int(row[0]) if row else 0


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    asked.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    asked.add_argument("--actions", type=int, default=1500, help="of each process")
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--folder", type=Path, default=None)
    given = asked.parse_args()
    found: dict[int, list[Account]] = {number: [] for number in given.processes}
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        os.chmod(folder, 0o755)
        with PostgresServer(Path(folder)) as server:
            for turn in range(given.rounds):
                for number in given.processes:
                    print(f"{number} processes, round {turn + 1}", file=sys.stderr)
                    found[number].append(account(server, f"where{number}x{turn}", number, given.actions))
    for number, accounts in found.items():
        print(json.dumps(_said(number, number * given.actions, accounts)))
    return 0


def _said(number: int, actions: int, accounts: list[Account]) -> dict[str, object]:
    def each(name: str) -> float:
        return float(round(median(US * getattr(one, name) / actions for one in accounts)))

    return {
        "processes": number,
        "actions_per_s": [round(actions / one.elapsed) for one in accounts],
        "us_an_action": {
            name: each(name) for name in ("elapsed", "main", "threads", "queued", "server", "others", "idle")
        },
        "actions_a_commit": round(median(actions / one.commits for one in accounts), 1),
        "sessions_in_a_thousand_looks": dict(accounts[-1].waits.most_common(12)),
    }


if __name__ == "__main__":
    raise SystemExit(main())
