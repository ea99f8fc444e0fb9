"""The tables of docs/scale.md, made out of what was measured: each stands between two marks of its name.

What the page says beside them is written by hand; a test holds the tables equal to what is computed here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from bench.scale.landing import LANDINGS, Looked, simulate
from bench.scale.laws import growths, predictions
from bench.scale.model import Machine, bounds, capacities, each_action
from bench.scale.placing import SKEWS, TENANTS, placed
from bench.scale.records import Measured
from readback.bench import workload
from readback.domain.contract.contract import Contract

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "scale.md"
SERVER_CORES: Final = (1, 2, 4, 8, 16)
US: Final = 1_000_000
RATES: Final = (100.0, 1_000.0, 10_000.0, 100_000.0)
PLANNED: Final = 1
"""The landing that the capacity is planned for, of `LANDINGS`."""
Rows = list[tuple[str, ...]]


def contract() -> Contract:
    """The one whose schedule is simulated: that of the measured action."""
    return workload.ship_async.contract


def tables(measured: Measured) -> dict[str, str]:
    """Each by its name, as Markdown."""
    looked = [simulate(contract(), landing) for landing in LANDINGS]
    planned = looked[PLANNED]
    makers: dict[str, Callable[[], str]] = {
        "machine": lambda: _table(("", ""), list(measured.machine.items())),
        "one-action": lambda: _one_action(measured),
        "beside": lambda: _beside(measured),
        "server-is-the-limit": lambda: _server_limit(measured),
        "predictions": lambda: _predictions(measured),
        "waiting": lambda: _waiting(measured),
        "landing": lambda: _landing(looked),
        "assumed": lambda: _assumed(Machine()),
        "bounds": lambda: _bounds(measured, looked),
        "capacity": lambda: _capacity(measured, planned),
        "tenants": lambda: _tenants(measured, planned),
    }
    return {name: make() for name, make in makers.items()}


def _one_action(measured: Measured) -> str:
    rows: Rows = []
    for size in measured.sizes:
        n = size.actions
        rows.append((
            f"{n:,}", f"{size.entries / n:.2f}", f"{size.envelope_bytes / n:,.0f}", f"{size.evidence_bytes / n:,.0f}",
            f"{size.ledger_bytes / n:,.0f}", f"{size.tile_bytes / size.entries:.1f}", f"{size.checkpoint_bytes:,}",
            f"{size.proof_bytes:,}", f"{size.proof_us:,}", f"{size.cpu_us / n:,.0f}",
        ))  # fmt: skip
    look = measured.look
    head = (
        "actions on SQLite", "entries each", "bytes of entries", "of evidence", "of the file", "tile bytes an entry",
        "bytes of a checkpoint", "of a proof", "µs for a proof", "CPU each, µs",
    )  # fmt: skip
    more = (
        f"One look more adds {_many(look.entries, 'entry', 'entries')}, {look.entry_bytes:,} bytes of entries, "
        f"{look.evidence_bytes:,} bytes of evidence and {look.cpu_us:,} µs."
    )
    database = [
        (
            f"{d.actions:,}", f"{d.entries / d.actions:.2f}", f"{d.client_cpu_us / d.actions:,.0f}",
            f"{d.server_cpu_us / d.actions:,.0f}", f"{d.placing_cpu_us / d.actions:,.0f}",
            f"{d.wal_bytes / d.actions:,.0f}", f"{d.disk_bytes / d.actions:,.0f}", f"{d.commits / d.actions:.3f}",
        )
        for d in measured.database
    ]  # fmt: skip
    columns = (
        "actions on PostgreSQL", "entries each", "client's CPU, µs", "server's CPU, µs", "to give places, µs",
        "bytes of its log", "of tables and indexes", "transactions",
    )  # fmt: skip
    return "\n\n".join((_table(head, rows), more, _table(columns, database)))


def _beside(measured: Measured) -> str:
    """What each process more adds to the time at work of all of them."""
    alone = measured.beside[0]
    rows: Rows = []
    for each in measured.beside:
        n, k = each.actions, each.processes
        more = each.client_cpu_us / n / (alone.client_cpu_us / alone.actions) - 1
        rows.append((
            f"{k}", f"{each.client_cpu_us / n:,.0f}", f"{100 * more:+.0f} %" if k > 1 else "",
            f"{each.server_cpu_us / n:,.0f}", f"{n * US / each.elapsed_us:,.0f}",
            f"{(each.client_cpu_us + each.server_cpu_us) / each.elapsed_us:.2f}",
        ))  # fmt: skip
    head = (
        "processes, 256 in flight each", "client's CPU each, µs", "against one alone", "server's CPU each, µs",
        "actions a second, all together", "cores at work",
    )  # fmt: skip
    return _table(head, rows) + "\n\n" + _table(("", ""), list(measured.beside_machine.items()))


def _server_limit(measured: Measured) -> str:
    """Where the server's processors would be the limit, were each client on cores of its own."""
    busiest = max(measured.beside, key=lambda each: each.server_cpu_us / each.actions)
    client, server = busiest.client_cpu_us / busiest.actions, busiest.server_cpu_us / busiest.actions
    rows: Rows = [
        (f"{cores}", f"{cores * US / server:,.0f}", f"{cores * client / server:.0f}") for cores in SERVER_CORES
    ]
    return _table(
        ("cores of the server", "actions a second, all of them at work", "processes that ask for so much"), rows
    )


