"""The model: what so many actions a second ask of databases, processes, disks and lines. Pure arithmetic.

Its figures of one action are measured (`records`), how often it is looked at is simulated (`landing`), and what a
machine gives is assumed, by name (`Machine`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.scale.landing import Looked
from bench.scale.laws import HASH_LINE_BYTES, LAWS, fitted, path_length
from bench.scale.records import Database, Measured
from readback.domain.records.seal_schedule import ENTRIES_DEFAULT, SECONDS_DEFAULT

DAY_S: Final = 86_400
YEAR_DAYS: Final = 365
US: Final = 1_000_000
CONNECTIONS_EACH: Final = 13
"""Of a worker: two that write, as many readers as are kept, two for wake-ups and one that listens."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What is assumed of the machines: nothing of it was measured here."""

    database_cores: int = 16
    busy: float = 0.6
    """As much of its cores as is used: the rest is for peaks, copies and clearing up."""
    wal_bytes_per_s: int = 200_000_000
    """What one log device makes durable, its standby's copy included."""
    commits_per_s: int = 2_000
    """Durable commits one after another on one log device; concurrent ones share."""
    anchors: int = 2
    """To whom each checkpoint is handed."""


@dataclass(frozen=True, slots=True)
class Each:
    """Of one action, its looks included."""

    entries: float
    entry_bytes: float
    evidence_bytes: float
    disk_bytes: float
    wal_bytes: float
    client_cpu_us: float
    server_cpu_us: float
    placing_cpu_us: float
    tile_bytes: float


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a rate of actions asks for. Shards are databases, each with a log of its own."""

    rate: float
    looks_per_s: float
    waiting: float
    shards: int
    per_shard: float
    database_cores: float
    client_cores: float
    workers_per_shard: int
    connections_per_shard: int
    entries_per_day: float
    """Of one log."""
    entry_bytes_per_day: float
    evidence_bytes_per_day: float
    tile_bytes_per_day: float
    disk_bytes_per_day: float
    wal_bytes_per_s: float
    """These four of all shards together."""
    checkpoints_per_s: float
    """Of all logs together."""
    checkpoint_bytes_per_s: float
    proof_hashes: int
    """From an entry to its log's root, a year on."""
    proof_bytes: float
    shards_proof_hashes: int
    """From a log's checkpoint to the root of the log of checkpoints, a year on."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What one shard can take at most, and what bounds it."""

    what: str
    actions_per_s: float


def each_action(measured: Measured, looked: Looked) -> Each:
    """Of the largest size and the largest run on PostgreSQL, with so many more looks as the simulation has."""
    size, database = measured.sizes[-1], measured.database[-1]
    more, actions = looked.looks - 1, size.actions
    look = measured.look
    entries = size.entries / actions + more * look.entries
    grown = entries / (size.entries / actions)
    client = database.client_cpu_us / database.actions
    return Each(
        entries=entries,
        entry_bytes=size.envelope_bytes / actions + more * look.entry_bytes,
        evidence_bytes=size.evidence_bytes / actions + more * look.evidence_bytes,
        disk_bytes=_each(database, database.disk_bytes) * grown,
        wal_bytes=_each(database, database.wal_bytes) * grown,
        client_cpu_us=client + more * client * look.cpu_us / (size.cpu_us / actions),
        server_cpu_us=_each(database, database.server_cpu_us) * grown,
        placing_cpu_us=_each(database, database.placing_cpu_us) * grown,
        tile_bytes=size.tile_bytes / size.entries * entries,
    )


def _each(database: Database, whole: int) -> float:
    return whole / database.actions


def bounds(each: Each, machine: Machine) -> list[Bound]:
    """What a shard could take, were each of these the only bound; the least of them holds."""
    cores = machine.database_cores * machine.busy
    return [
        Bound("the database's processors", cores * US / (each.server_cpu_us + each.placing_cpu_us)),
        Bound("the one that gives places, on one core", machine.busy * US / each.placing_cpu_us),
        Bound("what the log device makes durable", machine.busy * machine.wal_bytes_per_s / each.wal_bytes),
    ]


def capacity(
    rate: float, measured: Measured, looked: Looked, machine: Machine, per_shard: float | None = None
) -> Capacity:
    """`per_shard`: how much is put on one, where that is less than it could take."""
    each = each_action(measured, looked)
    most = min(bound.actions_per_s for bound in bounds(each, machine))
    shards = max(1, math.ceil(rate / min(most, per_shard or most)))
    entries_per_s = rate * each.entries / shards
    checkpoints = shards * max(entries_per_s / ENTRIES_DEFAULT, min(1 / SECONDS_DEFAULT, entries_per_s))
    client_cores = rate * each.client_cpu_us / US / machine.busy
    workers = max(1, math.ceil(client_cores / shards))
    per_year = round(entries_per_s * DAY_S * YEAR_DAYS)
    return Capacity(
        rate=rate,
        looks_per_s=rate * looked.looks,
        waiting=rate * looked.waited_s,
        shards=shards,
        per_shard=rate / shards,
        database_cores=rate * (each.server_cpu_us + each.placing_cpu_us) / US / machine.busy,
        client_cores=client_cores,
        workers_per_shard=workers,
        connections_per_shard=workers * CONNECTIONS_EACH,
        entries_per_day=entries_per_s * DAY_S,
        entry_bytes_per_day=rate * each.entry_bytes * DAY_S,
        evidence_bytes_per_day=rate * each.evidence_bytes * DAY_S,
        tile_bytes_per_day=rate * each.tile_bytes * DAY_S,
        disk_bytes_per_day=rate * each.disk_bytes * DAY_S,
        wal_bytes_per_s=rate * each.wal_bytes,
        checkpoints_per_s=checkpoints,
        checkpoint_bytes_per_s=checkpoints * measured.sizes[-1].checkpoint_bytes * machine.anchors,
        proof_hashes=path_length(per_year),
        proof_bytes=proof_bytes(measured, per_year),
        shards_proof_hashes=path_length(round(checkpoints * DAY_S * YEAR_DAYS)),
    )


def proof_bytes(measured: Measured, entries: int) -> float:
    """Of the first of so many entries, by the law of the largest size; the tenth digit of a size adds a byte or two."""
    law = next(law for law in LAWS if law.slope == HASH_LINE_BYTES)
    return fitted(law, measured, measured.sizes[-1:])(0, entries)


def capacities(
    rates: Sequence[float], measured: Measured, looked: Looked, machine: Machine | None = None
) -> list[Capacity]:
    """One for each rate, on the machines that are assumed."""
    return [capacity(rate, measured, looked, machine or Machine()) for rate in rates]
