"""Normal forms of Unicode: as the standard library gives them, and in time linear in the text."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from unicodedata import combining, normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readback.canon import unicode_forms
from readback.canon.unicode_forms import RUN_MAX_CHARACTERS, Form, has_long_run, normalized
from readback.domain.normal_form import DOMAIN_MAX_CHARACTERS, NormalForm, normal, widest
from readback.engine.values.decoding import squashed

FORMS: tuple[Form, ...] = ("NFC", "NFD", "NFKC", "NFKD")
MIB = 1_048_576
LOOPS_MAX = 10
"""Times as long as a loop over a million numbers may a mebibyte take: about 0.1 s on a quiet machine of today."""
RUNS = 3
ODD = (
    "ae\u00e9\u1e69\u0301\u0327\u0323\u0344\u0345\u0f71\u0f72\u0f73\u0f81"
    "\u3099\uff9e\uff76\u1100\u1161\u11a8\ufb2c\U0001d15f\U0001d165\u0315 "
)
"""Letters, marks of several classes, characters that decompose into marks only, and characters that compose."""


def seconds(call: Callable[[], object]) -> float:
    """Of this thread's time on the processor, the least of some runs."""
    least = float("inf")
    for _ in range(RUNS):
        began = time.thread_time()
        call()
        least = min(least, time.thread_time() - began)
    return least


def most() -> float:
    """In proportion to a loop of now, so that a busy machine changes little."""
    return LOOPS_MAX * seconds(lambda: sum(range(1_000_000)))


@pytest.mark.requirement("SEC-one-mebibyte")
@pytest.mark.parametrize("form", FORMS)
@given(text=st.text(st.sampled_from(ODD), max_size=120))
def test_a_form_is_that_of_the_standard_library(form: Form, text: str) -> None:
    long = "x" * unicode_forms.SHORT_MAX_CHARACTERS + text
    assert normalized(form, long) == normalize(form, long)


@pytest.mark.requirement("SEC-one-mebibyte")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("unit", ["\u0301\u0327", "\u0f73", "\u0345\u0315\u0301\u0327", "\u0344\u0323", "\uff9e\u0301"])
def test_a_long_run_of_marks_is_that_of_the_standard_library(form: Form, unit: str) -> None:
    text = "e" + unit * 400 + "\u00e9" + unit * 300
    assert normalized(form, text) == normalize(form, text)


@pytest.mark.slow
@pytest.mark.requirement("SEC-one-mebibyte")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("unit", ["\u0301\u0327", "\u0f73", "\u0345\u0315\u0301\u0327", "e\u0301"])
def test_a_mebibyte_of_marks_is_put_into_a_form_soon(form: Form, unit: str) -> None:
    """A run of this length takes the standard library several minutes."""
    normalized(form, ODD * unicode_forms.SHORT_MAX_CHARACTERS)
    text = "e" + unit * ((MIB - 100) // len(unit.encode()))
    assert seconds(lambda: normalized(form, text)) < most()
    assert seconds(lambda: squashed(text)) < most()


@given(text=st.text(st.sampled_from(ODD), max_size=60))
def test_a_searched_value_is_the_same_without_the_marks_of_a_text(text: str) -> None:
    text += "x" * unicode_forms.SHORT_MAX_CHARACTERS
    folded = normalize("NFKD", normalize("NFKD", text).casefold())
    assert squashed(text) == re.sub(r"[\W_]+", "", folded)


def test_every_character_that_decomposes_into_marks_counts_in_a_run() -> None:
    for number in range(0x80, sys.maxunicode + 1):
        character = chr(number)
        marks = not 0xD800 <= number < 0xE000 and all(map(combining, normalize("NFD", character)))
        if marks:
            assert has_long_run(character * (RUN_MAX_CHARACTERS + 1)), hex(number)
    assert not has_long_run("e\u0301" * 100)
    assert not has_long_run("\u0301" * RUN_MAX_CHARACTERS)


@pytest.mark.requirement("SEC-one-mebibyte")
def test_names_and_searched_values_of_a_model_are_compared_soon() -> None:
    marks = "a" + "\u0301\u0327" * 100_000
    domain = "x@" + "\u00e9." * 100_000
    calls: tuple[Callable[[], object], ...] = (
        lambda: widest(marks),
        lambda: normal((NormalForm.NFC,), marks),
        lambda: normal((NormalForm.CASEFOLD,), marks),
        lambda: normal((NormalForm.EMAIL,), domain),
        lambda: widest(domain),
        lambda: squashed(marks),
    )
    for call in calls:
        assert seconds(call) < most()


def test_a_domain_beyond_the_limit_of_dns_is_compared_letter_by_letter() -> None:
    name = "x@" + "\u00c9" * (DOMAIN_MAX_CHARACTERS + 1)
    assert normal((NormalForm.EMAIL,), name) == name
    assert normal((NormalForm.EMAIL,), "x@B\u00dccher.example") == "x@xn--bcher-kva.example"
