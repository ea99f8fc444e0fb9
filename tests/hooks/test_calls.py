"""Before and after a call: what is handed out, what is denied, what is read back and told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from readback import ApproverKey, Readback
from tests.hooks.conftest import BASH, Agent


def pre(agent: Agent, tool: str = "Write", given: dict[str, Any] | None = None, call: str = "toolu_x") -> Any:
    chosen = {"file_path": str(agent.folder / "a.txt"), "content": "a"} if given is None else given
    return agent.tell("PreToolUse", tool_name=tool, tool_input=chosen, tool_use_id=call)


def rewrite(agent: Agent, name: str, change: Callable[[str], str]) -> None:
    path = agent.folder / ".claude" / name
    changed = change(path.read_text(encoding="utf-8"))
    assert changed != path.read_text(encoding="utf-8")
    path.write_text(changed, encoding="utf-8")


def outcomes(agent: Agent) -> list[dict[str, Any]]:
    """Every action on record, the newest first."""
    listed = json.loads(agent.readback("list", "--json").out)
    found = listed["actions"] if isinstance(listed, dict) else listed
    return [json.loads(agent.readback("show", each["id"], "--json").out)["outcome"] for each in found]


@pytest.mark.requirement("HOOK-no-permission")
def test_nothing_is_permitted_only_nothing_stands_against_it(agent: Agent) -> None:
    told = pre(agent)
    assert (told.code, told.out, told.err) == (0, "", "")  # the agent's own rules decide, and its user


def test_the_action_is_found_again_by_session_and_call(agent: Agent) -> None:
    pre(agent)
    (action,) = outcomes(agent)
    assert action["operation"] == f"{agent.session}/toolu_x"
    assert (action["state"], action["attempts"]) == ("executing", 1)


def test_a_write_that_says_so_and_did_it_is_verified(agent: Agent) -> None:
    assert "Verified" in agent.write("a.txt", "hello").context


@pytest.mark.requirement("HOOK-denied")
@pytest.mark.parametrize("tool", ["Write", "Edit"])
def test_a_path_that_depends_on_the_agents_folder_is_denied_with_what_is_wrong(agent: Agent, tool: str) -> None:
    given = {"file_path": "a.txt", "content": "a", "old_string": "a", "new_string": "b"}
    assert "a whole path" in pre(agent, tool, given).denied


@pytest.mark.parametrize("path", ["{}/b/../a.txt", "/{}/a.txt", "//{}/./a.txt"])
def test_a_path_means_what_it_means_to_the_agent(agent: Agent, path: str) -> None:
    (agent.folder / "b").mkdir()
    given = {"file_path": path.format(agent.folder), "content": "hello"}
    told = agent.use("Write", given, lambda: (agent.folder / "a.txt").write_text("hello"), {})
    assert "Verified" in told.context


EDITS = [
    ("one two", " two", "", "one", True),
    ("one two", "two", "two three", "one two three", True),
    ("", "", "new", "new", True),
    (None, "", "new", "new", True),
    (None, "", "new", "new and more", False),
    ("one two", "nowhere", "one", "one three", False),
    ("one two", "two", "one", "one two one", False),
    ("one two", "two", "three", "one two", False),
]


@pytest.mark.requirement("HOOK-told")
@pytest.mark.parametrize(("before", "old", "new", "after", "done"), EDITS)
def test_an_edit_is_verified_where_the_old_text_was_there_and_the_new_one_is_in_its_place(
    agent: Agent, before: str | None, old: str, new: str, after: str, done: bool
) -> None:
    path = agent.folder / "a.txt"
    if before is not None:
        path.write_text(before)
    given = {"file_path": str(path), "old_string": old, "new_string": new}
    told = agent.use("Edit", given, lambda: path.write_text(after), {})
    assert ("Verified" in told.context) is done, told


@pytest.mark.requirement("HOOK-told")
@pytest.mark.parametrize(
    ("before", "after", "done"),
    [
        (b"one\r\ntwo\r\nthree\r\n", b"one\r\n2\r\nthree\r\n", True),
        (b"one\r\ntwo\r\nthree\r\n", b"one\n2\nthree\n", True),
        (b"one\r\ntwo\r\nthree\r\n", b"one\ntwo\nthree\n", False),
        (b"one\r\ntoo\r\n", b"one\r\n2\r\n", False),
    ],
)
def test_an_edit_of_several_lines_is_verified_in_a_file_with_the_line_ends_of_windows(
    agent: Agent, before: bytes, after: bytes, done: bool
) -> None:
    path = agent.folder / "a.txt"
    path.write_bytes(before)
    given = {"file_path": str(path), "old_string": "one\ntwo", "new_string": "one\n2"}
    told = agent.use("Edit", given, lambda: path.write_bytes(after), {})
    assert ("Verified" in told.context) is done, told


@pytest.mark.requirement("HOOK-told")
@pytest.mark.parametrize(
    ("command", "governed"),
    [
        ("git commit -m x", True),
        (" git commit --amend --no-edit\n", True),
        ("git commit -m 'a; b && c'", True),
        ('git commit -m "$(cat <<\'EOF\'\nFix it (a; b)\n\nand \\"more\\" & more\nEOF\n)"', True),
        ("git commit -m it\\'s", True),
        ('git commit -m "$(cat <<\'END\'\nIt "quotes" (a) $HOME `b`\nEND\n  )"', True),
        ('git commit -m "costs $5 and \\$(more)"', True),
        ('git commit -m "$(git push)"', False),
        ('git commit -m "`git push`"', False),
        ('git commit -m "$(cat <<EOF\n$(git push)\nEOF\n)"', False),
        ("git commit -m \"$(cat <<'EOF'\nx\nEOF\ngit push\nEOF\n)\"", False),
        ("git commit -m \"$(cat <<'EOF'\nx\nEOF\n)$(git push)\"", False),
        ("git commit -m \"$(cat <<'EOF'\nx\nEOF\n)\" && git push", False),
        ("git commit -m x && git push", False),
        ("git commit -m x; rm a", False),
        ("git commit -m x | tee log", False),
        ("git commit -m x > log", False),
        ("git commit -m x\ngit push", False),
        ("git commit -m $(git push)", False),
        ("git commit -m `git push`", False),
        ("git commit -m x &", False),
        ("git commit-tree x", False),
        ("git commit --dry-run", False),
        ("git commit -z", False),
        ("git commit -m x --null", False),
        ("git commit -a --porcelain=v2 ", False),
        ("git commit -h", False),
        ("git commit -m 'say --dry-run and -h' --short-lived", True),
        (f"git commit {' ' * 100_000};", False),
        ('git commit -m "' + "$(cat <<'EOF'\nx\n" * 500, False),
    ],
)
def test_a_commit_with_something_behind_it_is_not_told_as_done_by_its_commit(
    agent: Agent, command: str, governed: bool
) -> None:
    told = agent.use("Bash", {"command": command}, lambda: None, BASH)
    assert ("git_commit" in told.context) is governed, told
    assert ("no contract governs it" in told.context) is not governed


@pytest.mark.requirement("L29", "L32", "HOOK-told")
def test_a_file_that_holds_something_else_than_was_asked_for_is_refuted_whatever_the_tool_says(agent: Agent) -> None:
    told = agent.write("a.txt", "hello", really="hell")
    assert "value_mismatch" in told.blocks
    assert "do not repeat this action" in told.context


def test_a_tool_that_failed_is_read_too_and_a_failure_is_not_blocked_over_but_told(agent: Agent) -> None:
    path = agent.folder / "a.txt"
    given = {"file_path": str(path), "content": "hello"}
    failed = agent.use("Write", given, lambda: None, "EACCES: permission denied")
    assert failed.json["hookSpecificOutput"]["hookEventName"] == "PostToolUseFailure"
    assert "Verified" not in failed.context
    landed = agent.use("Write", given, lambda: path.write_text("hello"), "The connection was closed")
    assert "Verified" in landed.context


def test_a_command_that_was_interrupted_is_read_like_any_other(agent: Agent) -> None:
    (agent.folder / "a.txt").write_text("a", encoding="utf-8")
    agent.git("add", "a.txt")
    bash = {"command": "git commit -m x"}
    told = agent.use("Bash", bash, lambda: agent.git("commit", "-m", "x"), {**BASH, "interrupted": True})
    assert "Verified" in told.context


def test_arguments_that_a_contract_does_not_name_are_not_what_it_is_about(agent: Agent) -> None:
    told = pre(agent, "Bash", {"command": "git commit -m x", "timeout": 5, "run_in_background": False})
    assert told.denied == ""


@pytest.mark.requirement("HOOK-denied")
def test_a_call_whose_arguments_do_not_fit_is_denied_with_what_is_wrong(agent: Agent) -> None:
    told = pre(agent, given={"file_path": 7, "content": "a"})
    assert "file_path" in told.denied
    assert "It takes string" in told.denied
    assert outcomes(agent) == []


@pytest.mark.requirement("HOOK-denied")
def test_a_precondition_that_does_not_hold_denies_the_call(agent: Agent) -> None:
    rewrite(agent, "readback-contracts.yaml", lambda text: text.replace(
        "    require:\n      a whole path",
        "    require:\n      new: before == null\n      a whole path",
    ))  # fmt: skip
    (agent.folder / "a.txt").write_text("mine", encoding="utf-8")
    assert "Write was not called" in pre(agent).denied
    (action,) = outcomes(agent)
    assert (action["state"], action["attempts"]) == ("failed", 0)


def test_one_call_is_handed_out_once(agent: Agent) -> None:
    assert pre(agent).denied == ""
    assert "do not repeat" in pre(agent).denied


def test_a_call_is_reported_once_and_answered_from_the_record_then(agent: Agent) -> None:
    agent.write("a.txt", "hello")
    (action,) = outcomes(agent)
    given = {"file_path": str(agent.folder / "a.txt"), "content": "hello"}
    again = agent.tell(
        "PostToolUseFailure",
        tool_name="Write",
        tool_input=given,
        tool_use_id="toolu_0001",
        error="no",
        is_interrupt=False,
    )
    assert "Verified" in again.context
    assert outcomes(agent) == [action]


def test_a_contract_may_govern_a_tool_of_an_mcp_server_or_a_notebook(agent: Agent) -> None:
    rewrite(agent, "readback-contracts.yaml", lambda text: text + (
        "\n  mcp__files__write_file:\n    kind: set\n    side_effect: ephemeral_write\n"
        "    target: file/{requested.path}\n    arguments: {path: string, content: string}\n"
        "    execute: {agent: {}}\n    readers:\n      - file: {root: /, path: \"{requested.path}\"}\n"
        "    ensure: {same bytes: authoritative.sha256 == sha256(requested.content)}\n    within: 1s\n"
    ))  # fmt: skip
    rewrite(agent, "readback.yaml", lambda text: text.replace("tools: ", "tools:  ").replace(
        "  - tool: Bash", "  - tool: mcp__*__put\n    contract: mcp__files__write_file\n  - tool: Bash"
    ))  # fmt: skip
    path = agent.folder / "m.txt"
    for tool in ("mcp__files__write_file", "mcp__other__put"):
        given = {"path": str(path), "content": tool}
        told = agent.use(tool, given, lambda: path.write_text(tool), [{"type": "text", "text": "ok"}])  # noqa: B023
        assert "Verified" in told.context
    lied = agent.use("mcp__files__write_file", {"path": str(path), "content": "new"}, lambda: None, [])
    assert lied.blocks


@pytest.mark.requirement("HOOK-denied")
def test_a_call_that_waits_for_an_approval_is_denied_and_says_who_has_to_do_what(agent: Agent) -> None:
    rewrite(agent, "readback-contracts.yaml", lambda text: text.replace(
        "    target: git/{requested.cwd}\n", "    target: git/{requested.cwd}\n    approval: required\n"
    ))  # fmt: skip
    bash = {"command": "git commit -m x"}
    first = pre(agent, "Bash", bash)
    (action,) = outcomes(agent)
    assert f"readback approve {action['id']}" in first.denied
    again = pre(agent, "Bash", bash, "toolu_y")
    assert f"readback approve {action['id']}" in again.denied, "the same request waits, and no second one is asked for"
    other = pre(agent, "Bash", {"command": "git commit -m y"}, "toolu_z")
    assert action["id"] not in other.denied


@pytest.mark.slow
@pytest.mark.requirement("HOOK-denied")
def test_an_approved_call_is_let_through_once_when_the_agent_makes_it_again_and_is_read_back(agent: Agent) -> None:
    ledger = f"sqlite:///{agent.folder / '.claude' / 'readback.db'}"
    alice = ApproverKey.create(agent.folder.parent / "alice.pem", passphrase="correct horse battery")
    config = agent.folder.parent / "config" / "readback"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(
        f'[approvers.alice]\nkey = "{alice.public_key}"\ntenants = ["default"]\n', encoding="utf-8"
    )
    rewrite(agent, "readback-contracts.yaml", lambda text: text.replace(
        "    target: git/{requested.cwd}\n", "    target: git/{requested.cwd}\n    approval: required\n"
    ))  # fmt: skip
    bash = {"command": "git commit -m x"}
    assert pre(agent, "Bash", bash, "toolu_a").denied
    (action,) = outcomes(agent)
    with Readback.open(ledger, tenant="default", principal="agent:local", runtime=agent.runtime) as rb:
        rb.approve(action["id"], alice.approve(rb.approval(action["id"]), "alice"))
    (agent.folder / "a.txt").write_text("a", encoding="utf-8")
    agent.git("add", "a.txt")
    agent.calls = 0
    told = agent.use("Bash", bash, lambda: agent.git("commit", "-m", "x"), BASH)
    assert "Verified" in told.context
    (action,) = outcomes(agent)
    assert action["approved_by"] == ["alice"]
    assert "approval" in pre(agent, "Bash", bash, "toolu_b").denied


BUILD = """
  build:
    kind: set
    side_effect: ephemeral_write
    target: file/out
    arguments: {command: string}
    execute: {agent: {}, timeout: 10m}
    readers: [{file: {root: .., path: out.txt}}]
    ensure: {there: authoritative != null}
    within: 1s
