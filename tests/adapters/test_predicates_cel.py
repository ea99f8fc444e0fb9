"""Expressions in CEL: what they decide, what they refuse, and that nothing makes them run away."""

from __future__ import annotations

import resource
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readback.adapters.cel import CelPredicates
from readback.canon import Json, limits
from readback.domain.predicate import (
    Evaluation,
    Path,
    Postcondition,
    Truth,
    conjoin,
    look,
    shown_values,
)
from readback.errors import ExpressionError, InvariantError
from readback.ports.predicates import ROOTS, Evaluated, PredicateEngine

ENGINE: PredicateEngine = CelPredicates()

READING: dict[str, Json] = {
    "id": "o-17",
    "status": "shipped",
    "count": 2,
    "price": 10.1,
    "amount": "10.10",
    "lines": [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}],
    "gone": None,
    "paid": True,
    "at": "2024-01-01T00:00:00Z",
    "raw": {"$bytes": "YWJj"},
    "huge": 2**63 + 1,
}
REQUEST: dict[str, Json] = {"id": "o-17", "carrier": "dhl", "content": "abc"}


def judge(source: str, *, boolean: bool = True, **variables: Json) -> Evaluated:
    """Against the reading above where no other is given."""
    given_values = variables or {"authoritative": READING, "requested": REQUEST}
    return ENGINE.compile(source, boolean=boolean).evaluate(ENGINE.bind(given_values))


def refused(source: str, *, boolean: bool = True) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        ENGINE.compile(source, boolean=boolean)
    return caught.value


# --- what is decided ----


@pytest.mark.parametrize(
    ("source", "truth"),
    [
        ("authoritative.status == 'shipped'", True),
        ("authoritative.status == 'lost'", False),
        ("authoritative.id == requested.id", True),
        ("authoritative != null", True),
        ("before == null", True),
        ("authoritative.gone == null", True),
        ("authoritative.gone == 'x'", False),
        ("authoritative.gone != 'x'", True),
        ("authoritative.count == 2.0", True),
        ("authoritative.count == 2u", True),
        ("authoritative.count > 1.5", True),
        ("authoritative.price == 10.1", True),
        ("authoritative.huge > 9223372036854775807", True),
        ("authoritative.huge == 9223372036854775809u", True),
        ("authoritative.count + 1 == 3", True),
        ("authoritative.paid", True),
        ("!authoritative.paid", False),
        ("authoritative.lines.size() == 2", True),
        ("authoritative.lines.all(l, l.n > 0)", True),
        ("authoritative.lines.exists_one(l, l.sku == 'a')", True),
        ("authoritative.lines.map(l, l.sku) == ['a', 'b']", True),
        ("authoritative.lines.filter(l, l.n > 1).size() == 1", True),
        ("authoritative.lines[0] == {'sku': 'a', 'n': 1}", True),
        ("authoritative.lines == [{'sku': 'a', 'n': 1}]", False),
        ("'sku' in authoritative.lines[0]", True),
        ("authoritative.status in ['shipped', 'delivered']", True),
        ("has(authoritative.nothing)", False),
        ("has(authoritative.nothing) && authoritative.nothing == 1", False),
        ("authoritative.paid || authoritative.nothing == 1", True),
        ("authoritative.status.matches('^ship')", True),
        ("authoritative.status.startsWith('ship') // a remark", True),
        ("type(authoritative.count) == int", True),
    ],
)
def test_an_expression_decides(source: str, truth: bool) -> None:
    assert judge(source) == Evaluated("value", truth)


@pytest.mark.parametrize(
    ("source", "truth"),
    [
        ("sha256(requested.content) == sha256(authoritative.raw)", True),
        ("sha256(b'abc') == 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'", True),
        ("sha256('é') == sha256(b'\\xc3\\xa9')", True),
        ("dec_eq(authoritative.amount, authoritative.price)", True),
        ("dec_eq('0.1', 0.1) && dec_eq(1, '1.000')", True),
        ("dec_cmp(authoritative.amount, 10) > 0", True),
        ("dec_cmp('9.99', '10.00') == -1", True),
        ("contains_all(['a', 'b', 1], [1, 'a'])", True),
        ("contains_all(['a', 'b'], ['a', 'c'])", False),
        ("contains_all(['1'], [1])", False),
        ("contains_all([{'a': 1}], [{'a': 1}])", True),
        ("contains_any(['a', 'b'], ['c', 'b'])", True),
        ("contains_any(['a'], [])", False),
        ("'a' in ['b', 'a'] && !('a' in ['b']) && 'a' in {'a': 1} && !(authoritative.gone in ['a'])", True),
        ("authoritative.count in [1, 'x', authoritative.count] || 'x' in authoritative.status", True),
        ("['a', 'b'].filter(x, x in ['b']) == ['b'] && !('a' in []) && !(1 in authoritative.lines.map(x, 2))", True),
        ("edited('a b', [['b', 'c']]) == 'a c'", True),
        ("dec_cmp('1E+999999', '1') == 1", True),
        ("timestamp(authoritative.at) < timestamp('2024-01-01T00:00:01Z')", True),
        ("timestamp(authoritative.at) == timestamp('2024-01-01T01:00:00+01:00')", True),
        ("timestamp(authoritative.at) + duration('1h') == timestamp('2024-01-01T01:00:00Z')", True),
    ],
)
def test_a_helper_decides(source: str, truth: bool) -> None:
    assert judge(source) == Evaluated("value", truth)


