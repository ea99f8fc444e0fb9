"""Bad contract files: each fault has its line, its column, its keys and its reason, and all are told at once."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from readback.contracts.documents import yaml_nodes
from readback.contracts.files.build import CONTRACT_KEYS
from readback.contracts.files.document import FILE_MAX_BYTES
from readback.errors import ContractFileError
from tests.contract_files.writing import HEAD, contract, faults, loaded

SOUND = """
    kind: set
    side_effect: low_risk_internal
    target: order/{requested.order_id}
    identity: {target: authoritative.id, tenant: not_offered}
    arguments: {order_id: string, carrier: string}
    execute:
      command: {argv: [/bin/ship, --, {value: "{requested.order_id}", argument: data}]}
    readers:
      - sql: {database: x.db, query: "select * from orders where id = {requested.order_id}"}
    ensure:
      carrier: authoritative.carrier == requested.carrier
"""


def _with(old: str, new: str) -> str:
    assert SOUND.count(old) == 1, old
    return contract(SOUND.replace(old, new))


def test_the_contract_that_the_bad_ones_are_made_of_is_sound() -> None:
    assert faults(contract(SOUND)) == []


CASES = tomllib.loads((Path(__file__).parent / "bad.toml").read_text(encoding="utf-8"))["case"]


@pytest.mark.requirement("FILE-every-fault")
@pytest.mark.parametrize("case", CASES, ids=[case["name"].replace(" ", "-") for case in CASES])
def test_a_bad_contract_is_refused_where_it_is_wrong(case: dict[str, str]) -> None:
    text = _with(case["old"], case["new"])
    found = faults(text)
    assert any(case["said"] in fault for fault in found), found
    assert all(int(fault.partition(":")[0]) >= 4 for fault in found), found
    with pytest.raises(ContractFileError) as refused:
        loaded(text).sound()
    assert refused.value.code == "contract.file"
    assert refused.value.exit_code == 5


TOP = HEAD.encode()
NO_DOCUMENTS = {
    "empty": (
        b"",
        "1:1 : The file is empty.",
    ),
    "binary": (
        b"\x00\x01\x02",
        "1:1 : The file has a character forbidden in YAML.",
    ),
    "not UTF-8": (
        b"apiVersion: \xff",
        "1:13 : The text is not UTF-8.",
    ),
    "not YAML": (
        b"a: [",
        "The file is not valid YAML: expected the node content, but found '<stream end>'.",
    ),
    "an anchor": (
        b"a: &x 1\n",
        "1:4 : Anchors and aliases are not allowed. Write the value out.",
    ),
    "an alias": (
        b"a: *x\n",
        "1:4 : Anchors and aliases are not allowed. Write the value out.",
    ),
    "a tag": (
        b"a: !!python/object/apply:os.system [ls]\n",
        "1:4 : Tags are not allowed: tag:yaml.org,2002:python/object/apply:os.system",
    ),
    "a duplicate key": (
        TOP + b"kind: Contracts\ncontracts: {}\n",
        "3:1 kind: The key 'kind' is given twice, first on line 2.",
    ),
    "a list": (
        b"- a\n",
        "1:1 : A contract file must be a mapping of apiVersion, kind, metadata, server, servers, overrides, contracts.",
    ),
    "a text": (
        b"hello\n",
        "1:1 : A contract file must be a mapping of apiVersion, kind, metadata, server, servers, overrides, contracts.",
    ),
    "another version": (
        b"apiVersion: readback/v2\nkind: Contracts\ncontracts: {}\n",
        "1:13 apiVersion: Must be 'readback/v1' (got 'readback/v2').",
    ),
    "another kind": (
        b"apiVersion: readback/v1\nkind: Contract\n",
        "2:7 kind: Must be 'Contracts' (got 'Contract').",
    ),
    "no contracts": (
        TOP + b"",
        "1:1 contracts: The file has no contracts. Add them under `contracts`, by name.",
    ),
    "an unknown key": (
        TOP + b"contract: {}\n",
        "3:1 contract: A contract file has no such key. Did you mean 'contracts'?",
    ),
    "a merge key": (
        TOP + b"contracts: {one: {<<: {kind: set}}}\n",
        "contracts.one.<<: A contract has no such key.",
    ),
    "a name that is none": (
        TOP + b"contracts: {'a b': {}}\n",
        "3:13 contracts: 'a b' is not a valid name. Use letters, digits, '_', '.' and '-', and no digit first.",
    ),
    "a document after another": (
        b"a: 1\n---\nb: 2\n",
        "The file is not valid YAML: but found another document.",
    ),
    "too deep": (
        b"a: " + b"[" * 40 + b"]" * 40,
        "The file is nested more than 16 levels deep.",
    ),
    "too large": (
        b"#" * (FILE_MAX_BYTES + 1),
        "1:1 : The file exceeds 1048576 bytes.",
    ),
    "a server that is none": (
        TOP + b"server: {}\ncontracts: {}\n",
        "3:9 server: A server needs `command` (a list of a program and its arguments) or `url`.",
    ),
    "a server with a credential": (
        TOP + b"server: {command: [x], env: {API_KEY: k}}\ncontracts: {}\n",
        "server.env.API_KEY: API_KEY looks like a credential",
    ),
    "a number for a version": (
        TOP + b"metadata: {version: 1.0}\ncontracts: {}\n",
        "3:21 metadata.version: Must be text on one line.",
    ),
    "half a character": (
        TOP + b'contracts: {one: {description: "\\ud800"}}\n',
        "3:32 : The text has half a character (a surrogate). Write the whole character.",
    ),
    "no character": (
        TOP + b'contracts: {one: {description: "\\U00110000"}}\n',
        "3:35 : The file is not valid YAML: chr() arg not in range(0x110000).",
    ),
    "a key behind a line break that is not shown": (
        TOP + "# All of it needs an approval.\u2028contracts: {}\n".encode(),
        "3:31 : There is a character that breaks a line or turns its order",
    ),
    "a line that is shown in another order": (
        TOP + "contracts: {}  # \u202e}gnihtyna{\n".encode(),
        'editors do not show; write it as "\\u202e".',
    ),
    "a number too large": (
        TOP + b"contracts: {one: {quorum: 99999999999999999}}\n",
        "99999999999999999 is too large for an exact number.",
    ),
}


@pytest.mark.requirement("FILE-every-fault")
@pytest.mark.parametrize(
    ("content", "said"), NO_DOCUMENTS.values(), ids=[name.replace(" ", "-") for name in NO_DOCUMENTS]
)
def test_what_is_no_contract_file_is_refused_where_it_is_wrong(content: bytes, said: str) -> None:
    found = faults(content)
    assert any(said in fault for fault in found), found


@pytest.mark.requirement("FILE-every-fault")
def test_a_file_of_too_many_values_is_refused_where_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_nodes, "NODES_MAX", 5)
    assert faults(b"a: [1, 2, 3, 4]") == ["1:11 : The file has more than 5 values."]


@pytest.mark.requirement("FILE-every-fault")
def test_every_fault_of_every_contract_of_every_file_is_told_at_once_in_the_order_of_the_files() -> None:
    bad = contract(SOUND.replace("kind: set", "kind: sett").replace("== requested.carrier", "=="), "a")
    worse = contract(SOUND.replace("x.db, query", "x.db, qery").replace("kind: set", "kind: set\n    within: 5"), "b")
    found = loaded(bad, worse).faults
    files = [file for file, _ in found]
    assert files == sorted(files)
    assert set(files) == {"0.yaml", "1.yaml"}
    for file in set(files):
        places = [fault.place for name, fault in found if name == file]
        assert places == sorted(places)
        assert len(places) >= 2


@pytest.mark.requirement("FILE-every-fault", "FILE-merge")
def test_what_is_wrong_with_a_contract_whose_name_is_taken_is_told_with_that() -> None:
    reversed_by = "\n    compensate: {kind: set, ensure: {back: authoritative != null}}"
    bad = contract(SOUND.replace("kind: set", f"kind: sett{reversed_by}").replace("order_id}}", "orderid}}"))
    told = [fault.path for file, fault in loaded(contract(SOUND), bad).faults if file == "1.yaml"]
    assert told[0] == "contracts.one"
    assert "contracts.one.kind" in told
    assert loaded(contract(SOUND), "contracts: {one: 1}\n").faults


@pytest.mark.requirement("FILE-merge")
def test_two_contracts_of_one_name_are_a_fault_unless_the_later_file_says_that_it_overrides() -> None:
    first, second = contract(SOUND), contract(SOUND.replace("kind: set", "kind: set\n    within: 9s"))
    assert "A contract of this name is in 0.yaml:4" in loaded(first, second).faults[0][1].said
    over = second.replace("contracts:", "overrides: [one]\ncontracts:")
    merged = loaded(first, over).sound()
    assert merged.contracts["one"].plan.contract.within_us == 9_000_000
    assert merged.contracts["one"].home.file == "1.yaml"


@pytest.mark.requirement("FILE-merge")
def test_an_override_of_what_is_not_there_is_a_fault() -> None:
    lone = contract(SOUND).replace("contracts:", "overrides: [one]\ncontracts:")
    assert "No earlier file has a contract 'one'" in faults(lone)[0]
    two = contract(SOUND, "two").replace("contracts:", "overrides: [one]\ncontracts:")
    assert "This file has no contract 'one' as the replacement." in faults(contract(SOUND), two)[0]


_BITS = st.sampled_from(
    [
        "apiVersion: readback/v1",
        "kind: Contracts",
        "contracts:",
        "  one:",
        "    kind: set",
        "    target: '{requested.x}'",
        "    ensure: {a: authoritative == null}",
        "    readers:",
        "      - sql: {query: '{'}",
        "      - file:",
        "    execute: {http: {}}",
        "    arguments: {x: string}",
        "    compensate: one",
        "    compensate: {kind: set}",
        "    find: []",
        "    lookup: {}",
        "  - a",
        "x: [",
        "'",
        "    rollback: {command: {argv: []}}",
        "    approval: {people: 3}",
        "    watch: {}",
        "    twin: 1",
        "    operation: '{requested.x'",
        "    identity: []",
        "    side_effect: critical_mutation",
        "server: []",
        "metadata: 1",
        "overrides: {}",
        "\t",
        "# x",
        "    arguments: {$ref: '#/a'}",
    ]
)


@pytest.mark.requirement("FILE-parser-total")
@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.binary(max_size=400), st.lists(_BITS, max_size=14).map(lambda lines: "\n".join(lines).encode())))
def test_whatever_the_bytes_are_there_are_contracts_or_faults_with_their_places(content: bytes) -> None:
    found = loaded(content)
    assert bool(found.contracts) or bool(found.faults)
    lines = content.count(b"\n") + content.count(b"\r") + 2
    for _, fault in found.faults:
        assert 1 <= fault.place.line <= lines
        assert fault.place.column >= 1
        assert fault.said


_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=6,
)


@pytest.mark.requirement("FILE-parser-total")
@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_whatever_value_stands_behind_a_key_it_is_taken_or_told(data: st.DataObject) -> None:
    body: dict[str, object] = {
        "kind": "set", "side_effect": "ephemeral_write", "target": "x/{requested.a}", "arguments": {"a": "string"},
        "execute": {"command": {"argv": ["x"]}}, "readers": [{"file": {"root": ".", "path": "{requested.a}"}}],
        "ensure": {"there": "authoritative != null"},
    }  # fmt: skip
    body[data.draw(st.sampled_from(CONTRACT_KEYS))] = data.draw(_VALUES)
    text = json.dumps({"apiVersion": "readback/v1", "kind": "Contracts", "contracts": {"one": body}})
    found = loaded(text)
    assert set(found.contracts) >= {"one"} or found.faults


@pytest.mark.requirement("FILE-same-contract")
@pytest.mark.parametrize("url", ["postgresql:///shop", "postgres:///shop?host=/var/run/postgresql"])
def test_a_database_behind_a_socket_of_this_machine_has_an_address_without_a_host(url: str) -> None:
    assert faults(_with("database: x.db", f"url: '{url}'")) == []
    assert "Not an address" in faults(_with("database: x.db", f"url: '{url.replace('///', ':')}'"))[0]


@pytest.mark.requirement("FILE-every-fault")
@pytest.mark.parametrize(
    ("written", "at"),
    [
        ("authoritative.a == 1 && requested.orderid == 'x'", "requested.orderid"),
        ("'authoritative.a == 1 && requested[\"orderid\"] == 2'", "requested["),
        ("\"authoritative.a == '\u00e9' && nobody.b == 2\"", "nobody.b"),
        ("authoritative.a == '\U0001f600' && nothing(1)", "nothing("),
        ("'authoritative.a = 1'", "= 1"),
        ("'authoritative.a == ''x'' && requested.orderid == 1'", "'authoritative"),
    ],
)
def test_a_fault_of_an_expression_is_told_in_the_column_where_its_name_or_sign_begins(written: str, at: str) -> None:
    text = _with("carrier: authoritative.carrier == requested.carrier", f"carrier: {written}")
    line, _, column = faults(text)[0].partition(" ")[0].partition(":")
    assert text.splitlines()[int(line) - 1][int(column) - 1 :].startswith(at)


@pytest.mark.requirement("FILE-every-fault", "FILE-template")
@pytest.mark.parametrize("written", ['"--{requested.orderid}"', "'--{requested.orderid}'"])
def test_a_fault_of_a_quoted_template_is_told_in_its_column(written: str) -> None:
    text = _with('{value: "{requested.order_id}", argument: data}', written)
    line, _, column = faults(text)[0].partition(" ")[0].partition(":")
    assert text.splitlines()[int(line) - 1][int(column) - 1 :].startswith("requested.orderid")
