"""What was measured, as it is kept in measured.json beside this file. Counts, bytes, microseconds: whole numbers.

Written by `measure`, read by the model and the page.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

KEPT: Final = Path(__file__).parent / "measured.json"


@dataclass(frozen=True, slots=True)
class Sizes:
    """A ledger of so many actions, each verified at its first reading, sealed on the way at the default cadence."""

    actions: int
    entries: int
    envelope_bytes: int
    evidence_bytes: int
    ledger_bytes: int
    """The file, with its indexes, tiles and checkpoints."""
    tile_bytes: int
    checkpoint_bytes: int
    """Of one checkpoint, the widest."""
    proof_bytes: int
    """Of the first entry, in the whole log."""
    proof_us: int
    cpu_us: int
    """The processor's time of the one process that acted, read and sealed."""


@dataclass(frozen=True, slots=True)
class Look:
    """What one look more at an action adds."""

    entries: int
    entry_bytes: int
    evidence_bytes: int
    cpu_us: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """A ledger in which so many actions wait. The slowest of the look-ups, and a worker's memory as it starts."""

    actions: int
    tenants: int
    due_us: int
    next_us: int
    lease_us: int
    rss_mb: int


@dataclass(frozen=True, slots=True)
class Database:
    """What so many actions cost on PostgreSQL, at 256 in flight."""

    actions: int
    entries: int
    client_cpu_us: int
    server_cpu_us: int
    placing_cpu_us: int
    """Of giving all these entries their places, client and server together."""
    wal_bytes: int
    disk_bytes: int
    """The tables and their indexes."""
    commits: int


@dataclass(frozen=True, slots=True)
class Beside:
    """So many processes on one PostgreSQL at the same moment, each with 256 in flight; places are given meanwhile."""

    processes: int
    actions: int
    """Of all of them together."""
    elapsed_us: int
    client_cpu_us: int
    """Of all of them together, by getrusage."""
    server_cpu_us: int


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of `measure`."""

    machine: dict[str, str]
    empty_bytes: int
    """A ledger's file before the first action."""
    sizes: tuple[Sizes, ...]
    look: Look
    waiting: tuple[Waiting, ...]
    database: tuple[Database, ...]
    beside: tuple[Beside, ...] = ()
    beside_machine: dict[str, str] = field(default_factory=dict)
    """The machine as it was then."""

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def of_json(text: str) -> Measured:
    """What `to_json` wrote. Raises KeyError or TypeError for anything else."""
    found: dict[str, Any] = json.loads(text)
    return Measured(
        found["machine"],
        found["empty_bytes"],
        tuple(Sizes(**each) for each in found["sizes"]),
        Look(**found["look"]),
        tuple(Waiting(**each) for each in found["waiting"]),
        tuple(Database(**each) for each in found["database"]),
        tuple(Beside(**each) for each in found["beside"]),
        found["beside_machine"],
    )


def kept() -> Measured:
    """The run that the page is about."""
    return of_json(KEPT.read_text(encoding="utf-8"))
