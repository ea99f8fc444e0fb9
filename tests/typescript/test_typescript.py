"""The TypeScript client: its own tests against a real server, its types, its packages, and the programs of its page."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from readback.server.openapi import document_bytes
from readback.server.serving import whole_table
from tests.docs.pages import ROOT, Block, blocks

CLIENT = ROOT / "clients" / "typescript"
PAGE = "clients/typescript/README.md"
LIMIT_SECONDS = 240
EXACT = r"(npm:[a-z]+@)?\d+\.\d+\.\d+"
READBACK = Path(sys.executable).parent / "readback"
URL = "http://127.0.0.1:8787"


def done(*words: str | Path, cwd: Path = CLIENT) -> str:
    """Run a program to its end, and return what the program printed."""
    ended = subprocess.run(
        [*words], cwd=cwd, env={**os.environ, "READBACK": str(READBACK)}, capture_output=True, text=True,
        timeout=LIMIT_SECONDS, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-6000:]
    return ended.stdout


def passed_by_node(name: str, cwd: Path = CLIENT) -> None:
    words = ("node", "--test", "--test-timeout=120000", "--test-reporter=tap", f"build/test/{name}.test.js")
    printed = done(*words, cwd=cwd)
    counts = dict(re.findall(r"^# (tests|pass|fail|skipped|todo) (\d+)$", printed, re.MULTILINE))
    assert counts["tests"] == counts["pass"]
    assert int(counts["pass"]) > 1


@pytest.mark.requirement("TS-client")
def test_the_client_tells_what_was_read_back() -> None:
    passed_by_node("client")


@pytest.mark.requirement("TS-lost")
def test_a_lost_answer_is_unknown_and_a_crash_repeats_no_call() -> None:
    passed_by_node("network")


@pytest.mark.requirement("TS-ai")
def test_a_tool_of_the_ai_sdk_tells_a_model_what_was_read_back() -> None:
    passed_by_node("ai")


@pytest.mark.requirement("TS-ai")
def test_the_same_holds_with_version_7_of_the_ai_sdk(tmp_path: Path) -> None:
    for name in ("src", "test"):
        shutil.copytree(CLIENT / name, tmp_path / name)
    for name in ("package.json", "tsconfig.json", "tsconfig.build.json", "tsconfig.test.json"):
        shutil.copy(CLIENT / name, tmp_path)
    (tmp_path / "node_modules").mkdir()
    for each in (CLIENT / "node_modules").iterdir():
        if each.name != "ai":
            (tmp_path / "node_modules" / each.name.replace("ai-7", "ai")).symlink_to(each)
    assert json.loads((tmp_path / "node_modules/ai/package.json").read_text("utf-8"))["version"].startswith("7.")
    for project in ("tsconfig.build.json", "tsconfig.test.json"):
        done("node_modules/.bin/tsc", "-p", project, cwd=tmp_path)
    passed_by_node("ai", tmp_path)


@pytest.mark.requirement("TS-types")
def test_the_types_are_those_of_the_servers_description() -> None:
    assert (ROOT / "docs/reference/openapi.json").read_bytes() == document_bytes(whole_table())
    done("node", "scripts/types.mjs", "--check")


@pytest.mark.requirement("TS-packages")
def test_packages_have_exact_versions_and_the_lock_names_no_registry() -> None:
    package = json.loads((CLIENT / "package.json").read_text("utf-8"))
    assert "dependencies" not in package
    assert [each for each in package["devDependencies"].values() if not re.fullmatch(EXACT, each)] == []
    locked = json.loads((CLIENT / "packages.lock.json").read_text("utf-8"))["packages"]
    assert [name for name, each in locked.items() if "resolved" in each] == []
    assert [name for name, each in locked.items() if name and "integrity" not in each] == []


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A server beside the page's contract, as the page starts one, at a free port. Yields the URL."""
    command = next(each.text for each in blocks(PAGE) if "readback serve" in each.text).split()
    with (folder / "serve.log").open("w") as log:
        process = subprocess.Popen(
            [READBACK, *command[1:], "--port", "0", "--url", f"sqlite:///{folder}/ledger.db", "--json"],
            cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        found = next((re.search(r'"(http://[^"]+)"', line) for line in process.stdout if "http://" in line), None)
        assert found is not None, (folder / "serve.log").read_text()
        yield found[1]
    finally:
        process.terminate()
        process.wait(LIMIT_SECONDS)
        process.stdout.close()


def _programs() -> list[tuple[Block, str]]:
    """Each program of the page with the next block of text: what the program prints."""
    every = blocks(PAGE)
    return [
        (each, next(later.text for later in every[at:] if later.language == "text"))
        for at, each in enumerate(every)
        if each.language == "typescript"
    ]


@pytest.mark.requirement("TS-page")
def test_the_programs_of_the_page_compile_and_print_what_the_page_shows(tmp_path: Path) -> None:
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "readback-client").symlink_to(CLIENT)
    for name in ("ai", "@types"):
        (tmp_path / "node_modules" / name).symlink_to(CLIENT / "node_modules" / name)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    contract = next(each for each in blocks(PAGE) if each.language == "python")
    (tmp_path / "shop.py").write_text(contract.text)
    programs = _programs()
    assert [each.notes["file"] for each, _ in programs] == ["ship.ts", "agent.ts"]
    with served(tmp_path) as url:
        for each, _ in programs:
            assert each.text.count(URL) == 1
            (tmp_path / each.notes["file"]).write_text(each.text.replace(URL, url))
        flags = "--strict --target ES2022 --module NodeNext --moduleResolution NodeNext --skipLibCheck --types node"
        names = [each.notes["file"] for each, _ in programs]
        done(CLIENT / "node_modules/.bin/tsc", *flags.split(), *names, cwd=tmp_path)
        for each, expected in programs:
            assert done("node", each.notes["file"].replace(".ts", ".js"), cwd=tmp_path) == expected
