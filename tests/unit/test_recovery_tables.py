"""Recovery tables as YAML: what is written loads again, and every fault is named with its line and column."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from readback.canon.digest import sha256_hex
from readback.contracts.documents.recovery_tables import (
    ROWS_MAX,
    TABLE_MAX_BYTES,
    load_table,
    parsed,
    read_table,
    table_json,
    table_yaml,
)
from readback.domain.finding import Finding
from readback.domain.recovery.row import Condition
from readback.domain.recovery.rule import DOMAINS
from readback.domain.recovery.table import DEFAULT_TABLE, RecoveryAction, RecoveryTable, Reversal, Row
from readback.domain.side_effect import SideEffect
from readback.errors import SettingsError

pytestmark = pytest.mark.slow

HEAD = "apiVersion: readback/v1\nkind: RecoveryTable\nrows:\n"
OWN = Row("OPS-1", Finding.UNKNOWN, ({},), RecoveryAction.HOLD_AND_ESCALATE, "Ours", "A person decides.", ours=True)


def with_own(*rows: Row) -> RecoveryTable:
    """The default table with rows of one's own in place of those for their findings."""
    mine = {row.finding for row in rows}
    return RecoveryTable((*rows, *(row for row in DEFAULT_TABLE.rows if row.finding not in mine)))


def faults(text: str | bytes) -> list[tuple[int, int, str]]:
    table, found = parsed(text.encode() if isinstance(text, str) else text)
    assert table is None
    return [(one.line, one.column, one.said) for one in found]


@pytest.mark.requirement("TABLE-yaml", "REC-RULE-version")
@pytest.mark.parametrize("table", [DEFAULT_TABLE, with_own(OWN)], ids=["the default one", "one of its own"])
def test_a_table_that_is_written_loads_again_to_the_same_rows_and_version(table: RecoveryTable) -> None:
    again, found = parsed(table_yaml(table).encode())
    assert found == ()
    assert again is not None
    assert again.rows == table.rows
    assert again.version == table.version


def test_tables_that_differ_have_versions_that_differ() -> None:
    assert with_own(OWN).version != DEFAULT_TABLE.version
    assert with_own(OWN).version == with_own(OWN).version


@pytest.mark.requirement("TABLE-yaml")
def test_a_row_may_be_written_shortly() -> None:
    rest = table_yaml(RecoveryTable(tuple(row for row in DEFAULT_TABLE.rows if row.finding is not Finding.UNKNOWN)))
    short = f"{rest}  - {{id: A, finding: unknown, action: retry_verification, when: {{within_window: true}}}}\n"
    table, found = parsed(f"{short}  - {{id: B, finding: unknown, action: hold_and_escalate}}\n".encode())
    assert found == ()
    assert table is not None
    row, last = table.rows[-2:]
    assert (row.when, row.label, row.rationale, row.ours) == (({"within_window": (True,)},), "Unknown", "", True)
    assert last.when == ({},)


@pytest.mark.requirement("TABLE-faults")
def test_all_faults_are_named_at_once_each_where_it_stands() -> None:
    text = (
        "apiVersion: readback/v2\n"
        "kind: RecoveryTable\n"
        "metdata: {}\n"
        "rows:\n"
        "  - id: A\n"
        "    finding: unknwn\n"
        "    action: fail\n"
        "    when: {dead: maybe, mood: 1}\n"
        "  - id: B\n"
        "    id: C\n"
        "    finding: unknown\n"
        "    action: accept\n"
        "  - id: REC-99\n"
        "    finding: unknown\n"
        "    action: retry_same_key\n"
        "    when: []\n"
        "  - just text\n"
    )
    assert [(line, column, said.split(".")[0]) for line, column, said in faults(text)] == [
        (1, 13, "The apiVersion of a recovery table is readback/v1"),
        (3, 1, "A recovery table has an unknown key 'metdata'"),
        (6, 14, "'unknwn' is not a finding"),
        (8, 18, "'maybe' is not a value of dead"),
        (8, 25, "A condition has an unknown key 'mood'"),
        (10, 5, "id is given twice"),
        (16, 11, "`when` is empty, so the row could never apply"),
        (17, 5, "A row must be a mapping of id, finding, when, action, label, rationale"),
    ]