def _many(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


def _predictions(measured: Measured) -> str:
    rows = [
        (
            each.thing, f"{each.actions:,}", " and ".join(f"{n:,}" for n in each.known), f"{each.predicted:,.0f}",
            f"{each.found:,}", f"{100 * each.error:+.1f} %",
        )
        for each in predictions(measured)
    ]  # fmt: skip
    return _table(("", "of so many actions", "out of", "predicted", "found", "error"), rows)


def _waiting(measured: Measured) -> str:
    rows = [
        (
            f"{w.actions:,}", f"{w.tenants:,}", f"{w.due_us / 1000:.2f}", f"{w.next_us / 1000:.2f}",
            f"{w.lease_us / 1000:.2f}", f"{w.rss_mb}",
        )
        for w in sorted(measured.waiting, key=lambda w: (w.tenants, w.actions))
    ]  # fmt: skip
    grown = "; ".join(
        f"of {_many(g.tenants, 'tenant', 'tenants')}, from {g.fewest.actions:,} to {g.most.actions:,}: "
        f"memory {g.most.rss_mb - g.fewest.rss_mb:+d} MB"
        for g in growths(measured)
        if g.most != g.fewest
    )
    head = (
        "waiting",
        "tenants",
        "due ones found, ms",
        "when the next is due, ms",
        "leased, ms",
        "a worker's memory, MB",
    )
    return _table(head, rows) + (f"\n\nWhat grows: {grown}." if grown else "")


def _landing(looked: Sequence[Looked]) -> str:
    rows = [
        (
            each.landing.name, f"{each.looks:.2f}", f"{each.waited_s:.2f}", f"{each.waited_p99_s:.1f}",
            f"{100 * each.open:.1f} %", f"{each.peak:.2f}",
        )
        for each in looked
    ]  # fmt: skip
    head = (
        "what was done is there",
        "looks each",
        "waits, s",
        "99 % within, s",
        "open at the deadline",
        "fullest 0.1 s",
    )
    return _table(head, rows)


def _assumed(machine: Machine) -> str:
    return _table(("assumed", ""), [
        ("cores of a database", f"{machine.database_cores}"),
        ("share of cores, and of the log device, that is used", f"{machine.busy:.0%}".replace("%", " %")),
        ("made durable by a log device, its standby's copy included", f"{machine.wal_bytes_per_s / 1e6:,.0f} MB/s"),
        ("anchors that each checkpoint is handed to", f"{machine.anchors}"),
    ])  # fmt: skip


def _bounds(measured: Measured, looked: Sequence[Looked]) -> str:
    each = [bounds(each_action(measured, one), Machine()) for one in looked]
    head = ("what bounds a shard", *(one.landing.name for one in looked))
    rows = [
        (of_one[0].what, *(f"{bound.actions_per_s:,.0f}" for bound in of_one)) for of_one in zip(*each, strict=True)
    ]
    return _table(head, rows)


def _capacity(measured: Measured, looked: Looked) -> str:
    found = capacities(RATES, measured, looked)
    rows: Rows = [
        ("looks a second", *(f"{c.looks_per_s:,.0f}" for c in found)),
        ("waiting at any moment", *(f"{c.waiting:,.0f}" for c in found)),
        ("shards: databases, each with its log", *(f"{c.shards:,}" for c in found)),
        ("actions a second of a shard", *(f"{c.per_shard:,.0f}" for c in found)),
        ("cores of databases", *(f"{c.database_cores:,.1f}" for c in found)),
        ("cores of workers and callers", *(f"{c.client_cores:,.1f}" for c in found)),
        ("processes of a shard, a core each", *(f"{c.workers_per_shard:,}" for c in found)),
        ("connections to a shard, at most", *(f"{c.connections_per_shard:,}" for c in found)),
        ("entries of one log in a day", *(f"{c.entries_per_day / 1e6:,.0f} million" for c in found)),
        ("bytes of entries in a day, all logs", *(_bytes(c.entry_bytes_per_day) for c in found)),
        ("of evidence in a day", *(_bytes(c.evidence_bytes_per_day) for c in found)),
        ("of tiles in a day", *(_bytes(c.tile_bytes_per_day) for c in found)),
        ("of databases' disks in a day, indexes included", *(_bytes(c.disk_bytes_per_day) for c in found)),
        ("made durable a second", *(_bytes(c.wal_bytes_per_s) for c in found)),
        ("checkpoints a second", *(f"{c.checkpoints_per_s:,.1f}" for c in found)),
        ("bytes of checkpoints to anchors a second", *(_bytes(c.checkpoint_bytes_per_s) for c in found)),
        ("hashes from an entry to its log's root, after a year", *(f"{c.proof_hashes}" for c in found)),
        ("bytes of that proof", *(f"{c.proof_bytes:,.0f}" for c in found)),
        ("hashes on to the log of checkpoints", *(f"{c.shards_proof_hashes}" for c in found)),
    ]
    return _table(("actions a second", *(f"{rate:,.0f}" for rate in RATES)), rows)


def _tenants(measured: Measured, looked: Looked) -> str:
    holds = min(bound.actions_per_s for bound in bounds(each_action(measured, looked), Machine()))
    rows: Rows = []
    for skew in SKEWS:
        found = placed(RATES[-1], holds, skew)
        rows.append((
            f"1/n^{skew}" if skew else "all alike", f"{found.largest:,.0f}",
            f"{found.by_hash:,}" if found.by_hash else "none is enough",
            f"{found.by_room:,}" if found.by_room else "none is enough",
        ))  # fmt: skip
    said = f"{RATES[-1]:,.0f} actions a second of {TENANTS:,} tenants; a shard holds {holds:,.0f}."
    head = ("load of the n-th tenant", "of the largest, a second", "shards, placed by hash", "shards, placed by room")
    return f"{said}\n\n" + _table(head, rows)


def _bytes(number: float) -> str:
    for unit, size in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number:,.0f} B"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


_PLACE: Final = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- table end -->)", re.DOTALL)


def with_tables(page: str, made: dict[str, str]) -> str:
    """The page with each table put between its marks. Raises ValueError where a table has no place, or a place none."""
    places = [found[2] for found in _PLACE.finditer(page)]
    if sorted(places) != sorted(made):
        raise ValueError(f"the page has places for {sorted(places)}, and the tables are {sorted(made)}")
    return _PLACE.sub(lambda found: f"{found[1]}\n{made[found[2]]}\n\n{found[3]}", page)
