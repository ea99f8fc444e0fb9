"""What came of a replay: a difference outweighs what could not be evaluated, and both are told field by field."""

from __future__ import annotations

import pytest

from readback.domain.records.replayed import Comparison, Difference, ReplayedJudgement, ReplayResult

SAME, DIFFERS, NOT_EVALUATED = Comparison.SAME, Comparison.DIFFERS, Comparison.NOT_EVALUATED


def judged(comparison: Comparison = SAME) -> ReplayedJudgement:
    return ReplayedJudgement(4, "judged", 900, comparison, "unknown", "refuted", "D-2")


def replayed(*comparisons: Comparison) -> ReplayResult:
    return ReplayResult("b-1", "a-1", "acme", "ship", "2", 7, "failed", tuple(map(judged, comparisons)))


@pytest.mark.parametrize(
    ("found", "whole"),
    [
        ((), SAME),
        ((SAME,), SAME),
        ((SAME, SAME), SAME),
        ((SAME, NOT_EVALUATED), NOT_EVALUATED),
        ((NOT_EVALUATED, SAME), NOT_EVALUATED),
        ((SAME, DIFFERS), DIFFERS),
        ((DIFFERS, SAME), DIFFERS),
        ((NOT_EVALUATED, DIFFERS, SAME), DIFFERS),
        ((DIFFERS, NOT_EVALUATED), DIFFERS),
    ],
)
def test_a_bundle_is_the_same_only_where_every_judgement_is(found: tuple[Comparison, ...], whole: Comparison) -> None:
    assert replayed(*found).comparison is whole
    assert replayed(*found).as_json()["comparison"] == whole.value


def test_the_words_of_a_comparison_are_stable() -> None:
    assert [each.value for each in Comparison] == ["same", "differs", "not_evaluated"]


def test_a_judgement_made_again_is_told_with_each_difference_and_all_that_was_missing_or_given() -> None:
    assert judged().as_json() == {
        "version": 4,
        "what": "judged",
        "at_us": 900,
        "comparison": "same",
        "state": "unknown",
        "verdict": "refuted",
        "row": "D-2",
        "differences": [],
        "missing": [],
        "given": [],
    }
    full = ReplayedJudgement(
        *(5, "resumed", 901, DIFFERS, "failed", "verified", "D-3"),
        differences=(Difference("verdict", "refuted", "verified"), Difference("postcondition paid", None, [1])),
        missing=("evidence x: erased", "evidence y: redacted"),
        given=("before",),
    )
    said = full.as_json()
    assert said["comparison"] == "differs"
    assert said["differences"] == [
        {"field": "verdict", "recorded": "refuted", "replayed": "verified"},
        {"field": "postcondition paid", "recorded": None, "replayed": [1]},
    ]
    assert said["missing"] == ["evidence x: erased", "evidence y: redacted"]
    assert said["given"] == ["before"]


def test_a_bundle_is_told_whole() -> None:
    found = ReplayResult("b-1", "a-1", "acme", "ship", "2", 7, "failed", (judged(), judged(DIFFERS)), ("a note",))
    assert found.as_json() == {
        "comparison": "differs",
        "bundle": "b-1",
        "action": "a-1",
        "tenant": "acme",
        "contract": "ship",
        "contract_version": "2",
        "entries": 7,
        "state": "failed",
        "judgements": [judged().as_json(), judged(DIFFERS).as_json()],
        "notes": ["a note"],
    }
    assert replayed().as_json()["notes"] == []


def test_what_was_found_is_never_changed_afterwards() -> None:
    for value, name in ((judged(), "comparison"), (replayed(), "judgements"), (Difference("a", 1, 2), "recorded")):
        with pytest.raises(AttributeError):
            setattr(value, name, None)