@pytest.mark.requirement("TRUTH-verdict-1")
@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("authoritative.nothing == 1", "missing"),
        ("authoritative.nothing != 1", "missing"),
        ("authoritative.gone.deeper == 1", "missing"),
        ("before.status == 'new'", "missing"),
        ("authoritative.lines[2].n == 1", "missing"),
        ("authoritative['nothing'] == 1", "missing"),
        ("authoritative.status == 1", "type"),
        ("authoritative.status != 1", "type"),
        ("authoritative.count != 'cancelled'", "type"),
        ("authoritative.paid == 1", "type"),
        ("!(authoritative.paid == 'true')", "type"),
        ("authoritative.amount == authoritative.price", "type"),
        ("authoritative.lines[0] == {'sku': 'a', 'n': '1'}", "type"),
        ("authoritative.at == timestamp('2024-01-01T00:00:00Z')", "type"),
        ("authoritative.status < 5", "type"),
        ("!authoritative.status", "type"),
        ("authoritative.status && true", "type"),
        ("authoritative.status", "type"),
        ("authoritative.count", "type"),
        ("authoritative.gone", "type"),
        ("authoritative.lines", "type"),
        ("sha256(authoritative.count) == 'x'", "type"),
        ("sha256(authoritative.lines[0]) == 'x'", "type"),
        ("dec_eq(authoritative.status, 1)", "type"),
        ("dec_eq(authoritative.paid, 1)", "type"),
        ("dec_eq('NaN', 'NaN')", "type"),
        ("dec_eq('1_0', 10)", "type"),
        ("dec_eq(' 10', '10')", "type"),
        ("dec_eq('\N{FULLWIDTH DIGIT ONE}', 1)", "type"),
        ("dec_cmp('1e99999999999999999999', 1) > 0", "type"),
        ("!('1' in [authoritative.count])", "type"),
        ("!(authoritative.count in {'3': true})", "type"),
        ("authoritative.lines.all(each, !(each.sku in [1, 2]))", "type"),
        ("!('a' in authoritative.gone)", "type"),
        ("timestamp(authoritative.status) < timestamp(authoritative.at)", "type"),
        ("authoritative.count / 0 == 1", "error"),
    ],
)
def test_what_cannot_be_evaluated_is_neither_true_nor_false(source: str, kind: str) -> None:
    result = judge(source)
    assert (result.kind, result.value) == (kind, None)
    assert result.error


def test_a_difference_between_kinds_does_not_hide_an_answer_that_stands() -> None:
    assert judge("authoritative.status == 1 || authoritative.count == 2").value is True
    assert judge("authoritative.status == 1 && authoritative.count == 3").value is False
    assert judge("authoritative.lines == ['a', 1, 2]").value is False


@pytest.mark.parametrize("number", [2**64, 2**70, -(2**63) - 1])
def test_an_integer_beyond_64_bits_is_compared_and_added_exactly(number: int) -> None:
    reading: Json = {"n": number}
    assert judge(f"authoritative.n == {number} && authoritative.n != {number + 1}", authoritative=reading).value is True
    assert judge(f"authoritative.n + 1 == {number + 1}", authoritative=reading).value is True


def test_a_message_does_not_repeat_values() -> None:
    for source in ("authoritative.secret == 1", "authoritative.secret < 5", "dec_eq(authoritative.secret, 1)"):
        assert "hunter2" not in str(judge(source, authoritative={"secret": "hunter2"}).error)


