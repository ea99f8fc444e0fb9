"""Readers that packs are made of: files by the paths that a program means, several at once; repositories below one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from readback.domain.verification.reading import Presence, Reading
from readback.errors import ReaderTypeError, SandboxEscapeError
from readback.systems.configured.settings import Settled
from readback.systems.configured.sources import SOURCES
from tests.contract_files.writing import context

SECOND_US = 1_000_000


def read(kind: str, fixed: dict[str, object], **given: object) -> Reading:
    return SOURCES[kind].read(Settled("it", fixed, "/", SECOND_US), context(), given)


def value(found: Reading) -> dict[str, Any]:
    assert isinstance(found.value, dict)
    return found.value


@pytest.mark.parametrize("path", ["a.txt", "./a.txt", "sub/../a.txt", "{root}/a.txt", "{root}/sub/../a.txt"])
def test_a_path_means_what_it_means_to_a_program_with_that_folder(path: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    fixed = {"root": str(tmp_path), "base": str(tmp_path)}
    assert value(read("file", fixed, path=path.replace("{root}", str(tmp_path))))["size"] == 1


@pytest.mark.parametrize("path", ["../x", "sub/../../x", "/etc/passwd", "~/x"])
def test_a_path_that_leads_out_is_refused_with_a_base_too(path: str, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    fixed = {"root": str(tmp_path / "work"), "base": str(tmp_path / "work")}
    with pytest.raises(SandboxEscapeError):
        read("file", fixed, path=path)


def test_without_times_a_write_of_the_same_bytes_is_no_change(tmp_path: Path) -> None:
    fixed = {"root": str(tmp_path), "times": False}
    (tmp_path / "a.txt").write_text("a")
    before = read("file", fixed, path="a.txt")
    (tmp_path / "b.txt").write_text("a")
    os.replace(tmp_path / "b.txt", tmp_path / "a.txt")
    after = read("file", fixed, path="a.txt")
    assert (before.value, before.version) == (after.value, after.version)


def test_other_paths_are_shown_beside_a_folder_with_its_manifest_and_nothing_as_null(tmp_path: Path) -> None:
    (tmp_path / "folder" / "in").mkdir(parents=True)
    (tmp_path / "folder" / "in" / "a.txt").write_text("a")
    also = {"folder": "folder", "file": "folder/in/a.txt", "nothing": "folder/none"}
    shown = value(read("file", {"root": str(tmp_path)}, path=".", also=also))["also"]
    assert shown["nothing"] is None
    assert shown["file"]["size"] == 1
    assert set(shown["folder"]["entries"]) == {"in", "in/a.txt"}


def test_what_is_beside_and_cannot_be_read_hides_the_whole(tmp_path: Path) -> None:
    with pytest.raises(SandboxEscapeError):
        read("file", {"root": str(tmp_path)}, path=".", also={"other": "../x"})


@pytest.mark.parametrize("match", ["text", [1], [["text"]], 3])
def test_what_lines_are_held_against_is_a_list_of_objects(match: object, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}")
    with pytest.raises(ReaderTypeError):
        read("file", {"root": str(tmp_path), "show": "lines"}, path="a.jsonl", match=match)


def test_a_repository_outside_of_the_one_that_is_meant_is_refused(tmp_path: Path) -> None:
    fixed = {"repository": str(tmp_path / "work"), "show": "status"}
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to(tmp_path)
    for at in ("/", str(tmp_path), str(tmp_path / "work" / ".."), str(tmp_path / "work" / "link")):
        with pytest.raises(SandboxEscapeError):
            read("git", fixed, at=at)
    assert read("git", fixed, at=str(tmp_path / "work")).presence is Presence.UNAVAILABLE
