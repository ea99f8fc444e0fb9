"""Measures one action's cost at several sizes, on this machine: `python -m bench.scale --measure`.

On SQLite a ledger of real actions for each size, sealed as it grows; one with a great many that wait, whose rows are
copies; on PostgreSQL real actions again, with what its processes use. Nothing is predicted here.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import apsw

from bench.scale.beside import measured_beside
from bench.scale.database import measured_on_postgres
from bench.scale.filling import US, WIDTH, filled
from bench.scale.records import Beside, Database, Look, Measured, Sizes, Waiting
from readback import Readback, Reading, action, bootstrap
from readback.audit.evidence.attest import Authority, key_of
from readback.audit.evidence.sealed import prove_sealed
from readback.bench import workload
from readback.domain.context import Context
from readback.ports.storage.store import LedgerStore
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore

PROOFS: Final = 51
LOOK_UPS: Final = 31
LOOKS: Final = 5
LATER_US: Final = 10**15
"""When those become due that wait: a time that does not come."""
COPIES_A_COMMIT: Final = 20_000
DUE: Final = 16
Progress = Callable[[str], None]


def measure(
    folder: Path,
    sizes: Sequence[int],
    waiting: Sequence[tuple[int, int]],
    databases: Sequence[int],
    machine: dict[str, str],
    progress: Progress,
    beside: tuple[Sequence[int], int] = ((), 0),
) -> Measured:
    """All of it. `waiting`: how many actions of how many tenants. `databases`: sizes on PostgreSQL; may be none.
    `beside`: how many processes at once, and how many actions each makes.
    """
    empty = folder / "empty.db"
    bootstrap.store(f"sqlite:///{empty}").close()
    found = []
    for actions in sizes:
        progress(f"{actions:,} actions on SQLite")
        found.append(sized(folder / f"sized-{actions}", actions))
    progress("one look more")
    look = one_look()
    waits = []
    for actions, tenants in waiting:
        progress(f"{actions:,} waiting actions of {tenants:,} tenants")
        waits.append(waited(folder / f"waiting-{actions}-{tenants}", actions, tenants))
    ran: tuple[Database, ...] = ()
    if databases:
        ran = measured_on_postgres(folder, databases, progress)
    together: tuple[Beside, ...] = ()
    if beside[0]:
        together = measured_beside(folder, *beside, progress)
    return Measured(machine, empty.stat().st_size, tuple(found), look, tuple(waits), ran, together, machine)


# --- a ledger of so many actions ---


def sized(folder: Path, actions: int) -> Sizes:
    """A ledger of its own, in a folder of its own."""
    folder.mkdir()
    signer = bootstrap.create_log_key(folder / "log.key", "scale.example/ledger")
    url = f"sqlite:///{folder / 'ledger.db'}"
    busy = time.process_time()
    asyncio.run(filled(url, actions, {"key_file": str(folder / "log.key")}))
    cpu_s = time.process_time() - busy
    store = bootstrap.store(url)  # for writing: what is in the write-ahead log goes back into the file at its end
    try:
        proof_us, proof_bytes = _proof(store, Authority(key_of(signer), bootstrap.verify_signature))
        entries = envelope_bytes = 0
        for event in store.scan():
            entries += 1
            envelope_bytes += len(event.envelope)
        evidence_bytes = store.evidence_bytes(workload.TENANT)
        tile_bytes = sum(len(tile.hashes) for tile in store.tiles())
        checkpoint_bytes = max(len(head.note) for head in store.checkpoints())
    finally:
        store.close()
    return Sizes(
        actions, entries, envelope_bytes, evidence_bytes, (folder / "ledger.db").stat().st_size, tile_bytes,
        checkpoint_bytes, proof_bytes, proof_us, round(cpu_s * US),
    )  # fmt: skip


def _proof(store: LedgerStore, authority: Authority) -> tuple[int, int]:
    """What a proof of the first entry takes out of the stored tiles, and its length."""
    first = next(store.scan())
    took, size = [], 0
    for _ in range(PROOFS):
        began = time.perf_counter_ns()
        proof = prove_sealed(store, first, authority)
        took.append((time.perf_counter_ns() - began) // 1_000)
        if proof is None:
            raise RuntimeError("the log is not sealed")
        size = len(proof.to_bytes())
    return round(statistics.median(took)), size


# --- one look more ---


def one_look() -> Look:
    """What each look after the first adds, at an action under virtual time."""
    (few, least), (many, most) = (_looked_at(looks) for looks in (1, 1 + LOOKS))
    if (least, most) != (1, 1 + LOOKS):
        raise RuntimeError(f"the reader was asked {least} and {most} times")
    entries, entry_bytes, evidence_bytes = ((b - a) // LOOKS for a, b in zip(few, many, strict=True))
    return Look(
        entries, entry_bytes, evidence_bytes, max(1, round(statistics.median(_look_cpu_us() for _ in range(5))))
    )


def _look_cpu_us() -> float:
    """By the processor's time, over a number of looks that make a difference."""
    took = []
    for looks in (1, 1 + 8 * LOOKS):
        began = time.process_time()
        for _ in range(20):
            _looked_at(looks)
        took.append((time.process_time() - began) / 20 * US)
    return (took[1] - took[0]) / (8 * LOOKS)