"""


@pytest.mark.requirement("HOOK-reported", "L29")
@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ({"run_in_background": True}, {"backgroundTaskId": "b1"}),
        ({}, {"backgroundTaskId": "b1", "assistantAutoBackgrounded": True}),
        ({"run_in_background": True}, {}),
    ],
)
def test_a_command_that_goes_on_in_the_background_is_not_told_as_ended_without_its_effect(
    agent: Agent, asked: dict[str, Any], answer: dict[str, Any]
) -> None:
    rewrite(agent, "readback-contracts.yaml", lambda text: text + BUILD)
    rewrite(agent, "readback.yaml", lambda text: text.replace(
        "  - tool: Bash", "  - {tool: Bash, match: {command: ^make}, contract: build}\n  - tool: Bash", 1
    ))  # fmt: skip
    told = agent.use("Bash", {"command": "make out", **asked}, lambda: None, {**BASH, **answer})
    assert "the result is unknown" in told.blocks
    (waiting,) = outcomes(agent)
    assert (waiting["state"], waiting["may_repeat"]) == ("executing", False)
    (agent.folder / "out.txt").write_text("made", encoding="utf-8")
    agent.runtime.advance(5)
    assert agent.tell("Stop", stop_hook_active=False, background_tasks=[]).out == ""
    (done,) = outcomes(agent)
    assert done["verified"]


# --- what no contract governs --------------------------------------------------------------------------------------


@pytest.mark.requirement("HOOK-ungoverned")
def test_a_tool_that_only_reads_is_neither_recorded_nor_spoken_of(agent: Agent) -> None:
    assert pre(agent, "Read", {"file_path": "a.txt"}).out == ""
    told = agent.tell(
        "PostToolUse", tool_name="Read", tool_input={"file_path": "a"}, tool_use_id="toolu_x", tool_response={}
    )
    assert (told.code, told.out) == (0, "")
    assert not (agent.folder / ".claude" / "readback.db").exists()


@pytest.mark.requirement("HOOK-ungoverned")
def test_another_ungoverned_tool_is_recorded_and_said_to_be_unverified(agent: Agent) -> None:
    told = agent.use("Bash", {"command": "rm -rf build"}, lambda: None, BASH)
    assert told.blocks == ""
    assert "nothing of it was verified" in told.context
    (action,) = outcomes(agent)
    assert (action["verified"], action["target"], action["why"]) == (False, "tool/Bash", "unverifiable")


def nested(depth: int) -> dict[str, Any]:
    return {"in": nested(depth - 1)} if depth else {}


@pytest.mark.requirement("HOOK-ungoverned")
@pytest.mark.parametrize("given", [{"text": "x" * 5_000_000}, {"rows": [0] * 300_000}, nested(100)], ids=len)
def test_an_ungoverned_call_is_let_through_however_large_or_deep_it_is(agent: Agent, given: dict[str, Any]) -> None:
    told = agent.use("mcp__docs__put", given, lambda: None, [])
    assert "nothing of it was verified" in told.context
    (action,) = outcomes(agent)
    assert action["target"] == "tool/mcp__docs__put"


@pytest.mark.requirement("HOOK-ungoverned")
def test_where_the_file_says_deny_an_ungoverned_tool_is_not_called(agent: Agent) -> None:
    rewrite(agent, "readback.yaml", lambda text: text.replace("policy: unverified", "policy: deny"))
    assert "No contract governs Bash" in pre(agent, "Bash", {"command": "ls"}).denied
    assert pre(agent, "Read", {"file_path": "a"}).denied == ""
    assert pre(agent).denied == ""


def test_single_tools_may_pass_or_be_denied_by_name(agent: Agent) -> None:
    rewrite(agent, "readback.yaml", lambda text: text + "  pass: [mcp__docs__*]\n  deny: [mcp__shell__*]\n")
    assert pre(agent, "mcp__docs__find", {}).out == ""
    assert "No contract governs" in pre(agent, "mcp__shell__run", {}).denied
    assert not [each for each in outcomes(agent) if "docs" in each["target"]]


def test_the_ledger_and_the_hook_file_may_be_named(agent: Agent, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    said = json.dumps(agent.said("PreToolUse", tool_name="Bash", tool_input={"command": "x"}, tool_use_id="t")).encode()
    file = str(agent.folder / ".claude" / "readback.yaml")
    assert agent.raw("pre", said, "--hooks", file, "--url", f"sqlite:///{other}").code == 0
    assert other.exists()


def test_the_ledger_that_the_hook_file_names_is_that_one_whatever_its_name(agent: Agent) -> None:
    rewrite(agent, "readback.yaml", lambda text: text.replace("ledger: readback.db", "ledger: 'a%20?b.db'"))
    agent.write("a.txt", "hello")
    assert "a%20?b.db" in [each.name for each in (agent.folder / ".claude").iterdir()]


@pytest.mark.requirement("HOOK-ungoverned")
@pytest.mark.parametrize("loose", [("policy: unverified", "policy: pass"), ("at_stop: tell", "pass: ['*']")])
def test_a_contract_of_the_tools_own_name_governs_it_where_what_is_ungoverned_passes(
    agent: Agent, loose: tuple[str, str]
) -> None:
    rewrite(agent, "readback.yaml", lambda text: text.replace(*loose))
    assert pre(agent, "NotebookEdit", {"notebook_path": "a"}).out == ""
    assert not (agent.folder / ".claude" / "readback.db").exists()
    assert "value_mismatch" in agent.write("a.txt", "hello", really="hell").blocks
    rewrite(agent, "readback-contracts.yaml", lambda text: text.replace("\ncontracts:", "\ncontract:", 1))
    assert pre(agent, "NotebookEdit", {"notebook_path": "a"}).code == 2  # which contracts there are cannot be told
