"""The schema that comes with the package has exactly the fields that the specification prints."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from readback.client.schemas import schema_text
from tests.cli.conftest import Desk

PRINTED = tomllib.loads((Path(__file__).parent.parent / "requirements" / "ledger_entry.toml").read_text("utf-8"))
SCHEMA: dict[str, Any] = json.loads(schema_text())


def fields(schema: dict[str, Any], path: str = "$") -> Iterator[dict[str, Any]]:
    """Each field as the transcription has it."""
    kind = schema["type"]
    told: dict[str, Any] = {"path": path, "type": kind if isinstance(kind, list) else [kind]}
    if "enum" in schema:
        told["enum"] = ["(null)" if each is None else each for each in schema["enum"]]
    for word in ("format", "minimum", "required"):
        if word in schema:
            told[word] = schema[word]
    if schema.get("additionalProperties") is False:
        told["closed"] = True
    odd = schema.keys() - {
        "type",
        "enum",
        "format",
        "minimum",
        "required",
        "additionalProperties",
        "properties",
        "items",
    }
    assert odd <= ({"$schema", "$id", "$comment", "title"} if path == "$" else set()), f"{path}: {odd}"
    yield told
    for name, below in schema.get("properties", {}).items():
        yield from fields(below, name if path == "$" else f"{path}.{name}")
    if "items" in schema:
        yield from fields(schema["items"], f"{path}[]")


@pytest.mark.requirement("LEDGER-record")
def test_every_field_type_and_enumeration_is_as_the_specification_prints_it() -> None:
    assert list(fields(SCHEMA)) == PRINTED["field"]


def test_it_is_a_schema_of_2020_12_that_names_no_host_and_its_source() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert SCHEMA["$id"].startswith("urn:")
    assert "action verification specification" in SCHEMA["$comment"]
    assert SCHEMA["title"] == "ActionLedgerEntry"


def test_the_command_prints_it(desk: Desk) -> None:
    assert desk("ledger", "schema", code=0).out == schema_text()
