"""The base class of errors: a stable code, an exit code, the problem, and the remedy.

Used by `canon` for its own errors, and by every package above for one common tree. This module knows no error of the
packages above.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

NOT_JSON: Final = "The text is not JSON: "


class ReadbackError(Exception):
    """The root. `code` never changes between releases. `exit_code` is the exit status of the command line.

    Example:
        >>> from readback import Readback, ReadbackError
        >>> with Readback.open("memory:") as rb:
        ...     try:
        ...         rb.get("a-17")
        ...     except ReadbackError as error:
        ...         print(error.code, error.exit_code)
        ...         print(error.message)
        ...         print(error.remedy)
        input.not-found 2
        There is no action 'a-17' in tenant 'default'.
        Run `readback list` to see this tenant's ids.
    """

    code: str = "readback"
    exit_code: int = 5
    remedy_default: ClassVar[str] = ""

    def __init__(
        self,
        message: str,
        *,
        remedy: str = "",
        details: Mapping[str, object] | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy or self.remedy_default
        self.details: Mapping[str, object] = dict(details or {})
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.message} Next: {self.remedy}" if self.remedy else self.message


class CanonError(ReadbackError):
    """A value without an exact written form. The caller decides on the responsibility.

    Example:
        >>> from readback import Reading
        >>> from readback.errors import CanonError
        >>> try:
        ...     Reading.of(float("nan"))
        ... except CanonError as error:
        ...     print(error.code, error.message)
        value.unsupported $ holds the number nan.
    """

    code = "value"
    exit_code = 2


class EnvelopeProfileError(CanonError):
    """A ledger envelope breaks the profile: a float, a large integer, a key that is not ASCII.

    Example:
        >>> from readback.canon import envelope_bytes
        >>> from readback.errors import EnvelopeProfileError
        >>> try:
        ...     envelope_bytes({"seconds": 0.5})
        ... except EnvelopeProfileError as error:
        ...     print(error.code, error.message)
        value.envelope-profile The envelope holds a float at $.seconds.
    """

    code = "value.envelope-profile"
    exit_code = 6
    remedy_default = "Report this error: caller-supplied values belong in the payload."


class UnsupportedValueError(CanonError):
    """A value with no exact JSON form: NaN, infinity, a set, a lone surrogate, an unknown type.

    Example:
        >>> from readback import Reading
        >>> from readback.errors import UnsupportedValueError
        >>> try:
        ...     Reading.of({"paid", "shipped"})
        ... except UnsupportedValueError as error:
        ...     print(error.code, error.message)
        value.unsupported $ holds a value of type builtins.set.
    """

    code = "value.unsupported"
    remedy_default = "Convert it to a JSON value (text for exact numbers) before handing it over."


class ValueTooLargeError(CanonError):
    """A value over a limit of `canon.limits`: too deep, too many parts, too long.

    Example:
        >>> from readback import Reading
        >>> from readback.errors import ValueTooLargeError
        >>> try:
        ...     Reading.of("x" * 2_000_000)
        ... except ValueTooLargeError as error:
        ...     print(error.code)
        ...     print(error.remedy)
        value.too-large
        Pass a reference or a digest in place of the whole value.
    """

    code = "value.too-large"
    remedy_default = "Pass a reference or a digest in place of the whole value."


class NumberTooLargeError(ValueTooLargeError):
    """A number over a limit of `canon.limits`: too many digits, or too large an exponent. Numbers are never rounded."""

    code = "value.number-too-large"
    remedy_default = "Pass the number as a text."


class MalformedJsonError(CanonError):
    """Bytes that are not valid JSON.

    Example:
        >>> from readback.canon import parse_json
        >>> from readback.errors import MalformedJsonError
        >>> try:
        ...     parse_json(b'{"id": 7')
        ... except MalformedJsonError as error:
        ...     print(error.code, error.message)
        value.malformed-json The text is not JSON: unexpected end of data: line 1 column 9 (char 8).
    """

    code = "value.malformed-json"
    remedy_default = "Check the source of these bytes. Nothing of them was used."


def why_not_json(error: ReadbackError) -> str:
    """Return the reason why a text is no JSON, for use inside a sentence."""
    return error.message.removeprefix(NOT_JSON)
