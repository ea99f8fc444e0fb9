"""JSON numbers, kept exactly: an int, a float, or an `ExactNumber` for all others.

Used by this package's parser and writer, and by all code for comparing, showing or converting numbers. A float means
the shortest decimal of its double, as in JSON: 0.1 is one tenth. Nothing is rounded: a number over a limit is refused
before conversion.
"""

from __future__ import annotations

import re
from decimal import Decimal
from math import isfinite
from typing import Any, Final, TypeAlias

from readback.canon.fault import NumberTooLargeError, UnsupportedValueError
from readback.canon.limits import (
    INTEGER_SAFE_MAX,
    INTEGER_WIRE_MAX,
    INTEGER_WIRE_MIN,
    NUMBER_DIGITS_MAX,
    NUMBER_EXPONENT_MAX,
    NUMBER_TEXT_MAX_CHARS,
)

ZEROS_WRITTEN_MAX: Final = 21
"""A number with more digits before its point is written with an exponent."""
LEADING_ZEROS_MAX: Final = 6
"""A number with so many zeros between point and first digit is written with an exponent."""
DIGITS_KEPT_MAX: Final = 15
"""A double keeps every decimal of so many digits."""
_INTEGER_MAX: Final = 10 ** (NUMBER_EXPONENT_MAX + 1)
_NUMBER: Final = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?", re.ASCII)


class ExactNumber(Decimal):
    """A JSON number that is neither whole nor the shortest decimal of a double.

    It compares by value with ints, floats and decimals, where a float means its shortest decimal. `number` creates an
    `ExactNumber` only where needed.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"ExactNumber('{self}')"

    def __reduce__(self) -> tuple[type[ExactNumber], tuple[str]]:
        return ExactNumber, (str(self),)

    def __copy__(self) -> ExactNumber:
        return self

    def __deepcopy__(self, memo: object) -> ExactNumber:
        return self

    __hash__ = Decimal.__hash__

    def __eq__(self, other: object) -> bool:
        return Decimal.__eq__(self, _meant(other))

    def __ne__(self, other: object) -> bool:
        return Decimal.__ne__(self, _meant(other))

    def __lt__(self, other: Any) -> bool:
        return Decimal.__lt__(self, _meant(other))

    def __le__(self, other: Any) -> bool:
        return Decimal.__le__(self, _meant(other))

    def __gt__(self, other: Any) -> bool:
        return Decimal.__gt__(self, _meant(other))

    def __ge__(self, other: Any) -> bool:
        return Decimal.__ge__(self, _meant(other))


JsonNumber: TypeAlias = "int | float | ExactNumber"


def _meant(other: Any) -> Any:
    return Decimal(repr(other)) if type(other) is float else other


def decimal_of(value: int | float | Decimal) -> Decimal:
    """Return the exact meaning of a number. Raises UnsupportedValueError for NaN and infinity."""
    if isinstance(value, float):
        if not isfinite(value):
            raise UnsupportedValueError(f"The number {value} has no JSON form.")
        return Decimal(float.__repr__(value))
    return Decimal(value)


def same_number(one: JsonNumber, other: JsonNumber) -> bool:
    """Return whether two numbers are equal by meaning. Python compares an int with a double's binary value."""
    if type(one) is type(other):
        return bool(one == other)
    return decimal_of(one) == decimal_of(other)


def number(value: Decimal) -> JsonNumber:
    """Return the plain JSON number of a decimal: an int if whole, a float if the float means the same, else an
    ExactNumber.

    Raises NumberTooLargeError, or UnsupportedValueError for NaN and infinity.
    """
    if not value.is_finite():
        raise UnsupportedValueError(f"The number {value} has no JSON form.")
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if not value:
        return 0
    if len(digits) > NUMBER_DIGITS_MAX or abs(len(digits) - 1 + exponent) > NUMBER_EXPONENT_MAX:
        raise too_large()
    if exponent >= 0 or not any(digits[exponent:]):
        return int(value)
    near = float(value)
    return near if Decimal(repr(near)) == value else ExactNumber(value)


def whole_from(text: str) -> int:
    """Return the int for a JSON number without point and exponent. Raises NumberTooLargeError."""
    if len(text) > NUMBER_EXPONENT_MAX + 2 or not -_INTEGER_MAX < (whole := int(text)) < _INTEGER_MAX:
        raise too_large()
    return whole


