"""Files that are no trace, folders that lead elsewhere: typed errors or failures, never a crash and never a pass."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readback.decisions.interop.run_folder import RunFolder, read_given
from readback.traces import ArtifactError, ArtifactTrouble, TraceInputError, TracePolicyError, read_policy, verify_trace
from readback.traces.artifacts import is_plain_path
from readback.traces.format import fault
from readback.traces.format.strict_json import strict_json
from tests.citations.forging import honest, judged, reseal
from tests.citations.memory import MemoryFolder, held
from tests.citations.memory import judged as judged_in_memory
from tests.citations.test_mutations import valid

BAD_JSON = {
    b"": "malformed",
    b"nothing": "malformed",
    b'{"a":1': "malformed",
    b'{"a":1} x': "malformed",
    b'{"a":1,"a":2}': "duplicate-key",
    b'{"a":{"b":1,"c":2,"b":1}}': "duplicate-key",
    b"NaN": "malformed",
    b"[Infinity]": "malformed",
    b"[-Infinity]": "malformed",
    b"1e999": "malformed",
    b"9" * 5000: "malformed",
    b"9" * 20: "malformed",
    b"1.000000000000000001": "malformed",
    b"9007199254740993.0": "malformed",
    b"1e-400": "malformed",
    b"0." + b"1" * 801: "malformed",
    b'"\\ud800"': "malformed",
    b'{"\\udfff":1}': "malformed",
    b"\xff": "malformed",
    b"\xef\xbb\xbf{}": "malformed",
    b'"\x00"': "malformed",
    b"[" * 65 + b"]" * 65: "too-deep",
    b"[" * 100_000 + b"]" * 100_000: "too-deep",
    b'{"a":' * 66 + b"1" + b"}" * 66: "too-deep",
    b'"' + b"x" * 3000 + b'"': "too-large",
}


@pytest.mark.parametrize("text", ["0.1", "0.10000000000000001", "1E2", "-0.0", "5e-324", "0.30000000000000004", "2.50"])
def test_a_number_that_a_double_keeps_is_read_however_it_is_written(text: str) -> None:
    assert strict_json(text.encode(), "here", bytes_max=100) == float(text)


@pytest.mark.requirement("VC-schemas", "VC-fail-closed")
@pytest.mark.parametrize("data", BAD_JSON, ids=lambda data: repr(data[:20]))
def test_what_is_no_plain_json_is_refused_by_its_code(data: bytes) -> None:
    with pytest.raises(TraceInputError) as caught:
        strict_json(data, "here", bytes_max=2_000 if len(data) == 3_002 else 1_000_000)
    assert caught.value.code == f"trace.input.{BAD_JSON[data]}"
    assert "here" in caught.value.message
    assert len(caught.value.message) < 400
    assert caught.value.remedy


def test_as_deep_as_the_limit_is_not_too_deep() -> None:
    assert strict_json(b"[" * 64 + b"]" * 64, "here", bytes_max=1_000)
    assert strict_json(b"[" + b",".join([b"[]"] * 500) + b"]", "here", bytes_max=10_000)


@pytest.mark.parametrize("file", ["trace.jsonl", "plan.json"])
@pytest.mark.parametrize("data", [b"", b"\n", b"x", b'{"a":1,"a":1}\n', b"[" * 200 + b"\n", b"\xff\n"])
def test_bytes_that_are_no_trace_or_plan_raise(file: str, data: bytes) -> None:
    files = {**valid("forged"), file: data}
    with pytest.raises(TraceInputError) as caught:
        verify_trace(files["trace.jsonl"], files["plan.json"], MemoryFolder(files))
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("data", [b"{}", b"[]", b"null", b"1", b'"text"', b'{"record":"trace_header"}'])
@pytest.mark.parametrize("file", ["trace.jsonl", "plan.json"])
def test_json_of_another_form_is_a_failure_and_what_needs_it_is_not_run(file: str, data: bytes) -> None:
    files = {**valid("forged"), file: data + b"\n"}
    report = verify_trace(files["trace.jsonl"], files["plan.json"], MemoryFolder(files))
    assert {"schema.header", "schema.plan"} & report.codes
    assert "check.not-run" in report.codes
    assert not report.passed


@pytest.mark.parametrize("line", [b"", b"{", b"[]x", b'{"record":"trace_event","record":"trace_event"}'])
def test_one_bad_line_refuses_the_trace_and_is_named(line: bytes) -> None:
    files = valid("forged")
    lines = files["trace.jsonl"].split(b"\n")
    lines[3] = line
    with pytest.raises(TraceInputError, match=r"trace\.jsonl:4"):
        verify_trace(b"\n".join(lines), files["plan.json"], MemoryFolder(files))


def test_a_line_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    files = valid("forged")
    monkeypatch.setattr("readback.traces.fold.fold.LINE_MAX_BYTES", 1_000)
    with pytest.raises(TraceInputError, match="over 1000") as caught:
        verify_trace(files["trace.jsonl"], files["plan.json"], MemoryFolder(files))
    assert caught.value.code == "trace.input.too-large"
    assert fault.LINE_MAX_BYTES > 1_000_000


@given(trace=st.binary(max_size=200), plan=st.binary(max_size=200))
def test_no_bytes_crash_it_and_none_of_them_pass(trace: bytes, plan: bytes) -> None:
    try:
        report = verify_trace(trace, plan, MemoryFolder({}))
    except TraceInputError:
        return
    assert not report.passed


@pytest.mark.requirement("L02", "VC-fail-closed")
def test_without_its_files_nothing_of_a_run_passes_by_being_skipped() -> None:
    files = valid("forged")
    report = verify_trace(files["trace.jsonl"], files["plan.json"])
    assert not report.passed
    skipped = {check.name for check in report.checks if not check.run}
    assert {"evidence_hashes", "support_spans", "manifest", "fingerprint", "provenance"} <= skipped
    assert not any(check.passed for check in report.checks if check.name in skipped)
    assert all(check.as_json()["passed"] is False for check in report.checks if check.name in skipped)


@pytest.mark.requirement("VC-schemas")
def test_lines_may_end_as_on_other_systems(tmp_path: Path) -> None:
    honest().write(tmp_path)
    trace = tmp_path / "trace.jsonl"
    trace.write_bytes(trace.read_bytes().replace(b"\n", b"\r\n"))
    reseal(tmp_path)
    assert judged(tmp_path).passed


SPELLINGS = [
    ("tool_called", b'"call":', b'"tool_call":'),
    ("tool_returned", b'"success":true', b'"ok":true'),
    ("claim_emitted", b'"supports":', b'"support_refs":'),
    ("step_finished", b'"claim_ids":', b'"emitted_claim_ids":'),
    ("step_finished", b'"type":', b'"kind":'),
]


def respelled(run: Path, kind: str, old: bytes, new: bytes) -> None:
    """The run with another spelling in the events of one kind, sealed."""
    trace = run / "trace.jsonl"
    lines = trace.read_bytes().split(b"\n")
    there = [line.replace(old, new, 1) if f'"kind":"{kind}"'.encode() in line else line for line in lines]
    assert there != lines
    trace.write_bytes(b"\n".join(there))
    reseal(run)


@pytest.mark.parametrize(("kind", "old", "new"), SPELLINGS)
def test_a_key_may_be_spelled_as_the_format_reads_it_too(kind: str, old: bytes, new: bytes, tmp_path: Path) -> None:
    respelled(honest().write(tmp_path), kind, old, new)
    assert judged(tmp_path).passed


@pytest.mark.parametrize(("kind", "old", "new"), SPELLINGS)
def test_a_key_in_both_spellings_is_refused(kind: str, old: bytes, new: bytes, tmp_path: Path) -> None:
    other = new.partition(b":")[0] + b":1,"
    respelled(honest().write(tmp_path), kind, old, other + old)
    assert "schema.event" in judged(tmp_path).codes


HOSTILE_PATHS = [
    "", ".", "..", "/etc/passwd", "../spec.json", "evidence/../../x", "evidence//x", "evidence/./x", "a\\b", "c:/x",
    "evidence/", "x\x00y", "x\ny", "a" * 300, "a/" * 600 + "b", "\udcff",
]  # fmt: skip


@pytest.mark.parametrize("path", HOSTILE_PATHS, ids=lambda path: repr(path[:20]))
def test_no_path_leads_out_of_the_folder(path: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "spec.json").write_text("outside")
    assert not is_plain_path(path)
    with RunFolder(tmp_path / "run") as folder:
        for ask in (folder.read, folder.digest):
            with pytest.raises(ArtifactError) as caught:
                ask(path, 100)
            assert caught.value.trouble is ArtifactTrouble.ESCAPES


def test_no_link_is_followed_and_only_regular_files_are_read(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "folder").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("secret")
    (run / "link").symlink_to(tmp_path / "outside" / "file")
    (run / "linked").symlink_to(tmp_path / "outside")
    (run / "loop").symlink_to(run / "loop")
    os.mkfifo(run / "pipe")
    (run / "large").write_bytes(b"x" * 101)
    (run / "file").write_bytes(b"x" * 100)
    told = {
        "link": ArtifactTrouble.SYMLINK,
        "linked/file": ArtifactTrouble.SYMLINK,
        "loop": ArtifactTrouble.SYMLINK,
        "pipe": ArtifactTrouble.NOT_A_FILE,
        "folder": ArtifactTrouble.NOT_A_FILE,
        "file/below": ArtifactTrouble.NOT_A_FILE,
        "large": ArtifactTrouble.TOO_LARGE,
        "nobody": ArtifactTrouble.MISSING,
        "nobody/file": ArtifactTrouble.MISSING,
    }
    with RunFolder(run) as folder:
        assert folder.read("file", 100) == b"x" * 100
        for path, trouble in told.items():
            for ask in (folder.read, folder.digest):
                with pytest.raises(ArtifactError) as caught:
                    ask(path, 100)
                assert caught.value.trouble is trouble, path
        assert set(folder.names()) == {"link", "linked", "loop", "pipe", "large", "file"}


def test_what_the_caller_names_is_a_regular_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"data")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_given(tmp_path / "file", 4, "trace") == b"data"
    for name, code in (
        ("nobody", "missing"),
        ("link", "symlink"),
        (".", "not-a-file"),
        ("file/below", "not-a-file"),
    ):
        with pytest.raises(TraceInputError) as caught:
            read_given(tmp_path / name, 4, "trace")
        assert caught.value.code in (f"trace.input.{code}", "trace.input.unreadable"), name
    with pytest.raises(TraceInputError) as caught:
        read_given(tmp_path / "file", 3, "trace")
    assert caught.value.code == "trace.input.too-large"
    with pytest.raises(TraceInputError):
        RunFolder(tmp_path / "nobody")


def test_evidence_over_a_link_is_no_evidence(tmp_path: Path) -> None:
    honest().write(tmp_path / "run")
    file = next((tmp_path / "run" / "evidence").iterdir())
    file.rename(tmp_path / "kept")
    file.symlink_to(tmp_path / "kept")
    assert {"evidence.unreadable", "manifest.no-file"} <= judged(tmp_path / "run").codes


def test_an_error_keeps_what_it_says_when_it_is_sent_elsewhere() -> None:
    error = ArtifactError.of(ArtifactTrouble.SYMLINK, "evidence/x")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (again.trouble, again.path, str(again)) == (error.trouble, error.path, str(error))


@pytest.mark.requirement("L03", "L23")
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "not JSON"),
        ("[]", "no object"),
        ("{}", "`version`"),
        ('{"version": true}', "`version`"),
        ('{"version": 2}', "`version`"),
        ('{"version": 1, "mode": "audit"}', "`mode`"),
        ('{"version": 1, "min_supports_per_claim": 0}', "`min_supports_per_claim`"),
        ('{"version": 1, "min_supports_per_claim": true}', "`min_supports_per_claim`"),
        ('{"version": 1, "min_supports_per_claim": 1.5}', "`min_supports_per_claim`"),
        ('{"version": 1, "insufficient": []}', "`insufficient`"),
        ('{"version": 1, "insufficient": {"status": []}}', "`insufficient.status`"),
        ('{"version": 1, "insufficient": {"statuses": [1]}}', "`insufficient.statuses`"),
        ('{"version": 1, "insufficient": {"statuses": ["validated"]}}', "`validated`"),
        ('{"version": 1, "insufficient": {"structured": [{"key": "x"}]}}', "`equals`"),
        ('{"version": 1, "version": 1}', "twice"),
    ],
)
def test_a_policy_that_is_none_is_refused_with_what_is_wrong(text: str, named: str) -> None:
    with pytest.raises(TracePolicyError) as caught:
        read_policy(text.encode(), "policy.json")
    assert named in caught.value.message
    assert caught.value.exit_code == 5


@pytest.mark.requirement("L02")
def test_a_report_is_bounded_and_still_counts_all(tmp_path: Path) -> None:
    honest().write(tmp_path)
    files = held(tmp_path)
    header, *events = files["trace.jsonl"].splitlines()
    trace = b"\n".join([header, *[b'{"record":"trace_event","event":{"kind":"x"}}'] * 500, *events])
    report = verify_trace(trace, files["plan.json"], MemoryFolder(files))
    assert len(report.failures) == fault.FAILURES_KEPT_MAX
    assert report.failures_total > 500
    metrics = report.as_json()["summary_metrics"]
    assert isinstance(metrics, dict)
    assert metrics["failures"] == report.failures_total


def test_what_is_cited_is_not_read_again_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim may cite one large result a thousand times; each time it would be parsed anew."""
    monkeypatch.setattr("readback.traces.fold.claims.CITED_MAX_BYTES", 40)
    report = judged_in_memory(valid("forged"))
    assert report.codes == {"span.too-much"}


def test_a_thousand_unknown_keys_are_named_by_a_few() -> None:
    files = valid("forged")
    header, *events = files["trace.jsonl"].splitlines()
    many = b"{" + b",".join(b'"k%d":1' % n for n in range(1_000)) + b',"record":"trace_event","event":{}}'
    report = judged_in_memory({**files, "trace.jsonl": b"\n".join([header, many, *events])})
    assert 1 <= sum(failure.place.line == 2 for failure in report.failures) <= 20
