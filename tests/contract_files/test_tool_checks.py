"""Contracts against the tools that a server really has: every mismatch told, and hints that only make stricter."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readback.contracts.files.contract import FileContract
from readback.contracts.files.schemas.sample_values import made_up
from readback.contracts.files.tools.listing import DESTRUCTIVE_MIN, fingerprint, raised_class
from readback.contracts.files.tools.tool_schema import ToolArguments, left_to_server, unfit
from readback.domain.side_effect import SideEffect
from readback.errors import ContractFileError
from tests.contract_files.test_tools import NOTE, SERVED, TAKES, TOOLS
from tests.contract_files.writing import Fakes, loaded

READS = {
    "name": "read_note",
    "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    "outputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string"}, "rank": {"type": "integer"}, "by": {"$ref": "#/$defs/by"}},
        "$defs": {"by": {"type": "object", "properties": {"who": {"type": "string"}}}},
    },
}


def told(text: str = SERVED + NOTE, writes: dict[str, Any] | None = None, **tools: Any) -> list[str]:
    every = {**TOOLS, "read_note": READS, **tools}
    every["write_note"] = {**every["write_note"], **(writes or {})}
    found = loaded(text, fakes=Fakes(serves=True), tools=every)
    return [f"{f.place.line}:{f.place.column} {f.path}: {f.said}" for _, f in found.faults]


def made(text: str = SERVED + NOTE, **writes: Any) -> FileContract:
    every = {**TOOLS, "read_note": READS, "write_note": {**TOOLS["write_note"], **writes}}
    return loaded(text, fakes=Fakes(serves=True), tools=every).sound().contracts["write_note"]


# --- types ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("FILE-tool-types")
@pytest.mark.parametrize(
    ("old", "new", "where", "said"),
    [
        ("  write_note:", "  write_notes:", "execute", "no tool 'write_notes'. Did you mean 'write_note'"),
        ("name: read_note", "name: red_note", "readers", "no tool 'red_note'. Did you mean 'read_note'"),
        ('{name: "{requested.name}"}', '{nam: "{requested.name}"}', "readers", "takes no 'nam'. Did you mean 'name'"),
        ('{name: "{requested.name}"}', "{}", "readers", "The tool 'read_note' needs 'name'."),
        ('{name: "{requested.name}"}', "{name: 7}", "readers", "name: It takes string, and is given integer."),
        ('{name: "{requested.name}"}', '{name: "{requested.rank}"}', "readers", "name: It takes string"),
        ("note/{requested.name}", "note/{requested.nme}", "target", "'nme'"),
        ("== requested.text", "== requested.txt", "ensure", "no argument 'txt'. Did you mean 'text'"),
        ("authoritative.text ==", "authoritative.txt ==", "ensure", "'authoritative.txt' is not in"),
        ("authoritative.text ==", "authoritative.by.whom ==", "ensure", "'authoritative.by.whom' is not in"),
        ("authoritative.text ==", "authoritative.rank ==", "ensure", "a number is compared with a text"),
        ("== requested.text", "== requested.text || size(requested.rank) > 1", "ensure", "a number has no size"),
        ("    kind: set", "    kind: set\n    arguments: {name: string, txt: string}", "arguments", "takes no 'txt'"),
        ("    kind: set", "    kind: set\n    arguments: {name: string}", "arguments", "needs 'text'"),
    ],
)
def test_what_does_not_fit_the_servers_schemas_is_told_where_it_stands(
    old: str, new: str, where: str, said: str
) -> None:
    text = SERVED + NOTE
    assert told() == []
    assert old in text
    found = [each for each in told(text.replace(old, new)) if said in each]
    assert found, told(text.replace(old, new))
    place, _, rest = found[0].partition(" ")
    assert rest.startswith(f"contracts.write_note{'s' if 'notes' in new else ''}.{where}"), found
    line, column = map(int, place.split(":"))
    assert line > 5, found
    assert column > 1, found


@pytest.mark.requirement("FILE-tool-types")
def test_every_mismatch_is_told_at_once() -> None:
    wrong = NOTE.replace("name: read_note", "name: red_note").replace("authoritative.text ==", "authoritative.tx ==")
    wrong += "      sent: observed.structuredContent.idd == requested.rank\n".replace("      ", "")
    wrong = wrong.replace(
        "ensure: {same: authoritative.tx == requested.text}\nsent: observed",
        "ensure:\n      same: authoritative.text == requested.text\n      sent: observed",
    )
    gives = {"outputSchema": {"type": "object", "properties": {"id": {"type": "integer"}}}}
    found = told(SERVED + wrong, gives)
    assert len(found) == 2, found
    assert "red_note" in found[0]
    assert "'observed.structuredContent.idd' is not in the server's schema" in found[1]
    assert "Did you mean 'id'" in found[1]


@pytest.mark.requirement("FILE-tool-types")
def test_what_no_schema_tells_is_not_guessed_at() -> None:
    open_ = {**TAKES, "properties": {**TAKES["properties"], "rank": {}}, "additionalProperties": True}
    text = SERVED + NOTE.replace("== requested.text", "== requested.text && requested.rank == 'x'")
    assert told(text, {"inputSchema": open_}) == []
    free = {**READS, "outputSchema": {"type": "object"}}
    assert told(SERVED + NOTE.replace("authoritative.text ==", "authoritative.anything.x =="), read_note=free) == []


@pytest.mark.requirement("FILE-tool-types")
def test_a_tool_that_says_it_writes_reads_nothing() -> None:
    writing = {**READS, "annotations": {"readOnlyHint": False}}
    assert any("declares that it writes" in each for each in told(read_note=writing))
    assert told(read_note={**READS, "annotations": {"readOnlyHint": True}}) == []


@pytest.mark.requirement("FILE-tool-types")
def test_a_reversal_that_stands_inside_takes_the_arguments_of_its_action() -> None:
    inside = """    compensate:
      kind: delete
      execute: {tool: {name: drop, arguments: {name: "{requested.name}"}}}
      readers:
        - tool: {name: read_note, arguments: {name: "{requested.name}"}, absent: {error_matches: "No such note: *"}}
          consistency: strong
      ensure: {gone: authoritative == null}