def number_from(text: str) -> JsonNumber:
    """Return the number for a JSON number's text. Raises NumberTooLargeError before converting a text that is too long.

    A text with a point or an exponent becomes a float if the float means the same and is within 2^53: 1.0 is a float. A
    larger whole number becomes an int, so Python compares it exactly with other ints.
    """
    if len(text) > NUMBER_TEXT_MAX_CHARS:
        raise too_large()
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise UnsupportedValueError(f"The text {text[:40]!r} is no JSON number.")
    sign, ones, fraction, power = found.groups()
    if fraction is None and power is None:
        return whole_from(text)
    significant = (ones + (fraction or "")).lstrip("0")
    if not significant.strip("0"):
        return -0.0 if sign else 0.0
    if power is not None and len(power.lstrip("+-0")) > len(str(NUMBER_TEXT_MAX_CHARS)):
        raise too_large()
    exponent = int(power or 0) + len(significant) - len(fraction or "") - 1  # of the first digit
    if len(significant) > NUMBER_DIGITS_MAX or abs(exponent) > NUMBER_EXPONENT_MAX:
        raise too_large()
    near = float(text)
    if -INTEGER_SAFE_MAX <= near <= INTEGER_SAFE_MAX and (
        (len(significant) <= DIGITS_KEPT_MAX and abs(exponent) < 300) or Decimal(repr(near)) == Decimal(text)
    ):
        return near
    return number(Decimal(text))


def number_text(value: JsonNumber) -> str:
    """Return the unique text of a number. Equal numbers have equal texts, and the text means exactly the number.

    For doubles the text is ECMAScript's (RFC 8785, 3.2.2.3). A longer number follows the same rules with all its
    digits. Raises UnsupportedValueError, NumberTooLargeError.
    """
    if type(value) is int:
        if INTEGER_WIRE_MIN <= value <= INTEGER_WIRE_MAX:
            return str(value)
        if not -_INTEGER_MAX < value < _INTEGER_MAX:
            raise too_large()
        digits = str(abs(value))
        return _text(value < 0, digits, len(digits))
    if type(value) is float:
        return _double_text(value)
    assert isinstance(value, Decimal)
    if not value.is_finite():
        raise UnsupportedValueError(f"The number {value} has no JSON form.")
    sign, parts, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    digits = "".join(map(str, parts)).lstrip("0")
    if len(digits) > NUMBER_DIGITS_MAX or (digits and abs(len(digits) - 1 + exponent) > NUMBER_EXPONENT_MAX):
        raise too_large()
    return _text(bool(sign), digits, len(digits) + exponent)


def is_double(value: int | Decimal) -> bool:
    """Return whether a double means this number, so RFC 8785 keeps the number."""
    try:
        near = float(value)
    except OverflowError:
        return False
    return isfinite(near) and Decimal(repr(near)) == value


def is_kept(text: str, number: float) -> bool:
    """Return whether a double keeps a written number: in shortest form, or in the 17 digits used by some writers."""
    exact = Decimal(text)
    return exact in (Decimal(repr(number)), Decimal(f"{number:.17g}"))


def too_large() -> NumberTooLargeError:
    """Return the error for a number over the limits."""
    return NumberTooLargeError(
        f"A number has more than {NUMBER_DIGITS_MAX} digits, or its exponent is beyond {NUMBER_EXPONENT_MAX}."
    )


def _double_text(value: float) -> str:
    """Return the fewest digits for this double. Python uses the same digits."""
    if not isfinite(value):
        raise UnsupportedValueError(f"The number {value} has no JSON form.")
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    significant = (whole + fraction).lstrip("0")
    return _text(value < 0, significant, len(significant) - len(fraction) + int(exponent or 0))


def _text(negative: bool, significant: str, point: int) -> str:
    """Return ECMAScript's form. `point`: number of digits before the point."""
    digits = significant.rstrip("0")
    if not digits:
        return "0"
    if len(digits) <= point <= ZEROS_WRITTEN_MAX:
        text = digits.ljust(point, "0")
    elif 0 < point <= ZEROS_WRITTEN_MAX:
        text = f"{digits[:point]}.{digits[point:]}"
    elif -LEADING_ZEROS_MAX < point <= 0:
        text = f"0.{'0' * -point}{digits}"
    else:
        rest = f".{digits[1:]}" if len(digits) > 1 else ""
        text = f"{digits[0]}{rest}e{point - 1:+d}"
    return f"-{text}" if negative else text
