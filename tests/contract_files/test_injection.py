"""Values that try to reach outside of where they stand: each through a real file system, service, program or tool."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from readback import bootstrap
from readback.canon import ReadbackError
from readback.client.files import contract_files
from readback.contracts.files.contract import values_of
from readback.contracts.files.templates.template import compile_fill
from readback.contracts.files.tools.not_found_rules import Absence, error_text
from readback.domain.verification.reading import Presence
from readback.errors import TemplateError
from readback.systems.configured.factory import BuiltInSystems
from tests.adapters.web import Said, serving
from tests.contract_files.test_hostile_values import HOSTILE, HTTP, _run
from tests.contract_files.test_tools import SERVED
from tests.contract_files.writing import Fakes, context, contract, faults, loaded, written

ENGINE = bootstrap.predicate_engine()
STEPS = st.sampled_from(["..", ".", "", "a", "link", "out", "~", "-x", "\0", "a\n", "\udc80", "…", "box", "/", "\\.."])
PATHS = st.builds(lambda root, steps: root + "/".join(steps), st.sampled_from(["", "/", "//", "./"]), st.lists(STEPS))


# --- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("FILE-values-apart", "INPUT-sandbox-escape")
@settings(max_examples=150, deadline=None)
@given(PATHS, st.sampled_from(["write", "append", "delete", "move"]))
@example("link/kept", "delete")
@example("../out/kept", "move")
def test_no_path_is_written_moved_deleted_or_read_outside_of_its_root(path: str, do: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        box, out = Path(folder, "box"), Path(folder, "out")
        box.mkdir()
        out.mkdir()
        (out / "kept").write_text("kept")
        (box / "a").write_text("inside")
        (box / "link").symlink_to(out)
        fittings = BuiltInSystems()
        fixed = {"root": "box", "do": do, "parents": True, "overwrite": True, "show": "text"}
        acts = fittings.executor("file", "f", fixed, folder, 1_000_000)
        with suppress(ReadbackError, OSError, ValueError):
            acts.execute(context(), {"path": path, "content": "planted", "to": "moved"})
        with suppress(ReadbackError, OSError, ValueError):
            acts.execute(context(), {"path": "a", "content": "planted", "to": path})
        with suppress(ReadbackError, OSError, ValueError):
            found = fittings.source("file", "f", fixed, folder, 1_000_000).read(context(), {"path": path})
            assert "kept" not in json.dumps(found.value)
        assert {each.name: each.read_text() for each in out.iterdir()} == {"kept": "kept"}
        assert {each.name for each in Path(folder).iterdir()} == {"box", "out"}


# --- commands ------------------------------------------------------------------------------------------------------


PROGRAM = """
    kind: set
    side_effect: ephemeral_write
    target: x
    arguments: {v: string}
    execute: {command: {argv: ARGV}}
    readers: [{file: {root: ., path: x}}]
    ensure: {there: authoritative != null}
    """
DATA = '{value: "{requested.v}", argument: data}'


def faults_of(argv: str) -> list[str]:
    """The faults of a contract whose executor, and then whose reader, runs this."""
    acts = PROGRAM.replace("ARGV", argv)
    reads = acts.replace("{file: {root: ., path: x}}", f"{{command: {{argv: {argv}}}, consistency: strong}}").replace(
        argv, '["true"]', 1
    )
    found, others = faults(contract(acts)), faults(contract(reads))
    assert len(found) == len(others), (found, others)
    return found


@pytest.mark.requirement("FILE-values-apart")
@pytest.mark.parametrize(
    "argv",
    [
        '[sh, -c, "{v}"]', '[/bin/bash, -c, --, "{v}"]', '[/bin/sh, -c, "echo {v}"]', '[/usr/bin/awk, "{v}"]',
        '[/bin/sed, -n, "/{v}/p", f.txt]', '[/usr/bin/script, -qc, "{v}", /dev/null]', '[/usr/bin/flock, l, -c, "{v}"]',
        '[/usr/bin/python3, -m, timeit, -n1, "{v}"]', '[/usr/bin/git, -c, "alias.x=!{v}", x]',
        '[/usr/bin/perl, "-M{v}", -e, "1"]', '[/usr/bin/node, "--eval={v}"]', '[/usr/bin/ssh, host, "rm {v}"]',
        '[/usr/bin/psql, -Atc, "select {v}"]', '[/usr/bin/find, ., -exec, "{v}", ";"]', '[/usr/bin/xargs, "{v}"]',
        '[/bin/tar, -cf, x, "--checkpoint-action=exec={v}", f]', '[/usr/bin/make, "X={v}"]', '[/usr/bin/vim, "+{v}"]',
        '[/usr/bin/ship, "{v}"]', '[/usr/bin/ship, --, "{v}"]', '[/usr/bin/ship, "--order={v}"]',
    ],
)  # fmt: skip
def test_a_value_that_is_not_declared_reaches_no_program(argv: str) -> None:
    """A program is not known by its name: what runs an argument as code, and what does not, look the same."""
    found = faults_of(argv.replace("{v}", "{requested.v}"))
    assert any("argv" in each and "argument: data" in each for each in found), found


@pytest.mark.requirement("FILE-values-apart")
@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (f"[ship, --, {DATA}]", "by its path"),
        (f"[{DATA}, x]", "must begin with a program's name"),
        ('["{requested.v}", x]', "must begin with a program's name"),
        ('[/bin/ship, {value: "order {requested.v}", argument: data}]', "single value in braces"),
        ('[/bin/ship, {value: "{requested.v}{requested.v}", argument: data}]', "single value in braces"),
        ('[/bin/ship, {value: "a", argument: data}]', "single value in braces"),
        ('[/bin/ship, {value: "{requested.v}", argument: code}]', "argument: data"),
        ('[/bin/ship, {value: "{requested.v}"}]', "argument: data"),
        ('[/bin/ship, {value: "{requested.v}", argument: data, more: 1}]', "argument: data"),
    ],
)
def test_a_declaration_is_about_one_whole_argument_of_one_program(argv: str, said: str) -> None:
    found = faults_of(argv)
    assert any(said in each for each in found), found


@pytest.mark.requirement("FILE-values-apart")
@pytest.mark.parametrize("argv", [f"[/bin/ship, --, {DATA}]", f"[./ship, -n, 3, {DATA}, x, {DATA}]", '[ship, "{{v}}"]'])
def test_a_declared_argument_of_a_program_by_its_path_is_taken(argv: str) -> None:
    assert faults_of(argv) == []


@pytest.mark.requirement("FILE-values-apart")
@pytest.mark.parametrize(
    ("argv", "sound"),
    [
        ("[/bin/bash, -ec, VALUE]", False), ("[/x/env, sh, -c, VALUE]", False), ("[/bin/sh, -c, --, VALUE]", False),
        ("[/bin/bash, -c, -e, --, VALUE]", False), ("[/usr/bin/python3.11, -W, ignore, -c, VALUE]", False),
        ("[/usr/bin/node, --eval, VALUE]", False), ("[/usr/bin/perl, -ne, VALUE]", False),
        ("[/bin/pwsh, -Command, VALUE]", False), ("[/bin/su, me, -c, VALUE]", False), ("[/bin/env, -S, VALUE]", False),
        ("[/usr/bin/ssh, host, rm, VALUE]", False), ("[/usr/bin/sqlite3, a.db, VALUE]", False),
        ("[/bin/sh, -c, 'echo \"$1\"', sh, VALUE]", True), ("[/usr/bin/python3, tool.py, VALUE]", True),
        ("[/usr/bin/ssh, VALUE, uptime]", True),
    ],
)  # fmt: skip
def test_a_declaration_that_is_wrong_for_certain_is_refused(argv: str, sound: bool) -> None:
    assert (faults_of(argv.replace("VALUE", DATA)) == []) is sound


@pytest.mark.requirement("FILE-values-apart")
@pytest.mark.parametrize(
    ("argv", "sound"),
    [
        ("[/bin/sh]", False), ("[/bin/bash, -eu]", False), ("[/bin/sh, -s, a]", False), ("[/bin/env, sh, -]", False),
        ("[/usr/bin/psql, shop]", False), ("[/usr/bin/sqlite3, a.db]", False), ("[/usr/bin/ssh, host]", False),
        ("[ship]", False), ("[/usr/bin/python3, tool.py]", True), ("[/bin/sh, -c, cat]", True),
        ("[/usr/bin/psql, -f, load.sql]", True), ("[/usr/bin/ssh, host, cat]", True), ("[/bin/ship]", True),
    ],
)  # fmt: skip
def test_a_value_on_standard_input_is_declared_and_no_program(argv: str, sound: bool) -> None:
    text = PROGRAM.replace("argv: ARGV", f"argv: {argv}, stdin: {DATA}")
    assert (faults(contract(text)) == []) is sound, faults(contract(text))
    assert faults(contract(text.replace(DATA, "it"))) == []
    undeclared = faults(contract(text.replace(DATA, '"do {requested.v}"')))
    assert any("stdin" in each and "argument: data" in each for each in undeclared)


@pytest.mark.requirement("FILE-values-apart")
def test_a_program_by_a_path_is_that_of_the_contract_files_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the working folder nor `cwd` nor PATH stands in for it."""
    for name in ("ops", "agent"):
        (tmp_path / name).mkdir()
        program = tmp_path / name / "ship"
        program.write_text(f"#!/bin/sh\nprintf '%s' \"$1\" > {tmp_path}/{name}.ran\n")
        program.chmod(0o755)
    monkeypatch.chdir(tmp_path / "agent")
    monkeypatch.setenv("PATH", str(tmp_path / "agent"), prepend=os.pathsep)
    fixed = {"argv": ["./ship"], "cwd": str(tmp_path / "agent")}
    BuiltInSystems().executor("command", "c", fixed, str(tmp_path / "ops"), 5_000_000).execute(
        context(), {"argv": ["./ship", "$(touch pwned) ; a"]}
    )
    assert (tmp_path / "ops.ran").read_text() == "$(touch pwned) ; a"
    assert not (tmp_path / "agent.ran").exists()


