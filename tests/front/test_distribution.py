"""The distribution is `readback-ai`; another project's `readback` in the same environment is named."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from readback.cli.checks import distribution
from readback.cli.checks.distribution import NAME, SUMMARY, unrelated
from readback.cli.cli import main

ROOT = Path(__file__).resolve().parents[2]


def installed(folder: Path, summary: str, name: str = "readback-0.1.0.dist-info") -> Path:
    (folder / name).mkdir(parents=True)
    (folder / name / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: readback\nVersion: 0.1.0\nSummary: {summary}\n\nWords: after the header\n",
        encoding="utf-8",
    )
    return folder


def test_the_package_is_published_under_its_own_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == NAME == "readback-ai"
    assert project["description"].startswith(SUMMARY)
    assert project["scripts"]["readback"]


def test_another_project_of_that_name_is_named_with_the_way_out(tmp_path: Path) -> None:
    said = unrelated([installed(tmp_path, "Reads articles aloud")])
    assert "0.1.0" in said
    assert "pip uninstall readback" in said
    assert NAME in said


def test_ours_under_its_older_name_and_an_empty_folder_are_no_other_project(tmp_path: Path) -> None:
    assert unrelated([tmp_path]) == ""
    assert unrelated([tmp_path / "missing"]) == ""
    assert unrelated([installed(tmp_path, f"{SUMMARY}: an action counts once it was read back.")]) == ""


def test_a_header_that_says_nothing_is_another_project(tmp_path: Path) -> None:
    folder = tmp_path / "readback-9.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_bytes(b"\xff\x00")
    assert "unknown version" in unrelated([tmp_path])


def test_the_command_says_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = installed(tmp_path, "Reads articles aloud")
    monkeypatch.setattr(distribution, "folders", lambda: (other,))
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(main, ["version"])
    assert "is another project" in said.stderr
    assert "is another project" not in said.stdout
    assert "pip uninstall readback" in CliRunner().invoke(main, ["doctor"]).output


def test_an_environment_that_a_user_may_not_list_stops_no_command(tmp_path: Path) -> None:
    class Shut(type(tmp_path)):  # type: ignore[misc]
        """A folder without the right to list it. A real one is open to the superuser, who may run these tests."""

        def glob(self, pattern: str) -> Any:
            raise PermissionError(13, "Permission denied", str(self))

    assert unrelated([Shut(tmp_path)]) == ""
    assert "0.1.0" in unrelated([Shut(tmp_path), installed(tmp_path, "Reads articles aloud")])
