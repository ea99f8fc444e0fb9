"""Reports that never come, and the end of a turn: what is open is read once more, and said once."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from readback.client.session import DUE_PAGE
from readback.hooks.protocol import TEXT_MAX_CHARACTERS
from readback.testing.runtime_virtual import START_US, VirtualRuntime
from tests.hooks.conftest import BASH, Agent
from tests.hooks.test_calls import outcomes, pre, rewrite

LATE = "    within: 1s\n    late_window: 0s\n"


def stop(agent: Agent, event: str = "Stop", *, again: bool = False, **more: Any) -> Any:
    return agent.tell(event, stop_hook_active=again, **more)


@pytest.mark.requirement("HS-14", "L07")
@pytest.mark.parametrize("acted", [True, False])
def test_a_report_that_never_comes_is_read_by_whoever_comes_and_the_call_is_never_repeated(
    agent: Agent, acted: bool
) -> None:
    assert pre(agent).denied == ""
    if acted:
        (agent.folder / "a.txt").write_text("a", encoding="utf-8")
    contracts = str(agent.folder / ".claude" / "readback-contracts.yaml")
    assert agent.readback("resume", "--contracts", contracts, "--json").code == 0
    (waiting,) = outcomes(agent)
    assert waiting["state"] == "executing", "the agent may still be at it, or ask its user"
    agent.runtime.advance(611)
    agent.readback("resume", "--contracts", contracts, "--json")
    (ended,) = outcomes(agent)
    assert ended["verified"] is acted
    assert ended["attempts"] == 1
    assert ended["observation"] is None or ended["observation"]["status"] == "none"


@pytest.mark.requirement("HOOK-stop-once")
@pytest.mark.parametrize("acted", [True, False])
def test_the_end_of_a_turn_reads_what_was_not_reported_without_waiting_for_its_time(agent: Agent, acted: bool) -> None:
    assert pre(agent).denied == ""
    if acted:
        (agent.folder / "a.txt").write_text("a", encoding="utf-8")
    told = stop(agent)
    assert bool(told.blocks) is not acted
    (ended,) = outcomes(agent)
    assert ended["verified"] is acted
    assert ended["state"] != "executing"


def test_the_end_of_an_agent_within_leaves_alone_what_others_may_be_at(agent: Agent) -> None:
    pre(agent)
    told = stop(agent, "SubagentStop")
    assert "a.txt" in told.blocks
    (waiting,) = outcomes(agent)
    assert waiting["state"] == "executing"


@pytest.mark.requirement("HOOK-reported", "L29")
@pytest.mark.parametrize("ended", [[], [{"id": "b1", "type": "shell", "status": "completed"}]])
@pytest.mark.parametrize("running", [[{"id": "b1", "status": "running"}], [{"id": "b1"}], ["b1"], "b1"])
def test_a_call_of_an_agent_that_goes_on_in_the_background_is_not_told_as_one_that_may_be_repeated(
    agent: Agent, running: Any, ended: Any
) -> None:
    rewrite(agent, "readback-contracts.yaml", lambda text: text.replace("    within: 1s\n", LATE))
    pre(agent)
    for _ in range(2):
        told = stop(agent, background_tasks=running, session_crons=[])
        assert "the result is unknown" in told.blocks
        agent.runtime.advance(5)
    (waiting,) = outcomes(agent)
    assert (waiting["state"], waiting["may_repeat"]) == ("executing", False)
    (agent.folder / "a.txt").write_text("a", encoding="utf-8")
    assert stop(agent, background_tasks=ended).out == ""
    (done,) = outcomes(agent)
    assert done["verified"]


@pytest.mark.slow
def test_what_is_refuted_is_told_however_much_was_verified_since(agent: Agent) -> None:
    given = {"file_path": str(agent.folder / "a.txt"), "old_string": "a", "new_string": "b"}
    agent.use("Edit", given, lambda: None, "The file does not exist.")
    for number in range(260):
        agent.write(f"{number}.txt", "x")
    assert "a.txt: not done" in stop(agent).blocks


def test_a_turn_in_which_all_is_verified_ends_without_a_word(agent: Agent) -> None:
    agent.write("a.txt", "hello")
    told = stop(agent)
    assert (told.code, told.out) == (0, "")


def test_a_turn_in_which_nothing_was_done_ends_without_a_word(agent: Agent) -> None:
    assert (stop(agent).code, stop(agent).out) == (0, "")


@pytest.mark.requirement("L29", "L32", "HOOK-stop-once")
def test_a_turn_with_something_unverified_is_kept_on_once_and_its_person_is_told_then(agent: Agent) -> None:
    agent.write("a.txt", "hello", really="")
    agent.write("b.txt", "hello")
    first = stop(agent)
    assert "a.txt" in first.blocks
    assert "b.txt" not in first.blocks
    second = stop(agent, again=True)
    assert second.blocks == ""
    assert "a.txt" in second.json["systemMessage"]


@pytest.mark.requirement("HOOK-stop-once")
def test_the_person_is_told_in_words_for_a_person_and_the_agent_in_words_for_it(agent: Agent) -> None:
    agent.write("a.txt", "hello", "he")
    asked = stop(agent).blocks
    told = stop(agent, again=True).json["systemMessage"]
    assert "Do not tell the user" in asked
    assert "the user" not in told
    assert "asked once" not in told
    assert [line for line in told.splitlines() if line.startswith("- ")] == [
        line for line in asked.splitlines() if line.startswith("- ")
    ]


def test_another_session_is_not_answerable_for_it(agent: Agent) -> None:
    agent.write("a.txt", "hello", really="")
    agent.session = "another"
    assert stop(agent).out == ""


def test_what_was_refuted_and_put_right_since_is_not_held_against_the_turn(agent: Agent) -> None:
    path = agent.folder / "a.txt"
    given = {"file_path": str(path), "content": "hello"}
    write = "    arguments: {file_path: string, content: string}\n"
    rewrite(agent, "readback-contracts.yaml", lambda text: text.replace(write, f"{write}    late_window: 0s\n"))
    agent.use("Write", given, lambda: None, "EACCES: permission denied")
    assert "a.txt" in stop(agent).blocks
    agent.write("a.txt", "hello")
    assert stop(agent).out == ""


@pytest.mark.requirement("L29", "HOOK-stop-once")
@pytest.mark.parametrize(
    ("order", "put_right"),
    [
        ("pre A, post A, pre B, post B", True),
        ("pre A, pre B, post A, post B", True),
        ("pre A, pre B, post B, post A", False),
        ("pre B, pre A, post A, post B", False),
    ],
)
def test_of_two_calls_at_once_the_later_one_puts_right_only_what_was_refuted_before_it_was_verified(
    agent: Agent, order: str, put_right: bool
) -> None:
    path = agent.folder / "a.txt"
    for step in order.split(", "):
        hook, call = step.split()
        named = {"tool_name": "Write", "tool_input": {"file_path": str(path), "content": call}, "tool_use_id": call}
        if hook == "pre":
            assert agent.tell("PreToolUse", **named).denied == ""
        elif call == "A":
            path.unlink(missing_ok=True)
            told = agent.tell("PostToolUseFailure", **named, error="EIO", is_interrupt=False)
            assert "Failed: no verified change" in told.context
        else:
            path.write_text(call, encoding="utf-8")
            assert "Verified" in agent.tell("PostToolUse", **named, tool_response={}).context
    assert ("a.txt: not done" in stop(agent).out) is not put_right


@pytest.mark.requirement("L29", "HOOK-stop-once")
def test_what_is_refuted_after_the_clock_was_set_back_is_not_taken_for_put_right_by_what_was_verified_before(
    agent: Agent,
) -> None:
    path = agent.folder / "a.txt"
    agent.write("a.txt", "hello")
    agent.runtime = VirtualRuntime(seed=1, start_us=START_US - 3_600_000_000)
    agent.use("Write", {"file_path": str(path), "content": "more"}, path.unlink, "EIO")
    assert "a.txt: not done" in stop(agent).blocks
    agent.write("a.txt", "more")
    assert stop(agent).out == ""


def test_ungoverned_calls_are_counted_for_the_person_and_keep_nobody_on(agent: Agent) -> None:
    for _ in range(3):
        agent.use("Bash", {"command": "make test"}, lambda: None, BASH)
    told = stop(agent)
    assert told.blocks == ""
    assert "Bash (3)" in told.json["systemMessage"]


def test_where_the_file_says_so_ungoverned_calls_keep_a_turn_on_once(agent: Agent) -> None:
    rewrite(agent, "readback.yaml", lambda text: text.replace("at_stop: tell", "at_stop: block"))
    agent.use("Bash", {"command": "make test"}, lambda: None, BASH)
    assert "Bash (1)" in stop(agent).blocks
    assert stop(agent, again=True).blocks == ""


def test_what_takes_longer_than_the_hook_may_wait_is_pending_and_looked_at_when_the_turn_ends(agent: Agent) -> None:
    rewrite(agent, "readback-contracts.yaml", lambda text: text.replace("    within: 1s", "    within: 2m", 1))
    path = agent.folder / "a.txt"
    told = agent.write("a.txt", "hello", really="")
    assert "Pending" in told.blocks or "pending" in told.blocks
    path.write_text("hello", encoding="utf-8")
    agent.runtime.advance(130)
    assert stop(agent).out == ""
    (ended,) = outcomes(agent)
    assert ended["verified"]


@pytest.mark.slow
def test_what_is_due_is_read_however_much_of_other_sessions_is_due_before_it(agent: Agent) -> None:
    rewrite(agent, "readback-contracts.yaml", lambda text: text.replace("    within: 1s", "    within: 2m", 1))
    mine, agent.session = agent.session, "given up"
    for number in range(DUE_PAGE + 1):
        assert pre(agent, call=f"toolu_{number}").denied == ""
    agent.runtime.advance(611)
    agent.session = mine
    assert "ending" in agent.write("b.txt", "hello", really="").blocks
    (agent.folder / "b.txt").write_text("hello", encoding="utf-8")
    agent.runtime.advance(130)
    assert stop(agent).out == ""


@pytest.mark.slow
@pytest.mark.requirement("HOOK-stop-once")
def test_a_long_list_is_bounded(agent: Agent) -> None:
    for number in range(25):
        pre(agent, call=f"toolu_{number}")
    told = stop(agent, "SubagentStop")
    assert "and 5 older ones" in told.blocks
    assert len(json.dumps(told.json)) < 10_000


@pytest.mark.requirement("HOOK-stop-once")
def test_what_does_not_fit_into_what_an_agent_is_told_is_counted_and_not_cut_off(agent: Agent) -> None:
    folder = agent.folder.joinpath(*["d" * 200] * 3)
    for number in range(20):
        given = {"file_path": str(folder / str(number)), "content": "x"}
        assert pre(agent, given=given, call=f"toolu_{number}").denied == ""
    said = stop(agent, "SubagentStop").blocks
    assert len(said) <= TEXT_MAX_CHARACTERS
    assert said.endswith("This is asked once a turn.")
    named = re.findall(r"\(([0-9a-z]{26})\)$", said, re.MULTILINE)
    [older] = re.findall(r"^- and ([0-9]+) older ones", said, re.MULTILINE)
    assert named == sorted(each["id"] for each in outcomes(agent))[-len(named) :]
    assert len(named) + int(older) == 20


def test_ungoverned_calls_of_many_tools_are_all_counted(agent: Agent) -> None:
    for number in range(25):
        agent.use(f"mcp__x__{number:02}", {}, lambda: None, {})
    assert "mcp__x__19 (1), and 5 of 5 more tools." in stop(agent).json["systemMessage"]


def test_a_name_that_would_turn_a_line_around_is_told_without_what_turns_it(agent: Agent) -> None:
    assert pre(agent, given={"file_path": str(agent.folder / "a\u202etxt.b"), "content": "x"}).denied == ""
    assert 'a txt.b": unresolved' in stop(agent, "SubagentStop").blocks


@pytest.mark.requirement("HOOK-stop-own")
def test_an_agent_within_is_not_kept_on_for_what_another_left_open(agent: Agent) -> None:
    given = {"file_path": str(agent.folder / "a.txt"), "content": "a"}
    outer = {"tool_name": "Write", "tool_input": given, "tool_use_id": "toolu_outer"}
    assert agent.tell("PreToolUse", **outer).denied == ""
    inner = {**outer, "tool_input": {**given, "file_path": str(agent.folder / "b.txt")}, "tool_use_id": "toolu_inner"}
    assert agent.tell("PreToolUse", **inner, agent_id="agent-1", agent_type="Explore").denied == ""
    assert stop(agent, "SubagentStop", agent_id="agent-2").out == ""
    own = stop(agent, "SubagentStop", agent_id="agent-1").blocks
    assert ("b.txt" in own, "a.txt" in own) == (True, False)
    whole = stop(agent).blocks
    assert "a.txt" in whole
    assert "b.txt" in whole


@pytest.mark.requirement("HOOK-error-told")
def test_a_tool_that_ended_with_an_error_is_told_after_one_reading_and_looked_at_again(agent: Agent) -> None:
    rewrite(agent, "readback-contracts.yaml", lambda text: text.replace("    within: 1s", "    within: 2m", 1))
    path = agent.folder / "a.txt"
    path.write_text("old", encoding="utf-8")
    began = agent.runtime.now_us()
    told = agent.use("Write", {"file_path": str(path), "content": "new"}, lambda: None, "EACCES: permission denied")
    assert agent.runtime.now_us() - began < 1_000_000, "no window was waited for"
    assert "Failed: no verified change" in told.context
    assert "The tool reported failure" in told.context
    assert "EACCES: permission denied" in told.context
    path.write_text("new", encoding="utf-8")  # it was at it all the same
    agent.runtime.advance(130)
    stop(agent)
    (late,) = outcomes(agent)
    assert (late["contested"], late["state"]) == (True, "failed")
