"""The audit of the sealed log: in pieces of any length, and nothing is kept of entries that were never sealed."""

from __future__ import annotations

import tracemalloc

import pytest

from readback.audit.checks.sealed import SealedAudit
from readback.canon import sha256_hex
from readback.testing.store_memory import MemoryStore
from tests.sealing.given import Log

ENTRIES = 20_000
BOUND = 64 * 1024


def test_memory_is_flat_however_many_entries_follow_what_was_sealed() -> None:
    audit = SealedAudit(MemoryStore())
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(ENTRIES):
            audit.read([bytes.fromhex(sha256_hex(b"%d" % number))])
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < BOUND
    assert audit.faults() == []


@pytest.mark.parametrize("at_once", [1, 255, 256, 257, 300, 601, 700])
def test_entries_are_read_in_pieces_of_any_length(at_once: int) -> None:
    log = Log()
    leaves = log.append(300)
    log.seal()
    leaves += log.append(301)
    log.seal()
    leaves += log.append(99)
    audit, forged = SealedAudit(log.store, log.authority), SealedAudit(log.store, log.authority)
    for start in range(0, len(leaves), at_once):
        audit.read(leaves[start : start + at_once])
        forged.read([bytes(32) if each is leaves[600] else each for each in leaves[start : start + at_once]])
    assert audit.faults() == []
    assert (audit.checkpoints, audit.size) == (2, 601)
    assert [code for code, _ in forged.faults()].count("log.rewritten") == 1
