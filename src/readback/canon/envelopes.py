"""Batch reading of envelopes into values of one type, for full reads of a log.

Called by the audit. A batch is accepted only as a whole. The caller inspects the entries of any other batch singly with
`canonical.is_envelope`, for an exact error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from readback.canon.fault import MalformedJsonError
from readback.canon.limits import ENVELOPE_MAX_BYTES, INTEGER_SAFE_MAX

Read = TypeVar("Read")

Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=-INTEGER_SAFE_MAX, le=INTEGER_SAFE_MAX)]
"""A whole number within the envelope profile."""
_Leaf: TypeAlias = str | Whole | bool | None
_Lower: TypeAlias = _Leaf | list[_Leaf] | dict[str, _Leaf]
_Upper: TypeAlias = _Leaf | list[_Lower] | dict[str, _Lower]
Filled: TypeAlias = dict[str, _Leaf | list[_Upper] | dict[str, _Upper]]
"""The usual shape of foreign content: no floats, and at most this depth."""


class EnvelopeReader(Generic[Read]):
    """Reads envelopes into structs of `kind`. The fields of `kind` must be in the order of their names, as written."""

    __slots__ = ("_decode", "_encode")

    def __init__(self, kind: type[Read]) -> None:
        self._decode: Final = msgspec.json.Decoder(kind).decode_lines
        self._encode: Final = msgspec.json.Encoder(order="deterministic").encode_lines

    def read(self, envelopes: Sequence[bytes]) -> list[Read] | None:
        """Return the parsed envelopes if each is in canonical form. Return None if any may not be.

        The reader writes the parsed values again, one a line, and compares the bytes. A canonical form has no line
        break, so no envelope can end at another position.
        """
        lines = b"\n".join([*envelopes, b""])
        if not lines.isascii() or max(map(len, envelopes), default=0) > ENVELOPE_MAX_BYTES:
            return None
        try:
            found: list[Any] = self._decode(lines)
        except msgspec.DecodeError:
            return None
        return found if len(found) == len(envelopes) and self._encode(found) == lines else None


class PartialReader(Generic[Read]):
    """Reads only the fields of `kind` from single envelopes, and skips all others.

    For counting: a fifth of the cost of a whole parse. The reader does not check the canonical form. `ledger verify`
    does.
    """

    __slots__ = ("read_raw",)

    def __init__(self, kind: type[Read]) -> None:
        self.read_raw: Final[Callable[[bytes], Read]] = msgspec.json.Decoder(kind).decode
        """Returns the named fields of an envelope. Raises ValueError for any other content."""


def plain_bytes(value: object) -> bytes:
    """Return nested dataclasses, dictionaries and lists as JSON. The inverse of `plain_value`."""
    return msgspec.json.encode(value)


def plain_value(data: bytes, kind: type[Read]) -> Read:
    """Return the value of `kind` in JSON bytes. Raises MalformedJsonError for any other content."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise MalformedJsonError(f"The content is not as expected: {error}.") from error
