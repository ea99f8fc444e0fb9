"""A `git commit` of an agent: which commit it has to be, by its message, its parent, its content and its time."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from readback.hooks.session import commit_of
from tests.hooks.conftest import BASH, Agent

ME = ("-c", "user.name=agent", "-c", "user.email=agent@localhost", "-c", "commit.gpgsign=false")


def shell(agent: Agent, command: str) -> None:
    """The command as the agent's shell runs it."""
    named = command.replace("git commit", f"git {' '.join(ME)} commit", 1)
    subprocess.run(["bash", "-c", named], cwd=agent.folder, env=agent.environment(), check=True, capture_output=True)


def staged(agent: Agent, name: str = "a.txt", text: str = "a\n") -> None:
    (agent.folder / name).write_text(text, encoding="utf-8")
    agent.git("add", name)


def hook(agent: Agent, name: str, program: str) -> None:
    path = agent.folder / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{program}\n", encoding="utf-8")
    path.chmod(0o755)


def told(agent: Agent, command: str, act: Callable[[], object] | None = None) -> Any:
    return agent.use("Bash", {"command": command}, act or (lambda: shell(agent, command)), BASH)


@pytest.fixture
def begun(agent: Agent) -> Agent:
    staged(agent, "begun.txt")
    agent.git("commit", "--quiet", "-m", "begun")
    return agent


HONEST = (
    "git commit -m x",
    "git commit -m 'a; b && c'",
    'git commit -m "$(cat <<\'EOF\'\nFix it (a; b)\n\nand \\"more\\" & more\nEOF\n)"',
    "git commit -m it\\'s",
    'git commit -m "costs $5 and \\$(more)"',
    "git commit -m one -m 'two \n\n\n lines  '",
    "git commit -qsm 'signed off'",
    "git commit --message='long option' --author='Ada <ada@example.test>'",
    "git commit --amend --no-edit",
    "git commit --amend -m 'said otherwise'",
    "git commit -m only begun.txt",
    "git commit -am 'of all that is tracked'",
    "git commit --allow-empty -m 'nothing, on purpose'",
)


@pytest.mark.requirement("HOOK-commit")
@pytest.mark.parametrize("command", HONEST)
def test_a_commit_that_is_the_one_asked_for_is_verified(begun: Agent, command: str) -> None:
    if "empty" not in command:
        (begun.folder / "begun.txt").write_text("changed\n", encoding="utf-8")
        staged(begun, "new.txt") if "only" not in command else None
        begun.git("add", "begun.txt") if "of all" not in command and "only" not in command else None
    assert "Verified" in told(begun, command).context


@pytest.mark.requirement("HOOK-commit")
@pytest.mark.parametrize(
    "done",
    [
        ["commit", "--quiet", "-m", "of someone else"],
        ["commit", "--quiet", "--allow-empty", "-m", "mine", "--only", "--"],
        ["commit", "--quiet", "--amend", "-m", "mine"],
        ["commit", "--quiet", "-m", "mine", "--date", "2001-01-01T00:00:00"],
        ["-c", "core.bare=false", "commit", "--quiet", "-m", "mine", "--", "begun.txt"],
    ],
    ids=["another message", "without what was staged", "in the last one's place", "of another time", "of another file"],
)
def test_another_commit_that_came_meanwhile_is_not_taken_for_it(begun: Agent, done: list[str]) -> None:
    staged(begun)
    (begun.folder / "begun.txt").write_text("more\n", encoding="utf-8")
    found = told(begun, "git commit -m mine", lambda: begun.git(*done))
    assert "Verified" not in found.context


@pytest.mark.requirement("HOOK-commit")
def test_two_commits_in_place_of_one_are_not_taken_for_it(begun: Agent) -> None:
    def twice() -> None:
        begun.git("commit", "--quiet", "--allow-empty", "-m", "between", "--only", "--")
        begun.git("commit", "--quiet", "-m", "mine")

    staged(begun)
    assert "Verified" not in told(begun, "git commit -m mine", twice).context


@pytest.mark.requirement("HOOK-commit")
@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("pre-commit", "tr a-z A-Z < a.txt > b.txt && mv b.txt a.txt && git add a.txt"),
        ("pre-commit", "echo made > made.txt && git add made.txt"),
        ("commit-msg", "printf 'JIRA-1: %s\\n\\nChange-Id: I1\\n' \"$(cat $1)\" > $1"),
        ("prepare-commit-msg", "printf 'Fix\\nall   Of it.\\n' > $1"),
    ],
)
def test_a_hook_that_formats_what_is_committed_is_no_fault(begun: Agent, name: str, program: str) -> None:
    hook(begun, name, program)
    staged(begun)
    assert "Verified" in told(begun, "git commit -m 'fix all of it'").context


@pytest.mark.requirement("HOOK-commit")
def test_a_message_that_a_hook_cannot_have_made_of_it_is_another_commit(begun: Agent) -> None:
    hook(begun, "commit-msg", "exit 0")
    staged(begun)
    act = lambda: begun.git("commit", "--quiet", "-m", "something else")  # noqa: E731 - one line, used once
    assert "Verified" not in told(begun, "git commit -m 'fix all of it'", act).context


@pytest.mark.requirement("HOOK-commit")
def test_a_commit_of_nothing_is_told_as_a_call_that_changed_nothing(begun: Agent) -> None:
    found = begun.use("Bash", {"command": "git commit -m x"}, lambda: None, "Exit code 1\nnothing to commit")
    assert "Nothing was changed" in found.context
    assert "nothing to commit" in found.context


@pytest.mark.parametrize(
    ("command", "message", "takes"),
    [
        ("git commit -am 'x y'", "x y", "tracked"),
        ("git commit -m a -m b -- f", "a\n\nb", "paths"),
        ("git commit --message=q f.txt", "q", "paths"),
        ("git commit -F notes", "", "index"),
        ('git commit -m "$HOME"', "", "index"),
        ("git commit -m '$HOME'", "$HOME", "index"),
        ("git commit -m 'a  \n\n\n b\n'", "a\n\n b", "index"),
        ("git commit -p -m x", "x", "paths"),
        ("git commit -m 'not ended", "", "paths"),
    ],
)
def test_a_command_says_what_it_says_and_no_more(command: str, message: str, takes: str) -> None:
    found = commit_of(command)
    assert (found["message"], found["takes"]) == (message, takes)