# --- HTTP ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("FILE-values-apart", "INPUT-header-injection")
def test_what_a_reference_stands_for_ends_no_header_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVIL", "token\r\nX-Evil: 1")
    text = HTTP.replace("method: PUT", "method: PUT\n        headers: {Authorization: {env: EVIL}}")
    with serving() as service:
        actions = contract_files(written(tmp_path / "c.yaml", contract(text.replace("URL", service.url))))
        outcome = _run(actions, "one", id="1", note="x")
        assert not outcome.verified
        assert all("x-evil" not in {name.lower() for name in dict(each.headers)} for each in service.asked)


@pytest.mark.requirement("FILE-values-apart", "INPUT-header-injection")
@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nHost: evil", "\r\n\r\nGET /evil HTTP/1.1\r\n", "a\0b", "\x85"])
def test_an_address_takes_a_line_break_as_a_part_of_its_segment(value: str, tmp_path: Path) -> None:
    with serving() as service:
        service.answers[""] = Said(body={})
        actions = contract_files(written(tmp_path / "c.yaml", contract(HTTP.replace("URL", service.url))))
        _run(actions, "one", id=value, note=value)
        assert all("evil" not in each.path.partition("%")[0] for each in service.asked)
        assert all("x-evil" not in {name.lower() for name in dict(each.headers)} for each in service.asked)
        assert all(each.path.startswith("/orders/o-") for each in service.asked)