def test_a_value_expression_gives_plain_json() -> None:
    assert judge("authoritative.lines", boolean=False) == Evaluated("value", READING["lines"])
    assert judge("authoritative", boolean=False) == Evaluated("value", READING)
    assert judge("authoritative.gone", boolean=False) == Evaluated("value", None)
    assert judge("timestamp(authoritative.at)", boolean=False) == Evaluated("value", "2024-01-01T00:00:00Z")
    assert judge("b'abc'", boolean=False) == Evaluated("value", {"$bytes": "YWJj"})
    assert judge("authoritative.nothing", boolean=False).kind == "missing"
    assert judge("type(1)", boolean=False).kind == "type"
    assert refused("double('NaN') == 1").code == "expression.forbidden"


KIND_OF = {bool: "boolean", int: "number", float: "number", str: "text", list: "list", dict: "object"}
SCALARS = st.none() | st.booleans() | st.integers(-100, 100) | st.floats(-9, 9) | st.text(max_size=3)


@given(SCALARS, SCALARS)
def test_equality_is_exact_within_a_kind_and_refused_between_kinds(one: Json, other: Json) -> None:
    same = judge("before == authoritative", before=one, authoritative=other)
    differ = judge("before != authoritative", before=one, authoritative=other)
    if one is None or other is None:
        expected: bool | None = one is other
    elif KIND_OF[type(one)] != KIND_OF[type(other)]:
        expected = None
    else:
        expected = one == other
    assert same.value is expected
    assert differ.value is (None if expected is None else not expected)


# --- what is refused at load ----


@pytest.mark.requirement("INPUT-expression-syntax", "L25")
@pytest.mark.parametrize(
    ("source", "column"),
    [
        ("authoritative.status = 'x'", 22),
        ("1 +", 4),
        ("", 1),
        ("'open", 1),
        ("authoritative.a == 1 &&\n  ) ", 27),
        ("\ud800", 0),
    ],
)
def test_an_expression_that_does_not_compile_is_refused_with_its_place(source: str, column: int) -> None:
    error = refused(source)
    assert (error.code, error.column, error.exit_code) == ("expression.syntax", column, 5)
    assert error.source == source


@pytest.mark.requirement("INPUT-expression-type", "L25")
@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("authoritativ.x == 1", "expression.unknown-name"),
        ("result.x == 1", "expression.unknown-name"),
        ("now() > timestamp('2024-01-01T00:00:00Z')", "expression.unknown-name"),
        ("cel.bind(x, 1, x == 1)", "expression.unknown-name"),
        ("size(1) == 1", "expression.type"),
        ("'a' == 1", "expression.type"),
        ("size(authoritative.x) == 'one'", "expression.type"),
        ("1", "expression.type"),
        ("'true'", "expression.type"),
        ("timestamp(authoritative.at)", "expression.type"),
        ("authoritative.x && 1", "expression.type"),
        ("type(authoritative.n) == uint", "expression.forbidden"),
        ("timestamp(authoritative.at).getHours('Europe/Berlin') == 1", "expression.forbidden"),
        ("authoritative.n < double('Infinity')", "expression.forbidden"),
        ("type(authoritative.n) == google.protobuf.Timestamp", "expression.forbidden"),
        ("authoritative.n == {true: 1}", "expression.type"),
        ("authoritative.?x == 1", "expression.forbidden"),
        ("google.protobuf.Int32Value{value: 1} == 1", "expression.forbidden"),
    ],
)
def test_an_expression_that_cannot_be_true_or_false_is_refused(source: str, code: str) -> None:
    assert refused(source).code == code


def test_a_value_expression_may_have_any_type() -> None:
    assert refused("1").code == "expression.type"
    assert judge("1", boolean=False).value == 1


@pytest.mark.requirement("INPUT-expression-limits")
@pytest.mark.parametrize(
    "source",
    [
        "true" + " " * (limits.EXPRESSION_MAX_BYTES - 3),
        "'" + "é" * 1_100 + "' == 'x'",
        "(" * 1_000 + "true" + ")" * 1_000,
        "(" * 25 + "true" + ")" * 25,
        "[" * 1_000 + "]" * 1_000,
        "{1:" * 300 + "1" + "}" * 300 + " == 1",
        "size(" * 300 + "'a'" + ")" * 300,
        "authoritative" + ".a" * 900,
        "authoritative" + "[0]" * 600,
        "+".join(["1"] * 900) + " == 1",
        "-".join(["1"] * 900) + " == 1",
        "==".join(["true"] * 300),
        "[1].all(a, [1].all(b, [1].all(c, true)))",
        "[[[1]]].all(a, a.all(b, b.exists(c, c == 1)))",
    ],
    ids=lambda source: source[:24],
)
def test_an_expression_over_the_limits_is_refused(source: str) -> None:
    assert refused(source).code == "expression.limit"


