"""`readback contracts draft` of real servers: one of the official SDK over both transports, and bad ones."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from readback.canon import sha256_hex
from readback.kit.wording import OUTCOME_KEY
from tests.architecture.tree import ROOT
from tests.contract_files.conftest import TOKEN, Office
from tests.contract_files.drafted_tools import taken
from tests.contract_files.writing import loaded
from tests.packs.desk import PROXY
from tests.packs.lying_proxy import LIE
from tests.workers import forks
from tests.workers.limit import killed_after

pytest.importorskip("mcp")
STOCK = (sys.executable, "-m", "tests.contract_files.live.stock_server")
LOOKS_MAX = 1_000


@pytest.fixture(autouse=True)
def _found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture(scope="module")
def stock_url() -> Iterator[str]:
    process = forks.start([*STOCK, "--http"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        with killed_after(process):
            url = process.stdout.readline().strip()
        yield url
    finally:
        process.kill()
        process.communicate()


def _gone(mark: str) -> bool:
    """Whether no process is left that has this in its command line."""
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in each.read_bytes():
                return False
        except OSError:
            continue
    return True


@pytest.mark.slow
@pytest.mark.requirement("FILE-draft-live")
def test_a_live_server_is_drafted_and_what_a_person_decides_passes_the_check(office: Office) -> None:
    mark = str(office.folder)
    told = office("contracts", "draft", "--out", "stock.yaml", "--", *STOCK, mark, code=0)
    assert "readback contracts check stock.yaml" in told.err
    text = (office.folder / "stock.yaml").read_text(encoding="utf-8")
    assert "made from what stock 3.0 says" in text
    assert "get_stock, list_stock (by its name)" in text
    undecided = office("contracts", "check", "stock.yaml", "--offline", "--json", code=5).json["faults"]
    assert {each["code"] for each in undecided} == {"contract.undecided"}
    assert {each["path"] for each in undecided} >= {"contracts.set_stock.kind", "contracts.set_stock.ensure.count"}

    decided = taken(text)
    office.write("stock.yaml", decided)
    sound = office("contracts", "check", "stock.yaml", "--offline", code=0)
    assert sha256_hex(decided.encode()) in sound.out
    [contract] = loaded(decided).contracts.values()
    assert contract.plan.contract.kind == "set"
    assert _gone(mark)


@pytest.mark.slow
@pytest.mark.requirement("FILE-draft-live")
def test_what_is_decided_verifies_honest_calls_and_catches_one_that_is_dropped(office: Office) -> None:
    office("contracts", "draft", "--out", "stock.yaml", "--", *STOCK, code=0)
    decided = taken((office.folder / "stock.yaml").read_text(encoding="utf-8"))
    office.write("stock.yaml", f"{decided}    within: 200ms\n")
    proxied = [sys.executable, str(PROXY), *STOCK]
    argv = [forks.READBACK, "mcp", "--contracts", str(office.folder / "stock.yaml")]
    program, *words = forks.launched([*argv, "--ledger-url", f"sqlite:///{office.folder}/gate.db", "--", *proxied])
    gateway = StdioServerParameters(command=program, args=words, env={**os.environ}, cwd=ROOT)

    async def calls() -> list[object]:
        async with Client(stdio_client(gateway)) as client:
            several = [
                await client.call_tool("set_stock", {"sku": "mug", "count": count}, meta={LIE: lie} if lie else None)
                for count, lie in ((11, ""), (12, "drop"), (13, ""))
            ]
        return [(each.meta or {})[OUTCOME_KEY]["verdict"] for each in several]

    assert [each == "verified" for each in asyncio.run(asyncio.wait_for(calls(), 60))] == [True, False, True]


@pytest.mark.slow
@pytest.mark.requirement("FILE-draft-live")
def test_the_same_server_over_http_gives_the_same_contracts(office: Office, stock_url: str) -> None:
    over_http = office("contracts", "draft", "--url", stock_url, code=0).out
    over_stdio = office("contracts", "draft", "--", *forks.launched(STOCK), code=0).out
    assert over_http.partition("\ncontracts:")[2] == over_stdio.partition("\ncontracts:")[2]
    assert f'url: "{stock_url}"' in over_http


BAD = {
    "dies": "raise SystemExit(3)",
    "says nothing": "import sys; sys.stdin.read()",
    "never reads": "import signal; signal.pause()",
    "answers garbage": "import sys\nfor line in sys.stdin: print('{]', flush=True)",
    "answers what is no answer": 'import sys\nfor line in sys.stdin: print(\'{"jsonrpc": "2.0"}\', flush=True)',
    "answers with a flood": "import sys\nwhile True: sys.stdout.write('x' * 65536)",
}


@pytest.mark.slow
@pytest.mark.requirement("FILE-draft-live")
@pytest.mark.parametrize("case", BAD)
def test_a_server_that_misbehaves_is_an_error_within_its_time_and_nothing_is_left(office: Office, case: str) -> None:
    mark = str(office.folder)
    server = (sys.executable, "-c", BAD[case], mark)
    told = office("contracts", "draft", "--timeout", "1s", "--out", "x.yaml", "--", *server, code=3)
    assert "Nothing was called or written." in told.err
    assert not (office.folder / "x.yaml").exists()
    assert _gone(mark)


def test_a_process_that_is_left_would_be_seen(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", BAD["never reads"], str(tmp_path)]) as left:
        # Its command line is there a moment after Popen has returned.
        seen = any(not _gone(str(tmp_path)) for _ in range(LOOKS_MAX))
        left.kill()
    assert seen


def test_a_program_that_is_not_there_and_an_address_where_nobody_is_are_errors(office: Office) -> None:
    assert office("contracts", "draft", "--", "no-such-program-7f3a", code=3).out == ""
    assert office("contracts", "draft", "--timeout", "5s", "--url", "http://127.0.0.1:9/mcp", code=3).out == ""


def test_a_draft_takes_no_file_s_place_and_needs_one_server(office: Office) -> None:
    office.write("there.yaml", "mine")
    assert "there already" in office("contracts", "draft", "--out", "there.yaml", "--", *STOCK, code=2).err
    assert (office.folder / "there.yaml").read_text(encoding="utf-8") == "mine"
    assert "one server" in office("contracts", "draft", code=2).err
    assert "one server" in office("contracts", "draft", "--url", "http://x/mcp", "--", "srv", code=2).err
    assert "--timeout" in office("contracts", "draft", "--timeout", "5", "--", *STOCK, code=2).err


@pytest.fixture
def guarded_url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server that answers whoever bears the token, which stands in the environment as STOCK_BEARER."""
    monkeypatch.setenv("STOCK_BEARER", f"Bearer {TOKEN}")
    environment = {**os.environ, "STOCK_TOKEN": f"Bearer {TOKEN}"}
    process = subprocess.Popen([*STOCK, "--http"], cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        with killed_after(process):
            url = process.stdout.readline().strip()
        yield url
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.requirement("FILE-draft-live", "FILE-check-server")
def test_a_server_that_wants_a_credential_is_given_it_by_reference_and_nobody_is_shown_it(
    office: Office, guarded_url: str
) -> None:
    bearer, drafted = office.write("bearer", f"Bearer {TOKEN}"), ""
    for name, kind, where in (("authorization", "file", "bearer"), ("Authorization", "env", "STOCK_BEARER")):
        told = office("contracts", "draft", "--url", guarded_url, "--header", f"{name}={kind}:{where}", code=0)
        assert TOKEN not in told.out + told.err
        named = str(bearer) if kind == "file" else where
        drafted = told.out
        assert yaml.safe_load(drafted)["server"]["headers"] == {name: {kind: named}}
    refused = office("contracts", "draft", "--url", guarded_url, code=3)
    assert TOKEN not in refused.out + refused.err
    office.write("c.yaml", drafted)
    for more in (["--server"], ["--url", guarded_url, "--header", "Authorization=env:STOCK_BEARER"]):
        checked = office("contracts", "check", "c.yaml", *more, "--json", code=5)
        assert {each["code"] for each in checked.json["faults"]} == {"contract.undecided"}
        assert TOKEN not in checked.out + checked.err
    assert office("contracts", "check", "c.yaml", "--url", guarded_url).code == 3


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (f"Authorization=Bearer {TOKEN}", "its value is no reference"),
        ("Authorization", "its value is no reference"),
        ("Authorization=env:", "its value is no reference"),
        ("Bad name=env:HOME", "is not a valid header name"),
        ("A=env:HOME", "belongs to --url"),
    ],
)
def test_a_header_that_is_no_reference_is_refused_without_being_shown(office: Office, header: str, said: str) -> None:
    at = [] if "belongs" in said else ["--url", "http://127.0.0.1:9/mcp"]
    told = office("contracts", "draft", *at, "--header", header, *([] if at else ["--", "true"]))
    assert told.code != 0
    assert said in told.err
    assert TOKEN not in told.out + told.err


@pytest.mark.requirement("SEC-own-files")
@pytest.mark.parametrize(
    "command",
    [("draft", "--out", "new.yaml"), ("check", "shop.yaml"), ("show", "orders_create", "--contracts", "shop.yaml")],
)
@pytest.mark.parametrize("own", ["readback.db", "shop.yaml", "readback.toml"])
def test_no_server_is_started_to_be_asked_where_it_is_given_own_files(
    office: Office, command: tuple[str, ...], own: str
) -> None:
    if own == "shop.yaml" and command[0] == "draft":
        own = "readback.db"  # a draft reads no contract file
    office.write(own, (office.folder / own).read_text() if own == "shop.yaml" else "")
    started = office.folder / "started"
    for given in (str(office.folder), str(office.folder / own), f"--root={office.folder}"):
        told = office("contracts", *command, "--", "/bin/sh", "-c", f"touch {started}", given)
        assert told.code != 0
        assert "Readback's own" in told.err
        assert not started.exists()
    assert not (office.folder / "new.yaml").exists()