def _looked_at(looks: int) -> tuple[tuple[int, int, int], int]:
    """An action whose effect is there at the look of this number: entries, their bytes, evidence; and the looks."""
    seen = [0]

    @action(name="later", **{**workload.TERMS, "within": "10m", "polls": ["1s"] * 64})
    def later(ctx: Context, order_id: str, carrier: str) -> object:
        return {"status": "accepted"}

    @later.read(source="orders", consistency="strong", independence="other_client")
    def row(ctx: Context, order_id: str, carrier: str) -> Reading:
        seen[0] += 1
        shipped = {"id": order_id, "tenant": workload.TENANT, "status": "shipped", "carrier": carrier}
        return Reading.of(shipped if seen[0] > looks else {**shipped, "status": "open"})

    store, runtime = MemoryStore(), VirtualRuntime(seed=looks)
    with Readback.open(store=store, runtime=runtime, tenant=workload.TENANT, principal=workload.PRINCIPAL) as rb:
        rb.run(later(order_id="o", carrier="dhl"), operation="later").raise_unless_verified()
        events = list(store.scan())
        evidence_bytes = store.evidence_bytes(workload.TENANT)
    sizes = (len(events), sum(len(e.envelope) for e in events), evidence_bytes)
    return sizes, seen[0] - 1


# --- many that wait ---


def waited(folder: Path, actions: int, tenants: int) -> Waiting:
    """Rows of actions that wait, copies of a real one; a few of one tenant are due."""
    folder.mkdir()
    path = folder / "ledger.db"
    url = f"sqlite:///{path}"
    with Readback.open(url, tenant=workload.TENANT, principal=workload.PRINCIPAL) as rb:
        pending = rb.run(workload.ship_waiting(order_id="due", carrier="dhl"), operation="due", wait=0)
    _copied(path, pending.id, actions, tenants)
    with Readback.open(url, tenant=workload.TENANT, principal=workload.PRINCIPAL) as rb:
        rb.signal(pending.id)
    store = bootstrap.store(url)
    try:
        store.due(LATER_US - 1, DUE)
        due_us = _slowest(lambda: _expect(DUE + 1, len(store.due(LATER_US - 1, WIDTH))))
        next_us = _slowest(lambda: store.next_due_us())
        numbers = iter(range(LOOK_UPS))
        lease_us = _slowest(lambda: store.lease(_due_name(next(numbers) % DUE), "worker", 1, 2))
        store.release("worker")
    finally:
        store.close()
    command = [sys.executable, "-m", "readback.bench.waiting", url, pending.id]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return Waiting(actions, tenants, due_us, next_us, lease_us, json.loads(done.stdout)["rss_mb"])


def _due_name(number: int) -> str:
    return f"due-{number:04d}"


def _copied(path: Path, action_id: str, actions: int, tenants: int) -> None:
    """The action's row so many times, spread over the tenants; their entries are not asked for what is due."""
    connection = apsw.Connection(str(path))
    try:
        connection.pragma("synchronous", "OFF")
        columns = [str(row[1]) for row in connection.execute("pragma table_info(action)")]
        row = dict(zip(columns, next(iter(connection.execute("select * from action"))), strict=True))
        insert = f"insert into action values ({', '.join('?' * len(columns))})"  # noqa: S608 -- question marks

        def copy(name: str, tenant: str, ready_us: int) -> tuple[Any, ...]:
            own = {"action_id": name, "tenant": tenant, "stamp": name, "key_hash": name, "lease_owner": ""}
            return tuple({**row, **own, "due_us": ready_us, "ready_us": ready_us}.values())

        for start in range(0, actions, COPIES_A_COMMIT):
            with connection:
                places = range(start, min(start + COPIES_A_COMMIT, actions))
                connection.executemany(
                    insert, (copy(f"01c{n:023d}", f"t{n % tenants:06d}", LATER_US + n) for n in places)
                )
        with connection:
            connection.executemany(insert, (copy(_due_name(n), "t000000", LATER_US - 2) for n in range(DUE)))
        connection.execute(
            "update action set ready_us = ?, due_us = ? where action_id = ?", (LATER_US - 2,) * 2 + (action_id,)
        )
    finally:
        connection.close()


def _slowest(work: Callable[[], object]) -> int:
    """The second slowest of so many, in microseconds: one is the machine's own."""
    took = []
    for _ in range(LOOK_UPS):
        began = time.perf_counter_ns()
        work()
        took.append((time.perf_counter_ns() - began) // 1_000)
    return sorted(took)[-2]


def _expect(wanted: int, found: int) -> None:
    if found != wanted:
        raise RuntimeError(f"{found} actions are due, and not {wanted}")