def test_an_expression_of_the_largest_size_is_accepted() -> None:
    source = "true" + " " * (limits.EXPRESSION_MAX_BYTES - 4)
    assert judge(source).value is True
    assert judge("(" * 24 + "true" + ")" * 24).value is True
    assert judge("!" * 2_000 + "true").value is True
    assert judge("&&".join(["true"] * 300)).value is True


@given(st.text(max_size=60) | st.text("()[]{}'\"\\+=.!&|? authoritive.al(x,1)\n/", max_size=60))
def test_no_text_brings_the_engine_down(source: str) -> None:
    with suppress(ExpressionError):
        predicate = ENGINE.compile(source)
        assert isinstance(predicate.evaluate(ENGINE.bind({"authoritative": READING})), Evaluated)


# --- nothing runs away ----

BIG = "x" * 1_000_000
NUMBERS: Json = list(range(9_999))


@pytest.mark.requirement("INPUT-expression-limits")
@pytest.mark.parametrize(
    ("source", "reading"),
    [
        ("authoritative.all(x, x in authoritative)", NUMBERS),
        ("authoritative.all(x, authoritative == authoritative)", NUMBERS),
        ("authoritative.all(x, authoritative.all(y, x + y >= 0))", list(range(1_000))),
        ("[authoritative].all(x, [x + x + x + x].all(y, size(y + y + y + y) == 1))", BIG),
        ("[" + ",".join(["authoritative"] * 60) + "].map(x, x + x).size() == 1", BIG),
        ("[authoritative + authoritative].all(x, size(x + x + x + x + x) == 1)", BIG),
        ("authoritative.n.all(x, authoritative.t + authoritative.t != '')", {"n": NUMBERS, "t": BIG}),
        ("authoritative.n.all(x, sha256(authoritative.t) != '')", {"n": NUMBERS, "t": BIG}),
        ("authoritative.n.exists(x, authoritative.t.matches('(a|x)*y'))", {"n": NUMBERS, "t": BIG}),
        ("[" + ",".join(["1"] * 500) + "].all(x, authoritative + authoritative != '')", BIG),
    ],
    ids=lambda value: value[:50] if isinstance(value, str) else "",
)
def test_a_bomb_ends_undetermined_and_costs_little(source: str, reading: Json) -> None:
    predicate = ENGINE.compile(source)
    binding = ENGINE.bind({"authoritative": reading})
    before = resource.getrusage(resource.RUSAGE_SELF)
    result = predicate.evaluate(binding)
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert (result.kind, result.value) == ("limit", None)
    assert after.ru_maxrss - before.ru_maxrss < 100_000, "KiB"
    assert after.ru_utime - before.ru_utime < 2, "seconds of computing, not of waiting"


@pytest.mark.parametrize(
    ("source", "reading"),
    [
        ("authoritative.all(x, x >= 0)", list(range(20_000))),
        ("authoritative.map(x, x * 2).size() == 20000", list(range(20_000))),
        ("authoritative.filter(x, x >= 0).size() == 20000", list(range(20_000))),
        ("authoritative.map(x, x * 2).size() == 1000", list(range(1_000))),
        ("authoritative.all(i, i.total == i.price + i.tax)", [{"total": 3, "price": 1, "tax": 2}] * 2_000),
        ("authoritative.all(o, o.lines.exists(l, l.n == o.n))", [{"n": 1, "lines": [{"n": 1}] * 5}] * 200),
        ("authoritative.all(x, x in [0, 1, 2])", [0, 1, 2] * 1_000),
        ("sha256(authoritative) != ''", BIG),
        ("authoritative.matches('(a|x)*')", BIG),
    ],
    ids=lambda value: value[:50] if isinstance(value, str) else "",
)
def test_an_honest_large_reading_is_decided(source: str, reading: Json) -> None:
    assert judge(source, authoritative=reading).value is True


# --- engine, binding, paths ----


def test_one_binding_serves_many_predicates_and_keeps_no_answer() -> None:
    binding = ENGINE.bind({"authoritative": {"a": 1}})
    truths = [ENGINE.compile(f"authoritative.a == {n}").evaluate(binding).value for n in (1, 2, 1, 2)]
    assert truths == [True, False, True, False]


def test_compiling_again_gives_the_same_predicate() -> None:
    assert ENGINE.compile("authoritative.a == 1") is ENGINE.compile("authoritative.a == 1")
    assert ENGINE.compile("authoritative.a") is not ENGINE.compile("authoritative.a", boolean=False)


