"""`contracts check` beside a live server: it is started, asked, ended; every mismatch is told with its place."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import pytest

from tests.architecture.tree import ROOT
from tests.contract_files.conftest import Office
from tests.gateway.processes import listening, running
from tests.workers import forks

pytest.importorskip("mcp")
STOCK = (sys.executable, "-W", "ignore", "-m", "tests.contract_files.live.stock_server")
FILE = """apiVersion: readback/v1
kind: Contracts
server: {command: COMMAND, cwd: CWD, env: {CHECKED: {env: STOCK_MARK}}}
contracts:
  set_stock:
    kind: set
    side_effect: ephemeral_write
    target: stock/{requested.sku}
    readers:
      - tool: {name: get_stock, arguments: {sku: "{requested.sku}"}, absent: {error_matches: "Error *: No article *"}}
        consistency: strong
    ensure: {counted: authoritative.count == requested.count}
"""
WRONG = (
    FILE.replace("name: get_stock", "name: get_stocks")
    .replace("authoritative.count", "observed.structuredContent.cuont == 1 && authoritative.count")
    .replace("requested.count", "requested.sku")
    .replace("stock/{requested.sku}", "stock/{requested.skew}")
)


def write(office: Office, text: str, command: Sequence[str] = ()) -> None:
    said = json.dumps(command or forks.launched(STOCK))
    office.write("c.yaml", text.replace("COMMAND", said).replace("CWD", str(ROOT)))


@pytest.fixture
def mark(office: Office, monkeypatch: pytest.MonkeyPatch) -> str:
    forks.launched(STOCK)  # what all are forked from begins without the mark
    monkeypatch.setenv("STOCK_MARK", f"stock-mark-{office.folder}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return f"stock-mark-{office.folder}"


@pytest.mark.requirement("FILE-check-server")
def test_a_sound_file_is_sound_beside_its_own_server_which_is_ended(office: Office, mark: str) -> None:
    write(office, FILE, STOCK)  # started, as it stands in a file
    answer = office("contracts", "check", "c.yaml", "--server", code=0)
    assert "1 contract, sound" in answer.out
    assert "ok: set_stock: tool: This is a server's tool" in answer.out
    assert "has 3 tools; none was called." in answer.err
    assert "own arguments" not in answer.err
    shown = office("contracts", "show", "set_stock", "--contracts", "c.yaml", "--json", "--", *STOCK, code=0).json
    assert shown["takes"]["properties"]["count"]["type"] == "integer"
    assert shown["tool"] == "set_stock"
    assert shown["checked_by_the_server_alone"] == []
    assert running(mark) == []


@pytest.mark.requirement("FILE-check-server")
def test_every_mismatch_is_told_with_its_line_and_column(office: Office, mark: str) -> None:
    write(office, WRONG)
    office("contracts", "check", "c.yaml", code=0)  # nobody knows better without the server
    for given in (["--server"], ["--", *forks.launched(STOCK)]):
        answer = office("contracts", "check", "c.yaml", "--json", *given, code=5)
        found = {(each["line"], each["path"]): each["reason"] for each in answer.json["faults"]}
        assert "'skew'" in found[8, "contracts.set_stock.target"]
        assert "no tool 'get_stocks'. Did you mean 'get_stock'" in found[10, "contracts.set_stock.readers[0]"]
        assert answer.json["exit_code"] == 5
    assert running(mark) == []


@pytest.mark.slow
@pytest.mark.requirement("FILE-check-server")
def test_fields_of_answers_are_looked_for_in_the_output_schemas(office: Office, mark: str) -> None:
    write(office, WRONG.replace("get_stocks", "get_stock").replace("skew", "sku"))
    out = office("contracts", "check", "c.yaml", "--", *forks.launched(STOCK), code=5).out
    assert "c.yaml:12:23: contracts.set_stock.ensure.counted: 'observed.structuredContent.cuont' is not in" in out
    write(office, FILE.replace("requested.count}", "requested.sku}"))
    out = office("contracts", "check", "c.yaml", "--", *forks.launched(STOCK), code=5).out
    assert "a number is compared with a text" in out
    write(office, FILE.replace("  set_stock:", "  set_stocks:"))
    out = office("contracts", "check", "c.yaml", "--server", code=5).out
    assert (
        "c.yaml:5:3: contracts.set_stocks.execute: The server has no tool 'set_stocks'. Did you mean 'set_stock'" in out
    )


@pytest.mark.slow
@pytest.mark.requirement("FILE-check-server")
def test_a_server_at_an_address_is_asked_too_and_a_pin_is_compared(office: Office, mark: str) -> None:
    write(office, FILE.replace("    kind: set", f"    tool_sha256: {'0' * 64}\n    kind: set"))
    with listening([*STOCK, "--http"]) as url:
        found = office("contracts", "check", "c.yaml", "--url", url, "--json", code=5).json["faults"]
    assert found[0]["code"] == "contract.tool-changed"
    pin = found[0]["reason"].rpartition(" ")[2].rstrip(".")
    write(office, FILE.replace("    kind: set", f"    tool_sha256: {pin}\n    kind: set"))
    office("contracts", "check", "c.yaml", "--server", code=0)


@pytest.mark.slow
@pytest.mark.requirement("FILE-check-server")
def test_a_server_that_does_not_start_is_named_and_leaves_nothing(office: Office, mark: str) -> None:
    write(office, FILE)
    answer = office("contracts", "check", "c.yaml", "--", sys.executable, "-c", "raise SystemExit(3)")
    assert answer.code == 3
    assert "See whether the server starts by itself" in answer.err
    assert running(mark) == []
    assert office("contracts", "check", "c.yaml", "--", "no-such-program-7f").code != 0
    for wrong in (["--server", "--offline"], ["--url", "http://127.0.0.1:1", "--", *STOCK], ["--"]):
        assert office("contracts", "check", "c.yaml", *wrong).code == 2
    office.write(
        "d.yaml", FILE.replace("server: {command: COMMAND, cwd: CWD, env: {CHECKED: {env: STOCK_MARK}}}\n", "")
    )
    assert office("contracts", "check", "d.yaml", "--server").code == 2
