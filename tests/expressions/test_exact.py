"""Numbers as they are written: compared and calculated exactly, at any size, and never rounded."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readback.canon import Json, limits
from readback.canon.numbers import ExactNumber, number
from tests.expressions.spoken import ENGINE, answer

DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=12)
NUMBERS = st.integers(-(10**40), 10**40) | DECIMALS.map(number) | st.floats(allow_nan=False, allow_infinity=False)
SIGNS = {"==": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}


def meant(value: Any) -> Fraction:
    return Fraction(Decimal(repr(value))) if isinstance(value, float) else Fraction(value)


def judge(source: str, one: Json, other: Json) -> tuple[str, Any]:
    return answer(source, {"authoritative": one, "requested": other})


@pytest.mark.requirement("EXPR-exact")
@given(NUMBERS, NUMBERS)
def test_numbers_are_compared_as_what_they_say(one: Any, other: Any) -> None:
    for sign, does in SIGNS.items():
        told = judge(f"authoritative {sign} requested", one, other)
        assert told == ("value", getattr(meant(one), does)(meant(other))), sign


@pytest.mark.requirement("EXPR-exact")
@given(NUMBERS, NUMBERS)
def test_numbers_are_calculated_exactly_or_not_at_all(one: Any, other: Any) -> None:
    left, right = meant(one), meant(other)
    for sign, wanted in (("+", left + right), ("-", left - right), ("*", left * right)):
        kind, value = judge(f"authoritative {sign} requested", one, other)
        assert (kind, Fraction(value)) == ("value", wanted) if kind == "value" else kind in ("error", "limit")
    kind, value = judge("authoritative / requested", one, other)
    if kind == "value" and not (isinstance(one, int) and isinstance(other, int)):
        assert Fraction(value) * right == left


@pytest.mark.requirement("EXPR-exact")
@pytest.mark.parametrize(
    ("one", "sign", "other", "truth"),
    [
        (9_007_199_254_740_993, "<=", 9_007_199_254_740_992.0, False),
        (9_007_199_254_740_993, "==", 9_007_199_254_740_992.0, False),
        (ExactNumber("1.000000000000000001"), "==", 1, False),
        (ExactNumber("1.000000000000000001"), ">", 1.0, True),
        (1.0, "==", 1, True),
        (10**23, "==", 1e23, True),
        (2**64 + 1, ">", 2**64, True),
        (0.1, "<", ExactNumber("0.10000000000000000001"), True),
        (-0.0, "==", 0, True),
    ],
)
def test_a_whole_number_and_a_fraction_never_contradict_each_other(
    one: Json, sign: str, other: Json, truth: bool
) -> None:
    assert judge(f"authoritative {sign} requested", one, other) == ("value", truth)
    assert judge(f"!(authoritative {sign} requested)", one, other) == ("value", not truth)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("0.1 + 0.2 == 0.3", True),
        ("0.1 * 3 == 0.3", True),
        ("7 / 2 == 3 && -7 / 2 == -3 && -7 % 2 == -1", True),
        ("7.0 / 2 == 3.5", True),
        ("[1.0, 2] == [1, 2.0] && 1.0 in [1] && {'a': 1.0} == {'a': 1}", True),
        ("contains_all([1.0, 100, 0.5], [1, 1e2, 5e-1])", True),
        ("double('0.1') + 0.2 == 0.3", True),
        ("string(1.50) == '1.5' && string(1e3) == '1000' && string(-0.0) == '0'", True),
    ],
)
def test_literals_are_exact(source: str, value: bool) -> None:
    assert answer(source) == ("value", value)


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("1.0 / 3 == 0.333", "error"),
        ("1 / 0 == 1", "error"),
        ("1.5 % 1 == 1", "refused"),
        ("authoritative * authoritative == 1", "limit"),
        ("authoritative + 1 == 1", "error"),
        ("int(authoritative) == 1", "limit"),
        ("string(authoritative) == '1'", "limit"),
    ],
)
def test_what_has_no_exact_result_has_none(source: str, kind: str) -> None:
    huge = ExactNumber("1e900000") if "*" not in source else ExactNumber("9" * 1_100)
    assert answer(source, {"authoritative": huge})[0] == kind
    assert judge("authoritative > requested", huge, 1) == ("value", True)


@pytest.mark.parametrize("text", ["1e1000000000", "1" * 1_001, "0." + "1" * 1_001, "1e99999999999999999999"])
def test_digits_and_exponents_are_bounded_before_anything_is_computed(text: str) -> None:
    assert answer(f"authoritative == {text}") == ("refused", "expression.limit")
    assert len(text) < limits.EXPRESSION_MAX_BYTES


@pytest.mark.parametrize("number", [float("nan"), float("inf"), Decimal("NaN")])
def test_what_is_no_number_is_compared_with_none(number: Any) -> None:
    assert judge("authoritative == requested", number, 1)[0] == "type"
    assert judge("authoritative < requested", number, 1)[0] == "type"
    assert judge("[1, 2][authoritative] == 1", number, 1)[0] == "type"


@pytest.mark.parametrize(
    ("index", "kind"),
    [(1.0, "value"), (ExactNumber("1e4000"), "missing"), (-1, "missing"), (0.5, "type"), (2**70, "missing")],
)
def test_a_place_in_a_list_is_a_whole_number(index: Any, kind: str) -> None:
    assert judge("[1, 2][authoritative]", index, 1)[0] == kind


def test_a_computed_number_is_given_exactly() -> None:
    def given_for(source: str) -> object:
        return ENGINE.compile(source, boolean=False).evaluate(ENGINE.bind({})).value

    assert given_for("0.1 + 0.2") == 0.3
    assert given_for("1.5 * 2") == 3
    assert given_for("1.0 + 1e-18") == ExactNumber("1.000000000000000001")
