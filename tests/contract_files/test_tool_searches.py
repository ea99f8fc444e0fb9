"""Tools of servers that search by the stamp, and that say what became of a key: asked as readers are, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest

from readback import Readback, bootstrap
from readback.canon import Json, parse_json
from readback.client.files import ContractFiles
from readback.contracts.files.contract import FileContract
from readback.contracts.recorded import recorded_plan
from readback.domain.contract.contract import ReaderTerms
from readback.domain.events import open_envelope
from readback.domain.side_effect import Consistency, Independence
from readback.domain.verification.reading import Lookup, Reading
from readback.errors import ReaderFailedError, ReaderTypeError
from readback.ports.handlers import Handler
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.contract_files.writing import HEAD, Fakes, context, loaded

SERVERS = f"{HEAD}server: {{command: [notes-server]}}\nservers:\n  audit: {{url: https://audit.example/mcp}}\n"
ADD = """contracts:
  add_note:
    kind: create
    side_effect: ephemeral_write
    target: note/{requested.name}
    readers:
      - http: {url: "https://notes.example", path: "/{requested.name}"}
        consistency: strong
    find:
      tool: {name: search, arguments: {mark: "{scope.stamp}"}, MORE}
      consistency: strong
    ensure: {same: authoritative.text == requested.text}
"""
LISTED = ADD.replace("MORE", "items: /hits, complete: /whole, stamp: /by, version: /v")
ASKED = (
    ADD[: ADD.index("    find:")]
    + """    lookup:
      tool: {name: state_of, arguments: {key: "{scope.idempotency_key}"}, WORDS}
    ensure: {same: authoritative.text == requested.text}
