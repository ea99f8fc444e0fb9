"""Values that try to reach outside of where they stand: each through a real file system, service, program or tool."""

from __future__ import annotations

import asyncio
import json
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
from readback.contracts.files.absence import Absence, error_text
from readback.contracts.files.contract import values_of
from readback.contracts.files.fill import compile_fill
from readback.domain.errors import TemplateError
from readback.domain.reading import Presence
from readback.sdk.files import contract_files
from readback.sdk.fittings import BuiltInFittings
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
        fittings = BuiltInFittings()
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


@pytest.mark.requirement("FILE-values-apart")
@pytest.mark.parametrize(
    "argv",
    [
        '[sh, -c, "echo {requested.v}"]', '[/bin/bash, -ec, "{requested.v}"]', '[env, python3, -c, "{requested.v}"]',
        '[node, --eval, "{requested.v}"]', '[perl, -ne, "{requested.v}"]', '[node, "--eval={requested.v}"]',
        '[python3.11, -W, ignore, -c, "{requested.v}"]', '["{requested.v}", x]',
        '[node, "--eval=go({requested.v})"]', '[python3, "-cgo({requested.v})"]', '[pwsh, -Command, "{requested.v}"]',
        '[psql, -Atc, "select {requested.v}"]', '[mysql, "--execute=use {requested.v}"]', '[env, -S, "{requested.v}"]',
        '[su, me, -c, "{requested.v}"]',
    ],
)  # fmt: skip
def test_a_value_is_no_program(argv: str) -> None:
    text = f"""
    kind: set
    side_effect: ephemeral_write
    target: x
    arguments: {{v: string}}
    execute: {{command: {{argv: {argv}}}}}
    readers: [{{file: {{path: x}}}}]
    ensure: {{there: authoritative != null}}
    """
    assert any("argv" in each for each in faults(contract(text))), argv
    apart = argv.replace("{requested.v}", "print").replace("]", ', --, "{requested.v}"]')
    assert faults(contract(text.replace(argv, apart))) == []


@pytest.mark.requirement("FILE-values-apart")
@pytest.mark.parametrize(
    ("argv", "sound"),
    [
        ('[ssh, host, "rm {requested.v}"]', False), ('[ssh, host, rm, "{requested.v}"]', False),
        ('[sqlite3, a.db, "delete {requested.v}"]', False), ('[ssh, "{requested.v}", uptime]', True),
        ('[python3, tool.py, "--evaluate={requested.v}", "-env={requested.v}"]', True),
        ('[psql, -f, a.sql, -v, "id={requested.v}"]', True), ('[sqlite3, "{requested.v}", .tables]', True),
    ],
)  # fmt: skip
def test_a_value_is_no_text_that_another_machine_or_database_runs(argv: str, sound: bool) -> None:
    text = f"""
    kind: set
    side_effect: ephemeral_write
    target: x
    arguments: {{v: string}}
    execute: {{command: {{argv: {argv}}}}}
    readers: [{{file: {{path: x}}}}]
    ensure: {{there: authoritative != null}}
    """
    assert (faults(contract(text)) == []) is sound


@pytest.mark.requirement("FILE-values-apart")
@pytest.mark.parametrize(
    ("argv", "sound"),
    [
        ("[sh]", False), ("[/bin/bash, -eu]", False), ("[sh, -s, a]", False), ("[env, python3, -]", False),
        ("[psql, shop]", False), ("[sqlite3, a.db]", False), ("[ssh, host]", False),
        ("[python3, tool.py]", True), ("[sh, -c, cat]", True), ("[psql, -f, load.sql]", True),
        ("[ssh, host, cat]", True), ("[ship]", True), ("[sqlite3, a.db, .tables]", True),
    ],
)  # fmt: skip
def test_a_value_is_no_program_on_standard_input(argv: str, sound: bool) -> None:
    text = f"""
    kind: set
    side_effect: ephemeral_write
    target: x
    arguments: {{v: string}}
    execute: {{command: {{argv: {argv}, stdin: "do {{requested.v}}"}}}}
    readers: [{{file: {{path: x}}}}]
    ensure: {{there: authoritative != null}}
    """
    assert (faults(contract(text)) == []) is sound, faults(contract(text))
    assert faults(contract(text.replace("{requested.v}", "it"))) == []


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
    source = BuiltInFittings().source("git", "g", {"repository": ".", "show": "commit"}, str(tmp_path), 5_000_000)
    for branch in ("--output=pwned", "-h", "--upload-pack=touch pwned", "main:x", "a..b", "@{-1}", "\0"):
        with suppress(ReadbackError, OSError, ValueError):
            assert source.read(context(), {"branch": branch}).presence is not Presence.PRESENT
    assert not (tmp_path / "pwned").exists()
