"""A contract in a file is the contract that a decorator makes: the same data, the same hash, the same behaviour."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest

from readback import Context, Readback, Reading, action
from readback.client.files import ContractFiles, contract_files
from readback.contracts.files.build import CONTRACT_KEYS
from readback.contracts.files.vocabulary import OWN_KEYS
from readback.contracts.options import OPTION_KEYS
from readback.domain.contract.contract import describe
from readback.domain.outcome.outcome import Outcome
from readback.errors import ContractFileError, UsageError
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.contract_files.writing import Fake, Fakes, contract, loaded, written

EVERY_KEY = """
    version: "3"
    kind: adjust
    side_effect: medium_risk_write
    target: stock/{requested.sku}
    identity: {target: authoritative.sku, tenant: not_offered, actor: not_offered, stamp: authoritative.stamp, version: authoritative.version}
    require: {open: before.open == true}
    expected_version: requested.seen
    execute:
      http: {url: "http://127.0.0.1:1", method: POST, path: "/stock/{requested.sku}", json: {by: "{requested.by}"}}
      timeout: 7s
      honours_key: true
      reversible: true
    readers:
      - http: {url: "http://127.0.0.1:1", path: "/stock/{requested.sku}", stamp: /stamp}
        name: row
        source: stock
        consistency: strong
        independence: other_client
        timeout: 3s
        attributes: true
      - http: {url: "http://127.0.0.1:1", path: "/copy/{requested.sku}"}
        name: copy
        source: copies
    quorum: 1
    ensure:
      counted: authoritative.count == before.count + requested.by
      effects:
        booked: authoritative.booked == true
        told: authoritative.told == true
    fails_when: {closed: authoritative.open == false}
    intermediate: {counting: authoritative.told == false}
    may_change: [count, booked, told, stamp, version]
    on_unchanged: equivalent
    within: 20s
    polls: [0s, 1s, 2s]
    stable_for: 1s
    deadline: 40s
    late_window: 1m
    key_fields: [sku]
    key_kept: 3d
    key_valid_for: 12h
    principals: ["agent:ops"]
    scopes: [stock.write]
    redact: [requested.note]
    tell: [count]
    approval: {people: 2, expires: 1h, when: requested.by > 100}
    freeze: [tool]
    watch: {every: 1h, for: 6h, ensure: [counted]}
    mode: enforced
    find:
      http: {url: "http://127.0.0.1:1", path: "/effects", query: {stamp: "{scope.stamp}"}, items: /items}
    lookup:
      http: {url: "http://127.0.0.1:1", path: "/keys/{scope.idempotency_key}", landed: [done], failed: [failed]}
    rollback:
      http: {url: "http://127.0.0.1:1", method: DELETE, path: "/stock/{requested.sku}/last"}
    arguments:
      type: object
      properties:
        sku: {type: string}
        by: {type: integer}
        seen: {type: integer}
        note: {type: [string, "null"], default: null}
        mode: {enum: [fast, safe], default: safe}
      required: [sku, by, seen]
    operation: "adjust {requested.sku} {requested.seen}"
    description: Counts stock up or down.
    twin: {sku: sandbox}
    compensate: put_back
"""  # noqa: E501 - one line a key, as in a file
REVERSAL = """
    kind: set
    side_effect: low_risk_internal
    target: stock/{requested.sku}
    identity: {target: authoritative.sku, tenant: not_offered}
    execute: {command: {argv: [/bin/back, --, {value: "{requested.sku}", argument: data}]}}
    readers: [{file: {root: ., path: "{requested.sku}"}}]
    ensure: {back: authoritative != null}
    arguments:
      type: object
      properties:
        sku: {type: string}
        by: {type: integer}
        seen: {type: integer}
        note: {type: [string, "null"], default: null}
        mode: {enum: [fast, safe], default: safe}
      required: [sku, by, seen]
