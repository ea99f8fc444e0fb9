"""Exact numbers: integers and decimals. A float means its shortest text. Nothing is ever rounded.

Comparisons work at any size. Arithmetic is bounded in digits, and an inexact result is a fault.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, DivisionByZero, Inexact, InvalidOperation, Overflow
from typing import Any, Final

from readback.adapters.cel.faults import Fault, Frame, spend, wrong
from readback.adapters.cel.values.kinds import NUMBER, kind_of
from readback.canon.limits import EXPRESSION_EXPONENT_MAX, EXPRESSION_NUMBER_MAX_DIGITS

Number = int | Decimal
_FLOAT_EXACT: Final = 2.0**53
_BITS_MAX: Final = EXPRESSION_NUMBER_MAX_DIGITS * 3_322 // 1_000
_CONTEXT: Final = Context(
    prec=EXPRESSION_NUMBER_MAX_DIGITS,
    Emax=MAX_EMAX,
    Emin=MIN_EMIN,
    traps=[Inexact, InvalidOperation, Overflow, DivisionByZero],
)
_DIGIT: Final = 16
"""Steps for one digit of a decimal in a calculation."""
_TEXT_MAX: Final = EXPRESSION_NUMBER_MAX_DIGITS + 16
_COMPARED_BITS_MAX: Final = 65_536
TEXT_MAX_CHARS: Final = 400
_WRITTEN: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""The common notation. Python also accepts blanks, underscores and other digits."""
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")


def exact(value: Any) -> Number:
    """Return the number of a value. Raises Fault for a value of another kind."""
    kind = type(value)
    if kind is int:
        return int(value)
    if kind is bool or not isinstance(value, (int, float, Decimal)):
        raise wrong(f"{kind_of(value)} is not a number")
    if isinstance(value, float):
        value = Decimal(repr(value))
    if not isinstance(value, Decimal):
        return int(value)
    if not value.is_finite():
        raise wrong("a number is none: it is infinite, or not a number")
    return value


def is_number(value: object) -> bool:
    kind = type(value)
    return kind is int or kind is float or (kind is not bool and isinstance(value, (int, float, Decimal)))


def equal(one: Any, other: Any) -> bool:
    """Return whether two numbers are equal."""
    if type(one) is type(other) and type(one) in (int, float):
        return bool(one == other)  # distinct floats have distinct shortest texts
    return bool(_exactly(one) == _exactly(other))


def less(one: Any, other: Any) -> bool:
    if type(one) is type(other) and type(one) in (int, float):
        return bool(one < other)
    return bool(_exactly(one) < _exactly(other))


def _exactly(value: Any) -> Any:
    """Return `exact`, or for small whole floats an int."""
    if type(value) is float:
        if -_FLOAT_EXACT < value < _FLOAT_EXACT and value == int(value):
            return int(value)
        return exact(value)
    return value if type(value) is int else exact(value)


def _calculable(frame: Frame, value: Any) -> Number:
    """Check the bounds of arithmetic."""
    number = exact(value)
    if isinstance(number, Decimal):
        length = len(str(number))
        spend(frame, _DIGIT * length)
        if abs(number.adjusted()) > EXPRESSION_EXPONENT_MAX or length > _TEXT_MAX:
            raise _too_long()
    elif number.bit_length() > _BITS_MAX:
        raise _too_long()
    return number


def _too_long() -> Fault:
    return Fault("limit", f"a number has over {EXPRESSION_NUMBER_MAX_DIGITS} digits")


def _arithmetic(
    whole: Callable[[int, int], int], decimal: Callable[[Context, Decimal, Decimal], Decimal]
) -> Callable[[Frame, Any, Any], Number]:
    def calculate(frame: Frame, one: Any, other: Any) -> Number:
        left, right = _calculable(frame, one), _calculable(frame, other)
        if isinstance(left, int) and isinstance(right, int):
            result: Number = whole(left, right)
            if isinstance(result, int) and result.bit_length() > _BITS_MAX:
                raise _too_long()
            return result
        try:
            return decimal(_CONTEXT.copy(), _decimal(left), _decimal(right))
        except Inexact as error:
            raise Fault("error", "the result has no exact form as a decimal of a thousand digits") from error
        except (InvalidOperation, Overflow, DivisionByZero) as error:
            raise Fault("error", "a division by zero" if not right else "a number is too large") from error

    return calculate


def _decimal(number: Number) -> Decimal:
    return number if isinstance(number, Decimal) else Decimal(number)


def _quotient(one: int, other: int) -> int:
    if not other:
        raise Fault("error", "a division by zero")
    found = abs(one) // abs(other)
    return -found if (one < 0) != (other < 0) else found


def _rest(one: int, other: int) -> int:
    if not other:
        raise Fault("error", "a division by zero")
    found = abs(one) % abs(other)
    return -found if one < 0 else found


def _no_rest(context: Context, one: Decimal, other: Decimal) -> Decimal:
    raise wrong("`%` takes whole numbers")


plus: Final = _arithmetic(lambda a, b: a + b, Context.add)
minus: Final = _arithmetic(lambda a, b: a - b, Context.subtract)
times: Final = _arithmetic(lambda a, b: a * b, Context.multiply)
over: Final = _arithmetic(_quotient, Context.divide)
modulo: Final = _arithmetic(_rest, _no_rest)


def negated(value: Any) -> Number:
    number = exact(value)
    return number.copy_negate() if isinstance(number, Decimal) else -number


# --- conversions ---


def written(text: str) -> Decimal:
    """Return the decimal of a text."""
    if len(text) > TEXT_MAX_CHARS:
        raise wrong("a text that long is not a decimal")
    if _WRITTEN.fullmatch(text) is None:
        raise wrong("a text is not a decimal")
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise wrong("the decimal has too large an exponent") from error


def decimal_of(value: object) -> Number:
    """Return the decimal of a number or of a number's text, for `dec_eq` and `dec_cmp`."""
    if isinstance(value, str):
        return written(value)
    if kind_of(value) != NUMBER:
        raise wrong(f"{kind_of(value)} is not a decimal")
    return exact(value)


def whole_of(frame: Frame, value: object) -> int:
    """Return the integer of a number, without the fraction, or of a text of digits, for `int`."""
    if isinstance(value, str):
        if len(value) > TEXT_MAX_CHARS or _WHOLE.fullmatch(value) is None:
            raise wrong("a text is not a whole number")
        return int(value)
    number = _calculable(frame, value)
    if isinstance(number, Decimal) and number.adjusted() > EXPRESSION_NUMBER_MAX_DIGITS:
        raise _too_long()
    return int(number)


def digits_of(frame: Frame, value: object) -> str:
    """Return plain digits for `string`: no exponent, no trailing zeros in a fraction."""
    number = _calculable(frame, value)
    if isinstance(number, int):
        return str(number)
    if abs(number.adjusted()) > EXPRESSION_NUMBER_MAX_DIGITS:
        raise _too_long()
    text = f"{number:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def canonical(value: Any) -> str:
    """Return one text for equal numbers in every notation. Short for a short number."""
    number = exact(value)
    if isinstance(number, int):
        if -(10**15) < number < 10**15 and number % 10:
            return f"{number}e0"
        if number.bit_length() > _COMPARED_BITS_MAX:
            raise Fault("limit", "a whole number is too long")
        number = Decimal(number)
    sign, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    short = text.rstrip("0")
    if not short:
        return "0e0"
    return f"{'-' if sign else ''}{short}e{int(exponent) + len(text) - len(short)}"
