"""The language: what settles an expression, what it says where nothing does, and what to write instead of others."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readback.canon import Json
from readback.domain.predicate import Truth
from readback.engine.compiled_contract import IdentityCheck
from readback.engine.stages.evaluate import identify
from readback.errors import ExpressionError
from tests.expressions.spoken import ENGINE, answer

NOBODY_KNOWS = ("authoritative.nothing", "authoritative.text == 1", "1 / 0 == 1", "authoritative.text")
VALUES: dict[str, Json] = {"authoritative": {"text": "a", "none": None, "n": 1, "list": [1, "a", None]}}


@pytest.mark.requirement("EXPR-three-values")
@pytest.mark.parametrize("unknown", NOBODY_KNOWS)
def test_a_part_that_settles_it_does_so_on_either_side(unknown: str) -> None:
    for source, told in (
        (f"false && {unknown}", False),
        (f"{unknown} && false", False),
        (f"true || {unknown}", True),
        (f"{unknown} || true", True),
        (f"true && {unknown} && false", False),
        (f"[1, 2].all(x, x == 1 || {unknown})", None),
        (f"[1, 2].exists(x, x == 2 || {unknown})", True),
    ):
        kind, value = answer(source, VALUES)
        assert (value if kind == "value" else None) is told, source


@pytest.mark.requirement("EXPR-three-values")
@pytest.mark.parametrize("unknown", NOBODY_KNOWS)
@pytest.mark.parametrize("around", ["!({0})", "true && {0}", "{0} || false", "({0}) ? true : true", "[1].all(x, {0})"])
def test_what_nobody_knows_is_neither_true_nor_false_and_neither_is_its_opposite(unknown: str, around: str) -> None:
    source = around.format(unknown)
    said = ENGINE.compile(source).evaluate(ENGINE.bind(VALUES))
    assert (said.kind == "value", said.value) == (False, None)
    assert said.error


def test_what_is_missing_is_told_with_its_path() -> None:
    said = ENGINE.compile("authoritative.none.deeper == 1").evaluate(ENGINE.bind(VALUES))
    assert (said.kind, said.path) == ("missing", "authoritative.none.deeper")
    assert "authoritative.none.deeper" in str(said.error)


@pytest.mark.parametrize(
    ("source", "instead"),
    [
        ("authoritative.a and authoritative.b", "`&&`"),
        ("authoritative.a or true", "`||`"),
        ("not authoritative.a", "`!`"),
        ("authoritative is None", "`== null`"),
        ("authoritative == None", "`null`"),
        ("authoritative.a == True", "`true`"),
        ("len(authoritative.a) == 1", "`size`"),
        ("authoritative.a.lower() == 'a'", "`lowerAscii`"),
        ("authoritative.a.strip() == 'a'", "`trim`"),
        ("authoritative.a = 1", "`==`"),
        ("authoritative.a & true", "`&&`"),
        ("'a' if authoritative.a else 'b'", "condition ? one : other"),
        ("authoritativ.a == 1", "'authoritative'"),
        ("authoritative.a.contain('x')", "`contains`"),
        ("has(authoritative['a'])", "'name' in object"),
        ("type(authoritative.a) == uint", "`int`"),
        ("timestamp(authoritative.a).getHours('Europe/Berlin') == 1", "'+02:00'"),
        ("authoritative.a == 'x\\q'", "r'...'"),
        ("authoritative.t == “x”", "ASCII"),
    ],
)
def test_what_is_not_of_the_language_is_refused_with_what_to_write(source: str, instead: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        ENGINE.compile(source)
    assert instead in caught.value.message
    assert caught.value.column


def test_a_place_in_a_later_line_is_told_by_its_line() -> None:
    with pytest.raises(ExpressionError, match=r"line 3, column 4") as caught:
        ENGINE.compile("authoritative.a == 1\n&&\n   ) ")
    assert caught.value.column == 28


# --- texts ---


@pytest.mark.parametrize("source", ["authoritative == requested", "authoritative.startsWith(requested + 'x')"])
@pytest.mark.parametrize("path", ["authoritative.text", "authoritative['text']", "authoritative['''text''']"])
def test_a_text_is_never_taken_for_its_part_before_a_nul(source: str, path: str) -> None:
    values: dict[str, Json] = {"authoritative": {"text": "pay 10\0to mallory"}, "requested": "pay 10"}
    assert answer(source.replace("authoritative", path, 1), values) == ("value", False)


@given(st.text(max_size=12))
def test_forms_of_texts_are_those_of_unicode(text: str) -> None:
    values: dict[str, Json] = {"authoritative": text}
    ascii_only = str.maketrans({chr(n): chr(n + 32) for n in range(ord("A"), ord("Z") + 1)})
    assert answer("authoritative.lowerAscii()", values) == ("value", text.translate(ascii_only))
    assert answer("authoritative.nfc()", values) == ("value", unicodedata.normalize("NFC", text))
    assert answer("authoritative.trim() == authoritative.trim().trim()", values) == ("value", True)
    assert answer("(authoritative + 'x').endsWith('x')", values) == ("value", True)


def test_half_a_character_has_neither_bytes_nor_a_digest_and_is_found_by_no_pattern() -> None:
    for source in ("sha256(authoritative)", "bytes(authoritative)", "authoritative.matches('a')"):
        assert answer(source, {"authoritative": "a\ud800"})[0] == "type"
    assert answer("authoritative == requested", {"authoritative": "a\ud800", "requested": "a"}) == ("value", False)


def test_a_long_row_of_combining_characters_is_not_sorted() -> None:
    assert answer("authoritative.nfc()", {"authoritative": "a" + "\u0315\u0300" * 20})[0] == "limit"


def test_times_are_exact_to_the_nanosecond_and_refuse_what_is_finer() -> None:
    later, sooner = "timestamp('2024-01-01T00:00:00.000000001Z')", "timestamp('2024-01-01T00:00:00Z')"
    assert answer(f"{later} > {sooner} && {later} != {sooner}") == ("value", True)
    assert answer(f"{later} - {sooner} == duration('1ns')") == ("value", True)
    assert answer("timestamp('2024-01-01T00:00:00.0000000001Z') > timestamp(0)")[0] == "type"
    assert answer("timestamp('2024-01-01T00:00:00') > timestamp(0)")[0] == "type"


# --- one tree ---


def test_a_name_in_a_text_a_remark_or_a_loop_is_no_path() -> None:
    predicate = ENGINE.compile("'before.x' == authoritative.a.b // scope.y\n && [1].all(scope, scope == 1)")
    assert [path.steps for path in predicate.paths] == [("authoritative", "a", "b")]
    assert not predicate.is_presence
    assert predicate.calls == {"all"}


@pytest.mark.parametrize(
    ("source", "is_presence"),
    [
        ("authoritative == null", True),
        ("(null != authoritative) // a remark", True),
        ("authoritative.a == null", False),
        ("before == null", False),
        ("authoritative == null || false", False),
    ],
)
def test_a_question_of_presence_is_known_by_its_tree(source: str, is_presence: bool) -> None:
    assert ENGINE.compile(source).is_presence is is_presence


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("{requested.a} x", 12),
        ("{'}' + requested.a}", 18),
        ("{'''}''' + requested.a}", 22),
        ("{r'\\' + requested.a} '}", 19),
        ("{size({'a': 1}) + 1}", 19),
        ("{requested.a", -1),
    ],
)
def test_an_expression_in_a_template_ends_where_its_words_say(text: str, end: int) -> None:
    assert ENGINE.end(text, 1) == end


def test_re2_is_loaded_where_a_pattern_is_used_and_nowhere_else() -> None:
    assert answer("authoritative.matches('^a.c$')", {"authoritative": "abc"}) == ("value", True)
    assert "re2" in sys.modules
    assert answer("authoritative.matches(requested)", {"authoritative": "abc", "requested": "(a"})[0] == "type"
    assert answer("authoritative.matches('(?=a)')") == ("refused", "expression.type")


# --- identity ---


@pytest.mark.parametrize("value", ["yes", 1, None, [True], {"a": True}])
def test_an_identity_that_gives_no_boolean_is_undetermined_and_never_violated(value: Json) -> None:
    seen: dict[str, Json] = {"authoritative": {"mine": value}, "requested": {}}
    compares = IdentityCheck("tenant", ENGINE.compile("authoritative.mine", boolean=False), True)
    joined = IdentityCheck("tenant", ENGINE.compile("authoritative.mine && true"), True)
    for check in (compares, joined):
        assert identify(check, ENGINE.bind(seen), seen, "acme", "t").truth is Truth.UNDETERMINED
    seen["authoritative"] = {"mine": False}
    assert identify(joined, ENGINE.bind(seen), seen, "acme", "t").truth is Truth.VIOLATED
