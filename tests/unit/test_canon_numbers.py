"""Numbers from text to bytes and back: none is rounded, equal ones are written alike, and no two share their bytes."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import pickle
import sys
from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from readback.canon import (
    ExactNumber,
    Json,
    MalformedJsonError,
    NumberTooLargeError,
    UnsupportedValueError,
    decimal_of,
    hashed_bytes,
    json_text,
    json_value,
    number,
    number_text,
    parse_json,
    payload_bytes,
    stored_bytes,
)
from readback.domain.idempotency import asked_hash, key_hash, request_hash
from readback.domain.kind import Kind

DIGITS = st.text("0123456789", min_size=1, max_size=40)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Numbers as JSON may write them."""
    whole = draw(DIGITS).lstrip("0") or "0"
    fraction = draw(st.just("") | DIGITS.map(lambda digits: f".{digits}"))
    power = draw(
        st.just("") | st.tuples(st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.integers(0, 330)).map(_power)
    )
    return draw(st.sampled_from(["", "-"])) + whole + fraction + power


def _power(parts: tuple[str, str, int]) -> str:
    return "".join(map(str, parts))


NUMBERS = (
    texts().map(lambda text: parse_json(text))
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
)


@given(texts())
@example("1.000000000000000001")
@example("9007199254740993.0")
@example("0.30000000000000001665")
@example("9007199254740993e0")
@example("1e23")
@example("100000000000000000001")
@example("1E5")
@example("-0")
@example("5e-324")
@example("2e-324")
def test_a_number_is_read_as_exactly_what_its_text_says(text: str) -> None:
    for whole in (text, f'{{"n": {text}}}', f"[{text}]", f"[1,{text},2]", f'{{"n":{text}}}', f"[\n\t{text} ]"):
        for given_as in (whole, whole.encode()):
            found: Any = parse_json(given_as)
            read = found if whole == text else found["n"] if isinstance(found, dict) else found[whole.count(",") // 2]
            assert decimal_of(read) == Decimal(text), given_as
            assert type(read) in (int, float, ExactNumber)


@given(texts())
def test_what_a_double_keeps_stays_a_plain_number(text: str) -> None:
    read = parse_json(text)
    exact = Decimal(text)
    if isinstance(read, ExactNumber):
        assert exact != exact.to_integral_value()
        assert Decimal(repr(float(text))) != exact


@given(NUMBERS, NUMBERS)
@example(1e23, 10**23)
@example(9007199254740992.0, 9007199254740992)
@example(0.1, ExactNumber("0.1000000000000000055511151231257827021181583404541015625"))
@example(2.0**63, 2**63)
@example(2.0**63, 9223372036854776000)
def test_two_numbers_have_the_same_bytes_exactly_where_they_are_equal(one: Any, other: Any) -> None:
    same = decimal_of(one) == decimal_of(other)
    assert (payload_bytes(one) == payload_bytes(other)) is same
    assert (payload_bytes({"a": [one]}) == payload_bytes({"a": [other]})) is same
    assert (hashed_bytes("x", [one]) == hashed_bytes("x", [other])) is same
    assert (request_hash(Kind.SET, "t", {"n": one}) == request_hash(Kind.SET, "t", {"n": other})) is same
    assert (asked_hash("c", {"n": one}) == asked_hash("c", {"n": other})) is same
    assert (key_hash("t", "c", {"n": one}) == key_hash("t", "c", {"n": other})) is same


@given(NUMBERS)
def test_what_is_written_is_read_back_as_the_same_number_with_the_same_bytes(value: Json) -> None:
    assert isinstance(value, int | float | ExactNumber)
    for written in (payload_bytes(value), stored_bytes([value])[1:-1]):
        again = parse_json(written)
        assert isinstance(again, int | float | ExactNumber)
        assert decimal_of(again) == decimal_of(value)
        assert payload_bytes(again) == payload_bytes(value)
        assert json.loads(written, parse_float=Decimal, parse_int=Decimal) == decimal_of(value)


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.floats(allow_nan=False, allow_infinity=False)
        | st.integers(-(2**63), 2**64 - 1)
        | st.text(max_size=5)
        | st.none(),
        max_size=5,
    )
)
def test_the_hash_of_a_request_that_was_always_kept_exactly_is_what_it_was(arguments: dict[str, Json]) -> None:
    before = hashlib.sha256(payload_bytes(["readback/request/1", "set", "t", arguments])).hexdigest()
    assert request_hash(Kind.SET, "t", arguments) == before