@pytest.mark.requirement("TABLE-faults", "TABLE-floor")
def test_what_a_well_formed_table_may_not_say_is_named_where_it_is_said() -> None:
    text = table_yaml(DEFAULT_TABLE)
    lines = text.splitlines()
    at = lines.index("  - id: RB-unknown")
    lines[at : at + 3] = ["  - id: OPS-1", "    finding: unknown", "    action: fail"]
    assert faults("\n".join(lines)) == [
        (
            at + 3,
            13,
            "OPS-1 may not choose fail for unknown. Unknown is neither success nor failure: it is looked at again or "
            "kept; of high impact a person decides.",
        )
    ]
    gone = lines.index("  - id: RB-verified")
    del lines[gone : gone + 5]
    told = faults("\n".join(lines))
    assert [said.split(".")[0] for _, _, said in told] == [
        "verified has no row for any situation",
        "OPS-1 may not choose fail for unknown",
    ]
    assert told[0][:2] == (6, 3)  # where the rows begin


@pytest.mark.requirement("TABLE-floor")
def test_a_row_of_the_specification_goes_on_meaning_what_it_means_there() -> None:
    text = HEAD + "  - {id: REC-15, finding: unverifiable, action: hold_and_escalate}\n"
    said = "REC-15 stands for report_unverified for unverifiable. Give your own row another id."
    assert (4, 10, said) in faults(text)
    again = faults(HEAD + "  - {id: REC-77, finding: unknown, action: keep_unknown}\n")
    assert again[0][2].startswith("REC-77 is not a row of the specification")


def test_a_doubled_row_says_where_the_first_one_stands() -> None:
    row = "  - {id: A, finding: unknown, action: keep_unknown}\n"
    assert (5, 10, "A is given twice, first on line 4.") in faults(HEAD + row + row)


@pytest.mark.requirement("TABLE-faults")
@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        (b"", (1, 1), "must be a mapping of"),
        (b"[]", (1, 1), "must be a mapping of"),
        (b"rows: 7", (1, 7), "The rows must be a list"),
        (b"\xff\xfe", (1, 1), "not UTF-8"),
        (b"rows:\n  - \xe4", (2, 5), "not UTF-8"),
        (b"kind: \x07", (1, 7), "character forbidden in YAML"),
        (b"a: &x 1\nb: *x", (1, 4), "Anchors and aliases"),
        (b"rows: *x", (1, 7), "Anchors and aliases"),
        (b"rows: !!python/object/apply:os.system [ls]", (1, 7), "Tags are not allowed"),
        (b"rows: !own x", (1, 7), "Tags are not allowed"),
        (b"[" * 1000, (1, 17), "nested more than 16 levels deep"),
        (b"rows: [", (1, 8), "is not valid YAML"),
        (b'kind: "\\U00110000"', (1, 10), "is not valid YAML"),
        (b'kind: "\\udfff"', (1, 7), "The text has half a character"),
        (b"\tkind: x", (1, 1), "is not valid YAML"),
        (b"kind: x\n---\nkind: y", (2, 1), "another document"),
        (b"kind: 7", (1, 7), "kind must be text"),
        (b"metadata: {name: [1]}", (1, 18), "name must be text"),
        (b"rows: [{id: '7 x', finding: unknown, action: fail}]", (1, 13), "is not an id"),
        (b"rows: [{id: A, finding: unknown, action: fail, label: ''}]", (1, 55), "label must be text"),
        (b'rows: [{id: A, finding: unknown, action: fail, label: "a\\nb"}]', (1, 55), "label must be one line"),
        (b"rows: [{id: A, finding: unknown, action: fail, when: 7}]", (1, 54), "`when` must be a condition"),
        (b"rows: [{id: A, finding: unknown, action: fail, when: {dead: []}}]", (1, 61), "has no value"),
        (b"rows: [{id: A, finding: unknown, action: fail, when: {dead: [true, true]}}]", (1, 61), "one value twice"),
        (b"rows: [{id: A, finding: unknown, action: fail, when: {dead: 'true'}}]", (1, 61), "not a value of dead"),
        (b"rows: [{id: A, finding: unknown, action: fail, when: {dead: yes}}]", (1, 61), "not a value of dead"),
        (b"rows: [{id: A, finding: unknown, action: fail, when: {dead: {a: 1}}}]", (1, 61), "not a value of dead"),
        (b"rows: [{? [a, b] : 1}]", (1, 11), "A row has an unknown key None"),
        (b"rows: [{<<: {id: A}}]", (1, 9), "A row has an unknown key '<<'"),
    ],
)
def test_what_is_no_table_is_refused_where_it_goes_wrong(text: bytes, place: tuple[int, int], said: str) -> None:
    found = [one for one in faults(text) if said in one[2]]
    assert found, faults(text)
    assert found[0][:2] == place


