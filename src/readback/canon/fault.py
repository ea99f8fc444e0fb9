"""The shape of every error: a stable code, an exit code, what went wrong, and what to do next.

Who uses it: `canon` for its own refusals, and `domain.errors`, which draws the whole tree. It lives on the
ground floor so that there is one tree and one root. It must not know any particular error of the rooms
above.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

NOT_JSON: Final = "The text is not JSON: "


class ReadbackError(Exception):
    """The root. `code` never changes between releases; `exit_code` is what the command line ends with."""

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
    """A value that cannot be written down exactly. The caller decides whose fault that is."""

    code = "value"
    exit_code = 2


class EnvelopeProfileError(CanonError):
    """A ledger envelope holds what the profile forbids: a float, a large integer, a key that is not ASCII."""

    code = "value.envelope-profile"
    exit_code = 6
    remedy_default = "Report this; what a caller may fill in freely belongs into the payload."


class UnsupportedValueError(CanonError):
    """A value with no exact JSON form: NaN, infinity, a set, a lone surrogate, an unknown type."""

    code = "value.unsupported"
    remedy_default = "Convert it to a JSON value (text for exact numbers) before handing it over."


class ValueTooLargeError(CanonError):
    """A value over a limit of `canon.limits`: too deep, too many parts, too long."""

    code = "value.too-large"
    remedy_default = "Pass a reference or a digest in place of the whole value."


class NumberTooLargeError(ValueTooLargeError):
    """A number over the bounds of `canon.limits`: too many digits, or too large an exponent. It is never rounded."""

    code = "value.number-too-large"
    remedy_default = "Pass the number as a text."


class MalformedJsonError(CanonError):
    """Bytes that were to be JSON and are not."""

    code = "value.malformed-json"
    remedy_default = "Look at the source of these bytes; nothing of them was used."


def why_not_json(error: ReadbackError) -> str:
    """Why a text cannot be taken, for a sentence that says itself that it is no JSON."""
    return error.message.removeprefix(NOT_JSON)
