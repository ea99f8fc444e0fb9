"""`readback import`: what another system said is evidence, and a file that breaks its own format is refused."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from readback.agent_errors import ForeignFileError
from readback.cli.checks.import_files import KINDS
from readback.cli.cli import main
from readback.decisions.interop.decision_files import import_drift, import_envelope, import_episode
from readback.decisions.interop.delegation_files import EVENTS, import_hook, import_tool
from readback.decisions.interop.imported import import_claims
from readback.decisions.model.seals import sealed
from readback.domain.verdict import Verdict, Why
from readback.traces.format.fault import RUN_FILE_MAX_BYTES
from tests.citations.forging import honest
from tests.decisions.given import ABSENT, CORPUS, schema

DEEPSIGMA = CORPUS / "deepsigma"


def asked(kind: str, file: Path) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(main, ["import", kind, str(file), "--json"])
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return result.exit_code, found


def reasons(error: ForeignFileError) -> dict[str, str]:
    problems = error.details["problems"]
    assert isinstance(problems, list)
    return {each["key"]: each["reason"] for each in problems}


# --- the corpus gives exactly this ---

EXPECTED = {
    "01_success": [("pass", "undetermined", "unverifiable"), ("success", "not_checked", "")],
    "03_time_drift_fallback": [("pass", "undetermined", "unverifiable"), ("partial", "not_checked", "")],
    "inconclusive_recorded": [("inconclusive", "not_checked", ""), ("partial", "not_checked", "")],
}


@ABSENT
@pytest.mark.requirement("DT-import", "DT-seal", "L02")
@pytest.mark.parametrize("name", EXPECTED)
def test_a_published_episode_holds_by_its_seal_and_its_pass_without_evidence_is_unverifiable(name: str) -> None:
    code, found = asked("episode", DEEPSIGMA / "episodes" / f"{name}.json")
    assert (code, found["seal"], found["sound"]) == (0, "sorted-ascii", True)
    assert [(each["said"], each["verdict"], each["why"]) for each in found["statements"]] == EXPECTED[name]


@ABSENT
@pytest.mark.requirement("DT-import")
@pytest.mark.parametrize(
    ("kind", "name", "least"),
    [("episode", "ep-gs-001", 30), ("drift", "ds-gs-001-rating-mismatch", 20), ("drift", "sample_drift", 20)],
)
def test_a_file_that_breaks_its_own_schema_is_refused_with_every_reason(kind: str, name: str, least: int) -> None:
    file = DEEPSIGMA / "invalid" / f"{name}.json"
    assert not schema(kind)(json.loads(file.read_text(encoding="utf-8")))
    code, found = asked(kind, file)
    assert (code, found["error"]["code"]) == (2, "import.file")
    assert found["error"]["details"]["reasons"] == len(found["error"]["details"]["problems"]) >= least


@ABSENT
@pytest.mark.requirement("DT-import")
def test_the_other_published_files_are_read_as_what_they_are() -> None:
    code, drift = asked("drift", DEEPSIGMA / "drift" / "time_drift.json")
    assert (code, drift["statements"][0]["said"], drift["seal"]) == (0, "time yellow", None)
    code, envelope = asked("envelope", DEEPSIGMA / "dte" / "account_quarantine.dte.yaml")
    assert (code, envelope["facts"]["methods"]) == (0, ["read_after_write", "health_check"])
    assert "health_check" in envelope["notes"][0]
    code, tool = asked("tool", CORPUS / "delegation" / "create_repo.md")
    assert (code, tool["facts"]["required"]) == (0, ["owner", "name"])
    assert tool["statements"][0]["verdict"] == "not_checked"
    for kind, file in (("episode", "drift/time_drift.json"), ("envelope", "drift/time_drift.json")):
        assert asked(kind, DEEPSIGMA / file)[0] == 2


@ABSENT
@pytest.mark.requirement("DT-import")
@pytest.mark.parametrize(("run", "code"), [("00_valid", 0), ("01_evidence_append", 1), ("02_evidence_deleted", 1)])
def test_a_run_of_a_reasoning_agent_is_checked_and_its_own_report_is_evidence(run: str, code: int) -> None:
    got, found = asked("trace", CORPUS / "traces" / "variants" / run)
    assert (got, found["sound"]) == (code, code == 0)
    assert (found["statements"][0]["said"], found["statements"][0]["verdict"]) == ("passed", "not_checked")


@pytest.mark.requirement("DT-import")
@pytest.mark.parametrize("make", ["link", "folder", "large"])
def test_a_report_of_a_run_that_cannot_be_read_is_not_told_as_none(make: str, tmp_path: Path) -> None:
    report = honest().write(tmp_path / "run") / "verify.json"
    assert asked("trace", report.parent)[1]["statements"][0]["said"] == "passed"
    report.unlink()
    assert asked("trace", report.parent)[1]["statements"][0]["said"] == "no report"
    if make == "link":
        report.symlink_to(tmp_path / "elsewhere")
    elif make == "folder":
        report.mkdir()
    else:
        report.write_bytes(b" " * (RUN_FILE_MAX_BYTES + 1))
    code, found = asked("trace", report.parent)
    assert (code, found["error"]["code"]) == (2, "import.file")
    assert "verify.json" in found["error"]["message"]


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    assert asked("trace", tmp_path)[0] == 2
    assert asked("trace", tmp_path / "none")[0] == 2
    assert asked("episode", tmp_path)[0] == 2
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert asked("episode", tmp_path / "link")[0] == 2


# --- episodes ---


def episode(**more: Any) -> dict[str, Any]:
    stages = {"context": 1, "plan": 1, "act": 1, "verify": 1}
    made: dict[str, Any] = {
        "episodeId": "ep_1", "decisionType": "T", "startedAt": "2026-01-01T00:00:00Z",
        "endedAt": "2026-01-01T00:00:01Z", "decisionWindowMs": 100, "actor": {"type": "agent", "id": "a"},
        "dteRef": {"decisionType": "T", "version": "1"},
        "context": {
            "snapshotId": "s", "capturedAt": "2026-01-01T00:00:00Z", "ttlMs": 1, "maxFeatureAgeMs": 1,
            "ttlBreachesCount": 0, "evidenceRefs": [],
        },
        "plan": {"planner": "rules", "summary": ""},
        "actions": [{"actionId": "a", "actionType": "t"}],
        "verification": {"required": True, "method": "read_after_write", "result": "pass", "details": {"read": 1}},
        "outcome": {"code": "success", "effects": {"status": "done"}},
        "telemetry": {
            "endToEndMs": 1, "stageMs": stages, "p95Ms": 1, "p99Ms": 1, "jitterMs": 0, "fallbackUsed": False,
            "fallbackStep": "", "hopCount": 0, "fanout": 0,
        },
    }  # fmt: skip
    for key, value in more.items():
        made[key] = {**made[key], **value} if isinstance(value, dict) else value
    return sealed(made, "2026-01-01T00:00:02Z")


def imported(value: object) -> Any:
    return import_episode(json.dumps(value).encode(), "e.json")


@pytest.mark.requirement("DT-import")
@pytest.mark.parametrize("details", [{}, {"read": 1}, {"log": "", "refs": [], "more": {"ref": None}}])
@pytest.mark.parametrize("said", ["pass", "fail", "inconclusive", "na"])
def test_nothing_that_was_imported_is_verified_or_refuted(said: str, details: dict[str, Any]) -> None:
    made = episode(verification={"required": True, "result": said, "details": details})
    first = imported(made).statements[0]
    bare = said == "pass" and "read" not in details
    assert (first.said, first.verdict) == (said, Verdict.UNDETERMINED if bare else Verdict.NOT_CHECKED)
    assert first.why is (Why.UNVERIFIABLE if bare else Why.NONE)


@pytest.mark.requirement("DT-import", "DT-seal", "L21")
def test_an_episode_that_was_changed_after_it_was_sealed_is_read_and_called_unsound(tmp_path: Path) -> None:
    made = episode()
    made["verification"]["result"] = "fail"
    file = tmp_path / "e.json"
    file.write_text(json.dumps(made), encoding="utf-8")
    code, found = asked("episode", file)
    assert (code, found["seal"], found["sound"]) == (1, "", False)
    made["seal"]["sealHash"] = "scaffold"
    file.write_text(json.dumps(made), encoding="utf-8")
    code, found = asked("episode", file)
    assert (code, found["seal"], found["sound"]) == (1, "literal-scaffold", False)
    assert "does not cover the whole episode" in found["notes"][0]


def test_what_does_not_fit_together_is_said() -> None:
    odd = episode(actions=[], endedAt="2025-01-01T00:00:00Z", dteRef={"decisionType": "Other"})
    assert len(imported(odd).notes) == 3
    assert imported(episode()).notes == ()


HOSTILE = {
    "nothing": b"", "null": b"null", "list": b"[]", "twice": b'{"a": 1, "a": 2}', "nan": b'{"a": NaN}',
    "deep": b'{"a":' * 5_000, "cut": b'{"a"', "digits": b"[" + b"1" * 9_999 + b"]", "huge": b" " * 20_000_000,
    "binary": bytes(range(256)), "surrogate": b'{"a": "\\udc00"}',
    "bomb": b"---\na: &a [x]\nb: *a\n---\n", "tag": b"---\nevent: !!python/name:os.system\n---\n",
    "open-head": b"---\nevent: error\n", "no-head": b"# only text\n", "deep-head": b"---\na: " + b"[" * 99 + b"\n---\n",
}  # fmt: skip


@pytest.mark.requirement("DT-import")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_files_are_refused_and_nothing_more(kind: str, data: bytes) -> None:
    with pytest.raises(ForeignFileError):
        KINDS[kind](data, "x.json")


@given(data=st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    for importer in (import_episode, import_envelope, import_drift, import_tool, import_hook):
        with pytest.raises(ForeignFileError):
            importer(data, "x.yaml")


# --- ledgers of claims ---

RETRACTED: dict[str, Any] = {
    "recordedAt": "2026-04-01T08:00:00Z", "event_type": "claim.retracted", "alias": "claim_retracted",
    "claim": "Email delivery was treated as sent.", "verdict": "contested", "confidence": 0.99, "reason": "not found",
    "recommended_action": "Investigate.", "sourceAgent": "digest", "delivery_id": "d-1", "to": "a@b.example",
    "subject": "s",
}  # fmt: skip
FOUND: dict[str, Any] = {
    "recordedAt": "2026-04-01T08:00:00Z", "accepted": True, "verified": True, "attempt": 1, "envelopeId": "77",
    "verificationMethod": "gmail-header-match", "verificationFolder": "[Gmail]/All Mail", "delivery_id": "d-2",
}  # fmt: skip


def lines(*values: object) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


@ABSENT
@pytest.mark.requirement("DT-import")
def test_the_fields_of_a_claim_line_are_those_of_the_pattern() -> None:
    published = json.loads((CORPUS / "claims" / "claim_contract.json").read_text(encoding="utf-8"))
    assert set(published["claim_retraction"]) == set(RETRACTED)
    assert set(published["verification_result"]) <= {*FOUND, "attempts", "error"}


@pytest.mark.requirement("DT-import")
def test_a_ledger_of_claims_is_read_line_by_line() -> None:
    missing = {"verified": False, "accepted": True, "attempts": 4, "error": "not found"}
    bare = {"verified": True, "accepted": True}
    found = import_claims(lines(RETRACTED, FOUND, missing, bare), "claims.jsonl")
    assert [(s.said, s.verdict, s.why) for s in found.statements] == [
        ("contested", Verdict.NOT_CHECKED, Why.NONE),
        ("verified", Verdict.NOT_CHECKED, Why.NONE),
        ("not verified", Verdict.NOT_CHECKED, Why.NONE),
        ("verified", Verdict.UNDETERMINED, Why.UNVERIFIABLE),
    ]
    assert found.facts == {"lines": 4, "contested": 1, "verified": 2, "not verified": 1}


@pytest.mark.requirement("DT-import")
def test_the_words_of_a_file_without_a_seal_stand_as_its_own_and_under_no_check_mark(tmp_path: Path) -> None:
    file = tmp_path / "claims.jsonl"
    file.write_bytes(lines({**FOUND, "delivery_id": "x\u202e\n✓ all is verified"}))
    told = CliRunner().invoke(main, ["import", "claims", str(file)]).stdout.splitlines()
    assert not any(line.lstrip().startswith(("✓", "+")) for line in told)
    assert told[1:4] == ["  what the file says:", "    lines: 1", "    verified: 1"]
    assert "\\u202e\\x0a✓ all is verified: says 'verified'; not checked" in told[4]


@pytest.mark.requirement("DT-import", "L12")
def test_a_person_is_told_where_each_fault_is(tmp_path: Path) -> None:
    """Of JSON no line is known, but the key is: `log.jsonl:None:None` stood before every one of them."""
    ledger, sealed_one = tmp_path / "log.jsonl", tmp_path / "episode.json"
    ledger.write_bytes(lines(FOUND, {**FOUND, "attempt": 0}) + b"{")
    sealed_one.write_text(json.dumps(episode(actor={"type": 7})), encoding="utf-8")
    (tmp_path / "hook.md").write_text("---\nevent: error\nwhen: [1]\n---\n", encoding="utf-8")
    for kind, file, places in (
        ("claims", ledger, ["log.jsonl: line 2.attempt: ", "log.jsonl: line 3: "]),
        ("episode", sealed_one, ["episode.json: actor.type: "]),
        ("hook", tmp_path / "hook.md", ["hook.md:3:1: when: "]),
    ):
        told = CliRunner().invoke(main, ["import", kind, str(file)]).stderr
        assert "None" not in told
        assert [place for place in places if place not in told] == [], told


def test_every_bad_line_is_named_and_none_of_the_others_is_used() -> None:
    bad = [
        {**RETRACTED, "event_type": "claim.retract"},
        {**RETRACTED, "confidence": 2},
        {**RETRACTED, "confidence": True},
        {**RETRACTED, "extra": 1},
        {**FOUND, "verified": "true"},
        {**FOUND, "accepted": False},
        {},
        [],
    ]
    with pytest.raises(ForeignFileError) as raised:
        import_claims(lines(FOUND, *bad) + b"{\n", "claims.jsonl")
    said = {key.partition(".")[0] for key in reasons(raised.value)}
    assert said == {f"line {number}" for number in range(2, 11)}


# --- files of delegating agents ---

HOOK = (
    "---\nevent: delegation.post_verify\npriority: -5\nwhen: result != None\nscript: |\n  def run(x): ...\n---\nText.\n"
)


@pytest.mark.requirement("DT-import")
def test_a_hook_says_when_it_is_asked_and_is_not_run() -> None:
    found = import_hook(HOOK.encode(), "h.md")
    assert (found.facts["event"], found.facts["priority"], found.facts["verifies"]) == (
        "delegation.post_verify", -5, True,
    )  # fmt: skip
    for event in (*EVENTS, "custom.thing", "meta.x"):
        assert import_hook(HOOK.replace("delegation.post_verify", event).encode(), "h.md").facts["event"] == event


@pytest.mark.requirement("DT-import")
@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("event: delegation.post_verify", "evnt: error", "evnt"),
        ("delegation.post_verify", "delegation.post_verifi", "event"),
        ("delegation.post_verify", "custom.", "event"),
        ("priority: -5", "priority: high", "priority"),
        ("priority: -5", "priority: true", "priority"),
        ("priority: -5", "prio: 1", "prio"),
        ("script: |\n  def run(x): ...\n", "script:\n", "script"),
    ],
)
def test_a_hook_with_an_unknown_key_event_or_order_is_refused(old: str, new: str, key: str) -> None:
    with pytest.raises(ForeignFileError) as raised:
        import_hook(HOOK.replace(old, new).encode(), "h.md")
    assert key in reasons(raised.value)


@ABSENT
@pytest.mark.requirement("DT-import")
@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("verify: |", "verifi: |", "verifi"),
        ("script: |", "skript: |", "skript"),
        ("required: true }", "required: maybe }", "parameters.owner.required"),
        ("parameters:\n", "parameters: 1\nx:\n", "parameters"),
    ],
)
def test_a_tool_file_with_a_misspelt_key_is_refused(old: str, new: str, key: str) -> None:
    text = (CORPUS / "delegation" / "create_repo.md").read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(ForeignFileError) as raised:
        import_tool(text.replace(old, new).encode(), "t.md")
    assert key in reasons(raised.value)
    places = raised.value.details["problems"]
    assert isinstance(places, list)
    assert all(each["line"] >= 2 for each in places), "counted from the file's own first line"


def test_a_tool_without_a_verifier_says_that_it_is_believed() -> None:
    found = import_tool(b"---\nscript: |\n  x\n---\n", "t.md")
    assert found.statements[0].said == "not verified"
    assert "accepts every answer" in found.notes[1]


def test_importing_changes_nothing_it_was_given() -> None:
    made = episode()
    copy = deepcopy(made)
    imported(made)
    assert made == copy
