"""Calls that need an approval: all of them is approved, or they are not made."""

from __future__ import annotations

import pytest

from readback import ApproverKey, Readback
from tests.hooks.conftest import BASH, Agent
from tests.hooks.test_calls import outcomes, pre, rewrite


def approver(agent: Agent) -> ApproverKey:
    alice = ApproverKey.create(agent.folder.parent / "alice.pem", passphrase="correct horse battery")
    config = agent.folder.parent / "config" / "readback"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(
        f'[approvers.alice]\nkey = "{alice.public_key}"\ntenants = ["default"]\n', encoding="utf-8"
    )
    return alice


def approve(agent: Agent, alice: ApproverKey) -> None:
    """The newest action that waits."""
    action = next(each for each in outcomes(agent) if each["hold"])
    ledger = f"sqlite:///{agent.folder / '.claude' / 'readback.db'}"
    with Readback.open(ledger, tenant="default", principal="agent:local", runtime=agent.runtime) as rb:
        rb.approve(action["id"], alice.approve(rb.approval(action["id"]), "alice"))


@pytest.mark.slow
@pytest.mark.requirement("HOOK-reported", "L18")
def test_an_approved_call_that_leaves_out_what_has_a_default_is_reported_as_that_call(agent: Agent) -> None:
    alice = approver(agent)
    rewrite(agent, "readback-contracts.yaml", lambda text: text.replace(
        "    description: Puts one text", "    approval: required\n    description: Puts one text"
    ))  # fmt: skip
    path = agent.folder / "a.txt"
    path.write_text("one two", encoding="utf-8")
    given = {"file_path": str(path), "old_string": "two", "new_string": "three"}  # and no `replace_all`
    assert "readback approve" in pre(agent, "Edit", given).denied
    approve(agent, alice)
    told = agent.use("Edit", given, lambda: path.write_text("one three", encoding="utf-8"), {})
    assert "Verified" in told.context


@pytest.mark.slow
@pytest.mark.requirement("HOOK-denied", "L18")
def test_an_approved_call_of_which_an_argument_is_redacted_is_let_through_and_no_second_one_is_asked_for(
    agent: Agent,
) -> None:
    alice = approver(agent)
    rewrite(agent, "readback-contracts.yaml", lambda text: text.replace(
        "    target: git/{requested.cwd}\n",
        "    target: git/{requested.cwd}\n    approval: required\n    redact: [requested.command]\n",
    ))  # fmt: skip
    agent.git("commit", "--quiet", "--allow-empty", "-m", "first")
    bash = {"command": "git commit -m x"}
    assert "readback approve" in pre(agent, "Bash", bash).denied
    approve(agent, alice)
    other = pre(agent, "Bash", {"command": "git commit -m y"}, "toolu_y")
    assert "readback approve" in other.denied
    agent.use("Bash", bash, lambda: agent.git("commit", "--allow-empty", "-m", "x"), BASH)
    assert sorted(each["attempts"] for each in outcomes(agent)) == [0, 1]


@pytest.mark.slow
@pytest.mark.requirement("HOOK-stop-once", "L18")
def test_a_call_that_was_approved_after_another_one_was_refuted_puts_that_right_whenever_it_was_asked_for(
    agent: Agent,
) -> None:
    alice, path = approver(agent), agent.folder / "a.txt"
    rewrite(agent, "readback-contracts.yaml", lambda text: text.replace(
        "Lets a file hold this text.\n", "Lets a file hold this text.\n    approval: required\n"
    ))  # fmt: skip
    one, two = ({"file_path": str(path), "content": content} for content in ("one", "two"))
    assert pre(agent, "Write", one, "toolu_a").denied
    [first] = outcomes(agent)
    approve(agent, alice)
    assert pre(agent, "Write", two, "toolu_b").denied
    approve(agent, alice)
    assert "Failed" in agent.use("Write", two, lambda: None, "EIO").context
    assert "a.txt: not done" in agent.tell("Stop", stop_hook_active=False).blocks
    told = agent.use("Write", one, lambda: path.write_text("one", encoding="utf-8"), {})
    assert first["id"] in told.context
    assert "Verified" in told.context
    assert agent.tell("Stop", stop_hook_active=False).out == ""


@pytest.mark.requirement("HOOK-denied", "L18")
def test_a_call_with_more_than_its_contract_names_is_not_let_through_by_an_approval_of_the_rest(agent: Agent) -> None:
    rewrite(agent, "readback-contracts.yaml", lambda text: text.replace(
        "    target: git/{requested.cwd}\n", "    target: git/{requested.cwd}\n    approval: required\n"
    ))  # fmt: skip
    bash = {"command": "git commit -m x", "description": "Commits."}
    told = pre(agent, "Bash", {**bash, "dangerouslyDisableSandbox": True, "timeout": 5}, "toolu_a").denied
    assert "names neither dangerouslyDisableSandbox nor timeout" in told
    assert not (agent.folder / ".claude" / "readback.db").exists() or outcomes(agent) == []
    assert "readback approve" in pre(agent, "Bash", bash, "toolu_b").denied