"""
    drop = {"name": "drop", "inputSchema": {"properties": {"name": {"type": "string"}}, "required": ["name"]}}
    assert told(SERVED + NOTE + inside, drop=drop) == []
    wrong = inside.replace('drop, arguments: {name: "{requested.name}"}', 'drop, arguments: {name: "{requested.nam}"}')
    assert any("no argument 'nam'. Did you mean 'name'" in each for each in told(SERVED + NOTE + wrong, drop=drop))


# --- leniency ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("FILE-tool-lenient")
def test_keywords_that_nobody_checks_here_are_let_through_and_counted() -> None:
    takes = {
        **TAKES,
        "not": {"required": ["x"]},
        "properties": {**TAKES["properties"], "text": {"type": "string", "contentEncoding": "base64"}},
    }
    contract = made(inputSchema=takes)
    assert contract.arguments.bind((), {"name": "A", "text": "%", "x": 1}).requested == {
        "name": "A", "text": "%", "x": 1,
    }  # fmt: skip
    left = ["properties.name.pattern", "properties.text.contentEncoding", "not"]
    assert sorted(contract.left_to_server) == sorted(left)
    assert contract.as_json()["checked_by_the_server_alone"] == [*contract.left_to_server]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([0.5, 7.0]) | st.text("ab-é", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b-c", "é"]), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.requirement("FILE-tool-lenient")
@given(st.dictionaries(st.sampled_from(["name", "text", "x-y", "class", "__init__", ""]), JSON, max_size=4))
def test_arguments_without_a_schema_come_back_as_they_were(arguments: dict[str, Any]) -> None:
    schema = ToolArguments({})
    bound = schema.bind((), arguments)
    assert bound.requested == arguments
    assert repr(bound.arguments) == repr(arguments)
    assert repr(schema.revive(bound.requested)) == repr(arguments)


WORDS: dict[str, Any] = {
    "type": st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object", ["string", "null"]]),
    "enum": st.lists(JSON, min_size=1, max_size=3),
    "minimum": st.integers(-3, 3),
    "exclusiveMaximum": st.integers(-3, 3),
    "maxLength": st.integers(0, 3),
    "minItems": st.integers(0, 2),
    "required": st.lists(st.sampled_from(["a", "é"]), max_size=2, unique=True),
    "additionalProperties": st.booleans(),
    "pattern": st.just("^a"),
}
SCHEMAS = st.recursive(
    st.fixed_dictionaries({}, optional=WORDS),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            **WORDS,
            "properties": st.dictionaries(st.sampled_from(["a", "b-c"]), inner, max_size=2),
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
        },
    ),
    max_leaves=5,
)


@pytest.mark.requirement("FILE-tool-lenient")
@given(SCHEMAS, JSON)
def test_what_a_whole_validator_takes_is_never_refused_here(schema: dict[str, Any], value: Any) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    accepted = jsonschema.Draft202012Validator(schema).is_valid(value)
    if accepted:
        assert unfit(schema, value) == []
    elif not list(left_to_server(schema)) and "oneOf" not in repr(schema):
        assert unfit(schema, value)


@pytest.mark.parametrize("word", ["allOf", "anyOf", "oneOf"])
def test_a_schema_that_leads_to_itself_many_times_is_left_to_its_server_soon(word: str) -> None:
    """Its server made it; a gateway that went all its ways would answer nobody any more."""
    ways = {"type": "object", word: [{"$ref": "#"}, {"$ref": "#"}]}
    assert unfit(ways, {"a": 1}) == []
    assert unfit(ways, []) == [("", "It takes object, and is given array.")]
    wide = {"type": "object", "properties": {name: {"$ref": "#"} for name in "abcdefghij"}}
    assert set(made_up(wide)) == set("abcdefghij")


@pytest.mark.parametrize("required", [[{}], [["a"], "b"], {}, "a", None, 7])
def test_what_a_server_requires_in_no_known_form_is_left_to_it(required: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": required}
    faults = ["b"] if isinstance(required, list) and "b" in required else []
    assert [where for where, _ in unfit(schema, {})] == faults
    assert ToolArguments(schema).names == ("a",)


def test_a_schema_that_leads_round_in_circles_ends() -> None:
    circle: dict[str, Any] = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    assert unfit(circle, {"a": 1}) == []
    assert made_up(circle) == {}
    deep: dict[str, Any] = {"type": "object", "properties": {"a": {"$ref": "#"}}}
    assert unfit(deep, {"a": {"a": {"a": 1}}})


# --- hints ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("FILE-tool-hints")
def test_a_hint_raises_the_class_and_never_lowers_it() -> None:
    values = [None, True, False, "false", 0]
    names = ["readOnlyHint", "destructiveHint", "idempotentHint"]
    for _ in range(300):
        hints = {name: random.choice(values) for name in names}
        for side_effect in SideEffect:
            raised, by = raised_class(side_effect, hints)
            assert raised.rank >= side_effect.rank
            assert bool(by) is (raised is not side_effect)
    assert DESTRUCTIVE_MIN is SideEffect.EPHEMERAL_WRITE
    assert raised_class(SideEffect.READ_ONLY, {"readOnlyHint": False})[0] is SideEffect.EPHEMERAL_WRITE
    assert raised_class(SideEffect.READ_ONLY, {"destructiveHint": True})[0] is SideEffect.EPHEMERAL_WRITE
    assert raised_class(SideEffect.READ_ONLY, {"readOnlyHint": True, "destructiveHint": True})[1] == ""
    assert raised_class(SideEffect.CRITICAL_MUTATION, {"readOnlyHint": True})[0] is SideEffect.CRITICAL_MUTATION


@pytest.mark.requirement("FILE-tool-hints")
def test_a_contract_that_calls_a_writing_tool_a_reading_one_has_to_keep_what_writing_asks_for() -> None:
    reading = NOTE.replace("kind: set", "kind: read").replace("ephemeral_write", "read_only")
    reading = reading.replace("    ensure:", "    identity: {tenant: not_offered}\n    ensure:")
    assert made(SERVED + reading).plan.contract.side_effect is SideEffect.READ_ONLY
    found = told(SERVED + reading, {"annotations": {"readOnlyHint": False}})
    assert any("side_effect: The tool says of itself readOnlyHint: false" in each for each in found)


@pytest.mark.requirement("FILE-tool-hints")
def test_a_tool_that_acts_twice_is_not_trusted_with_a_key() -> None:
    text = SERVED + NOTE.replace("    kind: set", "    kind: set\n    execute: {honours_key: true}")
    for hints in ({}, {"annotations": {"idempotentHint": True}}):
        assert any("The call does not carry the idempotency key" in each for each in told(text, hints))
    dropped = made(text, annotations={"idempotentHint": False})
    assert (dropped.plan.contract.execution.honours_key, dropped.raised) == (False, "idempotentHint: false")


# --- definitions ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("FILE-tool-pin")
def test_a_definition_is_known_by_all_that_a_contract_relies_on() -> None:
    tool = {**READS, "description": "Shows a note.", "annotations": {"readOnlyHint": True}}
    known = fingerprint(tool)
    assert fingerprint(dict(reversed(tool.items()))) == known
    assert fingerprint({**tool, "_meta": {"x": 1}, "icons": [], "title": "T"}) == known
    for key in ("name", "description", "inputSchema", "outputSchema", "annotations"):
        assert fingerprint({**tool, key: {"other": 1}}) != known
        assert fingerprint({name: value for name, value in tool.items() if name != key}) != known


@pytest.mark.requirement("FILE-tool-pin")
def test_a_pin_is_a_hash_of_the_tool_that_the_contract_governs() -> None:
    pin = fingerprint(TOOLS["write_note"])
    pinned = NOTE.replace("    kind: set", f"    kind: set\n    tool_sha256: {pin}")
    assert made(SERVED + pinned).tool_sha256 == pin
    with pytest.raises(ContractFileError, match="64 hexadecimal digits"):
        made(SERVED + pinned.replace(pin, pin.upper() + "0"))
    other = pinned.replace("    kind: set", "    kind: set\n    arguments: {name: string, text: string}")
    other = other.replace(
        "    kind: set", "    kind: set\n    execute: {tool: {name: write_note, arguments: {name: x, text: y}}}"
    )
    assert any("the contract governs none" in each for each in told(SERVED + other))