def test_hashes_of_the_first_form_are_these() -> None:
    """Written by the form before numbers were kept exactly."""
    arguments: dict[str, Json] = {"amount": 12.5, "count": 3, "row": 2**60 + 1, "big": 1e21, "name": "é", "small": 1e-7}
    assert request_hash(Kind.SET, "account/1", arguments) == REQUEST_BEFORE
    assert key_hash("acme", "pay", {"amount": 12.5, "row": 2**60 + 1}) == KEY_BEFORE
    assert asked_hash("pay", arguments) == ASKED_BEFORE


REQUEST_BEFORE = "1a00e5dbdaaf0d0301aba323cd0d9e5c5f7fcf665faaa5763269089b1fb5aa3f"
KEY_BEFORE = "7f9148c864dd5ac3063afce5d3c3ffefa6b68b32456b332eb9dc9424c67cc281"
ASKED_BEFORE = "aa493f4da29324ac1036b781fd8eb505abff700edf12b09bdd8e93e74d9fa1c6"


@given(NUMBERS)
def test_the_form_of_a_hash_says_whether_a_double_or_64_bits_keep_the_number(value: Any) -> None:
    kept = isinstance(value, float) or (isinstance(value, int) and -(2**63) <= value < 2**64)
    beyond = not (kept or _is_double(value))
    assert hashed_bytes("x", [value]).startswith(b'["x/2"' if beyond else b'["x/1"')


def _is_double(value: Any) -> bool:
    try:
        return bool(Decimal(repr(float(value))) == value)
    except OverflowError:
        return False


@given(NUMBERS, NUMBERS)
def test_an_exact_number_compares_by_value_with_every_other_kind(one: Any, other: Any) -> None:
    left, right = ExactNumber(decimal_of(one)), decimal_of(other)
    assert (left == other) is (left.compare(right) == 0) is (other == left)
    assert (left != other) is (left.compare(right) != 0)
    assert (left < other) is (left.compare(right) < 0) is (other > left)
    assert (left <= other) is (left.compare(right) <= 0)
    assert (left > other) is (left.compare(right) > 0)
    assert (left >= other) is (left.compare(right) >= 0)


def test_an_exact_number_is_itself_through_copies_and_pickles() -> None:
    value = ExactNumber("1.000000000000000001")
    for again in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value)), json_value(value)):  # noqa: S301
        assert type(again) is ExactNumber
        assert again == value
    assert repr(value) == "ExactNumber('1.000000000000000001')"
    assert {value: 1}[ExactNumber("1.0000000000000000010")] == 1
    assert ExactNumber("1") != "1"


def test_a_decimal_of_the_callers_stays_its_text_and_a_number_stays_a_number() -> None:
    assert json_value(Decimal("1.10")) == "1.10"
    taken = json_value({"a": [ExactNumber("1.000000000000000001")]})
    assert payload_bytes(taken) == b'{"a":[1.000000000000000001]}'
    assert json_value(ExactNumber("1.10")) == 1.1
    assert type(json_value(ExactNumber("2.00"))) is int
    assert type(number(Decimal("1e2"))) is int
    assert number_text(number(Decimal("0.10"))) == "0.1"


@pytest.mark.parametrize("value", [math.nan, math.inf, ExactNumber("NaN"), ExactNumber("-Infinity")])
def test_what_is_no_number_is_refused(value: Any) -> None:
    for refuse in (json_value, payload_bytes):
        with pytest.raises(UnsupportedValueError):
            refuse(value)
    with pytest.raises(UnsupportedValueError):
        number_text(value)


@pytest.mark.parametrize("text", ["[NaN]", "[Infinity]", "[-Infinity, 1e5]", "[1.000000000000000001, NaN]"])
def test_a_text_with_a_number_that_json_has_not_is_no_json(text: str) -> None:
    with pytest.raises(MalformedJsonError):
        parse_json(text)


@pytest.mark.parametrize(
    "text",
    [
        "1" * 402,
        "-" + "1" * 402,
        "1e401",
        "1e999999999999999999999",
        "1e-401",
        "1e-999999999",
        "0." + "1" * 801,
        "1." + "0" * 100_000,
        "9" * 1_000_000,
        "0." + "0" * 1_000_000 + "1",
    ],
)
def test_a_number_over_the_bounds_is_refused_before_it_is_converted(text: str) -> None:
    for whole in (text, f'{{"a": {text}}}'):
        with pytest.raises(NumberTooLargeError):
            parse_json(whole)


@pytest.mark.parametrize("value", [10**401, -(10**401), 1 << 14_000, ExactNumber("1e401"), ExactNumber("1e-401")])
def test_a_number_of_python_over_the_bounds_is_refused(value: Any) -> None:
    for refuse in (json_value, payload_bytes, lambda each: json_value({"a": each})):
        with pytest.raises(NumberTooLargeError):
            refuse(value)


