"""`readback drill key` from the shell: what it says, and with which exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from readback import bootstrap
from readback.cli.cli import main
from readback.testing.runtime_virtual import VirtualRuntime


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRILL_FILE", str(tmp_path / "shelf.json"))
    monkeypatch.setenv("DRILL_HABIT", "honours")
    runtime = VirtualRuntime()
    monkeypatch.setattr(bootstrap, "runtime", lambda: runtime)
    return tmp_path / "shelf.json"


def drill(*args: str) -> Any:
    return CliRunner().invoke(main, ["drill", "key", "--contracts", "tests.drills.desk", *args])


@pytest.mark.requirement("TRUTH-keys-drill")
def test_a_tool_that_honours_its_key_ends_with_0(file: Path) -> None:
    said = drill("restock", "--arg", "n=3")
    assert (said.exit_code, said.stdout) == (0, "restock honours its key: two calls, one effect on stock/sandbox.\n")
    told = json.loads(drill("restock", "--arg", "n=3", "--json").stdout)
    assert (told["honours_key"], told["effects"], told["target"]) == (True, 1, "stock/sandbox")
    assert list(json.loads(file.read_text())) == ["sandbox"]


@pytest.mark.requirement("TRUTH-keys-drill")
@pytest.mark.parametrize(
    ("habit", "args", "code", "error"),
    [
        ("ignores", ["restock", "--arg", "n=3"], 1, "drill.two-effects"),
        ("dark", ["restock", "--arg", "n=3"], 3, "drill.undetermined"),
        ("honours", ["bare", "--arg", "n=3", "--arg", "sku=tea"], 5, "drill.refused"),
        ("honours", ["restock", "--arg", "n=3", "--arg", "sku=tea"], 5, "drill.refused"),
        ("honours", ["restock", "--arg", "n=three"], 2, "input.arguments"),
        ("honours", ["missing"], 2, "input.not-found"),
    ],
)
def test_every_other_end_has_a_code_of_its_own(
    file: Path, monkeypatch: pytest.MonkeyPatch, habit: str, args: list[str], code: int, error: str
) -> None:
    monkeypatch.setenv("DRILL_HABIT", habit)
    said = drill(*args, "--json")
    assert (said.exit_code, json.loads(said.stdout)["error"]["code"]) == (code, error), said.output
    if code in (2, 5):
        assert not file.exists(), "nothing was called"
