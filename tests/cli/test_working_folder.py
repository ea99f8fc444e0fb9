"""Files of the working folder, which an agent may write, stand in for no module that a command imports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from readback.cli.cli import COMMANDS
from tests.workers import forks

PATIENCE_SECONDS: Final = 120
NOTES: Final = """\
apiVersion: readback/v1
kind: Contracts
metadata: {name: notes, version: 1.0.0}
contracts:
  write_note:
    kind: set
    side_effect: ephemeral_write
    target: note/{requested.name}
    arguments: {name: string, text: string}
    execute: {file: {root: ROOT, do: write, path: "{requested.name}", content: "{requested.text}"}}
    readers: [{file: {root: ROOT, path: "{requested.name}"}}]
    ensure: {same: authoritative.sha256 == sha256(requested.text)}
    within: 1s
"""
RECORDER: Final = """\
import os, sys
class Recorder:
    def find_spec(self, name, path=None, target=None):
        if path is None:
            number = os.open(os.environ["MISSING_NAMES"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.write(number, (name + "\\n").encode())
            os.close(number)
sys.meta_path.append(Recorder())
"""
PLANTED: Final = (
    "import os\nopen(os.environ['PLANTED_RAN'], 'a').write(__name__ + '\\n')\nraise ImportError(__name__)\n"
)
SHOP: Final = """\
from pricing import PRICE
from readback import Reading, action

@action(name="ship", kind="set", side_effect="ephemeral_write", target="item/{requested.item}", within="200ms",
        ensure={"price": "authoritative.price == 3"})
def ship(ctx, item: str) -> dict:
    from later import AFTERWARDS
    import absent_altogether_or_not
    return {"price": PRICE + AFTERWARDS}

@ship.read(source="shop", consistency="strong", independence="other_client")
def look(ctx, item: str) -> Reading:
    return Reading.of({"price": 3})
"""
GIVEN: Final[Mapping[str, Sequence[Sequence[str]]]] = {
    "run": [["write_note", "--contracts", "NOTES", "--arg", "name=a", "--arg", "text=b", "--operation", "o"]],
    "submit": [["write_note", "--contracts", "NOTES", "--arg", "name=a", "--arg", "text=c", "--operation", "p"]],
    "worker": [["--contracts", "NOTES", "--until-idle"]],
    "resume": [["--contracts", "NOTES"]],
    "ledger": [["verify"]],
    "contracts": [["check", "NOTES"]],
    "hook": [["pre", "--hooks", "NOTES"]],
    "mcp": [["--contracts", "NOTES", "--", sys.executable, "-c", "pass"]],
    "delegate": [["--task", "t", "--verify", "SCRIPT", "--within", "1s", "--", "true"]],
    "replay": [["NOTES"]],
    "table": [["show"]],
    "drill": [["write_note", "--contracts", "NOTES"]],
    "import": [["envelope", "NOTES"]],
    "trace": [["verify", "NOTES"]],
    "report": [["check", "NOTES"]],
    "decisions": [["list"]],
    "review": [["list"]],
    "claims": [["list"]],
    "keys": [["list"]],
    "events": [["list"]],
    "belief": [["r"]],
    "explain": [["a"]],
    "show": [["a"]],
    "approve": [["a"]],
    "deny": [["a"]],
    "token": [["list"]],
    "gates": [["diff", "NOTES"]],
    "serve": [["--contracts", "NOTES", "--port", "0", "--without-tokens"]],
}
NOT_PLANTED: Final = frozenset({"__main__", "readback", "sitecustomize", "usercustomize"})
ELSEWHERE: Final = frozenset({"demo", "bench"})
"""These commands start systems of their own for minutes; what they start is held by a rule of its own."""


def _called(
    folder: Path, notes: Path, environment: Mapping[str, str], start: Sequence[str], words: Sequence[str]
) -> None:
    argv = [
        *start,
        *({"NOTES": str(notes), "SCRIPT": str(notes.with_name("verify.py"))}.get(word, word) for word in words),
    ]
    if words[0] == "serve":
        _served(argv, folder, environment)
        return
    subprocess.run(argv, cwd=folder, env=environment, capture_output=True, timeout=PATIENCE_SECONDS, input=b"{}")


def _served(argv: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
    """A server answers a page and a request of the API, and ends at a signal. A ledger in use ends it at once."""
    with subprocess.Popen(argv, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        started = next((line for line in server.stderr if "http://" in line), "")
        if started:
            url = started[started.index("http://") :].strip()
            for path in ("/", "/v1/actions"):
                with suppress(HTTPError), urlopen(url + path, timeout=PATIENCE_SECONDS) as answer:
                    answer.read()
            server.send_signal(signal.SIGTERM)
        server.stderr.read()


def _commands() -> list[list[str]]:
    return [[name, *given] for name in COMMANDS if name not in ELSEWHERE for given in GIVEN.get(name, [[]])]


def _plant(folder: Path, names: set[str]) -> None:
    for name in names:
        (folder / f"{name}.py").write_text(PLANTED)


def _before_a_module_is_found() -> set[str]:
    """What Python itself imports for `-m` before it looks for the module: no program can prevent that."""
    code = "import runpy, sys; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in ended.stdout.split()}


@pytest.mark.slow
def test_no_command_imports_what_an_agent_put_into_the_working_folder(tmp_path: Path) -> None:
    folders = ops, bare, agent, named, hooks = [tmp_path / name for name in ("ops", "bare", "agent", "named", "hooks")]
    for each in folders:
        each.mkdir()
    notes = ops / "notes.yaml"
    notes.write_text(NOTES.replace("ROOT", str(tmp_path / "agent")))
    (ops / "verify.py").write_text("def run(result):\n    return True\n")
    (hooks / "sitecustomize.py").write_text(RECORDER)
    missing, ran = tmp_path / "missing", tmp_path / "ran"
    plain = {
        **os.environ,
        "READBACK_TENANT": "acme",
        "XDG_CONFIG_HOME": str(tmp_path / "home"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PLANTED_RAN": str(ran),
        "MISSING_NAMES": str(missing),
    }
    recording = {**plain, "PYTHONPATH": str(hooks)}
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda words: _called(bare, notes, recording, [forks.READBACK], words), _commands()))
        names = set(filter(str.isidentifier, missing.read_text().split()))
        assert names, "the recorder saw no optional import at all, so it sees nothing"
        names |= sys.stdlib_module_names | set(packages_distributions())
        _plant(agent, names - NOT_PLANTED)
        _plant(named, names - NOT_PLANTED - _before_a_module_is_found())
        work = [(agent, [forks.READBACK], words) for words in _commands()]
        by_name = [["list"], *([name, *GIVEN[name][0]] for name in ("run", "mcp", "hook"))]
        work += [(named, [sys.executable, "-m", "readback"], words) for words in by_name]
        list(pool.map(lambda each: _called(each[0], notes, plain, each[1], each[2]), work))
    assert not ran.exists(), sorted(set(ran.read_text().split()))


@pytest.mark.slow
def test_contract_modules_of_the_folder_bring_their_own_modules_and_nothing_else(tmp_path: Path) -> None:
    """`pricing` and `later` are imported by the operator's module. `google` and its like are imported by libraries."""
    ran, missing, hooks = tmp_path / "ran", tmp_path / "missing", tmp_path / "hooks"
    folder = tmp_path / "here"
    folder.mkdir()
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(RECORDER)
    (folder / "shop.py").write_text(SHOP)
    (folder / "pricing.py").write_text("PRICE = 1\n")
    (folder / "later.py").write_text("AFTERWARDS = 2\n")
    (folder / "absent_altogether_or_not.py").write_text("")
    plain = {
        **os.environ,
        "READBACK_TENANT": "acme",
        "XDG_CONFIG_HOME": str(tmp_path / "home"),
        "PLANTED_RAN": str(ran),
        "MISSING_NAMES": str(missing),
    }
    run = ["run", "ship", "--contracts", "shop", "--arg", "item=a", "--json"]

    def called(environment: Mapping[str, str], operation: str) -> None:
        ended = subprocess.run(
            [forks.READBACK, *run, "--operation", operation],
            cwd=folder,
            env=environment,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
        )
        assert json.loads(ended.stdout)["verdict"] == "verified", ended
        assert ended.returncode == 0

    called({**plain, "PYTHONPATH": str(hooks)}, "a")
    own = {"shop", "pricing", "later", "absent_altogether_or_not"}
    names = set(filter(str.isidentifier, missing.read_text().split())) - own - NOT_PLANTED
    (folder / "evil-1.0.dist-info").mkdir()
    (folder / "evil-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (folder / "evil-1.0.dist-info" / "entry_points.txt").write_text("[pydantic]\nevil = evil:plugin\n")
    _plant(folder, names | {"evil", "google", "org"})
    called(plain, "b")
    assert not ran.exists(), sorted(set(ran.read_text().split()))


def test_each_command_is_tried_from_such_a_folder() -> None:
    assert set(GIVEN) <= set(COMMANDS)
    assert set(COMMANDS) >= ELSEWHERE
