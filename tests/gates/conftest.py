"""A contract file in force, and the ledger of its actions, made once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from readback.assurance.gate_input import CELL_MIN, GateInput, VerificationLogic
from readback.assurance.history.recorded import history_of
from readback.assurance.logic import candidate_of, incumbent_of
from tests.gates.given import TEXT, file_of, honest, ledger, other_tenant, packed, silent

MANY = {honest: 8, packed: 6, silent: 5, other_tenant: 5}


class Desk(NamedTuple):
    """The file in force, the ledger, and a folder for candidates."""

    file: Path
    url: str
    folder: Path

    def candidate(self, text: str = TEXT, table: str = "") -> VerificationLogic:
        return candidate_of([str(file_of(self.folder / "new", text))], table)

    def given(self, text: str = TEXT, *, table: str = "", cell_min: int = CELL_MIN) -> GateInput:
        candidate = self.candidate(text, table)
        incumbent = incumbent_of(str(self.file), candidate, ())
        return GateInput(candidate, incumbent, history_of(self.url), cell_min)


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gates")
    ledger(folder / "ledger.db", file_of(folder / "old"), MANY)
    return folder


@pytest.fixture
def gates_desk(made_once: Path, tmp_path: Path) -> Desk:
    shutil.copy(made_once / "ledger.db", tmp_path / "ledger.db")
    return Desk(file_of(tmp_path / "old"), f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path)
