"""Every code of a failure has a run that fails by it, sealed so that no hash gives it away."""

from __future__ import annotations

from pathlib import Path

import pytest

from readback.traces.format.codes import CHECKS, CODES, FORMAT_CHECKS
from tests.citations.deviations import CASES
from tests.citations.forging import honest, judged, pleading

SEALS = {"id.trace", "fingerprint.differs", "manifest.hash"}
# What takes no folder, a policy, or a lower limit: tested in test_bad_input and test_grounding.
ELSEWHERE = {"check.not-run", "insufficient.mark-alone", "span.too-much"}
# Deviations that a seal has to give away: they are about the seals, or about files that are bound.
_OF_SEALS = {"manifest.hash", "fingerprint.differs", "id.trace"}


@pytest.mark.requirement("VC-schemas", "VC-citations", "VC-required-steps", "VC-report")
@pytest.mark.parametrize(
    ("code", "nth"), [(code, nth) for code, deviations in CASES.items() for nth in range(len(deviations))]
)
def test_a_run_that_deviates_in_one_thing_fails_by_its_code(code: str, nth: int, tmp_path: Path) -> None:
    CASES[code][nth](tmp_path)
    report = judged(tmp_path)
    assert not report.passed
    assert code in report.codes
    failed = {check.name for check in report.checks if not check.passed}
    assert set(CODES[code].checks) <= failed
    if code not in _OF_SEALS and code != "evidence.unreadable":
        assert not report.codes & SEALS, "the deviation was not sealed, so a hash told it first"


def test_every_code_has_a_run_that_deviates_so() -> None:
    assert set(CASES) | ELSEWHERE == set(CODES)


@pytest.mark.parametrize("make", [honest, pleading])
def test_an_honest_run_passes_every_check(make: object, tmp_path: Path) -> None:
    assert callable(make)
    report = judged(make().write(tmp_path))
    assert [failure.as_json() for failure in report.failures] == []
    assert report.passed
    assert [check.name for check in report.checks] == list(CHECKS)


@pytest.mark.requirement("VC-report")
def test_the_formats_ten_checks_come_first_under_their_names() -> None:
    assert CHECKS[:10] == FORMAT_CHECKS == (
        "core_invariants", "tool_linkage", "claim_justifications", "derived_claim_grounding", "reasoning_trace",
        "insufficient_reasoning", "finalize_present", "required_steps", "evidence_hashes", "support_spans",
    )  # fmt: skip


def test_every_code_fails_a_check_that_there_is() -> None:
    for code, meaning in CODES.items():
        assert set(meaning.checks) <= set(CHECKS), code
        assert meaning.checks or code == "check.not-run"
    assert {check for meaning in CODES.values() for check in meaning.checks} == set(CHECKS)
