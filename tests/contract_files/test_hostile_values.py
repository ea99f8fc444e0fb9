"""Hostile values in templates: each stays a value, wherever it is put; or nothing is reached."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readback import Readback, bootstrap
from readback.client.files import ContractFiles, contract_files
from readback.contracts.files.contract import values_of
from readback.contracts.files.templates.template import Values, compile_fill
from readback.domain.outcome.outcome import Outcome
from readback.domain.verification.reading import Presence
from readback.errors import ArgumentError, ExpressionError, ReaderFailedError, TemplateError, ToolError
from readback.ports.system_factory import TemplateParts
from readback.systems.configured.factory import BuiltInSystems
from readback.testing.runtime_virtual import VirtualRuntime
from readback.testing.store_memory import MemoryStore
from tests.adapters.web import Said, serving
from tests.contract_files.writing import Fakes, context, contract, loaded, written

ENGINE = bootstrap.predicate_engine()
STEPS = ["../../etc/passwd", "..", "."]
HOSTILE = [
    "'; drop table orders; --", '" or ""="', "x' or '1'='1", "?", "%s", "{requested.other}", "{{}}", *STEPS,
    "a/b?c=d#e", "a b", "\u202e", "${HOME}", "$(touch pwned)", "`touch pwned`", "a;touch pwned", "--force",
    "-rf", "%2e%2e",
    ".hidden", "a..b", "...", "caf\u00e9", "\\", "'", '"', "@{x}", "~root", "*", "|cat", "a&b=c", "\u00a0",
]  # fmt: skip


def _values(**requested: object) -> Values:
    return values_of(ENGINE, context(), requested)


@pytest.mark.requirement("FILE-template")
@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{requested.a}", "x"),
        ("order-{requested.n}!", "order-7!"),
        ("{requested.a == 'x' ? 'yes' : 'no'}", "yes"),
        ("{ {'k': requested.a}.k }", "x"),
        ("{requested['a']}", "x"),
        ("{{literal}} {requested.a}", "{literal} x"),
        ("{sha256(requested.a)}", "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"),
        ("{requested.a.startsWith('}') ? '}' : '{'}", "{"),
        ("{scope.stamp}/{scope.tenant}", "stamp-1/acme"),
        ("", ""),
    ],
)
def test_a_template_holds_expressions(template: str, text: str) -> None:
    assert compile_fill(template, ENGINE, ["a", "n"]).text(_values(a="x", n=7)) == text


@pytest.mark.requirement("FILE-template")
@pytest.mark.parametrize(
    "template",
    [
        "{", "}", "{}", "{ }", "{requested.a", "{authoritative.a}", "{intended.a}", "{os.environ}", "{requested.b}",
        "{requested.a + }", "{__import__('os')}", "{open('x')}", "{requested.a!r}", "{requested.a:>10}", "{0}}",
    ],
)  # fmt: skip
def test_what_is_no_expression_over_the_call_is_refused_at_load(template: str) -> None:
    with pytest.raises((TemplateError, ExpressionError)):
        compile_fill(template, ENGINE, ["a"])


@pytest.mark.requirement("FILE-template")
@pytest.mark.parametrize("value", [None, 1.5, [], {}, {"a": 1}])
def test_a_value_without_a_text_is_not_put_into_one(value: object) -> None:
    with pytest.raises(TemplateError):
        compile_fill("x{requested.a}", ENGINE, ["a"]).text(_values(a=value))


@pytest.mark.requirement("FILE-template")
@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.text(max_size=60))
def test_any_text_is_a_template_or_a_typed_error_and_a_value_is_never_evaluated(text: str) -> None:
    with suppress(TemplateError, ExpressionError):
        compile_fill(text, ENGINE, ["a"])
    assert compile_fill("<{requested.a}>", ENGINE, ["a"]).text(_values(a=text)) == f"<{text}>"


@pytest.mark.requirement("FILE-template")
def test_a_number_of_a_file_is_the_text_that_was_written_where_a_text_stands() -> None:
    fakes = Fakes()
    argv = "argv: [release, 1.10, 1.0, 0.50, 7, -0, 1e3, 0x10, 007, no, {value: '{requested.id}', argument: data}]"
    made = (
        loaded(contract(WRITTEN.replace("argv: [release]", argv.replace("[release", "[/bin/release"))), fakes=fakes)
        .sound()
        .contracts["one"]
    )
    made.plan.hands.execute.call(context(), {"id": "a"})
    [seen] = [seen for each in fakes.made for seen in each.seen]
    assert seen["argv"] == ["/bin/release", "1.10", "1.0", "0.50", "7", "-0", "1e3", "0x10", "007", "no", "a"]


WRITTEN = """
    kind: set
    side_effect: low_risk_internal
    target: order/x
    identity: {target: authoritative.id, tenant: not_offered}
    arguments: {id: string}
    operation: "{requested.id}"
    execute:
      command: {argv: [release], cwd: work}
    readers:
      - sql: {database: shop.db, query: "select * from orders where id = {requested.id}"}
    ensure: {there: authoritative.id == requested.id}
