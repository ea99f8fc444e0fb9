"""`readback delegate`: a real command that lies, and how it is brought to do the work."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from readback.cli.cli import main
from readback.delegations.command import CommandDelegate, session_of
from readback.errors import UsageError
from tests.delegations.given import EXISTS

AGENT = """\
#!/bin/sh
cat >> said.txt
echo "[$*]" >> said.txt
echo x >> turns
[ "$(wc -l < turns)" -gt "$LIES" ] && echo data > report.txt
echo 'I wrote it.'
exit ${CODE:-0}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent").write_text(AGENT)
    (tmp_path / "agent").chmod(0o755)
    (tmp_path / "verify.py").write_text(EXISTS)
    return tmp_path


def delegate(folder: Path, *given: str, lies: int = 0, ended: int = 0, stdin: str | None = None) -> tuple[int, Any]:
    """The command with --json: its exit code, and what it said."""
    found = json.dumps({"expected_path": str(folder / "report.txt")})
    told = ["delegate", "--json", "--within", "100ms", "--allow-fs", ".", "--args", found]
    told += ["--env", "LIES", "--env", "CODE"]
    task = [] if stdin is not None else ["--task", "Write report.txt."]
    environment = {"LIES": str(lies), "CODE": str(ended)}
    done = CliRunner().invoke(main, [*told, *task, *given, "--", "./agent"], input=stdin, env=environment)
    return done.exit_code, json.loads(done.stdout)


VERIFY = ("--verify", "verify.py")


@pytest.mark.requirement("RALPH-same-delegate", "RALPH-fixed-prompt")
def test_a_command_that_lies_twice_is_brought_to_do_the_work_with_the_whole_conversation_on_its_stdin(
    folder: Path,
) -> None:
    code, said = delegate(folder, *VERIFY, lies=2)
    assert (code, said["passed"], said["attempts"], said["verify_outcome"]) == (0, True, 3, "passed")
    assert said["attributes"]["delegation.verify_attempts"] == 3
    assert (folder / "report.txt").exists()
    last = (folder / "said.txt").read_text().split("[]\n")[2]
    assert last.count("USER:") == 3
    assert last.count("ASSISTANT:\nI wrote it.") == 2
    assert last.rstrip().endswith("The task:\nWrite report.txt.")
    assert len(said["actions"]) == 3


def test_a_command_with_a_session_of_its_own_is_told_its_id_and_only_what_is_new(folder: Path) -> None:
    flags = ("--session-flag", "--session-id", "--resume-flag", "--resume")
    code, _ = delegate(folder, *VERIFY, *flags, "--operation", "report-1", lies=1)
    session = session_of("default", "delegation/delegate/report-1", "report-1")
    first, second = (folder / "said.txt").read_text().split(f" {session}]\n")[:2]
    assert code == 0
    assert first == "Write report.txt.[--session-id"
    assert second.startswith("VERIFICATION FAILED on the previous attempt: expected file does not exist")
    assert "USER:" not in second
    assert second.endswith("[--resume")
    assert str(uuid.UUID(session)) == session


def test_two_delegations_whose_operations_have_one_name_are_two_conversations(folder: Path) -> None:
    for name in ("writer", "reviewer"):
        flags = ("--session-flag", "--session-id", "--operation", "report-1", "--name", name)
        assert delegate(folder, *VERIFY, *flags)[0] == 0
    sessions = re.findall(r"\[--session-id (\S+)\]", (folder / "said.txt").read_text())
    assert len(sessions) == len(set(sessions)) == 2


def test_a_command_that_goes_on_lying_ends_with_one_and_says_why(folder: Path) -> None:
    code, said = delegate(folder, *VERIFY, "--max-verify-retries", "1", lies=99)
    assert (code, said["attempts"], said["error"]["code"]) == (1, 2, "delegation.verification-failed")
    assert said["reason"] == "expected file does not exist"


def test_what_is_not_verified_is_never_zero(folder: Path) -> None:
    assert delegate(folder)[0] == 3
    (folder / "report.txt").unlink()
    code, said = delegate(folder, *VERIFY, lies=99, ended=7)
    assert (code != 0, said["verify_outcome"], said["attempts"]) == (True, "undetermined", 1)


def test_the_task_is_read_from_stdin_and_hooks_from_files(folder: Path) -> None:
    (folder / "policy.md").write_text(
        "---\nevent: delegation.post_verify\n"
        "script: |\n  def handle(event, payload):\n      return block('never')\n---\n"
    )
    code, said = delegate(folder, "--hook", "policy.md", "--max-verify-retries", "0", stdin="From stdin.")
    assert (code, said["reason"]) == (1, 'blocked by hook "policy": never')
    assert (folder / "said.txt").read_text().startswith("From stdin.")


def test_a_fault_of_verifiers_or_options_is_found_before_the_command_runs(folder: Path) -> None:
    (folder / "bad.py").write_text("this is not valid starlark!!")
    (folder / "bad.md").write_text("---\nevent: delegation.post_verify\nscrpt: x\n---\n")
    assert delegate(folder, "--verify", "bad.py")[0] == 5
    assert delegate(folder, "--hook", "bad.md")[0] == 5
    assert delegate(folder, "--verify", "absent.py")[0] == 2
    assert delegate(folder, *VERIFY, "--resume-flag", "--resume")[0] == 2
    assert delegate(folder, *VERIFY, "--allow-sql", "x")[0] == 2
    assert delegate(folder, *VERIFY, stdin="  ")[0] == 2
    assert not (folder / "turns").exists()
    with pytest.raises(UsageError):
        CommandDelegate(())


def test_an_answer_in_json_brings_its_tool_calls(folder: Path) -> None:
    (folder / "agent").write_text(
        '#!/bin/sh\ncat > /dev/null\necho \'{"response": "ok", "tool_calls": [{"name": "write"}]}\'\n'
    )
    (folder / "calls.py").write_text("def run(result):\n    return result['tool_calls'][0]['name'] == 'write'\n")
    assert delegate(folder, "--verify", "calls.py", "--output", "json")[0] == 0
    (folder / "agent").write_text("#!/bin/sh\ncat > /dev/null\necho nonsense\n")
    code, said = delegate(folder, "--verify", "calls.py", "--output", "json")
    assert (code, said["error"]["code"]) == (5, "delegation.script")


def test_of_a_command_that_answered_nothing_no_answer_is_spoken_of(folder: Path) -> None:
    done = CliRunner().invoke(main, ["delegate", "--task", "x", *VERIFY, "--within", "100ms", "--", "./nowhere"])
    assert done.exit_code != 0
    assert "cannot be started" in done.stdout
    assert "answer is a claim" not in done.stdout
