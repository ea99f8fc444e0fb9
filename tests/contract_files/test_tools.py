"""Tools of servers as hands of a contract: the arguments go as they came, and a failure is never absence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, cast

import pytest

from readback import Readback
from readback.canon import Json
from readback.client.files import ContractFiles
from readback.contracts.files.assembly import Loaded
from readback.contracts.files.contract import FileContract
from readback.domain.verification.reading import Presence, Reading
from readback.errors import ArgumentError, NotDispatchedError, ReaderFailedError, ReaderTypeError
from readback.ports.handlers import Handler
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.contract_files.writing import HEAD, Fakes, FakeTool, context, faults, loaded

SERVED = f"{HEAD}server: {{command: [notes-server]}}\nservers:\n  audit: {{url: https://audit.example/mcp}}\n"
NOTE = """contracts:
  write_note:
    kind: set
    side_effect: ephemeral_write
    target: note/{requested.name}
    readers:
      - tool: {name: read_note, arguments: {name: "{requested.name}"}, shows: json, ABSENT}
        consistency: strong
    ensure: {same: authoritative.text == requested.text}
""".replace("ABSENT", 'absent: {error_matches: "No such note: *"}')
BARE = NOTE.replace("shows: json, ", "").replace("authoritative.text == requested.text", "authoritative != null")
TAKES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z]+$"},
        "text": {"type": "string", "maxLength": 20},
        "rank": {"type": "integer"},
        "tags": {"type": ["array", "null"], "items": {"type": "string"}},
    },
    "required": ["name", "text"],
}
TOOLS: dict[str, Any] = {
    "write_note": {"name": "write_note", "inputSchema": TAKES},
    "read_note": {"name": "read_note", "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}}},
}


def made(text: str = SERVED + NOTE, tools: dict[str, Any] | None = None) -> tuple[FileContract, Fakes]:
    fakes = Fakes(serves=True)
    found = loaded(text, fakes=fakes, tools=TOOLS if tools is None else tools).sound()
    return next(iter(found.contracts.values())), fakes


def called(hand: Handler, **arguments: object) -> Any:
    assert hand.is_async
    return asyncio.run(cast("Any", hand.call(context(), arguments)))


def text_of(said: str, **more: Json) -> dict[str, Json]:
    return {"content": [{"type": "text", "text": said}], **more}


def read(contract: FileContract, fakes: Fakes, answer: dict[str, Json], tool: str = "read_note") -> Reading:
    fakes.tools["", tool].answer = lambda: answer
    given = {"name": "a", "text": "x"}
    reading = asyncio.run(_awaited(contract.plan.hands.readers[0].call(context(), given)))
    assert isinstance(reading, Reading)
    return reading


async def _awaited(one: object) -> object:
    return await cast("Awaitable[object]", one)


# --- acting --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("FILE-tool-call")
def test_the_arguments_of_a_call_go_to_the_tool_as_they_came() -> None:
    contract, fakes = made()
    given: dict[str, Any] = {"name": "a", "text": "x", "rank": 7.0, "tags": None, "more": {"n": [1, True]}}
    bound = contract.arguments.bind((), given)
    assert bound.requested == given
    assert contract.plan.revive(bound.requested) == given
    raw = called(contract.plan.hands.execute, **bound.arguments)
    assert fakes.tools["", "write_note"].seen == [given]
    assert type(fakes.tools["", "write_note"].seen[0]["rank"]) is float
    assert raw == {"content": [{"type": "text", "text": "ok"}]}
    called(contract.plan.hands.execute, **contract.arguments.bind((), {"name": "a", "text": "x"}).arguments)
    assert fakes.tools["", "write_note"].seen[1] == {"name": "a", "text": "x"}  # nothing is filled in


@pytest.mark.requirement("FILE-tool-call")
def test_what_certainly_does_not_fit_is_refused_with_all_of_it_at_once() -> None:
    contract, fakes = made()
    with pytest.raises(ArgumentError) as refused:
        contract.arguments.bind((), {"text": "x" * 21, "rank": True, "tags": ["a", 1]})
    told = {each["argument"] for each in cast("list[dict[str, str]]", refused.value.details["problems"])}
    assert told == {"name", "text", "rank", "tags[1]"}
    closed = {**TOOLS, "write_note": {"name": "write_note", "inputSchema": {**TAKES, "additionalProperties": False}}}
    contract, _ = made(tools=closed)
    with pytest.raises(ArgumentError, match=r"There is no such argument\. Did you mean 'text'"):
        contract.arguments.bind((), {"name": "a", "text": "b", "txt": "c"})
    assert not fakes.tools["", "write_note"].seen


@pytest.mark.requirement("FILE-tool-call")
def test_a_contract_may_name_another_tool_and_say_what_it_is_given() -> None:
    named = """
      arguments: {id: string, note: {type: string, default: ""}, who: {type: [string, "null"]}}
      execute:
        tool: {name: notes.put, arguments: {key: "n/{requested.id}", list: ["{requested.id}"], n: 1}}
