"""`readback gates` as a person and a runner use it: results, reports, the record, and the promotion."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from readback import Reading, __version__, action
from readback.assurance.recording import operation_of
from readback.assurance.reports.document import document_bytes, document_of, open_document, schema_text
from readback.assurance.reports.github import summary
from readback.assurance.results import GATES, Finding, GateResult, GatesReport, Place, Standing
from readback.cli.cli import Cli, main
from readback.cli.gates.group import COMMANDS
from tests.gates.conftest import Desk
from tests.gates.given import TEXT, edited, file_of

LOOSER = edited("authoritative.status == 'shipped'", "authoritative.status in ['shipped', 'packed']")
VALIDATOR = Draft202012Validator(json.loads(schema_text()))


class Said:
    """What a command answered."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Said]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run one command line in an empty folder, with a ledger of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("READBACK_URL", f"sqlite:///{tmp_path / 'own.db'}")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)

    def run(*arguments: str | Path, code: int | None = None) -> Said:
        assert isinstance(main, Cli)
        got = main.answer(["gates", *map(str, arguments)])
        out, err = capsys.readouterr()
        assert code is None or got == code, err + out
        return Said(got, out, err)

    return run


def inputs(desk: Desk, text: str = TEXT) -> list[str | Path]:
    file = file_of(desk.folder / "new", text)
    return ["--contracts", file, "--against", desk.file, "--history", desk.url]


# --- results -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("GATES-exit-codes")
def test_replay_and_diff_answer_by_exit_code(command: Command, gates_desk: Desk) -> None:
    assert command("replay", *inputs(gates_desk), code=0).out.startswith("✓ trace-replay: passed")
    assert command("diff", *inputs(gates_desk), code=0)
    said = command("replay", *inputs(gates_desk, LOOSER), code=1)
    assert "contracts.yaml:4:3: ship_order@1: 6 actions change from refuted" in said.out
    assert "[replay.changed-to-verified]" in said.out
    said = command("diff", *inputs(gates_desk, LOOSER), code=1)
    assert "ensure.shipped is looser" in said.out
    assert 'now true of: {"authoritative": {"status": "packed"}}' in said.out
    assert 'violated then, holds now, of {"authoritative.status": "packed"}' in said.out
    assert command("replay", *inputs(gates_desk), "--min-actions", "7", code=3).out
    assert command("replay", *inputs(gates_desk), "--tenant", "nobody", code=3).out
    assert command("replay", code=2).err
    assert "gates.history" in command("replay", *inputs(gates_desk)[:4], "--history", "nowhere", "--json", code=2).out


@pytest.mark.requirement("GATES-report-json")
def test_the_result_fits_its_schema_and_names_the_examined_hashes(command: Command, gates_desk: Desk) -> None:
    found = command("check", *inputs(gates_desk, LOOSER), "--json", code=1).json
    VALIDATOR.validate(found)
    assert [each["gate"] for each in found["gates"]] == [*GATES]
    assert found["package"] == __version__
    assert [*found["contracts"]] == ["ship_order@1"]
    assert found["inputs"]["against"] == str(gates_desk.file)
    with pytest.raises(Exception, match="'maybe' is not one of"):
        VALIDATOR.validate({**found, "standing": "maybe"})
    assert command("report-schema", code=0).out == schema_text()


@pytest.mark.requirement("GATES-check-all")
def test_check_runs_all_eight_gates_in_order_and_only_the_named_ones_on_request(
    command: Command, gates_desk: Desk
) -> None:
    found = command("check", *inputs(gates_desk), "--only", "predicate-diff,trace-replay", "--json", code=0).json
    assert [each["gate"] for each in found["gates"]] == ["trace-replay", "predicate-diff"]
    assert "does not know" in command("check", *inputs(gates_desk), "--only", "all", code=2).err


@pytest.mark.requirement("GATES-undetermined")
def test_a_contract_that_does_not_compile_is_refused_with_its_place(command: Command, gates_desk: Desk) -> None:
    broken = edited("authoritative.status == 'shipped'", "authoritative.status = 'shipped'")
    said = command("check", *inputs(gates_desk, broken), "--out", "gates", code=5)
    assert "contracts.yaml:25:" in said.err
    assert not Path("gates").exists()


