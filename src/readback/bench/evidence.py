"""Measure evidence: proofs, the speed of reading, signing and checking a log, and the cost of sealing."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from readback import bootstrap
from readback.audit.checks.ledger import audit
from readback.audit.evidence.attest import Authority, export, grow, key_of, prove_now
from readback.audit.evidence.exported import audit_export
from readback.audit.evidence.sealed import prove_sealed
from readback.audit.sealing.seal import seal_all
from readback.bench import workload
from readback.canon import Json
from readback.cli.gc_tuning import READING, undisturbed
from readback.client.async_client import AsyncReadback
from readback.domain.records.seal_schedule import ENTRIES_DEFAULT
from readback.log.checkpoint import Checkpoint, sign_checkpoint
from readback.log.frontier import Frontier
from readback.log.tree import leaf_hash
from readback.ports.signer import LogSigner
from readback.ports.storage.log import SealedHead
from readback.ports.storage.store import LedgerStore, StoredEvent

ENTRIES_PROVED: Final = 1_000_000
ENTRY_BYTES: Final = 600
"""Approximate size of an action's entry."""
ENTRIES_SEALED: Final = 16_384
PROOFS: Final = 101
ACTIONS: Final = 3_000
WIDTH: Final = 256
SLICES: Final = 9
SLICE_ACTIONS: Final = 1_024
Progress = Callable[[str], None]


def evidence(folder: Path, progress: Progress) -> dict[str, Json]:
    """The figures, in milliseconds, bytes, and entries a second of one core."""
    signer = bootstrap.create_log_key(folder / "log.key", "bench.example/ledger")
    authority = Authority(key_of(signer), bootstrap.verify_signature)
    progress(f"proofs out of {ENTRIES_PROVED:,} sealed entries")
    proved = _proofs(folder, signer, authority)
    progress("a ledger, read, signed, exported and verified")
    return {**proved, **_whole(folder, signer, authority)}


def _proofs(folder: Path, signer: LogSigner, authority: Authority) -> dict[str, Json]:
    """Build each proof from freshly read tiles of the ledger, and check it."""
    store = bootstrap.store(f"sqlite:///{folder / 'million.db'}")
    try:
        _sealed(store, signer)
        took, sizes = [], []
        for number in range(PROOFS):
            index = number * (ENTRIES_PROVED - 1) // (PROOFS - 1)
            entry = StoredEvent(index + 1, "", 1, "", 0, _entry(index), b"")
            began = time.perf_counter()
            proof = prove_sealed(store, entry, authority)
            took.append((time.perf_counter() - began) * 1000)
            sizes.append(len(proof.to_bytes()) if proof is not None else 0)
    finally:
        store.close()
    return {
        "proof_ms": round(statistics.median(took), 2),
        "proof_ms_max": round(max(took), 2),
        "proof_bytes": max(sizes),
    }


def _sealed(store: LedgerStore, signer: LogSigner) -> None:
    """The tiles and heads of a log of synthetic entries. A proof does not need the entries themselves."""
    edge, after = Frontier(), 0
    while after < ENTRIES_PROVED:
        until = min(after + ENTRIES_SEALED, ENTRIES_PROVED)
        edge.grow([leaf_hash(_entry(index)) for index in range(after, until)])
        checkpoint = Checkpoint(signer.name, edge.size, edge.root())
        signed = sign_checkpoint(checkpoint, key_of(signer), signer.sign)
        store.seal(after, edge.changed(), SealedHead(until, 0, signed.to_bytes()))
        after = until


def _entry(index: int) -> bytes:
    return (b"%012d" % index).ljust(ENTRY_BYTES, b"e")


