"""`readback table`, and the table that the other commands decide by: given, from the environment, from the settings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from readback import AsyncReadback, Readback
from readback.canon.digest import sha256_hex
from readback.client.recovery_table import table_in_force
from readback.config import settings
from readback.contracts.documents.recovery_tables import table_yaml
from readback.domain.recovery.table import DEFAULT_TABLE, RecoveryTable
from readback.errors import SettingsError
from tests.cli.conftest import CONTRACTS, Desk
from tests.unit.test_recovery_tables import OWN, with_own

MINE = with_own(OWN)
BELOW = table_yaml(DEFAULT_TABLE).replace("id: RB-unknown\n", "id: OPS-9\n")
BELOW = BELOW.replace(
    "OPS-9\n    finding: unknown\n    action: keep_unknown\n", "OPS-9\n    finding: unknown\n    action: fail\n"
)


@pytest.fixture
def mine(desk: Desk) -> Path:
    file = desk.folder / "table.yaml"
    file.write_text(table_yaml(MINE), encoding="utf-8")
    return file


@pytest.fixture
def below(desk: Desk) -> Path:
    """A table that claims failure of what is unknown."""
    file = desk.folder / "below.yaml"
    file.write_text(BELOW, encoding="utf-8")
    return file


@pytest.fixture
def own() -> Iterator[Path]:
    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "readback"
    folder.mkdir(parents=True)
    file = folder / "config.toml"
    yield file
    file.unlink(missing_ok=True)
    folder.rmdir()


@pytest.mark.requirement("TABLE-show")
def test_the_table_that_is_shown_loads_again_to_the_same_version(desk: Desk) -> None:
    shown = desk("table", "show", code=0).out
    (desk.folder / "t.yaml").write_text(shown, encoding="utf-8")
    assert DEFAULT_TABLE.version in desk("table", "check", "t.yaml", code=0).out
    assert desk("table", "show", "--json", code=0).json["version"] == DEFAULT_TABLE.version
    assert desk("table", "show", "--table", "t.yaml", "--json", code=0).json["path"] == "t.yaml"


@pytest.mark.requirement("TABLE-show")
def test_a_table_that_is_given_is_shown_in_place_of_the_default_one(desk: Desk, mine: Path) -> None:
    shown = desk("table", "show", "--table", "table.yaml", "--json", code=0).json
    assert shown["version"] == MINE.version
    assert shown["rows"][0]["id"] == "OPS-1"
    assert "OPS-1" in desk("table", "show", "--table", "table.yaml", code=0).out


@pytest.mark.requirement("TABLE-check", "TABLE-faults")
def test_a_checked_table_is_told_as_sound_or_with_every_fault_and_its_place(
    desk: Desk, mine: Path, below: Path
) -> None:
    assert "total, and above the floor" in desk("table", "check", "table.yaml", code=0).out
    line = BELOW.splitlines().index("  - id: OPS-9") + 3
    told = desk("table", "check", "below.yaml", code=5)
    assert told.out.startswith(f"below.yaml:{line}:13: OPS-9 may not choose fail for unknown.")
    assert "1 fault: this table is not used." in told.err
    fault = desk("table", "check", "below.yaml", "--json", code=5).json["faults"][0]
    assert (fault["line"], fault["column"]) == (line, 13)
    below.write_text("rows: [\n", encoding="utf-8")
    assert desk("table", "check", "below.yaml", code=5).out.startswith("below.yaml:2:1: The file is not valid YAML")
    assert desk("table", "check", "none.yaml", "--json", code=5).json["error"]["code"] == "settings"


@pytest.mark.requirement("TABLE-version", "REC-RULE-version")
def test_an_action_is_decided_by_the_table_that_is_given_and_its_decision_says_so(desk: Desk, mine: Path) -> None:
    done = desk.ship("op-1", "--table", "table.yaml", code=0)
    shown = desk("show", done["id"], "--json", code=0).json["decision"]
    assert (shown["table"], shown["table_is_present_one"]) == (MINE.version, False)


@pytest.mark.requirement("TABLE-version")
def test_a_decision_is_explained_by_the_table_that_made_it(
    desk: Desk, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("READBACK_TABLE", str(mine))
    done = desk.ship("op-1", code=0)
    shown = desk("show", done["id"], "--json", code=0).json["decision"]
    assert (shown["table_is_present_one"], bool(shown["rationale"])) == (True, True)
    monkeypatch.setenv("READBACK_TABLE", "")
    assert not desk("show", done["id"], "--json", code=0).json["decision"]["table_is_present_one"]


@pytest.mark.requirement("TABLE-refused")
@pytest.mark.parametrize("command", [("run", "ship", "--contracts", CONTRACTS), ("resume",), ("list",)])
def test_a_table_below_the_floor_is_refused_before_anything_is_opened(
    desk: Desk, below: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("READBACK_TABLE", "below.yaml")
    told = desk(*command, "--json", code=5).json["error"]
    assert told["code"] == "settings"
    assert "OPS-9 may not choose fail for unknown" in told["message"]
    assert not desk.ledger.exists()


@pytest.mark.requirement("TABLE-refused")
def test_the_doctor_names_the_table_that_decides_here(desk: Desk, mine: Path, below: Path) -> None:
    findings = desk("doctor", "--json", "--table", "table.yaml").json["findings"]
    assert any("table.yaml" in one["said"] and MINE.version[:12] in one["said"] for one in findings)
    assert desk("doctor", "--json", "--table", "below.yaml").code == 5


# --- Python ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("TABLE-version", "TABLE-refused")
def test_python_takes_a_table_or_its_file_and_refuses_what_is_below_the_floor(
    desk: Desk, mine: Path, below: Path
) -> None:
    for given in (MINE, mine, str(mine)):
        with Readback.open("sqlite:///r.db", recovery_table=given) as rb:
            assert rb._session.engine.table.version == MINE.version
    for wrong in (RecoveryTable(()), below, "none.yaml"):
        with pytest.raises(SettingsError):
            Readback.open("sqlite:///never.db", recovery_table=wrong)
        with pytest.raises(SettingsError):
            AsyncReadback.open("sqlite:///never.db", recovery_table=wrong)
    assert not Path("never.db").exists()
    with Readback.open("sqlite:///r.db") as rb:
        assert rb._session.engine.table is DEFAULT_TABLE


# --- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("TABLE-trusted")
def test_the_users_own_file_may_name_a_table_beside_it(desk: Desk, own: Path) -> None:
    (own.parent / "mine.yaml").write_text(table_yaml(MINE), encoding="utf-8")
    try:
        own.write_text('recovery_table = "mine.yaml"\n', encoding="utf-8")
        assert settings().recovery_table == str(own.parent / "mine.yaml")
        assert table_in_force(None, settings()).version == MINE.version
        assert settings(recovery_table="").recovery_table == ""
    finally:
        (own.parent / "mine.yaml").unlink()


@pytest.mark.requirement("TABLE-trusted")
def test_a_table_that_the_working_folder_names_counts_only_where_its_own_hash_is_pinned(
    desk: Desk, mine: Path, own: Path
) -> None:
    local = desk.folder / "readback.toml"
    local.write_text('recovery_table = "table.yaml"\n', encoding="utf-8")
    assert settings().recovery_table == ""  # nobody pins the file that names it
    pins = f'[trusted]\n"{local}" = "{sha256_hex(local.read_bytes())}"\n'
    own.write_text(pins, encoding="utf-8")
    with pytest.raises(SettingsError, match="is not pinned"):
        settings()
    own.write_text(f'{pins}"{mine}" = "{sha256_hex(mine.read_bytes())}"\n', encoding="utf-8")
    assert table_in_force(None, settings()).version == MINE.version
    mine.write_text(table_yaml(DEFAULT_TABLE), encoding="utf-8")
    with pytest.raises(SettingsError, match="SHA-256 pinned in the settings"):
        table_in_force(None, settings())
    assert desk("list", "--json", code=5).json["error"]["code"] == "settings"


def test_a_pin_holds_whoever_names_the_table(desk: Desk, mine: Path, own: Path) -> None:
    own.write_text(f'[trusted]\n"{mine}" = "{"0" * 64}"\n', encoding="utf-8")
    assert desk("table", "show", "--table", "table.yaml", code=5).err
