"""The audit of the sealed log keeps nothing of entries that were never sealed."""

from __future__ import annotations

import tracemalloc

from readback.canon import sha256_hex
from readback.lifecycle.audit.sealed import SealedAudit
from readback.testing.store_memory import MemoryStore

ENTRIES = 20_000
BOUND = 64 * 1024


def test_memory_is_flat_however_many_entries_follow_what_was_sealed() -> None:
    audit = SealedAudit(MemoryStore())
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(ENTRIES):
            audit.read(bytes.fromhex(sha256_hex(b"%d" % number)))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < BOUND
    assert audit.faults() == []
