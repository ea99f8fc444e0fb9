"""A writer of golden texts shows the difference, and writes nothing before the difference is accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.rewrite import rewrite


def test_a_changed_text_is_shown_and_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = tmp_path / "a.txt"
    golden.write_text("old\n", encoding="utf-8")
    assert rewrite({golden: "new\n"}, []) == 1
    assert golden.read_text(encoding="utf-8") == "old\n"
    shown = capsys.readouterr().out.splitlines()
    assert {"-old", "+new"} <= {*shown}


def test_an_accepted_change_is_written_and_a_text_without_a_case_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    golden, stale, other = tmp_path / "a.txt", tmp_path / "gone.txt", tmp_path / "kept.json"
    for path in (golden, stale, other):
        path.write_text("old\n", encoding="utf-8")
    assert rewrite({golden: "new\n"}, ["--accept"], owned="*.txt") == 0
    assert golden.read_text(encoding="utf-8") == "new\n"
    assert not stale.exists()
    assert other.exists()
    assert "gone.txt" in capsys.readouterr().out


def test_an_unknown_argument_writes_nothing(tmp_path: Path) -> None:
    golden = tmp_path / "a.txt"
    assert rewrite({golden: "new\n"}, ["--write"]) == 2
    assert not golden.exists()


def test_nothing_to_change_is_a_success(tmp_path: Path) -> None:
    golden = tmp_path / "a.txt"
    golden.write_text("same\n", encoding="utf-8")
    assert rewrite({golden: "same\n"}, []) == 0
