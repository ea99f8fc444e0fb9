"""JSON numbers, kept exactly: an int, a float, or an `ExactNumber` for what neither of the two keeps.

Who calls it: the parser and the writer of this room, and the rooms that compare, show or convert numbers. A float means
its shortest decimal that reads back as the same double, which is how JSON writes it: 0.1 is one tenth. It must not
round: a number over the bounds is refused before it is converted.
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
"""And one with so many zeros behind it, before the first digit."""
DIGITS_KEPT_MAX: Final = 15
"""A double keeps every decimal of so many digits."""
_INTEGER_MAX: Final = 10 ** (NUMBER_EXPONENT_MAX + 1)
_NUMBER: Final = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?", re.ASCII)


class ExactNumber(Decimal):
    """A JSON number that is no whole number, and that no double's shortest decimal is.

    It equals, and is ordered with, ints, floats and decimals by value, where a float means its shortest decimal.
    `number` makes one where one is needed.
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
    """What a number means, exactly. Raises UnsupportedValueError for NaN and infinity."""
    if isinstance(value, float):
        if not isfinite(value):
            raise UnsupportedValueError(f"The number {value} has no JSON form.")
        return Decimal(float.__repr__(value))
    return Decimal(value)


def same_number(one: JsonNumber, other: JsonNumber) -> bool:
    """Whether two numbers are one by value. Python compares an int with what a double holds, not with what it means."""
    if type(one) is type(other):
        return bool(one == other)
    return decimal_of(one) == decimal_of(other)


def number(value: Decimal) -> JsonNumber:
    """The plain JSON number of a decimal: an int where it is whole, a float where the float means the same, else an
    ExactNumber. Raises NumberTooLargeError, or UnsupportedValueError for NaN and infinity.
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
    """The int that the text of a JSON number without point and exponent means. Raises NumberTooLargeError."""
    if len(text) > NUMBER_EXPONENT_MAX + 2 or not -_INTEGER_MAX < (whole := int(text)) < _INTEGER_MAX:
        raise too_large()
    return whole


def number_from(text: str) -> JsonNumber:
    """The number that a JSON number's text means. Raises NumberTooLargeError before it converts what is too long.

    A float stays where the text has a point or an exponent and the float means the same and is within 2^53: 1.0 is a
    float. A larger one is an int, so that Python's comparison with other ints is exact.
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
    """The one text of a number: equal numbers have equal texts, and the text means exactly the number.

    Of what a double keeps it is ECMAScript's (RFC 8785, 3.2.2.3); a number with more digits is written by the same
    rules, with all its digits. Raises UnsupportedValueError, NumberTooLargeError.
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
    """Whether a double means this number, so that RFC 8785 keeps it."""
    try:
        near = float(value)
    except OverflowError:
        return False
    return isfinite(near) and Decimal(repr(near)) == value


def is_kept(text: str, number: float) -> bool:
    """Whether a double keeps a number as it is written: in its shortest form, or in the 17 digits that some write."""
    exact = Decimal(text)
    return exact in (Decimal(repr(number)), Decimal(f"{number:.17g}"))


def too_large() -> NumberTooLargeError:
    """The error of a number over the bounds."""
    return NumberTooLargeError(
        f"A number has more than {NUMBER_DIGITS_MAX} digits, or its exponent is beyond {NUMBER_EXPONENT_MAX}."
    )


def _double_text(value: float) -> str:
    """The fewest digits that give this double, which are Python's too."""
    if not isfinite(value):
        raise UnsupportedValueError(f"The number {value} has no JSON form.")
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    significant = (whole + fraction).lstrip("0")
    return _text(value < 0, significant, len(significant) - len(fraction) + int(exponent or 0))


def _text(negative: bool, significant: str, point: int) -> str:
    """As ECMAScript writes it. `point`: so many of the digits stand before the point."""
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