@pytest.mark.requirement("GATES-history")
def test_bundles_of_another_schema_are_refused_and_named(command: Command, gates_desk: Desk) -> None:
    command("capture", "--from", gates_desk.url, "--out", "corpus", code=0)
    file = next(each for each in Path("corpus").glob("*.json") if each.name != "corpus.json")
    file.write_text(file.read_text(encoding="utf-8").replace("replay-bundle/1", "replay-bundle/9"), encoding="utf-8")
    said = command("replay", *inputs(gates_desk)[:4], "--history", "corpus", "--json", code=2).json
    assert said["error"]["code"] == "gates.history-schema"
    assert "replay-bundle/9" in said["error"]["message"]


@pytest.mark.requirement("GATES-against")
def test_a_password_in_an_address_stands_in_no_result_and_no_error(command: Command, gates_desk: Desk) -> None:
    address = "postgresql://me:hush-hush@127.0.0.1:1/ledger"
    said = command("diff", *inputs(gates_desk)[:2], "--against", address, "--json", code=2)
    assert "hush-hush" not in said.out + said.err
    assert said.json["error"]["code"] == "gates.against-unusable"


# --- reports -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("GATES-report-junit")
def test_junit_has_a_suite_a_gate_and_undetermined_is_skipped_with_its_reason(
    command: Command, gates_desk: Desk
) -> None:
    command("check", *inputs(gates_desk, LOOSER), "--format", "text,junit", "--out", "gates", code=1)
    root = ElementTree.parse("gates/junit.xml").getroot()
    assert [each.get("name") for each in root] == [*GATES]
    replayed = root[0]
    assert int(replayed.get("failures", "0")) == len(replayed.findall("testcase/failure")) > 0
    assert any("ship_order@1" in str(each.get("name")) for each in replayed.findall("testcase"))
    command("check", *inputs(gates_desk), "--min-actions", "7", "--format", "junit", "--out", "again", code=None)
    skipped = ElementTree.parse("again/junit.xml").getroot()[0].findall("testcase/skipped")
    assert skipped
    assert all("at least 7 actions" in str(each.get("message")) for each in skipped)


