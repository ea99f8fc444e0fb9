"""The recorded form of a tool: what counts as a change of an argument, and what is too much or has no form."""

from __future__ import annotations

from typing import Any

import pytest

from readback.canon import payload_bytes
from readback.contracts.files.tools.recorded_form import ARGUMENTS_MAX, form_of_tool

pytestmark = pytest.mark.requirement("QUAL-drift-server")


def tool(properties: dict[str, Any], *, text: str = "Pays.", **schema: Any) -> dict[str, Any]:
    return {"name": "pay", "description": text, "inputSchema": {"type": "object", "properties": properties, **schema}}


def takes(properties: dict[str, Any], **schema: Any) -> Any:
    return form_of_tool(tool(properties, **schema))["takes"]


def test_a_text_for_the_reader_changes_the_hash_of_the_whole_and_no_argument() -> None:
    one, other = tool({"to": {"type": "string", "title": "To"}}), tool({"to": {"type": "string"}}, text="Pays once.")
    before, after = form_of_tool(one), form_of_tool(other)
    assert before["takes"] == after["takes"]
    assert before["sha256"] != after["sha256"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"type": "string"}, {"type": "string", "enum": ["a"]}),
        ({"enum": [{"title": "a"}]}, {"enum": [{"title": "b"}]}),
        ({"properties": {"title": {"type": "string"}}}, {"properties": {"title": {"type": "number"}}}),
        ({"items": {"type": "string"}}, {"items": {"type": "number"}}),
        ({"anyOf": [{"type": "string"}]}, {"anyOf": [{"type": "null"}]}),
        ({"default": 1}, {"default": 2}),
    ],
)
def test_a_change_inside_an_argument_s_schema_is_seen(one: Any, other: Any) -> None:
    assert takes({"to": one}) != takes({"to": other})


def test_a_definition_beside_the_arguments_counts_where_an_argument_refers_to_it() -> None:
    refers = {"to": {"items": {"$ref": "#/$defs/Place"}}, "note": {"type": "string"}}
    one, other = ({"Place": {"type": kind}} for kind in ("string", "number"))
    before, after = takes(refers, **{"$defs": one}), takes(refers, **{"$defs": other})
    assert before["to"] != after["to"]
    assert before["note"] == after["note"]


def test_types_and_needs_are_stated_in_words() -> None:
    found = takes({"a": {"type": ["string", "null"]}, "b": {}, "c": {"type": "number"}}, required=["c"])
    assert {name: each[:2] for name, each in found.items()} == {
        "a": ["null or string", False],
        "b": ["any", False],
        "c": ["number", True],
    }


def test_too_many_arguments_are_recorded_by_the_hashes_only() -> None:
    many = {f"a{n}": {"type": "string"} for n in range(ARGUMENTS_MAX + 1)}
    assert form_of_tool(tool(many)).keys() == {"sha256", "gives"}


@pytest.mark.parametrize(
    "definition",
    [
        {},
        {"name": "pay", "inputSchema": None},
        {"name": "pay", "inputSchema": {"properties": ["to"], "required": "to"}},
        {"name": "pay", "inputSchema": {"properties": {"to": True}, "$defs": 3}, "outputSchema": []},
    ],
)
def test_an_odd_definition_has_a_form_that_can_be_recorded(definition: dict[str, Any]) -> None:
    assert payload_bytes(form_of_tool(definition))


def test_a_definition_without_a_canonical_form_has_no_recorded_form() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"items": deep}
    assert form_of_tool(tool({"to": deep})) == {}
