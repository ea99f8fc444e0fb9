"""A folder with contract files and the command line in it, under virtual time; and real systems beside it."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from readback import bootstrap
from readback.cli.cli import main
from readback.demo.systems.launch import Systems
from readback.testing.runtime_virtual import VirtualRuntime

SHOP = Path(__file__).parent / "shop.yaml"
TOKEN = "planted-token-5c1d7e"  # what must be seen nowhere


@dataclass(frozen=True, slots=True)
class Answer:
    """How one command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Office:
    """The working folder of one test."""

    folder: Path

    def __call__(self, *args: str, code: int | None = None) -> Answer:
        """One command in this process, with virtual time. `code`: what it has to end with."""
        result = CliRunner().invoke(main, list(args))
        answer = Answer(result.exit_code, result.stdout, result.stderr)
        assert code is None or answer.code == code, answer
        return answer

    def run(self, tool: str, *more: str, code: int | None = None, **arguments: object) -> Any:
        """`readback run --json` by the file `shop.yaml`; the outcome."""
        given = [part for name, value in arguments.items() for part in ("--arg", f"{name}={value}")]
        return self(
            "run", tool, "--contracts", "shop.yaml", "--tenant", "acme", "--json", *given, *more, code=code
        ).json

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def everything(self) -> bytes:
        """Every byte that the ledger has on the disk."""
        return b"".join(path.read_bytes() for path in sorted(self.folder.glob("readback.db*")))


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    folder = tmp_path / "office"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in [name for name in os.environ if name.startswith(("READBACK_", "GIT_", "COLUMNS"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    runtime = VirtualRuntime()
    monkeypatch.setattr(bootstrap, "runtime", lambda: runtime)
    shutil.copy(SHOP, folder / "shop.yaml")
    (folder / "notes").mkdir()
    with sqlite3.connect(folder / "book.db") as book:
        book.execute("create table entries (id text primary key, amount integer)")
    book.close()
    subprocess.run(["git", "init", "-q", "-b", "main", "work"], cwd=folder, check=True)
    return Office(folder)


@pytest.fixture(scope="module")
def running() -> Iterator[Systems]:
    with Systems(only=("orders", "mail")) as systems:
        yield systems


@pytest.fixture
def systems(running: Systems, office: Office, monkeypatch: pytest.MonkeyPatch) -> Iterator[Systems]:
    monkeypatch.setenv("SHOP_URL", running.orders_url)
    monkeypatch.setenv("SHOP_DB", str(running.db_path))
    monkeypatch.setenv("SHOP_TOKEN", TOKEN)
    monkeypatch.setenv("SMTP_PORT", str(running.smtp[1]))
    monkeypatch.setenv("IMAP_PORT", str(running.imap[1]))
    monkeypatch.setenv("MAIL_PASSWORD", running.mail_password)
    yield running
    running.clear_faults()
