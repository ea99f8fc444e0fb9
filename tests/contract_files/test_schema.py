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
from jsonschema import Draft202012Validator

from readback.cli.cli import main
from readback.contracts.files import schema as schemas
from readback.contracts.files.build import CONTRACT_KEYS
from readback.contracts.files.schema import OPTIONS, contract_schema, published_schema
from readback.contracts.files.vocabulary import EXECUTOR, EXECUTORS, SOURCE, SOURCES, Shape
from readback.contracts.options import OPTION_KEYS
from tests.architecture.tree import ROOT
from tests.contract_files.conftest import SHOP
from tests.contract_files.test_bad_files import CASES, NO_DOCUMENTS, SOUND, _with
from tests.contract_files.test_same_contract import EVERY_KEY, INTERFACE, REVERSAL
from tests.contract_files.writing import contract, faults

WHOLE = contract_schema()
VALIDATOR = Draft202012Validator(WHOLE)


def _meets(value: Any) -> bool:
    return bool(VALIDATOR.is_valid(value))


@pytest.mark.requirement("FILE-schema")
def test_the_published_schema_is_the_one_that_the_tables_give() -> None:
    Draft202012Validator.check_schema(WHOLE)
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
    assert _meets(yaml.safe_load(text))


@pytest.mark.requirement("FILE-schema")
def test_what_the_schema_refuses_the_checker_refuses_too() -> None:
    refused = 0
    for case in CASES:
        text = _with(case["old"], case["new"])
        try:
            whole = yaml.safe_load(text)
        except yaml.YAMLError:
            continue
        if not _meets(whole):
            refused += 1
            assert faults(text), case
    assert refused >= 12
    for content, _ in NO_DOCUMENTS.values():
        assert faults(content)


OTHER = {"file": {"root": ".", "path": "{requested.a}"}}
SPECS: dict[str, dict[str, Any]] = {
    "file": {"root": "a", "path": "a"},
    "sql": {"database": "a.db", "query": "select 1"},
    "tables": {"database": "a.db"},
    "http": {"url": "http://h", "path": "/a"},
    "imap": {"host": "h", "port": 993, "user": "u", "password": {"env": "P"}, "proves": "delivered"},
    "s3": {"bucket": "b", "key": "k", "prefix": "p"},
    "git": {"repository": "r", "branch": "b"},
    "command": {"argv": ["a"]},
    "tool": {"name": "t", "arguments": {}},
}
ACTS: dict[str, dict[str, Any]] = {
    "file": {"root": "a", "do": "delete", "path": "a"},
    "sql": {"database": "a.db", "statement": "delete from a"},
    "http": {"url": "http://h", "path": "/a", "method": "POST"},
    "smtp": {"host": "h", "port": 25, "sender": "a", "to": ["b"], "subject": "c", "text": "d"},
    "command": {"argv": ["a"]},
    "agent": {},
    "tool": {},
}
ODD: tuple[Any, ...] = (None, True, "", " ", "x", "/x", 7, 1.5, [], ["x"], [None], {}, {"a": "b"}, {"env": "X"},
                        {"env": "a b"}, {"a": None}, {"": "x"}, {"a": "b\nc"})  # fmt: skip


def _whole(use: str, kind: str, spec: object) -> dict[str, Any]:
    """A file with this source or executor, and whatever else it needs."""
    body: dict[str, Any] = {
        "kind": "set", "side_effect": "ephemeral_write", "target": "x/{requested.a}", "arguments": {"a": "string"},
        "ensure": {"there": "authoritative != null"},
        "readers": [{kind: spec, "consistency": "strong"} if use == "read" else OTHER],
        "execute": {kind: spec} if use == "execute" else {"tool": {}},
    }  # fmt: skip
    if use in ("find", "lookup"):
        body[use] = {kind: spec, "consistency": "strong"}
    server = {"command": ["x"]}
    whole = {"apiVersion": "readback/v1", "kind": "Contracts", "server": server, "contracts": {"one": body}}
    return {**whole, "servers": {"x": {"command": ["y"]}}}


def _sound(use: str, kind: str) -> dict[str, Any]:
    row = SOURCE[kind] if use != "execute" else EXECUTOR[kind]
    known = {key.name for key in row.keys if not key.uses or use in key.uses}
    spec = {name: value for name, value in (SPECS if use != "execute" else ACTS)[kind].items() if name in known}
    return {**spec, "status": "/s", "landed": ["done"]} if use == "lookup" else spec


USES = [(use, row.name) for row in SOURCES for use in row.uses] + [("execute", row.name) for row in EXECUTORS]


