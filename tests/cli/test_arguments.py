"""Text from the shell becomes what the schema takes: "7" stays text for a text, and is a number for a number."""

from __future__ import annotations

import pytest

from readback.canon import Json
from readback.cli.actions.arguments import read_arguments, read_object, takes_text
from readback.errors import ArgumentError

SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "number": {"type": "integer"},
        "either": {"type": ["integer", "string"]},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "items": {"type": "array", "items": {"type": "string"}},
        "choice": {"enum": ["a", "b"]},
        "level": {"enum": [1, 2]},
        "fixed": {"const": "x"},
        "when": {"type": "string", "format": "date-time"},
        "model": {"$ref": "#/$defs/Model", "$defs": {"Model": {"type": "object"}}},
        "name": {"$ref": "#/$defs/Name", "$defs": {"Name": {"type": "string"}}},
        "anything": {},
    },
}


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("text=7", "7"),
        ("text=", ""),
        ("text=a=b", "a=b"),
        ("text=null", "null"),
        ("number=7", 7),
        ("either=7", "7"),
        ("maybe=null", None),
        ('items=["a","b"]', ["a", "b"]),
        ("choice=a", "a"),
        ("level=2", 2),
        ("fixed=x", "x"),
        ("when=2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ('model={"a": 1}', {"a": 1}),
        ("name=n", "n"),
        ("anything=7", "7"),
        ("unheard=7", "7"),
    ],
)
def test_text_is_text_where_text_is_taken_and_json_where_not(given: str, read: Json) -> None:
    name = given.partition("=")[0]
    assert read_arguments(SCHEMA, [given], []) == {name: read}


@pytest.mark.parametrize(("given", "read"), [("text=7", 7), ('text="7"', "7"), ("text=null", None), ("either=7", 7)])
def test_json_is_json_always(given: str, read: Json) -> None:
    assert read_arguments(SCHEMA, [], [given]) == {given.partition("=")[0]: read}


@pytest.mark.parametrize("text", ["seven", "7.5.1", "NaN", "Infinity", "{", "'7'", "01"])
def test_what_is_no_json_is_never_guessed(text: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        read_arguments(SCHEMA, [f"number={text}"], [])
    assert caught.value.details["problems"]


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(ArgumentError) as caught:
        read_arguments(SCHEMA, ["number=x", "text", "=x", "text=a", "text=b"], ["model={"])
    problems = caught.value.details["problems"]
    assert isinstance(problems, list)
    assert [each["argument"] for each in problems] == ["number", "text", "", "text", "model"]


def test_an_object_is_an_object() -> None:
    assert read_object("--intended", None) is None
    assert read_object("--intended", '{"a": 1}') == {"a": 1}
    for text in ("[]", "null", "{", '"x"'):
        with pytest.raises(ArgumentError, match="--intended"):
            read_object("--intended", text)


def test_a_schema_that_leads_back_to_itself_ends() -> None:
    assert takes_text({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}})