"""


@pytest.mark.requirement("FILE-template")
@pytest.mark.parametrize("value", ["", " ", "\n"])
def test_an_operation_that_comes_to_nothing_is_none_and_nothing_is_proposed(value: str, tmp_path: Path) -> None:
    """Without one, each repetition of the same call would be an operation of its own, and executed."""
    action = contract_files(written(tmp_path / "c.yaml", contract(WRITTEN)))["one"]
    with pytest.raises(ArgumentError, match="has no value here"):
        action(id=value)


ORDERS = """
    kind: set
    side_effect: low_risk_internal
    target: order/x
    identity: {target: "authoritative.id == requested.id", tenant: not_offered}
    arguments: {id: string, note: string}
    execute:
      sql: {database: shop.db, statement: "update orders set note = {requested.note} where id = {requested.id}"}
    readers:
      - sql: {database: shop.db, query: "select * from orders where id = {requested.id} and '?%s' <> ''"}
    ensure: {noted: authoritative.note == requested.note}
    within: 1s
"""


def _run(actions: Any, name: str, **arguments: object) -> Outcome:
    with Readback.open(
        "sqlite:///unused.db", tenant="t", principal="agent:ops", runtime=VirtualRuntime(), store=MemoryStore()
    ) as rb:
        return rb.run(actions[name](**arguments), operation="once")


@pytest.mark.requirement("FILE-values-apart")
@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_is_bound_into_sql_and_never_a_part_of_it(value: str, tmp_path: Path) -> None:
    shop = sqlite3.connect(tmp_path / "shop.db")
    shop.execute("create table orders (id text primary key, note text)")
    shop.execute("insert into orders values (?, 'old'), ('other', 'old')", [value])
    shop.commit()
    actions = contract_files(written(tmp_path / "c.yaml", contract(ORDERS)))
    outcome = _run(actions, "one", id=value, note=value)
    rows = dict(shop.execute("select id, note from orders"))
    shop.close()
    assert outcome.verified, outcome
    assert rows == {value: value, "other": "old"}


FILES = """
    kind: set
    side_effect: ephemeral_write
    target: "file"
    arguments: {path: string, content: string}
    execute:
      file: {root: box, do: write, path: "{requested.path}", content: "{requested.content}", parents: true}
    readers:
      - file: {root: box, path: "{requested.path}"}
    ensure: {same: authoritative.sha256 == sha256(requested.content)}
    within: 1s
"""


@pytest.mark.requirement("FILE-values-apart", "INPUT-sandbox-escape")
@pytest.mark.parametrize(
    "path", ["../out.txt", "/etc/out.txt", "a/../../out.txt", "link/out.txt", "..", ".", "a\0b", "", "./../out.txt"]
)
def test_a_path_never_leaves_its_root(path: str, tmp_path: Path) -> None:
    (tmp_path / "box").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "box" / "link").symlink_to(tmp_path / "elsewhere")
    actions = contract_files(written(tmp_path / "c.yaml", contract(FILES)))
    outcome = _run(actions, "one", path=path, content="x")
    assert (outcome.verified, outcome.state) == (False, "failed"), "nothing was done, and no person has to look"
    assert not list(tmp_path.glob("*.txt"))
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.requirement("FILE-values-apart")
def test_an_absolute_path_below_the_root_is_the_path_below_it(tmp_path: Path) -> None:
    (tmp_path / "box").mkdir()
    actions = contract_files(written(tmp_path / "c.yaml", contract(FILES)))
    assert _run(actions, "one", path=str(tmp_path / "box" / "a" / "b.txt"), content="x").verified
    assert (tmp_path / "box" / "a" / "b.txt").read_text() == "x"


COMMAND = """
    kind: set
    side_effect: ephemeral_write
    target: "x"
    arguments: {value: string}
    execute:
      command: {argv: [PYTHON, -c, "import sys,json;open('seen.json','w').write(json.dumps(sys.argv[1:]))", --, {value: "{requested.value}", argument: data}], cwd: work}
    readers:
      - command:
          argv: [python3, -c, "print(open('work/seen.json').read().join(['{{\\"argv\\":','}}']))"]
        consistency: strong
    ensure: {whole: "size(authoritative.argv) == 2 && authoritative.argv[1] == requested.value"}
    within: 1s
