"""The ledger-schema gate: kept ledgers, bundles and a reader of the last release, and declared changes."""

from __future__ import annotations

import gzip
import json
import shutil
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from readback import Readback
from readback.assurance.drills import ledger_schema as gate
from readback.assurance.gate_input import GateInput, VerificationLogic
from readback.assurance.results import Finding, Standing
from readback.cli.cli import main
from tests.ledger_schema.sample import write

KEPT = Path(__file__).parent / "kept"
LEDGERS = Path(__file__).parents[1] / "store" / "ledgers"
READER = KEPT / "readback-0.1.0-reader.whl"


def examined(*folders: Path) -> GateInput:
    return GateInput(VerificationLogic({}), kept=tuple(str(each) for each in folders))


def named(findings: tuple[Finding, ...]) -> Counter[str]:
    return Counter(each.code for each in findings)


@pytest.mark.requirement("GATE-ledger-compatibility", "SCHEMA-kept")
def test_kept_ledgers_and_bundles_open_verify_and_replay_and_the_last_reader_reads_new_entries() -> None:
    result = gate.ledger_schema(examined(KEPT, LEDGERS))
    assert result.standing is Standing.PASSED, [
        each for each in result.findings if each.standing is not Standing.PASSED
    ]
    assert named(result.findings) == {"schema.unchanged": 1, "schema.readable": 2, "schema.read-by-release": 1}
    assert (result.counts["ledgers"], result.counts["bundles"], result.counts["readers"]) == (1, 2, 1)
    assert result.counts["replayed"] > 10


@pytest.mark.requirement("SCHEMA-undeclared")
def test_a_change_without_a_declaration_fails_by_its_path_and_a_declared_one_passes() -> None:
    release = gate.last_release()
    planted = {**release.schema, "entry.judged.data.mood": "str"}
    planted.pop("kind.erased")
    (added, lost) = gate.compare(release, planted, Counter())
    assert [(each.code, each.standing, each.case) for each in (added, lost)] == [
        ("schema.undeclared", Standing.FAILED, "entry.judged.data.mood"),
        ("schema.undeclared", Standing.FAILED, "kind.erased"),
    ]
    declared = replace(release, declared={"entry.judged.data.mood": "A new field; older readers ignore the field."})
    codes = [each.code for each in gate.compare(declared, planted, Counter())]
    assert codes == ["schema.declared", "schema.undeclared"]
    stale = list(gate.compare(declared, release.schema, Counter()))
    assert [(each.code, each.standing) for each in stale] == [
        ("schema.stale-declaration", Standing.FAILED),
        ("schema.unchanged", Standing.PASSED),
    ]


@pytest.mark.requirement("SCHEMA-undeclared")
def test_the_schema_names_the_form_of_entries_and_repeats_exactly() -> None:
    schema = gate.schema_of_this()
    assert schema == gate.schema_of_this()
    assert schema["entry.judged.data.verdict"] == "str"
    assert schema["envelope.format"] == "1"
    assert len([path for path in schema if path.startswith("migration.sqlite.")]) >= 7
    assert len({path.split(".")[1] for path in schema if path.startswith("entry.")}) >= 14, "kinds of entries"


@pytest.mark.requirement("SCHEMA-reader")
def test_a_reader_that_cannot_read_new_entries_fails_unless_the_change_is_declared(tmp_path: Path) -> None:
    """The kept reader, without the kind of the sample's last entries: as if this release had added the kind."""
    older = tmp_path / "readback-0.0.9-reader.whl"
    with zipfile.ZipFile(READER) as whole, zipfile.ZipFile(older, "w") as less:
        for name in whole.namelist():
            data = whole.read(name)
            if name == "readback/domain/events.py":
                assert b'WATCHED = "watched"' in data
                data = data.replace(b'WATCHED = "watched"', b'WATCHED = "looked_later"')
            less.writestr(name, data)
    (finding,) = (each for each in gate._kept(tmp_path, gate.last_release(), Counter()))
    assert (finding.code, finding.standing, finding.case) == ("schema.unread", Standing.FAILED, older.name)
    release = replace(gate.last_release(), declared={f"reader.{older.name}": "It lacks watches."})
    (finding,) = (each for each in gate._kept(tmp_path, release, Counter()))
    assert (finding.code, finding.standing) == ("schema.declared", Standing.PASSED)


@pytest.mark.requirement("SCHEMA-kept")
def test_a_damaged_ledger_and_a_damaged_bundle_are_named(tmp_path: Path) -> None:
    ledger = tmp_path / "old.db"
    write(str(ledger))
    with Readback.open(f"sqlite:///{ledger}", tenant="acme", principal="agent:ops"):
        pass
    import apsw

    connection = apsw.Connection(str(ledger))
    triggers = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
    try:
        for name in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("UPDATE event SET at_us = at_us + 1 WHERE seq = 9")
    finally:
        connection.close()
    bundle = next(KEPT.glob("bundle-*.json"))
    (tmp_path / "torn.json").write_bytes(bundle.read_bytes().replace(b"agent:sample", b"agent:zample"))
    (tmp_path / "garbage.db").write_bytes(b"no ledger at all")
    found = {each.case: (each.code, each.standing) for each in gate.ledger_schema(examined(tmp_path)).findings}
    assert found["old.db"] == ("schema.not-verified", Standing.FAILED)
    assert found["garbage.db"] == ("schema.unreadable", Standing.FAILED)
    assert found[str(tmp_path)] == ("schema.not-replayed", Standing.UNDETERMINED)


@pytest.mark.requirement("SCHEMA-kept")
def test_a_missing_folder_of_kept_ledgers_decides_nothing(tmp_path: Path) -> None:
    result = gate.ledger_schema(examined(tmp_path / "none"))
    assert (result.standing, named(result.findings)["schema.no-kept"]) == (Standing.UNDETERMINED, 1)


@pytest.mark.requirement("SCHEMA-kept")
def test_the_command_reads_the_kept_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(LEDGERS / "november.db.gz", tmp_path)
    assert gzip.decompress((tmp_path / "november.db.gz").read_bytes())
    said = CliRunner().invoke(main, ["gates", "schema", "--kept", str(tmp_path), "--json"])
    assert said.exit_code == 0, said.output
    (one,) = json.loads(said.stdout)["gates"]
    assert {each["code"] for each in one["findings"]} == {"schema.unchanged", "schema.readable"}
