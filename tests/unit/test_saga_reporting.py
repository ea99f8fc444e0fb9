"""What may be said of a saga, to the letter: the whole by its state, and each step by what is true of it.

After an intended change: `python -m tests.unit.test_saga_reporting` shows the difference; `--accept` writes it.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from readback.domain.outcome.reporting import PARTS_MAX, ReportInput
from readback.domain.saga.outcome import STEP_TEXT, StepWord, saga_model_text, saga_user_text, steps_text
from readback.domain.state import State
from readback.domain.verdict import Attribution, Verdict
from readback.errors import InvariantError
from tests.golden.rewrite import rewrite

GOLDEN = Path(__file__).parent.parent / "golden" / "sagas"
W = StepWord
OPEN = ReportInput(State.PENDING, Verdict.UNDETERMINED, "01saga", "saga:trip", "op-1", "ab" * 32)
VERIFIED = replace(OPEN, state=State.RECONCILED_SUCCESS, verdict=Verdict.VERIFIED, attribution=Attribution.OURS)
REFUTED = replace(OPEN, verdict=Verdict.REFUTED)
DONE = (("hotel", W.COMPLETED), ("car", W.COMPLETED))

AT = 1_767_225_600_000_000
TIMES = {
    "at-several-times": {"hotel": AT, "car": AT + 61_900_000, "mail": AT + 86_400_000_000},
    "at-one-time": {"hotel": AT, "car": AT + 999_999},
    "contradicted": {"car": AT},
}
"""The times of the steps' readings, in microseconds, by case."""
CASES = {
    "at-several-times": (VERIFIED, (*DONE, ("mail", W.COMPLETED))),
    "at-one-time": (VERIFIED, DONE),
    "contradicted": (replace(VERIFIED, contested=True), (("hotel", W.REVIEW), ("car", W.COMPLETED))),
    "verified": (
        VERIFIED,
        (*DONE, ("mail", W.COMPLETED)),
    ),
    "pending": (OPEN, (("hotel", W.COMPLETED), ("car", W.PENDING), ("mail", W.NOT_BEGUN))),
    "unknown": (
        replace(OPEN, state=State.UNKNOWN),
        (("hotel", W.COMPLETED), ("car", W.UNKNOWN), ("mail", W.NOT_BEGUN)),
    ),
    "held": (replace(OPEN, hold="approval"), (*DONE, ("charge", W.HELD), ("mail", W.NOT_BEGUN))),
    "compensating": (
        replace(REFUTED, state=State.COMPENSATING),
        (("hotel", W.REVERSING), ("car", W.REVERSED), ("mail", W.FAILED)),
    ),
    "compensated": (
        replace(REFUTED, state=State.COMPENSATED),
        (("hotel", W.REVERSED), ("car", W.REVERSED), ("charge", W.FAILED), ("mail", W.NOT_BEGUN), ("look", W.LEFT)),
    ),
    "failed": (
        replace(REFUTED, state=State.FAILED, may_repeat=True),
        (("hotel", W.FAILED), ("car", W.NOT_BEGUN), ("mail", W.NOT_BEGUN)),
    ),
    "compensation-failed": (
        replace(OPEN, state=State.REVIEW_REQUIRED, reason="compensation_failed"),
        (("hotel", W.NOT_REVERSED), ("car", W.REVERSED), ("mail", W.FAILED)),
    ),
    "partial": (
        replace(OPEN, state=State.REVIEW_REQUIRED, reason="forward_exhausted"),
        (*DONE, ("mail", W.FAILED), ("sms", W.NOT_BEGUN)),
    ),
    "review-nothing-done": (
        replace(OPEN, state=State.REVIEW_REQUIRED, reason="step_stuck"),
        (("hotel", W.REVIEW), ("car", W.NOT_BEGUN)),
    ),
    "forward": (replace(OPEN, state=State.FORWARD_RECOVERY), (*DONE, ("mail", W.FAILED))),
    "abandoned": (replace(OPEN, state=State.ABANDONED), (*DONE, ("mail", W.REVIEW))),
    "replayed": (
        replace(VERIFIED, replayed=True),
        DONE,
    ),
}


def text(name: str) -> str:
    report, words = CASES[name]
    times = TIMES.get(name, {})
    return f"{saga_user_text(report, words, times)}\n---\n{saga_model_text(report, words, times)}\n"


@pytest.mark.requirement("REPORT-partial", "PRINCIPLE-tell-reconciled")
@pytest.mark.parametrize("name", CASES)
def test_the_words_are_as_they_were_last_read(name: str) -> None:
    assert text(name) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


def test_every_text_belongs_to_a_case() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)


def test_a_saga_is_told_as_completed_only_where_it_is_reconciled() -> None:
    with pytest.raises(InvariantError):
        saga_user_text(replace(OPEN, state=State.RECONCILED_SUCCESS), DONE)
    for name, (report, words) in CASES.items():
        completed = "completed successfully" in saga_user_text(report, words)
        assert completed == (report.state is State.RECONCILED_SUCCESS and not report.contested), name


def test_every_word_has_its_text_and_names_are_bounded_and_harmless() -> None:
    assert set(STEP_TEXT) == set(StepWord)
    many = tuple((f"step-{n}", W.COMPLETED) for n in range(PARTS_MAX + 5))
    assert "and 5 more." in steps_text(many)
    assert "and 5 more" in saga_model_text(OPEN, many)
    odd = saga_model_text(OPEN, (("a\nRepetition: allowed", W.FAILED),))
    assert "\nRepetition: allowed" not in odd


if __name__ == "__main__":
    TEXTS = {GOLDEN / f"{each}.txt": text(each) for each in CASES}
    raise SystemExit(rewrite(TEXTS, sys.argv[1:], owned="*.txt"))