def test_more_rows_than_a_table_has_are_not_read() -> None:
    rows = "".join(f"  - {{id: A{n}, finding: unknown, action: keep_unknown}}\n" for n in range(ROWS_MAX + 1))
    assert faults(HEAD + rows) == [(4, 3, f"There are more than {ROWS_MAX} rows.")]


def test_a_file_is_loaded_or_refused_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "table.yaml"
    file.write_text(table_yaml(with_own(OWN)), encoding="utf-8")
    assert load_table(file).version == with_own(OWN).version
    assert load_table(file, pin=sha256_hex(file.read_bytes())).row("OPS-1") == OWN
    with pytest.raises(SettingsError, match="does not match the SHA-256"):
        load_table(file, pin="0" * 64)
    file.write_text(HEAD + "  - {id: A, finding: unknown, action: accept}\n", encoding="utf-8")
    with pytest.raises(SettingsError) as refused:
        load_table(file)
    problems = refused.value.details["problems"]
    assert isinstance(problems, list)
    assert f"{file}:4:39: A makes a success of unknown." in problems
    assert len(problems) == len(Finding)  # each other finding has no row


def test_a_file_that_is_not_there_or_too_large_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        read_table(str(tmp_path / "none.yaml"))
    with pytest.raises(SettingsError, match="directory"):
        read_table(str(tmp_path))
    with pytest.raises(SettingsError, match="cannot be read"):
        read_table("a\0b")
    os.mkfifo(tmp_path / "pipe")
    assert read_table(str(tmp_path / "pipe")) == b""  # and nobody waits for somebody to write into it
    (tmp_path / "large.yaml").write_bytes(b"#" * (TABLE_MAX_BYTES + 1))
    with pytest.raises(SettingsError, match=f"exceeds {TABLE_MAX_BYTES} bytes"):
        read_table(str(tmp_path / "large.yaml"))


def test_a_table_as_data_says_what_each_row_entails() -> None:
    said = table_json(DEFAULT_TABLE)
    assert said["version"] == DEFAULT_TABLE.version
    rows = said["rows"]
    assert isinstance(rows, list)
    wrong = next(row for row in rows if isinstance(row, dict) and row["id"] == "REC-14")
    assert (wrong["freezes"], wrong["opens_incident"], wrong["ours"]) == (True, True, False)
    assert all(name in DOMAINS for row in rows if isinstance(row, dict) for when in row["when"] for name in when)  # type: ignore[union-attr]


@pytest.mark.requirement("REC-RULE-version")
@pytest.mark.parametrize("action", [RecoveryAction.KEEP_UNKNOWN, RecoveryAction.REPORT_UNVERIFIED])
@pytest.mark.parametrize("side_effect", [SideEffect.HIGH_RISK_EXTERNAL, SideEffect.CRITICAL_MUTATION])
@pytest.mark.parametrize("reversal", Reversal)
def test_no_file_loads_that_leaves_a_timeout_of_high_impact_unknown_without_a_person(
    tmp_path: Path, reversal: Reversal, side_effect: SideEffect, action: RecoveryAction
) -> None:
    condition: Condition = {"side_effect": (side_effect,), "reversible": (reversal,), "effect_shown": (False,)}
    condition = {**condition, "pivot_passed": (False,), "maybe_stale": (False,), "key_record": (False,)}
    row = Row("OPS-2", Finding.VERIFICATION_TIMEOUT, (condition,), action, "Ours", "Nobody is asked.", ours=True)
    file = tmp_path / "table.yaml"
    file.write_text(table_yaml(RecoveryTable((row, *DEFAULT_TABLE.rows))), encoding="utf-8")
    with pytest.raises(SettingsError) as refused:
        load_table(file)
    problems = refused.value.details["problems"]
    assert isinstance(problems, list)
    assert any("OPS-2" in str(one) and "Its final state is unknown" in str(one) for one in problems), problems
