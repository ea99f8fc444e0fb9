"""The corpus of real runs and of their mechanical changes: the verdict of each, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.citations.forging import judged

CORPUS: Final = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "traces"
pytestmark = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="SKIPPED ALOUD: the corpus of traces is not beside this checkout"
)
WHY: Final = {
    "variants/01_evidence_append": "evidence.hash",
    "variants/02_evidence_deleted": "evidence.missing",
    "variants/04_span_out_of_bounds": "span.bounds",
    "variants/07_tool_result_removed_reindexed": "call.unanswered",
    "variants/12_finalize_missing": "finalize.missing",
    "variants/20_claim_text_replaced_markers_kept": "id.claim",
    "variants/24_tool_result_success_false": "evidence.failed-call",
    "variants/27_manifest_emptied": "manifest.unbound",
    "variants/31_all_step_started_removed": "step.unstarted",
}


def expected() -> dict[str, Any]:
    """The verdicts that come with the corpus."""
    told = json.loads((CORPUS / "expected_verdicts.json").read_text())
    return {name: each["verdict"] for name, each in told.items() if not name.startswith("_")}


@pytest.mark.requirement("L01", "L22", "VC-evidence-integrity", "VC-span-bounds", "VC-tool-linkage")
def test_every_run_of_the_corpus_has_exactly_the_verdict_that_comes_with_it() -> None:
    verdicts = expected()
    assert {name: judged(CORPUS / name).as_json()["verdict"] for name in verdicts} == verdicts
    assert len(verdicts) >= 13


def test_every_change_of_the_corpus_is_named_by_its_cause() -> None:
    for name, code in WHY.items():
        report = judged(CORPUS / name)
        assert code in report.codes, name
    assert set(WHY) == {name for name, verdict in expected().items() if verdict == "fail"}


@pytest.mark.requirement("L24")
def test_a_run_whose_chunks_do_not_begin_with_their_documents_is_not_rejected_for_it() -> None:
    """Spans of evidence count in documents, spans of supports in the evidence's file."""
    assert judged(CORPUS / "run3").passed