"""  # noqa: E501 - programs on one line


@pytest.mark.requirement("FILE-values-apart")
@pytest.mark.parametrize("value", ["$(touch pwned)", "a;touch pwned", "--force", "a b", "'", ""])
def test_a_value_is_one_element_of_a_command_line(value: str, tmp_path: Path) -> None:
    actions = contract_files(written(tmp_path / "c.yaml", contract(COMMAND.replace("PYTHON", sys.executable))))
    (tmp_path / "work").mkdir()
    outcome = _run(actions, "one", value=value)
    assert outcome.verified, outcome
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.requirement("FILE-values-apart")
@pytest.mark.parametrize("value", ["-rf", "--force", "a\0b"])
def test_a_value_does_not_become_an_option_and_holds_no_nul(value: str) -> None:
    text = COMMAND.replace("--, ", "").replace("PYTHON", "/bin/tool")
    fakes = Fakes()
    outcome = _run(ContractFiles(loaded(contract(text), fakes=fakes).sound()), "one", value=value)
    assert not outcome.verified
    assert next(each.seen for each in fakes.made if each.kind == "command") == []


HTTP = """
    kind: set
    side_effect: low_risk_internal
    target: "x"
    identity: {target: "authoritative.id == requested.id", tenant: not_offered}
    arguments: {id: string, note: string}
    execute:
      http:
        url: "URL"
        method: PUT
        path: "/orders/o-{requested.id}/note"
        query: {note: "{requested.note}"}
        json: {note: "{requested.note}", twice: ["{requested.note}"], deep: {n: 3}}
    readers:
      - http: {url: "URL", path: "/orders/o-{requested.id}"}
        consistency: strong
    ensure: {noted: authoritative.note == requested.note}
    within: 1s
"""


@pytest.mark.requirement("FILE-values-apart")
@pytest.mark.parametrize("value", [each for each in HOSTILE if each not in STEPS])
def test_a_value_is_a_part_of_one_segment_of_an_address(value: str, tmp_path: Path) -> None:
    with serving() as service:
        where = f"/orders/o-{quote(value, safe='')}"
        service.answers[where] = Said(body={"id": value, "note": value})
        actions = contract_files(written(tmp_path / "c.yaml", contract(HTTP.replace("URL", service.url))))
        _run(actions, "one", id=value, note=value)
        paths = {urlsplit(each.path).path for each in service.asked}
        sent = next(each for each in service.asked if each.method == "PUT")
    assert paths <= {where, f"{where}/note"}
    assert parse_qs(urlsplit(sent.path).query) == {"note": [value]}
    assert json.loads(sent.body) == {"note": value, "twice": [value], "deep": {"n": 3}}


@pytest.mark.requirement("FILE-values-apart")
def test_a_header_that_cannot_be_said_is_told_before_anything_is_sent() -> None:
    text = HTTP.replace("method: PUT", "method: PUT\n        headers: {X-Note: '{requested.note}'}")
    fakes = Fakes()
    outcome = _run(ContractFiles(loaded(contract(text.replace("URL", "http://h")), fakes=fakes).sound()), "one",
                   id="1", note="caf\u00e9")  # fmt: skip
    assert all(each.seen == [] for each in fakes.made[:1])
    assert (outcome.verified, str(outcome.state)) == (False, "failed")


@pytest.mark.requirement("FILE-values-apart", "INPUT-header-injection")
@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0", "\x7f", "a\u2028b"])
def test_a_header_takes_no_line_break(value: str) -> None:
    text = HTTP.replace("method: PUT", "method: PUT\n        headers: {X-Note: '{requested.note}'}").replace(
        "URL", "http://h"
    )
    fakes = Fakes()
    outcome = _run(ContractFiles(loaded(contract(text), fakes=fakes).sound()), "one", id="1", note=value)
    assert not outcome.verified
    assert all(each.seen == [] for each in fakes.made[:1])
    assert outcome.attempts <= 1


@pytest.mark.requirement("FILE-values-apart")
@pytest.mark.parametrize("value", ["", *STEPS, "a/..", "a/../../b", "..\\b", "./a", "a\\.\\b"])
def test_an_address_whose_value_names_another_resource_is_not_asked(value: str) -> None:
    text = HTTP.replace("/orders/o-{requested.id}/note", "/orders/{requested.id}").replace("URL", "http://h")
    fakes = Fakes()
    _run(ContractFiles(loaded(contract(text), fakes=fakes).sound()), "one", id=value, note="x")
    assert fakes.made[0].seen == []


ENDLESS = "with recursive r(n) as (select 1 union all select n + 1 from r) select max(n) as n from r"


@pytest.mark.requirement("FILE-bounded")
def test_a_query_that_never_ends_is_given_up(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "a.db").close()
    source = BuiltInSystems().source("sql", "db", {"database": "a.db"}, str(tmp_path), 100_000)
    found = source.read(context(), {"query": TemplateParts((ENDLESS,), ())})
    assert (found.presence, "interrupted" in found.detail) == (Presence.UNAVAILABLE, True)
    assert source.read(context(), {"query": TemplateParts(("select 1 as n",), ())}).value == {"n": 1}
    with pytest.raises(ReaderFailedError, match="interrupted"):
        source.find(context(), {"query": TemplateParts((ENDLESS,), ())})


@pytest.mark.requirement("FILE-bounded")
def test_a_statement_that_never_ends_is_given_up_and_leaves_nothing(tmp_path: Path) -> None:
    book = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    book.execute("create table t (n integer)")
    acts = BuiltInSystems().executor("sql", "db", {"database": "a.db"}, str(tmp_path), 100_000)
    endless = f"insert into t select n from ({ENDLESS.replace('max(n) as n', 'n')})"
    with pytest.raises(ToolError, match="interrupted"):
        acts.execute(context(), {"statement": TemplateParts((endless,), ())})
    assert book.execute("select count(*) from t").fetchone() == (0,)
    book.close()
