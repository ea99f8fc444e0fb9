"""What a client may rely on with a server, a client may rely on with the gateway before that server.

The protocol's own suite runs against a server of the Python SDK and one of the TypeScript SDK, directly and through
`readback mcp`, for three revisions. Each check that a server passes directly has to pass through the gateway. `make
conformance` installs the suite and runs this; `make test` leaves this out.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from tests.architecture.tree import ROOT
from tests.workers import forks
from tests.workers.limit import killed_after

INSTALLED: Final = ROOT / ".venv" / "conformance"
SUITE: Final = INSTALLED / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
NODE: Final = INSTALLED / "node_modules" / ".node"
READBACK: Final = str(Path(sys.executable).with_name("readback"))
HERE: Final = Path(__file__).parent
SERVERS: Final[Mapping[str, Sequence[str]]] = {
    "python": (sys.executable, "-W", "ignore", "-m", "tests.conformance.everything"),
    "typescript": (str(NODE), str(HERE / "everything.mjs")),
}
FOLDERS: Final = {"python": ROOT, "typescript": INSTALLED}
"""Where they run: each finds its SDK from there."""
VERSIONS: Final = ("2025-06-18", "2025-11-25", "2026-07-28")
LEAST: Final = {"2025-06-18": 56, "2025-11-25": 84, "2026-07-28": 151}
"""Checks that pass directly: with fewer the suite, or a server, is not the one that this compares."""
OPTIONAL: Final = {
    "server-sse-disconnect-resume": "a server MAY close a stream and let its client come again; the gateway keeps it",
}
"""Checks that need not pass through the gateway, and why."""
FAILS_DIRECTLY: Final = {
    "python": {"sep-2243-server-accepts-whitespace-header-value"},  # it passes through the gateway
    "typescript": set[str](),
}
END_S: Final = 30
RUN_S: Final = 120

Check = tuple[str, str, str, int]
"""Revision, scenario, check, and how many there were of it before."""


@contextmanager
def serving(command: Sequence[str], folder: Path) -> Iterator[str]:
    """A process that prints its address, as a line or as JSON: the address."""
    with forks.start(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            with killed_after(process):
                found = None
                while found is None:
                    line = process.stdout.readline()
                    assert line, f"{command} ended before it served"
                    found = re.search(r"http://[0-9.]+:[0-9]+/mcp", line)
            yield found[0]
        finally:
            process.terminate()
            try:
                process.wait(END_S)
            finally:
                process.kill()


def run_suite(url: str, folder: Path) -> dict[Check, str]:
    """The status of every check of every scenario, for each revision."""
    found: dict[Check, str] = {}
    for version in VERSIONS:
        results = folder / version
        options = ["--url", url, "--suite", "all", "--spec-version", version, "--output-dir", str(results)]
        command = [str(NODE), str(SUITE), "server", *options]
        subprocess.run(command, cwd=folder, capture_output=True, timeout=RUN_S, check=False, env={**os.environ})
        for scenario in sorted(results.iterdir()):
            name = re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*$", "", scenario.name)
            seen: Counter[str] = Counter()
            for check in json.loads((scenario / "checks.json").read_text(encoding="utf-8")):
                found[version, name, check["id"], seen[check["id"]]] = check["status"]
                seen[check["id"]] += 1
    return found


@cache
def directly(sdk: str) -> Mapping[Check, str]:
    """What the suite finds of a server itself."""
    with TemporaryDirectory() as folder, serving([*SERVERS[sdk], "--http"], FOLDERS[sdk]) as url:
        return run_suite(url, Path(folder))


def through_the_gateway(sdk: str, upstream: str, folder: Path) -> dict[Check, str]:
    """What the suite finds of the gateway before that server."""
    gateway = [READBACK, "mcp", "--serve", "http", "--port", "0", "--json"]
    gateway += ["--ledger-url", f"sqlite:///{folder}/readback.db"]
    with ExitStack() as stack:
        if upstream == "http":
            gateway += ["--url", stack.enter_context(serving([*SERVERS[sdk], "--http"], FOLDERS[sdk]))]
        else:  # one process for each session of the suite: to start Python takes most of the time
            gateway += ["--", *(forks.launched(SERVERS[sdk]) if sdk == "python" else SERVERS[sdk])]
        return run_suite(stack.enter_context(serving(gateway, FOLDERS[sdk])), folder)


@pytest.mark.requirement("WIRE-conformance")
@pytest.mark.parametrize("sdk", SERVERS)
def test_a_server_passes_directly_what_its_sdk_keeps(sdk: str) -> None:
    assert SUITE.exists(), "Run `make conformance`, or scripts/conformance.sh: the suite is not installed."
    found = directly(sdk)
    failed = {check for (_, _, check, _), status in found.items() if status == "FAILURE"}
    assert failed == FAILS_DIRECTLY[sdk]
    for version in VERSIONS:
        assert sum(key[0] == version and status == "SUCCESS" for key, status in found.items()) >= LEAST[version]


@pytest.mark.requirement("WIRE-conformance")
@pytest.mark.parametrize("upstream", ["http", "stdio"])
@pytest.mark.parametrize("sdk", SERVERS)
def test_what_passes_directly_passes_through_the_gateway(sdk: str, upstream: str, tmp_path: Path) -> None:
    direct, through = directly(sdk), through_the_gateway(sdk, upstream, tmp_path)
    worse = {
        check: (status, through.get(check))
        for check, status in direct.items()
        if status == "SUCCESS" and through.get(check) != "SUCCESS" and check[2] not in OPTIONAL
    }
    assert not worse
    assert not [check for check, status in through.items() if status == "FAILURE"]