"""


def _by_decorator() -> Any:
    @action(
        name="put_back",
        kind="set",
        side_effect="low_risk_internal",
        target="stock/{requested.sku}",
        identity={"target": "authoritative.sku", "tenant": "not_offered"},
        ensure={"back": "authoritative != null"},
    )
    def put_back(
        ctx: Context, sku: str, by: int, seen: int, note: str | None = None, mode: Literal["fast", "safe"] = "safe"
    ) -> object:
        return None

    @put_back.read(source="file:.", consistency="strong", independence="other_client", name="file")
    def there(
        ctx: Context, sku: str, by: int, seen: int, note: str | None = None, mode: Literal["fast", "safe"] = "safe"
    ) -> Reading:
        return Reading.absent()

    options: Mapping[str, Any] = {
        "name": "adjust", "version": "3", "kind": "adjust", "side_effect": "medium_risk_write",
        "target": "stock/{requested.sku}",
        "identity": {
            "target": "authoritative.sku", "tenant": "not_offered", "actor": "not_offered",
            "stamp": "authoritative.stamp", "version": "authoritative.version",
        },
        "require": {"open": "before.open == true"}, "expected_version": "requested.seen",
        "execute": {"timeout": "7s", "honours_key": True, "reversible": True}, "quorum": 1,
        "ensure": {
            "counted": "authoritative.count == before.count + requested.by",
            "effects": {"booked": "authoritative.booked == true", "told": "authoritative.told == true"},
        },
        "fails_when": {"closed": "authoritative.open == false"},
        "intermediate": {"counting": "authoritative.told == false"},
        "may_change": ["count", "booked", "told", "stamp", "version"], "noop": "equivalent", "within": "20s",
        "polls": ["0s", "1s", "2s"], "stable_for": "1s", "deadline": "40s", "late_window": "1m",
        "key_fields": ["sku"], "key_kept": "3d", "key_valid_for": "12h", "principals": ["agent:ops"],
        "scopes": ["stock.write"], "redact": ["requested.note"], "tell": ["count"],
        "approval": {"people": 2, "expires": "1h", "when": "requested.by > 100"}, "freeze": ["tool"],
        "watch": {"every": "1h", "for": "6h", "ensure": ["counted"]}, "mode": "enforced",
    }  # fmt: skip

    def adjust(
        ctx: Context, sku: str, by: int, seen: int, note: str | None = None, mode: Literal["fast", "safe"] = "safe"
    ) -> object:
        return ctx.idempotency_key

    def look(
        ctx: Context, sku: str, by: int, seen: int, note: str | None = None, mode: Literal["fast", "safe"] = "safe"
    ) -> Any:
        return Reading.absent()

    made: Any = action(**options)(adjust)
    made.read(
        source="stock", consistency="strong", independence="other_client", timeout="3s", attributes=True, name="row"
    )(look)
    made.read(source="copies", consistency="session", independence="other_client", name="copy")(look)
    made.find(look)
    made.lookup(look)
    made.rollback(look)
    made.compensate(put_back)
    return made


@pytest.mark.requirement("FILE-same-contract")
def test_a_file_and_a_decorator_that_say_the_same_give_one_contract_with_one_hash() -> None:
    text = contract(EVERY_KEY, "adjust") + contract(REVERSAL, "put_back").partition("contracts:\n")[2]
    files = loaded(text).sound().contracts
    theirs = _by_decorator()
    ours = files["adjust"].plan
    assert describe(ours.contract) == describe(theirs.contract)
    assert ours.contract.hash == theirs.contract.hash
    assert ours.contract.body == theirs.contract.body
    assert files["adjust"].arguments.schema == theirs.arguments.schema
    assert [check.postcondition for check in ours.ensure] == [check.postcondition for check in theirs.plan.ensure]
    assert ours.compensation is not None
    assert describe(ours.compensation.contract) == describe(theirs.plan.compensation.contract)
    assert files["adjust"].operation_for({"sku": "a", "seen": 4}) == "adjust a 4"


@pytest.mark.requirement("FILE-same-contract")
def test_every_key_that_a_decorator_takes_is_said_in_that_file() -> None:
    lines = [line for line in EVERY_KEY.splitlines() if line.startswith("    ") and line[4] != " "]
    keys = {line.strip().partition(":")[0] for line in lines}
    # They exclude the others: no reader, another kind, a tool; the older name of a key; and tests of a contract.
    unsaid = {"unverifiable", "proves", "tool_sha256", "noop", "examples", "survivors"}
    assert keys == set(CONTRACT_KEYS) - unsaid
    assert set(CONTRACT_KEYS) == (set(OPTION_KEYS) - {"name"}) | set(OWN_KEYS)


STORED = """
    kind: set
    side_effect: ephemeral_write
    target: thing/{requested.name}
    arguments: {name: string, value: string}
    execute: {command: {argv: [/bin/put, --, {value: "{requested.name}", argument: data}]}}
    readers:
      - file: {root: ., path: "{requested.name}"}
    ensure:
      there: authoritative != null
      value: authoritative.value == requested.value
    within: 2s
