"""What the commands cannot easily be brought to: heads of two logs, a short ledger, a terminal that is watched."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from readback import bootstrap
from readback.audit.checks.entries import Heads
from readback.audit.evidence import attest
from readback.cli import progress
from readback.log.checkpoint import Checkpoint
from readback.log.fault import LogFormatError, LogProofError
from readback.log.note import VerifierKey
from readback.log.tiles import TILE_BYTES, TileReader
from readback.log.tree import EMPTY_ROOT
from tests.cli.conftest import Desk
from tests.evidence.conftest import NAME, Made


def test_heads_of_two_logs_are_told_apart() -> None:
    heads = Heads([Checkpoint("a", 0, EMPTY_ROOT), Checkpoint("b", 0, EMPTY_ROOT)])
    assert [code for code, _ in heads.faults()] == ["log.origin"]


@pytest.mark.requirement("LEDGER-head-kept")
def test_a_head_of_another_log_a_longer_one_and_one_of_nothing(at_hand: Made) -> None:
    store = bootstrap.store("sqlite:///readback.db", read_only=True)
    signer = bootstrap.log_key(Path("log.key"))
    try:
        with pytest.raises(LogProofError, match="of the log 'b'"):
            attest.head(store, signer, [Checkpoint("b", 1, EMPTY_ROOT)])
        with pytest.raises(LogProofError, match="was cut off"):
            attest.grow(store, at_hand.size + 1)
        with pytest.raises(LogProofError, match="not shown"):
            attest.head(store, signer, [Checkpoint(NAME, 5, EMPTY_ROOT)])
        assert attest.grow(store, 0).root() == EMPTY_ROOT
        signed = attest.head(store, signer, [Checkpoint(NAME, 0, EMPTY_ROOT)])
        assert signed.checkpoint.size == at_hand.size
    finally:
        store.close()


def test_a_reader_forgets_tiles_before_they_are_too_many(at_hand: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("readback.log.tiles.TILES_READ_MAX", 1)
    tiles = bootstrap.tiles(Path("export"))
    fetched: list[str] = []

    def fetch(path: str) -> bytes:
        fetched.append(path)
        return tiles.read(path, TILE_BYTES) or b""

    reader = TileReader(at_hand.size, fetch)
    for _ in range(2):
        reader.read(0, 0)
        reader.read(0, 1)
        reader.read(0, 256)
    assert fetched == ["tile/0/000", f"tile/0/001.p/{at_hand.size - 256}"] * 2


def test_a_key_of_another_length_is_none() -> None:
    with pytest.raises(LogFormatError, match="32 bytes"):
        VerifierKey("a", bytes(31))


def test_a_count_is_shown_where_somebody_watches(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with progress.counted("reading", enabled=True) as step:
        step(500)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with progress.counted("reading the ledger", enabled=True) as step:
        step(499)
        step(500)
    assert "reading the ledger" in capsys.readouterr().err


def test_what_is_exported_to_a_folder_that_cannot_be_read_is_a_store_error(at_hand: Made, desk: Desk) -> None:
    Path("export/checkpoint").unlink()
    Path("export/checkpoint").mkdir()
    found = desk("ledger", "verify-export", "export", "--key", at_hand.key, "--json", code=1).json
    assert found["faults"][0]["code"] == "export.checkpoint"
