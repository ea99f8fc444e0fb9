"""A delegation's verifiers are a part of its contract: other verifiers are another contract, and judge nothing old."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from readback import Readback, delegation_hook
from readback.agent_errors import DelegationFailedError
from readback.contracts.functions.conditions import postcondition
from readback.delegations.api import Delegation
from readback.delegations.model.words import VerifyOutcome
from readback.domain.contract.script_permissions import ScriptLimits
from readback.domain.state import State
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.delegations.given import TASK, Desk

LEASE_S = 3_600
YES, NO = "def run(result):\n    return True\n", "def run(result):\n    return False\n"
HOOK = "---\nevent: delegation.post_verify\n{more}script: |\n  def handle(event, payload):\n      return {said}\n---\n"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def contract_hash(sent: Delegation) -> str:
    sent.action.load()
    sent.close()
    return sent.action.contract.hash


def opened_at(ledger: Path, runtime: VirtualRuntime, **given: Any) -> Readback:
    return Readback.open(f"sqlite:///{ledger}", runtime=runtime, tenant="acme", principal="agent:x", **given)


def hook_file(folder: Path, said: str, more: str = "") -> str:
    path = folder / "check.md"
    path.write_text(HOOK.format(said=said, more=more))
    return str(path)


def judging(wanted: object) -> Callable[[dict[str, object]], bool]:
    def judge(result: dict[str, object]) -> bool:
        return result.get("response") == wanted

    return judge


def blocks(event: str, payload: dict[str, Any]) -> object:
    return {"action": "block", "reason": "no"}


def allows(event: str, payload: dict[str, Any]) -> object:
    return {"action": "allow"}


def test_each_part_of_the_verifiers_changes_the_contracts_hash(desk: Desk) -> None:
    folder = desk.folder
    variants = {
        "script": {"verify": NO},
        "allow.fs": {"allow": {"fs": [str(folder)]}},
        "allow.http": {"allow": {"http": ["http://127.0.0.1:9/"]}},
        "allow.sql": {"allow": {"sql": {"a": str(folder / "a.db")}}},
        "limits": {"limits": ScriptLimits(host_calls=1)},
        "hook": {"hooks": [delegation_hook()(blocks)]},
        "another hook": {"hooks": [delegation_hook(name="blocks")(allows)]},
        "its priority": {"hooks": [delegation_hook(priority=1)(blocks)]},
        "its condition": {"hooks": [delegation_hook(when=allows)(blocks)]},
        "function": {"verify": judging("a")},
        "what it captured": {"verify": judging("b")},
        "what is bound": {"verify": functools.partial(lambda wanted, result: result == wanted, "a")},
        "its version": {"verify": postcondition(version="2")(judging("a"))},
    }
    seen = {"none": contract_hash(desk.delegation(verify=YES))}
    for what, given in variants.items():
        seen[what] = contract_hash(desk.delegation(**{"verify": YES, **given}))
    for said, more in (
        ("allow()", ""),
        ("block('no')", ""),
        ("allow()", "priority: 3\n"),
        ("allow()", "when: 'True'\n"),
    ):
        hooks = [hook_file(folder, said, more)]
        seen[f"hook file {said} {more}"] = contract_hash(desk.delegation(verify=YES, hooks=hooks))
    assert len(set(seen.values())) == len(seen)


def test_the_same_verifiers_made_again_are_the_same_contract(desk: Desk) -> None:
    given: list[Callable[[], dict[str, Any]]] = [
        lambda: {"verify": YES, "allow": {"fs": [str(desk.folder)]}},
        lambda: {"verify": judging("a"), "hooks": [delegation_hook()(blocks)]},
        lambda: {"verify": YES, "hooks": [hook_file(desk.folder, "allow()")]},
    ]
    for each in given:
        assert contract_hash(desk.delegation(**each())) == contract_hash(desk.delegation(**each()))


def test_the_order_in_which_hooks_are_given_is_no_other_contract(desk: Desk) -> None:
    one, two = delegation_hook(name="one")(allows), delegation_hook(name="two")(blocks)
    assert contract_hash(desk.delegation(hooks=[one, two])) == contract_hash(desk.delegation(hooks=[two, one]))


def test_a_contract_without_verifiers_keeps_its_hash(desk: Desk) -> None:
    sent = desk.delegation(verify=None)
    sent.action.load()
    assert sent.action.contract.verifiers == ""
    assert replace(sent.action.contract, verifiers="").sealed().hash == sent.action.contract.hash


@pytest.mark.requirement("RALPH-both-pass")
@pytest.mark.parametrize("other", [{"verify": NO}, {"verify": YES, "hooks": [delegation_hook()(blocks)]}])
def test_what_passed_under_other_verifiers_has_not_passed_these(desk: Desk, other: dict[str, Any]) -> None:
    with Readback.open(store=MemoryStore(), runtime=VirtualRuntime(), tenant="acme", principal="agent:x") as client:
        first = desk.delegation(verify=YES)
        assert first.run(client, TASK, operation="a").passed
        again = desk.delegation(**other)
        said = again.run(client, TASK, operation="a")
        assert (said.passed, said.verify_outcome) == (False, VerifyOutcome.UNDETERMINED)
        assert "other verifiers" in said.reason
        assert first.run(client, TASK, operation="a").passed
        first.close()
        again.close()
    assert len(desk.turns) == 1


def test_what_other_verifiers_refuted_is_not_sent_again_by_these(desk: Desk) -> None:
    with Readback.open(store=MemoryStore(), runtime=VirtualRuntime(), tenant="acme", principal="agent:x") as client:
        first = desk.delegation(verify=lambda result: False)
        with pytest.raises(DelegationFailedError):
            first.run(client, TASK, operation="a", max_verify_retries=0)
        said = desk.delegation(verify=lambda result: True).run(client, TASK, operation="a")
    assert (said.verify_outcome, len(desk.turns)) == (VerifyOutcome.UNDETERMINED, 1)


def test_an_attempt_under_way_is_not_judged_by_other_verifiers(desk: Desk) -> None:
    folder = desk.folder / "ledger.db"
    first = desk.delegation(verify=lambda result: None, within="4s", late_window="4s")
    runtime = VirtualRuntime()
    with opened_at(folder, runtime) as client:
        assert first.run(client, TASK, operation="a", wait=0).verify_outcome is VerifyOutcome.UNDETERMINED
    changed = desk.delegation(verify=lambda result: True, within="4s", late_window="4s")
    with opened_at(folder, runtime, actions=[changed.action]) as client:
        runtime.advance(LEASE_S)
        said = changed.run(client, TASK, operation="a")
        assert (said.passed, said.verify_outcome) == (False, VerifyOutcome.UNDETERMINED)
        runtime.advance(LEASE_S)
        client.resume()
        assert client.get(said.outcomes[-1].id).state is State.REVIEW_REQUIRED
    assert len(desk.turns) == 1


# --- systems that are out of reach ---

EXISTS = 'def run(result):\n    return json.encode({"verified": fs.exists(args["path"]), "reason": "not there"})\n'
ABSENT = 'def run(result):\n    return json.encode({"verified": not fs.exists(args["path"]), "reason": "there"})\n'
QUERY = 'def run(result):\n    return len(sql.query("db", "select 1")) > 1\n'


@pytest.mark.requirement("RALPH-verifier-error")
@pytest.mark.parametrize("script", [EXISTS, ABSENT, QUERY])
@pytest.mark.parametrize("there", ["nothing", "a file", "a dangling link"])
def test_a_folder_that_is_not_there_decides_nothing(desk: Desk, script: str, there: str) -> None:
    volume = desk.folder / "volume"
    if there == "a file":
        volume.write_text("")
    if there == "a dangling link":
        volume.symlink_to(desk.folder / "unmounted")
    sent = desk.delegation(verify=script, allow={"fs": [str(volume)], "sql": {"db": str(volume / "a.db")}})
    with Readback.open(store=MemoryStore(), runtime=VirtualRuntime(), tenant="acme", principal="agent:x") as client:
        done = sent.run(client, TASK, args={"path": str(volume / "r.txt")})
    sent.close()
    assert (done.verify_outcome, len(desk.turns)) == (VerifyOutcome.UNDETERMINED, 1)
    assert "cannot be opened" in done.reason if script is QUERY else "is not there, so nothing below" in done.reason


def test_a_folder_that_comes_back_before_the_deadline_is_looked_into(desk: Desk) -> None:
    volume = desk.folder / "volume"
    runtime = VirtualRuntime()
    sent = desk.delegation(verify=EXISTS, allow={"fs": [str(volume)]}, within="10s")
    with Readback.open(
        store=MemoryStore(), runtime=runtime, tenant="acme", principal="agent:x", actions=[sent.action]
    ) as client:
        first = sent.run(client, TASK, operation="a", args={"path": str(volume / "r.txt")}, wait=0)
        assert first.verify_outcome is VerifyOutcome.UNDETERMINED
        volume.mkdir()
        (volume / "r.txt").write_text("done")
        assert sent.run(client, TASK, operation="a", args={"path": str(volume / "r.txt")}).passed
    sent.close()
    assert len(desk.turns) == 1
