"""The published JSON Schema: made of the checker's tables, so that neither knows what the other does not.

After an intended change of the tables: `python -m tests.contract_files.test_schema` writes it anew.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from readback.commands.cli import main
from readback.contracts.files import schema as schemas
from readback.contracts.files.schema import OPTIONS, contract_schema, published_schema
from readback.contracts.files.words import EXECUTORS, SOURCES, Shape
from readback.contracts.options import OPTION_KEYS
from tests.architecture.tree import ROOT
from tests.contract_files.conftest import SHOP
from tests.contract_files.test_bad_files import CASES, NO_DOCUMENTS, SOUND, _with
from tests.contract_files.test_same_contract import EVERY_KEY, INTERFACE, REVERSAL
from tests.contract_files.writing import contract, faults

WHOLE = contract_schema()
KEYWORDS = {
    "$schema", "$defs", "$ref", "title", "description", "type", "properties", "required", "additionalProperties",
    "propertyNames", "items", "minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum", "minProperties",
    "maxProperties", "pattern", "enum", "const", "oneOf",
}  # fmt: skip
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "integer": (int,), "number": (int, float),
    "boolean": (bool,), "null": (type(None),),
}  # fmt: skip


def _meets(value: Any, shape: Any) -> bool:
    """As much of JSON Schema as the published one uses."""
    if shape is True or shape is False:
        return bool(shape)
    assert set(shape) <= KEYWORDS, set(shape) - KEYWORDS
    if "$ref" in shape and not _meets(value, WHOLE["$defs"][shape["$ref"].removeprefix("#/$defs/")]):
        return False
    if "type" in shape:
        kinds = shape["type"] if isinstance(shape["type"], list) else [shape["type"]]
        if not any(isinstance(value, _TYPES[k]) and (k == "boolean" or not isinstance(value, bool)) for k in kinds):
            return False
    if "enum" in shape and value not in shape["enum"]:
        return False
    if "const" in shape and value != shape["const"]:
        return False
    if "oneOf" in shape and sum(_meets(value, each) for each in shape["oneOf"]) != 1:
        return False
    if isinstance(value, dict):
        return _meets_object(value, shape)
    if isinstance(value, list):
        return _meets_list(value, shape)
    return _meets_text(value, shape) if isinstance(value, str) else _meets_number(value, shape)


def _meets_object(value: dict[str, Any], shape: dict[str, Any]) -> bool:
    known = shape.get("properties", {})
    more = shape.get("additionalProperties", True)
    return (
        all(name in value for name in shape.get("required", []))
        and all(_meets(name, shape.get("propertyNames", True)) for name in value)
        and all(_meets(each, known.get(name, more)) for name, each in value.items())
        and shape.get("minProperties", 0) <= len(value) <= shape.get("maxProperties", len(value))
    )


def _meets_list(value: list[Any], shape: dict[str, Any]) -> bool:
    fits = shape.get("minItems", 0) <= len(value) <= shape.get("maxItems", len(value))
    return fits and all(_meets(each, shape.get("items", True)) for each in value)


def _meets_text(value: str, shape: dict[str, Any]) -> bool:
    fits = shape.get("minLength", 0) <= len(value) <= shape.get("maxLength", len(value))
    return fits and re.search(shape.get("pattern", ""), value) is not None


def _meets_number(value: Any, shape: dict[str, Any]) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return True
    return bool(shape.get("minimum", value) <= value <= shape.get("maximum", value))


@pytest.mark.requirement("FILE-schema")
def test_the_published_schema_is_the_one_that_the_tables_give() -> None:
    assert json.loads(published_schema()) == WHOLE
    shown = CliRunner().invoke(main, ["contracts", "schema"])
    assert shown.exit_code == 0
    assert shown.stdout == published_schema()


@pytest.mark.requirement("FILE-schema")
def test_every_key_of_every_table_is_in_it() -> None:
    assert set(OPTIONS) == set(OPTION_KEYS) - {"name", "execute", "readers"}
    reader = WHOLE["$defs"]["reader"]["properties"]
    for source in SOURCES:
        known = {key.name for key in source.keys if not key.uses or "read" in key.uses}
        assert set(reader[source.name]["properties"]) == known
    execute = WHOLE["$defs"]["execute"]["properties"]
    for executor in EXECUTORS:
        assert set(execute[executor.name]["properties"]) == {key.name for key in executor.keys}
    assert set(schemas._SHAPES) == set(Shape) - {Shape.CHOICE}


def _examples() -> list[str]:
    whole = contract(EVERY_KEY, "adjust") + contract(REVERSAL, "put_back").partition("contracts:\n")[2]
    texts = [SHOP.read_text(encoding="utf-8"), INTERFACE, contract(SOUND), whole]
    return texts + [path.read_text(encoding="utf-8") for path in sorted(Path(ROOT, "examples").rglob("*.yaml"))]


@pytest.mark.requirement("FILE-schema")
@pytest.mark.parametrize("text", _examples(), ids=lambda text: str(len(text)))
def test_what_the_checker_takes_the_schema_takes(text: str) -> None:
    document = yaml.load(text, Loader=yaml.BaseLoader)
    assert document["kind"] == "Contracts"
    assert faults(text) == []
    assert _meets(yaml.safe_load(text), WHOLE)


@pytest.mark.requirement("FILE-schema")
def test_what_the_schema_refuses_the_checker_refuses_too() -> None:
    refused = 0
    for case in CASES:
        text = _with(case["old"], case["new"])
        try:
            whole = yaml.safe_load(text)
        except yaml.YAMLError:
            continue
        if not _meets(whole, WHOLE):
            refused += 1
            assert faults(text), case
    assert refused >= 12
    for content, _ in NO_DOCUMENTS.values():
        assert faults(content)


if __name__ == "__main__":
    path = Path(schemas.__file__).with_name(schemas.PUBLISHED)
    path.write_text(json.dumps(WHOLE, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
