"""A hook that cannot decide holds the tool back: one exit code, words on stderr, and never leave by silence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from readback.cli.agents import hook_command
from readback.client.session import Session
from readback.engine.engine import Engine
from readback.hooks import protocol
from readback.stores.sqlite import open_sqlite_store
from tests.hooks.conftest import Agent

CALL: dict[str, Any] = {
    "tool_name": "Write",
    "tool_input": {"file_path": "/tmp/x", "content": "a"},
    "tool_use_id": "t1",
}
NEEDED = {
    "pre": ("session_id", "hook_event_name", "tool_name", "tool_input", "tool_use_id"),
    "post": ("session_id", "hook_event_name", "tool_name", "tool_input", "tool_use_id", "tool_response"),
    "stop": ("session_id", "hook_event_name"),
}
LOCKS = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("begin exclusive")
print("locked", flush=True)
sys.stdin.read()
"""
EVENT = {"pre": "PreToolUse", "post": "PostToolUse", "stop": "Stop"}


def whole(agent: Agent, name: str) -> dict[str, Any]:
    said = agent.said(EVENT[name], **({} if name == "stop" else CALL))
    return {**said, "tool_response": {}} if name == "post" else said


def held_back(agent: Agent, name: str, content: bytes) -> str:
    told = agent.raw(name, content)
    assert (told.code, told.out) == (2, ""), told
    assert told.err.startswith("readback: "), told
    return told.err


@pytest.mark.requirement("L29", "HOOK-closed")
@pytest.mark.parametrize("name", EVENT)
@pytest.mark.parametrize(
    "content", [b"", b"not json", b"[]", b"null", b'{"a": NaN}', b"\xff\xfe", b"{", b'"PreToolUse"'], ids=repr
)
def test_l29_what_is_no_json_object_holds_the_tool_back(agent: Agent, name: str, content: bytes) -> None:
    assert "JSON" in held_back(agent, name, content)


@pytest.mark.requirement("L29")
@pytest.mark.parametrize(("name", "missing"), [(name, each) for name, keys in NEEDED.items() for each in keys])
@pytest.mark.parametrize("wrong", [None, 7, ""])
def test_l29_a_field_that_is_missing_or_of_another_kind_holds_it_back(
    agent: Agent, name: str, missing: str, wrong: object
) -> None:
    said = whole(agent, name)
    assert held_back(agent, name, json.dumps({k: v for k, v in said.items() if k != missing}).encode())
    if missing != "tool_response":  # which may be anything
        assert held_back(agent, name, json.dumps({**said, missing: wrong}).encode())


@pytest.mark.requirement("L29")
@pytest.mark.parametrize("name", EVENT)
@pytest.mark.parametrize("event", ["Notification", "PreCompact", "pretooluse", "", "PreToolUse ", ["Stop"]])
def test_l29_an_event_that_the_hook_is_not_for_holds_it_back(agent: Agent, name: str, event: object) -> None:
    said = json.dumps({**whole(agent, name), "hook_event_name": event}).encode()
    assert f"readback hook {name}" in held_back(agent, name, said)


def test_ids_that_deceive_or_do_not_fit_hold_it_back(agent: Agent) -> None:
    for key in ("session_id", "tool_use_id"):
        for bad in ("x" * 200, "a\nb", "\u202eabc", "  "):
            assert held_back(agent, "pre", json.dumps({**whole(agent, "pre"), key: bad}).encode())


def test_more_input_than_is_taken_holds_it_back(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "INPUT_MAX_BYTES", 100)
    assert "over 100 bytes" in held_back(agent, "pre", json.dumps(whole(agent, "pre")).encode())


