"""A tool's own words: what of an answer is quoted, and what is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from readback.canon import Json
from readback.domain.outcome.outcome import BLOCKS_MAX, WORDS_MAX_CHARACTERS, quoted_line, words_of
from readback.domain.verification.observation import Observation, ObservationStatus

ANSWER = replace(Observation.missing(0), status=ObservationStatus.ERROR, detail="The tool answered 500.")


def answered(body: Json, status: ObservationStatus = ObservationStatus.ERROR) -> Observation:
    return replace(ANSWER, body=body, status=status)


@pytest.mark.parametrize("status", [ObservationStatus.NONE, ObservationStatus.NOT_DISPATCHED])
def test_a_call_without_an_answer_has_no_words(status: ObservationStatus) -> None:
    assert words_of(None) == ""
    assert words_of(answered("late words", status)) == ""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("no such table", "no such table"),
        ({"content": [{"type": "text", "text": "no such"}, {"type": "image"}, {"text": "table"}]}, "no such table"),
        ({"returncode": 1, "stderr": "fatal: no", "stdout": "begun"}, "fatal: no begun"),
        ({"stderr": "no process printed this"}, "The tool answered 500."),
        ({"content": "no list"}, "The tool answered 500."),
    ],
)
def test_the_texts_of_an_answer_are_its_words_and_else_its_line(body: Json, words: str) -> None:
    assert words_of(answered(body)) == words


def test_a_success_without_text_has_no_words() -> None:
    assert words_of(answered({"id": 7}, ObservationStatus.SUCCESS)) == ""


def test_words_are_bounded_and_quoted_in_ascii_on_one_line() -> None:
    many: Json = {"content": [{"text": f"part {number}"} for number in range(BLOCKS_MAX + 1)]}
    assert f"part {BLOCKS_MAX}" not in words_of(answered(many))
    assert len(words_of(answered("x" * 5_000))) <= WORDS_MAX_CHARACTERS
    assert "\n" not in quoted_line("a\nb\u202e")
    assert quoted_line("a\nb\u202e").isascii()