@pytest.mark.requirement("FILE-schema")
@pytest.mark.parametrize(("use", "kind"), USES)
def test_an_editor_and_the_check_agree_on_what_may_stand_behind_each_key(use: str, kind: str) -> None:
    sound = _sound(use, kind)
    row = SOURCE[kind] if use != "execute" else EXECUTOR[kind]
    odd = []
    for name in [key.name for key in row.keys if not key.uses or use in key.uses]:
        for value in ODD:
            whole = _whole(use, kind, {**sound, name: value})
            told = faults(json.dumps(whole))
            if _meets(whole) is bool(told):
                odd.append((name, value, told))
    assert _meets(_whole(use, kind, sound))
    assert faults(json.dumps(_whole(use, kind, sound))) == []
    assert [each for each in odd if not _beyond_a_schema(*each)] == []


def _beyond_a_schema(name: str, value: object, told: list[str]) -> bool:
    """What only somebody who knows the rest of the file can see."""
    return name == "server" and any("The file names no server" in each for each in told)


@pytest.mark.requirement("FILE-schema")
@pytest.mark.parametrize(
    "shape",
    [
        "string", "strng", True, False, None, 7, [], {}, {"type": "string"}, {"type": "strng"}, {"type": []},
        {"type": ["string", "null"]}, {"type": ["string", "nul"]}, {"type": None}, {"typ": "string"},
        {"type": "string", "minLength": 1}, {"type": "integer", "minLength": 1}, {"minLength": 1},
        {"type": "string", "pattern": "a"}, {"type": "string", "pattern": 7}, {"type": "number", "maximum": 1.5},
        {"type": "number", "maximum": "1"}, {"type": "array", "items": {"type": "string"}}, {"items": {}},
        {"type": "array", "items": []}, {"type": "array", "maxItems": 2, "uniqueItems": True}, {"enum": ["a", 1, None]},
        {"enum": []}, {"enum": [1.5]}, {"enum": "a"}, {"const": "a"}, {"const": [1]}, {"enum": ["a"], "minLength": 1},
        {"enum": ["a"], "type": "strng"}, {"anyOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": []},
        {"anyOf": [{"type": "string"}], "type": "string"}, {"oneOf": {"type": "string"}}, {"$ref": "/elsewhere"},
        {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
        {"type": "object", "properties": {"b": {"type": "strng"}}}, {"type": "object", "required": "b"},
        {"type": "object", "additionalProperties": {"type": "string"}}, {"type": "string", "properties": {}},
        {"type": "object", "additionalProperties": 1}, {"type": "string", "description": "a", "default": "b"},
        {"type": "object", "additionalProperties": False},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_an_editor_and_the_check_agree_on_what_an_argument_is(shape: object) -> None:
    for arguments in (
        {"a": "string", "b": shape},
        {"type": "object", "properties": {"a": {"type": "string"}, "b": shape}, "required": ["a"]},
    ):
        whole = _whole("execute", "tool", {})
        whole["contracts"]["one"]["arguments"] = arguments
        told = faults(json.dumps(whole))
        in_words = isinstance(shape, str) and "properties" in arguments
        assert _meets(whole) is (not told), told
        assert told or not in_words


UNDO: dict[str, Any] = {"kind": "set", "ensure": {"back": "authoritative == null"}, "execute": {"tool": {}}}


@pytest.mark.requirement("FILE-schema")
@pytest.mark.parametrize(
    ("reversal", "sound"),
    [
        (UNDO, True),
        ({**UNDO, "name": "undo"}, True),
        ({**UNDO, "name": "un do"}, False),
        ({**UNDO, "nam": "undo"}, False),
        ({"kind": "set"}, False),
        ({"contract": "one", "kind": "set"}, False),
        ({**UNDO, "readers": []}, False),
        ({}, False),
        (7, False),
    ],
)
def test_an_editor_and_the_check_agree_on_a_reversal_that_is_written_out(reversal: object, sound: bool) -> None:
    whole = _whole("execute", "tool", {})
    whole["contracts"]["one"]["compensate"] = reversal
    assert (_meets(whole), not faults(json.dumps(whole))) == (sound, sound)


BEYOND = re.compile(
    "Syntax error|Undeclared|The expression|no argument|no contract|no postcondition|looks? at `authoritative`"
    "|longer than|The template is empty|before the window|same operation|has faults|needs it|cannot be verified|readers"
)
"""What the check alone can say: it compiles, knows the other contracts, and adds up times."""


@pytest.mark.requirement("FILE-schema")
@pytest.mark.parametrize("key", [key for key in CONTRACT_KEYS if key not in ("execute", "find", "lookup", "arguments")])
def test_an_editor_and_the_check_agree_on_what_may_stand_behind_a_key_of_a_contract(key: str) -> None:
    odd = []
    for value in (*ODD, "10s", "0s", "1 0s", ["x", "x"], {"every": "1s"}, {"people": 3}, "a" * 300):
        whole = _whole("execute", "tool", {})
        whole["contracts"]["one"][key] = value
        told = faults(json.dumps(whole))
        if _meets(whole) is bool(told) and not (told and any(BEYOND.search(each) for each in told)):
            odd.append((value, told))
    assert odd == []


if __name__ == "__main__":
    path = Path(schemas.__file__).with_name(schemas.PUBLISHED)
    path.write_text(json.dumps(WHOLE, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
