"""What a text is taken for: letters that look alike are one, and what cannot be seen is not there."""

from __future__ import annotations

import string

import pytest

from readback.domain.grounding.confusables import folded


def test_plain_text_is_itself_in_lower_case() -> None:
    printed = "".join(map(chr, range(ord(" "), ord("~") + 1)))
    assert folded(printed) == printed.lower()
    assert folded(printed + "\u00e9") == printed.lower() + "e"
    assert folded(string.ascii_uppercase + "\n") == string.ascii_lowercase + "\n"


def test_line_breaks_and_tabs_stay_and_other_signs_that_cannot_be_seen_go() -> None:
    assert folded("a\r\n\tb") == "a\r\n\tb"
    assert folded("a\x00\x07\x0b\x0c\x1b\x7f\x85b") == "ab"
    assert folded("\u00e9a\x07b") == "eab"
    for unseen in "\u00ad\u200b\u2060\ufeff\u0301\u20dd\u115f\u1160\u3164\uffa0\u2800":
        assert folded(f"a{unseen}b") == "ab", hex(ord(unseen))


@pytest.mark.parametrize(
    ("look", "letters"),
    [
        ("D\u043en\u0435", "done"),
        ("\uff24\uff2f\uff2e\uff25", "done"),
        ("\U0001d403\U0001d428\U0001d427\U0001d41e", "done"),
        ("\u0414one", "\u0434one"),
        ("\u0433\u0435\u0430d", "read"),
        ("\u1d26ead", "read"),
        ("\u24d3\u24de\u24dd\u24d4", "done"),
        ("d\u00f6n\u00e9", "done"),
        ("\u3010\u0430\u02d0\u3011", "[a:]"),
        ("\ufb01", "fi"),
        ("\u00df", "ss"),
        ("\u0130", "i"),
    ],
)
def test_what_looks_alike_is_one(look: str, letters: str) -> None:
    assert folded(look) == letters
