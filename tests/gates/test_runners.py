"""The composite action and the pre-commit hooks, run as a runner runs them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.architecture.tree import ROOT
from tests.gates.conftest import Desk
from tests.gates.given import TEXT, edited, file_of

LOOSER = edited("authoritative.status == 'shipped'", "authoritative.status in ['shipped', 'packed']")
PATIENCE_SECONDS = 120


def environment(folder: Path) -> dict[str, str]:
    """What a job has: a home, a path to the installed command, and no settings."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"HOME": str(folder), "PATH": path, "LANG": "C.UTF-8"}


class Runner:
    """Runs the shell steps of a composite action: expressions are filled in, and other actions are left out."""

    def __init__(self, folder: Path, inputs: dict[str, str]) -> None:
        self.action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
        self.folder = folder
        self.inputs = {name: str(each.get("default", "")) for name, each in self.action["inputs"].items()}
        assert inputs.keys() <= self.inputs.keys()
        self.inputs |= inputs
        self.output, self.summary = folder / "output.txt", folder / "summary.md"
        self.said = ""
        self.before: list[str] = []
        """Folders of programs that come before the installed ones."""

    def run(self) -> int:
        """Run every step, and return the code of the first that fails."""
        for step in self.action["runs"]["steps"]:
            if "run" not in step or not self._wanted(step.get("if", "")):
                continue
            assert step["shell"] == "bash"
            assert "${{" not in step["run"], "an input inside a script would become shell text"
            given = {name: self._filled(value) for name, value in step.get("env", {}).items()}
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=self.folder,
                env={
                    **environment(self.folder),
                    "PATH": os.pathsep.join([*self.before, environment(self.folder)["PATH"]]),
                    "GITHUB_ACTION_PATH": str(ROOT),
                    "GITHUB_OUTPUT": str(self.output),
                    "GITHUB_STEP_SUMMARY": str(self.summary),
                    **given,
                },
                capture_output=True,
                text=True,
                timeout=PATIENCE_SECONDS,
                check=False,
            )
            self.said += done.stdout + done.stderr
            if done.returncode:
                return done.returncode
        return 0

    def outputs(self) -> dict[str, str]:
        """The outputs of the action, by its own declaration."""
        written = dict(line.split("=", 1) for line in self.output.read_text(encoding="utf-8").splitlines())
        named: dict[str, Any] = self.action["outputs"]
        found = {}
        for name, each in named.items():
            (step,) = re.findall(r"steps\.gates\.outputs\.([a-z-]+)", each["value"])
            found[name] = written.get(step, "")
        return found

    def _filled(self, value: str) -> str:
        return re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda found: self.inputs[found[1]], value)

    def _wanted(self, condition: str) -> bool:
        return condition != "inputs.install != 'none'" or self.inputs["install"] != "none"


def job(desk: Desk, text: str = TEXT, **inputs: str) -> Runner:
    file = file_of(desk.folder / "new", text)
    given = {
        "contracts": f"{file}\n",
        "against": str(desk.file),
        "history": desk.url,
        "install": "none",
        "only": "trace-replay,predicate-diff",
    }
    return Runner(desk.folder, {**given, **{name.replace("_", "-"): value for name, value in inputs.items()}})


@pytest.mark.requirement("GATES-runners")
def test_the_action_passes_with_reports_outputs_and_a_summary(gates_desk: Desk) -> None:
    runner = job(gates_desk)
    assert runner.run() == 0, runner.said
    assert runner.outputs() == {
        "result": "passed", "exit-code": "0", "flips": "0", "report": "readback-gates/result.json",
    }  # fmt: skip
    assert {each.name for each in (gates_desk.folder / "readback-gates").iterdir()} == {
        "result.json", "junit.xml", "readback.sarif", "summary.md",
    }  # fmt: skip
    assert "## Release gates: passed" in runner.summary.read_text(encoding="utf-8")


@pytest.mark.requirement("GATES-runners")
def test_the_action_fails_with_annotations_and_proposed_acknowledgements(gates_desk: Desk) -> None:
    runner = job(gates_desk, LOOSER, against=str(gates_desk.file))
    assert runner.run() == 1, runner.said
    assert runner.outputs()["result"] == "failed"
    assert int(runner.outputs()["flips"]) >= 6
    assert "::error file=new/contracts.yaml,line=25,col=7," in runner.said
    assert (gates_desk.folder / "readback-gates" / "acknowledgements.yaml").is_file()