@pytest.mark.requirement("L29", "HOOK-closed")
@pytest.mark.parametrize("name", EVENT)
@pytest.mark.parametrize("crash", [RuntimeError("broken"), KeyboardInterrupt(), MemoryError(), SystemExit(0)], ids=repr)
def test_l29_whatever_crashes_holds_it_back(
    agent: Agent, name: str, crash: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise crash

    monkeypatch.setattr(Session, "open", broken)
    assert held_back(agent, name, json.dumps(whole(agent, name)).encode())


@pytest.mark.requirement("L29")
def test_l29_an_engine_that_crashes_after_the_attempt_holds_the_verdict_back(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = whole(agent, "pre")
    assert agent.raw("pre", json.dumps(said).encode()).code == 0

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(Engine, "report", broken)
    assert "broken" in held_back(agent, "post", json.dumps(whole(agent, "post")).encode())


@pytest.mark.requirement("L29")
@pytest.mark.parametrize("name", EVENT)
def test_l29_a_ledger_that_cannot_be_used_holds_it_back(agent: Agent, name: str) -> None:
    (agent.folder / ".claude" / "readback.db").write_bytes(b"this is no database, whatever it is called" * 200)
    assert held_back(agent, name, json.dumps(whole(agent, name)).encode())


@pytest.mark.slow
@pytest.mark.requirement("L29")
def test_l29_a_ledger_that_somebody_locks_holds_it_back(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    assert agent.raw("pre", json.dumps({**whole(agent, "pre"), "tool_use_id": "t0"}).encode()).code == 0
    held = subprocess.Popen(
        [sys.executable, "-c", LOCKS, str(agent.folder / ".claude" / "readback.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert held.stdout is not None
        assert held.stdout.readline() == "locked\n"
        assert open_sqlite_store.__kwdefaults__ is not None
        monkeypatch.setitem(open_sqlite_store.__kwdefaults__, "busy_timeout_ms", 50)
        said = held_back(agent, "pre", json.dumps(whole(agent, "pre")).encode())
        assert "lock" in said
    finally:
        held.communicate("")
    assert agent.raw("pre", json.dumps(whole(agent, "pre")).encode()).code == 0


@pytest.mark.requirement("L29")
def test_l29_a_tool_that_ran_without_an_attempt_on_record_is_not_believed(agent: Agent) -> None:
    told = held_back(agent, "post", json.dumps(whole(agent, "post")).encode())
    assert "without a recorded attempt" in told


BROKEN: dict[str, Callable[[str], str]] = {
    "unknown key": lambda text: text + "surprise: 1\n",
    "unknown policy": lambda text: text.replace("policy: unverified", "policy: allow"),
    "no yaml": lambda text: text + "\t: [",
    "no pattern": lambda text: text.replace(r"^\s*git", "("),
    "no such contract": lambda text: text.replace("contract: git_commit", "contract: git_comit"),
    "no such file": lambda text: text.replace("readback-contracts.yaml", "nowhere.yaml"),
    "another kind": lambda text: text.replace("kind: Hooks", "kind: Contracts"),
    "endless hold": lambda text: text.replace("hold: 10s", "hold: 2h"),
    "a rule without a contract": lambda text: text.replace("    contract: git_commit\n", ""),
    "empty": lambda text: "",
}


@pytest.mark.requirement("L29", "L03")
@pytest.mark.parametrize("damage", BROKEN)
def test_l29_a_hook_file_with_a_fault_holds_every_tool_back(agent: Agent, damage: str) -> None:
    path = agent.folder / ".claude" / "readback.yaml"
    path.write_text(BROKEN[damage](path.read_text(encoding="utf-8")), encoding="utf-8")
    assert held_back(agent, "pre", json.dumps(whole(agent, "pre")).encode())


@pytest.mark.requirement("L29")
@pytest.mark.parametrize("name", ["readback.yaml", "readback-contracts.yaml"])
def test_l29_a_file_that_is_gone_or_is_not_the_pinned_one_holds_it_back(agent: Agent, name: str) -> None:
    path = agent.folder / ".claude" / name
    content = path.read_text(encoding="utf-8")
    config = agent.folder.parent / "config" / "readback"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(f'[trusted]\n"{path}" = "{"0" * 64}"\n', encoding="utf-8")
    assert "pin" in held_back(agent, "pre", json.dumps(whole(agent, "pre")).encode())
    path.unlink()
    assert name in held_back(agent, "pre", json.dumps(whole(agent, "pre")).encode())
    path.write_text(content, encoding="utf-8")


@pytest.mark.requirement("L29")
@pytest.mark.parametrize(
    ("name", "file"),
    [
        *((name, "readback.yaml") for name in EVENT),
        ("pre", "readback-contracts.yaml"),
        ("post", "readback-contracts.yaml"),
    ],
)
def test_l29_a_pipe_in_a_file_s_place_is_waited_for_by_no_hook(agent: Agent, name: str, file: str) -> None:
    path = agent.folder / ".claude" / file
    path.unlink()
    os.mkfifo(path)
    assert file in held_back(agent, name, json.dumps(whole(agent, name)).encode())


def pinned(agent: Agent, *paths: str) -> None:
    config = agent.folder.parent / "config" / "readback"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(
        "[trusted]\n" + "".join(f'"{path}" = "{"0" * 64}"\n' for path in paths), encoding="utf-8"
    )


@pytest.mark.requirement("L29")
@pytest.mark.parametrize("name", ["readback.yaml", "readback-contracts.yaml"])
def test_l29_a_file_that_is_not_the_pinned_one_lets_nothing_pass_by_saying_so(agent: Agent, name: str) -> None:
    pinned(agent, str(agent.folder / ".claude" / name))
    path = agent.folder / ".claude" / "readback.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("policy: unverified", "policy: pass"), encoding="utf-8")
    for each in ("pre", "post"):
        assert "pin" in held_back(agent, each, json.dumps(whole(agent, each)).encode())


@pytest.mark.requirement("L29")
@pytest.mark.parametrize("name", ["readback.yaml", "readback-contracts.yaml"])
def test_l29_a_pin_counts_on_whatever_path_the_file_is_reached(
    agent: Agent, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned(agent, str(agent.folder / ".claude" / name))
    link = agent.folder.parent / "link"
    link.symlink_to(agent.folder)
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(link))
    assert "pin" in held_back(agent, "pre", json.dumps(whole(agent, "pre")).encode())


@pytest.mark.requirement("L29")
def test_l29_a_pin_counts_whatever_the_file_is_called(agent: Agent) -> None:
    other = agent.folder / ".claude" / "readback.hooks"
    (agent.folder / ".claude" / "readback.yaml").rename(other)
    pinned(agent, str(other))
    told = agent.raw("pre", json.dumps(whole(agent, "pre")).encode(), "--hooks", str(other))
    assert (told.code, told.out) == (2, "")
    assert "pin" in told.err


def test_a_contract_with_a_fault_holds_it_back_and_is_named_with_its_place(agent: Agent) -> None:
    path = agent.folder / ".claude" / "readback-contracts.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("kind: set", "kind: sett", 1), encoding="utf-8")
    assert "readback-contracts.yaml:12" in held_back(agent, "pre", json.dumps(whole(agent, "pre")).encode())


@pytest.mark.requirement("HOOK-stop-once")
def test_a_turn_that_was_kept_on_once_can_always_end(agent: Agent) -> None:
    (agent.folder / ".claude" / "readback.yaml").unlink()
    assert agent.tell("Stop", stop_hook_active=False).code == 2
    assert agent.tell("Stop", stop_hook_active=True).code == 1


@pytest.mark.requirement("HOOK-stop-once")
@pytest.mark.parametrize(
    "damage",
    [
        lambda said: said.replace(b'"0f3c', b'"0f3c' + b"x" * 200),
        lambda said: said.replace(b'"session_id"', b'"session"'),
        lambda said: said[:-1],
        lambda said: said.replace(b'"Stop"', b'"StopFailure"'),
    ],
)
def test_a_turn_that_was_kept_on_once_can_end_though_what_is_said_of_it_cannot_be_read(
    agent: Agent, damage: Callable[[bytes], bytes]
) -> None:
    first = agent.said("Stop", stop_hook_active=False, last_assistant_message='"stop_hook_active": true')
    assert agent.raw("stop", damage(json.dumps(first).encode())).code == 2
    again = {**first, "stop_hook_active": True}
    assert agent.raw("stop", damage(json.dumps(again).encode())).code == 1


HALVES = ["\\ud83d", "\\uDE00", "\\ud83d\\ud83d\\ude00", "\\\\\\ud83d", "\\ud83dA", "\\ud83d\\u0041"]


@pytest.mark.requirement("HOOK-reported")
@pytest.mark.parametrize("half", HALVES)
def test_half_a_character_in_what_a_tool_put_out_or_the_agent_said_holds_nothing_back(agent: Agent, half: str) -> None:
    given = {"file_path": str(agent.folder / "a.txt"), "content": "a"}
    said = json.dumps(agent.said("PreToolUse", **{**CALL, "tool_input": given})).encode()
    assert agent.raw("pre", said).code == 0
    (agent.folder / "a.txt").write_text("a", encoding="utf-8")
    after = agent.said("PostToolUse", **{**CALL, "tool_input": given}, tool_response={"text": "half"})
    told = agent.raw("post", json.dumps(after).replace('"half"', f'"{half}"').encode())
    assert "Verified" in told.context
    end = agent.said("Stop", stop_hook_active=False, last_assistant_message="half")
    assert agent.raw("stop", json.dumps(end).replace('"half"', f'"{half}"').encode()).code == 0


@pytest.mark.requirement("L29")
def test_l29_half_a_character_in_what_a_tool_would_be_called_with_holds_it_back(agent: Agent) -> None:
    said = json.dumps(agent.said("PreToolUse", **CALL)).replace('"content": "a"', '"content": "\\ud83d"').encode()
    assert "JSON" in held_back(agent, "pre", said)


def test_the_exit_code_that_holds_back_is_the_one_that_is_documented() -> None:
    assert hook_command.HELD_BACK == 2