@pytest.mark.requirement("FILE-values-apart")
@pytest.mark.parametrize(
    "server",
    [
        '{url: "http://h/\\r\\nX-Evil: 1"}', '{url: "http://u:p@h/"}', '{url: "file:///etc/passwd\\0"}',
        '{command: [a], env: {"A=B": x}}', '{command: [a], env: {A: "x\\ny"}}', '{command: ["a\\0b"]}',
        '{url: "http://h", headers: {"X: Y": z}}', '{url: "http://h", headers: {X: "a\\r\\nY: z"}}',
        '{url: "http://h", headers: {Authorization: secret}}', '{command: [a], env: {API_TOKEN: secret}}',
        '{command: [a], url: "http://h"}', "{command: []}", "{}", '{command: [a], cwd: "x\\ny"}',
    ],
)  # fmt: skip
def test_a_server_is_named_by_plain_texts_and_credentials_by_reference(server: str) -> None:
    whole = SERVED.replace("{command: [notes-server]}", server)
    body = "contracts: {x: {kind: set, side_effect: read_only, target: x, ensure: {a: authoritative != null}}}\n"
    assert any(" server" in each for each in faults(whole + body)), server


# --- tools ---------------------------------------------------------------------------------------------------------


TOOL = f"""{SERVED}contracts:
  put:
    kind: set
    side_effect: ephemeral_write
    target: x
    arguments: {{v: string}}
    execute: {{tool: {{name: put, arguments: {{all: "{{requested.v}}", part: "<{{requested.v}}>", list: ["{{requested.v}}", 1], fixed: kept}}}}}}
    readers:
      - tool: {{name: get, arguments: {{key: "{{requested.v}}"}}, shows: text, absent: {{error_matches: "No such note: *."}}}}
        consistency: strong
    ensure: {{there: authoritative != null}}
"""  # noqa: E501 - a tool on one line
PUT = Fakes(serves=True)
CONTRACT = loaded(TOOL, fakes=PUT).sound().contracts["put"]


