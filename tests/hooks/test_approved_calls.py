"""Calls that need an approval: all of them is approved, or they are not made."""

from __future__ import annotations

import pytest

from tests.hooks.conftest import Agent
from tests.hooks.test_calls import outcomes, pre, rewrite


@pytest.mark.requirement("HOOK-denied", "L18")
def test_a_call_with_more_than_its_contract_names_is_not_let_through_by_an_approval_of_the_rest(agent: Agent) -> None:
    rewrite(agent, "readback-contracts.yaml", lambda text: text.replace(
        "    target: git/HEAD\n", "    target: git/HEAD\n    approval: required\n"
    ))  # fmt: skip
    bash = {"command": "git commit -m x", "description": "Commits."}
    told = pre(agent, "Bash", {**bash, "dangerouslyDisableSandbox": True, "timeout": 5}, "toolu_a").denied
    assert "names neither dangerouslyDisableSandbox nor timeout" in told
    assert not (agent.folder / ".claude" / "readback.db").exists() or outcomes(agent) == []
    assert "readback approve" in pre(agent, "Bash", bash, "toolu_b").denied
