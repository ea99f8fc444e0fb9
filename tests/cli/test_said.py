"""What is said to somebody who mistypes, read as he reads it: plain, on one line, with what to do next."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.terminals import without_terminal


def said(folder: Path, *args: str) -> list[str]:
    answer = without_terminal(list(args), folder, {"HOME": str(folder)})
    assert answer.code == 2, answer
    return [line for line in answer.err.splitlines() if line.startswith(("Error:", "Next:"))]


def test_a_choice_that_is_missing_is_listed_on_one_line(tmp_path: Path) -> None:
    error, following = said(tmp_path, "review", "resolve", "X")
    assert error == (
        "Error: Missing option '--decision'. Choose from: attest_done, attest_not_done, verify_again, compensate, "
        "go_forward, abandon, reopen"
    )
    assert following == "Next: Run `readback review resolve --help`."


@pytest.mark.parametrize("group", ["review", "table", "ledger", "keys", "drill"])
def test_a_group_without_a_command_points_to_its_own_help(tmp_path: Path, group: str) -> None:
    assert said(tmp_path, group) == ["Error: A command is missing.", f"Next: Run `readback {group} --help`."]


def test_a_proof_that_is_not_there_is_named_with_what_should_be(tmp_path: Path) -> None:
    error, following = said(tmp_path, "ledger", "verify-proof", "nowhere", "--key", "k")
    assert "nowhere" in error
    assert "`readback ledger prove`" in following
