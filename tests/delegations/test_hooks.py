"""Hooks: verifiers of every delegation, asked in their order between the delegate's answer and its acceptance."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from readback import delegation_hook
from readback.agent_errors import (
    DelegationFailedError,
    DelegationHookError,
    ScriptCompileError,
    ScriptError,
)
from readback.delegations.hook_files import parse_hook_file, read_hook_file
from readback.delegations.model.words import VerifyOutcome
from readback.errors import UsageError
from tests.delegations.given import TASK, Desk, opened

PRINTED = """\
---
event: delegation.post_verify
priority: 10
script: |
    def handle(event, payload):
        # payload is the same dict the inline verifier sees
        claims = payload.get("response", "")
        if "I created" in claims:
            # cheap heuristic: claim implies a file should exist
            return {"action": "block", "reason": "claim made but no file path provided"}
        return {"action": "allow"}
---
"""
"""The specification's hook, as printed."""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def hook(answer: object, **given: Any) -> Any:
    return delegation_hook(**given)(lambda event, payload: answer)


@pytest.mark.requirement("RALPH-hook")
def test_a_hook_blocks_once_then_accepts(desk: Desk) -> None:
    asked: list[str] = []

    @delegation_hook(name="policy")
    def blocks_first(event: str, payload: dict[str, Any]) -> object:
        asked.append(event)
        return {"action": "allow"} if len(desk.turns) > 1 else {"action": "block", "reason": "not like this"}

    with opened() as client:
        done = desk.delegation(verify=None, hooks=[blocks_first], max_verify_retries=1).run(client, TASK)
    assert (done.passed, done.attempts, len(desk.turns)) == (True, 2, 2)
    assert 'attempt: blocked by hook "policy": not like this\n' in desk.turns[1].prompt
    assert set(asked) == {"delegation.post_verify"}


@pytest.mark.requirement("RALPH-both-pass")
def test_with_both_surfaces_both_must_pass_and_their_reasons_are_joined_the_inline_one_first(desk: Desk) -> None:
    desk.lies = 99
    sent = desk.delegation(
        hooks=[hook({"action": "block", "reason": "no ticket"}, name="policy")], max_verify_retries=0
    )
    with opened() as client, pytest.raises(DelegationFailedError) as ended:
        sent.run(client, TASK)
    assert ended.value.reason == 'no such file; blocked by hook "policy": no ticket'
    for verify, answer in ((True, "block"), (False, "allow")):
        both = {"verify": lambda _, said=verify: said, "hooks": [hook({"action": answer})]}
        sent = desk.delegation(**both, max_verify_retries=0)
        with opened() as client, pytest.raises(DelegationFailedError):
            sent.run(client, TASK)


@pytest.mark.requirement("RALPH-hook")
def test_the_lowest_priority_is_asked_first_and_a_modified_result_is_what_the_next_sees(desk: Desk) -> None:
    seen: list[tuple[str, str]] = []

    def made(name: str, priority: int) -> Any:
        @delegation_hook(priority=priority, name=name)
        def handle(event: str, payload: dict[str, Any]) -> object:
            seen.append((name, payload["response"]))
            payload["response"] = "changed in place, which counts for nothing"
            return {"action": "modify", "payload": {**payload, "response": f"by {name}"}}

        return handle

    with opened() as client:
        done = desk.delegation(hooks=[made("c", 5), made("b", -1), made("a", 5)]).run(client, TASK)
    assert seen == [("b", "Done."), ("a", "by b"), ("c", "by a")]
    assert done.response == "by c"
    assert done.outcomes[0].observation is not None
    assert done.outcomes[0].observation.body["response"] == "Done."  # type: ignore[index, call-overload]


def test_the_first_block_ends_it(desk: Desk) -> None:
    late: list[int] = []
    behind = delegation_hook(priority=2)(lambda event, payload: late.append(1))
    blocks = hook({"action": "block", "reason": "no"}, priority=1)
    sent = desk.delegation(hooks=[behind, blocks], max_verify_retries=0)
    with opened() as client, pytest.raises(DelegationFailedError):
        sent.run(client, TASK)
    assert not late


@pytest.mark.requirement("RALPH-hook", "L04")
@pytest.mark.parametrize("answer", [None, {"action": "blok"}, "raises", "when raises", "when is no truth value"])
def test_a_hook_that_crashes_or_mumbles_lets_nothing_through(desk: Desk, answer: Any) -> None:
    def breaks(event: str, payload: dict[str, Any]) -> object:
        raise RuntimeError("broken")

    if answer == "raises":
        made = delegation_hook()(breaks)
    elif answer == "when raises":
        made = delegation_hook(when=breaks)(lambda event, payload: {"action": "allow"})
    elif answer == "when is no truth value":
        made = delegation_hook(when=lambda event, payload: "yes")(lambda event, payload: {"action": "allow"})
    else:
        made = hook(answer)
    with opened() as client, pytest.raises(ScriptError):
        desk.delegation(hooks=[made]).run(client, TASK)
    assert len(desk.turns) == 1