"""
SAID: dict[str, tuple[Callable[[], Reading], str, str]] = {
    "as asked": (lambda: Reading.of({"value": "v"}), "verified", "reconciled_success"),
    "another value": (lambda: Reading.of({"value": "w"}), "refuted", ""),
    "absent": (Reading.absent, "refuted", ""),
    "unavailable": (lambda: Reading.unavailable("down"), "undetermined", ""),
    "not visible": (lambda: Reading.not_visible("hidden"), "undetermined", ""),
}


@pytest.mark.requirement("FILE-same-contract", "LIFE-observed-verified")
@pytest.mark.parametrize("word", SAID, ids=[name.replace(" ", "-") for name in SAID])
def test_what_a_reader_shows_comes_to_the_same_by_a_file_as_by_a_decorator(word: str) -> None:
    reading, verdict, state = SAID[word]
    fakes = Fakes()
    files = ContractFiles(loaded(contract(STORED), fakes=fakes).sound())
    for each in fakes.made:
        each.reading = reading

    @action(
        name="one", kind="set", side_effect="ephemeral_write", target="thing/{requested.name}", within="2s",
        ensure={"there": "authoritative != null", "value": "authoritative.value == requested.value"},
    )  # fmt: skip
    def one(ctx: Context, name: str, value: str) -> object:
        return {"ok": True}

    @one.read(source="file:.", consistency="strong", independence="other_client", name="file")
    def look(ctx: Context, name: str, value: str) -> Reading:
        return reading()

    by_file, by_decorator = _run(files["one"](name="n", value="v")), _run(one("n", "v"))
    assert by_file.verdict == by_decorator.verdict == verdict
    assert by_file.state == by_decorator.state
    assert not state or by_file.state == state
    assert by_file.message == by_decorator.message
    assert by_file.discrepancy == by_decorator.discrepancy
    assert _hash(files["one"].plan) == _hash(one.plan)


def _hash(plan: Any) -> str:
    return str(plan.contract.hash)


def _run(proposal: Any) -> Outcome:
    with Readback.open(
        "sqlite:///unused.db", tenant="t", principal="agent:ops", runtime=VirtualRuntime(), store=MemoryStore()
    ) as rb:
        return rb.run(proposal, operation="once")


INTERFACE = """\
apiVersion: readback/v1
kind: Contracts
metadata: {name: files, version: 1.0.0}
server:                                # optional: the MCP server these tools belong to
  command: [npx, -y, "@modelcontextprotocol/server-filesystem", ./work]
contracts:
  write_file:
    kind: set
    side_effect: ephemeral_write
    target: "file:{requested.path}"
    readers:
      - file: {root: ., path: "{requested.path}"}  # a built-in source; or tool:, sql:, http:, imap:, s3:, git:
        independence: other_client
    ensure:
      present: authoritative != null
      same bytes: authoritative.sha256 == sha256(requested.content)
    within: 2s
"""


@pytest.mark.requirement("FILE-server")
def test_the_tool_of_a_server_loads_with_its_schema_and_without_and_is_not_called_from_here(tmp_path: Path) -> None:
    path = written(tmp_path / "c.yaml", INTERFACE)
    schema = {
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path", "content"],
        "$schema": "http://json-schema.org/draft-07/schema#",
    }
    for tools in (None, {"write_file": schema}):
        one = contract_files(path, tools=tools)["write_file"]
        assert set(one.arguments.names) == {"path", "content"}
        assert one.contract.version == "1.0.0"
        assert one.written.arguments_known is (tools is not None)
        judged = one.evaluate(
            requested={"path": "a", "content": "x"},
            authoritative={"sha256": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"},
        )
        assert judged.verdict == "verified"
        with pytest.raises(UsageError, match="gateway in front of the server"):
            one(path="a", content="x")
    without = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    with pytest.raises(ContractFileError, match="has no argument 'content'"):
        contract_files(path, tools={"write_file": without})


@pytest.mark.requirement("FILE-same-contract")
def test_a_compensation_that_stands_inside_takes_what_its_action_says() -> None:
    inside = """
    compensate:
      kind: delete
      execute: {command: {argv: [/bin/rm, --, {value: "{requested.name}", argument: data}]}}
      ensure: {gone: authoritative == null}
"""
    text = contract(STORED + inside)
    found = loaded(text).sound().contracts
    assert set(found) == {"one", "one.reversal"}
    inner = found["one.reversal"]
    assert inner.plan.contract.target == found["one"].plan.contract.target
    assert inner.arguments.names == ("name", "value")
    assert found["one"].plan.compensation is inner.plan


@pytest.mark.requirement("FILE-strength")
def test_a_file_may_say_less_of_a_source_and_never_more() -> None:
    writes = "file: {root: ., do: write, path: '{requested.name}', content: x}"
    both = STORED.replace('command: {argv: [/bin/put, --, {value: "{requested.name}", argument: data}]}', writes)
    claim = "- file: {root: ., path: '{requested.name}'}\n        independence: "
    more = both.replace('- file: {root: ., path: "{requested.name}"}', claim + "other_system")
    told = loaded(contract(more)).faults[0][1].said
    assert "A file source of the system written to is at most other_client" in told
    less = both.replace('- file: {root: ., path: "{requested.name}"}', claim + "same_client")
    assert loaded(contract(less)).sound().contracts["one"].plan.contract.readers[0].independence == "same_client"


def test_what_a_fitting_is_given_is_rendered_from_the_call() -> None:
    fakes = Fakes()
    files = ContractFiles(loaded(contract(STORED), fakes=fakes).sound())
    _run(files["one"](name="n", value="v"))
    acts = [each for each in fakes.made if each.kind == "command"]
    assert acts[0].seen == [{"argv": ["/bin/put", "--", "n"]}]
    assert isinstance(acts[0], Fake)