@pytest.mark.requirement("GATES-report-sarif")
def test_sarif_points_at_file_line_and_column_of_the_contract(command: Command, gates_desk: Desk) -> None:
    command("check", *inputs(gates_desk, LOOSER), "--format", "sarif", "--out", "gates", code=1)
    log = json.loads(Path("gates/readback.sarif").read_text(encoding="utf-8"))
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"]
    assert [each["id"] for each in driver["rules"]] == [*GATES]
    for result in run["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in {"error", "warning", "note"}
        assert result["message"]["text"]
        assert set(result["partialFingerprints"]) == {"readbackFinding/v1"}
    (found,) = [each for each in run["results"] if each["properties"]["code"] == "diff.postcondition"]
    place = found["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "new/contracts.yaml"
    assert place["region"] == {"startLine": 25, "startColumn": 7}
    prints = [each["partialFingerprints"]["readbackFinding/v1"] for each in run["results"]]
    assert len(set(prints)) == len(prints)


@pytest.mark.requirement("GATES-report-github")
def test_github_gets_a_summary_with_the_matrix_and_annotations(
    command: Command, gates_desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(gates_desk.folder / "summary.md"))
    said = command("replay", *inputs(gates_desk, LOOSER), "--format", "github", code=1)
    text = (gates_desk.folder / "summary.md").read_text(encoding="utf-8")
    assert "| recorded \\ candidate | refuted | undetermined | verified |" in text
    assert "| refuted | 10 | 0 | **6** |" in text
    assert "replay.changed-to-verified" not in text.split("### Worst")[0]
    lines = said.out.splitlines()
    assert lines[0].startswith(
        "::error file=new/contracts.yaml,line=4,col=3,title=trace-replay%3A replay.changed-to-verified::"
    )


# --- the record and the promotion ----------------------------------------------------------------------------------


def passing(report: GatesReport, **standings: Standing) -> GatesReport:
    """The report as if every gate had passed, but for the named ones."""
    gates = tuple(GateResult(name, standings.get(name.replace("-", "_"), Standing.PASSED)) for name in GATES)
    return GatesReport(report.schema, report.package, report.contracts, report.table, gates)


def written(folder: Path, report: GatesReport) -> Path:
    file = folder / "passed.json"
    file.write_bytes(document_bytes(document_of(report, {})))
    return file


@pytest.fixture
def checked(command: Command, gates_desk: Desk) -> GatesReport:
    command("check", *inputs(gates_desk), "--out", "gates", code=None)
    return open_document(Path("gates/result.json").read_bytes())[0]


@pytest.mark.requirement("GATES-promote")
def test_exactly_the_examined_logic_may_be_released(command: Command, gates_desk: Desk, checked: GatesReport) -> None:
    file = written(gates_desk.folder, passing(checked))
    said = command("promote", file, "--contracts", gates_desk.file, "--unrecorded", code=0)
    assert said.out.startswith("May be released: 1 contracts")


@pytest.mark.requirement("GATES-promote")
def test_another_contract_table_or_package_is_refused_by_name(
    command: Command, gates_desk: Desk, checked: GatesReport
) -> None:
    file = written(gates_desk.folder, passing(checked))
    other = file_of(gates_desk.folder / "other", LOOSER)
    found = command("promote", file, "--contracts", other, "--unrecorded", "--json", code=1).json
    assert [each["code"] for each in found["refusals"]] == ["promote.contract"]
    assert found["promote"] is False
    report = passing(GatesReport(checked.schema, "0.0.1", checked.contracts, "0" * 64, ()))
    found = command(
        "promote", written(gates_desk.folder, report), "--contracts", gates_desk.file, "--unrecorded", "--json", code=1
    ).json
    assert [each["code"] for each in found["refusals"]] == ["promote.package", "promote.table"]


@pytest.mark.requirement("GATES-promote")
@pytest.mark.parametrize("gate", GATES)
def test_a_failed_gate_refuses_and_an_undetermined_one_refuses_where_it_must_pass(
    command: Command, gates_desk: Desk, checked: GatesReport, gate: str
) -> None:
    name = gate.replace("-", "_")
    failed = written(gates_desk.folder, passing(checked, **{name: Standing.FAILED}))
    command("promote", failed, "--contracts", gates_desk.file, "--unrecorded", code=1)
    open_ = written(gates_desk.folder, passing(checked, **{name: Standing.UNDETERMINED}))
    must = gate in {"trace-replay", "canary", "failure-injection", "ledger-schema"}
    command("promote", open_, "--contracts", gates_desk.file, "--unrecorded", code=3 if must else 0)


@pytest.mark.requirement("GATES-promote")
def test_a_gate_that_did_not_run_refuses(command: Command, gates_desk: Desk, checked: GatesReport) -> None:
    whole = passing(checked)
    report = GatesReport(whole.schema, whole.package, whole.contracts, whole.table, whole.gates[:-1])
    said = command(
        "promote", written(gates_desk.folder, report), "--contracts", gates_desk.file, "--unrecorded", code=3
    )
    assert "unknown-state did not run" in said.out


@pytest.mark.requirement("GATES-promote")
def test_an_edited_result_is_no_result(command: Command, gates_desk: Desk, checked: GatesReport) -> None:
    file = Path("gates/result.json")
    file.write_text(file.read_text(encoding="utf-8").replace('"failed"', '"passed"').replace("undetermined", "passed"))
    said = command("promote", file, "--contracts", gates_desk.file, "--json", code=2).json
    assert said["error"]["code"] == "gates.result"
    file.write_text("{}", encoding="utf-8")
    said = command("promote", file, "--contracts", gates_desk.file, "--json", code=2).json
    assert said["error"]["code"] == "gates.result-schema"


@pytest.mark.requirement("GATES-record")
def test_the_result_is_a_verified_entry_of_the_ledger_and_promotion_demands_it(
    command: Command, gates_desk: Desk, checked: GatesReport
) -> None:
    from readback import Readback

    with Readback.open(tenant="default") as rb:
        (entry,) = rb.list(contract="readback.gates_result")
    assert entry.verified
    found = command("promote", "gates/result.json", "--contracts", gates_desk.file, "--json").json
    assert not [each for each in found["refusals"] if each["gate"] == "promotion"]
    other = written(gates_desk.folder, passing(checked))
    found = command("promote", other, "--contracts", gates_desk.file, "--json", code=1).json
    assert [each["code"] for each in found["refusals"]] == ["promote.unrecorded"]
    sha256 = json.loads(Path(other).read_bytes())["sha256"]
    with Readback.open(tenant="default") as rb:  # an agent's own contract under the name of the record
        assert rb.run(forged()("gates", sha256, "", "passed", {}), operation=operation_of(sha256)).verified
    found = command("promote", other, "--contracts", gates_desk.file, "--json", code=1).json
    assert [each["code"] for each in found["refusals"]] == ["promote.unrecorded"]
    assert "another contract of the same name" in found["refusals"][0]["message"]


def forged() -> Any:
    """A contract with the name and the arguments of the record, and without the file."""

    def write(folder: str, sha256: str, content_sha256: str, standing: str, examined: dict[str, Any]) -> object:
        return {"written": 1}

    def read(folder: str, sha256: str, content_sha256: str, standing: str, examined: dict[str, Any]) -> Reading:
        return Reading.of({"sha256": sha256})

    made = action(
        name="readback.gates_result",
        kind="set",
        side_effect="low_risk_internal",
        target="gates-result/{requested.sha256}",
        identity={"target": "authoritative.sha256", "tenant": "not_offered"},
        ensure={"sha256": "authoritative.sha256 == requested.sha256"},
    )(write)
    made.read(source="itself", consistency="strong", independence="other_client", attributes=True)(read)
    return made


@pytest.mark.requirement("GATES-record")
def test_with_a_key_of_the_log_a_signed_copy_of_the_record_replaces_the_ledger(
    command: Command, gates_desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert isinstance(main, Cli)
    key = gates_desk.folder / "log.key"
    assert main.answer(["ledger", "keys", "create", "--key-file", str(key), "--name", "example.org/log"]) == 0
    public = capsys.readouterr().out.strip()
    monkeypatch.setenv("READBACK_SIGNING_KEY_FILE", str(key))
    command("check", *inputs(gates_desk), "--out", "gates", code=None)
    monkeypatch.delenv("READBACK_SIGNING_KEY_FILE")
    (gates_desk.folder / "own.db").unlink()
    assert main.answer(["replay", "gates/record.bundle.json", "--key", public]) == 0
    capsys.readouterr()
    arguments = ["--contracts", gates_desk.file, "--record", "gates/record.bundle.json"]
    found = command("promote", "gates/result.json", *arguments, "--key", public, "--json").json
    assert not [each for each in found["refusals"] if each["gate"] == "promotion"]
    command("promote", "gates/result.json", *arguments, code=2)
    report, _ = open_document(Path("gates/result.json").read_bytes())
    other = written(gates_desk.folder, passing(report))
    found = command("promote", other, *arguments, "--key", public, "--json", code=1).json
    assert [each["message"] for each in found["refusals"]] == ["The bundle records another result."]


@pytest.mark.requirement("GATES-record")
def test_an_unsigned_copy_of_the_record_counts_for_nothing(
    command: Command, gates_desk: Desk, checked: GatesReport, capsys: pytest.CaptureFixture[str]
) -> None:
    assert isinstance(main, Cli)
    key = gates_desk.folder / "log.key"
    assert main.answer(["ledger", "keys", "create", "--key-file", str(key), "--name", "example.org/log"]) == 0
    public = capsys.readouterr().out.strip()
    arguments = ["--contracts", gates_desk.file, "--record", "gates/record.bundle.json", "--key", public]
    found = command("promote", "gates/result.json", *arguments, "--json").json
    assert "promote.unsigned" in {each["code"] for each in found["refusals"]}
    assert found["promote"] is False


# --- the corpus ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("GATES-capture")
def test_a_corpus_holds_so_many_actions_of_each_cell_and_replays_alone(command: Command, gates_desk: Desk) -> None:
    found = command("capture", "--from", gates_desk.url, "--out", "corpus", "--per-cell", "5", "--json", code=0).json
    assert {(each["verdict"], each["discrepancy"]): (each["seen"], each["written"]) for each in found["cells"]} == {
        ("verified", ""): (8, 5),
        ("refuted", "value_mismatch"): (6, 5),
        ("refuted", "target_missing"): (5, 5),
        ("refuted", "wrong_target_modified"): (5, 5),
    }
    Path(gates_desk.url.removeprefix("sqlite:///")).unlink()
    arguments = [*inputs(gates_desk)[:4], "--history", "corpus"]
    said = command("replay", *arguments, "--json", code=0).json
    assert said["gates"][0]["counts"]["judged"] == 20
    assert command("replay", *[*inputs(gates_desk, LOOSER)[:4], "--history", "corpus"], code=1)


@pytest.mark.requirement("GATES-capture")
def test_a_corpus_goes_into_an_empty_folder_alone_and_is_private(command: Command, gates_desk: Desk) -> None:
    command("capture", "--from", gates_desk.url, "--out", "corpus", code=0)
    assert {oct(each.stat().st_mode & 0o777) for each in Path("corpus").iterdir()} == {"0o600"}
    said = command("capture", "--from", gates_desk.url, "--out", "corpus", "--json", code=2).json
    assert "not empty" in said["error"]["message"]
    assert command("capture", "--from", "missing.db", "--out", "two", code=None).code != 0
    assert not Path("two").exists()


@pytest.mark.requirement("GATES-undetermined")
def test_a_damaged_bundle_is_named_and_undetermined(command: Command, gates_desk: Desk) -> None:
    command("capture", "--from", gates_desk.url, "--out", "corpus", code=0)
    file = next(each for each in Path("corpus").glob("*.json") if each.name != "corpus.json")
    file.write_bytes(file.read_bytes().replace(b"post", b"rail"))
    said = command("replay", *inputs(gates_desk)[:4], "--history", "corpus", code=3)
    assert f"The record of {file.name} cannot be used" in said.out


def test_every_command_has_a_help_text() -> None:
    for name in COMMANDS:
        assert CliRunner().invoke(main, ["gates", name, "--help"]).exit_code == 0


def test_a_place_that_is_no_folder_is_refused_before_the_gates(command: Command, gates_desk: Desk) -> None:
    said = command("check", *inputs(gates_desk), "--out", gates_desk.file, code=2)
    assert "cannot be made" in said.err
    assert "--out" in said.err


def test_proposals_replace_no_reasons_of_a_person(command: Command, gates_desk: Desk) -> None:
    only = ("--only", "trace-replay,predicate-diff", "--no-record", "--out", "gates")
    command("check", *inputs(gates_desk, LOOSER), *only, code=1)
    place = Path("gates/acknowledgements.yaml")
    first, *others = place.read_text(encoding="utf-8").split("\n  - ")
    mine = "\n  - ".join([first, *others[:1]]).replace('reason: ""', 'reason: "By Ada."')
    place.write_text(mine, encoding="utf-8")
    command("check", *inputs(gates_desk, LOOSER), *only, "--acknowledge", place, code=1)
    assert place.read_text(encoding="utf-8") == mine
    assert 'reason: ""' in Path("gates/acknowledgements-2.yaml").read_text(encoding="utf-8")


@pytest.mark.requirement("GATES-capture")
def test_a_corpus_without_some_of_its_bundles_or_with_copies_is_no_pass(command: Command, gates_desk: Desk) -> None:
    command("capture", "--from", gates_desk.url, "--out", "corpus", code=0)
    index = json.loads(Path("corpus/corpus.json").read_bytes())
    bundles = sorted(each for each in Path("corpus").glob("*.json") if each.name != "corpus.json")
    assert [each.stem for each in bundles] == sorted(index["actions"])
    one = bundles[0].read_bytes()
    Path("copies").mkdir()
    for number in range(5):
        Path("copies", f"{number}.json").write_bytes(one)
    said = command("replay", gates_desk.file, "--history", "copies", code=3)
    assert "has 1 of at least 5 actions" in said.out
    for each in bundles[1:]:
        each.unlink()
    Path("corpus/corpus.json").write_text(json.dumps(index | {"actions": [bundles[0].stem], "refused": {"x": "lost"}}))
    assert "not captured: lost" in command("replay", gates_desk.file, "--history", "corpus", code=3).out
    Path("corpus/corpus.json").write_text(json.dumps(index))
    assert "the bundle is missing" in command("replay", gates_desk.file, "--history", "corpus", code=3).out


@pytest.mark.requirement("GATES-capture")
def test_a_whole_cell_cannot_be_taken_out_of_a_corpus(command: Command, gates_desk: Desk) -> None:
    command("capture", "--from", gates_desk.url, "--out", "corpus", code=0)
    command("replay", gates_desk.file, "--history", "corpus", code=0)
    for each in Path("corpus").glob("*.json"):
        if b"refuted" in each.read_bytes() and each.name != "corpus.json":
            each.unlink()
    command("replay", gates_desk.file, "--history", "corpus", code=3)


def test_a_files_name_is_plain_text_in_the_summary() -> None:
    place = Place("a|<img src=x>`\n::error::b.yaml", 1, 2)
    finding = Finding("trace-replay", "replay.x", Standing.FAILED, "Changed.", place=place)
    gate = GateResult("trace-replay", Standing.FAILED, (finding,))
    text = summary(GatesReport(1, __version__, {}, "0" * 64, (gate,)))
    assert "<img" not in text
    assert not [each for each in text.splitlines() if each.startswith("::")]