def test_hooks_after_acceptance_see_only_what_was_verified_and_may_redact_or_withhold_it(desk: Desk) -> None:
    redacts = hook({"action": "modify", "payload": {"response": "[redacted]"}}, event="delegation.post")
    with opened() as client:
        done = desk.delegation(hooks=[redacts]).run(client, TASK)
        assert (done.passed, done.response) == (True, "[redacted]")
        withholds = hook({"action": "block", "reason": "secret"}, event="delegation.post", name="dlp")
        done = desk.delegation(hooks=[withholds]).run(client, TASK)
    assert (done.passed, done.result, done.exit_code) == (False, None, 1)
    assert done.withheld == 'blocked by hook "dlp": secret'
    assert done.verify_outcome is VerifyOutcome.PASSED
    with opened() as client, pytest.raises(ScriptError) as ended:
        desk.delegation(hooks=[hook(None, event="delegation.post")]).run(client, TASK)
    assert ended.value.delegated.result is None  # type: ignore[attr-defined]


def test_hooks_after_acceptance_are_not_asked_about_what_was_not_accepted(desk: Desk) -> None:
    asked: list[str] = []
    after = delegation_hook("delegation.post")(lambda event, payload: asked.append(event))
    desk.lies = 99
    with opened() as client, pytest.raises(DelegationFailedError):
        desk.delegation(hooks=[after], max_verify_retries=0).run(client, TASK)
    assert not asked


@pytest.mark.requirement("RALPH-hook")
def test_the_printed_hook_file_works_as_it_is(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "claims.md"
    file.write_text(PRINTED)
    assert read_hook_file(file).priority == 10
    desk.turns.clear()
    desk.work = lambda turn: (desk.turns.append(turn), "I created it.")[1]  # type: ignore[method-assign]
    sent = desk.delegation(verify=None, hooks=[file], max_verify_retries=0)
    with opened() as client, pytest.raises(DelegationFailedError, match='hook "claims": claim made but no file path'):
        sent.run(client, TASK)
    sent.close()


def test_when_says_whether_a_hook_of_a_file_is_asked(desk: Desk, tmp_path: Path) -> None:
    head = '---\nevent: delegation.post_verify\nwhen: \'"{}" in payload["response"]\'\nscript: |\n'
    body = "  def handle(event, payload):\n      return block('asked')\n---\n"
    for word, asked in (("Done", True), ("Else", False)):
        file = tmp_path / f"{word}.md"
        file.write_text(head.format(word) + body)
        sent = desk.delegation(hooks=[str(file)], max_verify_retries=0)
        with opened() as client:
            if asked:
                with pytest.raises(DelegationFailedError, match='blocked by hook "Done": asked'):
                    sent.run(client, TASK)
            else:
                assert sent.run(client, TASK).passed
        sent.close()


def test_a_result_about_which_no_hook_was_asked_is_not_passed_by_that(desk: Desk) -> None:
    made = delegation_hook(when=lambda event, payload: "created" in payload["response"])
    policy = made(lambda event, payload: {"action": "block", "reason": "a claim"})
    with opened() as client:
        done = desk.delegation(verify=None, hooks=[policy], within="1s").run(client, TASK)
    assert (done.passed, done.verify_outcome, len(desk.turns)) == (False, VerifyOutcome.UNDETERMINED, 1)
    assert "created" not in done.response
    passing = delegation_hook(name="passing")(lambda event, payload: {"action": "allow"})
    with opened() as client:
        assert desk.delegation(verify=None, hooks=[policy, passing]).run(client, TASK).passed


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("event: delegation.post_verify\nscript: x\npriorty: 1\n", "priorty"),
        ("event: delegation.post_verfy\nscript: x\n", "event"),
        ("event: tool.pre\nscript: x\n", "event"),
        ("script: x\n", ""),
        ("event: delegation.post\n", ""),
        ("event: delegation.post\nscript: x\npriority: high\n", "priority"),
        ("event: delegation.post\nscript: x\npriority: true\n", "priority"),
        ("event: delegation.post\nscript: ''\n", "script"),
        ("event: delegation.post\nevent: delegation.post\nscript: x\n", "event"),
        ("- a list\n", ""),
    ],
)
def test_a_hook_file_with_a_fault_is_refused_with_its_key(text: str, key: str) -> None:
    with pytest.raises(DelegationHookError) as refused:
        parse_hook_file(f"---\n{text}---\n".encode(), "h")
    problems: Any = refused.value.details["problems"]
    assert [each["key"] for each in problems][:1] == [key]


def test_what_is_no_hook_is_refused_before_anything_is_sent(desk: Desk, tmp_path: Path) -> None:
    with pytest.raises(DelegationHookError, match="does not begin with a head"):
        parse_hook_file(b"event: delegation.post\n", "h")
    with pytest.raises(DelegationHookError, match="cannot be read"):
        desk.delegation(hooks=[tmp_path / "absent.md"])
    os.mkfifo(tmp_path / "pipe.md")
    with pytest.raises(DelegationHookError, match="does not begin with a head"):
        desk.delegation(hooks=[tmp_path / "pipe.md"])  # nobody waits for somebody to write into it
    with pytest.raises(UsageError, match="is no hook"):
        desk.delegation(hooks=[5])
    with pytest.raises(UsageError, match="no event"):
        delegation_hook("delegation.pre")
    file = tmp_path / "bad.md"
    file.write_text("---\nevent: delegation.post\nscript: 'def handle(event): pass'\n---\n")
    with opened() as client, pytest.raises(ScriptCompileError, match="takes 2 parameter"):
        desk.delegation(hooks=[file]).run(client, TASK)
    assert not desk.turns