def _whole(folder: Path, signer: LogSigner, authority: Authority) -> dict[str, Json]:
    """Run everything that reads a whole ledger, over a ledger of real actions."""
    url = f"sqlite:///{folder / 'evidence.db'}"
    asyncio.run(_filled(url))
    writer = bootstrap.store(url)
    seal_all(writer, signer, authority, 0)
    writer.close()
    store = bootstrap.store(url, read_only=True)
    links = bootstrap.links()
    tiles = bootstrap.new_tiles(folder / "exported")
    try:
        size = grow(store).size
        last = _last(store)
        rates: dict[str, Json] = {
            "checkpoint_per_s": _rate(size, lambda: grow(store)),
            "prove_per_s": _rate(size, lambda: prove_now(store, last, authority, signer)),
            "export_per_s": _rate(size, lambda: export(store, signer, tiles)),
            "verify_export_per_s": _rate(
                size, lambda: audit_export(tiles, [authority.key], authority.check, links).ok or _stop()
            ),
            "verify_per_s": _verified(store, size, authority),
        }
    finally:
        links.close()
        store.close()
    return {**rates, "entries": size}


async def _filled(url: str) -> None:
    async with AsyncReadback.open(url, tenant=workload.TENANT, principal=workload.PRINCIPAL) as rb:
        await workload.in_flight(WIDTH, (f"e-{n}" for n in range(ACTIONS)), lambda name: workload.ship(rb, name))


def _verified(store: LedgerStore, size: int, authority: Authority) -> int:
    """Entries a second of one core, by CPU time, because other processes may use the machine."""
    began = time.process_time()
    with undisturbed(READING):
        if not audit(store, authority=authority).ok:
            _stop()
    return round(size / (time.process_time() - began))


def _last(store: LedgerStore) -> StoredEvent:
    return next(iter(store.events(next(store.projections()).projection.action_id)))


def _rate(entries: int, work: Callable[[], object]) -> int:
    began = time.perf_counter()
    work()
    return round(entries / (time.perf_counter() - began))


def _stop() -> bool:
    raise AssertionError("what was measured is not sound")


# --- sealing on the hot path: the same actions with and without, slice by slice, in one run ---


def sealing(folder: Path) -> dict[str, Json]:
    """The share of throughput at 256 actions in flight lost to sealing at the default schedule.

    Measured in CPU time of all threads, since the CPU is the bound and other processes may use the machine. Wall time
    is printed, too.
    """
    return asyncio.run(_sealing(folder))


async def _sealing(folder: Path) -> dict[str, Json]:
    key = folder / "sealing.key"
    bootstrap.create_log_key(key, "bench.example/sealing")
    seal = {"key_file": str(key), "entries": ENTRIES_DEFAULT, "seconds": 3_600}
    bare, sealed = [], []
    async with _client(folder, "bare", False) as off, _client(folder, "sealed", seal) as on:
        for part in range(SLICES + 1):
            bare.append(await _slice(off, f"bare-{part}"))
            sealed.append(await _slice(on, f"sealed-{part}"))
    lost = [1 - without.busy / with_it.busy for without, with_it in zip(bare[1:], sealed[1:], strict=True)]
    late = [1 - without.wall / with_it.wall for without, with_it in zip(bare[1:], sealed[1:], strict=True)]
    store = bootstrap.store(f"sqlite:///{folder / 'sealed.db'}", read_only=True)
    try:
        heads = sum(1 for _ in store.checkpoints())
    finally:
        store.close()
    return {
        "cost": round(max(0.0, statistics.median(lost)), 3),
        "cost_by_wall_time": round(statistics.median(late), 3),
        "bare_per_s": round(SLICE_ACTIONS / statistics.median(each.wall for each in bare[1:])),
        "sealed_per_s": round(SLICE_ACTIONS / statistics.median(each.wall for each in sealed[1:])),
        "checkpoints": heads,
    }


def _client(folder: Path, name: str, seal: bool | dict[str, object]) -> AsyncReadback:
    url = f"sqlite:///{folder / f'{name}.db'}"
    return AsyncReadback.open(url, tenant=workload.TENANT, principal=workload.PRINCIPAL, seal=seal)


class _Took(NamedTuple):
    wall: float
    busy: float


async def _slice(rb: AsyncReadback, part: str) -> _Took:
    """`part`: a set of orders for this slice alone, since a shipped order would change the judgement."""
    names = (f"{part}-{n}" for n in range(SLICE_ACTIONS))
    began, busy = time.perf_counter(), time.process_time()
    await workload.in_flight(WIDTH, names, lambda name: workload.ship(rb, name))
    return _Took(time.perf_counter() - began, time.process_time() - busy)