"""
)
WORDS = "status: /state, landed: [done], failed: [dropped, refused]"
NAME = {"type": "string"}
TOOLS: dict[str, Any] = {
    "add_note": {"name": "add_note", "inputSchema": {"type": "object", "properties": {"name": NAME, "text": NAME}}},
    "search": {"name": "search", "inputSchema": {"type": "object", "properties": {"mark": NAME}, "required": ["mark"]}},
    "state_of": {"name": "state_of", "inputSchema": {"type": "object", "properties": {"key": NAME}}},
}


def made(text: str) -> tuple[FileContract, Fakes]:
    fakes = Fakes(serves=True)
    return loaded(SERVERS + text, fakes=fakes, tools=TOOLS).sound().contracts["add_note"], fakes


def told(text: str, **tools: Any) -> list[str]:
    found = loaded(SERVERS + text, fakes=Fakes(serves=True), tools={**TOOLS, **tools})
    return [f"{fault.path}: {fault.said}" for _, fault in found.faults]


def shows(document: str, **more: Json) -> dict[str, Json]:
    return {"content": [{"type": "text", "text": document}], **more}


def asked(hand: Handler | None, fakes: Fakes, tool: str, answer: dict[str, Json], server: str = "") -> Any:
    assert hand is not None
    assert hand.is_async
    fakes.tools[server, tool].answer = lambda: answer
    return asyncio.run(_awaited(hand.call(context(), {"name": "a", "text": "x"})))


async def _awaited(one: object) -> object:
    return await cast("Awaitable[object]", one)


# --- searching -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("FILE-tool-search")
def test_a_search_by_a_tool_shows_every_object_of_the_list_that_it_answers() -> None:
    contract, fakes = made(LISTED)
    answer = '{"whole": true, "hits": [{"text": "x", "by": "stamp-1", "v": 3}, {"text": "y", "by": 7, "v": "e"}]}'
    found = asked(contract.plan.hands.find, fakes, "search", shows(answer))
    assert [(each.value["text"], each.stamp, each.version) for each in found] == [("x", "stamp-1", 3), ("y", "7", "e")]
    assert fakes.tools["", "search"].seen == [{"mark": "stamp-1"}]
    bare, fakes = made(ADD.replace(", MORE", ""))
    assert asked(bare.plan.hands.find, fakes, "search", shows("[]")) == []
    assert asked(bare.plan.hands.find, fakes, "search", shows("[1]")) == [Reading.of(1)]


@pytest.mark.requirement("FILE-tool-search")
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (shows('{"whole": false, "hits": []}'), ReaderFailedError),
        (shows('{"whole": "true", "hits": []}'), ReaderFailedError),
        (shows('{"hits": []}'), ReaderTypeError),
        (shows('{"whole": true, "hits": {"by": "stamp-1"}}'), ReaderTypeError),
        (shows('{"whole": true, "hits": [{"text": "x"}]}'), ReaderTypeError),
        (shows("nothing found"), ReaderTypeError),
        (shows("nothing found", isError=True), ReaderFailedError),
        ({"content": []}, ReaderFailedError),
    ],
)
def test_a_search_that_was_no_whole_look_finds_nothing_out(answer: dict[str, Json], error: type[Exception]) -> None:
    contract, fakes = made(LISTED)
    with pytest.raises(error):
        asked(contract.plan.hands.find, fakes, "search", answer)


@pytest.mark.requirement("FILE-tool-search")
def test_an_error_of_a_search_is_an_empty_list_only_where_the_contract_knows_its_whole_text() -> None:
    contract, fakes = made(ADD.replace("MORE", 'items: /hits, absent: {error_matches: "No hits for *"}'))
    assert asked(contract.plan.hands.find, fakes, "search", shows("No hits for stamp-1", isError=True)) == []
    with pytest.raises(ReaderFailedError, match="answered with an error"):
        asked(contract.plan.hands.find, fakes, "search", shows("Busy: No hits for stamp-1", isError=True))


@pytest.mark.requirement("FILE-tool-search")
def test_a_tool_that_cannot_be_called_from_here_searches_nothing() -> None:
    for text in (LISTED, ASKED.replace("WORDS", WORDS)):
        hands = loaded(SERVERS + text).sound().contracts["add_note"].plan.hands
        hand = hands.find or hands.lookup
        assert hand is not None
        with pytest.raises(ReaderFailedError, match="gateway"):
            asyncio.run(_awaited(hand.call(context(), {"name": "a", "text": "x"})))


# --- looking a key up ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("FILE-tool-search")
@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ('{"state": "done"}', "landed"),
        ('{"state": "refused"}', "failed"),
        ('{"state": "DONE"}', "pending"),
        ('{"state": ["done"]}', "pending"),
        ('{"state": null}', "pending"),
    ],
)
def test_a_tool_says_what_became_of_a_key_by_the_words_that_are_final(answer: str, status: str) -> None:
    contract, fakes = made(ASKED.replace("WORDS", WORDS))
    assert asked(contract.plan.hands.lookup, fakes, "state_of", shows(answer)).status == status
    assert fakes.tools["", "state_of"].seen == [{"key": "key-1"}]


@pytest.mark.requirement("FILE-tool-search")
def test_a_key_is_unknown_only_where_the_contract_says_so_of_the_answer() -> None:
    unknown = 'absent: {error_matches: "No such key: {scope.idempotency_key}"}'
    contract, fakes = made(ASKED.replace("WORDS", f"{WORDS}, {unknown}"))
    lookup = contract.plan.hands.lookup
    assert asked(lookup, fakes, "state_of", shows("No such key: key-1", isError=True)) == Lookup.unknown_key()
    for answer in (shows("No such key: key-2", isError=True), shows("{}"), shows("done")):
        with pytest.raises((ReaderFailedError, ReaderTypeError)):
            asked(lookup, fakes, "state_of", answer)


# --- what may be said of them --------------------------------------------------------------------------------------


@pytest.mark.requirement("FILE-tool-search")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LISTED.replace("      consistency: strong\n    ensure", "    ensure"), "find: It is session, and what a"),
        (LISTED.replace("consistency: strong\n    ensure", "consistency: cached\n    ensure"), "find: It is cached"),
        (
            LISTED.replace("strong\n    ensure", "strong\n      independence: other_client\n    ensure"),
            "find.independence: A tool source of the same server that acts is at most same_client",
        ),
        (LISTED.replace("ephemeral_write", "medium_risk_write"), "find: Its path is same_client; medium_risk_write"),
        (
            ASKED.replace("WORDS", WORDS).replace("ephemeral_write", "medium_risk_write"),
            "lookup: Its path is same_client; medium_risk_write needs",
        ),
        (LISTED.replace("name: search", "name: serch"), "find: The server has no tool 'serch'. Did you mean 'search'"),
        (LISTED.replace("{mark:", "{marks:"), "find.tool.arguments: The tool 'search' takes no 'marks'."),
        (LISTED.replace("name: search,", "name: search, server: adit,"), "find.tool.server: The file names no server"),
        (LISTED.replace("items: /hits", "items: hits"), "find.tool: `items` must be a JSON pointer"),
        (LISTED.replace("items: /hits", "shows: text"), "find.tool.shows: `tool` has no such key"),
        (LISTED.replace("strong\n    ensure", "strong\n      name: x\n    ensure"), "find.name: A source has no such"),
        (ASKED.replace(", WORDS", ", status: /state"), "lookup.tool: A lookup needs the final words"),
        (ASKED.replace(", WORDS", ", landed: [done]"), "lookup.tool: A lookup needs `status`"),
        (ASKED.replace("WORDS", "status: /text, landed: [done]"), "lookup: A word at `/text` is asked for"),
    ],
)  # fmt: skip
def test_no_more_is_said_of_a_search_than_its_tool_can_be(text: str, said: str) -> None:
    found = told(text)
    assert any(each.startswith(f"contracts.add_note.{said}") for each in found), found


@pytest.mark.requirement("FILE-tool-search")
def test_a_tool_that_says_that_it_writes_searches_nothing() -> None:
    writes = {**TOOLS["search"], "annotations": {"readOnlyHint": False}}
    assert any("declares that it writes" in each for each in told(LISTED, search=writes))


@pytest.mark.requirement("FILE-tool-search")
def test_the_contract_says_by_whom_is_searched_and_its_record_says_the_same() -> None:
    contract, _ = made(LISTED)
    terms = ReaderTerms(
        "add_note.find", "tool:search", Consistency.STRONG, Independence.SAME_CLIENT, timeout_us=10_000_000
    )
    assert contract.plan.contract.find_terms == terms
    other = LISTED.replace("name: search,", "name: search, server: audit,").replace(
        "strong\n    ensure", "strong\n      source: the audit\n      timeout: 3s\n    ensure"
    )
    apart, _ = made(other)
    assert apart.plan.contract.find_terms == replace(
        terms, source="the audit", independence=Independence.OTHER_CLIENT, timeout_us=3_000_000
    )
    assert apart.plan.contract.hash != contract.plan.contract.hash
    body = parse_json(apart.plan.contract.body)
    assert isinstance(body, dict)
    again = recorded_plan(body, apart.plan.contract.hash, ["name", "text"], bootstrap.predicate_engine())
    assert again.contract.find_terms == apart.plan.contract.find_terms
    assert again.contract.sealed().hash == apart.plan.contract.hash
    asks, _ = made(ASKED.replace("WORDS", WORDS))
    declared = asks.plan.contract.lookup_terms
    assert declared is not None
    assert (declared.source, declared.independence) == ("tool:state_of", Independence.SAME_CLIENT)


@pytest.mark.requirement("FILE-tool-search")
def test_a_search_of_another_source_counts_as_the_first_reader_does_unless_the_file_says_otherwise() -> None:
    http = '      http: {url: "https://notes.example", path: "/all", query: {by: "{scope.stamp}"}}\n'
    plain = LISTED[: LISTED.index("      tool: {name: search")] + http + LISTED[LISTED.index("    ensure") :]
    bare, _ = made(plain)
    assert bare.plan.contract.find_terms is None
    assert b"find_by" not in bare.plan.contract.body
    said, _ = made(plain.replace(http, http + "      consistency: strong\n      independence: other_system\n"))
    assert said.plan.contract.find_terms is not None
    assert said.plan.contract.find_terms.independence is Independence.OTHER_SYSTEM


# --- in the lifecycle ----------------------------------------------------------------------------------------------


def _ran(text: str, answers: dict[str, dict[str, Json]], read: Reading) -> tuple[Any, list[Any]]:
    fakes = Fakes(serves=True)
    files = ContractFiles(loaded(SERVERS + text, fakes=fakes, tools=TOOLS).sound())
    for name, answer in answers.items():
        fakes.tools["", name].answer = partial(dict, answer)
    began = [Reading.absent()]
    fakes.made[0].reading = lambda: began.pop() if began else read
    store = MemoryStore()
    with Readback.open(
        "sqlite:///unused.db", tenant="t", principal="agent:ops", runtime=VirtualRuntime(), store=store
    ) as rb:
        outcome = rb.run(files["add_note"](name="a", text="x"), operation="once")
        return outcome, [open_envelope(each.envelope).event for each in store.events(outcome.id)]


@pytest.mark.requirement("FILE-tool-search")
def test_two_effects_that_a_tool_finds_are_a_duplicate_and_the_record_says_by_whom_they_were_found() -> None:
    hits = '{"whole": true, "hits": [{"text": "x", "by": null, "v": 1}, {"text": "x", "by": null, "v": 2}]}'
    outcome, events = _ran(LISTED, {"search": shows(hits)}, Reading.of({"text": "x"}))
    assert outcome.discrepancy == "duplicate_side_effect"
    found = next(each.data for each in events if each.data.get("role") == "find")
    assert (found["source"], found["independence"]) == ("tool:search", "same_client")
    assert found["count"] == 2


@pytest.mark.requirement("FILE-tool-search")
def test_an_effect_is_ours_where_a_tool_says_that_our_key_landed() -> None:
    text = ASKED.replace("WORDS", WORDS)
    outcome, events = _ran(text, {"state_of": shows('{"state": "done"}')}, Reading.of({"text": "x"}))
    assert outcome.state == "reconciled_success"
    said = next(each.data for each in events if each.kind == "looked_up")
    assert (said["status"], said["source"], said["independence"]) == ("landed", "tool:state_of", "same_client")
    open_, _ = _ran(text, {"state_of": shows('{"state": "queued"}')}, Reading.of({"text": "x"}))
    assert open_.state != "reconciled_success"
