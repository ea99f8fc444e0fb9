"""The last resort for a record that nobody took: it is written whole to a file of one's own, or it is said that not."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from pathlib import Path

import pytest

from readback.adapters.sinks.fallback import SUFFIX, write_fallback

pytestmark = pytest.mark.requirement("TRUTH-words-append-failed")
RECORD = {"id": "a-1"}


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder that everybody on the machine may write to."""
    folder = tmp_path / "tmp"
    folder.mkdir(mode=0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def lines(place: str) -> list[object]:
    return [json.loads(line) for line in Path(place).read_text().splitlines()]


def test_records_follow_each_other_beside_the_ledger_for_its_owner_alone(tmp_path: Path) -> None:
    place = write_fallback(tmp_path / "ledger.db", dict(RECORD))
    assert write_fallback(tmp_path / "ledger.db", dict(RECORD)) == place == str(tmp_path / f"ledger.db{SUFFIX}")
    assert lines(place) == [RECORD, RECORD]
    assert stat.S_IMODE(Path(place).stat().st_mode) == 0o600


@pytest.mark.parametrize("what", ["pipe", "link", "folder", "writable by others"])
def test_what_somebody_put_in_its_place_is_neither_waited_for_nor_followed(temporary: Path, what: str) -> None:
    """A pipe kept whoever was to be told that the result is unknown waiting for ever; a link led to another file."""
    place, victim = temporary / f"readback{SUFFIX}", temporary / "somebody's"
    victim.write_text("")
    match what:
        case "pipe":
            os.mkfifo(place)
        case "link":
            place.symlink_to(victim)
        case "folder":
            place.mkdir()
        case _:
            place.touch()
            place.chmod(0o666)
    found = write_fallback(None, dict(RECORD))
    assert lines(found) == [RECORD]
    assert (found != str(place), victim.read_text()) == (True, "")
    assert stat.S_IMODE(Path(found).stat().st_mode) == 0o600
    assert Path(found).name.endswith(SUFFIX)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_account_is_not_written_to(temporary: Path) -> None:
    place = temporary / f"readback{SUFFIX}"
    place.touch(0o600)
    os.chown(place, 65534, 65534)
    found = write_fallback(None, dict(RECORD))
    assert (lines(found), place.read_text()) == ([RECORD], "")


def test_a_line_that_was_not_written_whole_is_not_said_to_be_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, short = os.write, [True]

    def torn(descriptor: int, data: bytes) -> int:
        return write(descriptor, data[:5] if short and short.pop() else data)

    monkeypatch.setattr(os, "write", torn)
    found = write_fallback(tmp_path / "ledger.db", dict(RECORD))
    assert lines(found) == [RECORD]
    assert write_fallback(tmp_path / "ledger.db", dict(RECORD)) == str(tmp_path / f"ledger.db{SUFFIX}")
    assert json.loads((tmp_path / f"ledger.db{SUFFIX}").read_text().splitlines()[-1]) == RECORD


def test_where_no_file_can_be_written_it_says_so_and_raises_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full machine has no temporary folder either."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "nowhere")])
    assert write_fallback(None, dict(RECORD)).startswith("nowhere")
    assert lines(write_fallback(tmp_path / "ledger.db", dict(RECORD))) == [RECORD]
