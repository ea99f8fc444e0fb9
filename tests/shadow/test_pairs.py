"""Proposed pairs, by schemas, names and hints."""

from __future__ import annotations

from typing import Any

import pytest

from readback.shadow.pairs import AllowedRead, may_read, pairs_of, reads_for, removes, says_it_writes, words_of


def tool(name: str, *needed: str, optional: tuple[str, ...] = (), **hints: bool) -> dict[str, Any]:
    properties = {each: {"type": "string"} for each in (*needed, *optional)}
    made: dict[str, Any] = {"name": name, "inputSchema": {"type": "object", "properties": properties}}
    if needed:
        made["inputSchema"]["required"] = list(needed)
    return {**made, "annotations": hints} if hints else made


WRITE, READ, LIST = tool("write_note", "name", "text"), tool("read_note", "name"), tool("list_notes")


@pytest.mark.requirement("SHADOW-pairs")
def test_a_keyed_reading_of_the_same_noun_comes_first() -> None:
    other = tool("get_weather", "city")
    found = pairs_of([WRITE, other, LIST, READ])
    assert [(each.read, each.keys) for each in found] == [("read_note", ("name",)), ("list_notes", ())]


@pytest.mark.requirement("SHADOW-pairs")
@pytest.mark.parametrize(
    ("definition", "reads"),
    [
        (tool("list_notes"), True),
        (tool("listNotes"), True),
        (tool("weather"), False),
        (tool("weather", readOnlyHint=True), True),
        (tool("get_or_create_note"), False),
        (tool("read_and_clear"), False),
        (tool("read_note", readOnlyHint=False), False),
        (tool("read_note", destructiveHint=True), False),
    ],
)
def test_names_and_hints_tell_a_reading_tool(definition: dict[str, Any], reads: bool) -> None:
    assert may_read(definition) is reads


@pytest.mark.requirement("SHADOW-pairs")
def test_arguments_of_another_type_are_no_key() -> None:
    number = tool("read_note", "name")
    number["inputSchema"]["properties"]["name"] = {"type": "integer"}
    assert pairs_of([WRITE, number]) == []


@pytest.mark.requirement("SHADOW-pairs")
def test_the_readings_of_a_call_take_its_own_arguments() -> None:
    known = {each["name"]: each for each in (WRITE, READ, LIST)}
    allowed = [AllowedRead("list_notes"), AllowedRead("read_note"), AllowedRead("gone")]
    given = {"name": "milk", "text": "Buy milk"}
    assert reads_for(WRITE, given, known, allowed) == [
        {"tool": "read_note", "arguments": {"name": "milk"}, "stated": False},
        {"tool": "list_notes", "arguments": {}, "stated": False},
    ]
    assert [each["tool"] for each in reads_for(WRITE, {"text": "Buy milk"}, known, allowed)] == ["list_notes"]


@pytest.mark.requirement("SHADOW-reads-allowed")
@pytest.mark.parametrize("argument", ["query", "sql", "command", "code", "text"])
def test_a_reading_receives_no_argument_that_it_might_execute(argument: str) -> None:
    write, read = tool("write_query", argument), tool("read_query", argument)
    free = tool("read_all", optional=(argument,))
    assert pairs_of([write, read]) == []
    known = {each["name"]: each for each in (write, read, free)}
    found = reads_for(write, {argument: "drop table x"}, known, [AllowedRead("read_query"), AllowedRead("read_all")])
    assert found == [{"tool": "read_all", "arguments": {}, "stated": False}]


@pytest.mark.requirement("SHADOW-pairs")
def test_the_operators_own_pair_is_used_alone() -> None:
    known = {each["name"]: each for each in (WRITE, READ, LIST)}
    allowed = [AllowedRead("read_note"), AllowedRead("list_notes", "write_note"), AllowedRead("read_note", "other")]
    found = reads_for(WRITE, {"name": "milk"}, known, allowed)
    assert found == [{"tool": "list_notes", "arguments": {}, "stated": True}]


@pytest.mark.requirement("SHADOW-pairs")
@pytest.mark.parametrize(
    "schema", [None, [], {"properties": [], "required": "name"}, {"required": ["a"]}, {"properties": {"name": True}}]
)
def test_a_malformed_definition_from_a_server_gives_no_pair_and_no_error(schema: Any) -> None:
    odd = {"name": "read_x", "inputSchema": schema, "annotations": "none"}
    pairs_of([odd, WRITE, {}])
    assert not says_it_writes(odd)


def test_words_are_those_of_snake_case_and_camel_case() -> None:
    assert words_of("deleteHTTPEntries2") == {"delete", "http", "entry", "2"}
    assert removes("delete_note")
    assert not removes("write_note")
