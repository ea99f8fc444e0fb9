"""Files that were cut at any byte, or have another one: found and said in an error of ours, never taken for sound."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import apsw
import pytest

from readback import bootstrap
from readback.audit.checks.ledger import audit
from readback.audit.evidence.exported import audit_export
from readback.canon import ReadbackError
from readback.errors import StoreError
from readback.log.checkpoint import open_checkpoint
from readback.log.fault import LogError
from readback.log.note import parse_key
from readback.log.proof import parse_proof
from tests.cli.conftest import Desk
from tests.evidence.conftest import Made

SAMPLES = 60
PAGE = 4_096


@pytest.fixture
def still(at_hand: Made) -> bytes:
    """The database's file with everything in it, and nothing beside it."""
    connection = apsw.Connection("readback.db")
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()
    return Path("readback.db").read_bytes()


def _places(size: int, seed: int) -> list[int]:
    """Every kind of place: the header, around each of some pages' edges, and anywhere."""
    drawn = random.Random(seed)
    edges = [page * PAGE + around for page in drawn.sample(range(1, size // PAGE), 12) for around in (-1, 0, 1)]
    return sorted({*range(0, 100, 9), *edges, *(drawn.randrange(size) for _ in range(SAMPLES)), size - 1})


def _seen(path: Path) -> str:
    """What an audit says of a file: "sound", "faults" or the code of the error."""
    try:
        store = bootstrap.store(f"sqlite:///{path}", read_only=True)
    except StoreError as error:
        return error.code
    try:
        report = audit(store)
        return "faults" if not report.ok or bootstrap.store_damage(store) else "sound"
    except ReadbackError as error:
        return error.code
    finally:
        store.close()


def _content(path: Path) -> list[object]:
    connection = apsw.Connection(str(path))
    try:
        tables = ("event", "action", "idempotency", "payload", "contract_text", "weight", "freeze", "incident")
        return [list(connection.execute(f"select * from {table} order by 1, 2")) for table in tables]
    finally:
        connection.close()


@pytest.mark.requirement("INPUT-cut-anywhere")
def test_a_database_that_was_cut_at_any_byte_is_never_sound(still: bytes, tmp_path: Path) -> None:
    for size in _places(len(still), 7):
        path = tmp_path / f"cut-{size}.db"
        path.write_bytes(still[:size])
        assert _seen(path) != "sound", f"cut to {size} of {len(still)} bytes"


@pytest.mark.requirement("INPUT-cut-anywhere")
def test_a_byte_that_was_flipped_is_found_or_stands_where_nothing_is(still: bytes, tmp_path: Path) -> None:
    path = tmp_path / "flipped.db"
    path.write_bytes(still)
    whole = _content(path)
    found = 0
    for place in _places(len(still), 11):
        path = tmp_path / f"flipped-{place}.db"
        path.write_bytes(still[:place] + bytes([still[place] ^ 0x41]) + still[place + 1 :])
        seen = _seen(path)
        found += seen != "sound"
        assert seen != "sound" or _content(path) == whole, f"byte {place} was flipped, and nobody saw it"
    assert found > SAMPLES // 2


@pytest.mark.requirement("INPUT-cut-anywhere")
def test_a_write_ahead_log_that_was_cut_loses_whole_commits_and_a_kept_head_shows_it(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit is in it or not: what is left is the ledger of some moment before."""
    store = bootstrap.store("sqlite:///readback.db")
    for n in range(4):
        desk.ship(f"op-{n}", carrier=f"c-{n}", code=0)
    leaves = [each.leaf for each in store.scan()]
    whole, log = Path("readback.db").read_bytes(), Path("readback.db-wal").read_bytes()
    store.close()
    assert len(log) > 10_000
    sizes = set()
    drawn = random.Random(3)
    for size in sorted({0, 31, 32, 33, *(drawn.randrange(len(log)) for _ in range(30)), len(log)}):
        path = tmp_path / f"cut-{size}.db"
        path.write_bytes(whole)
        Path(f"{path}-wal").write_bytes(log[:size])
        seen = _seen(path)
        if seen == "sound":
            cut = bootstrap.store(f"sqlite:///{path}", read_only=True)
            held = [each.leaf for each in cut.scan()]
            cut.close()
            assert held == leaves[: len(held)]
            sizes.add(len(held))
            kept = (len(leaves), leaves[-1].hex())
            again = bootstrap.store(f"sqlite:///{path}", read_only=True)
            assert audit(again, kept=kept).ok == (held == leaves)
            again.close()
        else:
            assert seen.startswith("store."), seen
    assert len(leaves) in sizes
    assert len(sizes) > 2


@pytest.mark.requirement("INPUT-cut-anywhere", "LEDGER-export")
def test_a_file_of_an_export_that_was_cut_or_flipped_anywhere_is_never_sound(at_hand: Made, tmp_path: Path) -> None:
    key, drawn = parse_key(at_hand.key), random.Random(5)
    files = [each for each in sorted(Path("export").rglob("*")) if each.is_file()]
    assert len(files) >= 5
    for file in files:
        data = file.read_bytes()
        for place in sorted({0, 1, len(data) - 1, *(drawn.randrange(len(data)) for _ in range(8))}):
            for spoiled in (data[:place], data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]):
                file.write_bytes(spoiled)
                links = bootstrap.links()
                try:
                    report = audit_export(bootstrap.tiles(Path("export")), [key], bootstrap.verify_signature, links)
                    assert not report.ok, f"{file} was spoiled at byte {place}"
                finally:
                    links.close()
        file.write_bytes(data)


@pytest.mark.requirement("INPUT-cut-anywhere", "LEDGER-forms-strict")
def test_a_checkpoint_and_a_proof_that_were_cut_at_any_byte_prove_nothing(at_hand: Made, desk: Desk) -> None:
    key, check = parse_key(at_hand.key), bootstrap.verify_signature
    head = Path("early").read_bytes()
    for size in range(len(head)):
        with pytest.raises(LogError):
            open_checkpoint(head[:size], [key], check)
    desk("ledger", "prove", at_hand.ids[3], "--checkpoint", "early", "--version", "1", "--out", "proof", code=0)
    proof = Path("proof").read_bytes()
    for size in range(len(proof)):
        with pytest.raises(LogError):
            parse_proof(proof[:size]).check([key], check)
    shutil.copy("proof", "cut")
    Path("cut").write_bytes(proof[: len(proof) // 2])
    assert desk("ledger", "verify-proof", "cut", "--key", at_hand.key).code in (1, 2)


@pytest.mark.requirement("INPUT-cut-anywhere")
def test_a_bundle_that_was_cut_or_flipped_anywhere_is_refused(at_hand: Made, desk: Desk) -> None:
    from readback.audit.record.bundle import open_bundle

    desk("ledger", "export", "--bundle", at_hand.ids[0], "--out", "bundle", code=0)
    data, drawn = Path("bundle").read_bytes(), random.Random(13)
    open_bundle(data)
    for place in sorted({0, 1, len(data) - 2, *(drawn.randrange(len(data) - 1) for _ in range(SAMPLES))}):
        with pytest.raises(ReadbackError):
            open_bundle(data[:place])
        with pytest.raises(ReadbackError):
            open_bundle(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