def test_an_unknown_root_cannot_be_bound() -> None:
    with pytest.raises(InvariantError, match="result"):
        ENGINE.bind({"result": 1})


def test_a_root_that_was_not_bound_is_null() -> None:
    binding = ENGINE.bind({})
    assert all(ENGINE.compile(f"{root} == null").evaluate(binding).value is True for root in ROOTS)


def test_threads_may_share_an_engine_and_its_predicates() -> None:
    engine = CelPredicates()
    start = threading.Barrier(4)

    def work(worker: int) -> list[Json]:
        start.wait(10)
        answers: list[Json] = []
        for number in range(300):
            predicate = engine.compile(f"authoritative.n == {number % 7} && dec_eq(authoritative.d, '1.0')")
            reading: Json = {"n": worker, "d": 1}
            answers.append(predicate.evaluate(engine.bind({"authoritative": reading})).value)
        return answers

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(4)))
    assert results == [[number % 7 == worker for number in range(300)] for worker in range(4)]


@pytest.mark.parametrize(
    ("source", "paths"),
    [
        ("authoritative.status == requested.status", ("authoritative.status", "requested.status")),
        ("authoritative.a == 1 && authoritative.a != 2", ("authoritative.a",)),
        ("authoritative.lines[0].n == 1", ("authoritative.lines[0].n",)),
        ("authoritative['a b'].c == 1", ("authoritative['a b'].c",)),
        ("authoritative.lines.all(l, l.authoritative == 1)", ("authoritative.lines",)),
        ("authoritative[requested.k] == 1", ("authoritative", "requested.k")),
        ("authoritative.s.startsWith('before.x')", ("authoritative.s",)),
        ("has(before.x) // scope.y", ("before.x",)),
        ("r'\\d' == authoritative.a || \"'\" == before.b", ("authoritative.a", "before.b")),
        ("'''it's''' == authoritative.a", ("authoritative.a",)),
        (".authoritative.a == 1", ("authoritative.a",)),
        ("true", ()),
    ],
)
def test_the_paths_of_an_expression_are_known_for_display(source: str, paths: tuple[str, ...]) -> None:
    predicate = ENGINE.compile(source)
    assert (tuple(path.text for path in predicate.paths), predicate.source) == (paths, source)
    assert all(look(path, dict.fromkeys(ROOTS)) is None for path in predicate.paths)


# --- the values that a judgement has ----


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a.b[0]['c d']", 7),
        ("a.b[1]", None),
        ("a.nothing.deeper", None),
        ("a[0]", None),
        ("nothing", None),
        ("t", "text"),
        ("t.x", None),
    ],
)
def test_a_path_leads_to_a_value_or_nowhere(path: str, value: Json) -> None:
    assert look(Path.named(path), {"a": {"b": [{"c d": 7}]}, "t": "text"}) == value


def test_shown_values_are_bounded() -> None:
    shown = dict(shown_values(map(Path.named, "abcd"), {"a": "x" * 999, "b": [1, 2], "c": {"k": 1}, "d": []}))
    assert shown == {"a": "x" * 240 + "…", "b": "(list of 2)", "c": "(object of 1)", "d": []}


H, V, U = Truth.HOLDS, Truth.VIOLATED, Truth.UNDETERMINED


@pytest.mark.parametrize(
    ("truths", "together"),
    [([H], H), ([H, H], H), ([H, U], U), ([U, V], V), ([H, V], V), ([H, U, V], V), ([U], U), ([V], V)],
)
def test_truths_are_joined_by_the_worst_known(truths: list[Truth], together: Truth) -> None:
    assert conjoin(truths) == together == conjoin(reversed(truths))


def test_nothing_judged_has_no_truth() -> None:
    with pytest.raises(InvariantError):
        conjoin([])


def test_a_postcondition_is_an_expression_or_a_versioned_callable() -> None:
    assert Postcondition("a", expression="authoritative != null").source == "authoritative != null"
    assert Postcondition("a", check=len, check_name="m.f", check_version="1").source == "m.f@1"
    for wrong in (
        {},
        {"expression": "true", "check": len, "check_name": "f", "check_version": "1"},
        {"check": len},
        {"check": len, "check_name": "f"},
    ):
        with pytest.raises(InvariantError):
            Postcondition("a", **wrong)


def test_an_evaluation_has_no_default_truth() -> None:
    with pytest.raises(TypeError):
        Evaluation("a")  # type: ignore[call-arg]
