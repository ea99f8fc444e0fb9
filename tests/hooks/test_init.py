"""`readback init --claude-code`: what is there loses nothing, what is broken is left alone, what is new is sound."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from readback.cli.cli import main
from readback.cli.contracts.init_claude_code import HOOKS


def init(*more: str) -> Any:
    return CliRunner().invoke(main, ["init", "--claude-code", *more])


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settings(project: Path) -> Any:
    return json.loads((project / ".claude" / "settings.json").read_text(encoding="utf-8"))


def test_it_says_what_it_wrote_and_what_it_wrote_is_sound(project: Path) -> None:
    told = init()
    assert told.exit_code == 0, told.output
    names = ["readback.yaml", "readback-contracts.yaml", ".gitignore", "settings.json"]
    assert told.stdout.splitlines() == [f"written: .claude/{name}" for name in names]
    assert set(settings(project)["hooks"]) == set(HOOKS)
    checked = CliRunner().invoke(main, ["contracts", "check", ".claude/readback-contracts.yaml", "--offline"])
    assert checked.exit_code == 0, checked.output


def test_a_second_time_changes_nothing_and_says_so(project: Path) -> None:
    init()
    before = {path.name: path.read_bytes() for path in (project / ".claude").iterdir()}
    told = init("--json")
    assert json.loads(told.stdout)["written"] == []
    assert len(json.loads(told.stdout)["kept"]) == 4
    assert {path.name: path.read_bytes() for path in (project / ".claude").iterdir()} == before


@pytest.mark.requirement("HOOK-settings")
def test_settings_that_are_there_are_added_to_and_lose_nothing(project: Path) -> None:
    mine = {
        "permissions": {"allow": ["Bash(ls:*)"], "deny": []},
        "model": "größer",
        "hooks": {
            "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./guard.sh"}]}],
            "Notification": [{"hooks": [{"type": "command", "command": "beep"}]}],
        },
        "later": {"unknown": [1, 2.5, None]},
    }
    (project / ".claude").mkdir()
    (project / ".claude" / "settings.json").write_text(json.dumps(mine), encoding="utf-8")
    (project / ".claude" / "settings.json").chmod(0o600)
    assert init().exit_code == 0
    found = settings(project)
    assert found["hooks"]["PreToolUse"][0] == mine["hooks"]["PreToolUse"][0]  # type: ignore[index]
    assert len(found["hooks"]["PreToolUse"]) == 2
    assert found["hooks"]["Notification"] == mine["hooks"]["Notification"]  # type: ignore[index]
    assert {key: found[key] for key in mine if key != "hooks"} == {k: v for k, v in mine.items() if k != "hooks"}
    assert [*found] == [*mine]
    assert (project / ".claude" / "settings.json").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in (project / ".claude").iterdir()) == [
        ".gitignore", "readback-contracts.yaml", "readback.yaml", "settings.json",
    ]  # fmt: skip


@pytest.mark.requirement("HOOK-settings")
@pytest.mark.parametrize(
    "broken",
    ["{", "[]", "// mine\n{}", '{"hooks": []}', '{"hooks": {"Stop": {}}}', '{"hooks": {"Stop": ["x"]}}',
     '{"a": 1e400}', '{"a": 1.000000000000000001}',
     '{"a": NaN}', '{"a": "\\ud800"}', '{"a": 1, "a": 2}', '{"hooks": {"Stop": [{"hooks": "x"}]}}',
     "\udcff"],
    ids=repr,
)  # fmt: skip
def test_settings_that_cannot_be_understood_are_left_as_they_are_and_nothing_is_written(
    project: Path, broken: str
) -> None:
    (project / ".claude").mkdir()
    path = project / ".claude" / "settings.json"
    path.write_bytes(broken.encode(errors="surrogateescape"))
    told = init()
    assert told.exit_code == 2
    assert "nothing was written" in told.stderr
    assert path.read_bytes() == broken.encode(errors="surrogateescape")
    assert [each.name for each in path.parent.iterdir()] == ["settings.json"]


def test_files_of_ones_own_are_never_written_over_and_a_link_is_followed(project: Path) -> None:
    home = project / ".claude"
    home.mkdir()
    (home / "readback.yaml").write_text("mine", encoding="utf-8")
    (project / "real.json").write_text("{}", encoding="utf-8")
    (home / "settings.json").symlink_to(project / "real.json")
    told = init()
    assert "exists, unchanged: .claude/readback.yaml" in told.stdout
    assert (home / "readback.yaml").read_text(encoding="utf-8") == "mine"
    assert (home / "settings.json").is_symlink()
    assert "readback hook pre" in (project / "real.json").read_text(encoding="utf-8")


@pytest.mark.requirement("HOOK-closed", "L29")
def test_a_hook_that_the_agent_gives_up_on_or_cannot_start_holds_the_tool_back(project: Path) -> None:
    """As the agent documents it since 2.1.295; the key stands beside the command, and means nothing at a turn's end."""
    init()
    written = {event: hook for event, (entry,) in settings(project)["hooks"].items() for hook in entry["hooks"]}
    failing = {event: hook["onFailure"] for event, hook in written.items() if "onFailure" in hook}
    assert failing == dict.fromkeys(("PreToolUse", "PostToolUse", "PostToolUseFailure"), "block")


