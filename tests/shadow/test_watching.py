"""A gateway that watches tools without a contract: what the client gets, and what the report says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ToolAnnotations

from readback import Readback
from readback.agent_errors import NoSuchToolError
from readback.audit.checks.ledger import audit
from readback.errors import SettingsError
from readback.gateway.policy import watched
from readback.shadow.judging import Result
from readback.shadow.report import ShadowReport, ToolCounts
from readback.shadow.watched import WATCHED
from readback.testing.runtime_virtual import START_US, VirtualRuntime
from tests.shadow.given import allow
from tests.shadow.notes import Desk, Notes, at_a_desk, outcome_of, report_of, server_of


def counts(report: ShadowReport, tool: str = "write_note") -> ToolCounts:
    return next(each for each in report.tools if each.tool == tool)


async def two_writes_and_a_lie(desk: Desk) -> None:
    await desk.write("milk", "Buy milk")
    await desk.write("bank", "Call the lost bank")
    await desk.write("bread", "Buy bread")


@pytest.mark.requirement("SHADOW-lie-shown")
def test_a_lie_is_shown_with_the_state_before_and_after(tmp_path: Path) -> None:
    report = at_a_desk(tmp_path, two_writes_and_a_lie)
    found = counts(report)
    assert (found.calls, found.claimed, found.changed, found.contradicted, found.not_judged) == (3, 3, 2, 1, 0)
    [lie] = report.contradictions
    assert lie.watched.arguments == {"name": "bank", "text": "Call the lost bank"}
    assert lie.watched.answer == "Saved bank."
    assert lie.read == "read_note"
    assert "without the asked text" in lie.reason


@pytest.mark.requirement("SHADOW-unworded")
def test_the_client_gets_the_servers_own_answer_and_no_verified(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        for text in ("Buy milk", "lost"):
            result = await desk.write("milk", text)
            assert [block.text for block in result.content if block.type == "text"] == ["Saved milk."]
            assert result.structured_content == {"result": "Saved milk."}
            assert not result.is_error
            told = outcome_of(result)
            assert (told["mode"], told["state"], told["verdict"], told["claim"]) == (
                "shadow",
                "unknown",
                "undetermined",
                None,
            )
        failed = await desk.write("milk", "refused")
        assert failed.is_error
        tools = {tool.name: tool.description for tool in (await desk.client.list_tools()).tools}
        assert tools["write_note"] == "Writes a note."
        read = await desk.call("read_note", name="milk")  # the agent's own reading
        assert [block.text for block in read.content if block.type == "text"] == ["Buy milk"]
        assert outcome_of(read)["verdict"] == "not_checked"

    report = at_a_desk(tmp_path, work)
    assert counts(report).failed == 1


@pytest.mark.requirement("SHADOW-no-false-alarm")
def test_an_honest_server_has_no_contradiction_whatever_repeats(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        for name, text in (("a", "First text"), ("a", "First text"), ("b", "Second text"), ("a", "Third text")):
            await desk.write(name, text)
        for name in ("a", "a", "never there"):
            await desk.call("delete_note", name=name)
        await desk.call("ring_bell", loud=True)

    report = at_a_desk(tmp_path, work)
    assert report.contradicted == 0
    assert (counts(report).changed, counts(report).unchanged) == (3, 1)
    assert counts(report, "delete_note").changed == 1
    assert counts(report, "ring_bell").not_judged == 1


@pytest.mark.requirement("SHADOW-lie-shown")
def test_a_deletion_that_deletes_nothing_is_shown(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        for name in ("goes", "stays"):
            await desk.write(name, "Some text")
        await desk.call("delete_note", name="goes")
        await desk.call("delete_note", name="stays")

    report = at_a_desk(tmp_path, work)
    assert (counts(report, "delete_note").changed, counts(report, "delete_note").contradicted) == (1, 1)


@pytest.mark.requirement("SHADOW-lie-shown")
def test_a_server_that_never_writes_is_shown_where_the_operator_names_the_pair(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.write("bank", "The lost bank")
        await desk.write("bank", "The lost bank again")

    unnamed = at_a_desk(tmp_path, work)
    assert (unnamed.contradicted, counts(unnamed).not_judged) == (0, 2)
    assert "has never shown a change made by such a call of this tool" in next(iter(counts(unnamed).reasons))
    (tmp_path / "named").mkdir()
    named = at_a_desk(tmp_path / "named", work, reads=("write_note=read_note",))
    assert named.contradicted == 2


@pytest.mark.requirement("SHADOW-no-false-alarm")
def test_a_state_over_the_limit_of_the_record_raises_no_alarm(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.write("a", "First text")
        await desk.write("large", "word " * 20_000)
        await desk.write("a", "First text")

    report = at_a_desk(tmp_path, work, reads=("list_notes",))
    assert report.contradicted == 0
    assert (counts(report).changed, counts(report).not_judged) == (1, 2)  # the large arguments have no readings


@pytest.mark.requirement("SHADOW-late")
def test_a_change_that_a_later_reading_shows_is_no_lie(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.write("a", "First text")
        desk.notes.looks = -20  # an odd number of readings follows each call
        await desk.write("b", "Comes late")
        await desk.write("c", "Third text")

    report = at_a_desk(tmp_path, work, reads=("list_notes",))
    assert report.contradicted == 0
    assert counts(report).changed == 3


@pytest.mark.requirement("SHADOW-reads-allowed")
def test_no_reading_tool_is_called_before_the_operator_names_it(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.write("a", "First text")
        assert desk.notes.looks == 0
        assert any("--reads count_visits,list_notes,read_note" in each for each in desk.said)

    report = at_a_desk(tmp_path, work, reads=())
    assert counts(report).reasons == {"No allowed reading tool fits this tool.": 1}


@pytest.mark.requirement("SHADOW-reads-allowed")
@pytest.mark.parametrize("name", ["lst_notes", "write_note=raed_note", "nothing=list_notes"])
def test_an_unknown_tool_in_reads_is_an_error_with_a_proposal(tmp_path: Path, name: str) -> None:
    async def work(desk: Desk) -> None:
        raise AssertionError("the gateway started")

    with pytest.raises(NoSuchToolError, match="--reads names the tool"):
        at_a_desk(tmp_path, work, reads=(name,))


@pytest.mark.requirement("SHADOW-reads-allowed")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"shadow": False}, "nothing is watched"),
        ({"ungoverned": "pass"}, "records none"),
        ({"reads": ("",)}, "empty name"),
        ({"shadow": 1}, "True or False"),
    ],
)
def test_terms_that_do_not_fit_are_settings_errors(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    async def work(desk: Desk) -> None:
        raise AssertionError("the gateway started")

    with pytest.raises((SettingsError, NoSuchToolError), match=said):
        at_a_desk(tmp_path, work, **options)


@pytest.mark.requirement("SHADOW-writing-read")
def test_a_reading_tool_that_changes_the_state_is_not_judgeable(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.write("a", "First text")
        await desk.write("b", "The lost text")

    report = at_a_desk(tmp_path, work, reads=("count_visits",))
    [reason] = counts(report).reasons
    assert (report.contradicted, counts(report).not_judged) == (0, 2)
    assert "Two readings of 'count_visits' differ with no call between" in reason


@pytest.mark.requirement("SHADOW-writing-read")
@pytest.mark.parametrize("hints", [{"readOnlyHint": False}, {"destructiveHint": True}])
def test_a_reading_tool_that_says_it_writes_is_not_called(tmp_path: Path, hints: dict[str, bool]) -> None:
    notes = Notes()
    server = server_of(notes, list_notes=ToolAnnotations(**hints))

    async def work(desk: Desk) -> None:
        await desk.write("a", "First text")
        assert notes.looks == 0
        assert any("says of itself that it writes" in each for each in desk.said)

    report = at_a_desk(tmp_path, work, notes=notes, server=server, reads=("list_notes",))
    assert list(counts(report).reasons) == ["The reading tool 'list_notes' says of itself that it writes."]


@pytest.mark.requirement("SHADOW-lost-server")
def test_a_reading_tool_that_hangs_is_waited_for_once_before_and_once_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "READ_TIMEOUT_S", 0.05)

    async def work(desk: Desk) -> None:
        result = await desk.write("a", "First text")
        assert not result.is_error
        assert desk.notes.looks == 2

    report = at_a_desk(tmp_path, work, reads=("wait_notes",))
    [reason] = counts(report).reasons
    assert "gave no answer" in reason
    assert counts(report).not_judged == 1


@pytest.mark.requirement("SHADOW-overlap")
def test_calls_that_overlap_are_not_judged(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.write("a", "First text")
        desk.notes.gate, desk.notes.entered = asyncio.Event(), asyncio.Event()
        first = asyncio.create_task(desk.write("b", "Second text"))
        await desk.notes.entered.wait()
        second = asyncio.create_task(desk.write("c", "A lost text"))
        desk.notes.entered.clear()
        await desk.notes.entered.wait()
        desk.notes.gate.set()
        await asyncio.gather(first, second)

    report = at_a_desk(tmp_path, work)
    found = counts(report)
    assert (found.calls, found.changed, found.contradicted, found.not_judged) == (3, 1, 0, 2)
    assert found.reasons == {"Another call of the same server overlapped.": 2}


@pytest.mark.requirement("SHADOW-restart")
def test_the_counts_continue_over_sessions(tmp_path: Path) -> None:
    notes = Notes()
    at_a_desk(tmp_path, two_writes_and_a_lie, notes=notes)

    async def one_more(desk: Desk) -> None:
        await desk.write("rent", "Pay the lost rent")

    report = at_a_desk(tmp_path, one_more, notes=notes, runtime=VirtualRuntime(1, START_US + 1_000_000_000))
    assert (counts(report).calls, counts(report).contradicted) == (4, 2)  # by what an earlier session has shown


@pytest.mark.requirement("SHADOW-ledger")
def test_the_ledger_of_watched_calls_is_sound_and_verifies_nothing(tmp_path: Path) -> None:
    at_a_desk(tmp_path, two_writes_and_a_lie)
    with Readback.open(f"sqlite:///{tmp_path}/readback.db") as rb:
        assert not audit(rb._session.store).faults
        outcomes = rb.list(contract=WATCHED)
        assert len(outcomes) == 3
        assert not any(each.verified or each.claims for each in outcomes)


@pytest.mark.requirement("SHADOW-ledger")
def test_an_erased_call_is_counted_and_not_judged(tmp_path: Path) -> None:
    report = at_a_desk(tmp_path, two_writes_and_a_lie)
    [lie] = report.contradictions
    with Readback.open(f"sqlite:///{tmp_path}/readback.db") as rb:
        rb.erase(lie.watched.id, who="ada", reason="asked for")
    found = report_of(f"sqlite:///{tmp_path}/readback.db")
    assert found.contradicted == 0
    assert (counts(found).calls, counts(found).not_judged) == (3, 1)
    assert list(counts(found).reasons) == ["The arguments, the answer and the readings were erased."]


@pytest.mark.requirement("SHADOW-enforced-stays")
def test_a_governed_tool_stays_governed_beside_watched_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes.json").write_text("{}")
    contracts = tmp_path / "notes.yaml"
    contracts.write_text(CONTRACT)

    async def enforced(desk: Desk) -> None:
        result = await desk.write("bank", "A lost text")
        assert result.is_error
        assert outcome_of(result)["verdict"] != "verified"
        assert "mode" not in outcome_of(result)
        assert any("stay enforced" in each for each in desk.said)

    at_a_desk(tmp_path, enforced, contracts=[contracts])
    allow(monkeypatch, tmp_path, 'shadow = ["write_note"]\n')

    async def shadowed(desk: Desk) -> None:
        result = await desk.write("bank", "A lost text, again")
        assert (result.is_error, outcome_of(result)["mode"]) == (False, "shadow")
        assert {tool.name: tool.description for tool in (await desk.client.list_tools()).tools}["write_note"] == (
            "Writes a note."
        )
        unfit = await desk.call("write_note", name="", text="A text")
        assert not unfit.is_error

    later = VirtualRuntime(1, START_US + 1_000_000_000)
    report = at_a_desk(tmp_path, shadowed, contracts=[contracts], runtime=later)
    [found] = report.contracts
    assert (found.contract, found.actions, found.verified) == ("write_note", 1, 0)
    assert counts(report).calls == 1  # the call outside the contract's arguments
    assert report.calls[-1].result is not Result.CONTRADICTED


CONTRACT = """
apiVersion: readback/v1
kind: Contracts
metadata: {name: notes, version: 1.0.0}
contracts:
  write_note:
    kind: set
    side_effect: ephemeral_write
    target: note/{requested.name}
    arguments: {type: object, properties: {name: {type: string, minLength: 1}, text: {type: string}}, required: [name]}
    readers:
      - tool: {name: read_note, arguments: {name: "{requested.name}"}, absent: {error_matches: no such note}}
        consistency: strong
        independence: same_client
    ensure:
      written: authoritative.result == requested.text
    within: 50ms
    late_window: 0s
"""


def test_a_reported_failure_with_a_changed_state_is_counted(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.write("milk", "A half note")
        await desk.write("bank", "A refused note")

    found = counts(at_a_desk(tmp_path, work))
    assert (found.failed, found.failed_and_changed) == (2, 1)
    assert found.as_json()["failures_with_a_change"] == 1