@pytest.mark.parametrize("text", ["0e999", "0.000e-999", "-0e9999999999", "0E5"])
def test_nothing_is_zero_whatever_its_exponent(text: str) -> None:
    assert parse_json(text) == 0
    assert payload_bytes(parse_json(text)) == b"0"


def test_the_largest_numbers_within_the_bounds_are_kept() -> None:
    for text in ("9" * 401, "1e400", "1e-400", "0." + "1" * 800, sys.float_info.max.__repr__(), "5e-324"):
        assert decimal_of(parse_json(text)) == Decimal(text)  # type: ignore[arg-type]
        assert parse_json(payload_bytes(parse_json(text))) == parse_json(text)


JSONS = st.recursive(
    st.none() | st.booleans() | texts() | st.text(max_size=8).map(json.dumps),
    lambda parts: (
        st.lists(parts, max_size=4).map(lambda each: "[" + ", ".join(map(_written, each)) + "]")
        | st.dictionaries(st.text(max_size=4).map(json.dumps), parts, max_size=4).map(
            lambda each: "{" + ",".join(f"{name}:{_written(part)}" for name, part in each.items()) + "}"
        )
    ),
    max_leaves=8,
).map(lambda each: _written(each))


def _written(part: Any) -> str:
    return part if isinstance(part, str) else json.dumps(part)


@given(JSONS)
def test_every_document_is_read_exactly(text: str) -> None:
    read = parse_json(text)
    assert _decimals(read) == json.loads(text, parse_float=Decimal, parse_int=Decimal)


def _decimals(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _decimals(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_decimals(part) for part in value]
    return value if isinstance(value, bool) or not isinstance(value, int | float | Decimal) else decimal_of(value)


@given(st.binary(max_size=40) | st.text(max_size=40).map(lambda each: each.encode("utf-8", "surrogatepass")))
@example(b'["\\ud800", 1e5]')
@example(b'{"\\udc00x": 1e5}')
@example(b'["\xff", 1e5]')
@example(b"\xef\xbb\xbf[1e5]")
@example(b"[1e5,]")
@example(b"[01e5]")
@example(b"[1.e5]")
@example(b'["\\u00e9", 1e5] x')
def test_what_is_no_json_is_refused_alike_by_both_readers(data: bytes) -> None:
    try:
        orjson.loads(data)
        valid = True
    except orjson.JSONDecodeError as error:
        valid = "infinity" in str(error)
    try:
        parse_json(data)
    except MalformedJsonError:
        assert not valid
    except NumberTooLargeError:
        assert valid
    else:
        assert valid


@given(
    st.recursive(
        NUMBERS | st.text(max_size=6) | st.booleans() | st.none(),
        lambda parts: st.lists(parts, max_size=4) | st.dictionaries(st.text(max_size=4), parts, max_size=4),
        max_leaves=8,
    ),
    st.sampled_from([None, 2]),
    st.booleans(),
)
def test_what_is_shown_holds_every_number_with_all_its_digits(value: Any, indent: int | None, plainly: bool) -> None:
    shown = json_text(value, indent=indent, sort_keys=plainly, ensure_ascii=plainly, compact=plainly and indent is None)
    assert json.loads(shown, parse_float=Decimal, parse_int=Decimal) == _decimals(value)
    with_texts = json.loads(json.dumps(value, default=str))
    if with_texts == value:
        assert shown == json.dumps(
            value,
            indent=indent,
            sort_keys=plainly,
            ensure_ascii=plainly,
            separators=(",", ":") if plainly and indent is None else None,
        )
    assert json_text([value, ExactNumber("0.10000000000000000001")], indent=indent).endswith(
        "0.10000000000000000001]" if indent is None else "0.10000000000000000001\n]"
    )


def test_what_is_no_json_cannot_be_shown() -> None:
    for value in ({1, 2}, {"a": object(), "n": ExactNumber("0.1")}):
        with pytest.raises(TypeError):
            json_text(value)


@pytest.mark.parametrize(
    "value",
    [
        {"whole": 1.0, "large": 1e300},
        {"edge": 2.0**53, "above": 1e16, "least": 5e-324, "most": 1.7976931348623157e308},
        [1.0, ExactNumber("0.30000000000000001665"), 10**30, -0.0],
    ],
    ids=["large", "edges", "exact"],
)
def test_what_is_stored_is_stored_again_as_the_same_bytes(value: object) -> None:
    """A citation of an outcome at hand and of the ledger's copy bind the same bytes."""
    kept = stored_bytes(json_value(value))
    assert stored_bytes(parse_json(kept)) == kept
    assert json_value(parse_json(kept)) == json_value(value)
