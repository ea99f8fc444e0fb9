"""The ends of a text's lines, said in a header and put back: what was sent, or another text where it was altered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readback.domain.line_ends import HEADER_MAX_CHARACTERS, as_mail, ends_of, with_ends

TEXTS = st.text(alphabet="ab \r\n", max_size=40)


@pytest.mark.requirement("MAIL-line-ends")
@given(TEXTS)
def test_the_text_that_was_sent_comes_back_with_its_own_ends(text: str) -> None:
    assert with_ends(as_mail(text), ends_of(text)) == text


@pytest.mark.requirement("MAIL-line-ends")
@given(TEXTS, TEXTS)
def test_another_text_never_comes_back_as_the_one_that_was_sent(sent: str, delivered: str) -> None:
    if as_mail(sent) != as_mail(delivered):
        assert with_ends(as_mail(delivered), ends_of(sent)) != sent


@pytest.mark.requirement("MAIL-line-ends")
@given(st.text(alphabet="lcrf*0123456789 x", max_size=30), TEXTS)
def test_what_a_header_says_changes_nothing_but_the_ends_of_lines(said: str, text: str) -> None:
    assert as_mail(with_ends(as_mail(text), said)) == as_mail(text)


@pytest.mark.parametrize("text", ["Hi.", "", "a\nb", "a\n\nb"])
def test_what_mail_carries_as_it_is_needs_no_header(text: str) -> None:
    assert ends_of(text) == ""


def test_what_is_said_is_bounded() -> None:
    assert ends_of("a\n" * 1_000_000) == "lf*1000000"
    assert ends_of("a\n\r" * 1_000) == ""
    assert with_ends("a", "lf*9999999") == "a"
    assert with_ends("a", "x" * (HEADER_MAX_CHARACTERS + 1)) == "a"
    assert with_ends("a\nb", "crlf") == "a\r\nb"