"""
    body = NOTE.replace("requested.name", "requested.id").replace("requested.text", "requested.note")
    text = SERVED + body.replace("    kind: set\n", "    kind: set" + named.replace("\n  ", "\n"))
    contract, fakes = made(text, {"notes.put": {"name": "notes.put", "inputSchema": {}}, **TOOLS})
    called(contract.plan.hands.execute, **contract.arguments.bind((), {"id": "7", "who": "me"}).arguments)
    assert fakes.tools["", "notes.put"].seen == [{"key": "n/7", "list": ["7"], "n": 1}]


def test_arguments_of_the_files_own_are_strict_and_what_was_not_given_is_not_sent() -> None:
    own = "    arguments: {type: object, required: [name, text], properties: {name: {type: string}, "
    own += "text: {type: string}, rank: {type: integer}, tags: {type: string, default: t}}}\n"
    contract, fakes = made(SERVED + NOTE.replace("    kind: set\n", "    kind: set\n" + own))
    with pytest.raises(ArgumentError, match="no such argument"):
        contract.arguments.bind((), {"name": "a", "text": "b", "more": 1})
    called(contract.plan.hands.execute, **contract.arguments.bind((), {"name": "a", "text": "b"}).arguments)
    assert fakes.tools["", "write_note"].seen == [{"name": "a", "text": "b", "tags": "t"}]


def test_null_is_not_asked_for_where_the_tool_would_not_be_sent_it() -> None:
    """It would be approved and recorded as null, and the tool be called without."""
    own = "    arguments: {type: object, required: [name, text], properties: {name: {type: string}, "
    own += 'text: {type: [string, "null"]}, rank: {type: [integer, "null"]}}}\n'
    contract, fakes = made(SERVED + NOTE.replace("    kind: set\n", "    kind: set\n" + own))
    write_note = ContractFiles(Loaded({"write_note": contract}, ()))["write_note"]
    with pytest.raises(ArgumentError, match="cannot send null for rank"):
        write_note(name="a", text="b", rank=None)
    proposal = write_note(name="a", text=None)
    called(contract.plan.hands.execute, **proposal.arguments)
    proposal.mark_run()
    assert fakes.tools["", "write_note"].seen == [{"name": "a", "text": None}]


def test_a_tool_that_cannot_be_called_from_here_was_certainly_not_called() -> None:
    contract = loaded(SERVED + NOTE).sound().contracts["write_note"]
    assert contract.uncallable
    with pytest.raises(NotDispatchedError, match="gateway"):
        called(contract.plan.hands.execute, name="a", text="x")
    with pytest.raises(ReaderFailedError, match="gateway"):
        asyncio.run(_awaited(contract.plan.hands.readers[0].call(context(), {"name": "a"})))


def test_a_contract_has_one_hash_whatever_is_known_of_its_tool() -> None:
    known, _ = made()
    assert loaded(SERVED + NOTE).sound().contracts["write_note"].plan.contract.hash == known.plan.contract.hash


# --- reading -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("FILE-tool-reader")
def test_a_reading_is_the_structured_content_or_the_text_as_json_or_the_text() -> None:
    contract, fakes = made(SERVED + BARE)
    assert read(contract, fakes, text_of("x", structuredContent={"text": "s"})).value == {"text": "s"}
    assert read(contract, fakes, text_of('{"text": "j"}')).value == {"text": "j"}
    assert read(contract, fakes, text_of("plain")).value == {"text": "plain"}
    assert read(contract, fakes, text_of("17")).value == {"text": "17"}
    assert fakes.tools["", "read_note"].seen[0] == {"name": "a"}
    with pytest.raises(ReaderFailedError, match="neither text nor structured"):
        read(contract, fakes, {"content": []})


@pytest.mark.requirement("FILE-tool-reader")
def test_what_stands_in_a_text_does_not_choose_what_it_is_compared_as() -> None:
    planted = '{"text": "x"}'  # the note holds this; it was to hold x
    bare = NOTE.replace("shows: json, ", "")
    assert any("say `shows: text`" in each for each in faults(SERVED + bare))
    contract, fakes = made(SERVED + NOTE.replace("shows: json", "shows: text"))
    assert read(contract, fakes, text_of(planted, structuredContent={"text": "x"})).value == {"text": planted}
    with pytest.raises(ReaderFailedError, match="without text"):
        read(contract, fakes, {"content": [], "structuredContent": {"text": "x"}})
    contract, fakes = made()
    with pytest.raises(ReaderTypeError, match="did not send JSON"):
        read(contract, fakes, text_of("x"))


@pytest.mark.requirement("FILE-tool-absence")
def test_an_error_is_absence_only_where_the_contract_knows_its_whole_text() -> None:
    contract, fakes = made()
    assert read(contract, fakes, text_of("No such note: a", isError=True)).presence is Presence.ABSENT
    for said in ("Denied: No such note: a", "no such note: a", "", "Timeout"):
        with pytest.raises(ReaderFailedError, match="answered with an error"):
            read(contract, fakes, text_of(said, isError=True))
    with pytest.raises(ReaderFailedError):
        read(contract, fakes, text_of("No such note: a", isError="true"))  # no MCP: nothing is made of it
    assert read(contract, fakes, text_of('"No such note: a"')).presence is Presence.PRESENT
    bare, fakes = made(SERVED + NOTE.replace(', absent: {error_matches: "No such note: *"}', ""))
    with pytest.raises(ReaderFailedError):
        read(bare, fakes, text_of("No such note: a", isError=True))


@pytest.mark.requirement("FILE-tool-absence")
def test_an_answer_is_absence_only_where_the_named_value_is_the_named_one() -> None:
    absent = "absent: {at: /notes, is: []}, value: /notes/0, version: /notes/0/v, stamp: /by"
    contract, fakes = made(SERVED + NOTE.replace('absent: {error_matches: "No such note: *"}', absent))
    assert read(contract, fakes, text_of('{"notes": []}')).presence is Presence.ABSENT
    found = read(contract, fakes, text_of('{"notes": [{"text": "x", "v": 3}], "by": "s-1"}'))
    assert (found.value, found.version, found.stamp) == ({"text": "x", "v": 3}, 3, "s-1")
    for said in ('{"notes": null}', '{"note": []}', "[]", "nothing"):
        with pytest.raises((ReaderFailedError, ReaderTypeError)):
            read(contract, fakes, text_of(said))
    nothing = "value: /note"
    contract, fakes = made(SERVED + NOTE.replace('absent: {error_matches: "No such note: *"}', nothing))
    with pytest.raises(ReaderFailedError, match="does not declare that as absence"):
        read(contract, fakes, text_of('{"note": null}'))


@pytest.mark.requirement("FILE-tool-absence")
@pytest.mark.parametrize("pattern", ["*not found*", "{requested.name} not found", '" "'])
def test_an_error_that_could_quote_a_value_may_not_be_taken_for_absence(pattern: str) -> None:
    text = SERVED + NOTE.replace('"No such note: *"', pattern if pattern[0] == '"' else f'"{pattern}"')
    assert any("begins with words of its own" in each for each in faults(text))


@pytest.mark.requirement("FILE-tool-reader")
def test_a_tool_of_the_same_server_is_the_same_client_and_one_of_another_is_another_client_at_most() -> None:
    contract, _ = made()
    assert contract.plan.contract.readers[0].independence == "same_client"
    other = NOTE.replace("name: read_note,", "name: read_note, server: audit,")
    contract, fakes = made(SERVED + other)
    assert contract.plan.contract.readers[0].independence == "other_client"
    assert isinstance(fakes.tools["audit", "read_note"], FakeTool)
    more = NOTE.replace("    ensure:", "        independence: other_client\n    ensure:")
    assert any("of the same server that acts is at most same_client" in each for each in faults(SERVED + more))
    most = other.replace("    ensure:", "        independence: other_system\n    ensure:")
    assert any("is at most other_client" in each for each in faults(SERVED + most))
    twin = SERVED.replace("{url: https://audit.example/mcp}", "{command: [notes-server]}")
    assert loaded(twin + other).sound().contracts["write_note"].plan.contract.readers[0].independence == "same_client"
    assert any("names no server 'adit'" in each for each in faults(SERVED + other.replace("audit,", "adit,")))


@pytest.mark.requirement("FILE-tool-call")
def test_an_argument_may_bear_any_name() -> None:
    takes: dict[str, Any] = {"properties": {"name": {}, "text": {}, "self": {}, "ctx": {}, "x-y": {}, "class": {}}}
    fakes = Fakes(serves=True)
    tools = {**TOOLS, "write_note": {"name": "write_note", "inputSchema": takes}}
    files = ContractFiles(loaded(SERVED + NOTE, fakes=fakes, tools=tools).sound())
    given: dict[str, Any] = {"name": "a", "text": "b", "self": 1, "ctx": 2, "x-y": 3, "class": 4, "arguments": 5}
    with Readback.open(
        "sqlite:///unused.db", tenant="t", principal="agent:ops", runtime=VirtualRuntime(), store=MemoryStore()
    ) as rb:
        rb.run(files["write_note"](**given), operation="once")
    assert fakes.tools["", "write_note"].seen == [given]