@pytest.mark.requirement("GATES-runners")
def test_an_undetermined_result_fails_the_job_unless_the_job_allows_it(gates_desk: Desk) -> None:
    assert job(gates_desk, min_actions="7").run() == 3
    allowing = job(gates_desk, min_actions="7", allow_undetermined="true")
    assert allowing.run() == 0
    assert "::warning::" in allowing.said


@pytest.mark.requirement("GATES-runners")
def test_an_input_is_never_run_as_a_command(gates_desk: Desk) -> None:
    runner = job(gates_desk, history="$(touch hacked)`touch hacked`; touch hacked")
    assert runner.run() == 2
    assert not (gates_desk.folder / "hacked").exists()
    assert runner.outputs()["result"] == "error"


@pytest.mark.requirement("GATES-runners")
@pytest.mark.parametrize(
    ("install", "package"), [("", str(ROOT)), ("readback-ai==1.0; touch x", "readback-ai==1.0; touch x")]
)
def test_the_action_installs_its_own_version_or_the_named_package(gates_desk: Desk, install: str, package: str) -> None:
    programs = gates_desk.folder / "programs"
    programs.mkdir()
    stub = programs / "python"
    stub.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {gates_desk.folder}/asked\nexit 9\n', encoding="utf-8")
    stub.chmod(0o755)
    runner = job(gates_desk, install=install)
    runner.before = [str(programs)]
    assert runner.run() == 9
    asked = (gates_desk.folder / "asked").read_text(encoding="utf-8").splitlines()
    assert asked == ["-m", "pip", "install", "--quiet", package]


@pytest.mark.requirement("GATES-runners")
def test_a_ledger_records_the_result_for_the_job(gates_desk: Desk) -> None:
    runner = job(gates_desk, url=f"sqlite:///{gates_desk.folder / 'ci.db'}")
    assert runner.run() == 0, runner.said
    assert "Recorded as" in runner.said
    assert (gates_desk.folder / "ci.db").is_file()


# --- pre-commit ----------------------------------------------------------------------------------------------------


def hooks() -> dict[str, dict[str, Any]]:
    listed = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    return {each["id"]: each for each in listed}


def committed(folder: Path) -> Path:
    file = file_of(folder)
    for arguments in (
        ["init", "-q"],
        ["add", "contracts.yaml"],
        ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "-m", "first"],
    ):
        subprocess.run(["git", "-C", str(folder), *arguments], check=True)
    return file


def hooked(folder: Path, hook: dict[str, Any], *more: str) -> subprocess.CompletedProcess[str]:
    """Run a hook as pre-commit does: in the repository's root, with the matching files behind its arguments."""
    names = [each.name for each in folder.iterdir() if re.search(hook["files"], each.name)]
    arguments = [*shlex.split(hook["entry"]), *hook.get("args", []), *more, *names]
    return subprocess.run(
        arguments,
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


@pytest.mark.requirement("GATES-runners")
def test_the_pre_commit_hook_passes_an_unchanged_file_and_stops_a_looser_one(tmp_path: Path) -> None:
    committed(tmp_path)
    hook = hooks()["readback-gates-diff"]
    assert hook["language"] == "python"
    done = hooked(tmp_path, hook)
    assert done.returncode == 0, done.stdout + done.stderr
    file_of(tmp_path, LOOSER)
    done = hooked(tmp_path, hook)
    assert done.returncode == 1
    assert "contracts.yaml:25:7: ship_order@1: ensure.shipped is looser" in done.stdout


@pytest.mark.requirement("GATES-runners")
def test_the_hook_of_contract_files_stops_a_file_that_does_not_compile(tmp_path: Path) -> None:
    committed(tmp_path)
    hook = hooks()["readback-contracts-check"]
    assert hooked(tmp_path, hook).returncode == 0
    file_of(tmp_path, edited("authoritative.status == 'shipped'", "authoritative.status = 'shipped'"))
    assert hooked(tmp_path, hook).returncode == 5
