"""A ledger of some three hundred real entries with its key, an older checkpoint and an export; copies to be spoiled."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import apsw
import pytest

from readback import bootstrap
from readback.testing.runtime_virtual import VirtualRuntime
from tests.cli.conftest import Desk
from tests.cli.conftest import desk as desk  # the fixture

NAME = "example.com/ledger"
ACTIONS = 60


@dataclass(frozen=True, slots=True)
class Made:
    """What lies in the folder: `readback.db`, `log.key`, `early` (a checkpoint), `export`."""

    folder: Path
    key: str
    early_size: int
    size: int
    ids: tuple[str, ...]
    """Of the actions, in the order in which they were begun."""


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Whoever uses it later has his own folder and settings again: nothing of this stays in force."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("evidence")
        patch.chdir(folder)
        patch.setenv("SHOP_FILE", str(folder / "shop.json"))
        patch.setenv("READBACK_SIGNING_KEY_FILE", str(folder / "log.key"))
        runtime = VirtualRuntime(seed=41)  # other ids than those of the desk that goes on with it
        patch.setattr(bootstrap, "runtime", lambda: runtime)
        desk = Desk(folder, runtime)
        key = desk("ledger", "keys", "create", "--name", NAME, code=0).out.strip()
        ids = [desk.ship(f"op-{n}", carrier=f"carrier-{n % 3}", code=0)["id"] for n in range(ACTIONS // 2)]
        early = desk("ledger", "checkpoint", "--out", "early", "--json", code=0).json
        ids += [desk.ship(f"op-{n}", carrier=f"carrier-{n % 3}", code=0)["id"] for n in range(ACTIONS // 2, ACTIONS)]
        size = desk("ledger", "export", "--tiles", "export", "--json", code=0).json["size"]
        assert size > 257
    return Made(folder, key, early["size"], size, tuple(ids))


@pytest.fixture
def at_hand(made: Made, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Made:
    """A copy of it all in the working folder of the desk, with the settings of whoever signs."""
    shutil.copytree(made.folder, desk.folder, dirs_exist_ok=True)
    monkeypatch.setenv("READBACK_SIGNING_KEY_FILE", str(desk.folder / "log.key"))
    return Made(desk.folder, made.key, made.early_size, made.size, made.ids)


@pytest.fixture
def by_hand(desk: Desk) -> Callable[..., None]:
    """SQL at a ledger, past everything that keeps it: what somebody does who may write the file."""

    def run(*statements: str) -> None:
        connection = apsw.Connection(str(desk.ledger))
        guards = [str(row[0]) for row in connection.execute("SELECT sql FROM sqlite_schema WHERE type = 'trigger'")]
        for trigger in ("event_is_never_changed", "event_is_never_removed"):
            connection.execute(f"DROP TRIGGER {trigger}")
        for statement in (*statements, *guards):
            connection.execute(statement)
        connection.close()

    return run