@pytest.mark.requirement("FILE-values-apart", "FILE-tool-call")
@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40) | st.sampled_from(HOSTILE))
def test_a_value_stays_in_its_argument_of_a_tool(value: str) -> None:
    tool = PUT.tools["", "put"]
    tool.seen.clear()
    call: Any = CONTRACT.plan.hands.execute.call(context(), {"v": value})
    asyncio.run(call)
    assert tool.seen == [{"all": value, "part": f"<{value}>", "list": [value, 1], "fixed": "kept"}]


@pytest.mark.requirement("FILE-values-apart", "FILE-tool-absence")
@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40) | st.sampled_from(["No such note: *.", "No such note: x.", "*", "\0"]))
def test_no_value_makes_another_error_an_absence(value: str) -> None:
    fill = compile_fill("No such note: {requested.v}.", ENGINE, ["v"])
    try:
        absence = Absence(error_text(fill, values_of(ENGINE, context(), {"v": value})))
    except TemplateError:
        assert "\0" in value  # it would stand for anything
        return
    assert absence.told(f"No such note: {value}.")
    for said in (f"Denied: {value}.", f"Denied: No such note: {value}.", f"No such note: {value}x.", "No such note: ."):
        assert absence.told(said) is (said == f"No such note: {value}.")
    tool = PUT.tools["", "get"]
    tool.answer = lambda: {"content": [{"type": "text", "text": f"Locked: {value}"}], "isError": True}
    call: Any = CONTRACT.plan.hands.readers[0].call(context(), {"v": value})
    with pytest.raises(ReadbackError):
        assert asyncio.run(call).presence is not Presence.ABSENT


@pytest.mark.requirement("FILE-tool-absence")
def test_a_pattern_of_many_stars_takes_no_time() -> None:
    fill = compile_fill("a" + "*a" * 2_000, ENGINE, [])
    absence = Absence(error_text(fill, values_of(ENGINE, context(), {})))
    assert not absence.told("a" * 100_000 + "b")
    assert absence.told("a" * 100_000)


@pytest.mark.requirement("FILE-values-apart")
def test_a_branch_does_not_become_an_option_of_git(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    source = BuiltInSystems().source("git", "g", {"repository": ".", "show": "commit"}, str(tmp_path), 5_000_000)
    for branch in ("--output=pwned", "-h", "--upload-pack=touch pwned", "main:x", "a..b", "@{-1}", "\0"):
        with suppress(ReadbackError, OSError, ValueError):
            assert source.read(context(), {"branch": branch}).presence is not Presence.PRESENT
    assert not (tmp_path / "pwned").exists()