@pytest.mark.requirement("HOOK-closed", "HOOK-settings")
def test_hooks_that_an_earlier_release_wrote_fail_closed_from_the_next_time_on_and_ones_own_are_left_alone(
    project: Path,
) -> None:
    init()
    today = settings(project)
    earlier = json.loads(json.dumps(today))
    for event in ("PreToolUse", "PostToolUse"):
        del earlier["hooks"][event][0]["hooks"][0]["onFailure"]
    earlier["hooks"]["PostToolUseFailure"][0]["hooks"][0]["onFailure"] = "continue"
    own = {"type": "command", "command": "readback hook pre --hooks mine.yaml"}
    earlier["hooks"]["PreToolUse"][0]["hooks"].append(own)
    (project / ".claude" / "settings.json").write_text(json.dumps(earlier))
    assert "written: .claude/settings.json" in init().stdout
    found = settings(project)["hooks"]
    assert found["PreToolUse"][0]["hooks"] == [*today["hooks"]["PreToolUse"][0]["hooks"], own]
    assert found["PostToolUse"] == today["hooks"]["PostToolUse"]
    assert found["PostToolUseFailure"] == earlier["hooks"]["PostToolUseFailure"]


def test_a_hook_that_is_set_up_already_is_not_set_up_twice(project: Path) -> None:
    (project / ".claude").mkdir()
    own = {"hooks": [{"type": "command", "command": "/opt/bin/readback hook pre --hooks x.yaml"}]}
    (project / ".claude" / "settings.json").write_text(json.dumps({"hooks": {"PreToolUse": [own]}}), encoding="utf-8")
    init()
    assert settings(project)["hooks"]["PreToolUse"] == [own]
    assert len(settings(project)["hooks"]["Stop"]) == 1


@pytest.mark.requirement("HOOK-settings")
@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
def test_settings_that_switch_hooks_off_are_left_alone(project: Path, name: str) -> None:
    (project / ".claude").mkdir()
    (project / ".claude" / name).write_text('{"disableAllHooks": true}')
    told = init()
    assert told.exit_code == 2
    assert "disableAllHooks" in told.stderr
    assert name in told.stderr
    assert [path.name for path in (project / ".claude").iterdir()] == [name]


@pytest.mark.requirement("HOOK-settings")
@pytest.mark.parametrize("mine", [None, "", "*.log", "*.log\n", "/readback.db*\n"])
def test_the_ledger_is_kept_out_of_commits_and_what_is_ignored_already_stays_so(
    project: Path, mine: str | None
) -> None:
    home = project / ".claude"
    home.mkdir()
    if mine is not None:
        (home / ".gitignore").write_text(mine)
    for _ in range(2):
        assert init().exit_code == 0
    assert (home / ".gitignore").read_text().count("/readback.db*") == 1
    for name in ("readback.db", "readback.db-wal", "a.log"):
        (home / name).write_text("x")
    subprocess.run(["git", "init", "--quiet"], cwd=project, check=True)
    told = subprocess.run(["git", "add", "--all", "--dry-run"], cwd=project, check=True, capture_output=True, text=True)
    assert "readback.db" not in told.stdout
    assert "readback.yaml" in told.stdout
    assert ("a.log" not in told.stdout) is ("log" in (mine or ""))


@pytest.mark.requirement("HOOK-settings")
@pytest.mark.parametrize("name", ["settings.json", "settings.local.json", ".gitignore"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_in_a_file_s_place_is_neither_waited_for_nor_touched(
    project: Path, name: str, make: Callable[[Path], None]
) -> None:
    home = project / ".claude"
    home.mkdir()
    make(home / name)
    told = init()
    assert told.exit_code == (0 if name == ".gitignore" else 2)
    assert name in told.output
    assert not (home / name).is_file()


@pytest.mark.requirement("HOOK-settings")
def test_settings_that_are_a_link_to_nowhere_are_left_alone_and_nothing_is_written(project: Path) -> None:
    home = project / ".claude"
    home.mkdir()
    (home / "settings.json").symlink_to("nowhere/settings.json")
    told = init()
    assert told.exit_code == 2
    assert "nothing was written" in told.stderr
    assert [each.name for each in home.iterdir()] == ["settings.json"]


@pytest.mark.requirement("HOOK-settings")
def test_a_hook_that_is_there_for_some_tools_alone_is_kept_and_said(project: Path) -> None:
    init()
    whole = settings(project)
    for event in ("PreToolUse", "PostToolUse"):
        whole["hooks"][event][0]["matcher"] = "Bash"
    (project / ".claude" / "settings.json").write_text(json.dumps(whole))
    told = init()
    assert settings(project) == whole
    assert "other tools are not verified: PreToolUse: Bash" in told.stderr
    assert json.loads(init("--json").stdout)["narrow"] == ["PreToolUse: Bash", "PostToolUse: Bash"]
