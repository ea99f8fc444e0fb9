"""Files of an exported log: whole or not at all, plain, and bounded; the links of its actions in flat memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from readback.adapters.log import spill_index
from readback.adapters.log.spill_index import TemporaryLinks
from readback.adapters.log.tiles_folder import alone, new_folder, old_folder, put, take
from readback.errors import StoreError, StoreFullError, UsageError
from readback.log.fault import LogFormatError


def test_what_was_written_is_read_and_what_is_not_there_is_none(tmp_path: Path) -> None:
    folder = new_folder(tmp_path / "export")
    folder.write("tile/0/x001/000", b"hashes")
    folder.write("tile/0/x001/001", b"more")
    again = old_folder(tmp_path / "export")
    assert again.read("tile/0/x001/000", 6) == b"hashes"
    assert again.read("tile/0/x001/002", 6) is None
    assert again.read("tile/0/x001/000/below", 6) is None
    with pytest.raises(LogFormatError, match="more than 5"):
        again.read("tile/0/x001/000", 5)


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(LogFormatError):
            take(tmp_path / name, 10)


def test_a_used_folder_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for place in (tmp_path, tmp_path / "file"):
        with pytest.raises(UsageError):
            new_folder(place)
    with pytest.raises(UsageError):
        old_folder(tmp_path / "file")


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "kept", b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(StoreFullError):
            put(tmp_path / "kept", b"new")
    assert (tmp_path / "kept").read_bytes() == b"old"
    put(tmp_path / "kept", b"new")
    assert (tmp_path / "kept").read_bytes() == b"new"
    for place in (tmp_path / "no" / "folder", tmp_path):
        with pytest.raises(StoreError):
            put(place, b"new")
    folder = new_folder(tmp_path / "export")
    (tmp_path / "export" / "tile").write_bytes(b"in the way")
    with pytest.raises(StoreError):
        folder.write("tile/0/000", b"x")


def test_links_are_remembered_in_memory_and_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill_index, "IN_MEMORY_MAX", 10)
    links = TemporaryLinks()
    assert links.last("a0") is None
    for version in (1, 2):
        for n in range(95):
            assert links.last(f"a{n}") == (None if version == 1 else (1, bytes([n])))
            links.met(f"a{n}", version, bytes([n]))
            assert len(links._recent) <= 10
    assert links.last("a3") == (2, b"\x03")
    assert links.last("b") is None
    links.close()
    links.close()


def test_what_a_log_that_is_gone_on_with_writes_is_on_the_disk_and_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def counted(handle: int) -> None:
        synced.append(handle)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", counted)
    with alone(tmp_path / "log") as tiles:
        tiles.write("tile/0/000", b"one")
        assert len(synced) == 4, "the file, its name, and those of the two folders"
        tiles.write("tile/0/000", b"one")
        assert len(synced) == 4
        tiles.write("tile/0/000", b"o")
        assert (len(synced), tiles.read("tile/0/000", 8)) == (6, b"o")
