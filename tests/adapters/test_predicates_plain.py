"""The plainest expressions are answered without the library: exactly as it answers them, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readback.adapters.predicates_cel import CelPredicates
from readback.adapters.predicates_cel.plain import plainly
from readback.canon import Json, sha256_hex

ENGINE = CelPredicates()
SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.sampled_from(["a", "b", "", "é"])
VALUES: st.SearchStrategy[Json] = st.recursive(
    SCALARS, lambda part: st.dictionaries(st.sampled_from(["a", "b", "size"]), part) | st.lists(part, max_size=2)
)
PATHS = ("requested.a", "authoritative.a", "authoritative.a.b", "authoritative.size", "scope.b.a")
SOURCES = (
    *PATHS,
    *(f"{path} == 'a'" for path in PATHS),
    "authoritative.a == ''",
    *(f"{path} == requested.a" for path in PATHS),
    *(f"{path} == sha256(requested.a)" for path in PATHS),
)


@given(st.sampled_from(SOURCES), VALUES, VALUES, VALUES)
def test_a_plain_answer_is_the_librarys_own(source: str, requested: Json, found: Json, scope: Json) -> None:
    boolean = "==" in source
    binding = ENGINE.bind({"requested": requested, "authoritative": found, "scope": scope})
    told = ENGINE.compile(source, boolean=boolean).evaluate(binding)
    # In brackets it has another form, and goes to the library.
    assert plainly(f"({source})", boolean) is None
    assert told == ENGINE.compile(f"({source})", boolean=boolean).evaluate(binding)


@pytest.mark.parametrize(
    "source",
    [
        "authoritative.a == 'it\\'s'",
        "authoritative.a == 'a' && requested.a == 'b'",
        "authoritative.a != 'a'",
        "authoritative['a'] == 'a'",
        "authoritative == requested",
        "authoritative.a == 1",
        "authoritative.a == 'a' == true",
        "authoritative.a == 'ä'",
        "size(authoritative.a)",
    ],
)
def test_any_other_form_goes_to_the_library(source: str) -> None:
    assert plainly(source, True) is None
    assert plainly(source, False) is None


@pytest.mark.parametrize("source", SOURCES)
def test_texts_are_compared_without_it(source: str) -> None:
    answer = plainly(source, "==" in source)
    assert answer is not None
    value: Json = {"a": {"b": "x", "a": "x"}, "b": {"a": "x"}, "size": "x"}
    told = answer({"requested": {"a": "a"}, "authoritative": value, "scope": value})
    assert (told is None) == (source.split(" ")[0] == "authoritative.a")  # an object here, so the library's


@pytest.mark.parametrize(
    "source",
    [
        "authoritative.a == 'acme'",
        "(authoritative.a == 'acme')",
        "authoritative.a == requested.a",
        "(authoritative.a == requested.a)",
        "size(authoritative.a) == 4",
        "authoritative == {'a': 'acme'}",
    ],
)
def test_a_text_is_never_taken_for_its_part_before_a_nul(source: str) -> None:
    """The library ends a text there: without a look of our own, `acme\\0evil` would be the tenant `acme`."""
    binding = ENGINE.bind({"requested": {"a": "acme"}, "authoritative": {"a": "acme\0evil"}})
    told = ENGINE.compile(source).evaluate(binding)
    assert told.kind == "type" or told.value is False


def test_a_nul_elsewhere_keeps_nothing_from_being_judged() -> None:
    binding = ENGINE.bind({"requested": {"a": "acme", "b": "\0"}, "authoritative": {"a": "acme", "note": "x\0y"}})
    assert ENGINE.compile("(authoritative.a == requested.a)").evaluate(binding).value is True


def test_the_digest_of_a_text_with_a_nul_is_that_of_the_whole_text() -> None:
    text = "a\0b"
    predicate = ENGINE.compile("authoritative.sha256 == sha256(requested.a)", boolean=True)
    for held, holds in ((text, True), ("a", False)):
        found: Json = {"sha256": sha256_hex(held.encode())}
        assert predicate.evaluate(ENGINE.bind({"requested": {"a": text}, "authoritative": found})).value is holds


def test_a_text_with_half_a_character_has_no_digest() -> None:
    predicate = ENGINE.compile("authoritative.sha256 == sha256(requested.a)", boolean=True)
    binding = ENGINE.bind({"requested": {"a": "a\ud800"}, "authoritative": {"sha256": sha256_hex(b"a")}})
    assert predicate.evaluate(binding).kind == "error"
