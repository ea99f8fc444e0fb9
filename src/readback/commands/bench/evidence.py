"""Evidence, measured: a proof for one of a million entries, and how fast a whole log is read, signed and checked."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from readback import bootstrap
from readback.canon import Json
from readback.commands.bench import workload
from readback.ledger.checkpoint import Checkpoint, SignedCheckpoint, sign_checkpoint
from readback.ledger.tiles import CHECKPOINT, TILE_BYTES, TileWriter
from readback.lifecycle.attest import Authority, export, grow, key_of, prove_from_tiles, prove_now
from readback.lifecycle.audit import audit
from readback.lifecycle.audit_export import audit_export
from readback.ports.export import Tiles
from readback.ports.signer import LogSigner
from readback.ports.store import LedgerStore, StoredEvent
from readback.sdk.async_client import AsyncReadback

ENTRIES_PROVED: Final = 1_000_000
ENTRY_BYTES: Final = 600
"""About what an entry of an action has."""
PROOFS: Final = 101
ACTIONS: Final = 3_000
WIDTH: Final = 256
Progress = Callable[[str], None]


def evidence(folder: Path, progress: Progress) -> dict[str, Json]:
    """The figures, in milliseconds, bytes, and entries a second of one core."""
    signer = bootstrap.create_log_key(folder / "log.key", "bench.example/ledger")
    authority = Authority(key_of(signer), bootstrap.verify_signature)
    progress(f"proofs out of {ENTRIES_PROVED:,} exported entries")
    proved = _proofs(folder, signer, authority)
    progress("a ledger, read, signed, exported and verified")
    return {**proved, **_whole(folder, signer, authority)}


def _proofs(folder: Path, signer: LogSigner, authority: Authority) -> dict[str, Json]:
    """Each proof is made by a reader that knows nothing yet, from files, and checked."""
    tiles, signed = _exported(folder / "million", signer)

    def fetch(path: str) -> bytes:
        return tiles.read(path, TILE_BYTES) or b""

    took, sizes = [], []
    for number in range(PROOFS):
        index = number * (ENTRIES_PROVED - 1) // (PROOFS - 1)
        entry = StoredEvent(index + 1, "", 1, "", 0, _entry(index), b"")
        began = time.perf_counter()
        proof = prove_from_tiles(fetch, entry, authority, signed)
        took.append((time.perf_counter() - began) * 1000)
        sizes.append(len(proof.to_bytes()))
    return {
        "proof_ms": round(statistics.median(took), 2),
        "proof_ms_max": round(max(took), 2),
        "proof_bytes": max(sizes),
    }


def _exported(folder: Path, signer: LogSigner) -> tuple[Tiles, SignedCheckpoint]:
    """The hash tiles of a log of entries that are made up; their bundles are not needed for a proof."""
    tiles = bootstrap.new_tiles(folder)
    writer = TileWriter()
    for index in range(ENTRIES_PROVED):
        for path, data in writer.add(_entry(index)):
            if not path.startswith("tile/entries/"):
                tiles.write(path, data)
    for path, data in writer.finish():
        tiles.write(path, data)
    checkpoint = Checkpoint(signer.name, writer.tree.size, writer.tree.root())
    signed = sign_checkpoint(checkpoint, key_of(signer), signer.sign)
    tiles.write(CHECKPOINT, signed.to_bytes())
    return tiles, signed


def _entry(index: int) -> bytes:
    return (b"%012d" % index).ljust(ENTRY_BYTES, b"e")


def _whole(folder: Path, signer: LogSigner, authority: Authority) -> dict[str, Json]:
    """Everything that reads a whole ledger, over one of real actions."""
    url = f"sqlite:///{folder / 'evidence.db'}"
    asyncio.run(_filled(url))
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
            "verify_per_s": _rate(size, lambda: audit(store).ok or _stop()),
        }
    finally:
        links.close()
        store.close()
    return {**rates, "entries": size}


async def _filled(url: str) -> None:
    names = iter(range(ACTIONS))
    async with AsyncReadback.open(url, tenant=workload.TENANT, principal=workload.PRINCIPAL) as rb:

        async def one_after_another() -> None:
            for n in names:
                outcome = await rb.run(workload.ship_async(order_id=f"e-{n}", carrier="dhl"), operation=f"e-{n}")
                outcome.raise_unless_verified()

        await asyncio.gather(*(one_after_another() for _ in range(WIDTH)))


def _last(store: LedgerStore) -> StoredEvent:
    return next(iter(store.events(next(store.projections()).projection.action_id)))


def _rate(entries: int, work: Callable[[], object]) -> int:
    began = time.perf_counter()
    work()
    return round(entries / (time.perf_counter() - began))


def _stop() -> bool:
    raise AssertionError("what was measured is not sound")
