"""A proof reads a few tiles and the entries behind the last checkpoint, in a log of any length, on both stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from readback import Readback, bootstrap
from readback.audit.evidence import attest
from readback.audit.evidence.attest import Authority, key_of
from readback.audit.sealing.confirm import is_confirmed
from readback.audit.sealing.seal import seal_all
from readback.cli.ledger.log import proof_now
from readback.log.checkpoint import Checkpoint, SignedCheckpoint, sign_checkpoint
from readback.log.fault import LogError
from readback.ports.storage.log import SealedHead
from readback.ports.storage.store import LedgerStore, StoredEvent
from tests.growth.counting import filled, numbered, url_of, work_of
from tests.sealing.given import NAME, Signer, authority
from tests.sealing.shop import runtime, stamp_note

STORES = ("sqlite", pytest.param("postgres", marks=pytest.mark.slow))
SMALL, LARGE, BEHIND = 300, 3_000, 10
A_FEW_TILES = 200
"""Steps or rows: a log that is ten times as long has one more tile on the way to its root."""


@contextmanager
def log_of(kind: str, folder: Path, actions: int, request: Any, signer: Any, behind: int) -> Iterator[LedgerStore]:
    """A log of so many entries, sealed but for the last `behind` of them."""
    with filled(url_of(kind, folder, actions, request), actions, numbered) as store:
        seal_all(store, signer, authority(signer), 1)
        store.append([numbered(actions + number) for number in range(behind)])
        while store.assign_sequence_numbers(1_000):
            pass
        yield store


def entry_of(store: LedgerStore, number: int) -> StoredEvent:
    return store.events(f"a{number:06}")[0]


@pytest.mark.requirement("GROWTH-proof")
@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("behind", [0, BEHIND])
def test_the_proof_of_a_bundle_reads_what_is_new(
    kind: str, behind: int, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer = bootstrap.create_log_key(tmp_path / "log.key", NAME)
    monkeypatch.chdir(tmp_path)
    costs = []
    for actions in (SMALL, LARGE):
        with log_of(kind, tmp_path, actions, request, signer, behind) as store:
            entry, read, proofs = entry_of(store, actions + behind - 1), [], []

            def look(
                store: LedgerStore = store, entry: StoredEvent = entry, read: Any = read, to: Any = proofs
            ) -> None:
                to.append(proof_now(store, entry, str(tmp_path / "log.key"), read.append))

            costs.append(work_of(store, look))
            by = Authority(key_of(signer), bootstrap.verify_signature)
            assert attest.covering(proofs[0], by).size == actions + behind
            assert read == [*range(actions + 1, actions + behind + 1)], "the entries that were read, and no others"
    assert costs[1] <= costs[0] + A_FEW_TILES, costs


@pytest.mark.requirement("GROWTH-proof")
@pytest.mark.parametrize("place", [0, 255, 256, 299, 305])
def test_a_proof_against_a_kept_checkpoint_reads_what_is_not_sealed_here(place: int, tmp_path: Path) -> None:
    signer = Signer(NAME, b"\x07" * 32)
    with log_of("sqlite", tmp_path, SMALL, None, signer, BEHIND) as store:
        kept = _head(store, signer)
        read: list[int] = []
        proof = attest.prove_by_reading(store, entry_of(store, place), authority(signer), kept, read.append)
        assert attest.covering(proof, authority(signer)).size == SMALL + BEHIND
        assert read == [*range(SMALL + 1, SMALL + BEHIND + 1)]


def _head(store: LedgerStore, signer: Signer) -> SignedCheckpoint:
    tree = attest.grow(store)
    return sign_checkpoint(Checkpoint(NAME, tree.size, tree.root()), key_of(signer), signer.sign)


@pytest.mark.requirement("GROWTH-proof")
def test_nothing_is_signed_beyond_a_checkpoint_that_another_key_signed(tmp_path: Path) -> None:
    ours, other = Signer(NAME, b"\x07" * 32), Signer(NAME, b"\x08" * 32)
    with log_of("sqlite", tmp_path, SMALL, None, other, BEHIND) as store, pytest.raises(LogError):
        attest.prove_now(store, entry_of(store, SMALL), authority(ours), ours)


@pytest.mark.requirement("GROWTH-proof")
def test_nothing_is_signed_beyond_tiles_that_lead_elsewhere(tmp_path: Path) -> None:
    signer = Signer(NAME, b"\x07" * 32)
    with log_of("sqlite", tmp_path, SMALL, None, signer, BEHIND) as store:
        store._writer.execute("UPDATE tile SET hashes = zeroblob(length(hashes)) WHERE level = 0")  # type: ignore[attr-defined]
        with pytest.raises(LogError):
            attest.prove_now(store, entry_of(store, SMALL), authority(signer), signer)


@pytest.mark.requirement("GROWTH-proof")
def test_nothing_is_signed_that_does_not_go_on_from_a_head_that_was_stated(tmp_path: Path) -> None:
    signer = Signer(NAME, b"\x07" * 32)
    with log_of("sqlite", tmp_path, SMALL, None, signer, BEHIND) as store:
        honest = _head(store, signer).checkpoint
        by = replace(authority(signer), stated=(honest,))
        assert attest.covering(attest.prove_now(store, entry_of(store, SMALL), by, signer), by)
        store.append([numbered(SMALL + BEHIND)])
        for forged in (replace(honest, root=b"\x01" * 32), Checkpoint(NAME, SMALL + BEHIND + 2, b"\x01" * 32)):
            with pytest.raises(LogError):
                attest.prove_now(store, entry_of(store, SMALL), replace(by, stated=(forged,)), signer)


@pytest.mark.requirement("GROWTH-proof", "TRUST-4")
def test_one_look_at_an_outcome_reads_each_tile_once(tmp_path: Path) -> None:
    url, key = f"sqlite:///{tmp_path / 'ledger.db'}", str(tmp_path / "log.key")
    signer = bootstrap.create_log_key(tmp_path / "log.key", NAME)
    store = bootstrap.store(url)
    store.append([numbered(number) for number in range(SMALL)])
    with Readback.open(url, runtime=runtime(), seal={"key_file": key}) as rb:
        outcome = rb.run(stamp_note(text="a"))
    read: Counter[tuple[int, int]] = Counter()

    class Counted:
        def tile(self, level: int, place: int) -> bytes | None:
            read[level, place] += 1
            return store.tile(level, place)

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

    head = store.checkpoint()
    assert isinstance(head, SealedHead)
    assert len(store.events(outcome.id)) > 3
    earlier = Checkpoint(NAME, SMALL - 7, attest.grow(store, SMALL - 7).root())
    by = replace(authority(signer), stated=(earlier,))
    assert is_confirmed(Counted(), outcome.id, by)  # type: ignore[arg-type]
    assert set(read.values()) == {1}, read
    store.close()
